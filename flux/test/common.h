/* SPDX-License-Identifier: MIT */
/* Helpers of flux's tests in one thread: short forms of the functions, and received responses. */
#ifndef FLUX_TEST_COMMON_H
#define FLUX_TEST_COMMON_H

#include <stdbool.h>

#include "base/sleep.h"
#include "support/test.h"
#include "flux.h"

#define MAX_TOKENS 4096

/* The responses that a response function received. */
struct seen {
	uint32_t n;
	uint32_t aborted;
	uint64_t token[MAX_TOKENS];
	uint64_t value[MAX_TOKENS];
};

static inline void on_response(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct seen *s = arg;

	CHECK(s->n < MAX_TOKENS);
	s->token[s->n] = token;
	s->value[s->n] = payload ? *(const uint64_t *)payload : UINT64_MAX;
	s->aborted += !payload;
	s->n++;
}

static inline struct flux *make_of(uint32_t nodes, uint32_t capacity, uint32_t max_inflight,
	uint32_t payload, uint32_t reply)
{
	struct flux_attr attr = {.nodes = nodes,
		.capacity = capacity,
		.max_inflight = max_inflight,
		.payload_size = payload,
		.reply_size = reply};
	struct flux *f;

	CHECK_EQ(flux_create(&attr, &f), 0);
	return f;
}

static inline struct flux *make(uint32_t nodes, uint32_t capacity, uint32_t max_inflight)
{
	return make_of(nodes, capacity, max_inflight, sizeof(uint64_t), 0);
}

/* FLUX *f = ...; destroys the network at the end of the variable's block. */
static inline void flux_end(struct flux **f)
{
	flux_destroy(*f);
}

#define FLUX __attribute__((cleanup(flux_end), unused)) struct flux

static inline struct flux_stats stats_of(const struct flux_node *n)
{
	struct flux_stats s;

	flux_node_get_stats(n, &s, sizeof(s));
	return s;
}

static inline int call(struct flux_node *n, uint32_t to, uint64_t value, uint64_t token)
{
	return flux_call(n, to, &value, sizeof(value), token);
}

/* Makes @number calls with the values and tokens 0, 1, ... */
static inline void calls(struct flux_node *n, uint32_t to, uint32_t number)
{
	for (uint32_t i = 0; i < number; i++)
		CHECK_EQ(call(n, to, i, i), 0);
}

/* Receives one call: its sender, its token and its value. */
static inline int recv_one(struct flux_node *n, uint32_t *from, uint64_t *flux_token,
	uint64_t *value)
{
	return flux_try_recv_raw(n, from, flux_token, value, sizeof(*value), NULL);
}

struct got {
	uint32_t from;
	uint64_t token, value;
};

/* Receives a call or a post, which must have arrived. */
static inline struct got take(struct flux_node *n)
{
	struct got g = {0};

	CHECK_EQ(recv_one(n, &g.from, &g.token, &g.value), 1);
	return g;
}

/* Answers a call with its value. */
static inline void answer(struct flux_node *n, struct got g)
{
	CHECK_EQ(flux_reply(n, g.token, &g.value, sizeof(g.value)), 0);
}

/* Answers every call that has arrived with its value + 1. Returns their number. */
static inline uint32_t serve(struct flux_node *n)
{
	uint64_t flux_token, value = 0;
	uint32_t from = 0, served = 0;

	while (recv_one(n, &from, &flux_token, &value) == 1) {
		value++;
		CHECK_EQ(flux_reply(n, flux_token, &value, sizeof(value)), 0);
		served++;
	}
	return served;
}

static inline void poll_all(struct flux_node *n, struct seen *s)
{
	while (flux_poll(n, on_response, s))
		;
}

static inline bool asleep(const struct flux_node *n)
{
	return __atomic_load_n(&n->self->state, __ATOMIC_RELAXED) == SLEEP_ASLEEP;
}

#endif
