/* SPDX-License-Identifier: MIT */
#include "network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bucket.h"
#include "daemon.h"
#include "values.h"

#define FORWARD_MAX 256 /* maximum of requests that wait for one worker; others wait in copyrpc */

int network_init(struct network *net, const struct node *node)
{
	uint32_t workers = node->o->daemons;

	net->remotes = calloc(node->ranks, sizeof(*net->remotes));
	net->loads = calloc(node->ranks, sizeof(*net->loads));
	net->held = calloc((size_t)workers * FORWARD_MAX, sizeof(*net->held));
	net->n_held = calloc(workers, sizeof(*net->n_held));
	if (!net->remotes || !net->loads || !net->held || !net->n_held ||
		control_init(&net->control, &node->control, node->ranks))
		return -ENOMEM;
	net->staggers = node->o->stagger_ns != 0;
	for (uint32_t r = 0; r < node->ranks; r++)
		net->remotes[r].rank = r;
	return 0;
}

void network_fini(struct network *net)
{
	copyrpc_ctx_destroy(net->ctx);
	control_fini(&net->control);
	free(net->n_held);
	free(net->held);
	free(net->loads);
	free(net->remotes);
}

/* ---- requests of other ranks ---- */

/* Replies to a request of another rank, and frees it even if its endpoint has failed. */
static void reply_remote(struct daemon *d, struct copyrpc_req *from, const struct kv_resp *resp,
	uint32_t got_len)
{
	int err = values_reply(from, resp, got_len);

	if (err == -EMSGSIZE) /* the caller has no room for the reply: sends an empty one */
		err = copyrpc_reply(from, NULL, 0);
	if (err)
		d->stats.bad_replies++;
}

static void refuse_remote(struct daemon *d, struct copyrpc_req *from, const struct kv_req *req,
	int error)
{
	struct kv_resp resp = kv_reply(req, KV_ERROR, (uint64_t)error);

	reply_remote(d, from, &resp, 0);
}

static void on_worker_answer(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct copyrpc_req *from = (struct copyrpc_req *)(uintptr_t)token;
	const struct forwarded_reply *r = payload; /* may have only the first field */
	const struct daemon *d = arg;
	struct value_io io;
	struct kv_req req;

	if (payload) {
		reply_remote(arg, from, &r->resp, len == sizeof(*r) ? r->got_len : 0);
		return;
	}
	req = values_request(d->node->values, from, &io); /* the worker has ended */
	refuse_remote(arg, from, &req, EPIPE);
}

uint32_t network_take_answers(struct daemon *d)
{
	return d->flux ? (uint32_t)flux_poll(d->flux, on_worker_answer, d) : 0;
}

/* Passes a request to the daemon of its shard. -EAGAIN: there is no room now. */
static int forward(struct daemon *d, uint32_t shard, const struct forwarded *f)
{
	int err = flux_call(d->flux, shard, f, d->node->values ? sizeof(*f) : sizeof(f->req),
		(uintptr_t)f->from);

	if (err && err != -EAGAIN) {
		refuse_remote(d, f->from, &f->req, -err);
		err = 0;
	}
	return err;
}

static void serve_remote(struct daemon *d, struct copyrpc_req *from)
{
	struct network *net = &d->net;
	const struct values *v = d->node->values;
	struct value_io io;
	struct forwarded f = {values_request(v, from, &io), from};
	uint32_t shard = place_shard(&d->node->place, f.req.key);

	/* The word is control data of the client's rank (control.h); a daemon there has set it. */
	control_heard(&net->control, f.req.origin / d->node->o->clients, f.req.word);
	/* Without flux, the store replies with an error to a request for another daemon. */
	if (shard == d->index || !d->flux) {
		struct kv_resp resp = values_serve(v, d->store, &f.req, &io);

		d->stats.remote++;
		reply_remote(d, from, &resp, io.got_len);
		return;
	}
	d->stats.forwarded++;
	if (net->n_held[shard] || forward(d, shard, &f))
		net->held[shard * FORWARD_MAX + net->n_held[shard]++] = f;
}

