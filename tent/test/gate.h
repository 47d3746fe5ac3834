/* SPDX-License-Identifier: MIT */
/* A gate holds a thread that calls the test's own version of a library function. */
#ifndef TENT_TEST_GATE_H
#define TENT_TEST_GATE_H

#include <pthread.h>
#include <stdbool.h>

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool held, open;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Passes when the gate is open. */
static inline void gate_pass(void)
{
	pthread_mutex_lock(&gate.lock);
	gate.held = true;
	pthread_cond_broadcast(&gate.changed);
	while (!gate.open)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

/* Waits until a thread has reached the gate after gate_set(). */
static inline void gate_await(void)
{
	pthread_mutex_lock(&gate.lock);
	while (!gate.held)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

static inline void gate_set(bool open)
{
	pthread_mutex_lock(&gate.lock);
	gate.held = false;
	gate.open = open;
	pthread_cond_broadcast(&gate.changed);
	pthread_mutex_unlock(&gate.lock);
}

#endif
