/* SPDX-License-Identifier: MIT */
/*
 * A process of a storm. Each engine has threads that move data in rounds and look at every byte,
 * one that takes notices, and one that comes and goes: registers, exports, imports, releases.
 *
 * What is checked is what tent.h promises: the bytes of a request that has ended well are in place
 * and no others have changed; those of one that has not are old or new; nothing changes later; a
 * notice comes once, after its bytes; an error is one of those that the header names; memory is
 * the owner's once it is unregistered; and in the end nothing is left.
 */
#include <dirent.h>
#include <poll.h>
#include <sys/mman.h>

#include "storm.h"

#define BATCH 8
#define MORE 6 /* times the rounds, as long as it blows */

struct engine {
	struct world *w;
	const struct plan *p;
	uint32_t id;
	struct tent *t;
	struct tent_segment *segments[ENGINES];
	atomic_uint values[ENGINES]; /* of notices, given out */
	atomic_bool ending;
	pthread_t taker, visitor;
	struct worker {
		struct engine *e;
		uint32_t thread;
		uint64_t seed;
		uint8_t *remote[ENGINES], *local[ENGINES]; /* as they must be */
		bool lost[ENGINES]; /* the peer has gone, its memory is not defined */
		uint32_t denied; /* a bit per engine and volatile memory */
		pthread_t pthread;
	} workers[THREADS];
};

/* A request, and what it needs to be judged. */
struct job {
	uint32_t to, at_remote, at_local;
	int volatile_memory; /* -1: none */
	bool gone; /* it had been unregistered before the request */
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

/* All memory of this thread is as it must be. */
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

	switch (storm_draw(&k->seed, 5)) {
	case 0:
		return 1 + storm_draw(&k->seed, 64);
	case 1:
		return 1 + storm_draw(&k->seed, 9000);
	case 2:
		return 64 * KIB - 1 + storm_draw(&k->seed, 3);
	case 3:
		return 64 * KIB + 1 + storm_draw(&k->seed, 20000);
	default:
		return 1 + storm_draw(&k->seed, area);
	}
}

