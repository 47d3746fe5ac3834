/* SPDX-License-Identifier: MIT */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"

int trace_init(struct trace *t)
{
	/* Touched only as far as it is used. */
	t->samples = calloc(TRACE_MAX, sizeof(*t->samples));
	t->start_ns = t->loop_ns = clock_ns();
	t->due_ns = t->start_ns;
	return t->samples ? 0 : -ENOMEM;
}

void trace_fini(struct trace *t)
{
	free(t->samples);
	t->samples = NULL;
}

void trace_add(struct trace *t, uint64_t now_ns, struct trace_sample sample)
{
	sample.time_ns = now_ns - t->start_ns;
	t->samples[t->n++] = sample;
	t->due_ns = now_ns + TRACE_EVERY_NS;
}

void trace_name(const char *file, uint32_t rank, char name[TRACE_NAME_MAX])
{
	snprintf(name, TRACE_NAME_MAX, "%.*s.%u", TRACE_NAME_MAX - 12, file, rank);
}

int trace_open(const char *file, uint32_t rank, FILE **out_p)
{
	char name[TRACE_NAME_MAX];
	FILE *out;

	trace_name(file, rank, name);
	out = fopen(name, "w");
	if (!out)
		return -errno;
	*out_p = out;
	return 0;
}

int trace_write(const struct trace *t, FILE *out)
{
	int err = 0;

	errno = 0;
	fprintf(out, "time_us,outstanding,waiting,held,messages,polls,loop_us,u,unconsumed\n");
	for (uint32_t i = 0; i < t->n && !err; i++) {
		const struct trace_sample *s = &t->samples[i];

		if (fprintf(out, "%" PRIu64 ",%u,%u,%u,%u,%u,%.3f,%u,%u\n", s->time_ns / 1000,
			    s->outstanding, s->waiting, s->held, s->messages, s->polls,
			    (double)s->loop_ns / 1e3, s->u, s->unconsumed) < 0)
			err = errno ? -errno : -EIO;
	}
	if (fclose(out) && !err)
		err = -errno;
	return err;
}
