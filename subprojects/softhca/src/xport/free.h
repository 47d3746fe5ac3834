/* SPDX-License-Identifier: MIT */
/* Destroys objects and everything that belongs to them. The caller must hold the fabric's mutex. */
#ifndef SOFTHCA_XPORT_FREE_H
#define SOFTHCA_XPORT_FREE_H

#include "hca/objects.h"

/* Destroys one object, with its trace ring or FIFO. Ends the copy that a QP is sending (copy.h). */
void obj_free(enum obj_kind kind, uint32_t index);

/* Destroys all objects of a context, or of a process. */
void objects_free_ctx(uint32_t ctx);
void objects_reap(uint32_t slot);

#endif
