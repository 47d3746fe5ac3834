/* SPDX-License-Identifier: MIT */
/*
 * A program that makes calls forks children, which end or execute another program. This must not
 * affect the calls or their data.
 */
#include <unistd.h>

#include "pair.h"

#define ROUNDS 40
#define DEPTH 8
#define SIZE 300

static uint8_t payload[DEPTH][SIZE];

static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	uint32_t *ended = arg;

	CHECK_EQ(status, 0);
	CHECK(len == SIZE && token < DEPTH && !memcmp(data, payload[token], len));
	++*ended;
}

static void child_of(int round)
{
	pid_t child = test_fork();

	if (!child) {
		if (round % 2)
			execlp("true", "true", (char *)NULL);
		memset(payload, 0xdd, sizeof(payload)); /* its own copy */
		_exit(round % 2); /* 1: the other program was not found */
	}
	CHECK_EQ(test_reap(child), 0);
}

static void answer_all(struct pair *p)
{
	copyrpc_poll(p->ctx[1], NULL, NULL);
	echo_all(p->ctx[1]);
	copyrpc_poll(p->ctx[1], NULL, NULL);
}

TEST(children_do_no_harm)
{
	uint32_t ended = 0;
	PAIR p = pair_open(NULL);

	pair_grow(&p, COPYRPC_PAYLOAD_MAX(1 << 20));
	for (int round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < DEPTH; i++) {
			memset(payload[i], round + (int)i, SIZE);
			CHECK_EQ(copyrpc_call(p.ep[0], payload[i], SIZE, SIZE, i), 0);
		}
		child_of(round); /* the requests are in the ring but not sent */
		copyrpc_flush(p.ctx[0]);
		child_of(round + 1); /* the requests are sent but not answered */
		while (ended < (uint32_t)(round + 1) * DEPTH) {
			answer_all(&p);
			copyrpc_poll(p.ctx[0], on_end, &ended);
		}
	}
}
