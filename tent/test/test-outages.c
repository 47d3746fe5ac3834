/* SPDX-License-Identifier: MIT */
/* Rails that fail under way (rails4.topology): bytes are right, and each outage counts once. */
#include <dlfcn.h>

#include "outage.h"
#include "softhca.h"

static uint64_t seed;

static void open_well(struct duo *d)
{
	duo_open(d, &(struct duo_attr){.len = 8 * MIB});
	duo_random(&seed, d->mine, d->len);
	CHECK_EQ(duo_move(d, TENT_WRITE, 0, d->len, 0), 0);
	duo_random(&seed, d->mine, d->len);
}

/* The rail comes back by itself, and carries slices again. */
static void await_return(struct duo *d, uint32_t i)
{
	uint64_t before = outage_rail(d, i).bytes;

	while (outage_rail(d, i).bytes == before)
		CHECK_EQ(duo_move(d, TENT_WRITE, 0, d->len, 0), 0);
	CHECK(outage_rail(d, i).up);
	CHECK(!memcmp(d->mine, d->theirs, d->len));
}

/* One message fails, and the later ones on the QP are flushed: that is one outage, not many. */
static void an_error_completion(enum tent_op op, const char *opcode)
{
	char rule[200];
	struct duo d;

	open_well(&d);
	snprintf(rule, sizeof(rule),
		"fault add device=mlx5_1 opcode=%s nth=3 action=error syndrome=remote_op", opcode);
	outage_ctl(rule);
	if (op == TENT_READ)
		duo_random(&seed, d.theirs, d.len);
	CHECK_EQ(duo_move(&d, op, 0, d.len, 9), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	CHECK_EQ(duo_ask(&d, 'n'), 9);
	CHECK_EQ(outage_rail(&d, 1).exclusions, 1);
	for (uint32_t i = 0; i < 4; i++)
		CHECK_EQ(outage_rail(&d, i).inflight, 0);
	outage_ctl("fault clear");
	await_return(&d, 1);
	CHECK_EQ(outage_rail(&d, 1).exclusions, 1);
	duo_ask(&d, 'e');
	duo_close(&d);
}

static void errors_move_slices(void)
{
	an_error_completion(TENT_WRITE, "write");
	an_error_completion(TENT_READ, "read");
}

/* Part of a slice is placed before it fails. */
static void a_slice_that_was_placed_in_part(void)
{
	struct duo d;

	open_well(&d);
	outage_ctl("fault add device=mlx5_0 opcode=write nth=2 bytes=1000 action=partial "
		   "syndrome=remote_op");
	CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 0), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	CHECK_EQ(outage_rail(&d, 0).exclusions, 1);
	outage_ctl("fault clear");
	await_return(&d, 0);
	duo_close(&d);
}

static void a_port_goes_down(void)
{
	struct duo d;

	open_well(&d);
	outage_ctl("link mlx5_2 down");
	while (outage_rail(&d, 2).up)
		sched_yield(); /* the engine's thread takes the event */
	CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 3), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	CHECK_EQ(duo_ask(&d, 'n'), 3);
	CHECK_EQ(outage_rail(&d, 2).exclusions, 1);
	outage_ctl("link mlx5_2 up");
	await_return(&d, 2);
	CHECK_EQ(outage_rail(&d, 2).exclusions, 1);
	duo_close(&d);
}

/* Neither data nor an error comes: the engine's own limit ends the wait, before the adapter's. */
static void a_silent_rail(void)
{
	struct duo d;

	open_well(&d);
	outage_ctl("fault add device=mlx5_3 opcode=write nth=2 action=delay delay_ns=60000000000");
	CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 4), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	CHECK_EQ(duo_ask(&d, 'n'), 4);
	CHECK_EQ(outage_rail(&d, 3).exclusions, 1);
	outage_ctl("fault clear");
	await_return(&d, 3);
	CHECK_EQ(outage_rail(&d, 3).exclusions, 1);
	duo_close(&d);
}

/* The HCA's counters of this process. */
static struct softhca_counters hca(void)
{
	int (*self)(struct softhca_counters *);
	struct softhca_counters c;

