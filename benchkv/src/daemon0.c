/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/wait.h"
#include "daemon.h"

#define FORWARD_MAX 256 /* requests that wait for one worker; more wait in copyrpc */

int network_init(struct network *net, const struct node *node)
{
	uint32_t inflight = node->o->clients * node->o->queue_depth;
	uint32_t workers = node->o->daemons;

	net->remotes = calloc(node->ranks, sizeof(*net->remotes));
	net->errands = calloc(inflight, sizeof(*net->errands));
	net->stalled = calloc(node->ranks, sizeof(*net->stalled));
	net->kept = calloc(inflight, sizeof(*net->kept));
	net->loads = calloc(node->ranks, sizeof(*net->loads));
	net->held = calloc((size_t)workers * FORWARD_MAX, sizeof(struct copyrpc_req *));
	net->n_held = calloc(workers, sizeof(*net->n_held));
	if (!net->remotes || !net->errands || !net->stalled || !net->kept || !net->loads ||
		!net->held || !net->n_held || slab_init(&net->free, inflight) ||
		control_init(&net->control, &node->o->control, node->ranks))
		return -ENOMEM;
	if (node->o->trace && trace_init(&net->trace))
		return -ENOMEM;
	for (uint32_t r = 0; r < node->ranks; r++) {
		net->remotes[r].rank = r;
		net->remotes[r].first = net->remotes[r].last = QUEUE_NONE;
	}
	return 0;
}

void network_fini(struct network *net)
{
	trace_fini(&net->trace);
	control_fini(&net->control);
	slab_fini(&net->free);
	free(net->n_held);
	free((void *)net->held);
	free(net->loads);
	free(net->kept);
	free(net->stalled);
	free(net->errands);
	free(net->remotes);
}

/* ---- B: the delegation ring's fill, and the workers' answers ---- */

/* Ends a request of another rank. Whatever happens to its endpoint, it is ended. */
static void reply_remote(struct daemon *d, struct copyrpc_req *req, const struct kv_resp *resp)
{
	int err = copyrpc_reply(req, resp, sizeof(*resp));

	if (err == -EMSGSIZE) /* a caller that allows for no reply gets an empty one */
		err = copyrpc_reply(req, NULL, 0);
	if (err)
		d->stats.bad_replies++;
}

/* Its payload once more, for those who answer without having served it. */
static struct kv_req request_of(const struct copyrpc_req *req)
{
	struct kv_req q = {.type = 0};

	if (copyrpc_req_len(req) == sizeof(q))
		memcpy(&q, copyrpc_req_data(req), sizeof(q));
	return q;
}

static void refuse_remote(struct daemon *d, struct copyrpc_req *req, int error)
{
	struct kv_req q = request_of(req);
	struct kv_resp resp = kv_reply(&q, KV_ERROR, (uint64_t)error);

	reply_remote(d, req, &resp);
}

static void on_worker_answer(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct copyrpc_req *req = (struct copyrpc_req *)(uintptr_t)token;

	if (payload)
		reply_remote(arg, req, payload);
	else
		refuse_remote(arg, req, EPIPE);
}

/* ---- C: the network ---- */

static void end_errand(struct daemon *d, uint32_t index, const struct kv_resp *resp)
{
	const struct errand *e = &d->net.errands[index];

	answer_delegated(d, e->client, e->id, resp);
	slab_put(&d->net.free, index);
}

/* Ends it now, or when the control lets the replies go that it holds. */
static void keep_errand(struct daemon *d, uint32_t index, const struct kv_resp *resp)
{
	struct network *net = &d->net;

	if (!control_holds(&net->control)) {
		end_errand(d, index, resp);
		return;
	}
	if (!net->n_kept)
		net->kept_since_ns = clock_ns();
	net->kept[net->n_kept++] = (struct kept_reply){index, *resp};
}

