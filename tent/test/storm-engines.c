/* SPDX-License-Identifier: MIT */
/*
 * One process of a storm: a test of many engines in which many faults occur at once. Each engine has
 * workers (storm-work.c), a thread that takes notices, and
 * a thread that registers, unregisters, imports and releases, and cuts connections of TCP rails.
 *
 * The checks: a notice comes after its bytes, and once; no peer changes memory after
 * tent_unregister(); and at the end no descriptor, thread, mapping or object of an adapter is left.
 */
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "cut.h"
#include "storm.h"

/* ---- notices ---- */

static void take_notice(struct engine *e, uint16_t value)
{
	struct notice *n;

	CHECK(value >= 1 && value <= ENGINES * VALUES);
	n = &e->w->plans[e->id].notices[value - 1];
	CHECK(atomic_load(&n->state) != NOTICE_NONE);
	/* If this process may die, its peers reuse the memory without waiting for notices. */
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
	storm_tell(&e->w->plans[e->id].news);
}

/* Sleeps until @fd is readable or the engine ends, at most @ms ms. True: the engine ends. */
static bool ending(const struct engine *e, int fd, int ms)
{
	struct pollfd p[] = {{.fd = e->ending, .events = POLLIN}, {.fd = fd, .events = POLLIN}};

	poll(p, 2, ms);
	return p[0].revents;
}

static void *take(void *arg)
{
	struct engine *e = arg;
	uint16_t value;

	while (!ending(e, tent_notice_fd(e->t), -1)) {
		while (!tent_notice(e->t, &value))
			take_notice(e, value);
	}
	return NULL;
}

/* ---- coming and going ---- */

static void register_for_a_while(struct engine *e, uint64_t *seed)
{
	size_t len = 1 + storm_below(seed, 100000);
	AT_END(end_free) uint8_t *m = malloc(len);

	CHECK(m);
	CHECK_EQ(tent_register(e->t, m, len, NULL, NULL), 0);
	if (storm_chance(seed, 50))
		usleep((useconds_t)storm_below(seed, 1000));
	CHECK_EQ(tent_unregister(e->t, m), 0);
	CHECK_EQ(tent_unregister(e->t, m), -ENOENT);
}

/*
 * Imports a peer's segment, writes to it, and releases it. The import and the write may fail because
 * of faults. A failed import must give a message.
 */
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
	storm_fill(mine, VISIT_LEN, test_rand(seed), 0);
	r = (struct tent_request){.op = TENT_WRITE,
		.local = mine,
		.segment = s,
		.remote = (uintptr_t)theirs,
		.len = VISIT_LEN};
	err = tent_submit(e->t, &r, 1, &b);
	if (!err) {
		err = tent_wait(b, GUARD_MS);
		CHECK(storm_ended(b));
		CHECK(err || storm_may_die(e->w, to) || !memcmp(mine, theirs, VISIT_LEN));
		storm_batch_free(e, b);
	}
	CHECK_EQ(tent_release(s), 0);
}

/* Unregisters memory that peers write to, and copies it: it must not change any more. */
static void unregister(struct engine *e, uint32_t v, uint8_t **kept_p)
{
	size_t len = ENGINES * THREADS * BRIEF_LEN;
	struct plan *p = &e->w->plans[e->id];

	CHECK_EQ(tent_unregister(e->t, p->briefs[v]), 0);
	*kept_p = malloc(len);
	CHECK(*kept_p);
	memcpy(*kept_p, p->briefs[v], len);
	atomic_store(&p->gone[v], true);
}

static void check_kept(const struct engine *e, uint32_t v, const uint8_t *kept)
{
	size_t len = ENGINES * THREADS * BRIEF_LEN;

	if (!kept || !memcmp(kept, e->p->briefs[v], len))
		return;
	fprintf(stderr, "engine %u: memory was written after it had been unregistered\n", e->id);
	exit(1);
}

static bool is_control(void *arg, int port)
{
	const struct world *w = arg;

	for (uint32_t i = 0; i < w->n_engines; i++) {
		if (cut_control_port(w->plans[i].text) == port)
			return true;
	}
	return false;
}

/* Disconnects a connection that carries data, if it finds one. */
static void cut(struct engine *e, uint64_t *seed)
{
	int first = (int)storm_below(seed, CUT_FDS), i = 0;

	while (i < CUT_FDS && !cut_fd((first + i) % CUT_FDS, is_control, e->w))
		i++;
}

static void print_somewhere(struct engine *e)
{
	AT_END(end_file) FILE *f = fopen("/dev/null", "w");

	CHECK(f);
	CHECK_EQ(tent_stats_print(e->t, f), 0);
	CHECK_EQ(tent_stats_json(e->t, f), 0);
}

