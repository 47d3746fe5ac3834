/* SPDX-License-Identifier: MIT */
/*
 * Before each run, and before the audit, the clients of a rank wait here until the main thread
 * opens the gate. The main thread waits here until all clients have arrived.
 */
#ifndef BENCHKV_GATE_H
#define BENCHKV_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/*
	 * Number of openings. Runs with a lower index may begin; with @leave, runs with an index
	 * below @run - 1, because the last opening was for the end.
	 */
	uint32_t run;
	uint32_t arrived; /* number of clients that are ready for the next run */
	bool leave; /* there is no next run */
	int error; /* -errno of the first client that cannot go on */
};

void gate_init(struct gate *g);
void gate_fini(struct gate *g);

/*
 * Called by a client with its error or 0: waits until the run with index `run` may begin. Returns
 * false if there is no such run, or after an error.
 */
bool gate_pass(struct gate *g, uint32_t run, int error);

/* Called at least every 20 ms while the main thread waits; may be NULL. */
typedef void gate_tick_fn(void *arg);

/*
 * Called by the main thread: waits until this number of clients have arrived. Returns 0. Returns
 * earlier with the error of a client, or with -EINTR when the flag of stop.h is raised.
 */
int gate_wait(struct gate *g, uint32_t clients, gate_tick_fn *tick, void *arg);

/* Called by the main thread: lets the clients begin the next run, or end if @leave is true. */
void gate_open(struct gate *g, bool leave);

#endif
