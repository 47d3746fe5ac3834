/* SPDX-License-Identifier: MIT */
/* The daemons with their phases in another order. */
#ifndef BENCHKV_TIMED_ORDERS_H
#define BENCHKV_TIMED_ORDERS_H

/* orders.c also tests that WRITEs have fewer messages if a loop flushes before it gathers calls. */

/* Prints the throughput of each order in each job. Returns the exit status. */
int orders_print(void);

#endif
