/* SPDX-License-Identifier: MIT */
/*
 * benchkv with a fault: linked in the place of the two functions that hand a reply to a
 * client (ld --wrap). BENCHKV_FAULT says what goes wrong with every PERIOD-th reply of a
 * daemon. Whether the program then notices is the test.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon.h"

#define PERIOD 200

typedef void answer_fn(struct daemon *d, uint32_t client, uint32_t id, const struct kv_resp *resp);

answer_fn __real_answer_local, __real_answer_delegated;
answer_fn __wrap_answer_local, __wrap_answer_delegated;

struct held {
	uint32_t client, id;
	struct kv_resp resp;
	bool full;
};

/* Gives the reply that was held to this caller, and this reply to the one before. */
static void swap(answer_fn *answer, struct daemon *d, uint32_t client, uint32_t id,
	const struct kv_resp *resp, struct held *held)
{
	held->full = false;
	answer(d, held->client, held->id, resp);
	answer(d, client, id, &held->resp);
}

static void faulty(answer_fn *answer, struct daemon *d, uint32_t client, uint32_t id,
	const struct kv_resp *resp)
{
	static _Thread_local uint32_t count;
	static _Thread_local struct held held;
	const char *fault = getenv("BENCHKV_FAULT");
	struct kv_resp spoilt = *resp;

	if (held.full) {
		swap(answer, d, client, id, resp, &held);
		return;
	}
	if (!fault || ++count % PERIOD) {
		answer(d, client, id, resp);
		return;
	}
	if (!strcmp(fault, "swap")) {
		held = (struct held){client, id, *resp, true};
	} else if (!strcmp(fault, "duplicate")) {
		answer(d, client, id, resp);
		answer(d, client, id, resp);
	} else if (!strcmp(fault, "spoil")) {
		spoilt.value ^= 1ull << 40;
		answer(d, client, id, &spoilt);
	} /* else "drop" */
}

void __wrap_answer_local(struct daemon *d, uint32_t client, uint32_t id, const struct kv_resp *resp)
{
	faulty(__real_answer_local, d, client, id, resp);
}

void __wrap_answer_delegated(struct daemon *d, uint32_t client, uint32_t id,
	const struct kv_resp *resp)
{
	faulty(__real_answer_delegated, d, client, id, resp);
}
