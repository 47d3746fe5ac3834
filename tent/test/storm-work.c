/* SPDX-License-Identifier: MIT */
/*
 * The workers of a storm: threads that move data in rounds and compare every byte.
 *
 * They check the promises of tent.h: the bytes of a request that succeeds are in place, and no
 * other byte changes; nothing changes later; a notice comes once; an error is an expected one. They
 * also check that each byte of a failed request is old or new; tent.h does not promise that.
 */
#include <poll.h>
#include <sched.h>

#include "storm.h"

#define BATCH 8
#define MORE 6 /* while faults are injected, a worker plays up to MORE * plan.rounds rounds */
#define LOOKS 50 /* how many times a worker checks a batch before it sleeps */

/* A request, and what its check needs. */
struct job {
	uint32_t to, at_remote, at_local;
	int brief_memory; /* index into plan.briefs; -1: the request does not use such memory */
	bool gone; /* the brief memory had been unregistered before the request */
	struct notice *notice;
};

/* ---- moving ---- */

static void same(const struct worker *k, uint32_t to, const char *side, const uint8_t *is,
	const uint8_t *shall)
{
	uint64_t n = k->e->w->area, i = 0;

	if (!memcmp(is, shall, n))
		return;
	while (is[i] == shall[i])
		i++;
	fprintf(stderr, "engine %u, thread %u, peer %u: the %s memory has changed at %llu\n",
		k->e->id, k->thread, to, side, (unsigned long long)i);
	exit(1);
}

/* Checks that all memory of this thread has the expected contents. */
static void check_all(const struct worker *k)
{
	const struct world *w = k->e->w;

	for (uint32_t to = 0; to < w->n_engines; to++) {
		if (!k->e->segments[to])
			continue;
		same(k, to, "local", storm_local(w, k->e->id, k->thread, to), k->local[to]);
		if (!k->lost[to])
			same(k, to, "remote", storm_remote(w, k->e->id, k->thread, to),
				k->remote[to]);
	}
}

static uint64_t draw_length(struct worker *k)
{
	uint64_t area = k->e->w->area;

	switch (storm_below(&k->seed, 5)) {
	case 0:
		return 1 + storm_below(&k->seed, 64);
	case 1:
		return 1 + storm_below(&k->seed, 9000);
	case 2:
		return 64 * KIB - 1 + storm_below(&k->seed, 3);
	case 3:
		return 64 * KIB + 1 + storm_below(&k->seed, 20000);
	default:
		return 1 + storm_below(&k->seed, area);
	}
}

/* Draws an engine that this one has imported and that is not lost; ENGINES: there is none. */
static uint32_t draw_peer(struct worker *k)
{
	uint32_t n = k->e->w->n_engines, first = (uint32_t)storm_below(&k->seed, n);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t to = (first + i) % n;

		if (k->e->segments[to] && !k->lost[to])
			return to;
	}
	return ENGINES;
}

static struct notice *arm_notice(struct engine *e, uint32_t to, const uint8_t *at,
	const uint8_t *bytes, uint64_t len, uint16_t *value_p)
{
	uint32_t i = atomic_fetch_add(&e->values[to], 1);
	struct notice *n;

	if (i >= VALUES)
		return NULL;
	*value_p = (uint16_t)(1 + e->id * VALUES + i);
	n = &e->w->plans[to].notices[*value_p - 1];
	n->at = at;
	n->len = len;
	n->sum = storm_sum(bytes, len);
	atomic_store(&n->state, NOTICE_ARMED);
	return n;
}

/* Changes the request: it writes to memory that the peer may unregister while the request runs. */
static void make_brief(struct worker *k, uint32_t to, struct job *j, struct tent_request *r)
{
	const struct world *w = k->e->w;
	uint32_t v = (uint32_t)storm_below(&k->seed, BRIEFS), bit = to * BRIEFS + v;

	if (k->denied >> bit & 1)
		return;
	j->brief_memory = (int)v;
	j->gone = atomic_load(&w->plans[to].gone[v]);
	r->op = TENT_WRITE;
	r->remote =
		(uintptr_t)w->plans[to].briefs[v] + (k->e->id * THREADS + k->thread) * BRIEF_LEN;
	if (r->len > BRIEF_LEN)
		r->len = BRIEF_LEN;
}

