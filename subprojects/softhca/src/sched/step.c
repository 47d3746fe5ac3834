/* SPDX-License-Identifier: MIT */
/* Step mode: the program decides when its adapters work. */
#include <errno.h>
#include <pthread.h>

#include "fabric/fabric.h"
#include "hca/config.h"
#include "sched/engine.h"
#include "sched/sched.h"
#include "softhca.h"
#include "xport/chaos.h"

#define CHAOS_TURN 8 /* the maximum of steps in one call of softhca_step() */

/* Chaos mode: finds new requests, and makes a random number of steps. */
static uint32_t chaos_turn(void)
{
	uint32_t n;

	engine_sweep();
	if (fabric_lock())
		return 1;
	n = chaos_pump(chaos_some(CHAOS_TURN));
	fabric_unlock();
	return n;
}

__attribute__((visibility("default"))) int softhca_step(void)
{
	sigset_t saved;
	uint32_t n, total = 0;

	if (!fabric_self.arena)
		return -ENODEV;
	if (config_get()->mode != ENGINE_STEP)
		return -EPERM;
	fabric_block(&saved);
	sched_serve();
	if (arena()->chaos)
		total = chaos_turn();
	else
		while ((n = engine_sweep()))
			total += n;
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return (int)total;
}
