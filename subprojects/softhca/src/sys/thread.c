/* SPDX-License-Identifier: MIT */
#include "sys/thread.h"

#include <pthread.h>
#include <semaphore.h>

struct start {
	void *(*run)(void *arg);
	void *arg;
	sem_t runs;
};

static void *begin(void *arg)
{
	struct start *s = arg;
	void *(*run)(void *arg) = s->run;

	arg = s->arg;
	sem_post(&s->runs); /* *s may not exist after this */
	return run(arg);
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
