/* SPDX-License-Identifier: MIT */
/*
 * The causes of outages (across.topology): mlx5_0 and mlx5_1 here, mlx5_4 and mlx5_5 at the peer,
 * so that each end of a path can be broken alone. Most tests break only rail 0. Rail 1 may stall
 * meanwhile, as rails do on a loaded machine or in the software HCA's chaos mode: then it is
 * excluded, and comes back.
 */
#include "outage.h"

#define TRIES 50 /* maximum number of repetitions of a test that a stall may disturb */
#define ARRIVE_NS (100 * NSEC_PER_MSEC) /* the time limit of the messages of blame.h */
#define FOUND_NS (10 * ARRIVE_NS)

static void open_mapped(const char *map)
{
	char near[700], far[300];
	const char *dir = getenv("TENT_TESTS");

	snprintf(near, sizeof(near), "{\"topology\": \"%s/near.json\"%s%s%s}", dir,
		map ? ", \"rail_map\": \"" : "", map ? map : "", map ? "\"" : "");
	snprintf(far, sizeof(far), "{\"topology\": \"%s/far.json\"}", dir);
	duo_open(&(struct duo_attr){.len = MIB,
		.config = near,
		.target_config = far,
		.rail_wait_ms = -1});
}

static void open_far(void)
{
	open_mapped(NULL);
	CHECK(!strcmp(outage_rail(0).remote, "mlx5_4"));
	CHECK(!strcmp(outage_rail(1).remote, "mlx5_5"));
	CHECK_EQ(outage_rail(0).fault, TENT_FAULT_NONE);
}

/*
 * Repeats a request until it succeeds. With rail_wait_ms -1 requests fail at once while both rails
 * are excluded.
 */
static void move_in_the_end(void)
{
	int err;

	do
		err = duo_move(TENT_WRITE, 0, d.len, 0);
	while (err == -ENETUNREACH);
	CHECK_EQ(err, 0);
}

/*
 * Waits for the cause of the outage of rail 0. Gives up if rail 1, which is needed to find the
 * cause, stalls, or after FOUND_NS: if both messages arrive too late, they count as lost, and the
 * cause stays unknown. Writes to *late_p whether a message may have been too late.
 */
static enum tent_fault await_fault(bool *late_p)
{
	enum tent_fault found;
	uint64_t begin;

	do {
		begin = clock_ns();
		duo_move(TENT_WRITE, 0, d.len, 0);
	} while (outage_rail(0).fault == TENT_FAULT_NONE);
	while (outage_rail(0).fault == TENT_FAULT_UNKNOWN && !outage_rail(1).exclusions &&
		clock_ns() - begin < FOUND_NS)
		sched_yield();
	found = outage_rail(0).fault;
	*late_p = clock_ns() - begin >= ARRIVE_NS;
	return found;
}

/*
 * True: the result is valid, because rail 1 did not stall, and at most one message was too late. If
 * the path is the cause, both messages can arrive; then one that is too late blames an end wrongly.
 */
static bool is_found_now(const char *what, enum tent_fault fault, void (*then)(void))
{
	enum tent_fault found;
	bool counts, late;

	open_far();
	outage_ctl("%s", what);
	found = await_fault(&late);
	counts = found != TENT_FAULT_UNKNOWN && !outage_rail(1).exclusions;
	if (late && fault == TENT_FAULT_PATH)
		counts &= found == fault;
	if (counts) {
		CHECK_EQ(found, fault);
		CHECK_EQ(outage_rail(0).exclusions, 1);
		if (then)
			then();
	}
	move_in_the_end();
	outage_ctl("fault clear");
	outage_ctl("link mlx5_0 up");
	outage_ctl("link mlx5_4 up");
	return counts;
}

/* @then may be NULL. */
static void is_found(const char *what, enum tent_fault fault, void (*then)(void))
{
	uint32_t tries = 0;

	while (!is_found_now(what, fault, then))
		CHECK(++tries < TRIES);
}

TEST(own_port)
{
	is_found("fault add device=mlx5_0 count=0 action=error", TENT_FAULT_OWN_PORT, NULL);
	is_found("link mlx5_0 down", TENT_FAULT_OWN_PORT, NULL);
}

TEST_WITH(path, is_found, "fault add device=mlx5_0 peer=mlx5_4 count=0 action=error",
	TENT_FAULT_PATH, NULL);

TEST(peer_port)
{
	is_found("fault add peer=mlx5_4 count=0 action=error", TENT_FAULT_PEER_PORT, NULL);
	is_found("link mlx5_4 down", TENT_FAULT_PEER_PORT, NULL);
}

/* The messages that test the ends get no reply before their time limit. */
TEST(nobody_answers)
{
	is_found("fault add device=mlx5_0 count=0 action=delay delay_ns=600000000000",
		TENT_FAULT_OWN_PORT, NULL);
	is_found("fault add peer=mlx5_4 count=0 action=delay delay_ns=600000000000",
		TENT_FAULT_PEER_PORT, NULL);
}

/* The causes of the first @n rails stay unknown for longer than it takes to find out. */
static void stay_unknown(uint32_t n)
{
	uint64_t end = clock_ns() + 3 * ARRIVE_NS;

	while (clock_ns() < end) {
		for (uint32_t i = 0; i < n; i++)
			CHECK_EQ(outage_rail(i).fault, TENT_FAULT_UNKNOWN);
	}
}

/*
 * Both rails here are paired with one rail of the peer. The peer has no other rail in use, so no
 * message can test our own port.
 */
TEST(a_shared_rail)
{
	char map[300];

	snprintf(map, sizeof(map), "%s/shared.map", getenv("TENT_TESTS"));
	open_mapped(map);
	outage_ctl("fault add device=mlx5_0 peer=mlx5_4 count=0 action=error");
	while (outage_rail(0).fault == TENT_FAULT_NONE)
		move_in_the_end();
	stay_unknown(1);
	outage_ctl("fault clear");
}

/* True: the result is valid, because no rail stalled before the peer could refuse. */
static bool is_refused_now(void)
{
	enum tent_fault found;

	open_far();
	outage_ctl("fault add opcode=write count=0 action=error syndrome=remote_access");
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), -ENETUNREACH);
	found = outage_rail(0).fault;
	CHECK(found == TENT_FAULT_REFUSED || found == TENT_FAULT_UNKNOWN);
	outage_ctl("fault clear");
	return found == TENT_FAULT_REFUSED;
}

TEST(refused)
{
	uint32_t tries = 0;

	while (!is_refused_now())
		CHECK(++tries < TRIES);
}

/* No other rail is left over which a message could test a port: the cause stays unknown. */
TEST(unknown)
{
	open_far();
	outage_ctl("fault add count=0 action=error");
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), -ENETUNREACH);
	stay_unknown(2);
	outage_ctl("fault clear");
}

static void show(void)
{
	AT_END(end_free) char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	CHECK_EQ(tent_stats_print(d.t, f), 0);
	CHECK(strstr(text, "peer's port"));
	CHECK_EQ(tent_stats_json(d.t, f), 0);
	fclose(f);
	CHECK(strstr(text, "\"fault\":\"peer's port\""));
	CHECK(outage_rail(1).exclusions || strstr(text, "\"fault\":\"none\""));
}

TEST_WITH(is_shown, is_found, "fault add peer=mlx5_4 count=0 action=error", TENT_FAULT_PEER_PORT,
	show);
