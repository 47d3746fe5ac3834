/* SPDX-License-Identifier: MIT */
/* Prints the report: medians and paired ratios of the windows, as a table and as JSON. */
#include "base/order.h"
#include "bench.h"

/* A line of the table. */
struct rpcbench_row {
	const struct rpcbench_cell *cell;
	struct rpcbench_spread ns, ratio;
	double best, scale;
};

struct rpcbench_spread rpcbench_spread(double *v, uint32_t n)
{
	if (!n)
		return (struct rpcbench_spread){0, 0, 0};
	order_sort(v, n);
	return (struct rpcbench_spread){v[n / 10], v[n / 2], v[n - 1 - n / 10]};
}

/* Returns the spread of the ratios, round by round, of the times per call in cells a and b. */
static struct rpcbench_spread rpcbench_ratio(const struct rpcbench_cell *a,
	const struct rpcbench_cell *b, uint32_t rounds)
{
	static double v[RPCBENCH_ROUNDS];
	uint32_t n = 0;

	for (uint32_t i = 0; i < rounds; i++)
		if (!a->disturbed[i] && !b->disturbed[i])
			v[n++] = a->ns[i] / b->ns[i];
	/* If no round is undisturbed in both cells, all rounds count. */
	for (uint32_t i = 0; !n && i < rounds; i++)
		v[i] = a->ns[i] / b->ns[i];
	n = n ? n : rounds;
	return rpcbench_spread(v, n);
}

/* Returns the spread of the undisturbed windows, or of all if there is none. */
static struct rpcbench_spread rpcbench_cell_ns(const struct rpcbench_cell *c, uint32_t rounds)
{
	static double v[RPCBENCH_ROUNDS];
	uint32_t n = 0;

	for (uint32_t i = 0; i < rounds; i++)
		if (!c->disturbed[i] || !c->clean)
			v[n++] = c->ns[i];
	return rpcbench_spread(v, n);
}

static double rpcbench_mrps(double ns)
{
	return ns > 0 ? 1e3 / ns : 0;
}

static struct rpcbench_cell *rpcbench_cell_at(const struct rpcbench_result *r, uint32_t count,
	uint32_t loop, uint32_t impl)
{
	return &r->cells[(count * r->loops + loop) * r->impls + impl];
}

/* Returns the name of the loop, or of the mesh's pattern. */
static const char *rpcbench_shape(const struct rpcbench_result *r, const struct rpcbench_cell *c)
{
	return c->impl->turn ? rpcbench_pattern_names[r->cfg->pattern] :
			       rpcbench_loop_names[c->loop];
}

/* Returns the number of messages (calls and responses) per burst, or 0 if it is not known. */
static double rpcbench_per_burst(const struct rpcbench_cell *c)
{
	return c->bursts ? 2 * (double)c->rpcs / (double)c->bursts : 0;
}

/* Returns an implementation's fastest loop with that number of clients. */
static const struct rpcbench_cell *rpcbench_fastest(const struct rpcbench_result *r, uint32_t count,
	uint32_t impl)
{
	const struct rpcbench_cell *best = rpcbench_cell_at(r, count, 0, impl);
	double least = rpcbench_cell_ns(best, r->rounds).median;

	for (uint32_t i = 1; i < r->loops; i++) {
		const struct rpcbench_cell *c = rpcbench_cell_at(r, count, i, impl);
		double ns = rpcbench_cell_ns(c, r->rounds).median;

		best = ns < least ? c : best;
		least = ns < least ? ns : least;
	}
	return best;
}

static void rpcbench_row(const struct rpcbench_result *r, const struct rpcbench_row *row)
{
	const struct rpcbench_cell *c = row->cell;

	printf("%-10s %-8s %7u %5u %9.1f %9.1f %9.1f %8.3f %7.3f %6.3f-%.3f %6.2f %6.2f %9.2f %10.1f "
	       "%7.1f %5u/%u\n",
		c->impl->name, rpcbench_shape(r, c), c->clients, r->cfg->queue_depth,
		row->ns.median, row->ns.p10, row->ns.p90, rpcbench_mrps(row->ns.median),
		row->ratio.median, row->ratio.p10, row->ratio.p90, row->best, row->scale,
		rpcbench_per_burst(c), c->least_rate * 1e6, r->line_rtt_ns, c->clean,
		r->rounds - c->clean);
}

