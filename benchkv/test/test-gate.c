/* SPDX-License-Identifier: MIT */
/* The gate at which clients wait for the next run. The calls here do not wait. */
#include "gate.h"

#include <errno.h>

#include "support/test.h"

/*
 * A client that wakes up only when the job ends still begins the run that was opened before: it
 * would otherwise report the figures of the run before that one.
 */
TEST(an_opened_run_begins_in_spite_of_the_end)
{
	struct gate g = {.run = 0};

	gate_init(&g);
	gate_open(&g, false);
	CHECK(gate_pass(&g, 0, 0));
	gate_open(&g, false);
	gate_open(&g, true);
	CHECK(gate_pass(&g, 1, 0));
	CHECK(!gate_pass(&g, 1, -EIO));
	CHECK(!gate_pass(&g, 2, 0)); /* the gate was opened for the end only */
	CHECK_EQ(gate_wait(&g, 3, NULL, NULL), -EIO);
	gate_fini(&g);
}

int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
