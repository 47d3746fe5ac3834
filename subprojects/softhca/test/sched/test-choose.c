/* SPDX-License-Identifier: MIT */
/* The choice of mode auto. */
#include "sched/choose.h"

#include "../check.h"

static const struct {
	struct load load; /* cores, quota, members, threads */
	bool poll;
} cases[] = {
	{{1, 0, 1, 1}, false}, /* a program and its adapter take turns on one core */
	{{2, 0, 1, 1}, true},
	{{2, 0, 1, 0}, true}, /* no other threads are known */
	{{2, 0, 0, 0}, true}, /* this process counts */
	{{2, 0, 1, 2}, false}, /* a second thread runs, of this program or of another one */
	{{2, 0, 2, 2}, false}, /* a pair */
	{{2, 0, 2, 1}, false}, /* one of them sleeps now, but rings */
	{{3, 0, 1, 2}, true},
	{{4, 0, 2, 2}, true},
	{{4, 0, 2, 3}, false},
	{{16, 0, 8, 8}, true}, /* four pairs */
	{{16, 0, 14, 14}, false}, /* seven */
	{{16, 0, 1, 15}, true},
	{{16, 0, 1, 16}, false},
	{{16, 2000, 1, 1}, true}, /* a quota counts as so many cores */
	{{16, 1999, 1, 1}, false},
	{{16, 500, 1, 1}, false},
	{{2, 16000, 2, 2}, false}, /* more than there are */
	{{1024, 0, 512, 512}, true},
	{{UINT32_MAX, 0, 1, UINT32_MAX - 1}, true},
};

TEST(table)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (choose_poll(&cases[i].load) == cases[i].poll)
			continue;
		fprintf(stderr, "case %zu: not %s\n", i, cases[i].poll ? "poll" : "trap");
		CHECK(false);
	}
}

TEST(needs)
{
	CHECK_EQ(choose_needs(&(struct load){.members = 3, .threads = 2}), 6);
	CHECK_EQ(choose_needs(&(struct load){.members = 3, .threads = 5}), 8);
	CHECK_EQ(choose_needs(&(struct load){0}), 2);
}

int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
