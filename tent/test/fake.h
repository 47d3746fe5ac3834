/* SPDX-License-Identifier: MIT */
/* Rails that a test controls: a posted slice or mark stays posted until the test ends it. */
#ifndef TENT_TEST_FAKE_H
#define TENT_TEST_FAKE_H

#include <errno.h>

#include "support/test.h"
#include "sched_priv.h"

#define FAKE_RAILS 4
#define FAKE_POSTS 8192
#define FAKE_MARKS 1024
#define RATE 25.0 /* bytes per ns */
#define KIB 1024ull
#define MIB (1024 * KIB)
#define SLICE (64 * KIB)
#define SLICE_NS 2622ull /* at RATE */

static const enum tent_mode modes[] = {TENT_BASELINE, TENT_SMART, TENT_PULL};

struct fake_post {
	struct sched_slice slice;
	uint32_t rail;
	bool ended;
};

struct fake_mark {
	uint64_t user;
	uint32_t position;
	int status;
};

struct fake {
	struct sched *s;
	struct sched_attr attr;
	struct tent_config config;
	struct sched_rail_attr rails[FAKE_RAILS];
	uint8_t tiers[2 * FAKE_RAILS];
	uint64_t now;
	struct fake_post posts[FAKE_POSTS];
	uint32_t n_posts;
	int post_error[FAKE_RAILS]; /* the result of rail_ops.post */
	uint32_t fences[FAKE_RAILS], fence_epoch[FAKE_RAILS];
	uint32_t probes[FAKE_RAILS], probe_epoch[FAKE_RAILS];
	int open_error[FAKE_RAILS]; /* the result of rail_ops.open */
	bool closed[FAKE_RAILS]; /* there is no link */
	struct fake_mark marks[FAKE_MARKS]; /* that have ended */
	uint32_t n_marks;
	uint32_t done, failed;
	int last_status;
	uint64_t last_user;
	uint64_t wake; /* the result of the last sched_run() */
};

static struct fake f; /* of the case that runs */

static int fake_op_post(void *arg, uint32_t rail, const struct sched_slice *slice)
{
	CHECK(!f.closed[rail]);
	if (f.post_error[rail])
		return f.post_error[rail];
	CHECK(f.n_posts < FAKE_POSTS);
	f.posts[f.n_posts++] = (struct fake_post){*slice, rail, false};
	return 0;
}

static void fake_op_fence(void *arg, uint32_t rail, uint32_t epoch)
{
	CHECK(!f.closed[rail]);
	f.fences[rail]++;
	f.fence_epoch[rail] = epoch;
}

static int fake_op_open(void *arg, uint32_t rail, uint32_t epoch)
{
	CHECK(f.closed[rail]);
	f.probes[rail]++;
	f.probe_epoch[rail] = epoch;
	f.closed[rail] = f.open_error[rail] != 0;
	return f.open_error[rail];
}

/* Closes a link, which ends the posts on it. */
static void fake_op_close(void *arg, uint32_t rail)
{
	CHECK(!f.closed[rail]);
	f.closed[rail] = true;
	for (uint32_t i = 0; i < f.n_posts; i++)
		f.posts[i].ended |= f.posts[i].rail == rail;
}

static void fake_op_done(void *arg, uint64_t user, int status)
{
	f.done++;
	f.failed += status != 0;
	f.last_status = status;
	f.last_user = user;
}

static void fake_op_marked(void *arg, uint64_t user, uint32_t position, int status)
{
	CHECK(f.n_marks < FAKE_MARKS);
	f.marks[f.n_marks++] = (struct fake_mark){user, position, status};
}

static const struct rail_ops fake_ops = {
	.post = fake_op_post,
	.fence = fake_op_fence,
	.open = fake_op_open,
	.close = fake_op_close,
	.done = fake_op_done,
	.marked = fake_op_marked,
};

/*
 * Sets the attributes of a scheduler of this mode, which the caller may change before
 * fake_create(). For location 0, rails 0 and 1 are local and rails 2 and 3 remote; for location 1,
 * rails 2 and 3 are local.
 */
static inline void fake_init(enum tent_mode mode)
{
	sched_destroy(f.s);
	f = (struct fake){.tiers = {0, 0, 2, 2, 2, 2, 0, 0}, .now = 1000000};
	config_init(&f.config);
	f.config.mode = mode;
	for (uint32_t r = 0; r < FAKE_RAILS; r++)
		f.rails[r] = (struct sched_rail_attr){.rate = RATE,
			.latency_ns = 5000,
			.group = SCHED_NO_GROUP};
	f.attr = (struct sched_attr){
		.config = &f.config,
		.rails = f.rails,
		.n_rails = FAKE_RAILS,
		.tiers = f.tiers,
		.n_locations = 2,
		.seed = 1,
		.ops = &fake_ops,
	};
}

