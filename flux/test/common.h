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

static inline struct flux *make(uint32_t nodes, uint32_t capacity, uint32_t max_inflight)
{
	struct flux_attr attr = {.nodes = nodes,
		.capacity = capacity,
		.max_inflight = max_inflight,
		.payload_size = sizeof(uint64_t)};
	struct flux *f;

	CHECK_EQ(flux_create(&attr, &f), 0);
	return f;
}

/* FLUX *f = ...; destroys the network where its block ends. */
static inline void flux_end(struct flux **f)
{
	flux_destroy(*f);
}

#define FLUX __attribute__((cleanup(flux_end))) struct flux

static inline int call(struct flux_node *n, uint32_t to, uint64_t value, uint64_t token)
{
	return flux_call(n, to, &value, sizeof(value), token);
}

/* Receives one call: its node, its handle and its value. */
static inline int recv_one(struct flux_node *n, uint32_t *from, uint64_t *flux_token,
	uint64_t *value)
{
	return flux_try_recv_raw(n, from, flux_token, value, sizeof(*value), NULL);
}

/* Answers every waiting call with its value + 1. Returns how many. */
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
