/* SPDX-License-Identifier: MIT */
/*
 * A software GPU for tests: a libcuda.so.1 with the driver's functions that tent and its tests use.
 * It is stricter than a GPU, so that errors of a program are noticed:
 *
 * - A device pointer is an address of a PROT_NONE mapping, so the program that touches it gets a
 *   SIGSEGV. The software GPU reaches the same bytes by a second mapping.
 * - A copy runs in the thread of its stream, so it ends after the function that started it.
 * - Handles (cuIpcGetMemHandle) exist for memory of cuMemAlloc only, not for that of pools, and
 *   cannot be opened in the process that made them.
 * - Functions that need a current context, or a stream of the current context, refuse others.
 * - After a fork() the child has no GPU.
 *
 * SOFTGPU_DEVICES is the number of devices (2).
 *
 * The functions below are for tests. A test finds them with dlsym(3); a real driver lacks them.
 */
#ifndef TENT_SOFTGPU_H
#define TENT_SOFTGPU_H

struct cu_stream;

#pragma GCC visibility push(default)

/* True: no stream executes anything until softgpu_hold(0). */
void softgpu_hold(int held);
/* This stream executes nothing until softgpu_hold_stream(NULL). */
void softgpu_hold_stream(struct cu_stream *s);

/*
 * The @nth copy that a stream executes from now on (1: the next one) fails with @error. From then
 * on its context refuses everything with this error, as after a fault of a kernel.
 */
void softgpu_fail_copy(unsigned nth, int error);

/* The next call of the function with this name returns @error and does nothing. */
void softgpu_fail_call(const char *name, int error);

/*
 * Clears the errors of all contexts, which a real GPU does only at the end of the process. Drops
 * the work that a context has received before.
 */
void softgpu_heal(void);

/* The number of handles that this process has opened and not closed, and of host registrations. */
unsigned softgpu_opened(void);
unsigned softgpu_registered(void);
/* The number of copies that streams have executed. */
unsigned softgpu_copies(void);

#pragma GCC visibility pop

#endif
