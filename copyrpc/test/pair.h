/* SPDX-License-Identifier: MIT */
/* Two contexts, each with an endpoint, connected to each other. */
#ifndef COPYRPC_TEST_PAIR_H
#define COPYRPC_TEST_PAIR_H

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "support/test.h"
#include "copyrpc.h"

/* With this path the HCA gives up after 0.47 s, before the probes do. */
static const struct copyrpc_path impatient = {.timeout = 14};
/* With this path the HCA gives up soon: for a test whose clock runs much faster than the HCA's
 * timers, or which often waits for the timers. */
static const struct copyrpc_path quick = {.timeout = 8, .retry_cnt = 3}; /* 3 ms */

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

/* A pair that is not connected. */
static inline struct pair pair_create(const struct copyrpc_ctx_attr *attr)
{
	struct pair p;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(copyrpc_ctx_create(attr, &p.ctx[i]), 0);
		CHECK_EQ(copyrpc_ep_create(p.ctx[i], NULL, &p.ep[i]), 0);
	}
	return p;
}

static inline struct pair pair_open(const struct copyrpc_ctx_attr *attr)
{
	struct pair p = pair_create(attr);

	connect_eps(p.ep);
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

static inline struct copyrpc_stats ep_stats_of(const struct copyrpc_ep *ep)
{
	struct copyrpc_stats s;

	copyrpc_ep_get_stats(ep, &s, sizeof(s));
	return s;
}

static inline struct copyrpc_stats ctx_stats_of(const struct copyrpc_ctx *ctx)
{
	struct copyrpc_stats s;

	copyrpc_ctx_get_stats(ctx, &s, sizeof(s));
	return s;
}

/* Waits until the context's descriptor is readable, but not longer than @ms. Returns the same as
 * poll(2). */
static inline int readable(const struct copyrpc_ctx *ctx, int ms)
{
	struct pollfd p = {.fd = copyrpc_ctx_fd(ctx), .events = POLLIN};

	return poll(&p, 1, ms);
}

/* True if the description of the endpoint contains the text. */
static inline bool described(const struct copyrpc_ep *ep, const char *text)
{
	char line[256];

	copyrpc_ep_describe(ep, line, sizeof(line));
	return strstr(line, text);
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

/* Polls both sides, ep[1]'s first, and answers all requests. */
static inline void pair_turn(struct pair *p, struct heard *h)
{
	for (int i = 1; i >= 0; i--) {
		copyrpc_poll(p->ctx[i], hear, h);
		echo_all(p->ctx[i]);
	}
}

/* Polls both sides until they send nothing more. */
static inline void pair_settle(struct pair *p)
{
	uint64_t before, sent = UINT64_MAX;

	do {
		struct heard h = {0};

		before = sent;
		sent = 0;
		for (int i = 0; i < 2; i++) {
			copyrpc_poll(p->ctx[i], hear, &h);
			sent += ctx_stats_of(p->ctx[i]).wqes;
		}
	} while (sent != before);
}

/* Lets all rings grow to their largest size, by a call of each side and its response. @most: the
 * largest payload in such a ring. */
static inline void pair_grow(struct pair *p, uint32_t most)
{
	void *payload = calloc(1, most);

	for (int i = 0; i < 2; i++) {
		struct heard h = {0};
		bool called = false;

		while (!h.ok) {
			int rc = called ? 0 : copyrpc_call(p->ep[i], payload, most, most, 0);

			CHECK(!rc || rc == -EAGAIN);
			called |= !rc;
			pair_turn(p, &h);
		}
	}
	free(payload);
	pair_settle(p);
}

#endif
