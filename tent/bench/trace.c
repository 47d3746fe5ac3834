/* SPDX-License-Identifier: MIT */
#include "trace.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
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
	while (!poll(&p, 1, TRACE_MS));
	sample(t);
	return NULL;
}

static int trace_free(struct trace *t, int err)
{
	if (t->stop >= 0)
		close(t->stop);
	if (t->out == stdout)
		err = fflush(t->out) && !err ? -errno : err;
	else if (t->out)
		err = fclose(t->out) && !err ? -errno : err;
	free(t);
	return err;
}

int trace_start(struct tent_segment *s, const char *path, struct trace **trace_p)
{
	struct trace *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	t->segment = s;
	t->from = clock_ns();
	t->stop = eventfd(0, EFD_CLOEXEC);
	if (t->stop < 0)
		return trace_free(t, -errno);
	t->out = strcmp(path, "-") ? fopen(path, "we") : stdout;
	if (!t->out)
		return trace_free(t, -errno);
	fputs("time_us,rail,bytes,up,outages\n", t->out);
	err = -pthread_create(&t->thread, NULL, look, t);
	if (err)
		return trace_free(t, err);
	*trace_p = t;
	return 0;
}

int trace_stop(struct trace *t)
{
	const uint64_t one = 1;

	if (!t)
		return 0;
	if (write(t->stop, &one, sizeof(one)) < 0)
		abort(); /* write() fails only on overflow */
	pthread_join(t->thread, NULL);
	return trace_free(t, ferror(t->out) ? -EIO : 0);
}
