/* SPDX-License-Identifier: MIT */
/* The daemons with their phases in another order. */
#ifndef BENCHKV_TIMED_ORDERS_H
#define BENCHKV_TIMED_ORDERS_H

/* A test: calls are sent in the same loop only if the loop gathers them before the flush. */

/* Prints the throughput of each order in each job. Returns the exit status. */
int orders_print(void);

#endif
