/* SPDX-License-Identifier: MIT */
/*
 * Tests the batching policies of control.h: each case scripts the observations and checks that the
 * decisions are exactly as expected.
 */
#include <errno.h>
#include <math.h>

#include "support/test.h"
#include "control.h"

/* The control of the case. By endpoint, how far its stream of WRITEs was posted and consumed. */
static struct control c;
static uint64_t posted[8], consumed[8];

static void begin(const char *text, uint32_t endpoints)
{
	struct control_spec spec;

	control_fini(&c);
	memset(posted, 0, sizeof(posted));
	memset(consumed, 0, sizeof(consumed));
	CHECK_EQ(control_parse(text, &spec), 0);
	CHECK_EQ(control_init(&c, &spec, endpoints), 0);
}

TEST(parses)
{
	static const char *const bad[] = {"", "non", "none:1", "budget", "budget:", "budget:0",
		"budget:16x", "budget:-1", "budget:65537", "budget: 3", "auto:", "auto:1",
		"auto:1,", "auto:0,1", "auto:1,2,3", "adaptive", "adaptive-budget:3", "threshold",
		"threshold:4", "threshold:4,", "threshold:0,4", "threshold:4,4,4", "hold", "hold:0",
		"hold:1,2", "adaptive-hold:1", "little:1"};
	static const char *const good[][2] = {{"none", "none"}, {"budget:16", "budget:16"},
		{"budget:65536", "budget:65536"}, {"threshold:8,16", "threshold:8,16"},
		{"hold:10", "hold:10"}, {"adaptive-hold", "adaptive-hold"},
		{"adaptive-budget", "adaptive-budget"}, {"little", "little"}, {"auto", "auto:10,9"},
		{"auto:3,70", "auto:3,70"}};
	struct control_spec spec;
	char name[CONTROL_NAME_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(control_parse(bad[i], &spec), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		CHECK_EQ(control_parse(good[i][0], &spec), 0);
		control_name(&spec, name);
		CHECK(!strcmp(name, good[i][1]));
	}
}

/*
 * Tests the bounds of control_derive(), and the two machines for which simulations found the best
 * window (K) and `full` (B).
 */
TEST(derives_from_the_machine)
{
	struct control_spec spec = {.kind = CONTROL_AUTO};

	control_derive(&spec, &(struct control_times){4900, 570, 68});
	CHECK(spec.window == 10 && spec.full == 8);
	control_derive(&spec, &(struct control_times){8350, 1200, 67.5});
	CHECK(spec.window == 8 && spec.full == 18);
	control_derive(&spec, &(struct control_times){1, 1000, 1000});
	CHECK(spec.window == 2 && spec.full == 8);
	control_derive(&spec, &(struct control_times){1e9, 1000, 1e-9});
	CHECK(spec.window == 128 && spec.full == 65536);
	CHECK_EQ(control_parse("auto", &spec), 0);
	CHECK(spec.derive);
	CHECK_EQ(control_parse("auto:10,9", &spec), 0);
	CHECK(!spec.derive);
}

/*
 * If a round trip takes as long as 24 WRITEs or fewer, the window is at most 12; if it takes
 * longer, the window is half the number of WRITEs.
 */
TEST(fills_a_long_path)
{
	static const struct {
		double round_trip_ns;
		uint32_t window, with_few_calls;
	} cases[] = {{9150, 12, 8}, {13100, 12, 11}, {13700, 12, 12}, {20600, 18, 18},
		{103600, 91, 91}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct control_spec spec;

		CHECK_EQ(control_parse("auto", &spec), 0);
		control_derive(&spec, &(struct control_times){cases[i].round_trip_ns, 570, 68});
		CHECK_EQ(spec.window, cases[i].window);
		control_share(&spec, 1472);
		CHECK_EQ(spec.window, cases[i].window);
		control_share(&spec, 8);
		CHECK_EQ(spec.window, cases[i].with_few_calls);
	}
}

/*
 * A loop of auto serves two thirds of the calls under way, or 32, or the calls that the last loop
 * has left, whichever is most.
 */
TEST(serves_a_part_of_the_calls)
{
	static const struct {
		const char *control;
		double requests;
		uint32_t daemons, own, others, left, serves;
	} cases[] = {{"auto", 1, 1, 1, 1, 0, 32}, {"auto", 48, 1, 7, 7, 0, 32},
		{"auto", 207, 1, 7, 7, 0, 138}, {"auto", 1472, 2, 1, 2, 0, 491},
		{"auto", 1472, 2, 2, 3, 0, 491}, {"auto:5,8", 1472, 2, 2, 2, 0, 981},
		{"auto", 1472, 3, 2, 3, 0, 654}, {"auto", 1472, 4, 1, 1, 0, 981},
		{"auto", 207, 1, 1, 1, 138, 138}, {"auto", 207, 1, 1, 1, 139, 139},
		{"auto", 1472, 1, 0, 0, 0, UINT32_MAX}, {"little", 207, 1, 1, 1, 0, UINT32_MAX},
		{"none", 207, 1, 1, 1, 5, UINT32_MAX}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct control_spec spec;
		struct control any;

		CHECK_EQ(control_parse(cases[i].control, &spec), 0);
		CHECK_EQ(control_init(&any, &spec, 2), 0);
		CHECK_EQ(control_serves(&any, 0), UINT32_MAX);
		control_limit(&any, cases[i].requests, cases[i].daemons, cases[i].own,
			cases[i].others);
		CHECK_EQ(control_serves(&any, cases[i].left), cases[i].serves);
		control_fini(&any);
	}
}

/*
 * With few calls in flight K is 1.5 times the square root of their number, at least 5. A K that the
 * user has set, or that is smaller already, is kept.
 */
TEST(few_calls_narrow_the_window)
{
	static const struct {
		double under_way;
		uint32_t window;
	} cases[] = {{1, 5}, {11.5, 5}, {16, 6}, {23, 7}, {46, 10}, {1472, 10}};
	struct control_spec spec;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_EQ(control_parse("auto", &spec), 0);
		control_share(&spec, cases[i].under_way);
		CHECK_EQ(spec.window, cases[i].window);
		CHECK_EQ(control_parse("auto:10,9", &spec), 0);
		control_share(&spec, cases[i].under_way);
		CHECK_EQ(spec.window, 10);
	}
	CHECK_EQ(control_parse("auto", &spec), 0);
	spec.window = 2;
	control_share(&spec, 46);
	CHECK_EQ(spec.window, 2);
}

