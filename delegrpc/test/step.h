/* SPDX-License-Identifier: MIT */
/*
 * Victims that are killed between two chosen instructions. A victim runs a list of pieces of code
 * and stops before each. The tester lets it run up to one of the pieces, steps through that piece
 * by single instructions, and kills it with SIGKILL.
 */
#ifndef DELEGRPC_TEST_STEP_H
#define DELEGRPC_TEST_STEP_H

#include "support/step.h"

typedef void step_piece_fn(void);

struct step_plan {
	step_piece_fn *const *pieces;
	uint32_t n;
	/* Called in the tester: between() when the victim has stopped before a piece, meanwhile()
	 * after every 16 single steps. */
	void (*between)(uint32_t piece);
	void (*meanwhile)(void);
};

static inline void step_victim(const struct step_plan *plan)
{
	step_trace_me();
	for (uint32_t i = 0; i < plan->n; i++) {
		plan->pieces[i]();
		raise(SIGSTOP);
	}
	_exit(0);
}

static inline pid_t step_start(const struct step_plan *plan)
{
	pid_t pid = test_fork();

	if (!pid)
		step_victim(plan);
	return pid;
}

/*
 * Returns true if the victim stopped itself, before a piece or after the last one; false after a
 * single step. The victim must have stopped.
 */
static inline bool step_stopped(int sig)
{
	if (sig != SIGSTOP && sig != SIGTRAP)
		fprintf(stderr, "the victim ended, or got signal %d\n", sig);
	CHECK(sig == SIGSTOP || sig == SIGTRAP);
	return sig == SIGSTOP;
}

/*
 * Runs a victim up to @piece, then single-steps at most @limit instructions of it. Returns the
 * number of instructions executed.
 */
static inline uint32_t step_run(const struct step_plan *plan, uint32_t piece, uint32_t limit)
{
	pid_t pid = step_start(plan);
	uint32_t steps = 0;

	CHECK(step_stopped(step_wait(pid, NULL, NULL)));
	for (uint32_t i = 0;; i++) {
		plan->between(i);
		if (i == piece)
			break;
		CHECK(step_stopped(step_next(pid, PTRACE_CONT, NULL, NULL)));
	}
	for (; steps < limit; steps++) {
		if (step_stopped(step_next(pid, PTRACE_SINGLESTEP, NULL, NULL)))
			break;
		if (steps % 16 == 0)
			plan->meanwhile();
	}
	step_kill(pid);
	return steps;
}

#endif
