/* SPDX-License-Identifier: MIT */
/* The results of this rank's clients and daemons. */
#include "backend.h"
#include "client.h"
#include "result.h"

#define DIGEST_OPS 65536 /* operations of each client in the digest of a run without --ops */

static void add_client(struct result *r, const struct client *c)
{
	const struct options *o = c->node->o;
	uint64_t all = o->ops ? client_ops(c) : DIGEST_OPS;
	/* Only the operations that were made: the digest of many others could take minutes. */
	uint64_t ops = o->ops && c->made->last < all ? c->made->last : all;
	uint64_t digest = source_digest(&c->node->source, c->stream.client, ops);

	result_add_words(&r->counts, &c->check.n, sizeof(r->counts));
	r->digest += digest;
	r->bad_digests += o->ops && !c->error && (ops < all || digest != c->check.digest);
	if (c->elapsed_ns > r->elapsed_ns)
		r->elapsed_ns = c->elapsed_ns;
	if (!r->first_errno)
		r->first_errno = (uint64_t)c->check.first_errno;
	r->excluded += c->excluded;
	r->missed += c->missed;
	for (int i = 0; i < RESULT_LATENCIES; i++)
		latrec_hist_merge(r->latency[i], c->latency[i]);
}

void result_of_clients(const struct node *n, struct result *r)
{
	result_clear(r);
	for (uint32_t i = 0; i < n->o->clients; i++)
		add_client(r, &n->clients[i]);
}

int series_of_clients(const struct node *n, struct series *s)
{
	int err = 0;

	for (uint32_t i = 0; !err && n->o->interval_ns && i < n->o->clients; i++)
		err = series_add_recorder(s, &n->clients[i].series);
	return err;
}

/* Adds the audit of a client. If the job failed before the audit, there is nothing to add. */
static void add_audit(struct result *r, const struct client *c)
{
	uint64_t read = c->check.n_next;

	if (!c->check.auditing)
		return;
	r->keys_put += c->keys_put;
	r->compared += c->check.n_due - read;
	if (!c->error)
		r->skipped += read > c->keys_put ? read - c->keys_put : c->keys_put - read;
	r->changes += c->rmw.changes;
	r->versions += c->rmw.versions;
	r->views += c->check.views;
	result_add_words(&r->audit, &c->check.n, sizeof(r->audit));
	if (c->elapsed_ns > r->audit_ns)
		r->audit_ns = c->elapsed_ns;
	if (!r->first_errno)
		r->first_errno = (uint64_t)c->check.first_errno;
}

/* Adds the statistics of the endpoints of a client (@c) or of a daemon (@ctx). */
static void add_net(struct result *r, const struct client *c, const struct copyrpc_ctx *ctx)
{
	struct copyrpc_stats s = {.calls = 0};

	if (c && c->remote && c->remote->get_stats)
		c->remote->get_stats(c, &s);
	if (ctx)
		copyrpc_ctx_get_stats(ctx, &s, sizeof(s));
	result_add_words(&r->net, &s, sizeof(s));
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
 * A lower bound of the requests for other ranks that have a correct reply. It assumes that all
 * errors are those of such requests, because a request with an error may not have been sent.
 */
static uint64_t answered(const struct check_counts *n)
{
	uint64_t wrong = n->ops - n->verified;

	return n->remote > wrong ? n->remote - wrong : 0;
}

static void compare_calls(const struct node *n, const struct result *runs, struct result *r)
{
	/* `calls`: the calls that left this rank, as counted by the library that carries them. */
	uint64_t calls = r->net.calls, want = answered(&r->audit);

	for (uint32_t run = 0; run < n->o->runs; run++)
		want += answered(&runs[run].counts) + runs[run].counts.remote_swaps;
	r->unsent = want > calls ? want - calls : 0;
}

void result_of_all(const struct node *n, const struct result *runs, struct result *r)
{
	result_clear(r);
	for (uint32_t i = 0; i < n->o->clients; i++) {
		add_audit(r, &n->clients[i]);
		add_net(r, &n->clients[i], NULL);
	}
	for (uint32_t i = 0; i < n->o->daemons; i++) {
		const struct daemon_stats *s = &n->daemons[i].stats;

		result_add_words(&r->daemons, s, sizeof(r->daemons));
		r->served[i] = s->local + s->remote;
		add_net(r, NULL, n->daemons[i].net.ctx);
		add_ways(&r->ways, &n->daemons[i]);
	}
	compare_calls(n, runs, r);
}
