/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_SYS_THREAD_H
#define SOFTHCA_SYS_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Starts a detached thread, and returns when the thread runs: if a program forks while a thread
 * starts, a lock of the address sanitizer's allocator may be held for ever in the child. The caller
 * must have blocked all asynchronous signals, because the thread inherits the signal mask. Returns
 * 0 or -errno.
 */
int thread_start(void *(*run)(void *arg), void *arg);

/* Returns the number of running threads that thread_start() has started in this process. */
uint32_t thread_count(void);

/* A thread that a process starts when it first needs it. */
struct thread_once {
	pthread_mutex_t lock;
	bool running;
};

#define THREAD_ONCE                                                                                \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER                                                  \
	}

/*
 * Calls @start, which starts the thread, unless it has succeeded before. @start is called with all
 * asynchronous signals blocked. Returns its result, or 0.
 *
 * The caller must not hold the fabric's mutex: a thread that loses the mutex (fabric/claim.h) would
 * leave the locks of pthread_create() and of the allocator locked.
 */
int thread_start_once(struct thread_once *t, int (*start)(void));

/* Must be called in a forked child, which does not have the thread, nor any other of its parent's. */
void thread_forget(struct thread_once *t);

/*
 * Blocks all signals except SIGSEGV, SIGBUS and SIGTRAP. The kernel ends a process whose thread
 * causes one of these while it is blocked.
 */
void thread_block_signals(sigset_t *saved);

#endif
