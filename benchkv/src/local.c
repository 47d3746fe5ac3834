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
			req = (struct kv_req){.type = 0}; /* which is refused */
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

static uint32_t serve_plain(struct daemon *d)
{
	struct kv_req req;
	uint64_t call;
	uint32_t from, n = 0;

	while (flux_try_recv_raw(d->flux, &from, &call, &req, sizeof(req), NULL) > 0) {
		struct kv_resp resp = store_serve(d->store, &req);

		if (flux_reply(d->flux, call, &resp, sizeof(resp)))
			d->stats.bad_replies++;
		n++;
	}
	return n;
}

/* The same with the further bytes of values. */
static uint32_t serve_values(struct daemon *d)
{
	struct forwarded f;
	uint64_t call;
	uint32_t from, n = 0;

	while (flux_try_recv_raw(d->flux, &from, &call, &f, sizeof(f), NULL) > 0) {
		struct forwarded_reply r = {.got_len = 0};
		struct value_io io;

		values_request(f.from, &io);
		r.resp = values_serve(d->node->values, d->store, &f.req, &io);
		r.got_len = io.got_len;
		if (flux_reply(d->flux, call, &r, sizeof(r)))
			d->stats.bad_replies++;
		n++;
	}
	return n;
}

uint32_t daemon_serve_forwarded(struct daemon *d)
{
	uint32_t n = d->node->values ? serve_values(d) : serve_plain(d);

	d->stats.remote += n;
	return n;
}
