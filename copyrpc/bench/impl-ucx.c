/* SPDX-License-Identifier: MIT */
/* copyrpc-bench: calls by UCX active messages, an endpoint per connection. */
#include <errno.h>
#include <ucp/api/ucp.h>

#include "bench.h"

enum { REQUEST, RESPONSE };

struct self {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h *ep; /* client only: the server uses the reply endpoint of a request */
	struct plan plan;
	uint32_t *slots; /* headers, which must stay unchanged until they are sent */
	struct client *client;
	uint64_t messages;
};

static void check(ucs_status_t status, const char *what)
{
	if (status == UCS_OK)
		return;
	fprintf(stderr, "copyrpc-bench: UCX: %s: %s\n", what, ucs_status_string(status));
	exit(1);
}

static void on_sent(void *request, ucs_status_t status, void *self)
{
	check(status, "send");
	ucp_request_free(request);
}

static void send_message(struct self *s, ucp_ep_h ep, unsigned id, uint32_t slot, uint32_t len)
{
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
				UCP_OP_ATTR_FIELD_FLAGS,
		.cb.send = on_sent,
		.user_data = s,
		.flags = UCP_AM_SEND_FLAG_EAGER | (id == REQUEST ? UCP_AM_SEND_FLAG_REPLY : 0),
	};
	ucs_status_ptr_t r;

	s->slots[slot] = slot;
	r = ucp_am_send_nbx(ep, id, &s->slots[slot], sizeof(s->slots[slot]), payload, len, &param);
	if (UCS_PTR_IS_ERR(r))
		check(UCS_PTR_STATUS(r), "send");
	s->messages++;
}

static uint32_t slot_of(const struct self *s, const void *header, size_t len)
{
	uint32_t slot;

	if (len != sizeof(slot))
		fail("UCX header", EPROTO);
	memcpy(&slot, header, sizeof(slot));
	if (slot >= s->plan.max_depth * s->plan.endpoints)
		fail("UCX header", EPROTO);
	return slot;
}

static ucs_status_t on_request(void *self, const void *header, size_t header_len, void *data,
	size_t len, const ucp_am_recv_param_t *param)
{
	struct self *s = self;

	if (len != s->plan.size || !(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP))
		fail("UCX request", EPROTO);
	send_message(s, param->reply_ep, RESPONSE, slot_of(s, header, header_len),
		s->plan.allowance);
	return UCS_OK;
}

static ucs_status_t on_response(void *self, const void *header, size_t header_len, void *data,
	size_t len, const ucp_am_recv_param_t *param)
{
	struct self *s = self;

	if (len != s->plan.allowance)
		fail("UCX response", EPROTO);
	slot_ended(s->client, slot_of(s, header, header_len));
	return UCS_OK;
}

static void set_handler(struct self *s, unsigned id, ucp_am_recv_callback_t fn)
{
	const ucp_am_handler_param_t param = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
			      UCP_AM_HANDLER_PARAM_FIELD_ARG,
		.id = id,
		.cb = fn,
		.arg = s,
	};

	check(ucp_worker_set_am_recv_handler(s->worker, &param), "handler");
}

/* rc_x: RC with UCX's mlx5 code; datagrams are used to connect. Environment variables take
 * precedence. */
static void open_worker(struct self *s, const struct options *o)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
		.features = UCP_FEATURE_AM};
	const ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE};
	char device[128];

	setenv("UCX_TLS", "rc_x", 0);
	if (o->device) {
		snprintf(device, sizeof(device), "%s:1", o->device);
		setenv("UCX_NET_DEVICES", device, 0);
	}
	check(ucp_init(&params, NULL, &s->context), "context");
	check(ucp_worker_create(s->context, &single, &s->worker), "worker");
	set_handler(s, REQUEST, on_request);
	set_handler(s, RESPONSE, on_response);
}

/* Sends the server's address to the client, which connects. */
static void introduce(struct self *s, int fd, bool server)
{
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	ucp_address_t *mine;
	char theirs[4096];
	size_t len;

	if (server) {
		check(ucp_worker_get_address(s->worker, &mine, &len), "address");
		put(fd, &len, sizeof(len));
		put(fd, mine, len);
		ucp_worker_release_address(s->worker, mine);
		return;
	}
	get(fd, &len, sizeof(len));
	if (len > sizeof(theirs))
		fail("UCX address", EPROTO);
	get(fd, theirs, len);
	params.address = (const ucp_address_t *)theirs;
	for (uint32_t i = 0; i < s->plan.endpoints; i++)
		check(ucp_ep_create(s->worker, &params, &s->ep[i]), "endpoint");
}

static void *self_open(const struct options *o, const struct plan *p, int fd, bool server)
{
	struct self *s = calloc(1, sizeof(*s));

	if (!s)
		fail("memory", ENOMEM);
	s->plan = *p;
	s->ep = calloc(p->endpoints, sizeof(*s->ep));
	s->slots = calloc((size_t)p->endpoints * p->max_depth, sizeof(*s->slots));
	if (!s->ep || !s->slots)
		fail("memory", ENOMEM);
	open_worker(s, o);
	introduce(s, fd, server);
	return s;
}

static int self_call(void *self, uint32_t ep, uint32_t slot)
{
	struct self *s = self;

	send_message(s, s->ep[ep], REQUEST, slot, s->plan.size);
	return 1;
}

static int self_poll(void *self, struct client *c)
{
	struct self *s = self;

	s->client = c;
	return (int)ucp_worker_progress(s->worker);
}

static struct counts self_counts(void *self)
{
	struct self *s = self;
	struct counts c = {.batches = s->messages, .messages = s->messages};

	hca_counts(&c);
	return c;
}

static void self_close(void *self)
{
	struct self *s = self;

	ucp_worker_destroy(s->worker);
	ucp_cleanup(s->context);
	free(s->ep);
	free(s->slots);
	free(s);
}

const struct impl ucx_impl = {
	"ucx",
	self_open,
	self_call,
	self_poll,
	NULL,
	self_counts,
	self_close,
};
