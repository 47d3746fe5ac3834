/* SPDX-License-Identifier: MIT */
/*
 * Waits until the owner of a lock in shared memory (claim.h, latch.h) has released it. These locks
 * are held for microseconds, unless the owner is stopped. A waiter sleeps for short times instead of
 * waiting for a wake-up: an owner that is killed or stopped would not send the wake-up.
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
/*
 * After so many calls of rest() for one lock, its owner may be dead: the waiter takes the fabric's
 * mutex, whose holder may check that.
 */
#define REST_ENOUGH (REST_YIELDS + 100)

/*
 * Waits for a short time. @n: number of earlier calls in the same wait. Spins at first, yields from
 * REST_SPINS calls on, and sleeps from @yields calls on. Returns true after a sleep.
 */
static inline bool rest(uint32_t n, uint32_t yields)
{
	static const struct timespec nap = {.tv_nsec = REST_NAP_NS};

	if (n < REST_SPINS) {
		__builtin_ia32_pause();
		return false;
	}
	if (n < yields) {
		SYS(SYS_sched_yield); /* not libc's function, which shim/ may replace */
		return false;
	}
	nanosleep(&nap, NULL);
	return true;
}

#endif
