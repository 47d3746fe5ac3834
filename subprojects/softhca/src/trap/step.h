/* SPDX-License-Identifier: MIT */
/*
 * Stores to a doorbell page that cannot be decoded: the page becomes memory, the processor
 * executes the one instruction, and what it has changed is executed on the device.
 *
 * For that instruction the page is memory for all threads of the process: what another
 * thread stores there at the same moment is executed with it, or lost if it comes between
 * the look at the registers and the protection. String instructions and masked stores are
 * the ones that come here, and no provider rings doorbells with them.
 */
#ifndef SOFTHCA_TRAP_STEP_H
#define SOFTHCA_TRAP_STEP_H

#include <stdbool.h>
#include <ucontext.h>

#include "trap/uctx.h"

/* In the handler of the fault: has the processor execute the instruction. */
void step_begin(ucontext_t *uc, uint64_t page, struct uctx *u);

/* Whether this thread is executing one. */
bool step_active(void);

/* In the handler of the trap after it. */
void step_end(ucontext_t *uc);

#endif
