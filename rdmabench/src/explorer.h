/* SPDX-License-Identifier: MIT */
/* The state of a search, which explore.c, decide.c and features.c share. */
#ifndef RDMABENCH_EXPLORER_H
#define RDMABENCH_EXPLORER_H

#include "explore.h"

#define REDRAW_MAX 1000 /* attempts to draw a point that can be used */

struct explorer {
	const struct explore_attr *attr;
	explore_fn *fn;
	void *arg;
	struct explore_result *r;
	uint64_t rand; /* random state for points that are drawn independently */
	bool over;
	uint8_t *sample; /* tries x SPACE_DIMS, for EXPLORE_SAMPLE */
	struct point healthy; /* a point without an anomaly */
	bool maybe_healthy, has_healthy; /* healthy in one measurement; decided to be healthy */
	uint32_t candidates; /* points whose anomaly was measured again */
	struct explore_ask next; /* purpose and number of the next measurement that is not a try */
	/* State of annealing. */
	uint64_t walk; /* random state for annealing, decide.c and features.c */
	struct point current;
	double energy, t_start, temperature;
	double best, low; /* highest energy since annealing last began; lowest of the warm-up */
	uint32_t warm, stale;
	bool walking; /* annealing chose the present point */
	double credit; /* tries that annealing may make, for EXPLORE_MIXED */
};

/* The answers of the decisions below. */
enum answer {
	ANSWER_NO,
	ANSWER_YES,
	ANSWER_NONE, /* the point cannot be measured, or the search is over */
};

/*
 * decide.c: measures a point until it is certain enough whether the point has the anomaly, or any
 * anomaly if @kind is ANOMALY_NONE. Each measurement may be wrong with a probability of at most
 * 10 %, so it moves the logarithm of the likelihood ratio by ln 9 (A. Wald's sequential probability
 * ratio test). @false_yes and @false_no are the accepted probabilities of a wrong yes and of a
 * wrong no. After a measurement with the anomaly, the healthy point is measured, too: if it has an
 * anomaly as well, the machine was disturbed, and neither measurement counts.
 */
enum answer decide(struct explorer *e, const struct point *p, enum anomaly kind, const char *what,
	double false_yes, double false_no);

/*
 * Sets @ask->last and @ask->others, measures the point, and counts the measurement. Returns the
 * result of e->fn, or -ECANCELED if no more measurements are allowed. -ECANCELED ends the search.
 */
int explorer_measure(struct explorer *e, struct explore_ask *ask, struct measure *m_p);

/*
 * Finds a point without an anomaly and stores it in e->healthy, unless there is one already. Draws
 * a limited number of points.
 */
void decide_healthy(struct explorer *e);

/*
 * features.c: fills in the conditions of an anomaly: for each parameter, the values that the
 * anomaly needs. A healthy point must be known.
 */
void find_features(struct explorer *e, struct feature_set *f);

#endif
