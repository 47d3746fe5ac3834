/* SPDX-License-Identifier: MIT */
/* Threads, windows and rounds. */
#include "base/output.h"
#include "bench.h"

#define RPCBENCH_WINDOW_NS (2 * NSEC_PER_MSEC)
#define RPCBENCH_WINDOW_SHARED_NS (10 * NSEC_PER_MSEC) /* a few time slices if cores are shared */
#define RPCBENCH_LEAST_ROUNDS 5
#define RPCBENCH_PROBES 512
#define RPCBENCH_PROBE_BATCH 64
#define RPCBENCH_GAP_NS (3 * NSEC_PER_MSEC)
#define RPCBENCH_REST_NS (500 * NSEC_PER_MSEC)

/* Waits until all threads of the window are running: they wake up at different times. */
static void rpcbench_rendezvous(struct rpcbench_run *run)
{
	/* Pairs with the load below in the other threads. */
	__atomic_fetch_add(&run->ready, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&run->ready, __ATOMIC_ACQUIRE) < run->active + 1)
		sched_yield();
}

/*
 * Measures round trips of one word in each direction. Both sides poll as the layers do, with one
 * pause per poll. The result is that of the fastest batch, because other programs may use the core.
 */
static void rpcbench_probe(struct rpcbench_bench *b, bool server)
{
	uint64_t *mine = server ? &b->run.pong : &b->run.ping;
	uint64_t *other = server ? &b->run.ping : &b->run.pong;
	uint64_t now, start = clock_ns(), best = UINT64_MAX;

	for (uint64_t i = 1; i <= RPCBENCH_PROBES; i++) {
		/* The store of each side pairs with the load of the other one. */
		if (!server)
			__atomic_store_n(mine, i, __ATOMIC_RELEASE);
		while (__atomic_load_n(other, __ATOMIC_ACQUIRE) != i)
			cpu_relax();
		if (server)
			__atomic_store_n(mine, i, __ATOMIC_RELEASE);
		if (i % RPCBENCH_PROBE_BATCH)
			continue;
		now = clock_ns();
		best = now - start < best ? now - start : best;
		start = now;
	}
	if (!server)
		b->probe_ns = (double)best / RPCBENCH_PROBE_BATCH;
}

/* Runs one thread's part of a window: that of the client with this index, or of the server. */
static void rpcbench_window_part(struct rpcbench_bench *b, uint32_t index)
{
	struct rpcbench_side *side = &b->side[b->current];
	bool server = index == b->cfg.clients;

	if (b->run.kind == RPCBENCH_PROBE)
		rpcbench_probe(b, server);
	else if (server && side->impl->server)
		side->impl->server(&side->server);
	else if (!server && side->impl->turn)
		rpcbench_mesh_window(side->impl, &side->client[index]);
	else if (!server)
		side->impl->client(&side->client[index]);
}

static void *rpcbench_thread_main(void *arg)
{
	struct rpcbench_thread *t = (struct rpcbench_thread *)arg;
	struct rpcbench_bench *b = t->bench;
	uint64_t cpu;

	for (;;) {
		pthread_barrier_wait(&b->begin);
		if (b->run.kind == RPCBENCH_QUIT)
			return NULL;
		if (t->index < b->run.active || t->index == b->cfg.clients) {
			cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
			rpcbench_rendezvous(&b->run);
			rpcbench_window_part(b, t->index);
			t->cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
		}
		pthread_barrier_wait(&b->end);
	}
}

static void rpcbench_window(struct rpcbench_bench *b, enum rpcbench_kind kind, uint32_t side,
	uint32_t clients, uint64_t ns)
{
	b->run.kind = kind;
	b->run.active = clients;
	b->run.window_ns = ns;
	b->run.ready = 0;
	b->run.finished = 0;
	b->run.ping = 0;
	b->run.pong = 0;
	b->current = side;
	if (b->opt.step) {
		b->run.kind = RPCBENCH_STEP;
		rpcbench_step(&b->side[side], &b->run, b->opt.step);
		return;
	}
	pthread_barrier_wait(&b->begin);
	if (kind != RPCBENCH_QUIT)
		pthread_barrier_wait(&b->end);
}

