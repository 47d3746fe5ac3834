/* SPDX-License-Identifier: MIT */
/* For programs that read the fields of the engine of host.h. */
#ifndef TENT_TEST_CONNS_H
#define TENT_TEST_CONNS_H

#include "engine.h"
#include "host.h"

/* Returns the number of connections of the engine. */
static inline uint32_t host_connections(void)
{
	uint32_t n;

	pthread_mutex_lock(&host->lock);
	n = host->n_conns;
	pthread_mutex_unlock(&host->lock);
	return n;
}

#endif