	*(void **)&self = dlsym(RTLD_DEFAULT, "softhca_counters_self");
	CHECK(self);
	CHECK_EQ(self(&c), 0);
	return c;
}

/* WRITEs that the network held back and that have come to their end. */
static uint64_t late_ended(void)
{
	struct softhca_counters c = hca();

	return c.late_placed + c.late_lost;
}

/*
 * A WRITE is under way when its rail is given up. After the end of the request the WRITE must not
 * change the peer's memory. The rail fails several times before, so that the time to its next
 * probe, for which the peer makes a new queue pair in any case, is longer than the network holds
 * the WRITE.
 */
static void nothing_lands_later(const char *syndrome)
{
	uint64_t before, ended, end;
	char rule[200];
	struct duo d;

	open_well(&d);
	before = hca().late_held;
	ended = late_ended();
	outage_ctl("fault add device=mlx5_1 opcode=write count=9 action=error syndrome=remote_op");
	snprintf(rule, sizeof(rule),
		"fault add device=mlx5_1 opcode=write nth=2 action=late delay_ns=150000000%s",
		syndrome);
	outage_ctl(rule);
	do {
		duo_random(&seed, d.mine, d.len);
		CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 5), 0);
		CHECK(!memcmp(d.mine, d.theirs, d.len));
		CHECK_EQ(duo_ask(&d, 'n'), 5);
	} while (hca().late_held == before);
	memset(d.theirs, 0x5a, d.len);
	/* One that the rail was not given up for ends as any other, and is not counted. */
	end = clock_ns() + 2000 * NSEC_PER_MSEC;
	while (late_ended() == ended && clock_ns() < end)
		sched_yield();
	for (size_t i = 0; i < d.len; i++)
		CHECK_EQ(d.theirs[i], 0x5a);
	CHECK_EQ(outage_rail(&d, 1).exclusions, 1);
	outage_ctl("fault clear");
	await_return(&d, 1);
	duo_close(&d);
}

static void a_write_that_comes_late(void)
{
	nothing_lands_later(" syndrome=retry_exceeded");
	nothing_lands_later(""); /* the failure is not reported */
}

/* The peer, which is stopped, has not closed its end: the WRITE may still land. */
static void no_end_before_the_peer_has_closed(void)
{
	uint64_t before;
	struct tent_status status;
	struct tent_request r;
	struct tent_batch *b;
	struct duo d;
	int state;

	open_well(&d);
	before = late_ended();
	outage_ctl("fault add device=mlx5_2 opcode=write nth=2 action=late delay_ns=100000000 "
		   "syndrome=retry_exceeded");
	CHECK_EQ(kill(d.child, SIGSTOP), 0);
	CHECK_EQ(waitpid(d.child, &state, WUNTRACED), d.child);
	CHECK(WIFSTOPPED(state));
	r = duo_request(&d, TENT_WRITE, 0, d.len);
	CHECK_EQ(tent_submit(d.t, &r, 1, &b), 0);
	do {
		tent_batch_status(b, &status, sizeof(status));
		CHECK_EQ(status.state, TENT_PENDING);
		sched_yield();
	} while (late_ended() == before);
	CHECK_EQ(kill(d.child, SIGCONT), 0);
	CHECK_EQ(tent_wait(b, -1), 0);
	CHECK_EQ(tent_batch_free(b), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	outage_ctl("fault clear");
	duo_close(&d);
}

/* The device is lost for good, for both sides: the others carry everything from then on. */
static void a_device_that_dies(void)
{
	struct duo d;

	open_well(&d);
	outage_ctl("fault add device=mlx5_1 opcode=write nth=2 action=device_fatal");
	for (uint16_t i = 1; i <= 3; i++) {
		CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, i), 0);
		CHECK(!memcmp(d.mine, d.theirs, d.len));
		CHECK_EQ(duo_ask(&d, 'n'), i);
		CHECK_EQ(duo_move(&d, TENT_READ, 0, d.len, 0), 0);
		CHECK(!outage_rail(&d, 1).up);
		CHECK_EQ(outage_rail(&d, 1).exclusions, 1);
		duo_random(&seed, d.mine, d.len);
	}
	outage_ctl("fault clear");
	duo_close(&d);
}