/* Pins the server to the first core, and clients to all cores in turn, from the second one on. */
static void rpcbench_threads_start(struct rpcbench_bench *b)
{
	uint32_t n = b->cfg.clients + 1;

	pthread_barrier_init(&b->begin, NULL, n + 1);
	pthread_barrier_init(&b->end, NULL, n + 1);
	for (uint32_t i = 0; i < n; i++) {
		struct rpcbench_thread *t = &b->thread[i];
		uint32_t place = i == b->cfg.clients ? 0 : (i + 1) % b->cpus;
		cpu_set_t set;

		*t = (struct rpcbench_thread){.bench = b, .index = i};
		if (pthread_create(&t->id, NULL, rpcbench_thread_main, t))
			rpcbench_die("cannot create a thread", "give fewer --clients");
		CPU_ZERO(&set);
		CPU_SET(b->cpu[place], &set);
		pthread_setaffinity_np(t->id, sizeof(set), &set);
	}
}

static void rpcbench_threads_stop(struct rpcbench_bench *b)
{
	rpcbench_window(b, RPCBENCH_QUIT, 0, 0, 0);
	for (uint32_t i = 0; i <= b->cfg.clients; i++)
		pthread_join(b->thread[i].id, NULL);
	pthread_barrier_destroy(&b->begin);
	pthread_barrier_destroy(&b->end);
}

static void rpcbench_cpus(struct rpcbench_bench *b)
{
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			b->cpu[b->cpus++] = i;
}

static void rpcbench_side_setup(struct rpcbench_bench *b, uint32_t i)
{
	struct rpcbench_side *side = &b->side[i];
	int r;

	*side = (struct rpcbench_side){.impl = b->impl[i]};
	for (uint32_t k = 0; k < b->cfg.clients; k++) {
		side->client[k].to = k;
		side->client[k].rng = k;
		side->client[k].cfg = &b->cfg;
		side->client[k].run = &b->run;
		side->client[k].index = k;
	}
	side->server.cfg = &b->cfg;
	side->server.run = &b->run;
	r = side->impl->setup(&b->cfg, &side->server, side->client, &side->state);
	if (r < 0) {
		fprintf(stderr, "%s: set-up failed: %s%s\n", side->impl->name, strerror(-r),
			access("/dev/shm", W_OK) ? "; /dev/shm must be there, and writable" : "");
		exit(1);
	}
}

/* Returns 0 + 1 + ... + n - 1, modulo 2^64. */
static uint64_t rpcbench_token_sum(uint64_t n)
{
	return n % 2 ? (n - 1) / 2 * n : n / 2 * (n - 1);
}

/* Checks that each call came back once, with the right response. */
static void rpcbench_side_verify(const struct rpcbench_side *side, uint32_t clients)
{
	for (uint32_t k = 0; k < clients; k++) {
		const struct rpcbench_client *c = &side->client[k];

		if (!c->wrong && c->sent == c->done && c->done_sum == rpcbench_token_sum(c->sent))
			continue;
		fprintf(stderr, "%s: client %u: %llu calls, %llu responses, %llu of them wrong\n",
			side->impl->name, k, (unsigned long long)c->sent,
			(unsigned long long)c->done, (unsigned long long)c->wrong);
		exit(1);
	}
}

static bool rpcbench_disturbed(const struct rpcbench_side *side, uint32_t clients)
{
	for (uint32_t k = 0; k < clients; k++)
		if (side->client[k].stall_ns > RPCBENCH_STALL_NS)
			return true;
	return false;
}

