/* SPDX-License-Identifier: MIT */
#include "control.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/*
 * Defaults for the simulator's default machine. WINDOW is about 1.15 round trips of a single call,
 * including the daemons' loops (4.9 us), divided by the time that a NIC context needs per WRITE
 * (0.57 us). FULL is a little more than the number of messages that a daemon handles in the time
 * of a WRITE (68 ns per message): this number of calls is worth a WRITE of its own.
 */
#define WINDOW 10
#define FULL 9
#define WINDOW_MOST 128 /* largest derived K; an endpoint can record CONTROL_POSTED WRITEs */
#define AGE_UNIT_NS 20000ull /* a wait of this length has the weight of one call */
#define SPACING_NS 2000ull /* least mean time between WRITEs beyond the window */

#define NUMBER(field) offsetof(struct control_spec, field)

/* The text of a control: a word, and for some kinds a colon and numbers with commas between. */
static const struct form {
	const char *word;
	uint32_t n_numbers;
	size_t numbers[2]; /* their offsets in struct control_spec */
} forms[] = {
	[CONTROL_AUTO] = {"auto", 2, {NUMBER(window), NUMBER(full)}},
	[CONTROL_NONE] = {"none", 0, {0}},
	[CONTROL_BUDGET] = {"budget", 1, {NUMBER(n)}},
	[CONTROL_THRESHOLD] = {"threshold", 2, {NUMBER(threshold), NUMBER(n)}},
	[CONTROL_ADAPTIVE] = {"adaptive-budget", 0, {0}},
	[CONTROL_HOLD] = {"hold", 1, {NUMBER(hold_us)}},
	[CONTROL_ADAPTIVE_HOLD] = {"adaptive-hold", 0, {0}},
	[CONTROL_LITTLE] = {"little", 0, {0}},
};

/* Reads a number from 1 to CONTROL_NUMBER_MAX. Returns the character after it, or NULL. */
static const char *parse_number(const char *s, uint32_t *n_p)
{
	char *end;
	unsigned long n;

	if (*s < '0' || *s > '9')
		return NULL;
	n = strtoul(s, &end, 10);
	if (n < 1 || n > CONTROL_NUMBER_MAX)
		return NULL;
	*n_p = (uint32_t)n;
	return end;
}

/* Reads the numbers of a form. True: the text ends after them. */
static bool parse_numbers(const char *s, const struct form *f, struct control_spec *spec)
{
	for (uint32_t i = 0; s && i < f->n_numbers; i++) {
		uint32_t *number = (void *)((char *)spec + f->numbers[i]);

		s = *s == (i ? ',' : ':') ? parse_number(s + 1, number) : NULL;
	}
	return s && !*s;
}

int control_parse(const char *text, struct control_spec *spec_p)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct control_spec spec = {.kind = (enum control_kind)i,
			.window = WINDOW,
			.full = FULL};
		size_t len = strlen(forms[i].word);

		if (strncmp(text, forms[i].word, len) != 0)
			continue;
		spec.derive = i == CONTROL_AUTO && !text[len];
		if (spec.derive || parse_numbers(text + len, &forms[i], &spec)) {
			*spec_p = spec;
			return 0;
		}
	}
	return -EINVAL;
}

/*
 * The window for a round trip that is long compared with the time per WRITE. It is the number of
 * WRITEs with calls that a context can send in a round trip, in addition to as many WRITEs with
 * replies. With a smaller window the context would be idle at times.
 */
static double filling(const struct control_times *times)
{
	return .5 * times->round_trip_ns / times->write_ns;
}

void control_derive(struct control_spec *spec, const struct control_times *times)
{
	spec->filling = clamp(filling(times), 0, WINDOW_MOST);
	spec->window = clamp(1.15 * times->round_trip_ns / times->write_ns, 2, 12);
	if (spec->window < spec->filling)
		spec->window = spec->filling;
	spec->full = clamp(times->write_ns / times->message_ns, 8, CONTROL_NUMBER_MAX);
}

