/* SPDX-License-Identifier: MIT */
/*
 * benchkv that records the order in which its daemons do their work. Each of these functions
 * records the letter of its phase (phases.h) and then calls the function that it replaces (ld
 * --wrap). The file $BENCHKV_ORDER.RANK, which is written at the end, has a line for each different
 * sequence of letters that one round of a daemon's loop has recorded, with the number of such
 * rounds. In phase B the daemon polls delegrpc's ring by an inline function, which is not recorded.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon.h"

#define ORDERS 16
#define LOOP_MAX 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	char loop[LOOP_MAX];
	unsigned long n;
} orders[ORDERS];

static void count(const char *loop)
{
	int i = 0;

	pthread_mutex_lock(&lock);
	while (i < ORDERS - 1 && orders[i].n && strcmp(orders[i].loop, loop))
		i++;
	snprintf(orders[i].loop, LOOP_MAX, "%s", loop);
	orders[i].n++;
	pthread_mutex_unlock(&lock);
}

/* Records a letter. A loop begins with A; equal letters in a row count as one. */
static void seen(char phase)
{
	static _Thread_local char loop[LOOP_MAX];
	size_t n = strlen(loop);

	if (phase == 'A' && n) {
		count(loop);
		memset(loop, 0, sizeof(loop));
		n = 0;
	}
	if (n < LOOP_MAX - 1 && (!n || loop[n - 1] != phase))
		loop[n] = phase;
}

__attribute__((destructor)) static void write_orders(void)
{
	const char *file = getenv("BENCHKV_ORDER"), *rank = getenv("PMIX_RANK");
	char name[4096];
	FILE *out;

	if (!file || !orders[0].n)
		return;
	snprintf(name, sizeof(name), "%s.%s", file, rank ? rank : "0");
	out = fopen(name, "w");
	if (!out)
		return;
	for (int i = 0; i < ORDERS && orders[i].n; i++)
		fprintf(out, "%s %lu\n", orders[i].loop, orders[i].n);
	fclose(out);
}

#define COUNTED(phase, fn)                                                                         \
	uint32_t __real_##fn(struct daemon *d);                                                    \
	uint32_t __wrap_##fn(struct daemon *d);                                                    \
	uint32_t __wrap_##fn(struct daemon *d)                                                     \
	{                                                                                          \
		seen(phase);                                                                       \
		return __real_##fn(d);                                                             \
	}

#define SILENT(phase, fn)                                                                          \
	void __real_##fn(struct daemon *d);                                                        \
	void __wrap_##fn(struct daemon *d);                                                        \
	void __wrap_##fn(struct daemon *d)                                                         \
	{                                                                                          \
		seen(phase);                                                                       \
		__real_##fn(d);                                                                    \
	}

COUNTED('A', daemon_serve_local)
COUNTED('B', network_take_answers)
COUNTED('B', daemon_serve_forwarded)
COUNTED('B', errands_exchange)
COUNTED('C', network_poll)
COUNTED('D', errands_take)
SILENT('E', errands_retry)
SILENT('F', network_flush)
SILENT('G', network_forward)