/* Runs one window of a cell. */
static void rpcbench_cell_run(struct rpcbench_bench *b, struct rpcbench_cell *cell, uint32_t side,
	uint32_t round, double *rate_sum)
{
	bool shared = cell->clients + !b->opt.mesh.n > b->cpus;
	struct rpcbench_side *s = &b->side[side];
	struct rpcbench_client *client = s->client;
	double rate = 0;

	for (uint32_t k = 0; k < cell->clients; k++)
		cell->rpcs -= client[k].done;
	if (s->impl->bursts)
		cell->bursts -= s->impl->bursts(s->state);
	b->run.loop = cell->loop;
	rpcbench_window(b, RPCBENCH_LOAD, side, cell->clients,
		shared ? RPCBENCH_WINDOW_SHARED_NS : RPCBENCH_WINDOW_NS);
	for (uint32_t k = 0; k < cell->clients; k++) {
		const struct rpcbench_client *c = &client[k];
		double r = (double)c->window_done / (double)c->window_ns;

		rate_sum[k] += r;
		rate += r;
		cell->rpcs += c->done;
	}
	if (s->impl->bursts)
		cell->bursts += s->impl->bursts(s->state);
	cell->disturbed[round] = !shared && rpcbench_disturbed(s, cell->clients);
	cell->clean += !cell->disturbed[round];
	cell->ns[round] = 1 / rate;
}

/*
 * Returns true until @ns has passed and there were RPCBENCH_LEAST_ROUNDS rounds. Continues for up
 * to five times @ns while a cell has fewer than RPCBENCH_LEAST_ROUNDS undisturbed windows.
 */
static bool rpcbench_goes_on(const struct rpcbench_result *r, uint32_t rounds, uint64_t spent,
	uint64_t ns)
{
	uint32_t clean = rounds;

	for (uint32_t i = 0; i < r->counts * r->loops * r->impls; i++)
		clean = r->cells[i].clean < clean ? r->cells[i].clean : clean;
	return spent < ns || rounds < RPCBENCH_LEAST_ROUNDS ||
	       (clean < RPCBENCH_LEAST_ROUNDS && spent < 5 * ns);
}

/* Returns the least rate of the clients. Nodes of a mesh that make no calls are left out. */
static double rpcbench_least(const struct rpcbench_client *c, uint32_t n, const double *rate)
{
	double least = -1;

	for (uint32_t k = 0; k < n; k++)
		if (rpcbench_mesh_calls(&c[k]) && (least < 0 || rate[k] < least))
			least = rate[k];
	return least;
}

/* Runs all rounds of one queue depth; a round is a window of each cell and a probe. */
static void rpcbench_rounds(struct rpcbench_bench *b, struct rpcbench_result *r)
{
	static double probe[RPCBENCH_ROUNDS];
	static double rate[ARG_LIST_MAX * RPCBENCH_LOOPS * RPCBENCH_IMPLS][RPCBENCH_CLIENTS];
	uint64_t ns = (uint64_t)(b->opt.seconds * 1e9), start = clock_ns();
	uint32_t cells = r->counts * r->loops * r->impls, n = 0;

	memset(rate, 0, sizeof(rate));
	while (rpcbench_goes_on(r, n, clock_ns() - start, ns) && n < RPCBENCH_ROUNDS) {
		if (b->cpus > 1 && !b->opt.step)
			rpcbench_window(b, RPCBENCH_PROBE, 0, 1, 0);
		probe[n] = b->probe_ns;
		for (uint32_t i = 0; i < cells; i++)
			rpcbench_cell_run(b, &r->cells[i], i % r->impls, n, rate[i]);
		n++;
	}
	r->rounds = n;
	r->line_rtt_ns = rpcbench_spread(probe, n).median;
	for (uint32_t i = 0; i < cells; i++)
		r->cells[i].least_rate =
			rpcbench_least(b->side[i % r->impls].client, r->cells[i].clients, rate[i]) /
			n;
}

static void rpcbench_sleepers(struct rpcbench_bench *b)
{
	double server, client;

	rpcbench_window(b, RPCBENCH_REST, 0, 1, RPCBENCH_REST_NS);
	server = (double)b->thread[b->cfg.clients].cpu_ns / (double)RPCBENCH_REST_NS;
	rpcbench_window(b, RPCBENCH_HOLD, 0, 1, RPCBENCH_REST_NS);
	client = (double)b->thread[0].cpu_ns / (double)RPCBENCH_REST_NS;
	if (latrec_hist_create(NULL, &b->run.wake))
		rpcbench_die("no memory", "end other programs");
	b->run.wakes = b->opt.wakes;
	rpcbench_window(b, RPCBENCH_WAKE, 0, 1, RPCBENCH_GAP_NS);
	rpcbench_print_wake(b->impl[0]->name, b->run.wake, server, client, b->opt.json);
	latrec_hist_destroy(b->run.wake);
}

