/* SPDX-License-Identifier: MIT */
/* The daemons with their phases in another order. */
#ifndef BENCHKV_TIMED_ORDERS_H
#define BENCHKV_TIMED_ORDERS_H

/* A test: calls leave in the loop that took them only if they are gathered before the flush. */

/* Prints the throughput of each order in each job. Exit status. */
int orders_print(void);

#endif
