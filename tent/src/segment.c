/* SPDX-License-Identifier: MIT */
/* Import: reads a description, connects to the peer, and opens the pairs of rails. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/sized.h"
#include "base/tcp.h"
#include "engine.h"
#include "rail.h"
#include "why.h"

#define ANSWER_MS 10000 /* maximum time for a reply; longer than the retries of a queue pair */
#define IMPORT_MS 60000 /* maximum time for all replies, however many messages the peer sends */

static const struct live_type live_segment = {LIVE_MAGIC, "tent", "segment",
	.field = {
		{"number", LIVE_AT(struct tent_segment, number)},
		{"port", LIVE_AT(struct tent_segment, desc.port)},
		{"requests", LIVE_AT(struct tent_segment, open)},
		{"rails", LIVE_AT(struct tent_segment, n_pairs)},
		{"lost", LIVE_AT(struct tent_segment, lost), .form = LIVE_SIGNED},
	}};

static const struct live_type live_rail = {LIVE_MAGIC, "tent", "rail",
	"none up fencing down connecting probing half",
	.field = {
		{"state", LIVE_AT(struct rail, state), .form = LIVE_WORD},
		{"posted", LIVE_AT(struct rail, posted)},
		{"in-flight", LIVE_AT(struct rail, inflight)},
		{"bytes", LIVE_AT(struct rail, bytes)},
		{"slices", LIVE_AT(struct rail, slices)},
		{"outages", LIVE_AT(struct rail, exclusions)},
	}};

static void live_segment_add(struct tent_segment *s)
{
	char name[LIVE_NAME];

	s->live = live_add(&live_segment, s, s->desc.host);
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		struct pair *p = &s->pairs[i];

		/* Long names are cut, so that a part of each one fits. */
		snprintf(name, sizeof(name), "%u: %.*s to %.*s", s->number, LIVE_NAME / 3,
			s->t->rails[p->local].name, LIVE_NAME / 3, s->desc.rails[p->remote].name);
		p->live = live_add(&live_rail, sched_rail(s->sched, i), name);
	}
}

/*
 * Ends the events of the connection first, because the caller may then unmap memory for long, while
 * nobody reads the messages of the connection.
 */
static void close_links(struct tent_segment *s)
{
	live_remove(s->live);
	if (s->ctl.fd >= 0)
		loop_unwatch(s->t, s->ctl.fd);
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		live_remove(s->pairs[i].live);
		loop_close_link(s->t, &s->pairs[i].link);
		loop_close_link(s->t, &s->pairs[i].closed);
		latrec_hist_destroy(s->pairs[i].slice_ns);
	}
	latrec_hist_destroy(s->resend_ns);
	blame_fini(s);
}

/*
 * Closes the connection after lent_fini() has unmapped the peer's memory: when the connection is
 * closed, the peer may use that memory for something else.
 */
static void free_rest(struct tent_segment *s)
{
	lent_fini(s);
	free(s->growth.text);
	sched_destroy(s->sched);
	peer_close(s);
	desc_fini(&s->desc);
	free(s);
}

void segment_free(struct tent_segment *s)
{
	close_links(s);
	free_rest(s);
}

/* True: the peer has rails of this port's transport. */
static bool shared_by(const struct desc *d, const struct port *p)
{
	for (uint32_t i = 0; i < d->n_rails; i++) {
		for (const char *const *kind = p->transport->kinds; *kind; kind++) {
			if (!strcmp(*kind, d->rails[i].kind))
				return true;
		}
	}
	return false;
}

/*
 * Finds the rails whose transport the peer has as well (with a rail map, all rails), and writes
 * their numbers. Returns how many there are, or -EREMOTE: the peer has none of the transports.
 */
static int find_shared(const struct tent_segment *s, uint32_t at_p[TENT_MAX_RAILS],
	struct tent_why *why)
{
	const struct tent *t = s->t;
	bool some = false;
	int n = 0;

	for (uint32_t i = 0; i < t->n_ports; i++) {
		bool shared = shared_by(&s->desc, t->ports[i]);

		if (shared || t->map)
			at_p[n++] = i;
		some |= shared;
	}
	if (!some)
		return why_say(why, -EREMOTE,
			"segment: its rails are %s, those of this engine are %s",
			s->desc.transport->rails, t->transport->rails);
	return n;
}

