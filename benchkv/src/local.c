/* SPDX-License-Identifier: MIT */
#include "local.h"

#include "answer.h"
#include "calls.h"
#include "daemon.h"
#include "values.h"

uint32_t daemon_serve_local(struct daemon *d)
{
	struct asker who = {.way = BY_IPC};
	struct shmipc_req from;
	struct kv_req req;
	uint32_t n = 0;

	shmipc_server_poll(d->ipc);
	while (!errands_full(&d->errands) &&
		shmipc_server_recv(d->ipc, &from, &req, sizeof(req)) > 0) {
		struct kv_resp resp;

		if (from.len != sizeof(req))
			req = (struct kv_req){.type = 0}; /* the store refuses it */
		who.client = from.client;
		who.id = from.id;
		n++;
		if (d->takes_errands && req.rank != d->node->rank) {
			errand_take(d, &who, &req);
			continue;
		}
		resp = d->node->values ? values_serve_local(d->node->values, d->store, &req) :
					 store_serve(d->store, &req);
		daemon_answer(d, &who, &resp);
		d->stats.local++;
	}
	return n;
}

/* @io: for values of more than 8 bytes. */
static struct kv_resp serve_forwarded(struct daemon *d, const struct forwarded *f,
	struct value_io *io)
{
	if (!d->node->values)
		return store_serve(d->store, &f->req);
	values_request(f->from, io);
	return values_serve(d->node->values, d->store, &f->req, io);
}

uint32_t daemon_serve_forwarded(struct daemon *d)
{
	struct forwarded f = {.from = NULL};
	uint64_t call;
	uint32_t from, n = 0;

	while (flux_try_recv_raw(d->flux, &from, &call, &f, sizeof(f), NULL) > 0) {
		struct value_io io = {.got_len = 0};
		struct forwarded_reply r = {.resp = serve_forwarded(d, &f, &io)};

		r.got_len = io.got_len;
		if (flux_reply(d->flux, call, &r, d->node->values ? sizeof(r) : sizeof(r.resp)))
			d->stats.bad_replies++;
		n++;
	}
	d->stats.remote += n;
	return n;
}
