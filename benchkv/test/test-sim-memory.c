/* SPDX-License-Identifier: MIT */
/*
 * The simulator without memory. Each allocation of a job fails once: the job ends with -ENOMEM and
 * frees what it has allocated. The functions replace those of the C library in the simulator's
 * code.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "support/test.h"
#include "sim.h"

static long left; /* allocations until one fails */
static long live; /* blocks that are allocated */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void __wrap_free(void *p);

static void *counted(void *p)
{
	live += p != NULL;
	return p;
}

/* True: this allocation fails. */
static bool fails(void)
{
	return left-- == 0;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
	if (fails())
		return NULL;
	live -= p != NULL;
	return counted(__real_realloc(p, size));
}

/* Memory that is not zero, so that a read before the first write has an effect. */
void *__wrap_aligned_alloc(size_t align, size_t size)
{
	void *p = fails() ? NULL : counted(__real_aligned_alloc(align, size));

	return p ? memset(p, 0xa5, size) : NULL;
}

void __wrap_free(void *p)
{
	live -= p != NULL;
	__real_free(p);
}

TEST(each_allocation_fails)
{
	struct sim_config c = {.ranks = 3,
		.daemons = 2,
		.clients = 4,
		.depth = 8,
		.client_waits = 2,
		.threads = 1,
		.warmup_ns = 10 * NSEC_PER_USEC,
		.duration_ns = 50 * NSEC_PER_USEC,
		.seed = 1};
	struct sim_result r;
	uint32_t refused = 0;
	char why[128];
	int err = 0;

	left = -1;
	CHECK_EQ(machine_load("hdr100", &c.machine, why, sizeof(why)), 0);
	CHECK_EQ(control_parse("auto", &c.control), 0);
	for (long nth = 0; left < 0; nth++) {
		left = nth;
		live = 0;
		err = sim_run(&c, &r);
		CHECK(!err || err == -ENOMEM);
		CHECK_EQ(live, 0);
		refused += err != 0;
	}
	CHECK_EQ(err, 0);
	CHECK(refused > 50);
}
