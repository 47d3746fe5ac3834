/* SPDX-License-Identifier: MIT */
/* Strict mode: what is stored to a doorbell page. The fabric's mutex is held. */
#ifndef SOFTHCA_TRAP_STRICT_STORE_H
#define SOFTHCA_TRAP_STRICT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"
#include "trap/uctx.h"

/*
 * The doorbell of @qp is rung with the 8 bytes @bytes while its record says @pi. False:
 * nothing new is posted, the ring is overrun, or the bytes name no posted entry.
 */
bool strict_doorbell(struct qp *qp, uint32_t pi, const uint8_t *bytes);

/*
 * A store of @size bytes at @offset of a doorbell page, into one of its BlueFlame buffers,
 * must repeat what the queue holds.
 */
void strict_blueflame(const struct uctx *u, uint32_t offset, const uint8_t *bytes, uint32_t size);

#endif