/* Another engine that this one has imported and that has not gone; ENGINES: there is none. */
static uint32_t draw_peer(struct worker *k)
{
	uint32_t n = k->e->w->n_engines, first = (uint32_t)storm_draw(&k->seed, n);

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

/* Memory of the peer that it may unregister while this is under way. */
static void make_volatile(struct worker *k, uint32_t to, struct job *j, struct tent_request *r)
{
	const struct world *w = k->e->w;
	uint32_t v = (uint32_t)storm_draw(&k->seed, VOLATILES), bit = to * VOLATILES + v;

	if (k->denied >> bit & 1)
		return;
	j->volatile_memory = (int)v;
	j->gone = atomic_load(&w->plans[to].gone[v]);
	r->op = TENT_WRITE;
	r->remote = (uintptr_t)w->plans[to].volatiles[v] +
		    (k->e->id * THREADS + k->thread) * VOLATILE_LEN;
	if (r->len > VOLATILE_LEN)
		r->len = VOLATILE_LEN;
}

/* Behind what the batch has of this peer already; false: there is no room. */
static bool make_request(struct worker *k, uint32_t to, const uint32_t *used, struct job *j,
	struct tent_request *r)
{
	const struct world *w = k->e->w;
	uint64_t gap = storm_chance(&k->seed, 50) ? 0 : storm_draw(&k->seed, 3000);
	uint64_t len = draw_length(k), at = used[to] + gap;
	uint8_t *local, *remote;

	if (at + len > w->area)
		return false;
	*j = (struct job){.to = to, .at_remote = (uint32_t)at, .volatile_memory = -1};
	/* The two sides are not aligned to each other. */
	j->at_local = at + len + 7 <= w->area ? (uint32_t)at + 7 : (uint32_t)at;
	local = storm_local(w, k->e->id, k->thread, to) + j->at_local;
	remote = storm_remote(w, k->e->id, k->thread, to) + at;
	*r = (struct tent_request){
		.op = storm_chance(&k->seed, 50) ? TENT_READ : TENT_WRITE,
		.local = local,
		.segment = k->e->segments[to],
		.remote = (uintptr_t)remote,
		.len = len,
		.priority = (uint8_t)storm_draw(&k->seed, k->e->p->priorities),
	};
	if (storm_chance(&k->seed, 6))
		make_volatile(k, to, j, r);
	storm_fill(&k->seed, r->op == TENT_WRITE ? local : remote, r->len);
	memcpy(r->op == TENT_WRITE ? k->local[to] + j->at_local : k->remote[to] + at,
		r->op == TENT_WRITE ? local : remote, r->len);
	if (j->volatile_memory < 0 && storm_chance(&k->seed, w->notifies))
		j->notice = arm_notice(k->e, to, r->op == TENT_WRITE ? remote : local,
			r->op == TENT_WRITE ? local : remote, r->len, &r->notify);
	return true;
}

static uint32_t make_batch(struct worker *k, struct job *jobs, struct tent_request *requests)
{
	uint32_t want = 1 + (uint32_t)storm_draw(&k->seed, BATCH), n = 0, used[ENGINES] = {0};

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
		return j->volatile_memory >= 0 || storm_may_die(k->e->w, j->to);
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

/* Of a request that has not ended well each byte is the old or the new one. */
static void old_or_new(const struct worker *k, const struct job *j, const uint8_t *is,
	const uint8_t *before, const uint8_t *after, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (is[i] == before[i] || is[i] == after[i])
			continue;
		fprintf(stderr, "engine %u, peer %u: byte %llu of a failed request is of neither\n",
			k->e->id, j->to, (unsigned long long)i);
		exit(1);
	}
}

static void await_notice(const struct worker *k, const struct job *j)
{
	uint64_t end = clock_ns() + GUARD_MS * NSEC_PER_MSEC;

	while (!atomic_load(&j->notice->seen) && !storm_may_die(k->e->w, j->to)) {
		if (clock_ns() > end) {
			fprintf(stderr, "engine %u, peer %u: a notice is lost\n", k->e->id, j->to);
			exit(1);
		}
		usleep(100);
	}
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
	if (!well && j->volatile_memory >= 0)
		k->denied |= 1u << (j->to * VOLATILES + (uint32_t)j->volatile_memory);
	if (st->err == -ECONNRESET || st->err == -ETIMEDOUT || storm_may_die(k->e->w, j->to))
		k->lost[j->to] |= write;
	if (j->volatile_memory >= 0 || (write && k->lost[j->to]))
		return;
	if (!well)
		old_or_new(k, j, is, shall, data, r->len);
	memcpy(shall, well ? data : is, r->len);
}

/* ---- a round ---- */

static void hangs(const struct worker *k, struct tent_batch *b, const struct tent_request *requests,
	uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct tent_status st;

		CHECK_EQ(tent_task_status(b, i, &st), 0);
		fprintf(stderr, "engine %u: request %u of %u: notify %u, state %d, %llu of %llu\n",
			k->e->id, i, n, requests[i].notify, st.state, (unsigned long long)st.bytes,
			(unsigned long long)requests[i].len);
	}
	tent_stats_print(k->e->t, stderr);
	fprintf(stderr, "engine %u, thread %u: a request does not end\n", k->e->id, k->thread);
	exit(1);
}

static bool ended(struct tent_batch *b)
{
	struct tent_status st;

	tent_batch_status(b, &st);
	return st.state != TENT_PENDING;
}

/* In one of the ways that there are; the status of the batch. */
static int await_batch(struct worker *k, struct tent_batch *b, const struct tent_request *requests,
	uint32_t n)
{
	struct pollfd p = {.fd = -1, .events = POLLIN};
	uint64_t end = clock_ns() + GUARD_MS * NSEC_PER_MSEC;
	uint64_t how = storm_draw(&k->seed, 4);

	if (how == 0) {
		p.fd = tent_batch_fd(b);
		CHECK(p.fd >= 0);
	}
	while (how < 3 && !ended(b)) {
		if (clock_ns() > end)
			hangs(k, b, requests, n);
		if (how == 0)
			poll(&p, 1, 1000);
		else if (how == 1)
			tent_wait(b, (int)storm_draw(&k->seed, 4));
		else
			usleep(100);
	}
	tent_wait(b, GUARD_MS);
	if (!ended(b))
		hangs(k, b, requests, n);
	return tent_wait(b, 0);
}

/* Memory of the batch is not registered any more: of that which may go. */
static void refused(struct worker *k, const struct job *jobs, uint32_t n)
{
	uint32_t denied = k->denied;

	for (uint32_t i = 0; i < n; i++) {
		if (jobs[i].volatile_memory >= 0)
			k->denied |=
				1u << (jobs[i].to * VOLATILES + (uint32_t)jobs[i].volatile_memory);
	}
	CHECK(k->denied != denied);
}

