/* SPDX-License-Identifier: MIT */
/*
 * A software GPU for tests: a libcuda.so.1 with the driver's functions that tent and its tests use.
 * It is stricter than a GPU, so that errors of a program are noticed:
 *
 * - A device pointer is an address of a PROT_NONE mapping, so the program that touches it gets a
 *   SIGSEGV. The software GPU reaches the same bytes by a second mapping.
 * - A copy runs in the thread of its stream, so it may not have ended when cuMemcpyAsync returns.
 * - Handles (cuIpcGetMemHandle) exist for memory of cuMemAlloc only, not for that of pools, and
 *   cannot be opened in the process that made them.
 * - Functions that need a current context, or a stream of the current context, fail without it.
 * - A child of a process that has called cuInit has no GPU.
 *
 * SOFTGPU_DEVICES is the number of devices (2).
 */
#ifndef TENT_SOFTGPU_H
#define TENT_SOFTGPU_H

#include "../../src/cuda.h"

/*
 * X(result, name, arguments): the functions that only tests use, which find them with dlsym(3).
 * The softgpu_ functions control the software GPU; a real driver lacks them:
 *
 * - softgpu_hold(): with 1, no stream executes anything until softgpu_hold(0).
 * - softgpu_hold_stream(): this stream executes nothing until softgpu_hold_stream(NULL).
 * - softgpu_fail_copy(): the @nth copy that streams execute from now on (1: the next one; 0: none)
 *   fails with @error. From then on its context refuses everything with this error, like a real GPU
 *   after a fault of a GPU kernel.
 * - softgpu_fail_call(): the next call of the function with this name returns @error. That call
 *   does nothing, unless the function is cuIpcCloseMemHandle or cuMemHostUnregister. Aborts if
 *   there is no such function. An empty name: no call fails.
 * - softgpu_heal(): clears the errors of all primary contexts, which a real GPU does only at the
 *   end of the process. First waits until failed contexts have dropped their work.
 * - softgpu_opened(), softgpu_registered(): the number of handles that this process has opened and
 *   not closed, and of host registrations.
 * - softgpu_copies(): the number of copies that streams have executed.
 */
#define GPU_FUNCTIONS(X)                                                                           \
	X(int, cuMemcpy, uint64_t to, uint64_t from, size_t len)                                   \
	X(int, cuMemAllocAsync, uint64_t *at_p, size_t len, struct cu_stream *stream)              \
	X(int, cuCtxCreate_v2, struct cu_context **c_p, unsigned flags, int device)                \
	X(int, cuEventQuery, struct cu_event *e)                                                   \
	X(int, cuStreamWaitEvent, struct cu_stream *s, struct cu_event *e, unsigned flags)         \
	X(void, softgpu_hold, int held)                                                            \
	X(void, softgpu_hold_stream, struct cu_stream *s)                                          \
	X(void, softgpu_fail_copy, unsigned nth, int error)                                        \
	X(void, softgpu_fail_call, const char *name, int error)                                    \
	X(void, softgpu_heal, void)                                                                \
	X(unsigned, softgpu_opened, void)                                                          \
	X(unsigned, softgpu_registered, void)                                                      \
	X(unsigned, softgpu_copies, void)

#endif
