/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_SYS_THREAD_H
#define SOFTHCA_SYS_THREAD_H

/*
 * Starts a detached thread, and returns when it runs: a program that forks while a thread starts can
 * get a child in which a lock of the address sanitizer's allocator is held for ever. The caller must
 * have blocked all asynchronous signals: the thread inherits its signal mask. 0 or -errno.
 */
int thread_start(void *(*run)(void *arg), void *arg);

#endif
