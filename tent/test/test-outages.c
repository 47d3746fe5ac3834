/* SPDX-License-Identifier: MIT */
/* Rails that fail under way (rails4.topology): bytes are right, and each outage counts once. */
#include <sched.h>

#include "duo.h"

static uint64_t seed;

static void ctl(const char *words)
{
	char command[300];

	snprintf(command, sizeof(command), "%s %s", getenv("SOFTHCACTL"), words);
	CHECK_EQ(system(command), 0);
}

static struct tent_rail_stats rail(struct duo *d, uint32_t i)
{
	struct tent_rail_stats r;

	CHECK_EQ(tent_rail_stats(d->s, i, &r), 0);
	return r;
}

static void open_well(struct duo *d)
{
	duo_open(d, &(struct duo_attr){.len = 8 * MIB});
	duo_random(&seed, d->mine, d->len);
	CHECK_EQ(duo_move(d, TENT_WRITE, 0, d->len, 0), 0);
	duo_random(&seed, d->mine, d->len);
}

/* The rail comes back by itself, and carries something again. */
static void await_return(struct duo *d, uint32_t i)
{
	uint64_t before = rail(d, i).bytes;

	while (rail(d, i).bytes == before)
		CHECK_EQ(duo_move(d, TENT_WRITE, 0, d->len, 0), 0);
	CHECK(rail(d, i).up);
	CHECK(!memcmp(d->mine, d->theirs, d->len));
}

/* One message fails, what follows on the QP is flushed: that is one outage, not many. */
static void an_error_completion(enum tent_op op, const char *opcode)
{
	char rule[200];
	struct duo d;

	open_well(&d);
	snprintf(rule, sizeof(rule),
		"fault add device=mlx5_1 opcode=%s nth=3 action=error syndrome=remote_op", opcode);
	ctl(rule);
	if (op == TENT_READ)
		duo_random(&seed, d.theirs, d.len);
	CHECK_EQ(duo_move(&d, op, 0, d.len, 9), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	CHECK_EQ(duo_ask(&d, 'n'), 9);
	CHECK_EQ(rail(&d, 1).exclusions, 1);
	for (uint32_t i = 0; i < 4; i++)
		CHECK_EQ(rail(&d, i).inflight, 0);
	ctl("fault clear");
	await_return(&d, 1);
	CHECK_EQ(rail(&d, 1).exclusions, 1);
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
	ctl("fault add device=mlx5_0 opcode=write nth=2 bytes=1000 action=partial "
	    "syndrome=remote_op");
	CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 0), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	CHECK_EQ(rail(&d, 0).exclusions, 1);
	ctl("fault clear");
	await_return(&d, 0);
	duo_close(&d);
}

static void a_port_goes_down(void)
{
	struct duo d;

	open_well(&d);
	ctl("link mlx5_2 down");
	while (rail(&d, 2).up)
		sched_yield(); /* the engine's thread takes the event */
	CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 3), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	CHECK_EQ(duo_ask(&d, 'n'), 3);
	CHECK_EQ(rail(&d, 2).exclusions, 1);
	ctl("link mlx5_2 up");
	await_return(&d, 2);
	CHECK_EQ(rail(&d, 2).exclusions, 1);
	duo_close(&d);
}

/* Nothing comes, no error either: the engine's own limit ends it, long before the adapter's. */
static void a_silent_rail(void)
{
	struct duo d;

	open_well(&d);
	ctl("fault add device=mlx5_3 opcode=write nth=2 action=delay delay_ns=60000000000");
	CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 4), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	CHECK_EQ(duo_ask(&d, 'n'), 4);
	CHECK_EQ(rail(&d, 3).exclusions, 1);
	ctl("fault clear");
	await_return(&d, 3);
	CHECK_EQ(rail(&d, 3).exclusions, 1);
	duo_close(&d);
}

/* The immediate fails, not a slice: it goes over another rail, and is counted once. */
static void a_notice_that_fails(void)
{
	struct duo d;

	open_well(&d);
	ctl("fault add opcode=write_imm nth=1 action=error syndrome=remote_op");
	for (uint16_t i = 1; i <= 5; i++) {
		CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, i), 0);
		CHECK_EQ(duo_ask(&d, 'n'), i);
	}
	duo_ask(&d, 'e');
	ctl("fault clear");
	duo_close(&d);
}

static void no_rail_is_left(void)
{
	struct tent_status status;
	struct tent_request r;
	struct tent_batch *b;
	struct duo d;
	int err;

	open_well(&d);
	ctl("fault add opcode=write count=0 action=error syndrome=remote_op");
	r = duo_request(&d, TENT_WRITE, 0, d.len);
	CHECK_EQ(tent_submit(d.t, &r, 1, &b), 0);
	CHECK_EQ(tent_wait(b, -1), -ENETUNREACH);
	tent_batch_status(b, &status);
	CHECK_EQ(status.state, TENT_FAILED);
	CHECK_EQ(tent_batch_free(b), 0);
	ctl("fault clear");
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
		TEST(a_notice_that_fails),
		TEST(no_rail_is_left),
	};

	seed = test_seed();
	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