void network_forward(struct daemon *d)
{
	struct network *net = &d->net;

	for (uint32_t i = 0; i < d->node->o->daemons; i++) {
		struct forwarded *held = &net->held[i * FORWARD_MAX];
		uint32_t done = 0;

		while (done < net->n_held[i] && !forward(d, i, &held[done]))
			done++;
		net->n_held[i] -= done;
		if (done)
			memmove(held, held + done, net->n_held[i] * sizeof(*held));
	}
}

uint32_t network_held(const struct daemon *d)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->node->o->daemons; i++)
		n += d->net.n_held[i];
	return n;
}

/* ---- calls ---- */

static void mark_failed(struct network *net, struct remote *r)
{
	if (r->failed)
		return;
	r->failed = true;
	control_failed(&net->control, r->rank);
}

/* True: it is too early for the first call to this rank, see --stagger. */
static bool is_early(struct daemon *d, uint32_t rank)
{
	struct network *net = &d->net;
	uint64_t now = clock_ns(), each = d->node->o->stagger_ns;

	if (!net->first_ns)
		net->first_ns = now;
	net->staggers = now < net->first_ns + d->node->ranks * each;
	return now < net->first_ns + rank * each;
}

int network_call(struct daemon *d, const struct kv_req *req, uint32_t token)
{
	struct remote *r = &d->net.remotes[req->rank];
	int err;

	if (unlikely(d->net.staggers) && is_early(d, req->rank))
		return -EAGAIN;
	err = values_call(d->node->values, r->ep, req, control_word(&d->net.control, req->rank),
		token);
	if (likely(!err)) {
		d->stats.calls++;
		return 0;
	}
	if (err == -EAGAIN || err == -ENOBUFS)
		return -EAGAIN;
	mark_failed(&d->net, r);
	return err;
}

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct daemon *d = arg;
	uint32_t errand = (uint32_t)token;
	const struct kv_req *req = &d->errands.all[errand].req;
	struct kv_resp resp;

	d->net.polls.responses++;
	d->net.rtt_sum_ns += d->net.loop_ns - d->errands.all[errand].start_ns;
	d->stats.responses++;
	errand_arrived(d, errand);
	if (status)
		mark_failed(&d->net, copyrpc_ep_user(ep));
	if (status || !values_take(d->node->values, req->origin, req->seq, data, len, &resp)) {
		errand_fail(d, errand, status ? -status : EBADMSG);
		return;
	}
	errand_reply(d, errand, &resp);
}

/* ---- receiving ---- */

static bool may_forward(const struct daemon *d)
{
	for (uint32_t i = 0; i < d->node->o->daemons; i++) {
		if (d->net.n_held[i] == FORWARD_MAX)
			return false;
	}
	return true;
}

uint64_t network_completions(const struct network *net)
{
	struct copyrpc_stats s;

	if (!net->ctx)
		return 0;
	copyrpc_ctx_get_stats(net->ctx, &s, sizeof(s));
	return s.batches_received;
}

static void poll_as_controlled(struct daemon *d)
{
	struct network *net = &d->net;
	struct control_polls *p = &net->polls;
	bool observes = control_observes(&net->control);
	uint64_t before = observes ? network_completions(net) : 0;

	*p = (struct control_polls){.polls = 0};
	do {
		p->last = (uint32_t)copyrpc_poll_recv(net->ctx, on_response, d);
		if (observes)
			p->cqes = (uint32_t)(network_completions(net) - before);
		p->messages += p->last;
		p->polls++;
	} while (control_poll_again(&net->control, p));
	if (unlikely(net->control.log))
		note_polls(&net->control, p);
	d->stats.polls += p->polls;
	d->stats.batch[bucket_of(p->messages)]++;
}

