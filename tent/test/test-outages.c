/* SPDX-License-Identifier: MIT */
/* Rails that fail under way (rails4.topology): bytes are right, and each outage counts once. */
#include "outage.h"
#include "support/hcacall.h"

static uint64_t seed;

static void open_well(void)
{
	duo_open(&(struct duo_attr){.len = 8 * MIB});
	duo_random(&seed, d.mine, d.len);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	duo_random(&seed, d.mine, d.len);
}

/* Waits until rail @i has come back by itself, and carries slices again. */
static void await_return(uint32_t i)
{
	uint64_t before = outage_rail(i).bytes;

	while (outage_rail(i).bytes == before)
		CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	CHECK(outage_rail(i).up);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
}

/* Ends a case: checks that rail @i had one outage, and carries slices again. */
static void ends_well(uint32_t i)
{
	CHECK_EQ(outage_rail(i).exclusions, 1);
	outage_ctl("fault clear");
	await_return(i);
	CHECK_EQ(outage_rail(i).exclusions, 1);
	duo_ask('e');
}

/* One message fails, and the later ones on the QP are flushed: that is one outage, not many. */
static void an_error_completion(enum tent_op op, const char *opcode)
{
	open_well();
	outage_ctl("fault add device=mlx5_1 opcode=%s nth=3 action=error syndrome=remote_op",
		opcode);
	if (op == TENT_READ)
		duo_random(&seed, d.theirs, d.len);
	duo_move_all(op, 9);
	for (uint32_t i = 0; i < 4; i++)
		CHECK_EQ(outage_rail(i).inflight, 0);
	ends_well(1);
}

TEST(errors_move_slices)
{
	an_error_completion(TENT_WRITE, "write");
	an_error_completion(TENT_READ, "read");
}

/* Part of a slice is placed before it fails. */
TEST(a_slice_that_was_placed_in_part)
{
	open_well();
	outage_ctl("fault add device=mlx5_0 opcode=write nth=2 bytes=1000 action=partial "
		   "syndrome=remote_op");
	duo_move_all(TENT_WRITE, 0);
	ends_well(0);
}

TEST(a_port_goes_down)
{
	open_well();
	outage_ctl("link mlx5_2 down");
	while (outage_rail(2).up)
		sched_yield(); /* the engine's thread handles the event */
	duo_move_all(TENT_WRITE, 3);
	CHECK_EQ(outage_rail(2).exclusions, 1);
	outage_ctl("link mlx5_2 up");
	ends_well(2);
}

/* Neither data nor an error comes: the engine's own limit ends the wait, before the adapter's. */
TEST(a_silent_rail)
{
	open_well();
	outage_ctl("fault add device=mlx5_3 opcode=write nth=2 action=delay delay_ns=60000000000");
	duo_move_all(TENT_WRITE, 4);
	ends_well(3);
}

/* Returns the number of WRITEs that the network first held and then placed or lost. */
static uint64_t late_ended(void)
{
	struct softhca_counters c = hca_counters();

	return c.late_placed + c.late_lost;
}

/*
 * A WRITE is under way when its rail is excluded. After the end of the request the WRITE must not
 * change the peer's memory. A WRITE that arrives after the next probe proves nothing, because the
 * peer makes a new queue pair for the probe. So the rail first fails several times, until the time
 * to its next probe is longer than the time for which the network holds the WRITE. False: nothing
 * is proved, because the WRITE has not excluded its rail: it ended as usual, and is not counted.
 */
static bool nothing_lands_now(const char *syndrome)
{
	uint64_t before, ended, end;

	open_well();
	before = hca_counters().late_held;
	ended = late_ended();
	outage_ctl("fault add device=mlx5_1 opcode=write count=9 action=error syndrome=remote_op");
	outage_ctl("fault add device=mlx5_1 opcode=write nth=2 action=late delay_ns=150000000%s",
		syndrome);
	do {
		duo_random(&seed, d.mine, d.len);
		duo_move_all(TENT_WRITE, 5);
	} while (hca_counters().late_held == before);
	memset(d.theirs, 0x5a, d.len);
	end = clock_ns() + 2000 * NSEC_PER_MSEC;
	while (late_ended() == ended && clock_ns() < end)
		sched_yield();
	test_filled(d.theirs, d.len, 0x5a);
	ends_well(1);
	return late_ended() != ended;
}

static void nothing_lands_later(const char *syndrome)
{
	while (!nothing_lands_now(syndrome))
		; /* on a loaded machine a rail may be excluded too late */
}

TEST(a_write_that_comes_late)
{
	nothing_lands_later(" syndrome=retry_exceeded");
	nothing_lands_later(""); /* the failure is not reported */
}

