/* SPDX-License-Identifier: MIT */
/*
 * Endpoints that the program connects again over a channel of its own, which may lose, repeat and
 * reorder messages.
 */
#include <endian.h>

#include "back.h"

#define MAIL 8 /* maximum number of messages in flight to a side */
#define CALLS 1000

struct mail {
	uint8_t bytes[COPYRPC_AGAIN_SIZE];
};

struct end {
	struct mail box[MAIL];
	uint32_t n; /* messages in the box */
	bool owes; /* the message of the present attempt must be sent */
	bool keeps; /* `kept` must be passed to copyrpc_ep_again() again, after the message of the
		       present attempt was sent */
	struct mail kept;
	uint32_t downs; /* number of events DOWN that carry() has seen */
	uint32_t patience; /* turns until a side without a connection sends its message again */
};

static struct end ends[2];
static uint32_t loss; /* percentage of the messages that are lost; the same percentage of the
			 remaining ones arrives twice */

static const struct copyrpc_ep_attr by_hand = {.size = sizeof(by_hand),
	.by_hand = true,
	.event_token = 7};

static void mail_to(int side, const struct mail *m)
{
	struct end *e = &ends[side];

	if (pick(100) < loss)
		return;
	for (uint32_t copies = pick(100) < loss ? 2 : 1; copies && e->n < MAIL; copies--)
		e->box[e->n++] = *m;
}

static void send_present(struct node *n)
{
	struct mail m;

	if (copyrpc_ep_again_info(n->ep, m.bytes))
		return;
	ends[n->side].owes = false;
	mail_to(!n->side, &m);
}

static void take(struct node *n, struct mail m)
{
	struct end *e = &ends[n->side];
	int rc = copyrpc_ep_again(n->ep, m.bytes, sizeof(m.bytes));

	/* -EISCONN: the test has stopped a queue pair that was not connected yet. */
	CHECK(!rc || rc == -EAGAIN || rc == -ESTALE || rc == -EISCONN);
	e->keeps = rc == -EAGAIN;
	if (e->keeps)
		e->kept = m;
	e->owes |= !!rc;
}

/* Does what a program does between polls. */
static void carry(struct node *n)
{
	struct end *e = &ends[n->side];

	if (!n->ep || copyrpc_ep_status(n->ep))
		return;
	e->owes |= n->downs != e->downs;
	e->downs = n->downs;
	if (n->ep->ch.away && !e->patience--) {
		e->patience = 50;
		e->owes = true;
	}
	if (e->owes)
		send_present(n);
	if (e->keeps && !e->owes)
		take(n, e->kept);
	if (e->n) {
		uint32_t k = pick(e->n);
		struct mail m = e->box[k];

		e->box[k] = e->box[--e->n];
		take(n, m);
	}
}

static void connect_by_hand(struct node n[2], const struct copyrpc_ep_attr *a,
	const struct copyrpc_ep_attr *b)
{
	struct copyrpc_ep *ep[2];

	memset(ends, 0, sizeof(ends));
	tend = carry;
	loss = 0;
	CHECK_EQ(copyrpc_ep_create(n[0].ctx, a, &ep[0]), 0);
	CHECK_EQ(copyrpc_ep_create(n[1].ctx, b, &ep[1]), 0);
	connect_eps(ep);
	for (int i = 0; i < 2; i++)
		n[i].ep = ep[i];
}

static void open_up(struct node n[2])
{
	open_contexts(n, &returning, false);
	connect_by_hand(n, &by_hand, &by_hand);
	calls(n, 10);
}

/* One side loses the connection, or both do. On a busy machine the HCA's time-outs may end the new
 * connection, too. */
static void returns(int sides)
{
	NODES n[2];

	open_up(n);
	for (uint32_t i = 1; i <= 3; i++) {
		for (int side = 0; side < 2; side++)
			if (sides & 1 << side)
				lose(n, side);
		calls(n, 20);
		UNTIL(n[0].backs >= i && n[1].backs >= i);
	}
	UNTIL(n[0].backs == n[0].downs && n[1].backs == n[1].downs);
	CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
}

TEST_WITH(first_side, returns, 1);
TEST_WITH(second_side, returns, 2);
TEST_WITH(both_sides, returns, 3);

