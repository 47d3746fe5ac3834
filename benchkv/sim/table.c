/* SPDX-License-Identifier: MIT */
/* Prints published figures next to simulated ones. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/order.h"
#include "output.h"

#define SEEDS 9 /* seeds per row; the median and the range show whether a job has two outcomes */
#define RECOVERY_NS (20 * NSEC_PER_MSEC)

static const struct published depth32[] = {
	{2, 32, "none", false, 15.26, 0, 4.6, 0.86e6, .mops_is = DERIVED},
	{8, 32, "none", true, 8.79, 1343, 0.97, 1.40e6, .loops_is = DERIVED},
	{16, 32, "none", false, 110.04, 833, 28.0, 0.23e6, .mops_is = DERIVED},
	{8, 32, "budget:16", true, 58.4, 0, 0, 0, .mops_is = FITTED},
	{16, 32, "budget:16", true, 24.7, 0, 0, 0, .mops_is = FITTED},
};

#define ROW(np, name, published)                                                                   \
	{                                                                                          \
		.ranks = np, .depth = 1, .control = name, .mops = published                        \
	}

static const struct published depth1[] = {
	ROW(2, "none", 13.8),
	ROW(4, "none", 21.9),
	ROW(8, "none", 8.2),
	ROW(16, "none", 14.7),
	ROW(32, "none", 27.1),
	ROW(2, "hold:10", 14.7),
	ROW(4, "hold:10", 21.4),
	ROW(8, "hold:10", 10.6),
	ROW(16, "hold:10", 20.2),
	ROW(32, "hold:10", 31.3),
	ROW(2, "adaptive-hold", 14.7),
	ROW(4, "adaptive-hold", 20.9),
	ROW(8, "adaptive-hold", 11.1),
	ROW(16, "adaptive-hold", 19.5),
	ROW(32, "adaptive-hold", 38.9),
};

static const struct published backends[] = {
	{1, 4, "none", false, 25.2, .clients = 4, .daemons = 2, .meta = true},
	{2, 4, "none", false, 3.37, .clients = 4, .daemons = 2, .meta = true},
	{1, 4, "none", false, 21.0, .clients = 4, .daemons = 2},
	{2, 4, "none", false, 4.76, .clients = 4, .daemons = 2},
};

static const struct published daemons[] = {
	{8, 1, "none", false, .daemons = 2},
	{8, 1, "none", false, .daemons = 4},
	{8, 1, "auto", false, .daemons = 2},
	{8, 1, "auto", false, .daemons = 4},
};

const struct published_block published_blocks[PUBLISHED_BLOCKS] = {
	{"HDR100, Xeon Gold 6530; depth 32, 46 clients, 1 daemon, ring 4 MiB, 10 s, one run;\n"
	 "flush separate from the poll, phases interleaved, no poll budget except where named",
		depth32, ARRAY_SIZE(depth32)},
	{"ConnectX-7, Xeon 8468; depth 1, 46 clients, 1 daemon", depth1, ARRAY_SIZE(depth1)},
	{"1 and 2 nodes; depth 4, 4 clients, 2 daemons; machine not published", backends,
		ARRAY_SIZE(backends)},
	{"several daemons, not published; depth 1, 46 clients (8 ranks: direct 15.42, UCX 14.41)",
		daemons, ARRAY_SIZE(daemons)},
};

static void print_machine(const struct machine *m)
{
	printf("machine %s: parameters in ns, and how each was obtained\n", m->name);
	for (size_t i = 0; i < machine_nkeys; i++)
		printf("  %-16s %8g  %s\n", machine_keys[i].name, machine_get(m, &machine_keys[i]),
			machine_keys[i].source);
	printf("  critical batch: round trip / CPU per message = %.0f\n",
		(2 * (m->send_ns + m->wire_ns + m->recv_ns) + m->loop_ns) /
			(m->request_ns + m->incoming_ns + m->response_ns));
	printf("ratios: d = a parameter was derived from the published figure, f = one was\n"
	       "  fitted to it, p = neither: the figure is a prediction\n");
}

static void print_pair(double published, double simulated, double unit, int digits,
	enum origin origin)
{
	static const char *const marks[] = {[PREDICTED] = "p", [DERIVED] = "d", [FITTED] = "f"};

	if (published > 0)
		printf(" %9.*f %9.*f %5.2f %s", digits, published / unit, digits, simulated / unit,
			simulated / published, marks[origin]);
	else
		printf(" %9s %9.*f %5s  ", "-", digits, simulated / unit, "");
}

static_assert(!offsetof(struct sim_result, ops_per_s), "order_compare() sorts by throughput");

/* Simulates all seeds, and sorts the results by throughput. */
static int table_jobs(struct sim_config c, struct sim_result r[SEEDS], FILE *json)
{
	int err = 0;

	for (int i = 0; !err && i < SEEDS; i++, c.seed++)
		err = output_job(&c, json, &r[i]);
	qsort(r, SEEDS, sizeof(*r), order_compare);
	return err;
}

static int table_row(const struct sim_options *o, const struct published *p, FILE *json)
{
	struct sim_config c = o->config;
	struct sim_result all[SEEDS] = {0}, r;
	int err;

	c.ranks = p->ranks;
	c.depth = p->depth;
	c.clients = p->clients ? p->clients : 46;
	c.daemons = p->daemons ? p->daemons : 1;
	c.meta = p->meta;
	c.collapsed = p->collapsed;
	if (c.collapsed && c.warmup_ns < RECOVERY_NS) /* the published jobs took 10 s */
		c.warmup_ns = RECOVERY_NS;
	control_parse(p->control, &c.control);
	err = table_jobs(c, all, json);
	if (err || json == stdout)
		return err;
	r = all[SEEDS / 2];
	printf("%4u %2u %-10s %-13s %-4s", c.ranks, c.daemons, backend_name(c.meta), p->control,
		c.collapsed ? "low" : "high");
	print_pair(p->mops * 1e6, r.ops_per_s, 1e6, 2, p->mops_is);
	printf(" %6.2f-%6.2f", all[0].ops_per_s / 1e6, all[SEEDS - 1].ops_per_s / 1e6);
	print_pair(p->outstanding, r.outstanding, 1, 0, PREDICTED);
	print_pair(p->cqe_batch, r.cqe_batch, 1, 2, PREDICTED);
	print_pair(p->loops_per_s, r.loops_per_s, 1e6, 2, p->loops_is);
	putchar('\n');
	return 0;
}

int output_table(const struct sim_options *o, FILE *json)
{
	int err = 0;

	if (json != stdout)
		print_machine(&o->config.machine);
	for (size_t b = 0; !err && b < PUBLISHED_BLOCKS; b++) {
		const struct published_block *block = &published_blocks[b];

		if (json != stdout)
			printf("\n%s\n%4s %2s %-10s %-13s %-4s %27s %5s %d %s %27s %27s %27s\n",
				block->conditions, "NP", "D", "backend", "control", "from",
				"M op/s: publ., sim., ratio", "of", SEEDS, "seeds", "outstanding",
				"responses per loop", "M loops/s");
		for (size_t i = 0; !err && i < block->n; i++)
			err = table_row(o, &block->rows[i], json);
	}
	return err;
}
