/* SPDX-License-Identifier: MIT */
/*
 * The stack on which a posting thread executes its messages, in the handler of the fault that its
 * doorbell store raises. The kernel calls the handler on the thread's alternate signal stack if
 * there is one, so that a program can handle the overflow of its stack. The alternate stack may be
 * small, and the execution of a message needs some 20 KiB, so it runs on the stack that the store
 * interrupted.
 */
#ifndef SOFTHCA_TRAP_STACK_H
#define SOFTHCA_TRAP_STACK_H

#include <ucontext.h>

/*
 * Calls @fn with @arg on the stack that the signal with context @uc has interrupted. If this is
 * another stack than the handler's, the alternate stack is disabled during the call; the return
 * from the handler restores it.
 */
void stack_call(const ucontext_t *uc, void (*fn)(void *arg), void *arg);

#endif
