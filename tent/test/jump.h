/* SPDX-License-Identifier: MIT */
/*
 * A clock that jumps. The program is linked with --wrap, so the engine reads this clock, and its
 * sleeps can be short: the clock jumps to the end of a sleep.
 */
#ifndef TENT_TEST_JUMP_H
#define TENT_TEST_JUMP_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/clock.h"

#define HURRY_NS (20 * NSEC_PER_MSEC) /* real time of a sleep, before the clock jumps to its end */

/* Accessed by __atomic builtins: any thread may let the clock jump. */
static struct {
	bool hurry;
	uint64_t ahead; /* of the system's clock, ns */
	uint64_t longest; /* wait for a condition since the thread has read the clock, ns */
} jump;

static _Thread_local uint64_t seen_ns; /* the last time that this thread has read */

static uint64_t jump_ahead(void)
{
	return __atomic_load_n(&jump.ahead, __ATOMIC_ACQUIRE);
}

/* The real part of a sleep of so many ns; the clock jumps over the rest. */
static uint64_t jump_short(uint64_t ns)
{
	return __atomic_load_n(&jump.hurry, __ATOMIC_ACQUIRE) && ns > HURRY_NS ? HURRY_NS : ns;
}

static void jump_over(uint64_t ns)
{
	__atomic_fetch_add(&jump.ahead, ns, __ATOMIC_ACQ_REL);
}

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts);
int __real_epoll_pwait2(int fd, struct epoll_event *e, int n, const struct timespec *ts,
	const sigset_t *mask);
int __wrap_epoll_pwait2(int fd, struct epoll_event *e, int n, const struct timespec *ts,
	const sigset_t *mask);

static uint64_t ns_of(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * NSEC_PER_SEC + (uint64_t)ts->tv_nsec;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	int err = __real_clock_gettime(id, ts);

	seen_ns = ns_of(ts) + jump_ahead();
	*ts = clock_timespec(seen_ns);
	return err;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts)
{
	uint64_t asked = ns_of(ts) > seen_ns ? ns_of(ts) - seen_ns : 0;
	uint64_t now = clock_ns(), left = ns_of(ts) > now ? ns_of(ts) - now : 0;
	uint64_t ns = jump_short(left);
	struct timespec until = clock_timespec(now - jump_ahead() + ns);
	int err = __real_pthread_cond_timedwait(c, m, &until);

	if (asked > __atomic_load_n(&jump.longest, __ATOMIC_ACQUIRE))
		__atomic_store_n(&jump.longest, asked, __ATOMIC_RELEASE);
	if (err == ETIMEDOUT)
		jump_over(left - ns);
	return err;
}

/* Sleeps of this process's engines: an event has ended `woken`, the others ended in time. */
static uint64_t woken, slept;

static uint64_t count_of(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

int __wrap_epoll_pwait2(int fd, struct epoll_event *e, int n, const struct timespec *ts,
	const sigset_t *mask)
{
	uint64_t left = ts ? ns_of(ts) : 0, ns = jump_short(left);
	struct timespec part = clock_timespec(ns);
	int got = __real_epoll_pwait2(fd, e, n, ts ? &part : NULL, mask);

	if (!got)
		jump_over(left - ns);
	__atomic_fetch_add(got ? &woken : &slept, 1, __ATOMIC_ACQ_REL);
	return got;
}

#endif
