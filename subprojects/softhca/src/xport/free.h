/* SPDX-License-Identifier: MIT */
/* Destroys objects and everything that belongs to them. The caller must hold the fabric's mutex. */
#ifndef SOFTHCA_XPORT_FREE_H
#define SOFTHCA_XPORT_FREE_H

#include "hca/objects.h"

/*
 * Destroys one object, its records and its FIFO. A copy of data that uses the object is abandoned.
 */
void obj_free(enum obj_kind kind, uint32_t index);

/* Destroys all objects of a context, or of a process. */
void objects_free_ctx(uint32_t ctx);
void objects_reap(uint32_t slot);

#endif