static void *come_and_go(void *arg)
{
	struct engine *e = arg;
	uint64_t seed = e->w->seed * 37 + e->id;
	uint8_t *kept[BRIEFS] = {NULL};
	uint32_t peer = (e->id + 1) % e->w->n_engines, v = 0;

	while (!ending(e, -1, (int)storm_below(&seed, 30))) {
		switch (storm_below(&seed, 8)) {
		case 0:
			if (v < BRIEFS) {
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
		case 3:
			if (!atomic_load(&e->w->calm))
				cut(e, &seed);
			break;
		default:
			register_for_a_while(e, &seed);
		}
	}
	for (v = 0; v < BRIEFS; v++) {
		check_kept(e, v, kept[v]);
		free(kept[v]);
	}
	return NULL;
}

/* ---- an engine ---- */

/* Writes the topology to a file without a name, which the process cannot leave behind. */
static int write_topology(const struct plan *p, uint64_t *seed)
{
	int fd = memfd_create("topology", 0), tiers = 1;
	const char *between = "";

	CHECK(fd >= 0);
	dprintf(fd, "{\"cpu:0\": [[");
	for (uint32_t i = 0; i < RAILS; i++) {
		if (!(p->rails >> i & 1))
			continue;
		/* The rails that follow are in the next tier. */
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
	int fd = storm_has_adapters(e->p) ? write_topology(e->p, &seed) : -1;
	char config[300], topology[100] = "";
	const struct tent_attr attr = {
		.size = sizeof(attr),
		.config = config,
		.shm_rails = e->p->kind == SHM ? e->p->rails : 0,
		.tcp_rails = e->p->tcp,
		.adapters = e->p->kind == BOTH,
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
	AT_END(end_free) char *text;

	CHECK_EQ(tent_register(e->t, p->remote, areas, "cpu:0", NULL), 0);
	CHECK_EQ(tent_register(e->t, p->local, areas, NULL, NULL), 0);
	CHECK_EQ(tent_register(e->t, p->visits, 2 * ENGINES * VISIT_LEN, NULL, NULL), 0);
	for (uint32_t v = 0; v < BRIEFS; v++)
		CHECK_EQ(tent_register(e->t, p->briefs[v], ENGINES * THREADS * BRIEF_LEN, NULL,
				 NULL),
			0);
	CHECK_EQ(tent_export(e->t, &text), 0);
	CHECK(strlen(text) < TEXT);
	strcpy(p->text, text);
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

/* Starts the engine's threads. */
static void play(struct engine *e)
{
	e->ending = eventfd(0, 0);
	CHECK(e->ending >= 0);
	CHECK_EQ(pthread_create(&e->taker, NULL, take, e), 0);
	CHECK_EQ(pthread_create(&e->visitor, NULL, come_and_go, e), 0);
	for (uint32_t i = 0; i < e->p->threads; i++)
		storm_worker_start(e, i);
}

static void await_workers(struct engine *e)
{
	for (uint32_t i = 0; i < e->p->threads; i++)
		storm_worker_join(&e->workers[i]);
}

/* Checks that no bytes are under way on any rail. */
static void check_idle(const struct engine *e)
{
	struct tent_rail_stats st;

	for (uint32_t to = 0; to < e->w->n_engines; to++) {
		for (uint32_t i = 0; e->segments[to] &&
				     !tent_rail_get_stats(e->segments[to], i, &st, sizeof(st));
			i++)
			CHECK_EQ(st.inflight, 0);
	}
}

static void end(struct engine *e)
{
	CHECK_EQ(eventfd_write(e->ending, 1), 0);
	CHECK_EQ(pthread_join(e->taker, NULL), 0);
	CHECK_EQ(pthread_join(e->visitor, NULL), 0);
	check_idle(e);
	for (uint32_t to = 0; to < e->w->n_engines; to++) {
		if (storm_below(&e->workers[0].seed, 2))
			CHECK_EQ(tent_release(e->segments[to]), 0);
	}
	tent_destroy(e->t);
	close(e->ending);
	for (uint32_t i = 0; i < e->p->threads; i++)
		storm_worker_free(&e->workers[i]);
}

/* ---- the process ---- */

/*
 * Creates and destroys the engines once, so that the first count of descriptors, threads and
 * mappings includes those that the adapters' libraries keep.
 */
static void warm_up(struct engine *engines, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		create(&engines[i]);
	for (uint32_t i = 0; i < n; i++)
		tent_destroy(engines[i].t);
}

/* A barrier of all processes. */
static void meet(struct world *w, atomic_uint *count)
{
	atomic_fetch_add(count, 1);
	storm_tell(&w->news);
	STORM_AWAIT(&w->news, atomic_load(count) >= w->n_processes, GUARD_MS);
}

/* Runs all engines of the process, from their creation to their end. */
static void live(struct world *w, int process, struct engine *engines, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		create(&engines[i]);
		export(&engines[i]);
	}
	meet(w, &w->exported);
	for (uint32_t i = 0; i < n; i++)
		import(&engines[i]);
	meet(w, &w->imported);
	for (uint32_t i = 0; i < n; i++)
		play(&engines[i]);
	for (uint32_t i = 0; i < n; i++)
		await_workers(&engines[i]);
	atomic_fetch_or(&w->finished, 1u << process);
	storm_tell(&w->news);
	STORM_AWAIT(&w->news, atomic_load(&w->over), 3 * GUARD_MS);
	for (uint32_t i = 0; i < n; i++)
		end(&engines[i]);
}

int storm_process(struct world *w, int process)
{
	static struct engine engines[ENGINES];
	int fds, threads, maps;
	uint32_t n = 0;
	bool adapters = false;

	for (uint32_t i = 0; i < w->n_engines; i++) {
		if (w->plans[i].process != process)
			continue;
		engines[n++] = (struct engine){.w = w, .p = &w->plans[i], .id = i};
		adapters |= storm_has_adapters(&w->plans[i]);
	}
	warm_up(engines, n);
	fds = fdtest_open();
	threads = fdtest_entries("/proc/self/task");
	maps = fdtest_mappings("/");
	live(w, process, engines, n);
	CHECK_EQ(fdtest_open(), fds);
	CHECK_EQ(fdtest_entries("/proc/self/task"), threads);
	CHECK_EQ(fdtest_mappings("/"),
		maps); /* mappings of files; sanitizers find a heap that grows */
	storm_check_objects(adapters);
	return 0;
}