/*
 * Makes a request for memory after the part that earlier requests of the batch use at this peer.
 * False: no memory is left.
 */
static bool make_request(struct worker *k, uint32_t to, const uint32_t *used, struct job *j,
	struct tent_request *r)
{
	const struct world *w = k->e->w;
	uint64_t gap = storm_chance(&k->seed, 50) ? 0 : storm_below(&k->seed, 3000);
	uint64_t len = draw_length(k), at = used[to] + gap;
	uint8_t *local, *remote;

	if (at + len > w->area)
		return false;
	*j = (struct job){.to = to, .at_remote = (uint32_t)at, .brief_memory = -1};
	/* The two sides are not aligned to each other. */
	j->at_local = at + len + 7 <= w->area ? (uint32_t)at + 7 : (uint32_t)at;
	local = storm_local(w, k->e->id, k->thread, to) + j->at_local;
	remote = storm_remote(w, k->e->id, k->thread, to) + at;
	*r = (struct tent_request){
		.size = sizeof(*r),
		.op = storm_chance(&k->seed, 50) ? TENT_READ : TENT_WRITE,
		.local = local,
		.segment = k->e->segments[to],
		.remote = (uintptr_t)remote,
		.len = len,
		.priority = (uint8_t)storm_below(&k->seed, k->e->p->priorities),
	};
	if (storm_chance(&k->seed, 6))
		make_brief(k, to, j, r);
	storm_fill(r->op == TENT_WRITE ? local : remote, (uint32_t)r->len, test_rand(&k->seed), 0);
	memcpy(r->op == TENT_WRITE ? k->local[to] + j->at_local : k->remote[to] + at,
		r->op == TENT_WRITE ? local : remote, r->len);
	if (j->brief_memory < 0 && storm_chance(&k->seed, w->notifies))
		j->notice = arm_notice(k->e, to, r->op == TENT_WRITE ? remote : local,
			r->op == TENT_WRITE ? local : remote, r->len, &r->notify);
	return true;
}

static uint32_t make_batch(struct worker *k, struct job *jobs, struct tent_request *requests)
{
	uint32_t want = 1 + (uint32_t)storm_below(&k->seed, BATCH), n = 0, used[ENGINES] = {0};

	for (uint32_t i = 0; i < want; i++) {
		uint32_t to = draw_peer(k);

		if (to == ENGINES)
			break;
		if (!make_request(k, to, used, &jobs[n], &requests[n]))
			continue;
		used[to] = jobs[n].at_local + (uint32_t)requests[n].len;
		n++;
	}
	return n;
}

/* ---- the end of a request ---- */

static bool known_error(const struct worker *k, const struct job *j, int err, bool cancelled)
{
	switch (err) {
	case -ECANCELED:
		return cancelled;
	case -ECONNRESET:
		return storm_may_die(k->e->w, j->to);
	case -EACCES:
		return j->brief_memory >= 0 || storm_may_die(k->e->w, j->to);
	case -ENETUNREACH:
	case -ETIMEDOUT:
	case -EREMOTEIO:
		return true;
	default:
		return false;
	}
}

static void check_status(const struct worker *k, const struct job *j, const struct tent_request *r,
	const struct tent_status *st, bool cancelled)
{
	bool well = st->state == TENT_COMPLETED;

	if (well ? !st->err && st->bytes == r->len && !j->gone :
		   (st->state == TENT_CANCELED) == (st->err == -ECANCELED) &&
				(st->state == TENT_FAILED || st->state == TENT_CANCELED) &&
				st->bytes <= r->len && known_error(k, j, st->err, cancelled))
		return;
	fprintf(stderr,
		"engine %u, thread %u, peer %u: %s of %llu bytes%s: state %d, error %d, bytes %llu\n",
		k->e->id, k->thread, j->to, r->op == TENT_WRITE ? "write" : "read",
		(unsigned long long)r->len, j->gone ? " to memory that was unregistered" : "",
		st->state, st->err, (unsigned long long)st->bytes);
	exit(1);
}

/* Checks that each byte of a request that failed is the old or the new one. */
static void old_or_new(const struct worker *k, const struct job *j, const uint8_t *is,
	const uint8_t *before, const uint8_t *after, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (is[i] == before[i] || is[i] == after[i])
			continue;
		fprintf(stderr,
			"engine %u, peer %u: byte %llu of a failed request is neither old nor new\n",
			k->e->id, j->to, (unsigned long long)i);
		exit(1);
	}
}

