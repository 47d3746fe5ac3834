/* SPDX-License-Identifier: MIT */
/*
 * The probability that the checks of a job of this size find that the store has lost a put which it
 * has acknowledged. The operations on a key are taken for independent, and the put for any one of
 * the job.
 *
 * If a key gets the share s of the O operations of a run, b = s O t of them came before the moment
 * t of the run, 0 to 1, and m = s O (1 - t) follow. p is the share of puts. Say that n parties
 * share what their clients know, each with a = (1 - p) / n of the operations as gets. The value
 * left behind is known to be older if no other put of the key came before, if a client of the party
 * has made that put, or has read it before the next one came:
 *
 *	q = e + (1 - e) / n + (1 - 1 / n) (1 - e - p / (a + p) (1 - exp(-(a + p) b)))
 *	e = exp(-p b)
 *
 * It is found by the first get of the party, if that comes before the next put of the key, or by
 * the audit if neither comes:
 *
 *	F(n) = q (a / (a + p) (1 - exp(-(a + p) m)) + exp(-(a + p) m))
 *
 * The parties are the R ranks, because of their boards, unless another put of the key is under way
 * meanwhile, so that none of them is posted; then they are the N clients. So a put of a followed
 * key is found with
 *
 *	v F(R) + (1 - v) F(N),	v = exp(-p s N depth)
 *
 * and one of another key by the audit only, if no put follows, and the one before was none, or of
 * the same client:
 *
 *	(e + (1 - e) / N) exp(-p m)
 *
 * The audit sees the last run only, and of that the last CHECK_WINDOW operations of each client.
 * The average is taken over t and over the keys, each as often as it is put.
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

/* The probability that one lost put is found; 0 if there are no puts. */
double odds_one(const struct odds *o);

/* That at least one is found of the puts of all runs, if each is lost with this probability. */
double odds_rate(const struct odds *o, double rate);

#endif
