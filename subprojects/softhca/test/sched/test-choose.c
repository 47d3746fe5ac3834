/* SPDX-License-Identifier: MIT */
/* The choice of mode auto. */
#include "sched/choose.h"

#include "../check.h"

#define LOAD(c, q, m, t)                                                                           \
	{                                                                                          \
		.cores = (c), .quota = (q), .members = (m), .threads = (t)                         \
	}

static const struct {
	struct load load; /* cores, quota, members, threads */
	bool room;
} cases[] = {
	{LOAD(1, 0, 1, 2), false}, /* a program and its adapter take turns on one core */
	{LOAD(2, 0, 1, 2), true},
	{LOAD(2, 0, 1, 0), true}, /* no other threads are known */
	{LOAD(2, 0, 0, 0), true}, /* this process counts */
	{LOAD(2, 0, 1, 3), false}, /* a second thread runs, of this program or of another one */
	{LOAD(2, 0, 2, 3), false}, /* a pair */
	{LOAD(2, 0, 2, 2), false}, /* one of them sleeps now, but rings */
	{LOAD(3, 0, 1, 3), true},
	{LOAD(4, 0, 2, 3), true},
	{LOAD(4, 0, 2, 4), false},
	{LOAD(16, 0, 8, 9), true}, /* four pairs */
	{LOAD(16, 0, 14, 15), false}, /* seven */
	{LOAD(16, 0, 1, 16), true},
	{LOAD(16, 0, 1, 17), false},
	{LOAD(16, 2000, 1, 2), true}, /* a quota counts as so many cores */
	{LOAD(16, 1999, 1, 2), false},
	{LOAD(16, 500, 1, 2), false},
	{LOAD(2, 16000, 2, 3), false}, /* more than there are */
	{LOAD(1024, 0, 512, 513), true},
	{LOAD(UINT32_MAX, 0, 1, UINT32_MAX), true},
};

TEST(table)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (choose_has_room(&cases[i].load) == cases[i].room)
			continue;
		fprintf(stderr, "case %zu: there are %s\n", i,
			cases[i].room ? "enough cores" : "too few cores");
		CHECK(false);
	}
}

TEST(needs)
{
	CHECK_EQ(choose_needs(&(struct load){.members = 3, .threads = 3}), 6);
	CHECK_EQ(choose_needs(&(struct load){.members = 3, .threads = 6}), 8);
	CHECK_EQ(choose_needs(&(struct load){.members = 3, .threads = 8, .awake = 2}), 8);
	CHECK_EQ(choose_needs(&(struct load){.members = 1, .threads = 2, .awake = 3}), 2);
	CHECK_EQ(choose_needs(&(struct load){0}), 2);
}

/* Measured: poll takes .9 of the time of trap for lists of 8, and 1.2 to 1.3 for lists of 16. */
TEST(lists)
{
	CHECK(!choose_has_lists(&(struct load){.doorbells = 100, .wqes = 100}));
	CHECK(!choose_has_lists(&(struct load){.doorbells = 100, .wqes = 800}));
	CHECK(choose_has_lists(&(struct load){.doorbells = 100, .wqes = 1600}));
	CHECK(choose_has_lists(&(struct load){.doorbells = 1ull << 40, .wqes = 1ull << 45}));
	CHECK(!choose_has_lists(&(struct load){.doorbells = 100, .wqes = 0})); /* of CQs */
	CHECK(!choose_has_lists(&(struct load){.doorbells = 0, .wqes = 32})); /* rung before */
}

/* Looks of one process, one after the other. */
#define MS 1000000u
#define FREE(n)                                                                                    \
	{                                                                                          \
		.cores = 2, .members = 1, .threads = 2, .doorbells = 100, .wqes = 100u * (n)       \
	}
#define BUSY(n)                                                                                    \
	{                                                                                          \
		.cores = 2, .members = 1, .threads = 3, .doorbells = 100, .wqes = 100u * (n)       \
	}

static const struct {
	uint32_t ms;
	struct load load;
	bool at_once;
	bool polls; /* afterwards */
} looks[] = {
	{0, FREE(1), true, true},
	{20, BUSY(1), false, true}, /* another thread runs for a moment */
	{25, FREE(1), false, true},
	{45, BUSY(1), false, true},
	{50, BUSY(1), false, false}, /* it stays */
	{150, FREE(1), false, false},
	{155, FREE(1), false, true},
	{175, BUSY(1), true, false}, /* a member has joined */
	{275, FREE(32), false, false}, /* lists, whose doorbells trap */
	{280, FREE(32), false, false},
	{380, FREE(8), false, false},
	{385, FREE(8), false, true},
	{405, FREE(32), false, true}, /* seem to be lists, but the thread may have been late */
	{410, FREE(32), false, false}, /* the first trial */
	{415, FREE(1), false, true}, /* each WQE has a doorbell */
	{435, FREE(32), false, true},
	{440, FREE(32), false, true},
	{445, FREE(32), true, true},
	{514, FREE(32), true, true},
	{515, FREE(32), false, true}, /* 100 ms after the first trial */
	{520, FREE(32), false, false},
	{525, FREE(1), false, true},
	{545, BUSY(1), true, false},
	{550, FREE(32), true, false}, /* each of these doorbells has trapped */
	{555, FREE(1), true, true},
	{700, FREE(32), true, true},
	{720, BUSY(32), false, true},
	{725, BUSY(32), false, false}, /* not a trial */
	{730, FREE(8), false, false},
	{735, FREE(8), false, true},
	{740, FREE(32), true, false}, /* 200 ms after the second trial */
	{745, FREE(32), false, false}, /* so they are lists */
	{845, FREE(1), false, false},
	{850, FREE(1), false, true},
	{870, FREE(32), true, false}, /* no pause after a trial that has not failed */
	{875, BUSY(1), false, false}, /* there is no core any more, so the trial ends */
	{900, FREE(1), true, true},
	{974, FREE(32), true, true}, /* after its pause */
	{975, FREE(32), true, false},
};

TEST(steps)
{
	struct choice c = {0};

	for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
		choose_step(&c, &looks[i].load, looks[i].ms * (uint64_t)MS, looks[i].at_once);
		if (c.polls == looks[i].polls)
			continue;
		fprintf(stderr, "look at %u ms: not %s\n", looks[i].ms,
			looks[i].polls ? "poll" : "trap");
		CHECK(false);
	}
}

/* Trials that fail have longer and longer pauses, up to 1.6 s. */
TEST(trials)
{
	static const uint32_t expected[] = {0, 100, 200, 400, 800, 1600, 1600};
	struct choice c = {.polls = true};
	struct load lists = FREE(32), single = FREE(1);
	uint64_t now = MS, ended = now;

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		for (; c.polls; now += MS)
			choose_step(&c, &lists, now, true);
		CHECK_EQ((now - MS - ended) / MS, expected[i]);
		ended = now;
		choose_step(&c, &single, now, false);
		CHECK(c.polls);
	}
}

int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
