/* SPDX-License-Identifier: MIT */
/* The daemons with their phases in another order. */
#ifndef BENCHKV_TIMED_ORDERS_H
#define BENCHKV_TIMED_ORDERS_H

/* orders.c also tests that a loop sends calls only if it gathers them before the flush. */

/* Prints the throughput of each order in each job. Returns the exit status. */
int orders_print(void);

#endif