/* 0: the batch is there; else there is none, for a reason that is known. */
static int submit(struct worker *k, const struct job *jobs, const struct tent_request *requests,
	uint32_t n, struct tent_batch **b_p)
{
	uint64_t end = clock_ns() + GUARD_MS * NSEC_PER_MSEC;
	int err;

	while ((err = tent_submit(k->e->t, requests, n, b_p)) == -EAGAIN) {
		CHECK(clock_ns() < end);
		usleep(300);
	}
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
		usleep(1000);
		return;
	}
	if (cancel) {
		if (storm_chance(&k->seed, 50))
			usleep((useconds_t)storm_draw(&k->seed, 2000));
		tent_cancel(b);
	}
	err = await_batch(k, b, requests, n);
	for (uint32_t i = 0; i < n; i++) {
		struct tent_status st;

		CHECK_EQ(tent_task_status(b, i, &st), 0);
		first = first ? first : st.err;
		judge(k, &jobs[i], &requests[i], &st, cancel);
	}
	CHECK_EQ(!err, !first);
	CHECK_EQ(tent_batch_free(b), 0);
	check_all(k);
}

static void *work(void *arg)
{
	struct worker *k = arg;
	uint32_t rounds = k->e->p->rounds;

	for (uint32_t r = 0; r < rounds || (r < MORE * rounds && !atomic_load(&k->e->w->calm));
		r++) {
		check_all(k); /* nothing has come later */
		play_round(k);
		if (storm_chance(&k->seed, 30))
			usleep((useconds_t)storm_draw(&k->seed, 8000));
	}
	return NULL;
}

static void start_worker(struct engine *e, uint32_t thread)
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

static void free_worker(struct worker *k)
{
	check_all(k);
	for (uint32_t to = 0; to < ENGINES; to++) {
		free(k->remote[to]);
		free(k->local[to]);
	}
}

/* ---- notices ---- */

static void take_notice(struct engine *e, uint16_t value)
{
	struct notice *n;

	CHECK(value >= 1 && value <= ENGINES * VALUES);
	n = &e->w->plans[e->id].notices[value - 1];
	CHECK(atomic_load(&n->state) != NOTICE_NONE);
	/* Nobody waits for the notices of a process that may die. */
	if (storm_sum(n->at, n->len) != n->sum && atomic_load(&n->state) != NOTICE_FAILED &&
		!storm_may_die(e->w, e->id)) {
		fprintf(stderr, "engine %u: notice %u has come before its bytes\n", e->id, value);
		exit(1);
	}
	if (atomic_fetch_add(&n->seen, 1)) {
		fprintf(stderr, "engine %u: notice %u has come twice\n", e->id, value);
		exit(1);
	}
	atomic_fetch_add(&e->w->told, 1);
}

static void *take(void *arg)
{
	struct engine *e = arg;
	struct pollfd p = {.fd = tent_notice_fd(e->t), .events = POLLIN};
	uint16_t value;

	while (!atomic_load(&e->ending)) {
		poll(&p, 1, 20);
		while (!tent_notice(e->t, &value))
			take_notice(e, value);
	}
	return NULL;
}

/* ---- coming and going ---- */

static void register_for_a_while(struct engine *e, uint64_t *seed)
{
	size_t len = 1 + storm_draw(seed, 100000);
	uint8_t *m = malloc(len);

	CHECK(m);
	CHECK_EQ(tent_register(e->t, m, len, NULL, NULL), 0);
	if (storm_chance(seed, 50))
		usleep((useconds_t)storm_draw(seed, 1000));
	CHECK_EQ(tent_unregister(e->t, m), 0);
	CHECK_EQ(tent_unregister(e->t, m), -ENOENT);
	free(m);
}

/* A visit of a peer: it may fail while there are faults, and says why. */
static void visit(struct engine *e, uint32_t to, uint64_t *seed)
{
	uint8_t *mine = e->p->visits + (ENGINES + to) * VISIT_LEN;
	uint8_t *theirs = e->w->plans[to].visits + e->id * VISIT_LEN;
	struct tent_segment *s = NULL;
	struct tent_why why = {""};
	struct tent_request r;
	struct tent_batch *b;
	int err = tent_import(e->t, e->w->plans[to].text, &why, &s);

	if (err) {
		CHECK(why.text[0]);
		CHECK(err == -ENETUNREACH || err == -ETIMEDOUT || storm_may_die(e->w, to) ||
			atomic_load(&e->w->over));
		return;
	}
	storm_fill(seed, mine, VISIT_LEN);
	r = (struct tent_request){.op = TENT_WRITE,
		.local = mine,
		.segment = s,
		.remote = (uintptr_t)theirs,
		.len = VISIT_LEN};
	err = tent_submit(e->t, &r, 1, &b);
	if (!err) {
		err = tent_wait(b, GUARD_MS);
		CHECK(ended(b));
		CHECK(err || storm_may_die(e->w, to) || !memcmp(mine, theirs, VISIT_LEN));
		CHECK_EQ(tent_batch_free(b), 0);
	}
	CHECK_EQ(tent_release(s), 0);
}

