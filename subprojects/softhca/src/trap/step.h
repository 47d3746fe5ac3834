/* SPDX-License-Identifier: MIT */
/*
 * Handles a store to a doorbell page whose instruction cannot be decoded. The page is made
 * writable, the processor executes this one instruction (single step), and each doorbell register
 * of the page that has changed is handled as a store to the device.
 *
 *	idle -> step_begin() -> stepping -> step_end() -> idle, for each thread
 *
 * During the step the page is writable for all threads of the process. A store of another thread in
 * that time is executed together with this thread's store. The other thread's store is lost if it
 * comes before step_begin() has cleared the registers, or if a later store overwrites it. No
 * provider rings doorbells with the instructions that are not decoded (decode_x86.h).
 */
#ifndef SOFTHCA_TRAP_STEP_H
#define SOFTHCA_TRAP_STEP_H

#include <stdbool.h>
#include <ucontext.h>

#include "trap/uctx.h"

/* To be called by the handler of the fault: lets the processor execute the instruction. */
void step_begin(ucontext_t *uc, uint64_t page, struct uctx *u);

/* Returns true if this thread is stepping. */
bool step_active(void);

/* To be called by the handler of the trap after the instruction. */
void step_end(ucontext_t *uc);

#endif
