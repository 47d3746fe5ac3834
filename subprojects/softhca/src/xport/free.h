/* SPDX-License-Identifier: MIT */
/* Destruction of objects and of what belongs to them. The fabric's mutex is held. */
#ifndef SOFTHCA_XPORT_FREE_H
#define SOFTHCA_XPORT_FREE_H

#include "hca/objects.h"

/* Destroys one object, its records and FIFO, and ends a copy that it is in. */
void obj_free(enum obj_kind kind, uint32_t index);

/* Destroys all objects of a context, or of a process. */
void objects_free_ctx(uint32_t ctx);
void objects_reap(uint32_t slot);

#endif