/* Polls of one loop when the i-th poll brings arrivals[i] responses. */
static uint32_t polls(const uint32_t *arrivals)
{
	struct control_polls p = {.polls = 0};

	do {
		p.last = arrivals[p.polls++];
		p.responses += p.last;
		p.messages += 3 * p.last; /* each completion carries three messages */
		p.cqes += p.last;
	} while (control_poll_again(&c, &p));
	return p.polls;
}

static const uint32_t none[32] = {0}, at_once[32] = {4}, one_each[32] = {1, 1, 1, 1},
		      late[32] = {0, 0, 5}, growing[32] = {1, 2, 3, 4, 5};

TEST(budget_polls)
{
	begin("budget:4", 1);
	CHECK_EQ(polls(none), 4);
	CHECK_EQ(polls(at_once), 1);
	CHECK_EQ(polls(one_each), 4);
	CHECK_EQ(polls(late), 3);
	CHECK(!control_selects(&c) && !control_observes(&c));
	begin("none", 1);
	CHECK_EQ(polls(none), 1);
	CHECK_EQ(polls(one_each), 1);
	CHECK(!control_selects(&c));
}

TEST(threshold_polls)
{
	begin("threshold:3,6", 1);
	CHECK_EQ(polls(none), 6);
	CHECK_EQ(polls(one_each), 6); /* four responses in all, but never three in one poll */
	CHECK_EQ(polls(at_once), 1);
	CHECK_EQ(polls(late), 3);
	CHECK_EQ(polls(growing), 3);
}

