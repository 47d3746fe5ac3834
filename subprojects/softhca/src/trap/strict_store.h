/* SPDX-License-Identifier: MIT */
/*
 * Strict mode: checks stores to doorbell pages, and reports violations. The caller must hold the
 * fabric's mutex.
 */
#ifndef SOFTHCA_TRAP_STRICT_STORE_H
#define SOFTHCA_TRAP_STRICT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"
#include "trap/device.h"

/*
 * Checks the doorbell @bytes (8 bytes) of @qp, whose doorbell record contains @pi. Returns false if
 * nothing new is posted, the ring is overrun, or the bytes do not match a posted WQE.
 */
bool strict_doorbell(struct qp *qp, uint32_t pi, const uint8_t *bytes);

/* Returns true if the store is to the doorbell register of the QP. */
bool strict_register(const struct qp *qp, const struct device_store *st);

/* Returns true if the store that arms @cq is to the page of the CQ. */
bool strict_arm_page(const struct cq *cq, const struct device_store *st);

/*
 * Checks that a store to a BlueFlame buffer has the same bytes as the queue, and that copies
 * alternate between the halves of the register.
 */
void strict_blueflame(const struct device_store *st);

#endif
