/* SPDX-License-Identifier: MIT */
/*
 * Requests and replies are UCX active messages. Each daemon has a worker, whose address the rank
 * publishes; each client has a worker and an endpoint for each daemon of the other ranks. A daemon
 * replies on the endpoint by which the request came.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "backend.h"
#include "client.h"
#include "daemon.h"
#include "stop.h"
#include "why.h"

#define KEY_WORKER "worker" /* published with the number of a daemon */

enum { REQUEST, REPLY, GREETING }; /* GREETING: a client's first message to a daemon */

/* A reply that UCX has not sent yet. */
struct outgoing {
	struct kv_resp resp;
	struct ucx_server *server;
};

struct ucx_server {
	ucp_worker_h worker;
	struct daemon *daemon;
	uint32_t served; /* requests served in this poll */
};

struct ucx_client {
	ucp_worker_h worker;
	struct client *client;
	ucp_ep_h *ep; /* by rank and daemon */
	struct kv_req *sent; /* by seq: requests; UCX may read one until its reply has come */
	uint32_t mask;
	uint32_t pending;
	uint64_t calls; /* requests that UCX has accepted, without the greetings */
	bool greeting; /* the expected replies are replies to greetings */
	int error; /* -errno: an endpoint has failed */
};

static int to_errno(ucs_status_t status)
{
	switch (status) {
	case UCS_OK:
		return 0;
	case UCS_ERR_NO_MEMORY:
		return -ENOMEM;
	case UCS_ERR_NO_DEVICE:
	case UCS_ERR_UNREACHABLE:
		return -ENODEV;
	case UCS_ERR_CONNECTION_RESET:
	case UCS_ERR_ENDPOINT_TIMEOUT:
	case UCS_ERR_REJECTED:
		return -ECONNRESET;
	default:
		return -EIO;
	}
}

/* ---- set-up ---- */

/*
 * Settings for UCX, unless the user has set UCX_TLS: RC by UCX's mlx5 code, and buffers of the size
 * of our messages. By default the pools of a worker have 76 MiB. UCX touches them with the worker's
 * lock held while it establishes connections; on a machine with slow page faults that takes longer
 * than the time-out. UD carries only the messages that establish connections.
 */
static void set_defaults(void)
{
	static const char *const defaults[][2] = {{"UCX_TLS", "rc_x"}, {"UCX_RC_SEG_SIZE", "1024"},
		{"UCX_RC_TX_BUFS_GROW", "128"}, {"UCX_UD_RX_QUEUE_LEN", "1024"},
		{"UCX_UD_TX_BUFS_GROW", "128"}};

	if (getenv("UCX_TLS"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		setenv(defaults[i][0], defaults[i][1], 0);
}

/* Opens the context of a rank's workers. */
static int open_context(struct node *n)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES |
						   UCP_PARAM_FIELD_MT_WORKERS_SHARED,
		.features = UCP_FEATURE_AM,
		.mt_workers_shared = 1};
	ucp_context_h context;
	char port[128];
	int err;

	/* Variables of the environment take precedence over these defaults. */
	set_defaults();
	snprintf(port, sizeof(port), "%s:1", n->device);
	setenv("UCX_NET_DEVICES", port, 0);
	err = to_errno(ucp_init(&params, NULL, &context));
	if (!err)
		n->net = context;
	return err;
}

/* Sets the function that handles messages with this id. */
static int set_handler(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t fn, void *arg)
{
	const ucp_am_handler_param_t param = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
			      UCP_AM_HANDLER_PARAM_FIELD_ARG,
		.id = id,
		.cb = fn,
		.arg = arg,
	};

	return to_errno(ucp_worker_set_am_recv_handler(worker, &param));
}

static int open_worker(const struct node *n, ucp_worker_h *worker_p)
{
	/* The main thread makes the worker; later another thread uses it. */
	const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED};

	return to_errno(ucp_worker_create(n->net, &params, worker_p));
}

static void close_server(struct ucx_server *s)
{
	if (s && s->worker)
		ucp_worker_destroy(s->worker);
	free(s);
}

static void close_client(struct ucx_client *u)
{
	if (!u)
		return;
	if (u->worker)
		ucp_worker_destroy(u->worker);
	free(u->sent);
	free((void *)u->ep);
	free(u);
}

/*
 * Closes all workers. UCX crashes if a connection is being established at that time. So if the job
 * has not ended @in_order, nothing is closed, and the end of the process frees everything.
 */
static void close_all(struct node *n, bool in_order)
{
	if (!n->net || !in_order)
		return;
	for (uint32_t i = 0; i < n->o->clients; i++)
		close_client(n->clients[i].way);
	for (uint32_t i = 0; i < n->o->daemons; i++)
		close_server(n->daemons[i].port);
	ucp_cleanup(n->net);
}

/* ---- a daemon ---- */

