/* SPDX-License-Identifier: MIT */
/*
 * How likely the checks of a job of this size find that the store has lost a put which it has
 * acknowledged. The operations on a key are taken for independent, and the put for any one of the
 * job.
 *
 * Of a key that gets the share s of the O operations of a run: m = s O (1 - t) operations on it
 * follow after the moment t of the run, and s O t came before. p is the share of puts. The value
 * left behind is known to be older
 *
 *	if no other put came before:			e = exp(-p s O t)
 *	else if an earlier put of it is known:		g = v (1 / R + (1 - 1 / R) a / (a + p))
 *	together					q = e + (1 - e) g
 *
 * where a = (1 - p) / R is the share of the gets of one of the R ranks: an earlier put is known
 * that a client of the same rank has made or read; and v = exp(-p s n), with the n requests that
 * are under way at a time, says that no other put of the key was posted meanwhile (board.h). A
 * followed key is found with
 *
 *	q (v a / (a + p) (1 - exp(-(a + p) m)) + exp(-(a + p) m))
 *
 * by the first get of the rank if it comes before the next put of the key, or by the audit if
 * neither comes; another key by the audit only, if no put follows and the earlier one was none or
 * the client's own:
 *
 *	(e + (1 - e) / N) exp(-p m)
 *
 * of N clients. The audit sees the last run only, and of that the last CHECK_WINDOW operations of
 * each client. The average is taken over t and over the keys, each as often as it is put.
 */
#ifndef BENCHKV_ODDS_H
#define BENCHKV_ODDS_H

#include <stdint.h>

#include "workload.h"

struct odds {
	const struct workload *load;
	uint32_t ranks, clients; /* of each rank */
	uint32_t depth, runs;
	uint64_t ops; /* of all clients in a run */
	uint64_t keys; /* that are followed, by number */
	uint64_t window; /* operations of each client that the audit goes through */
};

/* That one lost put is found; 0 if there are no puts. */
double odds_one(const struct odds *o);

/* That at least one is found of the puts of all runs, if each is lost with this probability. */
double odds_rate(const struct odds *o, double rate);

#endif
