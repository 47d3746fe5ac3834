/* SPDX-License-Identifier: MIT */
#include "sys/thread.h"

#include <semaphore.h>

struct start {
	void *(*run)(void *arg);
	void *arg;
	sem_t runs;
};

static uint32_t threads; /* relaxed: only a thread that started all others needs the exact number */

static void *begin(void *arg)
{
	struct start *s = arg;
	void *(*run)(void *arg) = s->run;

	arg = s->arg;
	__atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
	sem_post(&s->runs); /* *s may not exist after this */
	arg = run(arg);
	__atomic_fetch_sub(&threads, 1, __ATOMIC_RELAXED);
	return arg;
}

uint32_t thread_count(void)
{
	return __atomic_load_n(&threads, __ATOMIC_RELAXED);
}

int thread_start(void *(*run)(void *arg), void *arg)
{
	struct start s = {.run = run, .arg = arg};
	pthread_attr_t attr;
	pthread_t t;
	int r;

	sem_init(&s.runs, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&t, &attr, begin, &s);
	pthread_attr_destroy(&attr);
	while (!r && sem_wait(&s.runs)) /* a debugger's signal interrupts it */
		;
	return -r;
}

void thread_block_signals(sigset_t *saved)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &all, saved);
}

int thread_start_once(struct thread_once *t, int (*start)(void))
{
	sigset_t saved;
	int r = 0;

	thread_block_signals(&saved);
	pthread_mutex_lock(&t->lock);
	if (!t->running) {
		r = start();
		t->running = !r;
	}
	pthread_mutex_unlock(&t->lock);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return r;
}

void thread_forget(struct thread_once *t)
{
	pthread_mutex_init(&t->lock, NULL);
	t->running = false;
	__atomic_store_n(&threads, 0, __ATOMIC_RELAXED);
}