/* Writes to @text the limit that control_share() has set for K, or "" if there is none. */
static void explain_share(const struct control_spec *spec, const struct control_spec *derived,
	double under_way, char *text, size_t size)
{
	*text = 0;
	if (spec->window < derived->window)
		snprintf(text, size,
			"; K at most %u for %.0f calls under way (1.5 x their root but at least %u)",
			spec->window, under_way, derived->filling > 5 ? derived->filling : 5);
}

static void explain_window(const struct control_times *t, bool fills, char *text, size_t size)
{
	snprintf(text, size, "K = %s x %.0f ns / %.0f ns = %.1f within %s", fills ? "0.5" : "1.15",
		t->round_trip_ns, t->write_ns,
		fills ? filling(t) : 1.15 * t->round_trip_ns / t->write_ns,
		fills ? "12 to 128" : "2 to 12");
}

void control_explain(const struct control_spec *spec, const struct control_origin *origin,
	char *text, size_t size)
{
	const struct control_times *t = &origin->times;
	struct control_spec derived = {.window = WINDOW};
	bool known = t->write_ns > 0;
	char window[96] = "", share[96];

	if (known) {
		control_derive(&derived, t);
		explain_window(t, derived.filling > 12, window, sizeof(window));
	}
	explain_share(spec, &derived, origin->under_way, share, sizeof(share));
	if (spec->kind != CONTROL_AUTO || !spec->derive)
		snprintf(text, size, "as given");
	else if (!known)
		snprintf(text, size, "%s%s", origin->source, share);
	else
		snprintf(text, size, "%s; B = %.0f ns / %.0f ns = %.1f but at least 8; %s%s",
			window, t->write_ns, t->message_ns, t->write_ns / t->message_ns,
			origin->source, share);
}

void control_share(struct control_spec *spec, double under_way)
{
	uint32_t most = clamp(1.5 * sqrt(under_way), 5, CONTROL_NUMBER_MAX);

	if (most < spec->filling)
		most = spec->filling;
	if (spec->kind == CONTROL_AUTO && spec->derive && spec->window > most)
		spec->window = most;
}

void control_name(const struct control_spec *spec, char name[CONTROL_NAME_MAX])
{
	const struct form *f = &forms[spec->kind];
	int at = snprintf(name, CONTROL_NAME_MAX, "%s", f->word);

	for (uint32_t i = 0; i < f->n_numbers; i++) {
		const uint32_t *number = (const void *)((const char *)spec + f->numbers[i]);

		at += snprintf(name + at, (size_t)(CONTROL_NAME_MAX - at), "%c%u", i ? ',' : ':',
			*number);
	}
}

int control_init(struct control *c, const struct control_spec *spec, uint32_t endpoints)
{
	*c = (struct control){.spec = *spec, .endpoints = endpoints, .serves = UINT32_MAX};
	adaptive_init(&c->adaptive);
	c->hold = (struct hold){.adaptive = spec->kind == CONTROL_ADAPTIVE_HOLD,
		.ns = spec->hold_us * 1e3,
		.full = endpoints};
	c->ep = calloc(endpoints, sizeof(*c->ep));
	c->ends = calloc(endpoints, sizeof(*c->ends));
	c->open = calloc(endpoints, sizeof(*c->open));
	if (!c->ep || !c->ends || !c->open)
		return -ENOMEM;
	return control_counts(c) ? little_init(&c->little, c->endpoints) : 0;
}

void control_limit(struct control *c, double requests, uint32_t daemons, uint32_t own,
	uint32_t others)
{
	bool many = own * daemons >= 2 * others;

	double share;

	if (c->spec.kind != CONTROL_AUTO || !others)
		return;
	/* Ignores smaller differences in endpoints; otherwise daemons would take turns again. */
	share = many ? (double)own / others : 1. / daemons;
	c->serves = clamp(2. / 3 * requests * share, 32, UINT32_MAX);
}

void control_fini(struct control *c)
{
	free(c->open);
	free(c->ends);
	little_fini(&c->little);
	free(c->ep);
}

