/* SPDX-License-Identifier: MIT */
/*
 * Mode auto: whether the thread beside the program spins, or each doorbell is executed by the thread
 * that rings it. Each process has one such thread for all its adapters, and chooses for itself.
 *
 * The thread spins only if each thread that runs has a core. The rest of the model is the time of a
 * list of n WQEs under one doorbell, from the call that posts it to its completion:
 *
 *	trap	A + TRAP + n * W
 *	poll	A + n * (W + HANDOVER)
 *
 * TRAP is the cost of a store, signal and return. HANDOVER is what a WQE costs more in another core,
 * whose cache gets the WQE and the payload, and from where the CQE and the payload come back. So short
 * lists are faster in poll mode. softhca-cost prints TRAP, HANDOVER, and n for which both modes take
 * the same time.
 *
 * HANDOVER depends on the two cores: on one virtual machine it changed between 20 ns and 230 ns within
 * minutes. And threads of a program that trap copy in parallel, while the thread that spins copies one
 * message after the other. So where lists are long or much is copied, the thread measures: it counts
 * the WQEs of a few ms, changes the mode, counts again, and keeps the faster mode. It repeats this
 * trial after a while, after twice as long each time if the mode stays the same. At first it is in
 * the mode that it does not keep for up to 1/20 of the time, later for up to 1/80.
 *
 * Other threads may run for a moment when the thread looks. So unless members have joined or left, the
 * looks that find that there is no core must outnumber the others by a few before the thread stops
 * spinning, and vice versa. After it has stopped it looks again soon, and later more seldom; and when
 * there is a core again, it has not forgotten which mode was faster.
 *
 * The thread does not see each doorbell while it spins: what has been rung since its last pass is one
 * list. So a program that posts WQEs one by one and fast also has trials.
 */
#ifndef SOFTHCA_SCHED_CHOOSE_H
#define SOFTHCA_SCHED_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

struct load {
	uint32_t cores; /* on which this thread may run */
	uint32_t quota; /* CPU time that the cgroup may use, in 1/1000 of a core; 0: no limit */
	uint32_t members; /* processes that use these cores and ring doorbells, this one included */
	uint32_t threads; /* that run or could run on these cores, this one included; 0: unknown */
	uint32_t awake; /* of these, threads beside other members' programs */
	uint64_t doorbells; /* that this process has rung since the last look, those of CQs too */
	uint64_t wqes, bytes; /* that it has completed since then, and their payload */
	uint64_t ns; /* since then */
};

enum trial {
	TRIAL_NONE,
	TRIAL_BEFORE, /* the WQEs of the mode that is used are counted */
	TRIAL_OTHER, /* those of the other mode */
};

/* The choice, and what led to it. All zero: to trap. */
struct choice {
	bool polls;
	bool poll_won; /* the last trial found that polling is faster */
	enum trial trial;
	uint32_t
		doubts; /* looks that found that the other mode is better, less those that did not */
	uint64_t wqes, ns; /* of TRIAL_BEFORE */
	uint32_t calm; /* looks without doubts since it last polled, up to a limit */
	uint64_t pause; /* before the next trial; 0: there was none */
	uint64_t next_trial;
};

/* Returns the threads that would run if each member had a thread that spins. This thread runs now. */
uint32_t choose_needs(const struct load *l);

/* Returns true if there is a core for each of them. */
bool choose_has_room(const struct load *l);

/*
 * Returns true if trapping may be faster: if the handover of the WQEs may cost more than the traps, or
 * if copies may be what limits the program.
 */
bool choose_is_unsure(const struct load *l);

/* Changes the choice after a look. @now: the time in ns; @at_once: one look is enough. */
void choose_step(struct choice *c, const struct load *l, uint64_t now, bool at_once);

/* Returns the time from a look, after which the choice is @c, to the next look, in ns. */
uint64_t choose_pause(const struct choice *c);

/* Returns true if the thread shall spin: what was found last, or now if that is old. */
bool choose_again(void);

/* Returns what was found last. For a thread that rings doorbells; signal safe. */
bool choose_last(void);

/* Returns true if choose_again() would look. @now: timer_now(). Signal safe. */
bool choose_is_old(uint64_t now);

/* In a forked child. */
void choose_forget(void);

#endif