static int pair(struct tent_segment *s, struct tent_why *why)
{
	struct rail_id local[TENT_MAX_RAILS];
	struct rail_pair pairs[TENT_MAX_RAILS];
	uint32_t at[TENT_MAX_RAILS];
	const struct tent *t = s->t;
	int n = find_shared(s, at, why);

	if (n >= 0 && t->transport->reach && t->transport->reach(&s->desc, why))
		return -EREMOTE;
	for (int i = 0; i < n; i++)
		local[i] = t->rails[at[i]];
	if (n > 0)
		n = pair_rails(local, (uint32_t)n, s->desc.rails, s->desc.n_rails, t->map, pairs,
			why);
	if (n < 0)
		return n;
	s->n_pairs = (uint32_t)n;
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		s->pairs[i].local = at[pairs[i].local];
		s->pairs[i].remote = pairs[i].remote;
	}
	return 0;
}

static const char *greeting_error(int err)
{
	switch (err) {
	case -EACCES:
		return "it does not know this segment (any more)";
	case -EUSERS:
		return "as many peers as it accepts have already imported its segments: release one";
	default:
		return strerror(-err);
	}
}

/* @limit: of the import; the peer does not have to answer while this side maps memory. */
static int left_ms(const struct tent_segment *s, uint64_t limit)
{
	return tcp_left_ms(limit + s->mapping_ns);
}

/* Waits for the next message. */
static int await_message(struct tent_segment *s, uint64_t limit, struct ctl_msg *msg_p)
{
	int left = left_ms(s, limit);

	/* ctl_await() would return a message that is there, although the time is over. */
	if (!left)
		return -ETIMEDOUT;
	return ctl_await(&s->ctl, left < ANSWER_MS ? left : ANSWER_MS, msg_p);
}

/* Waits until the segment has all registrations up to this version. */
static int await_version(struct tent_segment *s, uint32_t version, uint64_t limit)
{
	struct ctl_msg msg;
	int err = 0;

	learn_told(s, version);
	while (!err && s->growth.version < version) {
		err = s->lost ? s->lost : await_message(s, limit, &msg);
		pthread_mutex_lock(&s->t->lock);
		if (!err)
			err = move_message(s, &msg, clock_ns());
		pthread_mutex_unlock(&s->t->lock);
	}
	return err;
}

static int greet(struct tent_segment *s, uint64_t limit, struct tent_why *why)
{
	struct ctl_msg msg = {.type = CTL_HELLO, .rail = s->n_pairs};
	int err = ctl_connect(s->desc.host, s->desc.port, ANSWER_MS, &s->ctl, why);
	socklen_t len = sizeof(s->desc.at);

	if (err)
		return err;
	getpeername(s->ctl.fd, (struct sockaddr *)&s->desc.at, &len);
	memcpy(msg.key, s->desc.key, sizeof(msg.key));
	err = ctl_send(&s->ctl, &msg);
	if (!err)
		err = await_message(s, limit, &msg);
	if (!err && msg.type != CTL_WELCOME)
		err = -EPROTO;
	if (!err)
		err = -(int)msg.status;
	if (!err && msg.epoch != s->desc.epoch)
		lent_forget(s);
	for (uint32_t i = 0; i < s->desc.n_buffers; i++) {
		if (s->desc.buffers[i]->id > s->growth.version)
			s->growth.version = s->desc.buffers[i]->id;
	}
	if (!err)
		err = await_version(s, msg.rail, limit);
	if (err)
		why_say(why, err, "peer %s, port %u: %s", s->desc.host, s->desc.port,
			greeting_error(err));
	return err;
}

static int pair_error(const struct tent_segment *s, uint32_t i, int err, struct tent_why *why)
{
	const struct pair *p = &s->pairs[i];

	return why_say(why, -ENETUNREACH, "rail %s cannot reach rail %s of the peer: %s",
		s->t->rails[p->local].name, s->desc.rails[p->remote].name,
		err == -EADDRINUSE ?
			"both have the same address, so they are not in one network (software HCA: use one fabric)" :
			strerror(-err));
}

/* Returns the number of pairs in use; or -errno, and writes the pair that cannot be opened. */
static int look(struct tent_segment *s, uint64_t limit, uint32_t *pair_p)
{
	bool late = !left_ms(s, limit);
	int n = 0;

	*pair_p = 0;
	move_progress(s, clock_ns(), true);
	if (s->lost)
		return s->lost;
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		bool in_use = sched_rail_in_use(s->sched, i);

		if (sched_rail_state(s->sched, i) == RAIL_DOWN || (late && !in_use)) {
			*pair_p = i;
			return s->pairs[i].status ? s->pairs[i].status : -ETIMEDOUT;
		}
		n += in_use;
	}
	return n;
}

/*
 * Waits until the scheduler has opened all pairs. The scheduler limits the time of each open, but
 * the peer's messages can make it open a pair again.
 */
