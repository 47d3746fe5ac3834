/* SPDX-License-Identifier: MIT */
/*
 * scale.py counts the instructions of measure(), which polls a client with calls in flight that
 * have no reply yet, or makes round trips, eight calls at a time.
 *
 *	scale empty|calls RESP_DEPTH
 */
#include "solo.h"

#define ROUNDS 2000
#define CALLS 8

NOINLINE void measure(struct delegrpc_server *s, struct delegrpc_client *c);

static void take_one(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	uint32_t value;

	memcpy(&value, resp, sizeof(value));
	CHECK_EQ(value, token + 1000);
}

static void round_trips(struct delegrpc_server *s, struct delegrpc_client *c)
{
	for (uint32_t i = 0; i < CALLS; i++)
		call(c, i);
	CHECK_EQ(serve(s), CALLS);
	while (delegrpc_client_pending(c))
		CHECK(delegrpc_client_poll(c, take_one, NULL) > 0);
}

/* Makes round trips if there is a server, otherwise polls. */
void measure(struct delegrpc_server *s, struct delegrpc_client *c)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		if (s)
			round_trips(s, c);
		else
			CHECK_EQ(delegrpc_client_poll(c, take_one, NULL), 0);
	}
}

int main(int argc, char **argv)
{
	struct delegrpc_server *s;
	struct delegrpc_client *c;
	bool empty;

	CHECK_EQ(argc, 3);
	empty = !strcmp(argv[1], "empty");
	s = server_new(4, 0, (uint32_t)strtoul(argv[2], NULL, 10));
	c = client_new();
	round_trips(s, c);
	if (empty) { /* all calls stay in flight */
		uint32_t v = 0;

		while (delegrpc_client_call(c, &v, sizeof(v), 0) == 0)
			;
		CHECK_EQ(delegrpc_client_poll(c, take_one, NULL), 0);
	}
	measure(empty ? NULL : s, c);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
	return 0;
}