static void forget_consumed(struct control *c, uint32_t ep, uint64_t consumed)
{
	struct control_posted *p = &c->ep[ep];

	while (p->count && p->oldest <= consumed) {
		p->head = (p->head + 1) % CONTROL_POSTED;
		p->oldest = c->ends[ep].end[p->head];
		p->count--;
		c->unconsumed--;
	}
	if (!p->count)
		p->head = 0; /* reuses the first cache line of the ring */
}

void control_refresh(struct control *c, control_consumed_fn *consumed, void *arg)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n_open; i++) {
		uint32_t ep = c->open[i];
		struct control_posted *p = &c->ep[ep];

		if (p->count) {
			uint64_t position = consumed(arg, ep);

			if (p->oldest <= position)
				forget_consumed(c, ep, position);
		}
		p->open = p->count != 0;
		c->open[n] = ep;
		n += p->open;
	}
	c->n_open = n;
}

static uint64_t age_ns(const struct control *c, const struct control_load *load, uint64_t now_ns)
{
	uint64_t since = c->ep[load->ep].since_ns;

	return since ? now_ns - since : 0;
}

static void swap(struct control_load *loads, size_t to, size_t from)
{
	struct control_load l = loads[to];

	loads[to] = loads[from];
	loads[from] = l;
}

/* A selection under way: loads 0 to go - 1 are selected. */
struct selection {
	struct control *c;
	struct control_load *loads;
	size_t n, go;
	uint32_t taken; /* number of selected endpoints with calls */
	uint64_t now_ns; /* 0: the clock has not been read yet */
};

/* Records the decision about a load, if there is a log. */
static void note(const struct selection *s, const struct control_load *load, uint32_t unconsumed,
	enum decision_reason why)
{
	if (unlikely(s->c->log))
		note_flush(s->c, load, age_ns(s->c, load, s->now_ns), unconsumed, why);
}

/* Selects loads[i]: moves it to the front. */
static void take(struct selection *s, size_t i, enum decision_reason why)
{
	const struct control *c = s->c;

	note(s, &s->loads[i],
		control_counts(c) ? c->ep[s->loads[i].ep].count : c->unconsumed + s->taken, why);
	s->taken += s->loads[i].calls != 0;
	swap(s->loads, s->go++, i);
}

/* Selects the endpoints that need not wait. */
static void take_free(struct selection *s)
{
	const struct control_load *l = s->loads;
	const uint32_t full = s->c->spec.full;

	for (size_t i = 0, n = s->n; i < n; i++, l++) {
		if (l->replies || l->calls >= full)
			take(s, i, l->replies ? BECAUSE_REPLIES : BECAUSE_FULL);
	}
}

/* Selects all other endpoints too. */
static size_t take_rest(struct selection *s, enum decision_reason why)
{
	if (unlikely(s->c->log)) {
		for (size_t i = s->go; i < s->n; i++)
			take(s, i, why);
	}
	return s->n;
}

/* The waiting endpoint to flush next, by calls and age. */
struct urgent {
	uint64_t most;
	size_t i;
};

static inline void consider(struct urgent *u, const struct selection *s, size_t i)
{
	const struct control_load *l = &s->loads[i];
	uint64_t calls_and_age = l->calls * AGE_UNIT_NS + s->now_ns - s->c->ep[l->ep].since_ns;

	u->i = calls_and_age > u->most ? i : u->i;
	u->most = calls_and_age > u->most ? calls_and_age : u->most;
}

static size_t most_urgent(const struct selection *s)
{
	struct urgent u = {.i = s->go};

	for (size_t i = s->go; i < s->n; i++)
		consider(&u, s, i);
	return u.i;
}

/*
 * Starts the time of waiting of endpoints that did not wait before. Selects the endpoints that have
 * waited for too long. Returns the index of the most urgent one of the rest.
 */
