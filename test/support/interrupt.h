/* SPDX-License-Identifier: MIT */
/* For tests of waits that a signal ends. */
#ifndef SUPPORT_INTERRUPT_H
#define SUPPORT_INTERRUPT_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "support/test.h"

/* A thread in a wait that only a signal ends, and the result of the wait. */
struct interrupted {
	int (*wait)(void *object);
	void *object;
	int result;
	uint32_t done;
};

static inline void interrupt_handle(int sig)
{
}

static inline void *interrupt_thread(void *arg)
{
	struct interrupted *t = arg;

	t->result = t->wait(t->object);
	/* Pairs with the load in interrupt_wait(). */
	__atomic_store_n(&t->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * Calls @wait in another thread, sends that thread signals until the call returns, and returns its
 * result.
 */
static inline int interrupt_wait(int (*wait)(void *object), void *object)
{
	struct interrupted t = {.wait = wait, .object = object};
	struct sigaction sa = {.sa_handler = interrupt_handle};
	pthread_t thread;

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	CHECK_EQ(pthread_create(&thread, NULL, interrupt_thread, &t), 0);
	/* Signals are repeated, because one may arrive before the thread sleeps. */
	while (!__atomic_load_n(&t.done, __ATOMIC_ACQUIRE)) {
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		sched_yield();
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return t.result;
}

#endif
