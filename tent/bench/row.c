/* SPDX-License-Identifier: MIT */
#include "row.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rand.h"

struct worker {
	pthread_t thread;
	struct tent *t;
	struct tent_segment *segment;
	const struct move_options *o;
	const struct row_memory *m;
	uint8_t *source, *back;
	uint8_t *want, *got; /* the bytes of source and back in memory of the host */
	uint64_t remote, end, random;
	struct row row; /* this thread's part of the row */
};

static void fill(struct worker *w)
{
	uint64_t n = w->row.size * w->row.batch;

	for (uint64_t i = 0; i < n; i += 8) {
		uint64_t x = rand_next(&w->random);

		memcpy(w->want + i, &x, n - i < 8 ? n - i : 8);
	}
	if (w->want != w->source)
		place_copy(&w->m->place, w->source, w->want, n);
}

static void clear(struct worker *w)
{
	uint64_t n = w->row.size * w->row.batch;

	memset(w->got, 0, n);
	if (w->got != w->back)
		place_copy(&w->m->place, w->back, w->got, n);
}

/* Submits a batch and waits until it ends. 0 or -errno. */
static int move(struct worker *w, enum tent_op op, uint8_t *local)
{
	struct tent_request *r = calloc(w->row.batch, sizeof(*r));
	struct tent_batch *b;
	int err;

	if (!r)
		return -ENOMEM;
	for (uint64_t i = 0; i < w->row.batch; i++) {
		r[i].size = sizeof(*r);
		r[i].op = op;
		r[i].local = local + i * w->row.size;
		r[i].segment = w->segment;
		r[i].remote = w->remote + i * w->row.size;
		r[i].len = w->row.size;
		r[i].priority = w->row.priority;
	}
	err = tent_submit(w->t, r, (uint32_t)w->row.batch, &b);
	free(r);
	if (err)
		return err;
	err = tent_wait(b, -1);
	tent_batch_free(b);
	return err;
}

static void failed(struct worker *w, int err)
{
	w->row.failed += w->row.batch;
	if (!w->row.err)
		w->row.err = err;
}

/* Compares the bytes of a batch; after writes, reads them back first. */
static void verify(struct worker *w, enum tent_op op)
{
	int err = op == TENT_WRITE ? move(w, TENT_READ, w->back) : 0;

	if (err)
		failed(w, err);
	else if (w->got != w->back)
		place_copy(&w->m->place, w->got, w->back, w->row.size * w->row.batch);
	for (uint64_t i = 0; i < w->row.batch && !err; i++)
		w->row.wrong += memcmp(w->want + i * w->row.size, w->got + i * w->row.size,
					w->row.size) != 0;
}

static void one_batch(struct worker *w, enum tent_op op)
{
	uint64_t from = clock_ns();
	int err = 0;

	if (w->o->check) {
		clear(w);
		fill(w);
		if (op == TENT_READ)
			err = move(w, TENT_WRITE, w->source);
		from = clock_ns();
	}
	if (!err)
		err = move(w, op, op == TENT_WRITE ? w->source : w->back);
	if (err) {
		failed(w, err);
		return;
	}
	latrec_hist_record(w->row.latency, clock_ns() - from);
	w->row.requests += w->row.batch;
	w->row.bytes += w->row.batch * w->row.size;
	if (w->o->check)
		verify(w, op);
}

static enum tent_op op_of(const struct worker *w, uint64_t i)
{
	if (w->o->op == MOVE_MIXED)
		return i % 2 ? TENT_READ : TENT_WRITE;
	return w->o->op == MOVE_READ ? TENT_READ : TENT_WRITE;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (uint64_t i = 0; !w->row.err; i++) {
		if (w->o->batches_each ? i == w->o->batches_each : clock_ns() >= w->end)
			break;
		one_batch(w, op_of(w, i));
	}
	return NULL;
}

static void add(struct row *row, const struct row *w)
{
	row->requests += w->requests;
	row->bytes += w->bytes;
	row->failed += w->failed;
	row->wrong += w->wrong;
	if (!row->err)
		row->err = w->err;
	latrec_hist_merge(row->latency, w->latency);
}

struct row *row_new(uint32_t n)
{
	struct row *rows = calloc(n, sizeof(*rows));
	int err = rows ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < n && !err; i++)
		err = latrec_hist_create(NULL, &rows[i].latency);
	if (!err)
		return rows;
	row_free(rows, n);
	return NULL;
}