/* While the cable is out, no attempt is begun. */
TEST(cable)
{
	uint8_t message[COPYRPC_AGAIN_SIZE];
	NODES n[2];

	open_up(n);
	CHECK_EQ(HCA(softhca_link_set)("mlx5_0", false), 0);
	n[0].most += 5;
	UNTIL(n[0].downs);
	turns(n, 5000);
	CHECK_EQ(copyrpc_ep_again_info(n[0].ep, message), -ENETDOWN);
	CHECK_EQ(n[0].backs + n[1].backs, 0);
	CHECK_EQ(HCA(softhca_link_set)("mlx5_0", true), 0);
	UNTIL(n[0].backs && n[1].backs && idle(&n[0]));
	CHECK(n[0].downs && n[1].downs);
	CHECK_EQ(n[0].failed + n[0].ends + n[1].ends, 0);
}

/* Losses at any moment, over a channel that loses, repeats and reorders messages. */
TEST(storm)
{
	NODES n[2];

	seed = test_seed();
	open_up(n);
	loss = 25;
	n[0].most = n[1].most += CALLS;
	while (!idle(&n[0]) || !idle(&n[1])) {
		if (pick(60) == 0)
			lose(n, (int)pick(2));
		turn_both(n);
	}
	UNTIL(!n[0].ep->ch.away && !n[1].ep->ch.away);
	CHECK(n[0].backs > 10 && n[1].backs > 10);
	CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
	for (uint32_t k = 0; k < CALLS; k++)
		for (int i = 0; i < 2; i++)
			CHECK(n[i].ended[k] && n[!i].executed[k]);
}

/* Adds @by to the little-endian number at byte @at of the message, see byhand.c. */
static void change(struct mail *m, size_t at, int by)
{
	uint64_t v;

	memcpy(&v, m->bytes + at, sizeof(v));
	v = htole64(le64toh(v) + (uint64_t)by);
	memcpy(m->bytes + at, &v, sizeof(v));
}

/* Stops the connection at one side, and returns that side's message. */
static struct mail lose_and_ask(struct node n[2], int side)
{
	struct mail m;

	open_up(n);
	tend = NULL;
	lose(n, side);
	n[0].most += 5;
	n[1].most += 5;
	UNTIL(!copyrpc_ep_again_info(n[side].ep, m.bytes));
	return m;
}

TEST(messages_are_checked)
{
	static const struct {
		size_t at;
		int by, err;
	} table[] = {{0, 1, -EINVAL}, {8, 1, -ENOENT}, {16, 1, -ENOENT}, {24, -1, -ESTALE}};
	NODES n[2];
	struct mail good = lose_and_ask(n, 0);

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct mail m = good;

		change(&m, table[i].at, table[i].by);
		CHECK_EQ(copyrpc_ep_again(n[1].ep, m.bytes, sizeof(m.bytes)), table[i].err);
	}
	CHECK_EQ(copyrpc_ep_again(n[1].ep, good.bytes, sizeof(good.bytes) - 1), -EINVAL);
	tend = carry;
	UNTIL(idle(&n[0]) && idle(&n[1]));
	CHECK(n[0].backs);
}

/* Messages with a wrong position, ring or key, each of which fails the endpoint. */
TEST(positions_are_checked)
{
	static const struct {
		size_t at;
		int by;
	} table[] = {{32, 1}, {32, 1 << 20}, {32, -(1 << 20)}, {48 + 56, 64}, {48 + 72, 1}};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		NODES n[2];
		struct mail m = lose_and_ask(n, 0), mine;

		CHECK_EQ(copyrpc_ep_again(n[1].ep, m.bytes, sizeof(m.bytes)), -EAGAIN);
		UNTIL(!copyrpc_ep_again_info(n[1].ep, mine.bytes));
		change(&m, table[i].at, table[i].by);
		CHECK_EQ(copyrpc_ep_again(n[1].ep, m.bytes, sizeof(m.bytes)), -EPROTO);
		CHECK_EQ(copyrpc_ep_status(n[1].ep), -EPROTO);
		UNTIL(n[1].ends);
		n[1].ep = NULL;
	}
}

/* A side that has begun an attempt does not connect its queue pair if the peer's attempt has a
 * larger number. The side then begins an attempt with that number. */
TEST(later_attempts)
{
	struct mail m, mine;
	NODES n[2];

	m = lose_and_ask(n, 0);
	CHECK_EQ(copyrpc_ep_again(n[1].ep, m.bytes, sizeof(m.bytes)), -EAGAIN);
	UNTIL(!copyrpc_ep_again_info(n[1].ep, mine.bytes));
	CHECK(!memcmp(mine.bytes + 24, m.bytes + 24, 8));
	change(&m, 24, 5);
	CHECK_EQ(copyrpc_ep_again(n[1].ep, m.bytes, sizeof(m.bytes)), -EAGAIN);
	UNTIL(!copyrpc_ep_again_info(n[1].ep, mine.bytes));
	CHECK(!memcmp(mine.bytes + 24, m.bytes + 24, 8));
	tend = carry;
	UNTIL(idle(&n[0]) && idle(&n[1]));
}

