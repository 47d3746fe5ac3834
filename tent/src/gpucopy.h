/* SPDX-License-Identifier: MIT */
/*
 * A queue of copies that GPUs perform. Its thread starts new copies while the earlier ones are
 * under way, and then waits for the earlier ones. Adjacent copies become one, unless that fails. If
 * both sides of a copy are memory of the host, the thread lets the kernel copy it.
 *
 *	gpu_copies_add(q, &copy);
 *	wait until gpu_copies_fd(q) is readable;        // a copy has ended
 *	gpu_copies_take(q, fn, arg);
 *
 * gpu_copies_take() calls fn for each copy that has ended, in the order in which they were added.
 * One thread at a time may call these functions.
 */
#ifndef TENT_GPUCOPY_H
#define TENT_GPUCOPY_H

#include <stdbool.h>
#include <stdint.h>

#define GPU_COPIES 256 /* copies that are added and not taken; a power of two */

struct gpu_copy {
	uint64_t to, from; /* memory of GPUs, or of the host */
	uint64_t len; /* 0: the copy has no bytes, and ends when those before it have ended */
	uint64_t token;
};

struct gpu_copies;

/*
 * Reports that a copy has ended. @status is 0; -EFAULT: a part of its memory does not exist (any
 * more); -ECANCELED: the copy was not started; -EIO or another error of the driver.
 */
typedef void gpu_copy_done_fn(void *arg, uint64_t token, int status);

/* 0 or -errno. */
int gpu_copies_new(struct gpu_copies **q_p);
int gpu_copies_fd(const struct gpu_copies *q);
/*
 * Adds a copy. At most GPU_COPIES copies may be added and not taken yet. 0; -ENOTCONN: the queue is
 * stopped.
 */
int gpu_copies_add(struct gpu_copies *q, const struct gpu_copy *c);
/* Returns the number of copies that have ended. */
int gpu_copies_take(struct gpu_copies *q, gpu_copy_done_fn *fn, void *arg);
/* Cancels the copies that have not been started. */
void gpu_copies_stop(struct gpu_copies *q);
/* Waits for the copies under way, and frees the queue. NULL is allowed. */
void gpu_copies_free(struct gpu_copies *q);

#endif
