/* SPDX-License-Identifier: MIT */
/* Functions that the loops of every implementation call. */
#include <stdio.h>
#include <unistd.h>

#include "rpcbench.h"
#include "rpcbench_loops.h"

void rpcbench_lost(const struct rpcbench_client *c)
{
	fprintf(stderr, "client %u: %u responses did not come\n", c->index, rpcbench_inflight(c));
	_exit(1);
}

void rpcbench_sleep(const struct rpcbench_run *run)
{
	clock_nap(run->window_ns);
}
