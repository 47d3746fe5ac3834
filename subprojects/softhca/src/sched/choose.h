/* SPDX-License-Identifier: MIT */
/*
 * Mode auto: whether the thread beside the program spins, or each doorbell is executed by the thread
 * that rings it. Spinning is faster only if each thread that runs has a core.
 */
#ifndef SOFTHCA_SCHED_CHOOSE_H
#define SOFTHCA_SCHED_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

struct load {
	uint32_t cores; /* on which this thread may run */
	uint32_t quota; /* CPU time that the cgroup may use, in 1/1000 of a core; 0: no limit */
	uint32_t members; /* processes that use these cores and ring doorbells, this one included */
	uint32_t threads; /* that run or could run on these cores, without those beside programs */
};

/* Returns the threads that would run if each member had a thread that spins. */
uint32_t choose_needs(const struct load *l);

/* Returns true if there is a core for each of them. */
bool choose_poll(const struct load *l);

/* Returns true if the thread shall spin: what was found last, or now if that is old. */
bool choose_again(void);

/* Returns what was found last. For a thread that rings doorbells; signal safe. */
bool choose_last(void);

/* Returns true if choose_again() would look. @now: timer_now(). Signal safe. */
bool choose_is_old(uint64_t now);

/* In a forked child. */
void choose_forget(void);

#endif