/* Serves as many of the requests that have arrived as the control allows. */
static uint32_t serve_arrived(struct daemon *d)
{
	struct network *net = &d->net;
	uint32_t most = control_serves(&net->control, net->n_left);
	uint32_t arrived = net->n_left + net->polls.messages - net->polls.responses;
	struct copyrpc_req *from;
	uint32_t n = 0;

	while (n < most && may_forward(d)) {
		if (copyrpc_recv(net->ctx, &from) <= 0) {
			arrived = n;
			break;
		}
		serve_remote(d, from);
		n++;
	}
	net->n_left = arrived > n ? arrived - n : 0;
	return n;
}

uint32_t network_poll(struct daemon *d)
{
	uint32_t n;

	poll_as_controlled(d);
	n = serve_arrived(d);
	if (control_holds(&d->net.control))
		errands_release(d, d->net.polls.responses);
	return n + d->net.polls.responses;
}

/* ---- sending ---- */

/* Called for every endpoint that has something to send: stores its load, and sends nothing. */
static bool gather_load(void *arg, struct copyrpc_ep *ep)
{
	struct network *net = arg;
	const struct remote *r = copyrpc_ep_user(ep);
	struct copyrpc_ep_load load;

	copyrpc_ep_get_load(ep, &load, sizeof(load));
	net->loads[net->n_loads++] = (struct control_load){.ep = r->rank,
		.calls = load.open_calls,
		.replies = load.open_replies};
	return false;
}

static bool may_go(void *arg, struct copyrpc_ep *ep)
{
	const struct remote *r = copyrpc_ep_user(ep);

	return r->go;
}

static uint64_t consumed_by(void *arg, uint32_t rank)
{
	const struct network *net = arg;
	struct copyrpc_ep_load load;

	copyrpc_ep_get_load(net->remotes[rank].ep, &load, sizeof(load));
	return control_consumed(load.pending - load.open_calls, load.posted, load.consumed);
}

static uint64_t now_ns(void *arg)
{
	return clock_ns();
}

void network_flush(struct daemon *d)
{
	struct network *net = &d->net;
	size_t go;

	if (!control_selects(&net->control)) {
		copyrpc_flush(net->ctx);
		return;
	}
	net->n_loads = net->held_back = 0;
	copyrpc_flush_if(net->ctx, gather_load, net);
	if (!net->n_loads)
		return;
	go = control_select(&net->control, net->loads, net->n_loads, consumed_by, now_ns, net);
	net->held_back = net->n_loads - go;
	for (size_t i = 0; i < go; i++)
		net->remotes[net->loads[i].ep].go = true;
	copyrpc_flush_if(net->ctx, may_go, net);
	for (size_t i = 0; i < go; i++) {
		struct remote *r = &net->remotes[net->loads[i].ep];
		struct copyrpc_ep_load load;

		r->go = false;
		copyrpc_ep_get_load(r->ep, &load, sizeof(load));
		control_sent(&net->control, &net->loads[i], load.posted);
	}
}

uint32_t network_unconsumed(struct daemon *d)
{
	control_refresh(&d->net.control, consumed_by, &d->net);
	return d->net.control.unconsumed;
}

void network_observe(struct daemon *d)
{
	struct network *net = &d->net;
	struct adaptive_loop seen = {.cqes = net->polls.cqes};
	uint64_t called = d->stats.calls - d->stats.responses;

	if (control_counts(&net->control))
		control_count(&net->control, clock_ns(), (uint32_t)called + d->errands.n_waiting,
			net->polls.responses);
	if (!control_observes(&net->control))
		return;
	seen.loop_us = (double)(clock_ns() - net->loop_ns) / (double)NSEC_PER_USEC;
	if (net->polls.responses)
		seen.rtt_us =
			(double)net->rtt_sum_ns / (double)NSEC_PER_USEC / net->polls.responses;
	control_loop_end(&net->control, &seen);
	net->rtt_sum_ns = 0;
}
