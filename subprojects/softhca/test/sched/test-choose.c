/* SPDX-License-Identifier: MIT */
/*
 * The choices of mode auto, which depend on what its thread sees at each look (src/sched/choose.h).
 * Here the tests pass what it sees, as a struct load.
 */
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
	{LOAD(1, 0, 1, 2), false}, /* a program and the HCA's thread take turns on one core */
	{LOAD(2, 0, 1, 2), true},
	{LOAD(2, 0, 1, 0), true}, /* the number of threads is unknown */
	{LOAD(2, 0, 0, 0), true}, /* this process counts as a member */
	{LOAD(2, 0, 1, 3), false}, /* a second thread runs, of this program or of another one */
	{LOAD(2, 0, 2, 3), false}, /* a pair */
	{LOAD(2, 0, 2, 2), false}, /* a pair; one of the two sleeps now, but rings */
	{LOAD(3, 0, 1, 3), true},
	{LOAD(4, 0, 2, 3), true},
	{LOAD(4, 0, 2, 4), false},
	{LOAD(16, 0, 8, 9), true}, /* four pairs */
	{LOAD(16, 0, 14, 15), false}, /* seven pairs */
	{LOAD(16, 0, 1, 16), true},
	{LOAD(16, 0, 1, 17), false},
	{LOAD(16, 2000, 1, 2), true}, /* a quota counts as its number of cores */
	{LOAD(16, 1999, 1, 2), false},
	{LOAD(16, 500, 1, 2), false},
	{LOAD(2, 16000, 2, 3), false}, /* a quota of more than the machine's cores */
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

TEST(unsure)
{
	CHECK(!choose_is_unsure(&(struct load){.doorbells = 100, .wqes = 100}));
	CHECK(!choose_is_unsure(&(struct load){.doorbells = 100, .wqes = 400}));
	CHECK(choose_is_unsure(&(struct load){.doorbells = 100, .wqes = 800}));
	CHECK(choose_is_unsure(&(struct load){.doorbells = 1ull << 40, .wqes = 1ull << 45}));
	/* Only doorbells of CQs; and WQEs whose doorbell was rung before the last look. */
	CHECK(!choose_is_unsure(&(struct load){.doorbells = 100, .wqes = 0}));
	CHECK(!choose_is_unsure(&(struct load){.doorbells = 0, .wqes = 32}));
	CHECK(!choose_is_unsure(&(struct load){.bytes = 5000000, .ns = 5000000}));
	CHECK(choose_is_unsure(&(struct load){.bytes = 5000001, .ns = 5000000}));
}

#define MS 1000000u
#define SHORT 100u /* WQEs of a hundred doorbells */
#define LONG 3200u
#define LONGER 4000u
#define FREE(n) LOADED(2, n)
#define BUSY(n) LOADED(3, n)
#define LOADED(t, n)                                                                               \
	{                                                                                          \
		.cores = 2, .members = 1, .threads = (t), .doorbells = 100, .wqes = (n)            \
	}

/* A look, at the time @ms. */
struct step {
	uint32_t ms;
	struct load load;
	bool at_once; /* this look alone may change the mode */
	bool polls; /* afterwards */
};

/* Makes @n looks, each of which sees what has happened since the one before. */
static void run(const struct step *s, size_t n)
{
	struct choice c = {0};
	uint32_t before = 0;

	for (size_t i = 0; i < n; i++) {
		struct load l = s[i].load;

		l.ns = (s[i].ms - before) * (uint64_t)MS;
		before = s[i].ms;
		choose_step(&c, &l, s[i].ms * (uint64_t)MS, s[i].at_once);
		if (c.polls == s[i].polls)
			continue;
		fprintf(stderr, "at %u ms: not %s\n", s[i].ms, s[i].polls ? "poll" : "trap");
		CHECK(false);
	}
}

#define RUN(steps) run(steps, sizeof(steps) / sizeof(steps[0]))

