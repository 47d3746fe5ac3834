/* SPDX-License-Identifier: MIT */
/*
 * Random schedules of two endpoints in memory. The test checks that no block is overwritten before
 * it was released, that a reply always fits, that the invariant of credit.h holds at every step,
 * that every call ends once with its own bytes, and that both sides can send the largest call again
 * when all requests are answered.
 */
#include "sim.h"

static struct side left, right;

/* The kinds of steps of a side. */
enum action {
	ACT_CALL,
	ACT_REPLY,
	ACT_DETACH,
	ACT_RECV,
	ACT_FLUSH,
	ACT_FLUSH_ONE, /* with room for one batch in the send queue */
	ACT_DELIVER, /* the side's oldest WRITE arrives at the peer */
	ACT_READ_DONE, /* the READ of the peer's position */
	ACT_LOSE, /* the connection is lost and made again */
	ACTIONS,
};

struct plan {
	uint32_t message_max, response_max; /* payload */
	uint32_t calls; /* random steps end when a side has made so many */
	unsigned weight[ACTIONS]; /* relative frequency of each action */
};

static void act(struct side *s, const struct plan *p, uint64_t *seed)
{
	unsigned total = 0, pick, i;

	for (i = 0; i < ARRAY_SIZE(p->weight); i++)
		total += p->weight[i];
	pick = (unsigned)(test_rand(seed) % total);
	for (i = 0; pick >= p->weight[i]; i++)
		pick -= p->weight[i];
	switch (i) {
	case ACT_CALL:
		sim_call(s, seed, sim_pick(seed, p->message_max), sim_pick(seed, p->response_max));
		break;
	case ACT_REPLY:
		if (s->nheld)
			sim_reply(s, sim_pick(seed, s->nheld - 1), seed);
		break;
	case ACT_DETACH:
		if (s->nheld)
			CHECK_EQ(chan_detach(s->held[sim_pick(seed, s->nheld - 1)]), 0);
		break;
	case ACT_RECV:
		sim_recv(s);
		break;
	case ACT_FLUSH:
		sim_flush(s, 64);
		break;
	case ACT_FLUSH_ONE:
		sim_flush(s, 1);
		break;
	case ACT_DELIVER:
		sim_deliver(s);
		break;
	case ACT_READ_DONE:
		sim_read_done(s);
		break;
	case ACT_LOSE:
		sim_lose(s, s->peer);
		break;
	}
}

/* Delivers and answers everything. */
static void drain(uint64_t *seed)
{
	struct side *s[2] = {&left, &right};

	for (int step = 0; step < 100000; step++) {
		bool idle = true;

		for (int i = 0; i < 2; i++) {
			while (s[i]->head != s[i]->tail)
				sim_deliver(s[i]), idle = false;
			while (s[i]->queue.head)
				sim_recv(s[i]), idle = false;
			while (s[i]->nheld)
				sim_reply(s[i], s[i]->nheld - 1, seed), idle = false;
			if (s[i]->reading)
				sim_read_done(s[i]), idle = false;
			sim_flush(s[i], 64);
			idle = idle && s[i]->head == s[i]->tail && !s[i]->reading;
		}
		if (idle)
			return;
	}
	CHECK(!"they never come to rest: credit batches answer each other");
}

static void check_rest(struct side *s)
{
	const struct credit *peer = &s->peer->ch.cr;

	CHECK_EQ(s->done, s->next_call);
	CHECK_EQ(s->ch.ncalls, 0);
	CHECK_EQ(chan_requests(&s->ch), 0);
	CHECK_EQ(s->ch.unasked, credit_out(&s->ch.cr));
	CHECK_EQ(s->ch.recv_mask + 1, peer->c);
	CHECK_EQ(s->ch.cr.kmax, peer->rmax);
	CHECK_EQ(credit_left(&s->ch.cr), credit_out(peer)); /* no credit was lost */
	CHECK(credit_left(&s->ch.cr) + peer->t > peer->rmax);
	CHECK_EQ(chan_consumer(&s->ch), s->ch.live.pos);
}

static void run(uint32_t blocks, uint32_t most, const struct plan *p, uint64_t seed)
{
	uint64_t at_a = test_rand(&seed) % blocks, at_b = test_rand(&seed) % blocks;
	uint32_t max = wire_payload(credit_message_max(most));

	if (test_rand(&seed) % 4 == 0) /* positions near 2^32 bytes, and near 2^63 bytes */
		at_a += (1ull << 27) - blocks, at_b += (1ull << 58) - blocks;
	sim_open_growing(&left, &right, blocks, most, at_a, at_b, 2 * p->calls + 16);
	for (int i = 0; i < 4000; i++) {
		struct side *s = test_rand(&seed) % 2 ? &left : &right;

		act(s, p, &seed);
		if (s->next_call >= p->calls)
			break;
	}
	drain(&seed);
	check_rest(&left);
	check_rest(&right);
	/* Both sides make calls of the largest size at the same time, a few times. */
	for (int i = 0; i < 8; i++)
		for (int tries = 0; sim_call(i % 2 ? &right : &left, &seed, max, max); tries++) {
			CHECK(tries < 10);
			drain(&seed);
		}
	drain(&seed);
	check_rest(&left);
	check_rest(&right);
	CHECK_EQ(left.ch.cr.c, most);
	CHECK_EQ(right.ch.cr.c, most);
	sim_close(&left, &right);
}

