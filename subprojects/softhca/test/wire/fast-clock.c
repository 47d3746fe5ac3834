/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the programs of perftest by tests that do not look at their figures. Each program
 * measures the frequency of the processor: for .4 s it asks for the time without a pause, which
 * takes ten times as long as its messages. With this it takes a twentieth, and the figures are wrong
 * by as much.
 */
#include <sys/time.h>
#include <time.h>

#define SPEED 20

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	static struct timespec begin;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (!begin.tv_sec)
		begin = now;
	long long us = (now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000;

	tv->tv_sec = begin.tv_sec + us * SPEED / 1000000;
	tv->tv_usec = us * SPEED % 1000000;
	return 0;
}