static size_t take_overdue(struct selection *s)
{
	uint64_t most_ns = s->c->spec.full * AGE_UNIT_NS + s->c->endpoints * SPACING_NS;
	struct urgent u = {.i = s->go};
	bool any = false;

	for (size_t i = s->go, n = s->n; i < n; i++) {
		uint64_t *since_ns = &s->c->ep[s->loads[i].ep].since_ns;

		*since_ns = *since_ns ? *since_ns : s->now_ns;
		if (unlikely(s->now_ns - *since_ns >= most_ns)) {
			take(s, i, BECAUSE_OVERDUE);
			any = true;
		} else {
			consider(&u, s, i);
		}
	}
	return unlikely(any) ? most_urgent(s) : u.i;
}

static bool has_room(const struct selection *s)
{
	return s->go < s->n && s->c->unconsumed + s->taken < s->c->spec.window;
}

/* Selects as many endpoints as the window has room for, beginning with loads[first]. */
static void take_most_urgent(struct selection *s, size_t first)
{
	if (!has_room(s))
		return;
	take(s, first, BECAUSE_URGENT);
	while (has_room(s))
		take(s, most_urgent(s), BECAUSE_URGENT);
}

/* little: with batching on, an endpoint with calls under way waits. */
static size_t select_acknowledged(struct selection *s, control_consumed_fn *consumed, void *arg)
{
	struct control *c = s->c;

	if (!c->little.batching)
		return take_rest(s, BECAUSE_OFF);
	take_free(s);
	for (size_t i = s->go; i < s->n; i++) {
		uint32_t ep = s->loads[i].ep;

		if (c->ep[ep].count)
			forget_consumed(c, ep, consumed(arg, ep));
		if (!c->ep[ep].count)
			take(s, i, BECAUSE_CONSUMED);
		else
			note(s, &s->loads[i], c->ep[ep].count, BECAUSE_UNCONSUMED);
	}
	c->waits += s->go < s->n;
	return s->go;
}

/* auto: the endpoints that are not selected wait. */
static void leave_rest(const struct selection *s)
{
	s->c->waits += s->go < s->n;
	if (unlikely(s->c->log)) {
		for (size_t i = s->go; i < s->n; i++)
			note(s, &s->loads[i], s->c->unconsumed + s->taken, BECAUSE_WINDOW);
	}
}

static size_t select_in_window(struct selection *s, control_consumed_fn *consumed,
	control_now_fn *now, void *arg)
{
	struct control *c = s->c;

	take_free(s);
	if (s->go == s->n || c->unconsumed + s->taken + (s->n - s->go) <= c->spec.window)
		return take_rest(s, BECAUSE_ROOM);
	control_refresh(c, consumed, arg);
	if (!s->now_ns)
		s->now_ns = now(arg);
	take_most_urgent(s, take_overdue(s));
	leave_rest(s);
	return s->go;
}

size_t control_select(struct control *c, struct control_load *loads, size_t n,
	control_consumed_fn *consumed, control_now_fn *now, void *arg)
{
	struct selection s = {.c = c, .loads = loads, .n = n};

	if (!control_selects(c))
		return n;
	if (unlikely(c->log))
		s.now_ns = now(arg);
	return control_counts(c) ? select_acknowledged(&s, consumed, arg) :
				   select_in_window(&s, consumed, now, arg);
}

void control_sent(struct control *c, const struct control_load *load, uint64_t end)
{
	struct control_posted *p = &c->ep[load->ep];
	uint64_t *ends = c->ends[load->ep].end;

	if (!control_selects(c))
		return;
	p->since_ns = 0;
	if (!load->calls)
		return;
	if (p->count == CONTROL_POSTED) { /* the ring is full: replaces the last end */
		ends[(p->head + p->count - 1) % CONTROL_POSTED] = end;
		return;
	}
	if (!p->open)
		c->open[c->n_open++] = load->ep;
	p->open = true;
	if (!p->count)
		p->oldest = end;
	ends[(p->head + p->count++) % CONTROL_POSTED] = end;
	c->unconsumed++;
}

void control_failed(struct control *c, uint32_t ep)
{
	c->unconsumed -= c->ep[ep].count;
	c->ep[ep].count = 0;
}
