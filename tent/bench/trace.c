/* SPDX-License-Identifier: MIT */
#include "trace.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

#define TRACE_MS 10

struct trace {
	pthread_t thread;
	struct tent_segment *segment;
	FILE *out;
	uint64_t from;
	int stop; /* an eventfd: readable when the thread must end */
};

static void sample(const struct trace *t)
{
	double us = (double)(clock_ns() - t->from) / 1e3;
	struct tent_rail_stats r;

	for (uint32_t i = 0; !tent_rail_get_stats(t->segment, i, &r, sizeof(r)); i++)
		fprintf(t->out, "%.0f,%s-%s,%llu,%d,%llu\n", us, r.name, r.remote,
			(unsigned long long)r.bytes, r.up, (unsigned long long)r.exclusions);
}

static void *look(void *arg)
{
	struct trace *t = arg;
	struct pollfd p = {.fd = t->stop, .events = POLLIN};

	do
		sample(t);
	while (poll(&p, 1, TRACE_MS) != 1);
	sample(t);
	return NULL;
}

static void trace_free(struct trace *t)
{
	if (t->stop >= 0)
		close(t->stop);
	free(t);
}

int trace_start(struct tent_segment *s, FILE *out, struct trace **trace_p)
{
	struct trace *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	t->segment = s;
	t->out = out;
	t->from = clock_ns();
	t->stop = eventfd(0, EFD_CLOEXEC);
	fputs("time_us,rail,bytes,up,outages\n", t->out);
	err = t->stop < 0 ? -errno : -pthread_create(&t->thread, NULL, look, t);
	if (err)
		trace_free(t);
	else
		*trace_p = t;
	return err;
}

void trace_stop(struct trace *t)
{
	if (!t)
		return;
	if (eventfd_write(t->stop, 1))
		abort(); /* write() fails only on overflow */
	pthread_join(t->thread, NULL);
	trace_free(t);
}
