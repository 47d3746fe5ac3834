/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "hca/objects.h"
#include "softhca.h"

__attribute__((visibility("default"))) int softhca_counters_self(struct softhca_counters *out)
{
	sigset_t saved;

	if (!fabric_self.arena)
		return -ENODEV;
	fabric_enter(&saved);
	*out = *counters_of(fabric_self.slot);
	fabric_leave(&saved);
	return 0;
}