static void fail_errand(struct daemon *d, uint32_t index, int error)
{
	struct kv_resp resp =
		kv_reply(&d->net.errands[index].req, KV_ERROR, (uint64_t)(uint32_t)error);

	end_errand(d, index, &resp);
}

static void mark_failed(struct network *net, struct remote *r)
{
	if (r->failed)
		return;
	r->failed = true;
	control_failed(&net->control, r->rank);
}

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct daemon *d = arg;
	struct kv_resp resp;

	d->net.polls.responses++;
	d->net.rtt_sum_ns += d->net.loop_ns - d->net.errands[(uint32_t)token].start_ns;
	d->stats.responses++;
	if (status)
		mark_failed(&d->net, copyrpc_ep_user(ep));
	if (status || len != sizeof(resp)) {
		fail_errand(d, (uint32_t)token, status ? -status : EBADMSG);
		return;
	}
	memcpy(&resp, data, sizeof(resp)); /* the peer may still write there */
	keep_errand(d, (uint32_t)token, &resp);
}

/* Gives the clients the replies that were held, if it is time. */
static void release_kept(struct daemon *d)
{
	struct network *net = &d->net;
	struct hold *hold = &net->control.hold;
	uint64_t now = clock_ns();

	if (net->polls.responses)
		hold_arrived(hold, net->polls.responses, now);
	if (!net->n_kept || !hold_release(hold, net->n_kept, net->kept_since_ns, now,
				    net->free.used - net->n_kept))
		return;
	for (uint32_t i = 0; i < net->n_kept; i++)
		end_errand(d, net->kept[i].errand, &net->kept[i].resp);
	net->n_kept = 0;
}

/* Passes a request to the daemon of its shard. -EAGAIN: not now. */
static int forward(struct daemon *d, uint32_t shard, struct copyrpc_req *req)
{
	struct kv_req q = request_of(req);
	int err = flux_call(d->flux, shard, &q, sizeof(q), (uintptr_t)req);

	if (err && err != -EAGAIN) {
		refuse_remote(d, req, -err);
		err = 0;
	}
	return err;
}

static void serve_remote(struct daemon *d, struct copyrpc_req *req)
{
	struct network *net = &d->net;
	struct kv_req q = request_of(req);
	uint32_t shard = place_shard(&d->node->place, q.key);
	struct kv_resp resp;

	if (shard == 0) { /* or no request at all: the store says so */
		d->stats.remote++;
		resp = store_serve(d->store, &q);
		reply_remote(d, req, &resp);
		return;
	}
	d->stats.forwarded++;
	if (net->n_held[shard] || forward(d, shard, req))
		net->held[shard * FORWARD_MAX + net->n_held[shard]++] = req;
}

static bool may_forward(const struct daemon *d)
{
	for (uint32_t i = 1; i < d->node->o->daemons; i++) {
		if (d->net.n_held[i] == FORWARD_MAX)
			return false;
	}
	return true;
}

static uint32_t batch_size(uint32_t messages)
{
	return messages < 2 ? messages : messages <= 10 ? 2 : messages <= 100 ? 3 : 4;
}

/* Completions so far: each batch that has arrived is one. */
static uint64_t completions(const struct daemon *d)
{
	struct copyrpc_stats s;

	copyrpc_ctx_stats(d->ctx, &s);
	return s.batches_received;
}

static uint32_t phase_network(struct daemon *d)
{
	struct copyrpc_req *req;
	struct control_polls *p = &d->net.polls;
	bool observes = control_observes(&d->net.control);
	uint64_t before = observes ? completions(d) : 0;
	uint32_t n = 0;

	*p = (struct control_polls){.polls = 0};
	do {
		p->last = (uint32_t)copyrpc_poll_recv(d->ctx, on_response, d);
		if (observes)
			p->cqes = (uint32_t)(completions(d) - before);
		p->messages += p->last;
		p->polls++;
	} while (control_poll_again(&d->net.control, p));
	d->stats.polls += p->polls;
	d->stats.batch[batch_size(p->messages)]++;
	while (may_forward(d) && copyrpc_recv(d->ctx, &req) > 0) {
		serve_remote(d, req);
		n++;
	}
	return n + p->responses;
}

