/* SPDX-License-Identifier: MIT */
/*
 * Priority classes: start-time fair queueing of bytes. A class's count is its served bytes divided
 * by its weight. The next class is the waiting class with the smallest count. The count of a class
 * that begins to wait is raised, if it is smaller, to the highest count that a class had when it
 * was served. This has the following effects:
 * - While all classes wait, they get shares in proportion to their weights, and none starves.
 * - The share that a class does not use goes to the others.
 * - The first request of a class that has been idle goes before waiting requests of lower classes.
 */
#include "sched_priv.h"

static const double weights[SCHED_PRIORITIES] = {16, 4, 1};

void class_grow(struct sched *s, uint32_t priority, uint64_t n)
{
	struct class *c = &s->classes[priority];

	if (!c->waiting && c->served < s->served)
		c->served = s->served;
	c->waiting += n;
}

void class_shrink(struct sched *s, uint32_t priority, uint64_t n)
{
	s->classes[priority].waiting -= n;
}

void class_serve(struct sched *s, uint32_t priority, uint64_t bytes)
{
	struct class *c = &s->classes[priority];

	if (c->served > s->served)
		s->served = c->served;
	c->served += (double)bytes / weights[priority];
}

uint32_t class_next(const struct sched *s, uint32_t without)
{
	uint32_t next = SCHED_PRIORITIES;

	for (uint32_t p = 0; p < s->config.priorities; p++) {
		if (!s->classes[p].waiting || (without >> p & 1))
			continue;
		if (next == SCHED_PRIORITIES || s->classes[p].served < s->classes[next].served)
			next = p;
	}
	return next;
}