/* A message is written only when no completion is left, because the position in it must be
 * final. */
TEST(completions_come_first)
{
	struct mail m;
	NODES n[2];

	slow_path = true;
	open_up(n);
	tend = NULL;
	CHECK(call_unhandled(n));
	ep_leave(n[1].ep, -ECONNRESET);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(copyrpc_ep_again_info(n[1].ep, m.bytes), -EAGAIN);
		now += NSEC_PER_SEC;
	}
	tend = carry;
	UNTIL(idle(&n[0]) && idle(&n[1]));
	CHECK_EQ(n[0].failed, 0);
}

/* A message is stale if it was written before the sides were connected again, and arrives later. */
TEST(old_messages)
{
	struct mail old, now_sent;
	NODES n[2];

	old = lose_and_ask(n, 0);
	tend = carry;
	UNTIL(idle(&n[0]) && idle(&n[1]));
	UNTIL(!n[0].ep->ch.away && !n[1].ep->ch.away);
	CHECK_EQ(copyrpc_ep_again(n[1].ep, old.bytes, sizeof(old.bytes)), -ESTALE);
	CHECK_EQ(copyrpc_ep_again_info(n[0].ep, now_sent.bytes), 0);
	CHECK_EQ(copyrpc_ep_again(n[1].ep, now_sent.bytes, sizeof(now_sent.bytes)), 0);
	calls(n, 10);
	CHECK(n[0].downs && n[1].downs);
}

/* One side cannot be connected again, so both endpoints fail when they lose their connection. */
static void end_at_once(struct node n[2])
{
	uint8_t message[COPYRPC_AGAIN_SIZE];

	calls(n, 10);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(copyrpc_ep_again_info(n[i].ep, message), -EOPNOTSUPP);
		CHECK_EQ(copyrpc_ep_again(n[i].ep, message, sizeof(message)), -EOPNOTSUPP);
	}
	lose(n, 0);
	n[1].most += 1;
	UNTIL(n[1].failed);
	CHECK_EQ(n[0].downs + n[1].downs, 0);
	CHECK_EQ(copyrpc_ep_again_info(n[1].ep, message), copyrpc_ep_status(n[1].ep));
}

/* The endpoint of `side` does not have the attribute `by_hand`. */
static void one_side(int side)
{
	static const struct copyrpc_ep_attr no = {.size = sizeof(no)};
	NODES n[2];

	open_contexts(n, &returning, false);
	connect_by_hand(n, side ? &by_hand : &no, side ? &no : &by_hand);
	end_at_once(n);
	CHECK_EQ(n[side].ends, 0); /* it has no events */
}

TEST_WITH(only_first_side, one_side, 1);
TEST_WITH(only_second_side, one_side, 0);

/* The context of `side` has no reconnect_ms. */
static void one_context(int side)
{
	NODES n[2];

	open_contexts(n, &returning, false);
	n[side].ctx->attr.reconnect_ms = 0;
	connect_by_hand(n, &by_hand, &by_hand);
	end_at_once(n);
}

TEST_WITH(only_first_context, one_context, 1);
TEST_WITH(only_second_context, one_context, 0);

/* The peer sends no message: the endpoint fails after reconnect_ms. */
TEST(too_late)
{
	NODES n[2];

	open_up(n);
	tend = NULL;
	lose(n, 0);
	n[0].most += 3;
	UNTIL(n[0].downs);
	CHECK_EQ(copyrpc_ep_status(n[0].ep), 0);
	now += returning.reconnect_ms * NSEC_PER_MSEC;
	UNTIL(n[0].ends);
	CHECK(n[0].failed && n[0].done == n[0].made);
}

/* Dials and listeners connect their endpoints themselves. */
TEST(not_for_dials)
{
	NODES n[2];
	int listener;
	const struct copyrpc_dial_attr dial = {.ep = &by_hand};
	const struct copyrpc_listen_attr listen = {.ep = &by_hand};

	open_up(n);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	CHECK_EQ(copyrpc_listen(n[0].ctx, &listen, listener, 0), -EINVAL);
	CHECK_EQ(copyrpc_dial(n[0].ctx, &dial, "127.0.0.1", 1, 0, 0), -EINVAL);
	close(listener);
	calls(n, 10);
}