TEST(room)
{
	static const struct step steps[] = {
		{0, FREE(SHORT), true, true},
		{20, BUSY(SHORT), false, true}, /* another thread runs for a moment */
		{25, BUSY(SHORT), false, true},
		{30, BUSY(SHORT), false, true},
		{35, FREE(SHORT), false, true}, /* no other thread runs */
		{40, BUSY(SHORT), false, true},
		{45, BUSY(SHORT), false, false}, /* the other thread continues to run */
		{65, FREE(SHORT), false, false},
		{70, BUSY(SHORT), false, false},
		{90, BUSY(SHORT), false, false},
		{110, FREE(SHORT), false, false},
		{115, FREE(SHORT), false, false},
		{120, FREE(SHORT), false, false},
		{125, FREE(SHORT), false, true},
		{145, BUSY(SHORT), true, false}, /* a member has joined */
		{150, BUSY(LONG), false, false},
		{155, BUSY(LONG), false, false},
		{160, FREE(SHORT), true, true},
	};

	RUN(steps);
}

/* Long lists of WQEs are first slower in poll mode, then faster. */
TEST(long_lists)
{
	static const struct step steps[] = {
		{0, FREE(SHORT), true, true},
		{20, FREE(LONG), false, true}, /* perhaps the thread was only late */
		{25, FREE(LONG), false, false}, /* so it traps */
		{30, FREE(LONGER), false, false}, /* and continues to trap */
		{129, FREE(LONG), false, false},
		{130, FREE(LONG), false, false}, /* polls again after 100 ms */
		{135, FREE(LONG), false, true},
		{140, FREE(LONG), false, false}, /* which is not faster */
		{339, FREE(LONG), false, false},
		{340, FREE(LONG), false, false}, /* again after 200 ms */
		{345, FREE(LONG), false, true},
		{350, FREE(LONG + LONG / 20), false, false}, /* nearly fast enough */
		{749, FREE(LONG), false, false},
		{750, FREE(LONG), false, false}, /* again after 400 ms */
		{755, FREE(LONG), false, true},
		{760, FREE(LONGER), false, true}, /* faster now */
		{859, FREE(LONG), false, true},
		{860, FREE(LONG), false, true}, /* traps again after 100 ms */
		{865, FREE(LONG), false, false},
		{870, FREE(SHORT), false, true}, /* slower: each WQE has trapped */
		{875, FREE(LONG), true, true},
		{1070, FREE(LONG), true, true}, /* again after 200 ms */
		{1072, FREE(SHORT), false, true}, /* no lists any more */
		{1075, FREE(LONG), false, true},
		{1080, FREE(LONG), false, false},
	};

	RUN(steps);
}

/* A trial ends if cores are missing, or if the program pauses. */
TEST(disturbed_trials)
{
	static const struct step steps[] = {
		{0, FREE(SHORT), true, true},
		{5, FREE(LONG), false, true},
		{50, FREE(LONG), false, true}, /* after a pause of the program */
		{55, FREE(LONG), false, false},
		{96, FREE(LONG * 32), false, true}, /* another pause */
		{196, FREE(LONG), false, true},
		{201, FREE(LONG), false, false},
		{206, BUSY(LONG), false, false},
		{211, BUSY(LONG), true, false}, /* a member has joined */
		{216, FREE(LONG), false, false},
		{221, FREE(LONG), false, false},
		{226, FREE(LONG), false, false},
		{231, FREE(LONG), false, true}, /* polls again, because polling had won */
		{236, FREE(LONG), false, true},
		{241, FREE(LONG), false, false},
		{246, FREE(LONGER), false, false},
		{346, FREE(LONG), false, false},
		{351, FREE(LONG), false, true},
		{356, BUSY(LONGER), true, false},
		{361, FREE(LONGER), false, false}, /* trapping had won, so polling is tried */
		{366, FREE(LONGER), false, true},
	};

	RUN(steps);
}

/* The pauses between trials that change nothing get longer and longer, up to 400 ms. */
TEST(pauses)
{
	static const uint32_t expected[] = {0, 100, 200, 400, 400};
	struct choice c = {.polls = true};
	struct load lists = FREE(LONG);
	uint64_t now = MS, ended = now;

	lists.ns = MS;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		for (; c.trial == TRIAL_NONE; now += MS)
			choose_step(&c, &lists, now, true);
		CHECK_EQ((now - MS - ended) / MS, expected[i]);
		choose_step(&c, &lists, now, false);
		CHECK(!c.polls);
		choose_step(&c, &lists, now, false);
		CHECK(c.polls);
		ended = now;
	}
}