static inline void fake_create(void)
{
	sched_destroy(f.s);
	CHECK_EQ(sched_create(&f.attr, &f.s), 0);
}

static inline void fake_start(enum tent_mode mode)
{
	fake_init(mode);
	fake_create();
}

/* Does the same as fake_start(), with the two rails of the best tier only. Rail 1 has this rate. */
static inline void fake_start_two(enum tent_mode mode, double rate)
{
	fake_init(mode);
	f.config.strict_numa = true;
	f.rails[1].rate = rate;
	fake_create();
}

/* Creates a scheduler in mode number @i. False: there are no more modes. */
static inline bool fake_each(size_t i)
{
	if (i == ARRAY_SIZE(modes))
		return false;
	fake_start(modes[i]);
	return true;
}

static inline void fake_run(void)
{
	f.wake = sched_run(f.s, f.now);
}

static inline void fake_later(uint64_t ns)
{
	f.now += ns;
	fake_run();
}

/* Continues at the time that the last sched_run() returned. */
static inline void fake_wake(void)
{
	f.now = f.wake;
	fake_run();
}

static inline int fake_submit_at(uint64_t length, uint32_t location)
{
	struct sched_request req = {.length = length, .user = length, .write = true};
	int err;

	req.location = location;
	err = sched_submit(f.s, f.now, &req);
	fake_run();
	return err;
}

static inline int fake_submit(uint64_t length)
{
	return fake_submit_at(length, 0);
}

static inline int fake_complete(uint32_t post, int status)
{
	return sched_completed(f.s, f.now, f.posts[post].slice.token, status);
}

/* Advances the time, then ends a post. */
static inline void fake_end(uint32_t post, uint64_t after, int status)
{
	f.now += after;
	f.posts[post].ended = true;
	CHECK_EQ(fake_complete(post, status), 0);
	fake_run();
}

/* The oldest post of a rail that has not ended, or FAKE_POSTS. */
static inline uint32_t fake_oldest(uint32_t rail)
{
	for (uint32_t i = 0; i < f.n_posts; i++) {
		if (f.posts[i].rail == rail && !f.posts[i].ended)
			return i;
	}
	return FAKE_POSTS;
}

/* Completes all posts and those that follow, one per rail in turn. */
static inline void fake_drain(void)
{
	for (bool some = true; some;) {
		some = false;
		for (uint32_t r = 0; r < FAKE_RAILS; r++) {
			uint32_t post = fake_oldest(r);

			if (post == FAKE_POSTS)
				continue;
			fake_end(post, SLICE_NS / FAKE_RAILS, 0);
			some = true;
		}
	}
}

/* Completes all posts. Checks that @done requests have ended, and @failed of them with an error. */
static inline void fake_finish(uint32_t done, uint32_t failed)
{
	fake_drain();
	CHECK_EQ(f.done, done);
	CHECK_EQ(f.failed, failed);
	CHECK(sched_idle(f.s));
}

static inline struct sched_rail_stats fake_rail(uint32_t rail)
{
	struct sched_rail_stats st;

	sched_rail_stats(f.s, rail, &st);
	return st;
}

/* Confirms the fence of a rail: its posts are gone. */
static inline void fake_fenced(uint32_t rail, uint64_t after)
{
	CHECK_EQ(fake_rail(rail).state, RAIL_FENCING);
	f.now += after;
	sched_fenced(f.s, f.now, rail, f.fence_epoch[rail], 0);
	fake_run();
}

/* The peer has created its end of a rail, and the probe ends with this status. */
static inline void fake_probed(uint32_t rail, int status)
{
	sched_connected(f.s, f.now, rail, f.probe_epoch[rail], 0);
	sched_probed(f.s, f.now, rail, f.probe_epoch[rail], status);
}

/* The port of a rail is up again, and its probe arrives. */
static inline void fake_return(uint32_t rail)
{
	sched_rail_up(f.s, f.now, rail);
	fake_run();
	fake_probed(rail, 0);
	fake_run();
}

static inline uint64_t fake_posted_on(uint32_t rail)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < f.n_posts; i++)
		n += f.posts[i].rail == rail;
	return n;
}

#endif
