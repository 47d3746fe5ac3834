/* SPDX-License-Identifier: MIT */
/* Destruction of objects, with what goes on around them. The fabric's mutex is held. */
#ifndef SOFTHCA_XPORT_FREE_H
#define SOFTHCA_XPORT_FREE_H

#include "hca/objects.h"

void obj_free(enum obj_kind kind, uint32_t index);

/* Destroys all that a context, or a process, made. */
void objects_free_ctx(uint32_t ctx);
void objects_reap(uint32_t slot);

#endif
