/* SPDX-License-Identifier: MIT */
/*
 * Measures the time from a failure that the adapter reports until the slices of that rail are
 * posted on another one (rails4.topology). Prints the engine's statistics; the median is
 * resend_p50_us.
 */
#include "outage.h"

#define OUTAGES 100

int main(void)
{
	struct duo d;

	duo_open(&d, &(struct duo_attr){.len = 8 * MIB});
	for (int i = 0; i < OUTAGES; i++) {
		outage_ctl(
			"fault add device=mlx5_1 opcode=write nth=3 action=error syndrome=remote_op");
		CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 0), 0);
		CHECK(!memcmp(d.mine, d.theirs, d.len));
		outage_ctl("fault clear");
		while (!outage_rail(&d, 1).up)
			CHECK_EQ(duo_move(&d, TENT_WRITE, 0, d.len, 0), 0);
	}
	CHECK_EQ(tent_stats_print(d.t, stdout), 0);
	CHECK_EQ(tent_stats_json(d.t, stdout), 0);
	duo_close(&d);
	return 0;
}
