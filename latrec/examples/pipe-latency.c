/* SPDX-License-Identifier: MIT */
/*
 * Measures the latency of a byte through a pipe: writes a batch, reads it back, prints the
 * latencies.
 */
#include <unistd.h>

#include <latrec.h>

int main(void)
{
	struct latrec_clock clock;
	struct latrec *r;
	struct latrec_ep *ep;
	int fd[2];
	char byte = 0;

	if (pipe(fd) || latrec_clock_init(&clock, LATREC_CLOCK_AUTO) || latrec_create(NULL, &r) ||
		latrec_ep_create(r, 8, &ep))
		return 1;
	for (int i = 0; i < 80000; i++) {
		uint64_t now = latrec_clock_now(&clock);

		if (latrec_ep_post(ep, now, now) == 0 && write(fd[1], &byte, 1) == 1)
			continue;
		while (latrec_ep_pending(ep) && read(fd[0], &byte, 1) == 1)
			latrec_ep_complete(ep, latrec_clock_now(&clock));
	}
	if (latrec_print(r, latrec_clock_name(&clock), stdout) || !latrec_service(r)->count)
		return 1;
	latrec_ep_destroy(ep);
	latrec_destroy(r);
	return 0;
}
