/* SPDX-License-Identifier: MIT */
#include "result.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define RESULT_MAGIC 0x62656e63686b7661ull
#define FIXED offsetof(struct result, latency)

/*
 * The encoding: a magic, the fixed part, then the histograms as latrec exports them. All ranks run
 * the same program, so the fixed part, a struct of 64-bit counters, is copied.
 */
static_assert(FIXED % sizeof(uint64_t) == 0, "64-bit counters only");

void result_add_words(void *to, const void *from, size_t bytes)
{
	uint64_t *t = to;
	const uint64_t *f = from;

	for (size_t i = 0; i < bytes / sizeof(*t); i++)
		t[i] += f[i];
}

int result_latencies_create(struct latrec_hist *latency[RESULT_LATENCIES])
{
	int err = 0;

	memset((void *)latency, 0, RESULT_LATENCIES * sizeof(*latency));
	for (int i = 0; !err && i < RESULT_LATENCIES; i++)
		err = latrec_hist_create(NULL, &latency[i]);
	if (err)
		result_latencies_destroy(latency);
	return err;
}

void result_latencies_destroy(struct latrec_hist *latency[RESULT_LATENCIES])
{
	for (int i = 0; i < RESULT_LATENCIES; i++)
		latrec_hist_destroy(latency[i]);
	memset((void *)latency, 0, RESULT_LATENCIES * sizeof(*latency));
}

int result_init(struct result *r)
{
	memset(r, 0, sizeof(*r));
	return result_latencies_create(r->latency);
}

void result_fini(struct result *r)
{
	result_latencies_destroy(r->latency);
}

void result_clear(struct result *r)
{
	memset(r, 0, FIXED);
	for (int i = 0; i < RESULT_LATENCIES; i++)
		latrec_hist_clear(r->latency[i]);
}

/*
 * After an error clients may read different values, for example if it is unknown whether a put was
 * carried out. So the views are compared only if there is no other error.
 */
void result_compare_views(struct result *r)
{
	if (!r->views || r->skipped || check_errors(&r->counts) || check_errors(&r->audit))
		return;
	if (!r->changes && !r->versions) {
		r->unequal = 1;
		return;
	}
	/* If `changes` equals `versions`, as many changes were lost as were carried out twice. */
	r->undone = r->changes > r->versions ? r->changes - r->versions : 0;
	r->redone = r->versions > r->changes ? r->versions - r->changes : !r->undone;
}

void result_add(struct result *to, const struct result *from)
{
	uint64_t elapsed = to->elapsed_ns > from->elapsed_ns ? to->elapsed_ns : from->elapsed_ns;
	uint64_t audit = to->audit_ns > from->audit_ns ? to->audit_ns : from->audit_ns;
	uint64_t error = to->first_errno ? to->first_errno : from->first_errno;

	result_add_words(to, from, FIXED);
	to->elapsed_ns = elapsed;
	to->audit_ns = audit;
	to->first_errno = error;
	for (int i = 0; i < RESULT_LATENCIES; i++)
		latrec_hist_merge(to->latency[i], from->latency[i]);
}

void result_sequel(struct result *to, const struct result *from)
{
	uint64_t elapsed = to->elapsed_ns + from->elapsed_ns;

	result_add(to, from);
	to->elapsed_ns = elapsed;
}

void result_sequel_all(struct result *to, const struct result *runs, uint32_t n)
{
	for (uint32_t run = 0; run < n; run++)
		result_sequel(to, &runs[run]);
}

struct latrec_hist *result_latency(const struct result *r)
{
	struct latrec_hist *all;

	if (latrec_hist_create(NULL, &all))
		return NULL;
	for (int i = 0; i < RESULT_DUE; i++)
		latrec_hist_merge(all, r->latency[i]);
	return all;
}

double result_rate(const struct result *r)
{
	uint64_t ops = r->counts.ops - r->excluded;

	return r->elapsed_ns ? (double)ops * (double)NSEC_PER_SEC / (double)r->elapsed_ns : 0;
}

double result_cpu_per_op(const struct result *r)
{
	return r->counts.ops ? (double)r->cpu_ns / (double)r->counts.ops : 0;
}