/* Sends a message. If this returns a pointer, @data must stay valid until UCX calls @sent. */
static ucs_status_ptr_t send_message(ucp_ep_h ep, unsigned id, const void *data, size_t len,
	uint32_t flags, ucp_send_nbx_callback_t sent, void *arg)
{
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
				UCP_OP_ATTR_FIELD_FLAGS,
		.cb.send = sent,
		.user_data = arg,
		.flags = UCP_AM_SEND_FLAG_EAGER | flags,
	};

	return ucp_am_send_nbx(ep, id, NULL, 0, data, len, &param);
}

static void on_reply_sent(void *request, ucs_status_t status, void *arg)
{
	struct outgoing *o = arg;

	if (status != UCS_OK)
		o->server->daemon->stats.bad_replies++;
	free(o);
	ucp_request_free(request);
}

static void reply(struct ucx_server *s, ucp_ep_h to, const struct kv_resp *resp)
{
	struct outgoing *o = malloc(sizeof(*o));
	ucs_status_ptr_t r;

	if (!o) {
		s->daemon->stats.bad_replies++;
		return;
	}
	*o = (struct outgoing){.resp = *resp, .server = s};
	r = send_message(to, REPLY, &o->resp, sizeof(o->resp), 0, on_reply_sent, o);
	if (UCS_PTR_IS_PTR(r))
		return; /* UCX will call on_reply_sent() */
	if (UCS_PTR_IS_ERR(r))
		s->daemon->stats.bad_replies++;
	free(o);
}

static ucs_status_t on_request(void *arg, const void *header, size_t header_len, void *data,
	size_t len, const ucp_am_recv_param_t *param)
{
	struct ucx_server *s = arg;
	struct kv_req req = {.type = 0};
	struct kv_resp resp;

	if (!(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP)) {
		s->daemon->stats.bad_replies++;
		return UCS_OK;
	}
	if (len == sizeof(req) && !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
		memcpy(&req, data, sizeof(req));
	resp = store_serve(s->daemon->store, &req);
	s->daemon->stats.remote++;
	s->served++;
	reply(s, param->reply_ep, &resp);
	return UCS_OK;
}

/* Answers the first message of a client, which shows that the connection is established. */
static ucs_status_t on_greeting(void *arg, const void *header, size_t header_len, void *data,
	size_t len, const ucp_am_recv_param_t *param)
{
	const struct kv_resp resp = {.type = 0};

	if (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP)
		reply(arg, param->reply_ep, &resp);
	return UCS_OK;
}

static int open_server(struct daemon *d)
{
	struct ucx_server *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->daemon = d;
	d->port = s;
	err = open_worker(d->node, &s->worker);
	if (!err)
		err = set_handler(s->worker, REQUEST, on_request, s);
	return err ? err : set_handler(s->worker, GREETING, on_greeting, s);
}

static uint32_t serve(struct daemon *d)
{
	struct ucx_server *s = d->port;

	s->served = 0;
	ucp_worker_progress(s->worker);
	return s->served;
}

/* ---- a client ---- */

static ucs_status_t on_reply(void *arg, const void *header, size_t header_len, void *data,
	size_t len, const ucp_am_recv_param_t *param)
{
	struct ucx_client *u = arg;
	struct kv_resp resp;

	if (len != sizeof(resp) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
		u->error = -EBADMSG;
		return UCS_OK;
	}
	memcpy(&resp, data, sizeof(resp));
	u->pending -= u->pending != 0;
	if (!u->greeting)
		u->client->take(u->client, resp.seq, &resp);
	return UCS_OK;
}

static int open_client(struct client *c)
{
	const struct options *o = c->node->o;
	struct ucx_client *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return -ENOMEM;
	u->client = c;
	c->way = u;
	u->mask = (uint32_t)pow2_ceil(o->queue_depth) - 1;
	u->sent = calloc(u->mask + 1u, sizeof(*u->sent));
	u->ep = calloc((size_t)c->node->ranks * o->daemons, sizeof(*u->ep));
	if (!u->sent || !u->ep)
		return -ENOMEM;
	err = open_worker(c->node, &u->worker);
	return err ? err : set_handler(u->worker, REPLY, on_reply, u);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	struct ucx_client *u = arg;

	u->error = to_errno(status);
}

/* Makes the client's endpoint for a daemon of a rank, which has this address. */
static int connect_worker(struct ucx_client *u, uint32_t rank, uint32_t daemon, const void *address)
{
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
			      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
		.address = address,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = {.cb = on_error, .arg = u},
	};

	return to_errno(ucp_ep_create(u->worker, &params,
		&u->ep[(size_t)rank * u->client->node->o->daemons + daemon]));
}

static void on_request_sent(void *request, ucs_status_t status, void *arg)
{
	struct ucx_client *u = arg;

	if (status != UCS_OK)
		u->error = to_errno(status);
	ucp_request_free(request);
}

static int send_request(struct ucx_client *u, ucp_ep_h ep, unsigned id, const struct kv_req *req)
{
	struct kv_req *sent = &u->sent[req->seq & u->mask];
	ucs_status_ptr_t r;

	*sent = *req;
	r = send_message(ep, id, sent, sizeof(*sent), UCP_AM_SEND_FLAG_REPLY, on_request_sent, u);
	if (UCS_PTR_IS_ERR(r))
		return to_errno(UCS_PTR_STATUS(r));
	u->pending++;
	u->calls += id == REQUEST;
	return 0;
}

