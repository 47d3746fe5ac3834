/* SPDX-License-Identifier: MIT */
/*
 * Which stack a message is executed on. The kernel calls the fault handler on the
 * thread's alternate signal stack if it has one, so that a program can handle the
 * overflow of its stack. That stack may be small, and executing a message takes some
 * 20 KiB, so this is done on the stack that the doorbell's store interrupted.
 */
#ifndef SOFTHCA_TRAP_STACK_H
#define SOFTHCA_TRAP_STACK_H

#include <ucontext.h>

/*
 * Calls @fn with @arg from the handler of the signal with context @uc, on the interrupted
 * stack. The alternate stack is off meanwhile; the return from the handler restores it.
 */
void stack_call(const ucontext_t *uc, void (*fn)(void *arg), void *arg);

#endif
