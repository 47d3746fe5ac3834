/* SPDX-License-Identifier: MIT */
/* The trace: its lines, the borders of the buckets, and the limit of the samples. */
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "bucket.h"
#include "trace.h"

TEST(buckets_have_their_borders)
{
	static const struct {
		uint32_t n, bucket;
		const char *name;
	} cases[] = {{0, 0, "0"}, {1, 1, "1"}, {2, 2, "2-10"}, {10, 2, "2-10"}, {11, 3, "11-100"},
		{100, 3, "11-100"}, {101, 4, ">100"}, {UINT32_MAX, 4, ">100"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_EQ(bucket_of(cases[i].n), cases[i].bucket);
		CHECK(!strcmp(bucket_name(cases[i].n), cases[i].name));
	}
}

TEST(writes_a_line_per_sample)
{
	struct trace_sample s = {.loop_ns = 2500,
		.outstanding = 3,
		.waiting = 2,
		.held = 1,
		.cqes = 11,
		.messages = 40,
		.polls = 5,
		.u = 7,
		.e = 0.25f,
		.rtt_us = 6.5f,
		.rho = 1.125f,
		.unconsumed = 9};
	char *text = NULL;
	AT_END(trace_fini) struct trace t;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	CHECK(out);
	CHECK_EQ(trace_init(&t), 0);
	s.time_ns = t.start_ns + 1000000;
	for (int i = 0; i < TRACE_PHASES; i++)
		s.phase_ns[i] = s.time_ns + 100 * (uint64_t)i;
	trace_add(&t, &s);
	trace_write_names(out);
	trace_write(&t, 6, out);
	fclose(out);
	CHECK(!strcmp(text,
		"daemon,time_us,outstanding,waiting,held,cqes,cqe_bucket,messages,polls,loop_us,u,e,"
		"rtt_us,rho,unconsumed,local_us,channels_us,network_us,calls_us,retry_us,flush_us,forward_us\n"
		"6,1000,3,2,1,11,11-100,40,5,2.500,7,0.2500,6.500,1.1250,9,0.000,0.100,0.200,0.300,0.400,0.500,0.600\n"));
	free(text);
}

/* One sample per millisecond, at most 2^20. */
TEST(is_due_and_has_a_bound)
{
	const struct trace_sample s = {.time_ns = 5000};
	AT_END(trace_fini) struct trace t;

	CHECK_EQ(trace_init(&t), 0);
	CHECK(trace_due(&t, t.start_ns));
	trace_add(&t, &s);
	CHECK(!trace_due(&t, 5000 + 999999));
	CHECK(trace_due(&t, 5000 + 1000000));
	t.n = (1u << 20) - 1;
	CHECK(trace_due(&t, 5000 + 1000000));
	t.n++;
	CHECK(!trace_due(&t, 5000 + 1000000));
}
