/* SPDX-License-Identifier: MIT */
#include "compare.h"

#include <inttypes.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/order.h"

#define ROUNDS 31 /* rounds of a row; each mover has one turn per round */

/*
 * Puts bytes at the beginning of the memory of the other side, or, for memcpy, of this side's
 * `back`. 0, or not 0 after an error.
 */
typedef int put_fn(void *arg, const uint8_t *from, uint64_t len);

struct mover {
	const char *name;
	put_fn *put;
	void *arg;
	uint64_t turns; /* puts per turn */
	double ns[ROUNDS]; /* time of a put, in each round */
	double cpu_ns[ROUNDS]; /* CPU time of a put, of all threads of this process */
};

struct row_peers {
	struct mover movers[1 + MOVE_PEERS]; /* the first one is tent */
	int n;
};

/* The data with which tent_put() and cma_put() address the server's memory. */
struct other {
	struct tent *t;
	struct tent_segment *segment;
	pid_t pid;
	uint64_t remote;
};

static int tent_put(void *arg, const uint8_t *from, uint64_t len)
{
	const struct other *o = arg;
	const struct tent_request r = {.op = TENT_WRITE,
		.local = (void *)(uintptr_t)from,
		.segment = o->segment,
		.remote = o->remote,
		.len = len};
	struct tent_batch *b;
	int err = tent_submit(o->t, &r, 1, &b);

	if (!err) {
		err = tent_wait(b, -1);
		tent_batch_free(b);
	}
	if (err)
		fprintf(stderr, "tentbench: row: %s\n", strerror(-err));
	return err;
}

static int memcpy_put(void *arg, const uint8_t *from, uint64_t len)
{
	memcpy(arg, from, len);
	return 0;
}

/* Puts by the system call that UCX's transport cma uses. */
static int cma_put(void *arg, const uint8_t *from, uint64_t len)
{
	const struct other *o = arg;

	for (uint64_t done = 0; done < len;) {
		const struct iovec here = {(void *)(uintptr_t)(from + done), len - done};
		const struct iovec there = {(void *)(uintptr_t)(o->remote + done), len - done};
		ssize_t n = process_vm_writev(o->pid, &here, 1, &there, 1, 0);

		if (n <= 0) {
			perror("tentbench: process_vm_writev");
			return 1;
		}
		done += (uint64_t)n;
	}
	return 0;
}

static int run(struct mover *v, uint64_t puts, const uint8_t *from, uint64_t len, int round)
{
	uint64_t begin = clock_ns(), cpu = clock_cpu_ns();
	int err = 0;

	for (uint64_t i = 0; i < puts && !err; i++)
		err = v->put(v->arg, from, len);
	v->ns[round] = (double)(clock_ns() - begin) / (double)puts;
	v->cpu_ns[round] = (double)(clock_cpu_ns() - cpu) / (double)puts;
	return err;
}

/* Chooses the number of puts so that a row takes about as long as the options demand. */
static int set_turns(struct row_peers *p, const struct move_options *o, const uint8_t *from,
	uint64_t len)
{
	double each = o->seconds * 1e9 / (double)(ROUNDS * p->n);

	for (int i = 0; i < p->n; i++) {
		struct mover *v = &p->movers[i];

		if (run(v, 3, from, len, 0) || run(v, 3, from, len, 0))
			return 1;
		v->turns = each > v->ns[0] ? (uint64_t)(each / v->ns[0]) : 1;
	}
	return 0;
}

static double median(const double *values)
{
	double sorted[ROUNDS];

	memcpy(sorted, values, sizeof(sorted));
	return order_median(sorted, ROUNDS);
}

static double gb_per_s(const struct mover *v, uint64_t len)
{
	return (double)len / median(v->ns);
}

/* The median of the rounds' ratios. */
static double ratio(const double *peer, const double *tent)
{
	double all[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		all[i] = peer[i] / tent[i];
	return median(all);
}

static void print_header(const struct row_peers *p)
{
	printf("%12s %12s", "size, B", "tent, GB/s");
	for (int i = 1; i < p->n; i++)
		printf(" %11s, GB/s %14s %12s", p->movers[i].name, "tent / peer", "by CPU time");
	printf("\n");
}

static void print_row(const struct row_peers *p, uint64_t len)
{
	printf("%12" PRIu64 " %12.2f", len, gb_per_s(&p->movers[0], len));
	for (int i = 1; i < p->n; i++)
		printf(" %17.2f %14.2f %12.2f", gb_per_s(&p->movers[i], len),
			ratio(p->movers[i].ns, p->movers[0].ns),
			ratio(p->movers[i].cpu_ns, p->movers[0].cpu_ns));
	printf("\n");
	fflush(stdout);
}

static void print_json(const struct row_peers *p, uint64_t len, FILE *out)
{
	fprintf(out, "{\"size_bytes\": %" PRIu64 ", \"tent_gb_per_s\": %.4f", len,
		gb_per_s(&p->movers[0], len));
	for (int i = 1; i < p->n; i++)
		fprintf(out, ", \"%s_gb_per_s\": %.4f, \"to_%s\": %.4f, \"cpu_to_%s\": %.4f",
			p->movers[i].name, gb_per_s(&p->movers[i], len), p->movers[i].name,
			ratio(p->movers[i].ns, p->movers[0].ns), p->movers[i].name,
			ratio(p->movers[i].cpu_ns, p->movers[0].cpu_ns));
	fprintf(out, "}\n");
}

static int one_size(struct row_peers *p, const struct move_options *o, const uint8_t *from,
	uint64_t len)
{
	int err = set_turns(p, o, from, len);

	for (int r = 0; r < ROUNDS && !err; r++) {
		for (int i = 0; i < p->n && !err; i++)
			err = run(&p->movers[i], p->movers[i].turns, from, len, r);
	}
	return err;
}

int compare_rows(struct tent *t, struct tent_segment *s, const struct move_options *o,
	const struct row_memory *m, pid_t server, struct ucx *u, FILE *json)
{
	struct other other = {t, s, server, m->remote};
	struct row_peers p = {.movers = {{.name = "tent", .put = tent_put, .arg = &other}}, .n = 1};
	int err = 0;

	if (o->peers & MOVE_PEER_MEMCPY)
		p.movers[p.n++] =
			(struct mover){.name = "memcpy", .put = memcpy_put, .arg = m->back};
	if (o->peers & MOVE_PEER_CMA)
		p.movers[p.n++] = (struct mover){.name = "cma", .put = cma_put, .arg = &other};
	if (u)
		p.movers[p.n++] = (struct mover){.name = "ucx", .put = ucx_put, .arg = u};
	if (json != stdout)
		print_header(&p);
	for (uint32_t i = 0; i < o->sizes.n && !err; i++) {
		err = one_size(&p, o, m->source, o->sizes.at[i]);
		if (!err && json)
			print_json(&p, o->sizes.at[i], json);
		if (!err && json != stdout)
			print_row(&p, o->sizes.at[i]);
	}
	return err != 0;
}