static void rpcbench_depth(struct rpcbench_bench *b, uint32_t depth, bool last)
{
	struct rpcbench_result r = {.cfg = &b->cfg,
		.counts = b->opt.clients.n,
		.loops = b->opt.loops,
		.impls = b->impls};
	uint32_t cells = r.counts * r.loops * r.impls;

	b->cfg.queue_depth = depth;
	r.cells = calloc(cells, sizeof(*r.cells));
	if (!r.cells)
		rpcbench_die("no memory", "give fewer --clients");
	for (uint32_t i = 0; i < cells; i++) {
		r.cells[i].impl = b->impl[i % r.impls];
		r.cells[i].loop = b->opt.loop[i / r.impls % r.loops];
		r.cells[i].clients = (uint32_t)b->opt.clients.at[i / r.impls / r.loops];
	}
	for (uint32_t i = 0; i < b->impls; i++)
		rpcbench_side_setup(b, i);
	if (!b->opt.step)
		rpcbench_threads_start(b);
	rpcbench_rounds(b, &r);
	rpcbench_print(&r, b->opt.json);
	if (last && b->opt.wakes)
		rpcbench_sleepers(b);
	if (!b->opt.step)
		rpcbench_threads_stop(b);
	for (uint32_t i = 0; i < b->impls; i++) {
		rpcbench_side_verify(&b->side[i], b->cfg.clients);
		b->side[i].impl->teardown(b->side[i].state);
	}
	free(r.cells);
}

/*
 * Measures each number of nodes in a mesh of its own: a node of a larger mesh would search the
 * rings of all nodes that have ever called it.
 */
static void rpcbench_meshes(struct rpcbench_bench *b)
{
	b->opt.clients.n = 1;
	for (uint32_t i = 0; i < b->opt.mesh.n; i++) {
		b->opt.clients.at[0] = b->opt.mesh.at[i];
		b->cfg.clients = (uint32_t)b->opt.mesh.at[i];
		for (uint32_t k = 0; k < b->opt.depths.n; k++)
			rpcbench_depth(b, (uint32_t)b->opt.depths.at[k], false);
	}
}

static void rpcbench_star(struct rpcbench_bench *b)
{
	for (uint32_t i = 0; i < b->opt.clients.n; i++)
		if (b->opt.clients.at[i] > b->cfg.clients)
			b->cfg.clients = (uint32_t)b->opt.clients.at[i];
	for (uint32_t i = 0; i < b->opt.depths.n; i++)
		rpcbench_depth(b, (uint32_t)b->opt.depths.at[i], i + 1 == b->opt.depths.n);
}

int rpcbench_main(const struct rpcbench_impl *layer, const struct rpcbench_impl *other, int argc,
	char **argv)
{
	static struct rpcbench_bench b;

	b.impl[0] = layer;
	b.impl[1] = other;
	b.impls = other ? 2 : 1;
	rpcbench_options(&b, argc, argv);
	b.cfg = (struct rpcbench_config){.req_size = b.opt.req_size,
		.pattern = b.opt.pattern,
		.pattern_nodes = b.opt.pattern_nodes,
		.resp_size = b.opt.resp_size,
		.shared_ring = layer->shared_ring,
		.peer_slots = b.opt.peer_slots};
	rpcbench_cpus(&b);
	rpcbench_print_head(b.opt.json);
	if (b.opt.mesh.n)
		rpcbench_meshes(&b);
	else
		rpcbench_star(&b);
	return output_end(program_invocation_short_name,
		output_close(program_invocation_short_name, "--json", b.opt.json, 0));
}
