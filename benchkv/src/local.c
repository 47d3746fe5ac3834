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
	while (!slab_is_full(&d->errands.free) &&
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
		resp = values_serve_local(d->node->values, d->store, &req);
		daemon_answer(d, &who, &resp);
		d->stats.local++;
	}
	return n;
}

uint32_t daemon_serve_forwarded(struct daemon *d)
{
	const struct values *v = d->node->values;
	struct forwarded f;
	uint64_t call;
	uint32_t from, n = 0;

	while (flux_try_recv_raw(d->flux, &from, &call, &f, sizeof(f), NULL) > 0) {
		struct forwarded_reply r;
		struct value_io io;

		if (v)
			values_request(v, f.from, &io);
		r.resp = values_serve(v, d->store, &f.req, &io);
		r.got_len = io.got_len;
		if (flux_reply(d->flux, call, &r, v ? sizeof(r) : sizeof(r.resp)))
			d->stats.bad_replies++;
		n++;
	}
	d->stats.remote += n;
	return n;
}
