/* SPDX-License-Identifier: MIT */
/* A thread unregisters memory, and writes to it when only this process may use it. */
#ifndef TENT_TEST_ENDING_H
#define TENT_TEST_ENDING_H

#include <pthread.h>
#include <sched.h>

#include "duo.h"

static struct {
	struct tent *t;
	uint8_t *memory;
	size_t len;
	pthread_t thread;
	int err;
	bool over; /* the store of end_over() pairs with the load of end_is_over() */
} end;

static inline void end_over(void)
{
	__atomic_store_n(&end.over, true, __ATOMIC_RELEASE);
}

static inline bool end_is_over(void)
{
	return __atomic_load_n(&end.over, __ATOMIC_ACQUIRE);
}

static inline void *unregister_thread(void *arg)
{
	end.err = tent_unregister(end.t, end.memory);
	memset(end.memory, 'P', end.len);
	end_over();
	return NULL;
}

static inline void begin_end(struct tent *t, uint8_t *bytes, size_t len)
{
	end.t = t;
	end.memory = bytes;
	end.len = len;
	end.over = false;
	CHECK_EQ(pthread_create(&end.thread, NULL, unregister_thread, NULL), 0);
}

/* Checks that the thread has not finished, and does not for a while. */
static inline void end_waits(void)
{
	for (int i = 0; i < 1000; i++) {
		CHECK(!end_is_over());
		sched_yield();
	}
}

static inline int await_end(void)
{
	CHECK_EQ(pthread_join(end.thread, NULL), 0);
	return end.err;
}

/*
 * For duo_attr.command: 'b' starts a thread that unregisters the child's memory; 'o' returns
 * whether the thread has finished; 'j' joins the thread and returns its error.
 */
static inline uint16_t end_command(struct tent *t, char c)
{
	if (c == 'b')
		begin_end(t, d.theirs, d.len);
	if (c == 'b' || c == 'o')
		return c == 'o' && end_is_over();
	return (uint16_t)-await_end();
}

#endif
