/* SPDX-License-Identifier: MIT */
#include "decide.h"

#include <errno.h>

#include "base/clock.h"
#include "case.h"
#include "sched.h"

#define RAILS 8
#define SLICES 1000000u
#define QUEUE 4096u
#define REQUEST (1u << 20)
#define OPEN 4
#define STEP_NS 410 /* simulated time between completions: 64 KiB at 160 bytes per ns */

/* Slices complete in the order in which they were posted. */
struct idle {
	uint64_t tokens[QUEUE];
	uint64_t head, tail;
	uint32_t open; /* number of open requests */
};

static int op_post(void *arg, uint32_t rail, const struct sched_slice *slice)
{
	struct idle *d = arg;

	if (d->tail - d->head == QUEUE)
		return -EAGAIN;
	d->tokens[d->tail++ % QUEUE] = slice->token;
	return 0;
}

static void op_fence(void *arg, uint32_t rail, uint32_t epoch)
{
}

static void op_done(void *arg, uint64_t user, int status)
{
	struct idle *d = arg;

	d->open--;
}

static const struct rail_ops ops = {.post = op_post, .fence = op_fence, .done = op_done};

static int create(const struct tent_config *config, struct idle *d, struct sched **s_p)
{
	static const uint8_t tiers[RAILS] = {0, 0, 0, 0, 2, 2, 2, 2};
	static const double link = CASE_LINK_RATE;
	struct sched_rail_attr rails[RAILS];
	struct sched_attr attr = {
		.config = config,
		.rails = rails,
		.n_rails = RAILS,
		.tiers = tiers,
		.n_locations = 1,
		.group_rates = &link,
		.n_groups = 1,
		.ops = &ops,
		.arg = d,
	};

	for (uint32_t r = 0; r < RAILS; r++)
		rails[r] = (struct sched_rail_attr){.rate = CASE_RATE,
			.latency_ns = 5000,
			.group = r < 4 ? SCHED_NO_GROUP : 0};
	return sched_create(&attr, s_p);
}

int decide_measure(const struct tent_config *config, double *ns_p)
{
	const struct sched_request req = {.length = REQUEST, .write = true};
	struct idle d = {.head = 0};
	struct sched *s = NULL;
	uint64_t now = 0, from = clock_ns();
	int err = create(config, &d, &s);

	while (!err && d.head < SLICES) {
		while (!err && d.open < OPEN) {
			err = sched_submit(s, now, &req);
			d.open += !err;
		}
		sched_run(s, now);
		now += STEP_NS;
		if (d.head != d.tail)
			sched_completed(s, now, d.tokens[d.head++ % QUEUE], 0);
	}
	if (!err)
		*ns_p = (double)(clock_ns() - from) / SLICES;
	sched_destroy(s);
	return err;
}
