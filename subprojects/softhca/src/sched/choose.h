/* SPDX-License-Identifier: MIT */
/*
 * Mode auto chooses between poll, in which the thread beside the program spins and executes
 * doorbells, and trap, in which each doorbell is executed by the thread that rings it. A process
 * has one thread beside the program for all its adapters, and makes its own choice.
 *
 * The thread spins only if there is a core for each running thread. The rest of the choice depends
 * on the time of a list of n WQEs under one doorbell, from the call that posts the list to its
 * completion:
 *
 *	trap	A + TRAP + n * W
 *	poll	A + n * (W + HANDOVER)
 *
 * A is the cost of a list and W the cost of a WQE in both modes. TRAP is the cost of a trapped
 * store: signal and return. HANDOVER is the extra cost of a WQE that another core executes: the WQE
 * and the payload move to that core's cache, and the CQE and the payload move back. So short lists
 * are faster in poll mode. softhca-cost prints TRAP, HANDOVER, and the n for which both modes take
 * the same time.
 *
 * HANDOVER depends on the two cores: on one virtual machine it changed between 20 ns and 230 ns
 * within minutes. Besides, in trap mode the threads of a program copy in parallel, whereas the
 * spinning thread copies one message after the other. So if lists are long, or many bytes are
 * copied, the thread measures: it counts the WQEs of a few ms, changes the mode, counts again, and
 * keeps the faster mode. It repeats this trial after a pause, which doubles up to a limit whenever
 * the mode stays the same. Trials of the slower mode take up to 1/20 of the time at first, and up
 * to 1/80 later.
 *
 * A look counts the running threads, the cores and the doorbells (struct load). While doorbells are
 * rung, the thread looks every 5 to 80 ms. At the time of a look, other threads may be running just
 * for a moment. So the thread stops spinning only when the looks that found no free core outnumber
 * the other looks by a few. To start spinning, the looks that found a free core must outnumber the
 * other ones likewise. If members (processes of the fabric) have joined or left, one look is
 * enough. A thread that has stopped spinning looks again soon, and later less often. The result of
 * the last trial (poll_won) is kept until there is a core again.
 *
 * A spinning thread does not see each doorbell: it treats all WQEs posted since its last pass as
 * one list. So a program that quickly posts WQEs one by one leads to trials, too.
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
	uint32_t awake; /* threads that spin beside other members' programs */
	uint64_t doorbells; /* rung by this process since the last look, including those of CQs */
	uint64_t wqes, bytes; /* completed by this process since then, and their payload */
	uint64_t ns; /* time since the last look */
};

enum trial {
	TRIAL_NONE,
	TRIAL_BEFORE, /* the WQEs in the mode before the trial are counted */
	TRIAL_OTHER, /* the WQEs in the other mode are counted */
};

/* The choice, and the data that led to it. All zero: trap mode. */
struct choice {
	bool polls;
	bool poll_won; /* the last trial found that polling is faster */
	enum trial trial;
	uint32_t doubts; /* looks that found the other mode better, less those that did not */
	uint64_t wqes, ns; /* of TRIAL_BEFORE */
	uint32_t calm; /* looks without doubts since the thread last spun, up to a limit */
	uint64_t pause; /* between two trials, ns; 0: there was no trial */
	uint64_t next_trial;
};

/*
 * Returns the number of threads that would run if each member had a spinning thread: these threads,
 * and the threads of the programs that run.
 */
uint32_t choose_needs(const struct load *l);

/* Returns true if cores and quota are enough for these threads (choose_needs()). */
bool choose_has_room(const struct load *l);

/*
 * Returns true if trapping may be faster: if the handover of the WQEs may cost more than the traps,
 * or if copying may limit the program's speed.
 */
bool choose_is_unsure(const struct load *l);

/* Changes the choice after a look. @now: the time in ns; @at_once: one look is enough. */
void choose_step(struct choice *c, const struct load *l, uint64_t now, bool at_once);

/* Returns the time to the next look, in ns. @c: the choice after the last look. */
uint64_t choose_pause(const struct choice *c);

/* Returns true if the thread should spin. Looks first if the last look is too old. */
bool choose_again(void);

/* Returns the result of the last look, for a thread that rings doorbells. Signal safe. */
bool choose_last(void);

/* Returns true if choose_again() would look. @now: timer_now(). Signal safe. */
bool choose_is_old(uint64_t now);

/* Must be called in a forked child. */
void choose_forget(void);

#endif