/* growing() sets the sizes. The columns of the weights, in the order of enum action, without LOSE:
 *                call reply detach recv flush flush-one deliver read-done */
static const struct plan plans[] = {
	{0, 0, 1500, {4, 4, 1, 4, 4, 0, 4, 1}}, /* about equal weights */
	{0, 0, 1500, {9, 1, 0, 2, 2, 0, 2, 1}}, /* calls pile up */
	{0, 0, 1500, {4, 1, 1, 4, 4, 0, 4, 0}}, /* requests are held for long, no READ completes */
	{0, 0, 1500, {4, 4, 0, 4, 0, 4, 1, 1}}, /* one batch per flush, few deliveries */
	{0, 0, 1500, {30, 20, 1, 20, 1, 0, 2, 1}}, /* large batches */
};

static void growing(uint32_t blocks, uint32_t most, bool losses, int n)
{
	uint64_t seed = test_seed();
	uint32_t max = wire_payload(credit_message_max(most));

	for (int i = 0; i < n * TIMES / SCALE; i++) {
		struct plan p = plans[(size_t)i % ARRAY_SIZE(plans)];
		uint64_t mine = seed + (uint64_t)i;

		p.weight[ACT_LOSE] = losses;
		/* A third of the schedules have short requests, half have short responses. */
		p.message_max = i % 3 == 0 && max > 40 ? 40 : max;
		p.response_max = i % 2 == 0 && max > 40 ? 40 : max;
		run(blocks, most, &p, mine);
	}
}

static void schedules(uint32_t blocks, int n)
{
	growing(blocks, blocks, false, n);
}

/* Arguments: blocks of a ring, number of schedules. */
TEST_WITH(ring_of_8_blocks, schedules, 8, 2000);
TEST_WITH(ring_of_16_blocks, schedules, 16, 2000);
TEST_WITH(ring_of_64_blocks, schedules, 64, 2000);
TEST_WITH(ring_of_4_kib, schedules, 128, 2000);
TEST_WITH(ring_of_32_kib, schedules, 1024, 300);

/* Arguments: first and largest blocks of a ring, whether connections are lost, number of
 * schedules. */
TEST_WITH(lost_connections, growing, 64, 64, true, 300);
TEST_WITH(rings_grow, growing, 8, 64, false, 300);
TEST_WITH(rings_grow_often, growing, 8, 1024, false, 60);
TEST_WITH(rings_grow_over_losses, growing, 16, 256, true, 400);

/* Only one side calls; the other sends only replies and flow control. */
TEST(one_direction)
{
	uint64_t seed = test_seed();
	uint32_t max = wire_payload(credit_message_max(128));

	sim_open(&left, &right, 128, 5, 77, 100000);
	while (left.next_call < 100000) {
		while (!sim_call(&left, &seed, sim_pick(&seed, max), sim_pick(&seed, 40)))
			;
		drain(&seed);
	}
	check_rest(&left);
	check_rest(&right);
	CHECK(right.reads + left.reads > 0);
	sim_close(&left, &right);
}

/* While the right side holds the oldest request, its own calls finally return -ENOBUFS or -EAGAIN;
 * after the release they succeed again. */
TEST(a_held_request)
{
	uint64_t seed = test_seed();
	int rc = 0;

	sim_open(&left, &right, 128, 0, 0, 100000);
	CHECK_EQ(sim_call(&left, &seed, 100, 100), 0);
	sim_flush(&left, 64);
	sim_deliver(&left);
	sim_recv(&right);
	CHECK_EQ(right.nheld, 1);
	for (int i = 0; i < 100000; i++) {
		rc = sim_call(&right, &seed, 64, 64);
		sim_flush(&right, 64);
		sim_deliver(&right);
		sim_read_done(&right);
		sim_recv(&left);
		if (left.nheld)
			sim_reply(&left, 0, &seed);
		sim_flush(&left, 64);
		sim_deliver(&left);
		sim_read_done(&left);
		if (rc && i > 1000)
			break;
	}
	CHECK(rc == -ENOBUFS || rc == -EAGAIN);
	CHECK(right.done > 0);
	drain(&seed);
	check_rest(&left);
	check_rest(&right);
	CHECK_EQ(sim_call(&right, &seed, 64, 64), 0);
	drain(&seed);
	sim_close(&left, &right);
}

/* The right side calls whenever it can, between each reply and the flush that would return credit;
 * the left side must be able to call nevertheless. */
TEST(greedy_peer_starves_nobody)
{
	uint64_t seed = test_seed(), last = 0;

	sim_open(&left, &right, 64, 0, 0, 1 << 20);
	for (int round = 0; round < 2000; round++) {
		sim_call(&left, &seed, 20, 116);
		sim_flush(&left, 64);
		sim_deliver(&left);
		while (right.queue.head)
			sim_recv(&right);
		while (right.nheld)
			sim_reply(&right, 0, &seed);
		while (!sim_call(&right, &seed, 244, 20)) /* large, so that they fill the ring */
			;
		for (int i = 0; i < 2; i++) {
			struct side *s = i ? &left : &right;

			sim_flush(s, 64);
			while (s->head != s->tail)
				sim_deliver(s);
			sim_read_done(s);
		}
		while (left.queue.head)
			sim_recv(&left);
		if (left.nheld) /* one by one, so that the ring stays full */
			sim_reply(&left, 0, &seed);
		if (round % 100 == 99) {
			CHECK(left.done > last);
			last = left.done;
		}
	}
	drain(&seed);
	sim_close(&left, &right);
}
