/* SPDX-License-Identifier: MIT */
/* Rails over TCP whose connections are lost, alone and beside adapters (TENT_RAILS). */
#include <sched.h>

#include "cut.h"
#include "duo.h"

#define LEN (16 * MIB) /* more than the buffers of the sockets hold */

static uint64_t seed;

static bool is_control(void *arg, int port)
{
	return cut_control_port(d.text) == port;
}

/*
 * Disconnects one connection, or all. Returns the number of those that were found: the engine
 * itself closes the other connections of a rail that has failed.
 */
static uint32_t cut(bool all)
{
	uint32_t n = 0;

	for (int fd = 0; fd < CUT_FDS && (all || !n); fd++)
		n += cut_fd(fd, is_control, NULL);
	return n;
}

/* Returns the sums of the statistics of the rails over TCP. */
static struct tent_rail_stats sums(void)
{
	struct tent_rail_stats all = {.up = true}, r;

	for (uint32_t i = 0; !tent_rail_get_stats(d.s, i, &r, sizeof(r)); i++) {
		if (strncmp(r.name, "tcp", 3))
			continue;
		all.up &= r.up;
		all.bytes += r.bytes;
		all.inflight += r.inflight;
		all.exclusions += r.exclusions;
	}
	return all;
}

static void open_well(void)
{
	duo_open(&(struct duo_attr){.len = LEN});
	duo_random(&seed, d.mine, d.len);
	duo_random(&seed, d.theirs, d.len);
	CHECK_EQ(sums().exclusions, 0);
}

/*
 * Starts a request, part of which is under way over TCP. It does not end, because the peer is
 * stopped.
 */
static struct tent_batch *start_stopped(enum tent_op op)
{
	struct tent_batch *b;

	duo_stop();
	b = duo_start(op, 0, d.len);
	CHECK(sums().inflight);
	return b;
}

/* Lets the stopped peer go on. The request succeeds, and all rails come back. */
static void ends_well(struct tent_batch *b)
{
	CHECK_EQ(kill(d.child, SIGCONT), 0);
	CHECK_EQ(duo_end(b), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	while (!sums().up)
		CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	duo_random(&seed, d.mine, d.len);
	duo_move_all(TENT_WRITE, 3);
	duo_ask('e');
}

/*
 * The request waits until the peer has closed its end, so that no byte arrives after the end of the
 * request.
 */
static void one_is_cut(enum tent_op op)
{
	struct tent_batch *b;

	open_well();
	b = start_stopped(op);
	CHECK_EQ(cut(false), 1);
	while (sums().up)
		sched_yield(); /* the engine's thread notices the loss */
	CHECK_EQ(sums().exclusions, 1);
	CHECK_EQ(tent_wait(b, 30), -ETIMEDOUT);
	CHECK_EQ(duo_status(b).state, TENT_PENDING);
	ends_well(b);
	CHECK_EQ(sums().exclusions, 1);
}

TEST_WITH(a_write_loses_a_connection, one_is_cut, TENT_WRITE);
TEST_WITH(a_read_loses_a_connection, one_is_cut, TENT_READ);

TEST(all_connections_are_lost)
{
	struct tent_batch *b;

	open_well();
	b = start_stopped(TENT_WRITE);
	CHECK(cut(true));
	ends_well(b);
	CHECK_EQ(sums().exclusions, duo_rails("tcp:") + duo_rails("mix:"));
}

/* The rail is idle when its connections are lost. The next request detects the loss. */
TEST(an_idle_rail_is_lost)
{
	open_well();
	duo_stop();
	CHECK(cut(true));
	ends_well(duo_start(TENT_WRITE, 0, d.len));
	CHECK_EQ(sums().exclusions, duo_rails("tcp:") + duo_rails("mix:"));
}

TEST(a_cancelled_request_loses_a_connection)
{
	struct tent_batch *b;

	open_well();
	b = start_stopped(TENT_WRITE);
	CHECK_EQ(cut(false), 1);
	tent_cancel(b);
	CHECK_EQ(duo_status(b).state, TENT_PENDING);
	CHECK_EQ(kill(d.child, SIGCONT), 0);
	CHECK_EQ(duo_end(b), -ECANCELED);
	memset(d.theirs, 0x5a, d.len);
	CHECK_EQ(duo_ask('e'), 0);
	test_filled(d.theirs, d.len, 0x5a);
}

/* The peer's process is stopped for longer than an adapter may be silent. That is no outage. */
TEST(a_peer_that_is_stopped)
{
	struct tent_batch *b;

	open_well();
	b = start_stopped(TENT_WRITE);
	CHECK_EQ(tent_wait(b, 80), -ETIMEDOUT);
	CHECK_EQ(sums().exclusions, 0);
	ends_well(b);
	CHECK_EQ(sums().exclusions, 0);
}

/* The request has parts. A sanitizer finds memory of it that is left. */
TEST(an_engine_ends_before_a_request)
{
	duo_open(&(struct duo_attr){.len = LEN, .parts = MIB});
	start_stopped(TENT_WRITE);
	tent_destroy(d.t);
	d.t = NULL;
	d.s = NULL;
	CHECK_EQ(kill(d.child, SIGCONT), 0);
}

int main(int argc, char **argv)
{
	seed = test_seed();
	return test_main(argc, argv);
}