static int call(struct client *c, uint32_t shard, const struct kv_req *req)
{
	struct ucx_client *u = c->way;
	uint32_t at = req->rank * c->node->o->daemons + shard;

	return send_request(u, u->ep[at], REQUEST, req);
}

static int poll_worker(struct client *c)
{
	struct ucx_client *u = c->way;
	uint32_t before = u->pending;

	if (!before)
		return 0;
	ucp_worker_progress(u->worker);
	return u->error ? u->error : (int)(before - u->pending);
}

/*
 * Waits until all greetings are answered, or no answer has come for the time-out. Sleeps between
 * polls, because the threads that must answer (daemons, UCX's threads, other ranks) may need the
 * core.
 */
static int await_greetings(struct ucx_client *u)
{
	const struct node *n = u->client->node;
	uint64_t heard_ns = clock_ns();

	while (u->pending) {
		int got = poll_worker(u->client);

		if (got < 0)
			return got;
		if (stop_requested())
			return -EINTR;
		if (got)
			heard_ns = clock_ns();
		else if (clock_ns() - heard_ns > n->o->timeout_ns)
			return -ETIMEDOUT;
		else
			clock_nap(n->nap_ns);
	}
	return 0;
}

/*
 * Greets the daemons of the other ranks before the first run, and waits for the answers, so that no
 * request waits for a connection. 0, -ETIMEDOUT, -EINTR, or the error of an endpoint.
 */
static int greet(struct client *c)
{
	struct ucx_client *u = c->way;
	const struct node *n = c->node;
	const struct kv_req greeting = {.type = 0};
	int err = 0;

	u->greeting = true;
	for (uint32_t i = 0; !err && i < n->ranks * n->o->daemons; i++) {
		if (u->ep[i])
			err = send_request(u, u->ep[i], GREETING, &greeting);
	}
	if (!err)
		err = await_greetings(u);
	u->greeting = false;
	return err;
}

/* ---- connections ---- */

static int tell_worker(struct node *n, uint32_t daemon)
{
	int err = open_server(&n->daemons[daemon]);
	const struct ucx_server *s = n->daemons[daemon].port;
	ucp_address_t *address;
	size_t len;

	if (!err)
		err = to_errno(ucp_worker_get_address(s->worker, &address, &len));
	if (err)
		return err;
	err = launch_put(n->launch, KEY_WORKER, daemon, address, len);
	ucp_worker_release_address(s->worker, address);
	return err;
}

/* Makes the clients' endpoints for a daemon of a rank. */
static int hear_worker(struct node *n, uint32_t rank, uint32_t daemon)
{
	void *address;
	size_t len;
	int err = launch_get(n->launch, rank, KEY_WORKER, daemon, n->o->timeout_ns, &address, &len);

	if (err)
		return err;
	for (uint32_t i = 0; !err && i < n->o->clients; i++)
		err = connect_worker(n->clients[i].way, rank, daemon, address);
	free(address);
	return err;
}

static int connect_workers(struct node *n, char *why, int size)
{
	int err = open_context(n);

	for (uint32_t i = 0; !err && i < n->o->daemons; i++)
		err = tell_worker(n, i);
	for (uint32_t i = 0; !err && i < n->o->clients; i++)
		err = open_client(&n->clients[i]);
	if (err)
		return why_failed(why, size, err, "UCX on device %s", n->device);
	err = launch_meet(n->launch, n->o->timeout_ns, why, size);
	for (uint32_t i = 0; !err && i < n->ranks * n->o->daemons; i++) {
		uint32_t rank = i / n->o->daemons;

		if (rank == n->rank)
			continue;
		err = hear_worker(n, rank, i % n->o->daemons);
		if (err)
			return why_failed(why, size, err, "no UCX endpoint for rank %u", rank);
	}
	return err;
}

/* ---- the table ---- */

static int make_daemon(struct daemon *d)
{
	d->sees_ranks = true;
	return 0;
}

static uint32_t endpoints(const struct node *n)
{
	return n->o->clients * n->o->daemons * (n->ranks - 1);
}

static uint32_t pending(const struct client *c)
{
	const struct ucx_client *u = c->way;

	return u->pending != 0;
}

static void get_stats(const struct client *c, struct copyrpc_stats *s)
{
	const struct ucx_client *u = c->way;

	if (u)
		s->calls = u->calls;
}

const struct backend backend_ucx = {
	.name = "ucx",
	.brief = "client, UCX active messages",
	.about =
		"Each client has a UCX worker of its own, and in it an endpoint for each daemon of the\n"
		"other ranks; requests and replies are active messages. UCX_TLS is rc_x if it is not\n"
		"set.\n",
	.endpoints = endpoints,
	.why_endpoints = "each client has one for each daemon of the other ranks",
	.make_daemon = make_daemon,
	.connect = connect_workers,
	.free = close_all,
	.greet = greet,
	.call = call,
	.poll = poll_worker,
	.pending = pending,
	.serve = serve,
	.get_stats = get_stats,
};