TEST(adaptive_polls)
{
	begin("adaptive-budget", 1);
	CHECK_EQ(polls(none), 1);
	c.adaptive.u = 5;
	CHECK_EQ(polls(none), 6);
	CHECK_EQ(polls(one_each), 1);
	CHECK_EQ(polls(late), 3);
	CHECK(control_observes(&c) && !control_selects(&c));
}

static uint64_t from_array(void *arg, uint32_t ep)
{
	return ((const uint64_t *)arg)[ep];
}

static uint64_t time_ns; /* the time that clock_of_test() returns */

static uint64_t clock_of_test(void *arg)
{
	return time_ns;
}

/*
 * Selects among the given loads and posts a WRITE for each selected endpoint. A WRITE advances
 * `posted` by 64 bytes.
 */
static size_t step(struct control_load *loads, size_t n)
{
	size_t go = control_select(&c, loads, n, from_array, clock_of_test, consumed);

	for (size_t i = 0; i < go; i++) {
		posted[loads[i].ep] += 64;
		control_sent(&c, &loads[i], posted[loads[i].ep]);
	}
	return go;
}

TEST(auto_keeps_a_window)
{
	struct control_load a[] = {{0, 1, 0}, {1, 3, 0}, {2, 2, 0}};
	struct control_load b[] = {{0, 2, 0}, {3, 2, 0}};

	begin("auto:2,10", 4);
	/* The window is two, so the two endpoints with the most calls are selected. */
	CHECK_EQ(step(a, 3), 2);
	CHECK_EQ(a[0].ep, 1);
	CHECK_EQ(a[1].ep, 2);
	CHECK_EQ(c.unconsumed, 2);
	CHECK_EQ(c.waits, 1);
	/*
	 * No endpoint is selected until a WRITE is consumed, then one is. If two have equal load,
	 * the endpoint that has waited longer is selected.
	 */
	time_ns += 1000;
	CHECK_EQ(step(b, 2), 0);
	consumed[1] = 63;
	CHECK_EQ(step(b, 2), 0);
	consumed[1] = 64;
	CHECK_EQ(step(b, 2), 1);
	CHECK_EQ(b[0].ep, 0);
	CHECK_EQ(c.unconsumed, 2);
	/* The WRITEs of a failed endpoint no longer count against the window. */
	control_failed(&c, 2);
	CHECK_EQ(c.unconsumed, 1);
}

TEST(auto_never_holds_replies)
{
	struct control_load full[] = {{0, 1, 0}};
	struct control_load mix[] = {{1, 9, 0}, {2, 0, 1}, {3, 10, 0}, {0, 4, 2}};

	begin("auto:1,10", 4);
	CHECK_EQ(step(full, 1), 1);
	CHECK_EQ(step(mix, 4), 3);
	CHECK_EQ(mix[3].ep, 1); /* the only one that waits */
	CHECK_EQ(c.unconsumed, 3); /* a WRITE with replies only does not count */
}

/*
 * An endpoint with `full` calls posts WRITEs beyond the window, here more than CONTROL_POSTED. When
 * they are consumed, they no longer count.
 */
TEST(auto_survives_overflow)
{
	struct control_load one[] = {{0, 1, 0}};

	begin("auto:4,1", 2);
	for (uint32_t i = 0; i < 1000; i++)
		CHECK_EQ(step(one, 1), 1);
	c.spec.full = 100;
	CHECK_EQ(step(one, 1), 0);
	consumed[0] = posted[0] - 64;
	CHECK_EQ(step(one, 1), 1);
	consumed[0] = posted[0];
	c.spec.window = 1;
	CHECK_EQ(step(one, 1), 1);
	CHECK_EQ(c.unconsumed, 1);
}

