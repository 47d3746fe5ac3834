/* SPDX-License-Identifier: MIT */
#include "gate.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "stop.h"

#define LOOK_NS (20 * NSEC_PER_MSEC) /* interval at which the stop flag is read */

void gate_init(struct gate *g)
{
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->changed, NULL);
}

void gate_fini(struct gate *g)
{
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
}

bool gate_pass(struct gate *g, uint32_t run, int error)
{
	bool go;

	pthread_mutex_lock(&g->lock);
	if (error && !g->error)
		g->error = error;
	g->arrived++;
	pthread_cond_broadcast(&g->changed);
	while (g->run <= run && !g->leave)
		pthread_cond_wait(&g->changed, &g->lock);
	/* With leave, the last opening was for the end. */
	go = !error && (!g->leave || g->run > run + 1);
	pthread_mutex_unlock(&g->lock);
	return go;
}

int gate_wait(struct gate *g, uint32_t clients, gate_tick_fn *tick, void *arg)
{
	int err = 0;

	pthread_mutex_lock(&g->lock);
	while (g->arrived < clients && !err) {
		struct timespec look = clock_timespec(clock_ns() + LOOK_NS);

		pthread_cond_clockwait(&g->changed, &g->lock, CLOCK_MONOTONIC, &look);
		if (tick)
			tick(arg);
		err = g->error ? g->error : stop_requested() ? -EINTR : 0;
	}
	if (g->error)
		err = g->error;
	pthread_mutex_unlock(&g->lock);
	return err;
}

void gate_open(struct gate *g, bool leave)
{
	pthread_mutex_lock(&g->lock);
	g->arrived = 0;
	g->run++;
	g->leave = leave;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}
