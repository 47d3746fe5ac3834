/* SPDX-License-Identifier: MIT */
/* A heap of events, ordered by time. */
#ifndef TENT_EVENT_H
#define TENT_EVENT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define EVENTS_MAX 16384

enum event_kind {
	EV_RATE,
	EV_FAULT,
	EV_RETURN,
	EV_PORT_DOWN,
	EV_PORT_UP,
	EV_FENCED,
	EV_PROBED,
	EV_SUBMIT,
	EV_URGENT,
};

struct event {
	double at;
	enum event_kind kind;
	uint32_t rail;
	uint32_t number; /* the rail's epoch, or the index of a step of its rate or of an outage */
};

struct events {
	struct event e[EVENTS_MAX]; /* event i is not earlier than its parent (i - 1) / 2 */
	uint32_t n;
};

static inline double events_next(const struct events *h)
{
	return h->n ? h->e[0].at : INFINITY;
}

static inline void events_swap(struct events *h, uint32_t i, uint32_t j)
{
	struct event e = h->e[i];

	h->e[i] = h->e[j];
	h->e[j] = e;
}

/* False: there are too many events. */
static inline bool events_add(struct events *h, struct event e)
{
	uint32_t i = h->n;

	if (i == EVENTS_MAX)
		return false;
	h->e[h->n++] = e;
	for (; i && h->e[(i - 1) / 2].at > h->e[i].at; i = (i - 1) / 2)
		events_swap(h, i, (i - 1) / 2);
	return true;
}

/* Removes and returns the first event. There must be one. */
static inline struct event events_take(struct events *h)
{
	struct event first = h->e[0];
	uint32_t i = 0;

	h->e[0] = h->e[--h->n];
	for (;;) {
		uint32_t least = i;

		for (uint32_t child = 2 * i + 1; child <= 2 * i + 2; child++) {
			if (child < h->n && h->e[child].at < h->e[least].at)
				least = child;
		}
		if (least == i)
			return first;
		events_swap(h, i, least);
		i = least;
	}
}

#endif
