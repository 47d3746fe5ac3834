/* SPDX-License-Identifier: MIT */
/*
 * The search: chooses the next point from the measurements so far. The seed and the measurements
 * determine all choices.
 *
 *	random	draws each point independently
 *	sample	covers each parameter evenly: over all tries each value of a parameter is used
 *		equally often
 *	anneal	simulated annealing: goes from a point to a neighbour. A worse neighbour is accepted
 *		with probability exp(change / temperature), so less often as the temperature falls;
 *		otherwise the search stays where it was. It begins at the best of a few random
 *		points, and begins again after an anomaly, or after many tries without a better
 *		point
 *
 * After an anomaly is found, its minimal feature set is determined: the parameters that cannot
 * take other values without the anomaly disappearing. Points that have the features of a known
 * anomaly are not tried again. An anomaly without a feature shows that its rule does not
 * distinguish points, and the search for its features takes longest. So no more features of that
 * kind of anomaly are searched.
 */
#ifndef RDMABENCH_EXPLORE_H
#define RDMABENCH_EXPLORE_H

#include "measure.h"

#define EXPLORE_ANOMALIES 64

enum explore_method { EXPLORE_RANDOM, EXPLORE_SAMPLE, EXPLORE_ANNEAL };

extern const char *const explore_methods[]; /* by method, NULL at the end */

/* An anomaly with the parameters that it needs: a parameter with a feature keeps its value. */
struct feature_set {
	struct point point;
	enum anomaly kind;
	bool needed[SPACE_DIMS];
};

struct explore_attr {
	enum explore_method method;
	uint64_t seed;
	uint32_t tries; /* points to be measured, without those for feature sets */
	uint32_t anomalies; /* stops after this many; 0: only after tries */
	bool features; /* look for minimal feature sets */
	struct rules rules;
	struct fixed fixed; /* parameters that are not varied */
};

/* Why a point is measured. */
enum explore_purpose { PURPOSE_TRY, PURPOSE_FEATURE };

struct explore_ask {
	enum explore_purpose purpose;
	uint32_t anomaly; /* PURPOSE_FEATURE: number of the anomaly, from 0 */
	unsigned dim; /* PURPOSE_FEATURE: the parameter that was changed */
	const struct point *point;
};

/* Measures a point. Returns 0; -ECANCELED to end the search; another -errno to skip the point. */
typedef int explore_fn(void *arg, const struct explore_ask *ask, struct measure *m_p);

struct explore_result {
	uint32_t tries; /* points that were measured */
	uint32_t failures; /* points that could not be measured */
	uint32_t accepted_worse, rejected; /* steps to worse points; steps that were not taken */
	bool blunt[1 - ANOMALY_LATENCY]; /* by -kind: an anomaly of that kind has no feature */
	uint32_t n; /* entries of found */
	uint32_t found_at[EXPLORE_ANOMALIES]; /* the number of the try, from 1 */
	struct feature_set found[EXPLORE_ANOMALIES];
};

/* Runs the search. Returns 0 or -ENOMEM. */
int explore(const struct explore_attr *attr, explore_fn *fn, void *arg,
	struct explore_result *result_p);

/* Returns a new array of the names of the parameters that an anomaly needs. */
json_t *features_json(const struct feature_set *f);

/* Decides whether to go from energy `from` to `to` at a temperature; draws one random number. */
bool anneal_accepts(double from, double to, double temperature, uint64_t *rand);

#endif
