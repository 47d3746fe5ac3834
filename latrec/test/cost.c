/* SPDX-License-Identifier: MIT */
/*
 * The program of cost.py, which counts the instructions of COUNT samples:
 *
 *	latrec-cost WHAT COUNT
 *
 * `nothing` executes only the loop that all variants share: it makes the stamps and compares them.
 */
#include "latrec.h"

#include "support/test.h"

#define DEPTH 32
#define LATENCIES 4096
#define STEP_NS 1000 /* time between two posts: a window ends every 100,000 samples */

static uint64_t latency[LATENCIES];
static uint64_t errors;

/* Returns the stamp unchanged, in a way that the compiler cannot compute in advance. */
ALWAYS_INLINE uint64_t opaque(uint64_t ns)
{
	__asm__ volatile("" : "+r"(ns));
	return ns;
}

static void nothing(struct latrec *r, struct latrec_ep *ep, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t post = opaque(i * STEP_NS), done = opaque(post + latency[i % LATENCIES]);

		if (opaque(done) < post)
			errors++;
	}
}

static void histogram(struct latrec *r, struct latrec_ep *ep, uint64_t count)
{
	struct latrec_hist *h;

	CHECK_EQ(latrec_hist_create(NULL, &h), 0);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t post = opaque(i * STEP_NS), done = opaque(post + latency[i % LATENCIES]);

		if (opaque(done) < post)
			errors++;
		latrec_hist_record(h, latency[i % LATENCIES]);
	}
	latrec_hist_destroy(h);
}

static void record(struct latrec *r, struct latrec_ep *ep, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t post = opaque(i * STEP_NS), done = opaque(post + latency[i % LATENCIES]);

		if (latrec_record(r, post, post, done))
			errors++;
	}
}

static void closed(struct latrec *r, struct latrec_ep *ep, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t post = opaque(i * STEP_NS), done = opaque(post + latency[i % LATENCIES]);

		if (latrec_ep_post(ep, post, post))
			errors++;
		if (latrec_ep_complete(ep, done))
			errors++;
	}
}

static void due(struct latrec *r, struct latrec_ep *ep, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t post = opaque(i * STEP_NS), done = opaque(post + latency[i % LATENCIES]);

		if (latrec_ep_post(ep, opaque(post - 500), post))
			errors++;
		if (latrec_ep_complete(ep, done))
			errors++;
	}
}

static const struct {
	const char *name;
	void (*run)(struct latrec *, struct latrec_ep *, uint64_t);
} works[] = {
	{"nothing", nothing},
	{"histogram", histogram},
	{"record", record},
	{"closed", closed},
	{"due", due},
};

int main(int argc, char **argv)
{
	struct latrec_attr attr = {.intended = false};
	uint64_t rng = 1, count;
	struct latrec_ep *ep;
	struct latrec *r;

	CHECK_EQ(argc, 3);
	attr.intended = !strcmp(argv[1], "due");
	count = strtoull(argv[2], NULL, 10);
	CHECK_EQ(latrec_create(&attr, &r), 0);
	CHECK_EQ(latrec_ep_create(r, DEPTH, &ep), 0);
	/* Latencies in each power of two from 1 us to 1 ms, equally often. */
	for (uint32_t i = 0; i < LATENCIES; i++)
		latency[i] = (1000 + test_rand(&rng) % 1000) << (i % 10);
	for (size_t i = 0; i < ARRAY_SIZE(works); i++)
		if (!strcmp(argv[1], works[i].name))
			works[i].run(r, ep, count);
	CHECK_EQ(errors, 0);
	latrec_ep_destroy(ep);
	latrec_destroy(r);
	return 0;
}
