/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the programs of perftest by tests that do not look at their figures. Each program
 * measures the frequency of the processor: it reads the time in a loop for 0.4 s, which is ten
 * times as long as its messages take. With this library the loop ends at once, and what it measures
 * is useless, as it can be on a busy machine: the program prints "Correlation coefficient r^2".
 */
#include <sys/time.h>

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	static unsigned int calls;

	calls++;
	tv->tv_sec = calls; /* longer than what the loop waits for */
	tv->tv_usec = calls * 37 % 64 * 1000;
	return 0;
}