/* ---- D, E: calls ---- */

/* Gathers an errand at its endpoint. -EAGAIN: no room now; otherwise it is on its way. */
static int try_errand(struct daemon *d, uint32_t index)
{
	struct errand *e = &d->net.errands[index];
	struct remote *r = &d->net.remotes[e->req.rank];
	int err = copyrpc_call(r->ep, &e->req, sizeof(e->req), sizeof(struct kv_resp), index);

	if (likely(!err)) {
		d->stats.calls++;
		return 0;
	}
	if (err == -EAGAIN || err == -ENOBUFS)
		return -EAGAIN;
	mark_failed(&d->net, r);
	fail_errand(d, index, -err);
	return 0;
}

static void queue_errand(struct network *net, uint32_t index)
{
	struct remote *r = &net->remotes[net->errands[index].req.rank];

	net->n_waiting++;
	net->errands[index].next = QUEUE_NONE;
	if (r->first == QUEUE_NONE) {
		r->first = index;
		net->stalled[net->n_stalled++] = r->rank;
	} else {
		net->errands[r->last].next = index;
	}
	r->last = index;
}

static void take_errand(struct daemon *d, const struct delegrpc_req *from)
{
	struct network *net = &d->net;
	uint32_t index = slab_get(&net->free);
	struct errand *e = &net->errands[index];

	e->start_ns = net->loop_ns;
	e->client = from->client;
	e->id = from->id;
	memset(&e->req, 0, sizeof(e->req));
	if (from->len == sizeof(e->req))
		memcpy(&e->req, from->payload, sizeof(e->req));
	if (e->req.rank >= d->node->ranks || !net->remotes[e->req.rank].ep) {
		fail_errand(d, index, EHOSTUNREACH);
		return;
	}
	/* Behind those that wait for the same rank, if there are any. */
	if (net->remotes[e->req.rank].first != QUEUE_NONE || try_errand(d, index)) {
		d->stats.stalled++;
		queue_errand(net, index);
	}
}

static uint32_t phase_calls(struct daemon *d)
{
	struct delegrpc_req from;
	uint32_t n = 0;

	/* A client that had more in flight than agreed would only have to wait. */
	while (d->net.free.free != SLAB_NONE && delegrpc_server_recv(d->ring, &from)) {
		take_errand(d, &from);
		n++;
	}
	delegrpc_server_advance_tail(d->ring);
	return n;
}

static void phase_retry(struct daemon *d)
{
	struct network *net = &d->net;

	for (uint32_t i = 0; i < net->n_stalled;) {
		struct remote *r = &net->remotes[net->stalled[i]];

		while (r->first != QUEUE_NONE) {
			uint32_t next = net->errands[r->first].next;

			if (try_errand(d, r->first))
				break;
			r->first = next;
			net->n_waiting--;
		}
		if (r->first == QUEUE_NONE)
			net->stalled[i] = net->stalled[--net->n_stalled];
		else
			i++;
	}
}

/* ---- F: flush ---- */

/* Asked about every endpoint that has something to send; only takes its name. */
static bool gather_load(void *arg, struct copyrpc_ep *ep)
{
	struct network *net = arg;
	const struct remote *r = copyrpc_ep_user(ep);
	struct copyrpc_ep_load load;

	copyrpc_ep_load(ep, &load);
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

	copyrpc_ep_load(net->remotes[rank].ep, &load);
	return control_consumed(load.pending - load.open_calls, load.posted, load.consumed);
}

static uint64_t now_ns(void *arg)
{
	return clock_ns();
}

