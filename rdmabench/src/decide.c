/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>

#include "explorer.h"

#define WRONG .1 /* probability of a wrong measurement that decide() allows for */
#define DISTURBED_MAX 30 /* anomalies of the healthy point that end a decision without a result */
#define FAILURES_MAX 3 /* failed measurements that end a decision without a result */
#define HEALTHY_DRAWS 20 /* points that are tried when no healthy one is known */

int explorer_measure(struct explorer *e, struct explore_ask *ask, struct measure *m_p)
{
	uint32_t most = e->attr->measurements, others = 0;
	int err;

	ask->last = most && e->r->measurements + 1 == most;
	ask->others = &others;
	err = most && e->r->measurements == most ? -ECANCELED : e->fn(e->arg, ask, m_p);
	e->over |= err == -ECANCELED;
	e->r->measurements += (err != -ECANCELED) + others;
	return err;
}

/* Measures a point once. ANSWER_YES: it has this anomaly, or any if kind is ANOMALY_NONE. */
static enum answer look(struct explorer *e, const struct point *p, enum anomaly kind,
	const char *what)
{
	struct explore_ask ask = e->next;
	struct measure m;
	enum anomaly seen;

	e->next.part++;
	ask.what = what;
	ask.point = p;
	if (explorer_measure(e, &ask, &m))
		return ANSWER_NONE;
	seen = measure_judge(&m, &e->attr->rules);
	json_decref(m.counters);
	return kind == ANOMALY_NONE ? seen != ANOMALY_NONE : seen == kind;
}

/*
 * Returns how many more measurements must have one result than the other, so that a wrong decision
 * has at most the probability @error.
 */
static int steps(double error)
{
	return (int)ceil(log(1 / error) / log((1 - WRONG) / WRONG));
}

enum answer decide(struct explorer *e, const struct point *p, enum anomaly kind, const char *what,
	double false_yes, double false_no)
{
	int level = 0, up = steps(false_yes), down = -steps(false_no);
	int failures = 0, disturbed = 0;

	while (level < up && level > down) {
		enum answer seen = look(e, p, kind, what);

		if (seen == ANSWER_NONE && (e->over || ++failures == FAILURES_MAX))
			return ANSWER_NONE;
		if (seen == ANSWER_NO)
			level--;
		if (seen != ANSWER_YES)
			continue;
		if (!e->has_healthy || look(e, &e->healthy, ANOMALY_NONE, "healthy") != ANSWER_YES)
			level++;
		else if (++disturbed == DISTURBED_MAX)
			return ANSWER_NONE;
	}
	return level > 0 ? ANSWER_YES : ANSWER_NO;
}

void decide_healthy(struct explorer *e)
{
	for (int i = 0; i < HEALTHY_DRAWS && !e->has_healthy && !e->over; i++) {
		if (!e->maybe_healthy)
			point_random(e->attr->space, &e->healthy, &e->walk);
		e->maybe_healthy = false;
		e->has_healthy = decide(e, &e->healthy, ANOMALY_NONE, "healthy", e->attr->error,
					 e->attr->error) == ANSWER_NO;
	}
}