static void rpcbench_json(const struct rpcbench_result *r, const struct rpcbench_row *row,
	FILE *json)
{
	const struct rpcbench_cell *c = row->cell;

	fprintf(json,
		"{\"layer\":\"%s\",\"impl\":\"%s\",\"loop\":\"%s\",\"clients\":%u,"
		"\"queue_depth\":%u,\"req_size\":%u,\"resp_size\":%u,\"ns_per_rpc\":%.2f,"
		"\"ns_p10\":%.2f,\"ns_p90\":%.2f,\"mrps\":%.4f,\"ratio\":%.4f,\"ratio_p10\":%.4f,"
		"\"ratio_p90\":%.4f,\"best\":%.4f,\"scale\":%.4f,\"per_burst\":%.3f,\"least_client_krps\":%.2f,"
		"\"line_rtt_ns\":%.1f,\"windows\":%u,\"disturbed\":%u,\"rpcs\":%llu}\n",
		r->cells->impl->name, c->impl->name, rpcbench_shape(r, c), c->clients,
		r->cfg->queue_depth, r->cfg->req_size, r->cfg->resp_size, row->ns.median,
		row->ns.p10, row->ns.p90, rpcbench_mrps(row->ns.median), row->ratio.median,
		row->ratio.p10, row->ratio.p90, row->best, row->scale, rpcbench_per_burst(c),
		c->least_rate * 1e6, r->line_rtt_ns, c->clean, r->rounds - c->clean,
		(unsigned long long)c->rpcs);
}

void rpcbench_print_head(FILE *json)
{
	if (json != stdout)
		printf("%-10s %-8s %7s %5s %9s %9s %9s %8s %7s %12s %6s %6s %9s %10s %7s %7s\n",
			"impl", "loop", "clients", "depth", "ns/rpc", "p10", "p90", "Mrps", "ratio",
			"p10-p90", "best", "scale", "per burst", "least krps", "line ns",
			"windows");
}

static void rpcbench_print_cell(const struct rpcbench_result *r, uint32_t count, uint32_t loop,
	uint32_t impl, FILE *json)
{
	const struct rpcbench_cell *c = rpcbench_cell_at(r, count, loop, impl);
	struct rpcbench_row row = {.cell = c,
		.ns = rpcbench_cell_ns(c, r->rounds),
		.ratio = rpcbench_ratio(rpcbench_cell_at(r, count, loop, 0), c, r->rounds)};

	row.best = rpcbench_ratio(c, rpcbench_fastest(r, count, impl), r->rounds).median;
	/*
	 * Throughput relative to that with the first number of clients: a ratio of times per call.
	 */
	row.scale = rpcbench_ratio(rpcbench_cell_at(r, 0, loop, impl), c, r->rounds).median;
	if (json != stdout)
		rpcbench_row(r, &row);
	if (json)
		rpcbench_json(r, &row, json);
}

void rpcbench_print(const struct rpcbench_result *r, FILE *json)
{
	for (uint32_t k = 0; k < r->counts; k++)
		for (uint32_t l = 0; l < r->loops; l++)
			for (uint32_t i = 0; i < r->impls; i++)
				rpcbench_print_cell(r, k, l, i, json);
}

/* Prints the latency of a call that finds the server asleep, and the CPU use at rest. */
void rpcbench_print_wake(const char *layer, const struct latrec_hist *h, double server_cpu,
	double client_cpu, FILE *json)
{
	if (json != stdout)
		printf("%s asleep: call p50 %.1f us, p99 %.1f us (%llu calls); "
		       "a server at rest uses %.2f %% of a core, a client that waits %.2f %%\n",
			layer, (double)latrec_hist_quantile(h, .5) / 1e3,
			(double)latrec_hist_quantile(h, .99) / 1e3,
			(unsigned long long)latrec_hist_count(h), server_cpu * 100,
			client_cpu * 100);
	if (json)
		fprintf(json,
			"{\"layer\":\"%s\",\"impl\":\"%s\",\"wake_p50_ns\":%llu,"
			"\"wake_p99_ns\":%llu,\"wakes\":%llu,\"rest_cpu\":%.5f,\"hold_cpu\":%.5f}\n",
			layer, layer, (unsigned long long)latrec_hist_quantile(h, .5),
			(unsigned long long)latrec_hist_quantile(h, .99),
			(unsigned long long)latrec_hist_count(h), server_cpu, client_cpu);
}
