/* SPDX-License-Identifier: MIT */
/*
 * Waiting for the owner of a claim or latch. It is owned for microseconds, unless its owner is
 * stopped. A waiter sleeps for short times instead of waiting for a wake-up: a wake-up could be lost
 * when the owner is killed, and would never come from one that is stopped.
 */
#ifndef SOFTHCA_FABRIC_REST_H
#define SOFTHCA_FABRIC_REST_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "sys/sys.h"

#define REST_SPINS 50
#define REST_YIELDS 500
#define REST_NAP_NS 50000
#define REST_ENOUGH (REST_YIELDS + 100) /* the owner may be dead: the waiter takes the mutex */

/* @n: number of earlier calls in the same wait. Returns true after a sleep. */
static inline bool rest(uint32_t n, uint32_t yields)
{
	static const struct timespec nap = {.tv_nsec = REST_NAP_NS};

	if (n < REST_SPINS) {
		__builtin_ia32_pause();
		return false;
	}
	if (n < yields) {
		SYS(SYS_sched_yield); /* libc's may be replaced by shim/ */
		return false;
	}
	nanosleep(&nap, NULL);
	return true;
}

#endif
