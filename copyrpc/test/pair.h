/* SPDX-License-Identifier: MIT */
/* Two contexts, each with an endpoint, connected to each other. */
#ifndef COPYRPC_TEST_PAIR_H
#define COPYRPC_TEST_PAIR_H

#include <dlfcn.h>
#include <errno.h>

#include "support/test.h"
#include "copyrpc.h"
#include "softhca.h"

struct pair {
	struct copyrpc_ctx *ctx[2];
	struct copyrpc_ep *ep[2];
};

static inline void pair_connect(struct pair *p)
{
	uint8_t blob[2][COPYRPC_INFO_SIZE];

	for (int i = 0; i < 2; i++)
		copyrpc_ep_info(p->ep[i], blob[i]);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ep_connect(p->ep[i], blob[!i], COPYRPC_INFO_SIZE), 0);
}

static inline void pair_open(struct pair *p, const struct copyrpc_ctx_attr *attr)
{
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(copyrpc_ctx_create(attr, &p->ctx[i]), 0);
		CHECK_EQ(copyrpc_ep_create(p->ctx[i], NULL, &p->ep[i]), 0);
	}
	pair_connect(p);
}

static inline void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		copyrpc_ctx_destroy(p->ctx[i]);
}

/* The HCA's counters for this process. */
static inline struct softhca_counters hca_counters(void)
{
	int (*self)(struct softhca_counters *);
	struct softhca_counters c;

	*(void **)&self = dlsym(RTLD_DEFAULT, "softhca_counters_self");
	CHECK(self);
	CHECK_EQ(self(&c), 0);
	return c;
}

static inline uint64_t hca_wqes(const struct softhca_counters *c)
{
	uint64_t n = 0;

	for (int i = 0; i < SOFTHCA_OPCODES; i++)
		n += c->wqes[i];
	return n;
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

#endif