static int await_pairs(struct tent_segment *s, uint64_t limit, struct tent_why *why)
{
	struct pollfd p = {.fd = s->ctl.fd, .events = POLLIN};
	uint32_t at = 0;
	int n;

	for (;;) {
		pthread_mutex_lock(&s->t->lock);
		n = look(s, limit, &at);
		pthread_mutex_unlock(&s->t->lock);
		if (n < 0)
			return pair_error(s, at, n, why);
		if ((uint32_t)n == s->n_pairs)
			return 0;
		poll(&p, 1, 1);
	}
}

/* Creates the histograms. 0 or -ENOMEM. */
static int latencies_create(struct tent_segment *s)
{
	int err = latrec_hist_create(NULL, &s->resend_ns);

	for (uint32_t i = 0; !err && i < s->n_pairs; i++)
		err = latrec_hist_create(NULL, &s->pairs[i].slice_ns);
	return err;
}

static int prepare(struct tent_segment *s, const char *text, struct tent_why *why)
{
	uint64_t limit = tcp_limit(IMPORT_MS);
	int err = desc_read(text, &s->desc, why);

	if (!err)
		err = pair(s, why);
	if (!err && (latencies_create(s) || move_create(s)))
		err = why_say(why, -ENOMEM, "segment: no memory");
	for (uint32_t i = 0; !err && i < s->desc.n_buffers; i++)
		lent_map(s, s->desc.buffers[i]);
	if (!err && s->desc.stage)
		lent_map(s, s->desc.stage);
	if (!err)
		err = greet(s, limit, why);
	return err ? err : await_pairs(s, limit, why);
}

int tent_import(struct tent *t, const char *text, struct tent_why *why,
	struct tent_segment **segment_p)
{
	struct tent_segment *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->t = t;
	s->ctl.fd = -1;
	s->wake = SCHED_NEVER;
	s->blame.pair = BLAME_NONE;
	s->queued.head = s->staged.head = NO_TASK;
	for (uint32_t p = 0; p < SCHED_PRIORITIES; p++)
		s->waiting[p].head = NO_TASK;
	for (uint32_t i = 0; i < NOTICE_SLOTS; i++)
		s->slots[i].task = NO_TASK;
	err = prepare(s, text, why);
	pthread_mutex_lock(&t->lock);
	if (err) {
		segment_free(s);
	} else {
		s->number = t->n_imports++;
		s->next = t->segments;
		t->segments = s;
		live_segment_add(s);
		loop_watch(t, s->ctl.fd);
		loop_wake(t, 0);
		*segment_p = s;
	}
	pthread_mutex_unlock(&t->lock);
	return err;
}

int tent_release(struct tent_segment *s)
{
	struct tent *t = s ? s->t : NULL;

	if (!s)
		return 0;
	pthread_mutex_lock(&t->lock);
	if (s->open) {
		pthread_mutex_unlock(&t->lock);
		return -EBUSY;
	}
	while (s->movers)
		pthread_cond_wait(&t->ended, &t->lock);
	LIST_REMOVE(&t->segments, s);
	close_links(s);
	pthread_mutex_unlock(&t->lock);
	free_rest(s); /* without the lock, because unmapping may take long */
	return 0;
}

int tent_segment_remote(const struct tent_segment *s, uint32_t i, struct tent_remote *remote_p,
	size_t size)
{
	struct tent_remote remote = {0};
	bool has;

	pthread_mutex_lock(&s->t->lock);
	has = i < s->desc.n_buffers;
	if (has) {
		const struct desc_buffer *b = s->desc.buffers[i];

		remote.addr = b->addr;
		remote.len = b->len;
		strcpy(remote.location, b->location);
	}
	pthread_mutex_unlock(&s->t->lock);
	if (!has)
		return -ENOENT;
	sized_out(remote_p, size, &remote, sizeof(remote));
	return 0;
}

uint64_t tent_version(struct tent *t)
{
	uint64_t version;

	pthread_mutex_lock(&t->lock);
	version = t->version;
	pthread_mutex_unlock(&t->lock);
	return version;
}

int tent_segment_await(struct tent_segment *s, uint64_t version, int timeout_ms)
{
	const struct timespec until = clock_timespec(tcp_limit(timeout_ms));
	struct tent *t = s->t;
	int err = 0;

	pthread_mutex_lock(&t->lock);
	loop_help(t);
	while (s->growth.version < version && !err) {
		if (s->lost)
			err = s->lost;
		else if (timeout_ms < 0)
			pthread_cond_wait(&t->ended, &t->lock);
		else
			err = -pthread_cond_timedwait(&t->ended, &t->lock, &until);
	}
	if (s->growth.version >= version)
		err = 0;
	pthread_mutex_unlock(&t->lock);
	return err;
}