void row_free(struct row *rows, uint32_t n)
{
	for (uint32_t i = 0; rows && i < n; i++)
		latrec_hist_destroy(rows[i].latency);
	free(rows);
}

static int start(struct worker *w, uint32_t i, const struct row_memory *m, const struct row *row)
{
	uint64_t share = row->size * row->batch;

	int err = latrec_hist_create(NULL, &w->row.latency);

	if (err)
		return err;
	w->m = m;
	w->source = w->want = m->source + i * share;
	w->back = w->got = m->back + i * share;
	if (m->place.of_gpu && w->o->check) {
		w->want = malloc(share);
		w->got = malloc(share);
		if (!w->want || !w->got)
			return -ENOMEM;
	}
	w->remote = m->remote + i * share;
	w->random = i + 1;
	w->end = clock_ns() + (uint64_t)(w->o->seconds * 1e9);
	w->row.size = row->size;
	w->row.batch = row->batch;
	w->row.priority = (uint8_t)w->o->priorities.at[i % w->o->priorities.n];
	return -pthread_create(&w->thread, NULL, work, w);
}

int row_run(struct tent *t, struct tent_segment *s, const struct move_options *o,
	const struct row_memory *m, struct row *rows)
{
	struct worker *w = calloc(o->threads, sizeof(*w));
	uint64_t from = clock_ns();
	uint32_t n = 0;
	int err = w ? 0 : -ENOMEM;

	for (; n < o->threads && !err; n += !err) {
		w[n].t = t;
		w[n].segment = s;
		w[n].o = o;
		err = start(&w[n], n, m, rows);
	}
	for (uint32_t i = 0; i < n; i++)
		pthread_join(w[i].thread, NULL);
	for (uint32_t i = 0; i < n; i++) {
		struct row *row = &rows[i % o->priorities.n];

		row->priority = w[i].row.priority;
		row->seconds = (double)(clock_ns() - from) / 1e9;
		row->threads++;
		add(row, &w[i].row);
	}
	for (uint32_t i = 0; w && i < o->threads; i++) {
		latrec_hist_destroy(w[i].row.latency);
		if (w[i].want != w[i].source)
			free(w[i].want);
		if (w[i].got != w[i].back)
			free(w[i].got);
	}
	free(w);
	return err;
}

static double us(const struct row *row, double q)
{
	return (double)latrec_hist_quantile(row->latency, q) / 1e3;
}

void row_header(FILE *out)
{
	fprintf(out, "%-6s %8s %12s %6s %7s %10s %10s %10s %10s %10s %10s\n", "op", "priority",
		"size, B", "batch", "threads", "requests", "GB/s", "mean, us", "P50, us", "P99, us",
		"wrong");
}

void row_print(const struct row *row, const struct move_options *o, FILE *out)
{
	fprintf(out,
		"%-6s %8u %12" PRIu64 " %6" PRIu64 " %7u %10" PRIu64
		" %10.3f %10.1f %10.1f %10.1f %10" PRIu64 "\n",
		move_op_name(o->op), row->priority, row->size, row->batch, row->threads,
		row->requests, (double)row->bytes / row->seconds / 1e9,
		latrec_hist_mean(row->latency) / 1e3, us(row, .5), us(row, .99), row->wrong);
}

void row_json(const struct row *row, const struct move_options *o, FILE *out)
{
	fprintf(out,
		"{\"op\": \"%s\", \"priority\": %u, \"size_bytes\": %" PRIu64
		", \"batch\": %" PRIu64 ", \"threads\": %u, \"requests\": %" PRIu64
		", \"bytes\": %" PRIu64
		", \"seconds\": %.6f, \"gb_per_s\": %.6f, \"batch_mean_us\": %.3f, "
		"\"batch_p50_us\": %.3f, \"batch_p99_us\": %.3f, \"checked\": %s, "
		"\"failed\": %" PRIu64 ", \"wrong\": %" PRIu64 "}\n",
		move_op_name(o->op), row->priority, row->size, row->batch, row->threads,
		row->requests, row->bytes, row->seconds, (double)row->bytes / row->seconds / 1e9,
		latrec_hist_mean(row->latency) / 1e3, us(row, .5), us(row, .99),
		o->check ? "true" : "false", row->failed, row->wrong);
}
