/* SPDX-License-Identifier: MIT */
/*
 * How long it takes from a failure that the adapter reports until the slices of that rail are
 * posted on another one (rails4.topology). Prints the engine's statistics; the median is
 * resend_p50_us.
 */
#include "duo.h"

#define OUTAGES 100

static void ctl(const char *words)
{
	char command[300];

	snprintf(command, sizeof(command), "%s %s", getenv("SOFTHCACTL"), words);
	CHECK_EQ(system(command), 0);
}

static bool up(const struct duo *d, uint32_t i)
{
	struct tent_rail_stats r;

	CHECK_EQ(tent_rail_stats(d->s, i, &r), 0);
	return r.up;
}

int main(void)
{
	struct duo d;

	duo_open(&d, &(struct duo_attr){.len = 8 * MIB});
	for (int i = 0; i < OUTAGES; i++) {
		ctl("fault add device=mlx5_1 opcode=write nth=3 action=error syndrome=remote_op");
		CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 0), 0);
		CHECK(!memcmp(d.mine, d.theirs, d.len));
		ctl("fault clear");
		while (!up(&d, 1))
			CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 0), 0);
	}
	CHECK_EQ(tent_stats_print(d.t, stdout), 0);
	CHECK_EQ(tent_stats_json(d.t, stdout), 0);
	duo_close(&d);
	return 0;
}
