/* SPDX-License-Identifier: MIT */
/*
 * Measures the time from a failure that the adapter reports until the first slice of that rail is
 * posted on another rail (rails4.topology). Prints the engine's statistics; the median is
 * resend_p50_us.
 */
#include "outage.h"

#define OUTAGES 100

int main(void)
{
	duo_open(&(struct duo_attr){.len = 8 * MIB});
	for (int i = 0; i < OUTAGES; i++) {
		outage_ctl(
			"fault add device=mlx5_1 opcode=write nth=3 action=error syndrome=remote_op");
		duo_move_all(TENT_WRITE, 0);
		outage_ctl("fault clear");
		while (!outage_rail(1).up)
			CHECK_EQ(duo_move(TENT_WRITE, 0, d.len, 0), 0);
	}
	CHECK_EQ(tent_stats_print(d.t, stdout), 0);
	CHECK_EQ(tent_stats_json(d.t, stdout), 0);
	test_now(duo_close);
	return 0;
}
