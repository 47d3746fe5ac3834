/* SPDX-License-Identifier: MIT */
/*
 * Killing a process between two chosen instructions. The victim runs a list of pieces,
 * stopping before each; the tester lets it run up to one of them, steps through that one
 * instruction by instruction, and kills it with SIGKILL where it likes.
 */
#ifndef DELEGRPC_TEST_STEP_H
#define DELEGRPC_TEST_STEP_H

#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/test.h"

typedef void step_piece_fn(void);

struct step_plan {
	step_piece_fn *const *pieces;
	uint32_t n;
	/* Called in the tester whenever the victim stands before a piece, and now and then. */
	void (*between)(uint32_t piece);
	void (*meanwhile)(void);
};

static inline void step_victim(const struct step_plan *plan)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(90);
	for (uint32_t i = 0; i < plan->n; i++) {
		raise(SIGSTOP);
		plan->pieces[i]();
	}
	raise(SIGSTOP);
	_exit(0);
}

static inline pid_t step_start(const struct step_plan *plan)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		step_victim(plan);
	return pid;
}

/* Waits for a stop; true at the one before a piece (or behind the last). */
static inline bool step_stopped(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		fprintf(stderr, "the victim ended with status %d\n", WEXITSTATUS(status));
	if (WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP && WSTOPSIG(status) != SIGTRAP)
		fprintf(stderr, "the victim got signal %d\n", WSTOPSIG(status));
	CHECK(WIFSTOPPED(status));
	CHECK(WSTOPSIG(status) == SIGSTOP || WSTOPSIG(status) == SIGTRAP);
	return WSTOPSIG(status) == SIGSTOP;
}

static inline void step_kill(pid_t pid)
{
	int status;

	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Runs a victim up to a piece, then at most that many instructions of it; returns them. */
static inline uint32_t step_run(const struct step_plan *plan, uint32_t piece, uint32_t limit)
{
	pid_t pid = step_start(plan);
	uint32_t steps = 0;

	CHECK(step_stopped(pid));
	for (uint32_t i = 0;; i++) {
		plan->between(i);
		if (i == piece)
			break;
		CHECK_EQ(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
		CHECK(step_stopped(pid));
	}
	for (; steps < limit; steps++) {
		CHECK_EQ(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		if (step_stopped(pid))
			break;
		if (steps % 16 == 0)
			plan->meanwhile();
	}
	step_kill(pid);
	return steps;
}

#endif
