/* SPDX-License-Identifier: MIT */
/*
 * Virtual time. The threads of the program under test are tasks of one thread, each with its own
 * stack and its own time. The task with the earliest time runs, until another task has an earlier
 * time. So everything happens in the order of virtual time, and each run is the same.
 *
 * In the whole program, including its libraries, clock_gettime() of CLOCK_MONOTONIC returns the
 * running task's time. The functions with which the program creates threads and waits are replaced
 * at link time (tasks.c, costs.c): pthread_create() creates a task, pthread_join() waits for its
 * end, and a wait for a condition variable has a spurious wake-up every few microseconds.
 */
#ifndef BENCHKV_TIMED_TASKS_H
#define BENCHKV_TIMED_TASKS_H

#include <stdint.h>

struct task;

/* The function of a task. task_body() returns that of the running task, task_arg() its argument. */
typedef void *task_fn(void *arg);

struct task *task_start(task_fn *body, void *arg);

/* Waits for the end of a task, and frees it. */
void task_join(struct task *t);

struct task *task_self(void);
task_fn *task_body(void); /* NULL: the first task, main() */
void *task_arg(void);

uint64_t task_now(void);

/* Advances the running task's time by @ns. */
void task_spend(uint64_t ns);

/* The running task rests until the time that task_wake() gives, at most for @most_ns. */
void task_rest(uint64_t most_ns);

/* Ends the rest of a task at @at_ns. If the task does not rest, its next rest ends at that time. */
void task_wake(struct task *t, uint64_t at_ns);

#endif
