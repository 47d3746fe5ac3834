/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the programs of perftest by tests that do not look at their figures. Each program
 * measures the frequency of the processor after its last message: it reads the time in a loop, for
 * 0.4 s in all. With this library it takes a tenth of that, and what it measures is useless, as it
 * can be on a busy machine: the program prints "Correlation coefficient r^2".
 */
#include <sys/time.h>
#include <time.h>

/*
 * The ends of a latency test do not wait for each other. One of them may have its last message
 * without the other having its acknowledgement. If it ended at once, the other one would fail.
 */
#define CALL_NS 20000

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	static unsigned int calls;

	nanosleep(&(struct timespec){.tv_nsec = CALL_NS}, NULL);
	calls++;
	tv->tv_sec = calls; /* longer than what the loop waits for */
	tv->tv_usec = calls * 37 % 64 * 1000;
	return 0;
}
