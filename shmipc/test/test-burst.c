/* SPDX-License-Identifier: MIT */
/* Tests when calls and replies that are collected in a burst are published. */
#include "common.h"

/* Receives all published requests. Returns their number. */
static uint32_t on_offer(struct shmipc_server *s)
{
	struct shmipc_req r;
	struct msg m;
	uint32_t n = 0;

	while (shmipc_server_poll(s))
		while (shmipc_server_recv(s, &r, &m, sizeof(m)) > 0)
			n++;
	return n;
}

/*
 * Makes calls, the last of which are collected. Checks that the function named @how publishes them.
 */
static void held_calls_are_published(const char *how)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	struct tally t = {0};
	uint32_t n = 0, seen;

	while (cellring_burst_held(&c->burst) < 3 || burst_room(&c->burst) != 1)
		CHECK_EQ(call_tag(c, n++), 0);
	seen = on_offer(s);
	CHECK_EQ(seen, n - cellring_burst_held(&c->burst));
	if (!strcmp(how, "poll"))
		CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 0);
	else if (!strcmp(how, "wait"))
		CHECK_EQ(shmipc_client_wait(c, 0), 0);
	else if (!strcmp(how, "flush"))
		shmipc_client_flush(c);
	else
		for (; call_tag(c, n) == 0; n++)
			;
	CHECK_EQ(on_offer(s), n - seen);
}

/*
 * Makes so many calls that answers are published in bursts, and leaves the last answers collected.
 * Returns the number of answers.
 */
static uint32_t answer_and_hold(struct shmipc_server *s, struct shmipc_client *c,
	struct shmipc_req *last)
{
	struct msg m = msg_of(1);
	uint32_t n = 0, answered = 0;

	calls(c, msg_attr.depth);
	shmipc_client_flush(c);
	while (n < msg_attr.depth && shmipc_server_poll(s))
		while (n < msg_attr.depth && shmipc_server_recv(s, last, &m, sizeof(m)) > 0) {
			n++;
			if (n > msg_attr.depth / 2 && cellring_burst_held(&s->burst) &&
				burst_room(&s->burst) > 1)
				continue;
			CHECK_EQ(shmipc_server_reply(s, last->client, last->id, &m, sizeof(m)), 0);
			answered++;
		}
	CHECK_EQ(n, msg_attr.depth);
	CHECK(cellring_burst_held(&s->burst) && burst_room(&s->burst) > 1);
	return answered;
}

static void held_replies_are_published(const char *how)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new(), *d = client_new();
	struct shmipc_req r, other;
	struct msg m = msg_of(1);
	uint32_t n, got = 0;

	CHECK_EQ(call_tag(d, 0), 0);
	other = take_msg(s, &m);
	n = answer_and_hold(s, c, &r);
	drain(c, &got);
	CHECK(got < n);
	if (!strcmp(how, "poll"))
		CHECK_EQ(shmipc_server_poll(s), 0);
	else if (!strcmp(how, "wait"))
		CHECK_EQ(shmipc_server_wait(s, 0), 0);
	else if (!strcmp(how, "flush"))
		shmipc_server_flush(s);
	else if (!strcmp(how, "receive"))
		CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 0);
	else if (!strcmp(how, "another"))
		CHECK_EQ(shmipc_server_reply(s, other.client, other.id, &m, sizeof(m)), 0);
	else
		rpc_server_end(&s);
	drain(c, &got);
	CHECK_EQ(got, n);
}

/*
 * Calls are collected if the client had many in flight at its last poll (not counting polls without
 * new calls), even if it has none in flight now. They are not collected after a poll with few calls
 * in flight.
 */
TEST(calls_in_flight_are_remembered)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	uint32_t n = 0, got = 0;

	for (uint32_t round = 0; round < 3; round++) {
		while (n < msg_attr.depth)
			CHECK_EQ(call_tag(c, n++), 0);
		/* From the second round on, the poll finds the response to the flushed call. */
		CHECK_EQ(shmipc_client_poll(c, count_one, &got), round > 0);
		while (serve_once(s))
			;
		drain(c, &got);
		CHECK_EQ(got, n);
		n = got = 0;
		CHECK_EQ(call_tag(c, n++), 0);
		shmipc_client_flush(c); /* publishes this call alone */
		CHECK_EQ(serve_once(s), 1);
		for (uint32_t i = 1; i < 8; i++) {
			CHECK_EQ(call_tag(c, n++), 0);
			CHECK_EQ(cellring_burst_held(&c->burst), i);
		}
		CHECK_EQ(shmipc_server_poll(s), 0);
		CHECK_EQ(call_tag(c, n++), 0); /* the eighth completes the burst: a quarter of 32 */
		CHECK_EQ(cellring_burst_held(&c->burst), 0);
	}
	CHECK_EQ(serve_once(s), 8);
	drain(c, &got);
	CHECK_EQ(got, n);
	CHECK_EQ(call_tag(c, 0), 0);
	CHECK_EQ(cellring_burst_held(&c->burst), 1);
	CHECK_EQ(shmipc_client_poll(c, count_one, &got), 0); /* one in flight */
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(shmipc_client_poll(c, count_one, &got), 1);
	CHECK_EQ(call_tag(c, 0), 0);
	CHECK_EQ(cellring_burst_held(&c->burst), 0);
	CHECK_EQ(serve_once(s), 1);
}