/*
 * Endpoint 0 has one call, the others are refilled to `calls` in every microsecond and fill the
 * window. Returns for how many microseconds endpoint 0 waits.
 */
static uint32_t quiet_waits(const char *text, uint32_t calls)
{
	uint32_t us = 0;
	bool gone = false;

	begin(text, 4);
	while (!gone && us < 10000) {
		struct control_load loads[] = {{1, calls, 0}, {2, calls, 0}, {3, calls, 0},
			{0, 1, 0}};
		size_t go;

		time_ns += 1000;
		memcpy(consumed, posted, sizeof(consumed));
		go = step(loads, 4);
		for (size_t i = 0; i < go; i++)
			gone |= loads[i].ep == 0;
		us += !gone;
	}
	return us;
}

TEST(auto_lets_nobody_wait_long)
{
	time_ns = 5000;
	/*
	 * Endpoint 0 waits until its calls plus its age in units of 20 us exceed the calls of the
	 * others: 1 call that is 81 us old goes before 5 new calls.
	 */
	CHECK_EQ(quiet_waits("auto:2,10", 5), 81);
	CHECK_EQ(quiet_waits("auto:2,10", 2), 21);
	/*
	 * An endpoint with B calls is flushed even if the window is full, and its WRITE occupies a
	 * slot of the window. So endpoint 0 waits for its own time limit, which is B * 20 us +
	 * 2 us * 4 endpoints.
	 */
	CHECK_EQ(quiet_waits("auto:2,10", 10), 208);
	CHECK_EQ(quiet_waits("auto:3,5", 7), 108);
}

/* control_refresh() updates c.unconsumed for the daemon's trace, even if no decision needs it. */
TEST(auto_refreshes)
{
	struct control_load loads[] = {{0, 1, 0}, {1, 1, 0}};

	begin("auto:12,12", 2);
	CHECK_EQ(step(loads, 2), 2);
	CHECK_EQ(c.unconsumed, 2);
	consumed[0] = 64;
	control_refresh(&c, from_array, consumed);
	CHECK_EQ(c.unconsumed, 1);
	consumed[1] = 64;
	control_refresh(&c, from_array, consumed);
	CHECK_EQ(c.unconsumed, 0);
}

/* No endpoint waits for ever: if the peers consume, every endpoint is flushed some time. */
TEST(auto_starves_nobody)
{
	uint32_t calls[8] = {0}, went[8] = {0};

	begin("auto:1,1000", 8);
	for (uint32_t i = 0; i < 4000; i++) {
		struct control_load loads[8];
		size_t go;

		for (uint32_t e = 0; e < 8; e++)
			loads[e] = (struct control_load){e, ++calls[e], 0};
		memcpy(consumed, posted, sizeof(consumed));
		go = step(loads, 8);
		CHECK_EQ(go, 1);
		calls[loads[0].ep] = 0;
		went[loads[0].ep]++;
	}
	for (uint32_t e = 0; e < 8; e++)
		CHECK_EQ(went[e], 500);
}

/* ---- little ---- */

/*
 * While batching is off, all endpoints are selected. While it is on, an endpoint is selected if it
 * has no calls in flight, at least `full` calls, or a reply.
 */
TEST(little_switches_batching)
{
	struct control_load one[] = {{0, 1, 0}};
	struct control_load all[] = {{0, 8, 0}, {1, 9, 0}, {2, 1, 1}, {3, 1, 0}};

	begin("little", 4);
	CHECK(control_selects(&c) && control_counts(&c) && !control_observes(&c));
	CHECK_EQ(step(one, 1), 1);
	CHECK_EQ(step(all, 4), 4);
	c.little.batching = true;
	CHECK_EQ(step(one, 1), 0);
	CHECK_EQ(c.waits, 1);
	CHECK_EQ(step(all, 4), 2);
	CHECK(all[0].ep + all[1].ep == 3); /* 1 is full, 2 has a reply */
	consumed[0] = posted[0] - 1;
	CHECK_EQ(step(one, 1), 0);
	consumed[0] = posted[0];
	CHECK_EQ(step(one, 1), 1);
	control_failed(&c, 0);
	CHECK_EQ(step(one, 1), 1);
	c.little.batching = false;
	CHECK_EQ(step(one, 1), 1);
}

