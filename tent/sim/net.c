/* SPDX-License-Identifier: MIT */
#include "net.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/rand.h"
#include "bound.h"

#define DONE 1e-3 /* bytes; a smaller rest is a rounding error */
#define FLUSH_NS 1000.0 /* the time from a post to its error on a rail with NET_FLUSH */

static struct net_item *item_at(struct net_rail *r, uint32_t i)
{
	return &r->items[i % NET_QUEUE];
}

static bool sending(const struct net_rail *r)
{
	return r->sent != r->tail && r->fault == NET_WELL;
}

/* Max-min fairness: a rail that needs less than an equal part gets what it needs. */
static void share_fairly(struct net *n, uint32_t g)
{
	double left = n->group_rates[g];
	uint32_t waiting = 0;
	bool again = true;

	for (uint32_t i = 0; i < n->n_rails; i++) {
		struct net_rail *r = &n->rails[i];

		if (r->group == g && sending(r)) {
			r->speed = -1;
			waiting++;
		}
	}
	while (again && waiting) {
		double part = left / waiting;

		again = false;
		for (uint32_t i = 0; i < n->n_rails; i++) {
			struct net_rail *r = &n->rails[i];

			if (r->group == g && r->speed < 0 && r->rate <= part) {
				r->speed = r->rate;
				left -= r->rate;
				waiting--;
				again = true;
			}
		}
	}
	for (uint32_t i = 0; i < n->n_rails; i++) {
		if (n->rails[i].group == g && n->rails[i].speed < 0)
			n->rails[i].speed = left / waiting;
	}
}

static void share_in_order(struct net *n, uint32_t g)
{
	double left = n->group_rates[g];

	for (;;) {
		struct net_rail *first = NULL;

		for (uint32_t i = 0; i < n->n_rails; i++) {
			struct net_rail *r = &n->rails[i];

			if (r->group == g && sending(r) && r->speed < 0 &&
				(!first || item_at(r, r->sent)->began_at <
						   item_at(first, first->sent)->began_at))
				first = r;
		}
		if (!first)
			return;
		first->speed = fmin(first->rate, left);
		left -= first->speed;
	}
}

static void share(struct net *n)
{
	bool used[NET_GROUPS] = {0};

	for (uint32_t i = 0; i < n->n_rails; i++) {
		struct net_rail *r = &n->rails[i];

		r->speed = sending(r) ? r->rate : 0;
		if (r->group != BOUND_NO_GROUP && sending(r)) {
			r->speed = -1;
			used[r->group] = true;
		}
	}
	for (uint32_t g = 0; g < NET_GROUPS; g++) {
		if (!used[g])
			continue;
		if (n->sharing == NET_FAIR)
			share_fairly(n, g);
		else
			share_in_order(n, g);
	}
}

int net_post(struct net *n, uint32_t rail, uint64_t token, uint64_t length)
{
	struct net_rail *r = &n->rails[rail];
	struct net_item *item = item_at(r, r->tail);

	if (r->tail - r->head == NET_QUEUE)
		return -EAGAIN;
	*item = (struct net_item){
		.token = token,
		.length = length,
		.posted_at = n->now,
		.began_at = n->now,
		.done_at = n->now + FLUSH_NS,
		.left = (double)length + r->cost_ns * r->line_rate,
	};
	r->tail++;
	return 0;
}

/* The time at which the first item of the rail completes, with or without an error. */
static double rail_done_at(struct net_rail *r)
{
	if (r->fault == NET_FLUSH && r->head != r->tail)
		return item_at(r, r->head)->done_at;
	if (r->fault == NET_WELL && r->head != r->sent)
		return item_at(r, r->head)->done_at;
	return INFINITY;
}

double net_next(struct net *n)
{
	double next = INFINITY;

	share(n);
	for (uint32_t i = 0; i < n->n_rails; i++) {
		struct net_rail *r = &n->rails[i];

		next = fmin(next, rail_done_at(r));
		if (r->speed > 0)
			next = fmin(next, n->now + item_at(r, r->sent)->left / r->speed);
	}
	return next > n->now ? next : n->now;
}

static void end_sending(struct net *n, uint32_t rail)
{
	struct net_rail *r = &n->rails[rail];
	struct net_item *item = item_at(r, r->sent);
	double back = n->now + r->latency * (1 + r->jitter * rand_unit(&n->random));

	/* Completions come in order. */
	if (r->sent != r->head)
		back = fmax(back, item_at(r, r->sent - 1)->done_at);
	item->done_at = back;
	r->sent++;
	if (r->sent != r->tail)
		item_at(r, r->sent)->began_at = n->now;
	n->on_sent(n->arg, rail, item);
}

static void end_items(struct net *n, uint32_t rail)
{
	struct net_rail *r = &n->rails[rail];

	while (rail_done_at(r) <= n->now) {
		struct net_item item = *item_at(r, r->head);
		int status = r->fault == NET_FLUSH ? -EIO : 0;

		if (r->sent == r->head)
			r->sent++;
		r->head++;
		n->on_done(n->arg, rail, &item, status);
	}
}

void net_advance(struct net *n, double at)
{
	double passed = at - n->now;

	n->now = at;
	for (uint32_t i = 0; i < n->n_rails; i++) {
		struct net_rail *r = &n->rails[i];

		if (r->speed > 0) {
			struct net_item *item = item_at(r, r->sent);

			item->left -= r->speed * passed;
			/*
			 * Second comparison: the time of the rest is so short that adding it does
			 * not change @at, a double.
			 */
			if (item->left <= DONE || at + item->left / r->speed <= at)
				end_sending(n, i);
		}
	}
	for (uint32_t i = 0; i < n->n_rails; i++)
		end_items(n, i);
}

void net_set_rate(struct net *n, uint32_t rail, double rate)
{
	n->rails[rail].rate = rate;
}

void net_set_fault(struct net *n, uint32_t rail, enum net_fault fault)
{
	struct net_rail *r = &n->rails[rail];

	r->fault = fault;
	if (fault == NET_FLUSH) {
		for (uint32_t i = r->head; i != r->tail; i++)
			item_at(r, i)->done_at = n->now;
	}
}

uint64_t net_fence(struct net *n, uint32_t rail)
{
	struct net_rail *r = &n->rails[rail];
	double arrived = 0;

	for (uint32_t i = r->head; i != r->tail; i++) {
		const struct net_item *item = item_at(r, i);

		if (item->left < (double)item->length)
			arrived += (double)item->length - fmax(item->left, 0);
	}
	r->head = r->sent = r->tail;
	return (uint64_t)arrived;
}

uint64_t net_outstanding(const struct net *n, uint32_t rail)
{
	const struct net_rail *r = &n->rails[rail];
	uint64_t bytes = 0;

	for (uint32_t i = r->head; i != r->tail; i++)
		bytes += r->items[i % NET_QUEUE].length;
	return bytes;
}
