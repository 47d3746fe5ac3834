/* SPDX-License-Identifier: MIT */
/*
 * The search: chooses the next point (space.h) from the measurements so far. The seed and the
 * measurements determine all choices.
 *
 *	random	draws each point independently
 *	sample	covers each parameter evenly: over all tries each value of a parameter is drawn
 *		equally often
 *	anneal	simulated annealing: goes from a point to a neighbour of higher energy
 *		(measure_energy()). A neighbour of lower energy is accepted with probability
 *		exp(change / temperature); the temperature falls with each step. If the neighbour is
 *		not accepted, the search stays where it was. It begins at the best of a few random
 *		points, and begins again after an anomaly, or after many tries without a better
 *		point
 *	mixed	the points of random, and between them those of annealing: one for every five
 *		random ones
 *
 * A point with an anomaly is measured again until the anomaly is certain: if at most 10 % of the
 * measurements are wrong, a search reports a false anomaly with at most the given probability. Then
 * the search finds the conditions of the anomaly (features.c): parameters, and the values that they
 * must have. The anomaly disappears when such a parameter has another value, and stays when all
 * other parameters are drawn at random. Except by sample, points that fit conditions which were
 * shown to be sufficient are not tried again. The search for conditions needs a point without an
 * anomaly; if none is found, it is left out (explore_result.blunt).
 */
#ifndef RDMABENCH_EXPLORE_H
#define RDMABENCH_EXPLORE_H

#include "measure.h"

#define EXPLORE_ANOMALIES 64

enum explore_method { EXPLORE_RANDOM, EXPLORE_SAMPLE, EXPLORE_ANNEAL, EXPLORE_MIXED };

extern const char *const explore_methods[]; /* by method, NULL at the end */

/* An anomaly and its conditions. */
struct feature_set {
	struct point point;
	enum anomaly kind;
	uint16_t values[SPACE_DIMS]; /* bit i: may have value i; 0: the parameter does not matter */
	bool whole; /* the conditions were shown to be sufficient */
};

struct explore_attr {
	enum explore_method method;
	uint64_t seed;
	uint32_t tries; /* points to choose; certainty and conditions need more measurements */
	uint32_t measurements; /* stops after this many, of all purposes; 0: no limit */
	uint32_t anomalies; /* stops after this many; 0: EXPLORE_ANOMALIES */
	double error; /* probability of a false anomaly, and of a wrong decision about conditions */
	bool features; /* look for conditions */
	struct rules rules;
	const struct space *space; /* what is varied */
};

/* The purpose of a measurement: a try; certainty about the anomaly of a try; conditions. */
enum explore_purpose { PURPOSE_TRY, PURPOSE_AGAIN, PURPOSE_FEATURE };

struct explore_ask {
	enum explore_purpose purpose;
	uint32_t of; /* PURPOSE_AGAIN: number of the try, PURPOSE_FEATURE: of the anomaly; from 0 */
	uint32_t part; /* number of the measurement for this purpose and `of`, from 0 */
	/*
	 * Names the point that is measured. NULL: a try. "again": the point with the anomaly.
	 * "healthy": a point that is believed to have no anomaly. "exchange": a random point that
	 * may be healthy, or a mix of a healthy point and one with the anomaly. "drawn": a random
	 * point that fits the conditions. Otherwise the name of a parameter, of which another value
	 * is measured.
	 */
	const char *what;
	const struct point *point;
	bool last; /* no more measurements are allowed after this one */
	/* explore_fn adds the number of measurements that it made besides that of `point`, for
	 * example to find out whether a failure is that of a machine. */
	uint32_t *others;
};

/* Measures a point. Returns 0; -ECANCELED to end the search; another -errno to skip the point. */
typedef int explore_fn(void *arg, const struct explore_ask *ask, struct measure *m_p);

struct explore_result {
	uint32_t tries; /* points that were tried */
	uint32_t failures; /* those of the tries that could not be measured */
	uint32_t measurements; /* of all purposes */
	uint32_t refuted; /* points whose anomaly was not confirmed */
	uint32_t accepted_worse, rejected; /* worse points accepted; points rejected */
	bool blunt[1 - ANOMALY_LATENCY]; /* [-kind]: no conditions: no healthy point was found */
	uint32_t n; /* entries of found */
	uint32_t found_at[EXPLORE_ANOMALIES]; /* the number of the try, from 1 */
	struct feature_set found[EXPLORE_ANOMALIES];
};

/* Runs the search. Returns 0 or -ENOMEM. */
int explore(const struct explore_attr *attr, explore_fn *fn, void *arg,
	struct explore_result *result_p);

/* Returns true if the point fits the conditions. No point fits a set without conditions. */
bool feature_fits(const struct feature_set *f, const struct point *p);

/* Returns a new object: the values that each parameter of the conditions may have. */
json_t *features_json(const struct space *s, const struct feature_set *f);

/*
 * Decides whether a step from energy `from` to `to` is accepted at this temperature. Draws one
 * random number.
 */
bool anneal_accepts(double from, double to, double temperature, uint64_t *rand);

#endif
