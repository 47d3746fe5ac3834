/* SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "backend.h"

extern const struct backend backend_delegation, backend_meta, backend_direct, backend_ucx;

const struct backend *const backends[] = {
	&backend_delegation,
	&backend_meta,
	&backend_direct,
#ifdef HAVE_UCX
	&backend_ucx,
#endif
	NULL,
};

#ifdef HAVE_UCX
const char backends_lacking[] = "";
#else
const char backends_lacking[] = " (ucx is left out of this build)";
#endif