/* A mark fails, not a slice: the mark is sent over another rail, and is counted once. */
static void a_notice_that_fails(void)
{
	struct duo d;

	open_well(&d);
	outage_ctl("fault add opcode=send nth=1 action=error syndrome=remote_op");
	for (uint16_t i = 1; i <= 5; i++) {
		CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, i), 0);
		CHECK_EQ(duo_ask(&d, 'n'), i);
	}
	duo_ask(&d, 'e');
	outage_ctl("fault clear");
	duo_close(&d);
}

/* A rail carries slices but loses a mark: the silence is detected; another rail gets the mark. */
static void a_silent_mark(void)
{
	struct duo d;

	open_well(&d);
	outage_ctl("fault add device=mlx5_2 opcode=send nth=1 action=delay delay_ns=60000000000");
	CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 7), 0);
	CHECK_EQ(duo_ask(&d, 'n'), 7);
	duo_ask(&d, 'e');
	CHECK_EQ(outage_rail(&d, 2).exclusions, 1);
	outage_ctl("fault clear");
	await_return(&d, 2);
	duo_close(&d);
}

/*
 * Marks that no rail carries end their requests with an error. Later requests in the same slots
 * notify the peer as usual, however many have failed before.
 */
static void notices_after_some_that_failed(void)
{
	uint16_t value = 1;
	struct duo d;

	open_well(&d);
	for (int i = 0; i < 12; i++) {
		uint16_t n = i % 3 + 1;

		outage_ctl("fault add opcode=send count=0 action=error syndrome=remote_op");
		for (uint16_t failed = 0; failed < n; failed++)
			CHECK(duo_move(&d, TENT_WRITE, 0, 4096, 60000) < 0);
		outage_ctl("fault clear");
		for (int slot = 0; slot < 9; slot++, value++) {
			CHECK_EQ(duo_move(&d, TENT_WRITE, 0, 4096, value), 0);
			CHECK_EQ(duo_ask(&d, 'n'), value);
		}
	}
	duo_ask(&d, 'e');
	duo_close(&d);
}

/* Each rail has an outage at the same time: the request waits for one of them. */
static void all_rails_fail_and_come_back(void)
{
	struct duo d;

	open_well(&d);
	outage_ctl("fault add opcode=write count=4 action=error syndrome=remote_op");
	CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 6), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	CHECK_EQ(duo_ask(&d, 'n'), 6);
	outage_ctl("fault clear");
	duo_close(&d);
}

static void no_rail_is_left(void)
{
	struct tent_status status;
	struct tent_request r;
	struct tent_batch *b;
	struct duo d;
	int err;

	duo_open(&d, &(struct duo_attr){.len = 8 * MIB, .rail_wait_ms = -1});
	duo_random(&seed, d.mine, d.len);
	outage_ctl("fault add opcode=write count=0 action=error syndrome=remote_op");
	r = duo_request(&d, TENT_WRITE, 0, d.len);
	CHECK_EQ(tent_submit(d.t, &r, 1, &b), 0);
	CHECK_EQ(tent_wait(b, -1), -ENETUNREACH);
	tent_batch_status(b, &status, sizeof(status));
	CHECK_EQ(status.state, TENT_FAILED);
	CHECK_EQ(tent_batch_free(b), 0);
	outage_ctl("fault clear");
	do {
		err = duo_move(&d, TENT_WRITE, 0, d.len, 0);
		CHECK(!err || err == -ENETUNREACH);
		sched_yield();
	} while (err);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	duo_close(&d);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(errors_move_slices),
		TEST(a_slice_that_was_placed_in_part),
		TEST(a_port_goes_down),
		TEST(a_silent_rail),
		TEST(a_write_that_comes_late),
		TEST(no_end_before_the_peer_has_closed),
		TEST(a_device_that_dies),
		TEST(a_notice_that_fails),
		TEST(a_silent_mark),
		TEST(notices_after_some_that_failed),
		TEST(all_rails_fail_and_come_back),
		TEST(no_rail_is_left),
	};

	seed = test_seed();
	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
