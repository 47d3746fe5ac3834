/* SPDX-License-Identifier: MIT */
/* A device that is opened while the polling thread reads doorbell pages rings without a trap. */
#include <unistd.h>

#include "rig.h"

#define LENGTH 8u
#define GUARD_NS 60000000000u /* the longest wait for the thread */

static void open_self(struct rig *r)
{
	rig_open(r, NULL);
	rig_connect(r, rig_addr(r), (struct rig_timers){0});
}

/* Writes a message. Returns true if its doorbell has trapped. */
static bool trapped(struct rig *r)
{
	uint64_t before = rig_counters().traps;

	rig_write(r, r, LENGTH);
	rig_wait_ok(r->scq);
	return rig_counters().traps != before;
}

static void second_device(void)
{
	uint64_t start = test_now_ns();
	struct rig first, second;

	/* The thread is awake for ten seconds after a doorbell. */
	CHECK(!setenv("SOFTHCA_MODE", "poll", 1) && !setenv("SOFTHCA_IDLE", "10000000", 1));
	open_self(&first);
	while (trapped(&first))
		CHECK(test_now_ns() - start < GUARD_NS);
	open_self(&second);
	CHECK(!trapped(&second));
	rig_close(&second);
	rig_close(&first);
	exit(0);
}

TEST(second_device_rings_without_trap)
{
	CHECK_EQ(rig_child(second_device, NULL), 0);
}

FABRIC_MAIN("awake");
