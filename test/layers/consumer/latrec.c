/* SPDX-License-Identifier: MIT */
/* A user of latrec and of nothing else: one operation in virtual time, and a clock. */
#include <stdint.h>
#include <stdio.h>

#include <latrec.h>

int main(void)
{
	struct latrec_clock clock;
	struct latrec_ep *ep;
	struct latrec *r;
	uint64_t got;

	if (latrec_clock_init(LATREC_CLOCK_AUTO, &clock, sizeof(clock)) < 0 ||
		latrec_clock_now(&clock) == 0)
		return 1;
	if (latrec_create(NULL, &r) < 0 || latrec_ep_create(r, 8, &ep) < 0)
		return 1;
	if (latrec_ep_post(ep, 100, 100) < 0 || latrec_ep_complete(ep, 141) < 0)
		return 1;
	got = latrec_hist_quantile(latrec_service(r), .5);
	latrec_ep_destroy(ep);
	latrec_destroy(r);
	printf("%d, %s\n", (int)got, latrec_clock_name(&clock));
	return got == 41 ? 0 : 1;
}
