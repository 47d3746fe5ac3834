/* SPDX-License-Identifier: MIT */
/*
 * The probability that the checks of a job find the loss of a put that the store has acknowledged.
 * Assumptions: the operations on a key are independent, and each put of the job is equally likely
 * to be the lost one.
 *
 * A key gets the share s of the O operations of a run. The put is lost at time t of the run, 0 to
 * 1. Then b = s O t operations on the key have ended, and m = s O (1 - t) follow. p is the share of
 * puts. The clients form n parties; the clients of a party share their knowledge. The gets of a
 * party are the share a = (1 - p) / n of the operations. After the loss the key has an old value. A
 * party knows that the value is old if there was no other put of the key before the lost one, or if
 * a client of the party has made the put of the old value, or has read it before the lost put. This
 * has the probability
 *
 *	q = e + (1 - e) / n + (1 - 1 / n) (1 - e - p / (a + p) (1 - exp(-(a + p) b)))
 *	e = exp(-p b)
 *
 * The first get of the party finds the loss if it comes before the next put of the key. If neither
 * a get nor a put follows, the audit finds it. So the probability to find the loss is
 *
 *	F(n) = q (a / (a + p) (1 - exp(-(a + p) m)) + exp(-(a + p) m))
 *
 * The parties are the R ranks, because the clients of a rank share a board (board.h). But if
 * another put of the key is under way at the same time, neither of the two is posted on a board,
 * and the parties are the N clients. So the probability for a put of a followed key (history.h) is
 *
 *	v F(R) + (1 - v) F(N),	v = exp(-p s N depth)
 *
 * The loss of a put of a key that is not followed is found only by the audit: if no put follows,
 * and if there was no put before or the last one was of the same client. The probability is
 *
 *	(e + (1 - e) / N) exp(-p m)
 *
 * The audit covers only the last CHECK_WINDOW operations of each client in the last run. The result
 * is the average over t and over the keys, weighted with the number of their puts.
 */
#ifndef BENCHKV_ODDS_H
#define BENCHKV_ODDS_H

#include <stdbool.h>
#include <stdint.h>

#include "workload.h"

struct odds {
	const struct workload *load;
	uint32_t ranks, clients; /* clients: of each rank */
	uint32_t depth, runs;
	uint64_t ops; /* of all clients in a run */
	uint64_t keys; /* number of followed keys */
	uint64_t window; /* operations of each client that the audit covers */
};

/* True: the operations on a key of this workload are independent, and are only gets and puts. */
bool odds_known(const struct workload *load);

/* The probability that one lost put is found; 0 if there are no puts. */
double odds_one(const struct odds *o);

/* The probability that at least one loss is found, if each put is lost with probability @rate. */
double odds_rate(const struct odds *o, double rate);

#endif