/* A program on two cores that rings without a pause, in a simulation. */
struct program {
	uint32_t wqes; /* of a hundred doorbells */
	uint32_t trap, poll; /* WQEs per us in each mode */
	uint32_t swap_ms; /* after which the modes swap their speeds; 0: never */
	uint32_t busy_pct; /* percentage of looks that see another thread for a moment */
};

/* The work and the times of a program. */
struct result {
	uint64_t done, possible; /* WQEs: in the modes that were chosen; in the faster ones */
	uint64_t slow_ns, ns; /* in the slower mode; in all */
};

static void simulate(const struct program *p, struct result *r)
{
	struct choice c = {0};
	uint32_t random = 1;
	bool first = true;

	for (uint64_t pause = 5 * MS; r->ns < 60000ull * MS; pause = choose_pause(&c)) {
		bool swapped = p->swap_ms && r->ns / MS / p->swap_ms % 2;
		uint32_t poll = swapped ? p->trap : p->poll, trap = swapped ? p->poll : p->trap;
		uint32_t rate = c.polls ? poll : trap, best = poll > trap ? poll : trap;
		struct load l = FREE(p->wqes);

		r->ns += pause;
		r->slow_ns += rate < best ? pause : 0;
		r->done += rate * pause / 1000;
		r->possible += best * pause / 1000;
		random = random * 1103515245 + 12345;
		l.threads += (random >> 16) % 100 < p->busy_pct;
		l.doorbells = rate * pause / 1000 * 100 / p->wqes;
		l.wqes = rate * pause / 1000;
		l.ns = pause;
		choose_step(&c, &l, r->ns, first);
		first = false;
	}
}

/* The longer the thread has not spun, the rarer are its looks. */
TEST(looks)
{
	static const uint32_t expected[] = {20, 40, 80, 80};
	struct load free = FREE(SHORT), busy = BUSY(SHORT);
	struct choice c = {0};

	for (int i = 0; i < 2; i++) {
		choose_step(&c, &free, MS, true);
		CHECK_EQ(choose_pause(&c), 20 * MS);
		choose_step(&c, &busy, MS, false);
		CHECK_EQ(choose_pause(&c), 5 * MS);
		for (size_t k = 0; k < sizeof(expected) / sizeof(expected[0]); k++) {
			choose_step(&c, &busy, MS, true);
			CHECK_EQ(choose_pause(&c), (uint64_t)expected[k] * MS);
		}
	}
}

/*
 * Simulates a program. @percent: the longest permitted time, in percent of the time that the
 * program would take if it were always in the faster mode.
 */
static void check_time(const struct program *p, uint32_t percent)
{
	struct result r = {0};

	simulate(p, &r);
	if (r.possible * 100 <= r.done * percent)
		return;
	fprintf(stderr, "%llu WQEs, of %llu\n", (unsigned long long)r.done,
		(unsigned long long)r.possible);
	CHECK(false);
}

/* If one mode stays faster, trials use the slower mode for less than 1/80 of the time. */
TEST(trials_are_cheap)
{
	static const struct program programs[] = {{.wqes = LONG, .trap = 5, .poll = 8},
		{.wqes = LONG, .trap = 8, .poll = 5}};

	for (size_t i = 0; i < 2; i++) {
		struct result r = {0};

		simulate(&programs[i], &r);
		CHECK(r.slow_ns * 80 < r.ns);
	}
}

/* Every three seconds the slower mode becomes the faster one. */
TEST(the_faster_mode_changes)
{
	check_time(&(struct program){.wqes = LONG, .trap = 5, .poll = 8, .swap_ms = 3000}, 105);
}

/*
 * At some looks another thread runs for a moment. The HCA's thread must not change to trap mode for
 * that reason, and must not forget which mode has won.
 */
TEST(others_run_for_moments)
{
	check_time(&(struct program){.wqes = SHORT, .trap = 3, .poll = 15, .busy_pct = 20}, 101);
	check_time(&(struct program){.wqes = SHORT, .trap = 3, .poll = 15, .busy_pct = 30}, 110);
	check_time(&(struct program){.wqes = LONG, .trap = 5, .poll = 8, .busy_pct = 20}, 105);
	check_time(&(struct program){.wqes = LONG, .trap = 8, .poll = 5, .busy_pct = 20}, 105);
}

int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