static void await_notice(const struct worker *k, const struct job *j)
{
	struct world *w = k->e->w;

	/* Pairs with storm_tell() of take_notice() and of strike(). */
	STORM_AWAIT(&w->plans[j->to].news, atomic_load(&j->notice->seen) || storm_may_die(w, j->to),
		GUARD_MS);
}

static void judge(struct worker *k, const struct job *j, const struct tent_request *r,
	const struct tent_status *st, bool cancelled)
{
	uint8_t *remote = storm_remote(k->e->w, k->e->id, k->thread, j->to) + j->at_remote;
	uint8_t *local = storm_local(k->e->w, k->e->id, k->thread, j->to) + j->at_local;
	bool write = r->op == TENT_WRITE, well = st->state == TENT_COMPLETED;
	uint8_t *shall = write ? k->remote[j->to] + j->at_remote : k->local[j->to] + j->at_local;
	const uint8_t *is = write ? remote : local, *data = write ? local : remote;

	check_status(k, j, r, st, cancelled);
	atomic_fetch_add(&k->e->w->requests, 1);
	atomic_fetch_add(&k->e->w->failed, st->state == TENT_FAILED);
	atomic_fetch_add(&k->e->w->cancelled, st->state == TENT_CANCELED);
	if (j->notice)
		atomic_store(&j->notice->state, well ? NOTICE_ENDED : NOTICE_FAILED);
	if (well && j->notice)
		await_notice(k, j);
	if (!well && j->brief_memory >= 0)
		k->denied |= 1u << (j->to * BRIEFS + (uint32_t)j->brief_memory);
	if (st->err == -ECONNRESET || st->err == -ETIMEDOUT || storm_may_die(k->e->w, j->to))
		k->lost[j->to] |= write;
	if (j->brief_memory >= 0 || (write && k->lost[j->to]))
		return;
	if (!well)
		old_or_new(k, j, is, shall, data, r->len);
	memcpy(shall, well ? data : is, r->len);
}

/* ---- a round ---- */

void storm_batch_free(struct engine *e, struct tent_batch *b)
{
	CHECK_EQ(tent_batch_free(b), 0);
	storm_tell(&e->freed);
}

static void hangs(const struct worker *k, struct tent_batch *b, const struct tent_request *requests,
	uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct tent_status st;

		CHECK_EQ(tent_task_status(b, i, &st, sizeof(st)), 0);
		fprintf(stderr, "engine %u: request %u of %u: notify %u, state %d, %llu of %llu\n",
			k->e->id, i, n, requests[i].notify, st.state, (unsigned long long)st.bytes,
			(unsigned long long)requests[i].len);
	}
	tent_stats_print(k->e->t, stderr);
	fprintf(stderr, "engine %u, thread %u: a request does not end\n", k->e->id, k->thread);
	exit(1);
}

bool storm_ended(struct tent_batch *b)
{
	struct tent_status st;

	tent_batch_status(b, &st, sizeof(st));
	return st.state != TENT_PENDING;
}

/* Waits for the batch in one of four ways, chosen at random. Returns the status of the batch. */
static int await_batch(struct worker *k, struct tent_batch *b, const struct tent_request *requests,
	uint32_t n)
{
	struct pollfd p = {.fd = -1, .events = POLLIN};
	uint64_t end = clock_ns() + GUARD_MS * NSEC_PER_MSEC;
	uint64_t how = storm_below(&k->seed, 4);

	if (how == 0) {
		p.fd = tent_batch_fd(b);
		CHECK(p.fd >= 0);
	}
	for (uint32_t looks = 0; how < 3 && !storm_ended(b); looks++) {
		if (clock_ns() > end)
			hangs(k, b, requests, n);
		if (how == 0)
			poll(&p, 1, 1000);
		else if (how == 1 || looks > LOOKS)
			tent_wait(b, (int)storm_below(&k->seed, 4));
		else
			sched_yield();
	}
	tent_wait(b, GUARD_MS);
	if (!storm_ended(b))
		hangs(k, b, requests, n);
	return tent_wait(b, 0);
}

/*
 * tent_submit() has returned -EFAULT: some memory of the batch is not registered any more. Checks
 * that the batch uses memory that the peer may unregister.
 */