static void phase_flush(struct daemon *d)
{
	struct network *net = &d->net;
	size_t go;

	if (!control_selects(&net->control)) {
		copyrpc_flush(d->ctx);
		return;
	}
	net->n_loads = 0;
	copyrpc_flush_if(d->ctx, gather_load, net);
	if (!net->n_loads)
		return;
	go = control_select(&net->control, net->loads, net->n_loads, consumed_by, now_ns, net);
	for (size_t i = 0; i < go; i++)
		net->remotes[net->loads[i].ep].go = true;
	copyrpc_flush_if(d->ctx, may_go, net);
	for (size_t i = 0; i < go; i++) {
		struct remote *r = &net->remotes[net->loads[i].ep];
		struct copyrpc_ep_load load;

		r->go = false;
		copyrpc_ep_load(r->ep, &load);
		control_sent(&net->control, &net->loads[i], load.posted);
	}
}

/* ---- G: forward ---- */

static void phase_forward(struct daemon *d)
{
	struct network *net = &d->net;

	for (uint32_t i = 1; i < d->node->o->daemons; i++) {
		struct copyrpc_req **held = &net->held[i * FORWARD_MAX];
		uint32_t done = 0;

		while (done < net->n_held[i] && !forward(d, i, held[done]))
			done++;
		net->n_held[i] -= done;
		if (done)
			memmove((void *)held, (void *)(held + done),
				net->n_held[i] * sizeof(*held));
	}
}

/* Tells the control what this loop was like; what it rests afterwards does not count. */
static void observe(struct network *net)
{
	struct adaptive_loop seen = {
		.cqes = net->polls.cqes,
		.loop_us = (double)(clock_ns() - net->loop_ns) / (double)NSEC_PER_USEC,
	};

	if (net->polls.responses)
		seen.rtt_us =
			(double)net->rtt_sum_ns / (double)NSEC_PER_USEC / net->polls.responses;
	control_loop_end(&net->control, &seen);
	net->rtt_sum_ns = 0;
}

static void take_sample(struct daemon *d)
{
	struct network *net = &d->net;
	struct trace *t = &net->trace;
	uint64_t now = clock_ns();
	struct trace_sample s;

	if (!trace_due(t, now)) {
		t->loop_ns = now;
		return;
	}
	control_refresh(&net->control, consumed_by, net);
	s = (struct trace_sample){
		.outstanding = net->free.used,
		.waiting = net->n_waiting,
		.messages = net->polls.messages,
		.polls = net->polls.polls,
		.loop_ns = now - t->loop_ns,
		.u = net->control.adaptive.u,
		.unconsumed = net->control.unconsumed,
	};

	for (uint32_t i = 1; i < d->node->o->daemons; i++)
		s.held += net->n_held[i];
	trace_add(t, now, s);
	t->loop_ns = now;
}

static uint32_t serve_network(struct daemon *d)
{
	uint32_t n = 0;
	int answers = 0;

	if (d->net.trace.samples)
		take_sample(d);

	delegrpc_server_poll(d->ring); /* B */
	if (d->flux)
		answers = flux_poll(d->flux, on_worker_answer, d);
	n += phase_network(d); /* C */
	if (control_holds(&d->net.control))
		release_kept(d);
	n += phase_calls(d); /* D */
	phase_retry(d); /* E */
	phase_flush(d); /* F */
	phase_forward(d); /* G */
	if (control_observes(&d->net.control))
		observe(&d->net);
	/* What is held is not idle: nothing would wake this daemon when its time has come. */
	return n + (uint32_t)answers + d->net.n_kept;
}

void *daemon0_main(void *arg)
{
	struct daemon *d = arg;
	struct wait w = WAIT_INIT;

	topo_pin_self(d->node->topo, 0);
	/* Relaxed: the flag carries nothing; what follows it is ordered by the join. */
	while (!atomic_load_explicit(&d->node->stop_daemons, memory_order_relaxed)) {
		uint32_t n;

		if (control_observes(&d->net.control))
			d->net.loop_ns = clock_ns();
		n = daemon_serve_local(d); /* A */
		if (d->ctx)
			n += serve_network(d);
		daemon_rest(d, n, &w);
	}
	return NULL;
}
