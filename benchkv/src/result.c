/* SPDX-License-Identifier: MIT */
#include "result.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "backend.h"
#include "client.h"

#define RESULT_MAGIC 0x62656e63686b7639ull
#define DIGEST_OPS 65536 /* operations of each client in the digest of a run without --ops */
#define FIXED offsetof(struct result, latency)

/*
 * On the wire: magic, the fixed part, then the histogram as latrec exports it. All ranks run
 * the same program, so a struct of 64-bit counters is its own encoding.
 */
static_assert(FIXED % sizeof(uint64_t) == 0, "64-bit counters only");

static void add_words(void *to, const void *from, size_t bytes)
{
	uint64_t *t = to;
	const uint64_t *f = from;

	for (size_t i = 0; i < bytes / sizeof(*t); i++)
		t[i] += f[i];
}

static void add_client(struct result *r, const struct client *c)
{
	const struct options *o = c->node->o;
	uint64_t ops = o->ops ? client_ops(c) : DIGEST_OPS;
	uint64_t digest = source_digest(&c->node->source, c->stream.client, ops);

	add_words(&r->counts, &c->check.n, sizeof(r->counts));
	r->digest += digest;
	r->bad_digests += o->ops && !c->error && digest != c->check.digest;
	if (c->elapsed_ns > r->elapsed_ns)
		r->elapsed_ns = c->elapsed_ns;
	if (!r->first_errno)
		r->first_errno = (uint64_t)c->check.first_errno;
	r->excluded += c->excluded;
	r->missed += c->missed;
	for (int i = 0; i < RESULT_LATENCIES; i++)
		latrec_hist_merge(&r->latency[i], &c->latency[i]);
}

void result_init(struct result *r)
{
	memset(r, 0, sizeof(*r));
}

void result_of_clients(const struct node *n, struct result *r)
{
	result_init(r);
	for (uint32_t i = 0; i < n->o->clients; i++)
		add_client(r, &n->clients[i]);
}

/* Clients without an audit, because the job failed before it, are left out. */
static void add_audit(struct result *r, const struct client *c)
{
	uint64_t read = c->check.n_next;

	if (!c->check.auditing)
		return;
	r->keys_put += c->keys_put;
	r->compared += c->check.n_due - read;
	if (!c->error)
		r->skipped += read > c->keys_put ? read - c->keys_put : c->keys_put - read;
	r->views += c->check.views;
	add_words(&r->audit, &c->check.n, sizeof(r->audit));
	if (c->elapsed_ns > r->audit_ns)
		r->audit_ns = c->elapsed_ns;
	if (!r->first_errno)
		r->first_errno = (uint64_t)c->check.first_errno;
}

/* Adds the statistics of the endpoints that a client has itself (@c), or a daemon (@ctx). */
static void add_net(struct result *r, const struct client *c, const struct copyrpc_ctx *ctx)
{
	struct copyrpc_stats s = {.calls = 0};

	if (c && c->remote && c->remote->get_stats)
		c->remote->get_stats(c, &s);
	if (ctx)
		copyrpc_ctx_get_stats(ctx, &s, sizeof(s));
	add_words(&r->net, &s, sizeof(s));
}

static uint64_t by_flux(const struct flux_node *node)
{
	struct flux_stats s = {.requests = 0};

	if (node)
		flux_node_get_stats(node, &s, sizeof(s));
	return s.requests;
}

static void add_ways(struct result_ways *w, const struct daemon *d)
{
	struct shmipc_server_stats ipc = {.requests = 0};
	struct delegrpc_server_stats ring = {.requests = 0};

	if (d->ipc)
		shmipc_server_get_stats(d->ipc, &ipc, sizeof(ipc));
	if (d->ring)
		delegrpc_server_get_stats(d->ring, &ring, sizeof(ring));
	w->ipc += ipc.requests;
	w->ring += ring.requests;
	w->flux += by_flux(d->flux);
	w->relay += by_flux(d->relay);
}

/*
 * The least number of requests for other ranks that have a correct reply: all errors are assumed
 * to be of such requests. A request with an error may not have been sent.
 */
static uint64_t answered(const struct check_counts *n)
{
	uint64_t wrong = n->ops - n->verified;

	return n->remote > wrong ? n->remote - wrong : 0;
}

static void compare_calls(const struct node *n, const struct result *runs, struct result *r)
{
	/* The calls that left this rank, as counted by the library that carries them. */
	uint64_t calls = r->net.calls, want = answered(&r->audit);

	for (uint32_t run = 0; run < n->o->runs; run++)
		want += answered(&runs[run].counts);
	r->unsent = want > calls ? want - calls : 0;
}

/*
 * After an error clients may read different values (for example of a put that may have been done or
 * not), so they are compared only if there is no other error.
 */
void result_compare_views(struct result *r)
{
	r->unequal =
		r->views && !r->skipped && !check_errors(&r->counts) && !check_errors(&r->audit);
}

void result_of_all(const struct node *n, const struct result *runs, struct result *r)
{
	result_init(r);
	for (uint32_t i = 0; i < n->o->clients; i++) {
		add_audit(r, &n->clients[i]);
		add_net(r, &n->clients[i], NULL);
	}
	for (uint32_t i = 0; i < n->o->daemons; i++) {
		const struct daemon_stats *s = &n->daemons[i].stats;

		add_words(&r->daemons, s, sizeof(r->daemons));
		r->served[i] = s->local + s->remote;
		add_net(r, NULL, n->daemons[i].net.ctx);
		add_ways(&r->ways, &n->daemons[i]);
	}
	compare_calls(n, runs, r);
}

void result_add(struct result *to, const struct result *from)
{
	uint64_t elapsed = to->elapsed_ns > from->elapsed_ns ? to->elapsed_ns : from->elapsed_ns;
	uint64_t audit = to->audit_ns > from->audit_ns ? to->audit_ns : from->audit_ns;
	uint64_t error = to->first_errno ? to->first_errno : from->first_errno;

	add_words(to, from, FIXED);
	to->elapsed_ns = elapsed;
	to->audit_ns = audit;
	to->first_errno = error;
	for (int i = 0; i < RESULT_LATENCIES; i++)
		latrec_hist_merge(&to->latency[i], &from->latency[i]);
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

void result_latency(const struct result *r, struct latrec_hist *all_p)
{
	*all_p = r->latency[0];
	for (int i = 1; i < RESULT_DUE; i++)
		latrec_hist_merge(all_p, &r->latency[i]);
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
	       r->bad_digests + r->skipped + r->unsent + r->unequal;
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
	};

	memcpy(kinds, all, sizeof(all));
}

/* "3 stale, 2 lost", or nothing; true if there was something. */
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
	bool audit = check_errors(&r->audit) || r->skipped || r->unequal;

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

int result_encode(const struct result *r, void **data_p, size_t *len_p)
{
	const uint64_t magic = RESULT_MAGIC;
	char *data = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&data, &len);
	int err = 0;

	if (!out)
		return -ENOMEM;
	fwrite(&magic, sizeof(magic), 1, out);
	fwrite(r, FIXED, 1, out);
	for (int i = 0; !err && i < RESULT_LATENCIES; i++)
		err = latrec_hist_export(&r->latency[i], out);
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
		err = latrec_hist_import(in, &r->latency[i]) ? -EBADMSG : 0;
	if (!err && getc(in) != EOF)
		err = -EBADMSG;
	fclose(in);
	return err;
}
