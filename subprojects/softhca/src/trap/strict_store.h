/* SPDX-License-Identifier: MIT */
/* Strict mode: checks of stores to doorbell pages. The fabric's mutex is held. */
#ifndef SOFTHCA_TRAP_STRICT_STORE_H
#define SOFTHCA_TRAP_STRICT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"
#include "trap/uctx.h"

/*
 * Checks the doorbell @bytes (8 bytes) of @qp, whose doorbell record says @pi. Returns false if
 * nothing new is posted, the ring is overrun, or the bytes do not match a posted WQE.
 */
bool strict_doorbell(struct qp *qp, uint32_t pi, const uint8_t *bytes);

/*
 * Checks that a store of @size bytes at @offset of a doorbell page, which is in one of its
 * BlueFlame buffers, has the same bytes as the queue.
 */
void strict_blueflame(const struct uctx *u, uint32_t offset, const uint8_t *bytes, uint32_t size);

#endif