/* Memory that peers write to is the program's own from here on. */
static void unregister(struct engine *e, uint32_t v, uint8_t **kept_p)
{
	size_t len = ENGINES * THREADS * VOLATILE_LEN;
	struct plan *p = &e->w->plans[e->id];

	CHECK_EQ(tent_unregister(e->t, p->volatiles[v]), 0);
	*kept_p = malloc(len);
	CHECK(*kept_p);
	memcpy(*kept_p, p->volatiles[v], len);
	atomic_store(&p->gone[v], true);
}

static void check_kept(const struct engine *e, uint32_t v, const uint8_t *kept)
{
	size_t len = ENGINES * THREADS * VOLATILE_LEN;

	if (!kept || !memcmp(kept, e->p->volatiles[v], len))
		return;
	fprintf(stderr, "engine %u: memory was written after it had been unregistered\n", e->id);
	exit(1);
}

static void print_somewhere(struct engine *e)
{
	FILE *f = fopen("/dev/null", "w");

	CHECK(f);
	CHECK_EQ(tent_stats_print(e->t, f), 0);
	CHECK_EQ(tent_stats_json(e->t, f), 0);
	fclose(f);
}

static void *come_and_go(void *arg)
{
	struct engine *e = arg;
	uint64_t seed = e->w->seed * 37 + e->id;
	uint8_t *kept[VOLATILES] = {NULL};
	uint32_t peer = (e->id + 1) % e->w->n_engines, v = 0;

	while (!atomic_load(&e->ending)) {
		usleep((useconds_t)storm_draw(&seed, 30000));
		switch (storm_draw(&seed, 8)) {
		case 0:
			if (v < VOLATILES) {
				unregister(e, v, &kept[v]);
				v++;
			}
			break;
		case 1:
			if (e->p->imports >> peer & 1 && !storm_may_die(e->w, peer) &&
				!atomic_load(&e->w->over))
				visit(e, peer, &seed);
			peer = (peer + 1) % e->w->n_engines;
			break;
		case 2:
			print_somewhere(e);
			break;
		default:
			register_for_a_while(e, &seed);
		}
	}
	for (v = 0; v < VOLATILES; v++) {
		check_kept(e, v, kept[v]);
		free(kept[v]);
	}
	return NULL;
}

/* ---- an engine ---- */

/* The topology file is one that has no name, and goes with the process. */
static int write_topology(const struct plan *p, uint64_t *seed)
{
	int fd = memfd_create("topology", 0), tiers = 1;
	const char *between = "";

	CHECK(fd >= 0);
	dprintf(fd, "{\"cpu:0\": [[");
	for (uint32_t i = 0; i < RAILS; i++) {
		if (!(p->rails >> i & 1))
			continue;
		/* What follows is in a lower tier. */
		if (*between && tiers < 3 && storm_chance(seed, 30)) {
			between = "], [";
			tiers++;
		}
		dprintf(fd, "%s\"mlx5_%u\"", between, i);
		between = ", ";
	}
	dprintf(fd, "]]}");
	return fd;
}

static void create(struct engine *e)
{
	uint64_t seed = e->w->seed * 41 + e->id;
	int fd = e->p->shm ? -1 : write_topology(e->p, &seed);
	char config[300], topology[100] = "";
	const struct tent_attr attr = {
		.config = config,
		.shm_rails = e->p->shm ? e->p->rails : 0,
		.max_registration = e->p->parts,
		.max_tasks = e->p->max_tasks,
		.rail_wait_ms = e->p->rail_wait_ms,
	};
	struct tent_why why = {""};

	if (fd >= 0)
		snprintf(topology, sizeof(topology), ", \"topology\": \"/proc/self/fd/%d\"", fd);
	snprintf(config, sizeof(config), "{\"priorities\": %u, \"scheduler\": \"%s\"%s}",
		e->p->priorities, e->p->mode, topology);
	if (tent_create(&attr, &why, &e->t)) {
		fprintf(stderr, "engine %u: %s: %s\n", e->id, config, why.text);
		exit(1);
	}
	if (fd >= 0)
		close(fd);
}

