/* SPDX-License-Identifier: MIT */
/*
 * Measures connected processes of one fabric: one process that sends to itself; a pair; a star, in
 * which three processes are connected to a server; a mesh of four.
 *
 *	bench-group [loop | pair | star | mesh [depth]]
 *
 * Each process has one SRQ, one send CQ and one receive CQ for all its QPs. The two ends of a
 * connection answer each other with lists of 1 to 32 messages of 64 B. The runs alternate between
 * the software HCA's modes: trap, poll and auto. Each run has new processes, so a run of mode auto
 * includes the time until it has chosen trap or poll.
 *
 * A round has a run of each mode. Modes are compared within windows of three rounds, by their
 * median rates in the window, because the cost of a handover between two cores may change within
 * seconds. The program prints for each cell, which is a shape with a depth:
 *
 * - for each mode the median of the messages per second of all processes together;
 * - the percentage of doorbells that trapped, over all runs of mode auto; the others were polled;
 * - the ratio of the time that mode auto takes to the time of the faster one of the other modes:
 *   the median of all windows, and both quartiles;
 * - the noise: the median of the same ratio for another mode in the place of mode auto. This mode
 *   is trap or poll, whichever is faster over all runs, and its rate is taken WINDOW rounds after
 *   each window. If the result is below 1, its inverse is printed.
 *
 * A ratio of at most LIMIT times the noise does not show that mode auto chose wrongly between trap
 * and poll. To compare two versions of the software HCA, run the program once with each of them
 * preloaded.
 */
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>

#include "rig.h"

#define RUNS 14 /* of each mode */
#define WINDOW 3
#define WINDOWS (RUNS - WINDOW + 1)
#define RUN_NS 200000000u
#define LIMIT 1.2
#define DEPTH_MAX 32u
#define LENGTH 64u
#define NODES 4

enum { TRAP, POLL, AUTO, MODES };

static const char *const modes[MODES] = {"trap", "poll", "auto"};
static const struct shape {
	const char *name;
	uint32_t nodes;
	bool mesh;
} shapes[] = {{"loop", 1, true}, {"pair", 2, true}, {"star", 4, false}, {"mesh", 4, true}};
static const uint32_t depths[] = {1, 2, 4, 8, 16, DEPTH_MAX};

/*
 * The processes of a run share this. `arrived` and `live` are changed with release and read with
 * acquire, so a process that reads one also sees all data that was stored before the change.
 */
static struct shared {
	struct rig_addr addr[NODES][NODES]; /* of the QP of the first node to the second */
	_Atomic uint32_t arrived;
	_Atomic uint32_t live; /* connections that have not ended */
	atomic_bool stop;
	_Atomic uint64_t lists;
	_Atomic uint64_t doorbells, traps;
} * shared;

/* Totals over all cells: the numbers of cells, and the worst ratio. */
static struct totals {
	int cells, within, noisy; /* all; ratio at most LIMIT; above LIMIT, but within the noise */
	double worst;
} totals;

struct node {
	struct rig r;
	struct rig to[NODES]; /* copies of r, with the QP to each other node */
	int id;
	int nodes;
	uint32_t depth;
	bool mesh;
};

static bool connected(const struct node *n, int i)
{
	return n->nodes == 1 || (i != n->id && (n->mesh || !i || !n->id));
}

static void meet(const struct node *n, uint32_t stage)
{
	uint32_t all = stage * (uint32_t)n->nodes;

	atomic_fetch_add_explicit(&shared->arrived, 1, memory_order_acq_rel);
	while (atomic_load_explicit(&shared->arrived, memory_order_acquire) < all)
		sched_yield();
}

static void open_node(struct node *n)
{
	rig_open(&n->r, &(struct rig_attr){.srq = true});
	for (uint64_t k = 0; k < NODES; k++)
		rig_recv(&n->r, k, 0, 0);
	for (int i = 0; i < n->nodes; i++) {
		if (!connected(n, i))
			continue;
		n->to[i] = rig_with(&n->r, rig_qp(&n->r));
		shared->addr[n->id][i] = rig_addr(&n->to[i]);
	}
	meet(n, 1);
	for (int i = 0; i < n->nodes; i++)
		if (connected(n, i))
			rig_connect(&n->to[i], shared->addr[i][n->id], (struct rig_timers){0});
	meet(n, 2);
}

static void send_list(const struct node *n, int i)
{
	rig_write_row(&n->to[i], shared->addr[i][n->id], n->depth, LENGTH, (uint32_t)n->id);
}

/*
 * Answers a list of node @i. The node with the larger number sends the first list of a
 * connection, and stops sending when the run has ended.
 */
static void answer(struct node *n, int i)
{
	if (n->id > i || n->nodes == 1) {
		atomic_fetch_add_explicit(&shared->lists, n->nodes == 1 ? 1 : 2,
			memory_order_relaxed);
		if (atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
			atomic_fetch_sub_explicit(&shared->live, 1, memory_order_acq_rel);
			return;
		}
	}
	send_list(n, i);
}

static void count_doorbells(void)
{
	struct softhca_counters c = rig_counters();

	atomic_fetch_add_explicit(&shared->doorbells, c.doorbells, memory_order_relaxed);
	atomic_fetch_add_explicit(&shared->traps, c.traps, memory_order_relaxed);
}

