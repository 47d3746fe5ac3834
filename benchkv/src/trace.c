/* SPDX-License-Identifier: MIT */
#include "trace.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bucket.h"

const char *const trace_phase_names[TRACE_PHASES] = {
	[TRACE_LOCAL] = "local",
	[TRACE_CHANNELS] = "channels",
	[TRACE_NETWORK] = "network",
	[TRACE_CALLS] = "calls",
	[TRACE_RETRY] = "retry",
	[TRACE_FLUSH] = "flush",
	[TRACE_FORWARD] = "forward",
};

int trace_init(struct trace *t)
{
	uint64_t now = clock_ns();

	/* calloc(): pages that are not used take no memory. */
	*t = (struct trace){.samples = calloc(TRACE_MAX, sizeof(*t->samples)),
		.start_ns = now,
		.due_ns = now};
	return t->samples ? 0 : -ENOMEM;
}

void trace_fini(struct trace *t)
{
	free(t->samples);
}

void trace_add(struct trace *t, const struct trace_sample *sample)
{
	t->samples[t->n++] = *sample;
	t->due_ns = sample->time_ns + TRACE_EVERY_NS;
}

static double us(uint64_t ns)
{
	return (double)ns / (double)NSEC_PER_USEC;
}

static void write_sample(const struct trace *t, const struct trace_sample *s, FILE *out)
{
	fprintf(out, ",%.0f,%u,%u,%u,%u,%s,%u,%u,%.3f,%u,%.4f,%.3f,%.4f,%u",
		us(s->time_ns - t->start_ns), s->outstanding, s->waiting, s->held, s->cqes,
		bucket_name(s->cqes), s->messages, s->polls, us(s->loop_ns), s->u, s->e, s->rtt_us,
		s->rho, s->unconsumed);
	for (int i = 0; i < TRACE_PHASES; i++)
		fprintf(out, ",%.3f", us(s->phase_ns[i] - s->time_ns));
	fputc('\n', out);
}

void trace_write_names(FILE *out)
{
	errno = 0;
	fprintf(out, "daemon,time_us,outstanding,waiting,held,cqes,cqe_bucket,messages,polls,"
		     "loop_us,u,e,rtt_us,rho,unconsumed");
	for (int i = 0; i < TRACE_PHASES; i++)
		fprintf(out, ",%s_us", trace_phase_names[i]);
	fputc('\n', out);
}

void trace_write(const struct trace *t, uint32_t daemon, FILE *out)
{
	for (uint32_t i = 0; i < t->n && !ferror(out); i++) {
		fprintf(out, "%u", daemon);
		write_sample(t, &t->samples[i], out);
	}
}
