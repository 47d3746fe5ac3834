/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_SYS_THREAD_H
#define SOFTHCA_SYS_THREAD_H

/*
 * Starts a detached thread, and returns when the thread runs: if a program forks while a thread
 * starts, a lock of the address sanitizer's allocator may be held for ever in the child. The caller
 * must have blocked all asynchronous signals, because the thread inherits the signal mask. Returns
 * 0 or -errno.
 */
int thread_start(void *(*run)(void *arg), void *arg);

#endif