static void call_again(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	CHECK_EQ(call_tag(arg, token), 0);
}

/*
 * Calls that are made in succession are published in bursts of eight, and so are the answers. Calls
 * that the response function makes are published in bursts of a quarter of the calls in flight.
 */
TEST(calls_in_a_row_go_together)
{
	struct shmipc_attr attr = msg_attr;
	SERVER *s;
	CLIENT *c;
	uint32_t got = 0;

	attr.depth = 16;
	s = server_with(&attr);
	c = client_new();
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 16; i++) {
			CHECK_EQ(call_tag(c, i), 0);
			if (round == 2) /* the client has recorded sixteen calls in succession */
				CHECK_EQ(cellring_burst_held(&c->burst), (i + 1) % 8);
		}
		CHECK_EQ(shmipc_client_poll(c, count_one, &got), 0);
		while (serve_once(s))
			;
		if (round < 2)
			drain(c, &got);
	}
	CHECK_EQ(s->peers[0].together, 8);
	for (uint32_t turn = 0; turn < 4; turn++) {
		CHECK_EQ(shmipc_client_poll(c, call_again, c), 8);
		CHECK_EQ(serve_once(s), 8);
	}
	CHECK_EQ(c->burst.limit, 4);
	CHECK_EQ(s->peers[0].together, 4);
}

/*
 * If a server answers one request and then polls, its reply stays collected until the next replies
 * fill the burst.
 */
TEST(replies_wait_for_the_next)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	struct shmipc_req r;
	uint32_t got = 0;
	struct msg m;

	for (uint32_t round = 0; round < 2; round++) {
		calls(c, 32);
		CHECK_EQ(shmipc_client_poll(c, count_one, &got), 0);
		while (!round && serve_once(s)) /* from now on bursts have eight messages */
			;
		drain(c, &got);
	}
	for (uint32_t i = 0; i < 32; i++) {
		CHECK_EQ(shmipc_server_poll(s), 1);
		CHECK_EQ(cellring_burst_held(&s->burst), i < 21 ? i % 8 : (i - 20) % 8);
		CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 1);
		/* Two polls without a reply publish: the caller may wait for something else. */
		if (i == 20) {
			CHECK_EQ(shmipc_server_poll(s), 1);
			CHECK_EQ(cellring_burst_held(&s->burst), 0);
		}
		CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), 0);
	}
	CHECK_EQ(shmipc_server_poll(s), 0);
	CHECK_EQ(cellring_burst_held(&s->burst), 0);
}

TEST(what_is_held_back_is_published)
{
	held_calls_are_published("poll");
	held_calls_are_published("wait");
	held_calls_are_published("flush");
	held_calls_are_published("refusal");
	held_replies_are_published("poll");
	held_replies_are_published("wait");
	held_replies_are_published("flush");
	held_replies_are_published("receive");
	held_replies_are_published("another");
	held_replies_are_published("close");
}

/* Replies collected for a client that leaves do not reach the next one in its place. */
TEST(held_replies_go_with_their_client)
{
	struct shmipc_attr one = msg_attr;
	struct shmipc_client *c, *next;
	struct shmipc_server *s;
	struct shmipc_req r;
	uint32_t got = 0;

	one.max_clients = 1;
	s = server_with(&one);
	c = client_new();
	answer_and_hold(s, c, &r);
	shmipc_client_disconnect(c);
	CHECK_EQ(shmipc_server_poll(s), 0);
	next = client_new();
	CHECK_EQ(call_tag(next, 0), 0);
	CHECK_EQ(shmipc_client_poll(next, count_one, &got), 0);
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(shmipc_client_poll(next, count_one, &got), 1);
	CHECK_EQ(shmipc_client_poll(next, count_one, &got), 0);
	shmipc_client_disconnect(next);
	shmipc_server_destroy(s);
}