static void run_node(struct node *n)
{
	struct ibv_wc wc;

	open_node(n);
	for (int i = 0; i < n->id || n->nodes + i == 1; i++)
		if (connected(n, i))
			send_list(n, i);
	while (atomic_load_explicit(&shared->live, memory_order_acquire)) {
		while (rig_poll(n->r.scq, &wc))
			;
		if (!rig_poll(n->r.rcq, &wc)) {
			sched_yield();
			continue;
		}
		rig_recv(&n->r, wc.wr_id, 0, 0);
		answer(n, (int)wc.imm_data);
	}
	count_doorbells();
	meet(n, 3);
	exit(0);
}

/* Returns the messages per second. */
static double run(const struct shape *shape, uint32_t depth)
{
	uint32_t n = shape->nodes;
	pid_t pid[NODES];
	uint64_t start, ns;

	memset(shared, 0, sizeof(*shared));
	shared->live = n == 1 ? 1 : shape->mesh ? n * (n - 1) / 2 : n - 1;
	for (uint32_t i = 0; i < n; i++) {
		pid[i] = test_fork();
		if (!pid[i])
			run_node(&(struct node){.id = (int)i,
				.nodes = (int)n,
				.depth = depth,
				.mesh = shape->mesh});
	}
	while (atomic_load_explicit(&shared->arrived, memory_order_acquire) < 2 * n)
		sched_yield();
	start = test_now_ns();
	CHECK_EQ(poll(NULL, 0, RUN_NS / 1000000), 0); /* the length of a run */
	atomic_store_explicit(&shared->stop, true, memory_order_relaxed);
	ns = test_now_ns() - start;
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(test_reap(pid[i]), 0);
	return (double)shared->lists * depth * 1e9 / (double)ns;
}

/* Returns the median rate of the window that begins with run @i. */
static double in_window(const double *rate, int i)
{
	double part[WINDOW];

	memcpy(part, rate + i, sizeof(part));
	return test_median(part, WINDOW);
}

/*
 * Sets and sorts the ratios of the times of @other to those of the faster mode, in all windows. The
 * window of @other begins @later rounds after the window of the faster mode; after the last window
 * comes the first one.
 */
static void compare(double rate[MODES][RUNS], const double *other, int later, double ratio[WINDOWS])
{
	for (int i = 0; i < WINDOWS; i++) {
		double trap = in_window(rate[TRAP], i), poll = in_window(rate[POLL], i);

		ratio[i] = (trap > poll ? trap : poll) / in_window(other, (i + later) % WINDOWS);
	}
	qsort(ratio, WINDOWS, sizeof(*ratio), test_compare);
}

static void conclude(double rate[MODES][RUNS], double trapped)
{
	double ratio[WINDOWS], same[WINDOWS], median[MODES], noise;

	for (int m = 0; m < MODES; m++) {
		double sorted[RUNS];

		memcpy(sorted, rate[m], sizeof(sorted));
		median[m] = test_median(sorted, RUNS);
		printf(" %s %.0f,", modes[m], median[m] / 1e3);
	}
	compare(rate, rate[AUTO], 0, ratio);
	compare(rate, rate[median[TRAP] > median[POLL] ? TRAP : POLL], WINDOW, same);
	noise = same[WINDOWS / 2] > 1 ? same[WINDOWS / 2] : 1 / same[WINDOWS / 2];
	printf(" with %.0f %% of its doorbells trapped; auto takes %.2f (%.2f to %.2f) times the time of the faster mode, noise %.2f\n",
		trapped * 100, ratio[WINDOWS / 2], ratio[WINDOWS / 4],
		ratio[WINDOWS - 1 - WINDOWS / 4], noise);
	totals.cells++;
	totals.within += ratio[WINDOWS / 2] <= LIMIT;
	totals.noisy += ratio[WINDOWS / 2] > LIMIT && ratio[WINDOWS / 2] <= LIMIT * noise;
	if (totals.worst < ratio[WINDOWS / 2])
		totals.worst = ratio[WINDOWS / 2];
}

static void measure(const struct shape *shape, uint32_t depth)
{
	uint64_t doorbells = 0, traps = 0;
	double rate[MODES][RUNS];

	for (int i = 0; i < RUNS * MODES; i++) {
		int m = (i + i / MODES) % MODES; /* each round begins with another mode */

		CHECK(!setenv("SOFTHCA_MODE", modes[m], 1));
		rate[m][i / MODES] = run(shape, depth);
		doorbells += m == AUTO ? shared->doorbells : 0;
		traps += m == AUTO ? shared->traps : 0;
	}
	printf("%s, depth %u, thousand messages/s:", shape->name, depth);
	conclude(rate, (double)traps / (double)doorbells);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	shared = test_map(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED);
	test_fabric("bench-group");
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		for (size_t d = 0; d < ARRAY_SIZE(depths); d++)
			if ((argc < 2 || !strcmp(argv[1], shapes[i].name)) &&
				(argc < 3 || atoi(argv[2]) == (int)depths[d]))
				measure(&shapes[i], depths[d]);
	printf("%d cells: in %d, auto takes at most %.1f times the time of the faster mode; in %d it takes longer, but within the noise; "
	       "the highest ratio is %.2f\n",
		totals.cells, totals.within, LIMIT, totals.noisy, totals.worst);
	return 0;
}