static void refused(struct worker *k, const struct job *jobs, uint32_t n)
{
	uint32_t denied = k->denied;

	for (uint32_t i = 0; i < n; i++) {
		if (jobs[i].brief_memory >= 0)
			k->denied |= 1u << (jobs[i].to * BRIEFS + (uint32_t)jobs[i].brief_memory);
	}
	CHECK(k->denied != denied);
}

/* Returns 0 if the batch was submitted, otherwise one of the expected errors. */
static int submit(struct worker *k, const struct job *jobs, const struct tent_request *requests,
	uint32_t n, struct tent_batch **b_p)
{
	int err;

	/* Pairs with storm_tell() of storm_batch_free(). */
	STORM_AWAIT(&k->e->freed, (err = tent_submit(k->e->t, requests, n, b_p)) != -EAGAIN,
		GUARD_MS);
	for (uint32_t i = 0; err && i < n; i++) {
		if (jobs[i].notice)
			atomic_store(&jobs[i].notice->state, NOTICE_NONE);
		if (err == -ECONNRESET && storm_may_die(k->e->w, jobs[i].to))
			k->lost[jobs[i].to] = true;
	}
	if (err == -ECONNRESET) {
		for (uint32_t i = 0; i < n; i++) {
			if (k->lost[jobs[i].to])
				return err;
		}
		CHECK_EQ(err, 0); /* no peer has gone */
	}
	if (err == -EFAULT)
		refused(k, jobs, n);
	else if (err)
		CHECK_EQ(err, -ENETUNREACH);
	return err;
}

static void play_round(struct worker *k)
{
	struct tent_request requests[BATCH];
	struct job jobs[BATCH];
	struct tent_batch *b = NULL;
	bool cancel = storm_chance(&k->seed, k->e->w->cancels);
	uint32_t n = make_batch(k, jobs, requests);
	int err, first = 0;

	if (!n)
		return;
	if (submit(k, jobs, requests, n, &b)) {
		usleep((useconds_t)storm_below(&k->seed, 2000));
		return;
	}
	if (cancel) {
		if (storm_chance(&k->seed, 50))
			usleep((useconds_t)storm_below(&k->seed, 2000));
		tent_cancel(b);
	}
	err = await_batch(k, b, requests, n);
	for (uint32_t i = 0; i < n; i++) {
		struct tent_status st;

		CHECK_EQ(tent_task_status(b, i, &st, sizeof(st)), 0);
		first = first ? first : st.err;
		judge(k, &jobs[i], &requests[i], &st, cancel);
	}
	CHECK_EQ(!err, !first);
	storm_batch_free(k->e, b);
	check_all(k);
}

static void *work(void *arg)
{
	struct worker *k = arg;
	uint32_t rounds = k->e->p->rounds;

	for (uint32_t r = 0; r < rounds || (r < MORE * rounds && !atomic_load(&k->e->w->calm));
		r++) {
		check_all(k); /* no memory has changed since the end of the previous round */
		play_round(k);
		if (storm_chance(&k->seed, 30))
			usleep((useconds_t)storm_below(&k->seed, 8000));
	}
	return NULL;
}

void storm_worker_start(struct engine *e, uint32_t thread)
{
	struct worker *k = &e->workers[thread];
	const struct world *w = e->w;

	*k = (struct worker){.e = e,
		.thread = thread,
		.seed = w->seed * 31 + e->id * THREADS + thread};
	for (uint32_t to = 0; to < w->n_engines; to++) {
		if (!e->segments[to])
			continue;
		k->remote[to] = malloc(w->area);
		k->local[to] = malloc(w->area);
		CHECK(k->remote[to] && k->local[to]);
		memcpy(k->remote[to], storm_remote(w, e->id, thread, to), w->area);
		memcpy(k->local[to], storm_local(w, e->id, thread, to), w->area);
	}
	CHECK_EQ(pthread_create(&k->pthread, NULL, work, k), 0);
}

void storm_worker_join(struct worker *k)
{
	CHECK_EQ(pthread_join(k->pthread, NULL), 0);
}

void storm_worker_free(struct worker *k)
{
	check_all(k);
	for (uint32_t to = 0; to < ENGINES; to++) {
		free(k->remote[to]);
		free(k->local[to]);
	}
}
