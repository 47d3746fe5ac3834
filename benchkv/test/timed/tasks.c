/* SPDX-License-Identifier: MIT */
#include "tasks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"

#define STACK_SIZE (256u << 10)
#define START_NS NSEC_PER_SEC
#define LOOK_NS 5000 /* interval at which a task polls a condition, or the end of a task */
#define MOST 1024

struct task {
	uint64_t at; /* the task's time, or the time when it will run again */
	uint64_t turn; /* order of insertion; of tasks with the same time the lowest runs first */
	uint64_t wake; /* earliest time of a task_wake() since the last rest; UINT64_MAX: none */
	uint32_t place; /* index in the heap */
	bool resting, done;
	task_fn *body;
	void *arg, *stack;
	ucontext_t context;
};

static struct task first = {.at = START_NS, .wake = UINT64_MAX};
static struct task *running = &first;
static struct task *heap[MOST]; /* all tasks except the running one; the earliest is at 0 */
static uint32_t n_heap;
static uint64_t turns;

/* ---- the heap ---- */

static bool before(const struct task *a, const struct task *b)
{
	return a->at != b->at ? a->at < b->at : a->turn < b->turn;
}

static void place(struct task *t, uint32_t i)
{
	heap[i] = t;
	t->place = i;
}

static void sift_up(struct task *t, uint32_t i)
{
	for (; i && before(t, heap[(i - 1) / 2]); i = (i - 1) / 2)
		place(heap[(i - 1) / 2], i);
	place(t, i);
}

static void sift_down(struct task *t, uint32_t i)
{
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child + 1 < n_heap && before(heap[child + 1], heap[child]))
			child++;
		if (child >= n_heap || before(t, heap[child]))
			break;
		place(heap[child], i);
		i = child;
	}
	place(t, i);
}

static void put(struct task *t)
{
	CHECK(n_heap < MOST);
	t->turn = turns++;
	sift_up(t, n_heap++);
}

/* ---- tasks ---- */

static void switch_to(struct task *next)
{
	struct task *self = running;

	running = next;
	CHECK(!swapcontext(&self->context, &next->context));
}

/* Runs the other tasks until none has an earlier time than this one. */
static void give_way(void)
{
	struct task *next = n_heap ? heap[0] : NULL, *self = running;

	if (!next || next->at >= self->at)
		return;
	self->turn = turns++;
	sift_down(self, 0);
	switch_to(next);
}

static void run_body(void)
{
	struct task *self = running, *next;

	self->body(self->arg);
	self->done = true;
	next = heap[0]; /* not NULL: the heap has the task that joins this one */
	n_heap--;
	if (n_heap)
		sift_down(heap[n_heap], 0);
	switch_to(next);
}

struct task *task_start(task_fn *body, void *arg)
{
	struct task *t = calloc(1, sizeof(*t));

	CHECK(t);
	*t = (struct task){.at = running->at, .wake = UINT64_MAX, .body = body, .arg = arg};
	t->stack = malloc(STACK_SIZE);
	CHECK(t->stack && !getcontext(&t->context));
	t->context.uc_stack.ss_sp = t->stack;
	t->context.uc_stack.ss_size = STACK_SIZE;
	makecontext(&t->context, run_body, 0);
	put(t);
	return t;
}

void task_join(struct task *t)
{
	while (!t->done)
		task_spend(LOOK_NS);
	free(t->stack);
	free(t);
}

struct task *task_self(void)
{
	return running;
}

task_fn *task_body(void)
{
	return running->body;
}

void *task_arg(void)
{
	return running->arg;
}

uint64_t task_now(void)
{
	return running->at;
}

void task_spend(uint64_t ns)
{
	running->at += ns;
	give_way();
}

void task_rest(uint64_t most_ns)
{
	struct task *self = running;
	uint64_t until = self->at + most_ns;

	if (self->wake < until)
		until = self->wake > self->at ? self->wake : self->at;
	self->resting = true;
	self->at = until;
	give_way();
	self->resting = false;
	self->wake = UINT64_MAX;
}

void task_wake(struct task *t, uint64_t at_ns)
{
	if (at_ns < t->wake)
		t->wake = at_ns;
	if (t->resting && at_ns < t->at) {
		t->at = at_ns;
		sift_up(t, t->place);
	}
}

/* ---- functions that replace those of libc ---- */

int clock_gettime(clockid_t id, struct timespec *ts)
{
	uint64_t now = running->at;

	if (id != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, id, ts);
	*ts = (struct timespec){(time_t)(now / NSEC_PER_SEC), (long)(now % NSEC_PER_SEC)};
	return 0;
}

__typeof__(pthread_create) __wrap_pthread_create;
__typeof__(pthread_join) __wrap_pthread_join;
__typeof__(pthread_setname_np) __wrap_pthread_setname_np;
__typeof__(pthread_cond_wait) __wrap_pthread_cond_wait;
__typeof__(pthread_cond_clockwait) __wrap_pthread_cond_clockwait;

int __wrap_pthread_create(pthread_t *thread_p, const pthread_attr_t *attr, task_fn *body, void *arg)
{
	*thread_p = (pthread_t)(uintptr_t)task_start(body, arg);
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result_p)
{
	task_join((struct task *)(uintptr_t)thread);
	return 0;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
	return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	pthread_mutex_unlock(lock);
	task_spend(LOOK_NS);
	pthread_mutex_lock(lock);
	return 0;
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *lock, clockid_t id,
	const struct timespec *until)
{
	return __wrap_pthread_cond_wait(cond, lock);
}
