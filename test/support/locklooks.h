/* SPDX-License-Identifier: MIT */
/*
 * Counts how often code of static libraries sets or tests a lock on a file, because the time of
 * these system calls grows with the number of locks on the file. This header can also call a
 * function before the next test of a lock. Only one file of a program may include this header. The
 * program needs
 *
 *	link_args: ['-Wl,--wrap=fcntl', '-Wl,--wrap=fcntl64']
 */
#ifndef SUPPORT_LOCKLOOKS_H
#define SUPPORT_LOCKLOOKS_H

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

static uint64_t lock_looks;
static void (*before_lock_test)(void); /* called once, before the next test of a lock */

int __real_fcntl(int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...);

int __wrap_fcntl(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	__atomic_fetch_add(&lock_looks, cmd == F_OFD_SETLK || cmd == F_OFD_GETLK, __ATOMIC_RELAXED);
	if (before_lock_test && cmd == F_OFD_GETLK) {
		void (*fn)(void) = before_lock_test;

		before_lock_test = NULL;
		fn();
	}
	return __real_fcntl(fd, cmd, arg);
}

/* The name of fcntl() with large files; the same function on 64-bit machines. */
int __wrap_fcntl64(int fd, int cmd, ...) __attribute__((alias("__wrap_fcntl")));

#endif
