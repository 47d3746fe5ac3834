/* SPDX-License-Identifier: MIT */
/* Two contexts, each with an endpoint, connected to each other. */
#ifndef COPYRPC_TEST_PAIR_H
#define COPYRPC_TEST_PAIR_H

#include <errno.h>

#include "support/test.h"
#include "copyrpc.h"

/* With this path the HCA gives up after 0.47 s, before the probes do. */
static const struct copyrpc_path impatient = {.timeout = 14};

struct pair {
	struct copyrpc_ctx *ctx[2];
	struct copyrpc_ep *ep[2];
};

static inline void connect_eps(struct copyrpc_ep *const ep[2])
{
	uint8_t blob[2][COPYRPC_INFO_SIZE];

	for (int i = 0; i < 2; i++)
		copyrpc_ep_info(ep[i], blob[i]);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ep_connect(ep[i], blob[!i], COPYRPC_INFO_SIZE), 0);
}

/* Creates an endpoint in each context and connects the two. */
static inline void join(struct copyrpc_ctx *a, struct copyrpc_ctx *b, struct copyrpc_ep *ep[2])
{
	CHECK_EQ(copyrpc_ep_create(a, NULL, &ep[0]), 0);
	CHECK_EQ(copyrpc_ep_create(b, NULL, &ep[1]), 0);
	connect_eps(ep);
}

static inline void pair_connect(struct pair *p)
{
	connect_eps(p->ep);
}

static inline struct pair pair_open(const struct copyrpc_ctx_attr *attr)
{
	struct pair p;

	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ctx_create(attr, &p.ctx[i]), 0);
	join(p.ctx[0], p.ctx[1], p.ep);
	return p;
}

static inline void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		copyrpc_ctx_destroy(p->ctx[i]);
}

/* A pair that is closed at the end of its block: PAIR p = pair_open(NULL); */
#define PAIR AT_END(pair_close) struct pair

static inline void end_ctx(struct copyrpc_ctx **ctx)
{
	copyrpc_ctx_destroy(*ctx);
}

/* The number of responses and of failed calls, and the status of the last failed call. */
struct heard {
	uint32_t ok, failed;
	int status;
};

static inline void hear(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct heard *h = arg;

	if (status)
		h->status = status;
	h->ok += !status;
	h->failed += !!status;
}

/* Answers all requests with their own bytes. Returns their number. */
static inline int echo_all(struct copyrpc_ctx *ctx)
{
	struct copyrpc_req *req;
	int n = 0;

	for (; copyrpc_recv(ctx, &req); n++)
		CHECK_EQ(copyrpc_reply(req, copyrpc_req_data(req), copyrpc_req_len(req)), 0);
	return n;
}

#endif
