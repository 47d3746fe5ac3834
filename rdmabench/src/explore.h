/* SPDX-License-Identifier: MIT */
/*
 * The search: which point comes next, given what was measured. Everything follows from the
 * seed and the measurements.
 *
 *	random	each point drawn anew
 *	sample	points that cover each parameter evenly: of as many as there are tries, each
 *		value has its share
 *	anneal	simulated annealing: from a point to one beside it; a worse one is accepted
 *		with probability exp(change / temperature), so less often as the temperature
 *		falls, and if it is not, the search goes on from where it was. Begins at the
 *		best of a few random points, and again after an anomaly, or when nothing has got
 *		worse for long
 *
 * When an anomaly is found its minimal feature set is looked for: the parameters that cannot
 * take other values without the anomaly going away. Points that have the features of a known
 * anomaly are not tried again. An anomaly without a feature shows a rule that does not tell
 * points apart, and takes the longest to find: features of that kind are looked for no more.
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
	uint32_t anomalies; /* stops after so many; 0: only after tries */
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

/* Measures a point. 0; -ECANCELED ends the search; another -errno skips the point. */
typedef int explore_fn(void *arg, const struct explore_ask *ask, struct measure *m_p);

struct explore_result {
	uint32_t tries; /* points that were measured */
	uint32_t failures; /* points that could not be measured */
	uint32_t accepted_worse, rejected; /* steps of annealing to and from worse points */
	bool blunt[1 - ANOMALY_LATENCY]; /* by -kind: an anomaly of that kind has no feature */
	uint32_t n; /* entries of found */
	uint32_t found_at[EXPLORE_ANOMALIES]; /* the number of the try, from 1 */
	struct feature_set found[EXPLORE_ANOMALIES];
};

/* 0 or -ENOMEM. */
int explore(const struct explore_attr *attr, explore_fn *fn, void *arg,
	struct explore_result *result_p);

/* Decides whether to go from energy `from` to `to` at a temperature; draws one random number. */
bool anneal_accepts(double from, double to, double temperature, uint64_t *rand);

#endif