static void export(struct engine *e)
{
	const struct world *w = e->w;
	struct plan *p = &e->w->plans[e->id];
	uint64_t areas = ENGINES * THREADS * w->area;
	char *text;

	CHECK_EQ(tent_register(e->t, p->remote, areas, "cpu:0", NULL), 0);
	CHECK_EQ(tent_register(e->t, p->local, areas, NULL, NULL), 0);
	CHECK_EQ(tent_register(e->t, p->visits, 2 * ENGINES * VISIT_LEN, NULL, NULL), 0);
	for (uint32_t v = 0; v < VOLATILES; v++)
		CHECK_EQ(tent_register(e->t, p->volatiles[v], ENGINES * THREADS * VOLATILE_LEN,
				 NULL, NULL),
			0);
	CHECK_EQ(tent_export(e->t, &text), 0);
	CHECK(strlen(text) < TEXT);
	strcpy(p->text, text);
	free(text);
}

static void import(struct engine *e)
{
	for (uint32_t to = 0; to < e->w->n_engines; to++) {
		struct tent_why why = {""};

		if (!(e->p->imports >> to & 1))
			continue;
		if (tent_import(e->t, e->w->plans[to].text, &why, &e->segments[to])) {
			fprintf(stderr, "engine %u: %s\n", e->id, why.text);
			exit(1);
		}
	}
}

static void play(struct engine *e)
{
	for (uint32_t i = 0; i < e->p->threads; i++)
		start_worker(e, i);
}

static void await_workers(struct engine *e)
{
	for (uint32_t i = 0; i < e->p->threads; i++)
		CHECK_EQ(pthread_join(e->workers[i].pthread, NULL), 0);
}

/* Nothing is under way any more, so nothing is charged to a rail. */
static void check_idle(const struct engine *e)
{
	struct tent_rail_stats st;

	for (uint32_t to = 0; to < e->w->n_engines; to++) {
		for (uint32_t i = 0; e->segments[to] && !tent_rail_stats(e->segments[to], i, &st);
			i++)
			CHECK_EQ(st.inflight, 0);
	}
}

static void end(struct engine *e)
{
	atomic_store(&e->ending, true);
	CHECK_EQ(pthread_join(e->taker, NULL), 0);
	CHECK_EQ(pthread_join(e->visitor, NULL), 0);
	check_idle(e);
	for (uint32_t to = 0; to < e->w->n_engines; to++) {
		if (storm_draw(&e->workers[0].seed, 2))
			CHECK_EQ(tent_release(e->segments[to]), 0);
	}
	tent_destroy(e->t);
	for (uint32_t i = 0; i < e->p->threads; i++)
		free_worker(&e->workers[i]);
}

/* ---- the process ---- */

static uint32_t entries(const char *path)
{
	DIR *d = opendir(path);
	uint32_t n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* What the adapters' libraries keep is there before anything is counted. */
static void warm_up(struct engine *engines, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		create(&engines[i]);
		tent_destroy(engines[i].t);
	}
}

static void await_over(const struct world *w)
{
	uint64_t end = clock_ns() + 3 * GUARD_MS * NSEC_PER_MSEC;

	while (!atomic_load(&w->over)) {
		CHECK(clock_ns() < end);
		usleep(1000);
	}
}

int storm_process(struct world *w, int process)
{
	static struct engine engines[ENGINES];
	uint32_t n = 0, fds, threads;

	for (uint32_t i = 0; i < w->n_engines; i++) {
		if (w->plans[i].process == process)
			engines[n++] = (struct engine){.w = w, .p = &w->plans[i], .id = i};
	}
	warm_up(engines, n);
	fds = entries("/proc/self/fd");
	threads = entries("/proc/self/task");
	for (uint32_t i = 0; i < n; i++) {
		create(&engines[i]);
		export(&engines[i]);
	}
	atomic_fetch_add(&w->exported, 1);
	storm_await(&w->exported, w->n_processes);
	for (uint32_t i = 0; i < n; i++)
		import(&engines[i]);
	atomic_fetch_add(&w->imported, 1);
	storm_await(&w->imported, w->n_processes);
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(pthread_create(&engines[i].taker, NULL, take, &engines[i]), 0);
		CHECK_EQ(pthread_create(&engines[i].visitor, NULL, come_and_go, &engines[i]), 0);
		play(&engines[i]);
	}
	for (uint32_t i = 0; i < n; i++)
		await_workers(&engines[i]);
	atomic_fetch_or(&w->finished, 1u << process);
	await_over(w);
	for (uint32_t i = 0; i < n; i++)
		end(&engines[i]);
	CHECK_EQ(entries("/proc/self/fd"), fds);
	CHECK_EQ(entries("/proc/self/task"), threads);
	return 0;
}
