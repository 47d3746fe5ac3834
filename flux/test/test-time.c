/* SPDX-License-Identifier: MIT */
/* Tests when a busy node yields, and how long a node waits, with a clock that the test advances. */
#include "support/fakeclock.h"
#include "base/sleep.h"
#include "common.h"

static void burst(struct flux *f)
{
	static struct seen s; /* static, because ThreadSanitizer takes long to clear it */

	s.n = 0;
	CHECK_EQ(call(flux_get_node(f, 0), 1, 0, 0), 0);
	flux_flush(flux_get_node(f, 0));
	CHECK_EQ(serve(flux_get_node(f, 1)), 1);
	CHECK_EQ(flux_poll(flux_get_node(f, 0), on_response, &s), 1);
	fake.ns += 100;
}

/*
 * A node that is always busy yields its core every 200 us if a peer that it called waits. If no
 * peer waits, it does not yield.
 */
TEST(busy_node_yields)
{
	FLUX *f = make(2, 0, 0);
	uint64_t ns = 4 * NSEC_PER_MSEC;

	for (uint32_t i = 0; i < ns / 100; i++)
		burst(f);
	CHECK_EQ(fake.yields, 0);
	CHECK_EQ(fake.looks, 0);
	for (uint32_t i = 0; i < ns / 100; i++) {
		flux_get_node(f, 1)->self->state = SLEEP_WAITING;
		burst(f);
	}
	CHECK(fake.yields >= 19 && fake.yields <= 20);
	CHECK(fake.looks <= ns / 100 / 8 + 1); /* the clock is read at one of eight flushes */
	CHECK_EQ(stats_of(flux_get_node(f, 0)).yields, fake.yields);
}

/* A wait ends at the first reading of the clock that shows that the timeout has passed. */
TEST(wait_lasts_its_timeout)
{
	FLUX *f = make(2, 0, 0);
	uint64_t start = fake.ns, timeout = 5 * NSEC_PER_MSEC;

	fake.step_ns = 100 * NSEC_PER_USEC; /* so that the time passes before the sleep */
	CHECK_EQ(flux_wait(flux_get_node(f, 0), timeout), 0);
	CHECK(fake.ns - start >= timeout && fake.ns - start <= timeout + 3 * fake.step_ns);
	fake.step_ns = 0;
}
