/* SPDX-License-Identifier: MIT */
/* Clocks: computations with invented readings, and each source against CLOCK_MONOTONIC_RAW. */
#include <errno.h>

#include "support/test.h"
#include "internal.h"

TEST(the_rate_is_that_of_two_readings)
{
	/* 2.5 GHz for 20 ms; each reading took 100 ticks. */
	const struct clock_pair from = {.ticks = 1000, .width = 100, .ns = 5000};
	const struct clock_pair to = {.ticks = 1000 + 50000000,
		.width = 100,
		.ns = 5000 + 20000000};
	struct latrec_clock c = {.mult = 0};

	CHECK_EQ(clock_fit(&c, &from, &to), 0);
	CHECK_EQ(c.base_ticks, to.ticks);
	CHECK_EQ(c.base_ns, to.ns);
	CHECK_EQ(latrec_ticks_ns(50000000, c.mult), 19999999); /* rounded down */
	CHECK_EQ(latrec_ticks_ns(2500000000ull * 3600, c.mult) / 1000, 3599999999ull);
	CHECK_EQ(c.error_ppm, 3); /* 101 ticks of 50 million, rounded up */
}

TEST(slow_counters_and_long_times_fit)
{
	/* 25 MHz, as on many arm64 machines: 40 ns per tick. */
	const struct clock_pair from = {.ticks = 0, .width = 2, .ns = 0};
	const struct clock_pair to = {.ticks = 500000, .width = 2, .ns = 20000000};
	struct latrec_clock c = {.mult = 0};

	CHECK_EQ(clock_fit(&c, &from, &to), 0);
	CHECK(c.mult == 40ull << 32);
	CHECK_EQ(latrec_ticks_ns(1, c.mult), 40);
	CHECK(latrec_ticks_ns(UINT64_MAX / 40, c.mult) == UINT64_MAX / 40 * 40);
}

TEST(useless_readings_are_refused)
{
	const struct clock_pair from = {.ticks = 1000, .width = 10, .ns = 1000};
	const struct clock_pair bad[] = {
		{.ticks = 1000, .width = 10, .ns = 2000}, /* the counter stood still */
		{.ticks = 900, .width = 10, .ns = 2000}, /* the counter went backwards */
		{.ticks = 9000, .width = 10, .ns = 1000}, /* the clock stood still */
		{.ticks = 9000, .width = 10, .ns = 900}, /* the clock went backwards */
		{.ticks = 1010, .width = 1000, .ns = 2000}, /* the reading is too uncertain */
		{.ticks = 1ull << 62, .width = 10, .ns = 1001}, /* the rate is out of range */
	};
	struct latrec_clock c = {.mult = 77};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(clock_fit(&c, &from, &bad[i]), -ERANGE);
}

TEST(sources_are_whole_words)
{
	CHECK(clock_listed("tsc hpet acpi_pm \n", "tsc"));
	CHECK(clock_listed("kvm-clock tsc\n", "tsc"));
	CHECK(clock_listed("hpet tsc", "tsc"));
	CHECK(!clock_listed("hpet acpi_pm \n", "tsc"));
	CHECK(!clock_listed("xtsc tsc-early tscx\n", "tsc"));
	CHECK(!clock_listed("", "tsc"));
	CHECK(!clock_listed("\n", "tsc"));
}

/* Reads the clock between two reads of CLOCK_MONOTONIC_RAW; the error must be within its limit. */
static void agrees_with_the_raw_clock(const struct latrec_clock *c)
{
	for (int i = 0; i < 1000; i++) {
		uint64_t before = latrec_clock_raw(), now = latrec_clock_now(c);
		uint64_t after = latrec_clock_raw();
		/* The base itself may be wrong by the error of 20 ms, the calibration's time. */
		uint64_t off = (after - c->base_ns + 20000000) * c->error_ppm / 1000000;

		off += c->mult ? 2 * c->step_ns : 0;
		CHECK(now + off >= before && now <= after + off);
	}
}

TEST(every_source_agrees_with_the_raw_clock)
{
	struct latrec_clock c;

	for (int source = LATREC_CLOCK_AUTO; source <= LATREC_CLOCK_MONOTONIC_RAW; source++) {
		int err = latrec_clock_init((enum latrec_clock_source)source, &c, sizeof(c));

		/* Not every machine has a counter, but AUTO always finds a clock. */
		CHECK(!err || (source == LATREC_CLOCK_COUNTER && err == -ENOTSUP));
		if (err)
			continue;
		printf("%d: %s\n", source, latrec_clock_name(&c));
		CHECK(source == LATREC_CLOCK_AUTO || c.source == (enum latrec_clock_source)source);
		CHECK((c.source == LATREC_CLOCK_COUNTER) == (c.mult != 0));
		CHECK(strstr(latrec_clock_name(&c), "CLOCK_MONOTONIC_RAW"));
		agrees_with_the_raw_clock(&c);
	}
	CHECK_EQ(latrec_clock_init((enum latrec_clock_source)3, &c, sizeof(c)), -EINVAL);
}

/* A machine may have a counter, but no kernel that trusts it. */
TEST(the_reason_for_the_raw_clock_is_true)
{
	struct latrec_clock chosen, counter;
	bool works = !latrec_clock_init(LATREC_CLOCK_COUNTER, &counter, sizeof(counter));

	CHECK_EQ(latrec_clock_init(LATREC_CLOCK_AUTO, &chosen, sizeof(chosen)), 0);
	printf("%s\n", latrec_clock_name(&chosen));
	CHECK(!works || !strstr(latrec_clock_name(&chosen), "no counter"));
	CHECK(chosen.source == LATREC_CLOCK_COUNTER || strstr(latrec_clock_name(&chosen), " ("));
}

TEST(stamps_of_one_thread_never_go_back)
{
	struct latrec_clock c;
	uint64_t last = 0;

	CHECK_EQ(latrec_clock_init(LATREC_CLOCK_AUTO, &c, sizeof(c)), 0);
	for (int i = 0; i < 100000; i++) {
		uint64_t now = latrec_clock_now(&c);

		CHECK(now >= last);
		last = now;
	}
}
