/* SPDX-License-Identifier: MIT */
/* copyrpc-bench: calls by copyrpc. */
#include <errno.h>
#include <poll.h>

#include "bench.h"
#include "copyrpc_tcp.h"

#define MEET_MS 30000

struct self {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep **ep;
	struct plan plan;
	struct client *client; /* of the running poll */
};

static void check(int rc, const char *what)
{
	if (rc < 0)
		fail(what, rc);
}

static struct copyrpc_ep *open_ep(struct copyrpc_ctx *ctx, int fd)
{
	struct copyrpc_ep *ep;

	check(copyrpc_ep_create(ctx, NULL, &ep), "endpoint");
	check(copyrpc_ep_meet(ep, fd, MEET_MS), "connect");
	return ep;
}

static void *self_open(const struct options *o, const struct plan *p, int fd, bool server)
{
	struct copyrpc_ctx_attr attr = {
		.device = o->device,
		.ring_size = p->ring_size,
		.max_endpoints = p->endpoints,
	};
	struct self *s = calloc(1, sizeof(*s));

	if (!s || !(s->ep = calloc(p->endpoints, sizeof(*s->ep))))
		fail("memory", ENOMEM);
	s->plan = *p;
	check(copyrpc_ctx_create(&attr, &s->ctx), o->device ? o->device : "device");
	for (uint32_t i = 0; i < p->endpoints; i++)
		s->ep[i] = open_ep(s->ctx, fd);
	return s;
}

static int self_call(void *self, uint32_t ep, uint32_t slot)
{
	struct self *s = self;
	int rc = copyrpc_call(s->ep[ep], payload, s->plan.size, s->plan.allowance, slot);

	if (rc == -EAGAIN || rc == -ENOBUFS)
		return 0;
	check(rc, "call");
	return 1;
}

/* Prints the description of the connection, which includes the reason if it has failed. */
static void call_failed(const struct copyrpc_ep *ep, int status)
{
	char what[256];

	copyrpc_ep_describe(ep, what, sizeof(what));
	fail(what, status);
}

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct self *s = arg;

	if (status)
		call_failed(ep, status);
	if (len != s->plan.allowance)
		fail("response", EPROTO);
	slot_ended(s->client, (uint32_t)token);
}

static int self_poll(void *self, struct client *c)
{
	struct self *s = self;
	struct copyrpc_req *req;

	s->client = c;
	while (copyrpc_recv(s->ctx, &req))
		check(copyrpc_reply(req, payload, s->plan.allowance), "reply");
	return copyrpc_poll(s->ctx, on_response, s);
}

static void self_sleep(void *self, int fd, int ms)
{
	struct self *s = self;
	struct pollfd p[2] = {{.fd = copyrpc_ctx_fd(s->ctx), .events = POLLIN},
		{.fd = fd, .events = POLLIN}};
	int due = copyrpc_ctx_timeout(s->ctx);

	if (!copyrpc_ctx_arm(s->ctx))
		poll(p, 2, ms < 0 || (due >= 0 && due < ms) ? due : ms);
}

static struct counts self_counts(void *self)
{
	struct self *s = self;
	struct copyrpc_stats st;
	struct counts c;

	copyrpc_ctx_get_stats(s->ctx, &st, sizeof(st));
	c = (struct counts){.wqes = st.wqes,
		.doorbells = st.doorbells,
		.batches = st.batches,
		.messages = st.calls + st.replies};
	hca_counts(&c);
	return c;
}

static void self_close(void *self)
{
	struct self *s = self;

	copyrpc_ctx_destroy(s->ctx);
	free(s->ep);
	free(s);
}

const struct impl copyrpc_impl = {
	"copyrpc",
	self_open,
	self_call,
	self_poll,
	self_sleep,
	self_counts,
	self_close,
};