/* Passes two reports of rank 1, each in two words, to the control. */
static void hear_twice(void)
{
	for (int i = 0; i < 2; i++) {
		control_heard(&c, 1, LITTLE_VALID | 3);
		control_heard(&c, 1, LITTLE_VALID | LITTLE_AREA | 5);
	}
}

/*
 * Only a control that counts (little) sends counters in the field `word` of requests, and reads
 * them.
 */
TEST(only_little_has_a_word)
{
	begin("auto", 2);
	CHECK_EQ(control_word(&c, 1), 0);
	hear_twice();
	CHECK(!c.little.peers);
	begin("little", 2);
	CHECK_EQ(control_word(&c, 1), LITTLE_VALID);
	hear_twice();
	CHECK(c.little.peers[1].known && !c.little.peers[0].known);
	c.endpoints = 1; /* the messages name a rank that does not exist */
	c.little.peers[1].known = false;
	hear_twice();
	CHECK(!c.little.peers[1].known);
}

/* ---- held replies ---- */

TEST(hold_releases_when_it_should)
{
	const struct hold *h = &c.hold;

	begin("hold:10", 4);
	CHECK(control_holds(&c));
	CHECK(!hold_release(h, 3, 1000, 10999, 5));
	CHECK(hold_release(h, 3, 1000, 11000, 5)); /* 10 us are over */
	CHECK(hold_release(h, 4, 1000, 1000, 5)); /* as many replies as ranks */
	CHECK(hold_release(h, 1, 1000, 1000, 0)); /* no more replies will come */
	hold_arrived(&c.hold, 9, 1000);
	CHECK(!hold_release(h, 3, 1000, 1001, 5)); /* only adaptive-hold uses the arrivals */
	CHECK_EQ(h->ns, 10000);
}

/*
 * The hold time is the time in which as many replies as ranks arrive, limited to 0.5 to 100 us. The
 * arrival rate is a moving average; a new sample has the weight 1/8.
 */
TEST(adaptive_hold_follows_the_arrivals)
{
	struct hold *h = &c.hold;

	begin("adaptive-hold", 8);
	hold_arrived(h, 1, 1000);
	CHECK_EQ(h->ns, 0);
	hold_arrived(h, 2, 2000); /* 2 in 1,000 ns */
	CHECK(fabs(h->ns - 4000) < 1e-6);
	hold_arrived(h, 4, 3000); /* .002 x 7/8 + .004 / 8 = .00225 */
	CHECK(fabs(h->ns - 8 / 0.00225) < 1e-6);
	CHECK(!hold_release(h, 1, 0, 3000, 1));
	CHECK(hold_release(h, 1, 0, 3600, 1));
	hold_arrived(h, 8, 4000); /* as many replies as ranks at once */
	CHECK(hold_release(h, 1, 4000, 4000, 1));
	hold_arrived(h, 7, 5000);
	CHECK(!hold_release(h, 1, 5000, 5000, 1));
	for (uint64_t t = 5001; t < 5101; t++)
		hold_arrived(h, 7, t);
	CHECK_EQ(h->ns, 500);
	for (uint64_t t = 1; t < 200; t++)
		hold_arrived(h, 1, t * 1000000000);
	CHECK_EQ(h->ns, 100000);
}

TEST(answered_calls_count_as_consumed)
{
	CHECK_EQ(control_consumed(0, 70, 30), 70);
	CHECK_EQ(control_consumed(1, 70, 30), 30);
}