/* The peer, which is stopped, has not closed its end: the WRITE may still arrive. */
TEST(no_end_before_the_peer_has_closed)
{
	struct tent_batch *b;
	uint64_t before;

	open_well();
	before = late_ended();
	outage_ctl("fault add device=mlx5_2 opcode=write nth=2 action=late delay_ns=100000000 "
		   "syndrome=retry_exceeded");
	duo_stop();
	b = duo_start(TENT_WRITE, 0, d.len);
	do {
		CHECK_EQ(duo_status(b).state, TENT_PENDING);
		sched_yield();
	} while (late_ended() == before);
	CHECK_EQ(kill(d.child, SIGCONT), 0);
	CHECK_EQ(duo_end(b), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	outage_ctl("fault clear");
}

/* The device is lost for good, for both sides: from then on the other rails carry all slices. */
TEST(a_device_that_dies)
{
	open_well();
	outage_ctl("fault add device=mlx5_1 opcode=write nth=2 action=device_fatal");
	for (uint16_t i = 1; i <= 3; i++) {
		duo_move_all(TENT_WRITE, i);
		CHECK_EQ(duo_move(TENT_READ, 0, d.len, 0), 0);
		CHECK(!outage_rail(1).up);
		CHECK_EQ(outage_rail(1).exclusions, 1);
		duo_random(&seed, d.mine, d.len);
	}
	outage_ctl("fault clear");
}

/* The mark of a notice fails (notice.h): it is sent over another rail, and is counted once. */
TEST(a_notice_that_fails)
{
	open_well();
	outage_ctl("fault add opcode=send nth=1 action=error syndrome=remote_op");
	for (uint16_t i = 1; i <= 5; i++)
		duo_move_all(TENT_WRITE, i);
	duo_ask('e');
	outage_ctl("fault clear");
}

/* A rail carries slices but loses a mark: the silence is detected; another rail gets the mark. */
TEST(a_silent_mark)
{
	open_well();
	outage_ctl("fault add device=mlx5_2 opcode=send nth=1 action=delay delay_ns=60000000000");
	duo_move_all(TENT_WRITE, 7);
	ends_well(2);
}

/*
 * Marks that no rail carries end their requests with an error. Later requests in the same slots
 * notify the peer as usual, however many have failed before.
 */
TEST(notices_after_some_that_failed)
{
	uint16_t value = 1;

	open_well();
	for (int i = 0; i < 12; i++) {
		uint16_t n = i % 3 + 1;

		outage_ctl("fault add opcode=send count=0 action=error syndrome=remote_op");
		for (uint16_t failed = 0; failed < n; failed++)
			CHECK(duo_move(TENT_WRITE, 0, 4096, 60000) < 0);
		outage_ctl("fault clear");
		for (int slot = 0; slot < 9; slot++, value++) {
			CHECK_EQ(duo_move(TENT_WRITE, 0, 4096, value), 0);
			CHECK_EQ(duo_ask('n'), value);
		}
	}
	duo_ask('e');
}

/* All rails have an outage at the same time: the request waits until one is up again. */
TEST(all_rails_fail_and_come_back)
{
	struct tent_batch *b;
	int rule;

	open_well();
	rule = hca_fault("count=0 action=error syndrome=remote_op");
	b = duo_start(TENT_WRITE, 0, d.len);
	for (uint32_t i = 0; i < 4; i++) {
		while (outage_rail(i).up)
			sched_yield(); /* a rail that is down stays down, because its probes fail */
		CHECK_EQ(outage_rail(i).exclusions, 1);
	}
	CHECK_EQ(duo_status(b).state, TENT_PENDING);
	CHECK(HCA(softhca_fault_remove)(rule) >= 4);
	CHECK_EQ(duo_end(b), 0);
	duo_move_all(TENT_WRITE, 6);
}

TEST(no_rail_is_left)
{
	struct tent_batch *b;
	int err;

	duo_open(&(struct duo_attr){.len = 8 * MIB, .rail_wait_ms = -1});
	duo_random(&seed, d.mine, d.len);
	outage_ctl("fault add opcode=write count=0 action=error syndrome=remote_op");
	b = duo_start(TENT_WRITE, 0, d.len);
	CHECK_EQ(tent_wait(b, -1), -ENETUNREACH);
	CHECK_EQ(duo_status(b).state, TENT_FAILED);
	CHECK_EQ(tent_batch_free(b), 0);
	outage_ctl("fault clear");
	do {
		err = duo_move(TENT_WRITE, 0, d.len, 0);
		CHECK(!err || err == -ENETUNREACH);
		sched_yield();
	} while (err);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
}

int main(int argc, char **argv)
{
	seed = test_seed();
	return test_main(argc, argv);
}