uint64_t result_errors(const struct result *r)
{
	return check_errors(&r->counts) + check_errors(&r->audit) + r->daemons.bad_replies +
	       r->bad_digests + r->skipped + r->unsent + r->unequal + r->undone + r->redone;
}

bool result_verified(const struct result *r)
{
	return !result_errors(r) && r->counts.verified == r->counts.ops &&
	       r->audit.verified == r->audit.ops;
}

void result_kinds(const struct result *r, struct result_kind kinds[RESULT_KINDS])
{
	const struct check_counts *n = &r->counts, *a = &r->audit;
	const struct result_kind all[RESULT_KINDS] = {
		{"refused", "refused", n->refused, a->refused},
		{"wrong_value", "wrong value", n->wrong_value, a->wrong_value},
		{"forgotten", "forgotten", n->forgotten, a->forgotten},
		{"stale", "stale", n->stale, a->stale},
		{"invented", "invented", n->invented, a->invented},
		{"misdelivered", "misdelivered", n->misdelivered, a->misdelivered},
		{"lost", "lost", n->lost, a->lost},
		{"duplicated", "duplicated", n->duplicated, a->duplicated},
		{"undeliverable", "undeliverable", r->daemons.bad_replies, 0},
		{"wrong_digest", "clients with a wrong digest", r->bad_digests, 0},
		{"unsent", "unsent", r->unsent, 0},
		{"skipped", "skipped", 0, r->skipped},
		{"unequal", "unequal", 0, r->unequal},
		{"undone", "undone", 0, r->undone},
		{"redone", "redone", 0, r->redone},
	};

	memcpy(kinds, all, sizeof(all));
}

/* Writes the kinds of errors, as "3 stale, 2 lost". False: there are no errors. */
static bool list_kinds(FILE *out, const struct result_kind *kinds, bool audit)
{
	const char *comma = "";

	for (size_t i = 0; i < RESULT_KINDS; i++) {
		uint64_t n = audit ? kinds[i].in_audit : kinds[i].in_runs;

		if (n) {
			fprintf(out, "%s%" PRIu64 " %s", comma, n, kinds[i].text);
			comma = ", ";
		}
	}
	return *comma;
}

void result_explain(const struct result *r, char *text, size_t size)
{
	struct result_kind kinds[RESULT_KINDS];
	FILE *out = fmemopen(text, size, "w");
	bool audit = check_errors(&r->audit) || r->skipped || r->unequal || r->undone || r->redone;

	*text = '\0'; /* remains if nothing is written */
	if (!out)
		return;
	result_kinds(r, kinds);
	if (list_kinds(out, kinds, false) && audit)
		fputs("; ", out);
	if (audit) {
		fprintf(out, "audit of %" PRIu64 " keys: ", r->audit.ops);
		list_kinds(out, kinds, true);
	}
	fclose(out);
}

int result_encode(const struct series *s, const struct result *r, void **data_p, size_t *len_p)
{
	const uint64_t magic = RESULT_MAGIC;
	char *data = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&data, &len);
	int err = 0;

	if (!out)
		return -ENOMEM;
	if (s)
		series_write(s, out);
	fwrite(&magic, sizeof(magic), 1, out);
	fwrite(r, FIXED, 1, out);
	for (int i = 0; !err && i < RESULT_LATENCIES; i++)
		err = latrec_hist_export(r->latency[i], out);
	if (fclose(out) || err) {
		free(data);
		return -ENOMEM;
	}
	*data_p = data;
	*len_p = len;
	return 0;
}

int result_decode(const void *data, size_t len, struct result *r)
{
	FILE *in = fmemopen((void *)(uintptr_t)data, len, "r");
	uint64_t magic;
	int err = 0;

	if (!in)
		return len ? -ENOMEM : -EBADMSG;
	if (fread(&magic, sizeof(magic), 1, in) != 1 || magic != RESULT_MAGIC ||
		fread(r, FIXED, 1, in) != 1)
		err = -EBADMSG;
	for (int i = 0; !err && i < RESULT_LATENCIES; i++)
		err = latrec_hist_import(in, r->latency[i]) ? -EBADMSG : 0;
	if (!err && getc(in) != EOF)
		err = -EBADMSG;
	fclose(in);
	return err;
}
