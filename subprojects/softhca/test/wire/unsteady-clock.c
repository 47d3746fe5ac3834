/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the programs of perftest by tests that do not look at their figures. Each program
 * measures the frequency of the processor after its last message: it reads the time in a loop, for
 * 0.4 s in all. With this library it takes some 40 ms, and what it measures is useless, as it can be
 * on a busy machine: the program prints "Correlation coefficient r^2".
 */
#include <sys/time.h>
#include <time.h>

/* The clock stands still for this time, and then jumps by more than the program waits for. */
#define STEP_NS 200000

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec now;
	unsigned long steps;

	clock_gettime(CLOCK_MONOTONIC, &now);
	steps = ((unsigned long)now.tv_sec * 1000000000 + (unsigned long)now.tv_nsec) / STEP_NS;
	tv->tv_sec = (long)steps;
	tv->tv_usec = (long)(steps * 37 % 64 * 1000);
	return 0;
}
