/* SPDX-License-Identifier: MIT */
/* The state of a search, which explore.c, decide.c and features.c share. */
#ifndef RDMABENCH_EXPLORER_H
#define RDMABENCH_EXPLORER_H

#include "explore.h"

#define REDRAW_MAX 1000 /* draws for a point that fits */

struct explorer {
	const struct explore_attr *attr;
	explore_fn *fn;
	void *arg;
	struct explore_result *r;
	uint64_t rand; /* of independent points */
	bool over;
	uint8_t *sample; /* tries x SPACE_DIMS, for EXPLORE_SAMPLE */
	struct point healthy; /* a point without an anomaly */
	bool maybe_healthy, has_healthy; /* it was measured; it is decided */
	uint32_t candidates; /* points that were measured again before they counted */
	struct explore_ask
		next; /* the next measurement but of a try, with its purpose and number */
	/* State of annealing. */
	uint64_t walk; /* random numbers of the walk */
	struct point current;
	double energy, t_start, temperature;
	double best, low; /* the best energy of this descent; the lowest energy of the warm-up */
	uint32_t warm, stale;
	bool walking; /* the present point is one of the walk */
	double credit; /* tries that the walk may take, for EXPLORE_MIXED */
};

/* The answers of the decisions below. */
enum answer {
	ANSWER_NO,
	ANSWER_YES,
	ANSWER_NONE, /* the point cannot be measured, or the search is over */
};

/*
 * decide.c: measurements of one point until it is certain enough whether it has the anomaly. Each
 * measurement may be wrong with a probability of at most 10 %, so it moves the logarithm of the
 * likelihood ratio by ln 9 (A. Wald's sequential probability ratio test). The errors are the
 * probabilities of a wrong yes and of a wrong no. Where an anomaly is measured, the healthy point
 * is measured too: if that has an anomaly as well, the machine was disturbed and neither counts.
 */
enum answer decide(struct explorer *e, const struct point *p, enum anomaly kind, const char *what,
	double false_yes, double false_no);

/*
 * Measures the point of the question and counts; fills in what all questions have. Returns what the
 * function does; -ECANCELED also ends the search.
 */
int explorer_measure(struct explorer *e, struct explore_ask *ask, struct measure *m_p);

/* Sets e->healthy, if there is a point without an anomaly. Draws some if there is none yet. */
void decide_healthy(struct explorer *e);

/*
 * features.c: fills in the conditions of an anomaly, the set of values of each parameter that it
 * needs, for which a healthy point must be known.
 */
void find_features(struct explorer *e, struct feature_set *f);

#endif
