/* SPDX-License-Identifier: MIT */
/*
 * Random requests between memory of software GPUs of two processes, with faults: errors that come
 * late, on either side; calls of the driver that fail; copies that are held; threads whose current
 * context is another one; requests that are cancelled; and peers that unregister or die. The bytes
 * of both sides are compared with a model after each batch.
 *
 *	TEST_SEED=SEED STORM_COUNT=COUNT test-gpu-storm
 *
 * The rails are drawn as well, unless TENT_RAILS names them. With SOFTHCACTL in the environment
 * they may be adapters.
 */
#include <sched.h>

#include "support/storm.h"

#include "gpuduo.h"

#define ROUNDS 12 /* a seed has 2 to ROUNDS + 2 batches */
#define BATCH 4

enum fault {
	NO_FAULT,
	HELD, /* nothing is copied for a while */
	CANCEL,
	FAILS_HERE, /* an error of a copy, reported later */
	FAILS_THERE,
	CALL_FAILS,
	LEAVES, /* the peer unregisters its memory */
	DIES,
};

/* A model holds the bytes that the memory of the two sides must have. */
struct model {
	uint64_t seed;
	uint8_t *mine, *theirs;
	struct cu_stream *stream; /* of the program */
	uint64_t source; /* memory of the GPU, as long as that of a side */
	enum place there;
	uint32_t requests, failed;
};

static uint64_t below(struct model *m, uint64_t n)
{
	return test_rand(&m->seed) % n;
}

/* ---- contents ---- */

/* Fills a part of one side with new random bytes. */
static void fill(struct model *m, bool mine, size_t at, size_t len)
{
	uint64_t seed = test_rand(&m->seed);
	AT_END(end_free) uint8_t *bytes = duo_bytes(seed, len);

	if (mine)
		part_fill(&d.mine, at, len, seed);
	else
		duo_ask(FILL, at, len, seed);
	memcpy((mine ? m->mine : m->theirs) + at, bytes, len);
}

static void check_mine(const struct model *m, enum fault fault)
{
	AT_END(end_free) uint8_t *has = malloc(d.mine.len);
	size_t i = 0;

	CHECK(has);
	gpu_read(has, d.mine.at, d.mine.len);
	if (!memcmp(has, m->mine, d.mine.len))
		return;
	while (has[i] == m->mine[i])
		i++;
	fprintf(stderr, "fault %d: byte %zu of %zu is wrong\n", fault, i, d.mine.len);
	exit(1);
}

static void check_theirs(const struct model *m)
{
	CHECK_EQ(duo_ask(SUM, 0, d.mine.len, 0), duo_sum(m->theirs, d.mine.len));
}

/* ---- a batch ---- */

/* A stream of the program writes the bytes of the request to this side's memory, later. */
static void fill_by_stream(struct model *m, struct tent_request *r)
{
	size_t at = (uintptr_t)r->local - d.mine.at;
	uint64_t seed = test_rand(&m->seed);
	AT_END(end_free) uint8_t *bytes = duo_bytes(seed, r->len);

	gpu_write(m->source + at, bytes, r->len);
	CHECK_EQ(gpu.cu.copy_async(d.mine.at + at, m->source + at, r->len, m->stream), 0);
	memcpy(m->mine + at, bytes, r->len);
	r->stream = m->stream;
}

/* Draws requests, each in its own part of the memory of both sides. Returns their number. */
static uint32_t draw(struct model *m, enum fault fault, struct tent_request *requests)
{
	uint32_t n = 1 + (uint32_t)below(m, BATCH);
	size_t share = d.mine.len / n;
	bool calm = fault == NO_FAULT || fault == HELD;

	for (uint32_t i = 0; i < n; i++) {
		size_t here = below(m, share),
		       there = storm_one_in(&m->seed, 2) ? here : below(m, share);
		size_t most = share - (here > there ? here : there);
		struct tent_request *r = &requests[i];

		*r = duo_request(storm_one_in(&m->seed, 2) ? TENT_READ : TENT_WRITE,
			i * share + here, 1 + below(m, most));
		r->remote = d.at + i * share + there;
		if (r->op == TENT_WRITE && calm && d.mine.place == ON_GPU &&
			storm_one_in(&m->seed, 3))
			fill_by_stream(m, r);
		if (calm && storm_one_in(&m->seed, 3))
			r->notify = 1 + (uint16_t)i;
	}
	return n;
}

/* Makes another context current, or none, while the requests are submitted. */
static int submit(struct model *m, const struct tent_request *r, uint32_t n,
	struct tent_batch **b_p)
{
	struct cu_context *own = NULL, *other = NULL, *c;
	uint64_t which = below(m, 3);
	int device, err;

	if (which == 1)
		CHECK_EQ(gpu.cu.ctx_pop(&own), 0);
	if (which == 2) {
		CHECK(!gpu.cu.device_get(&device, 1) && !gpu.cu.primary_retain(&other, device) &&
			!gpu.cu.ctx_push(other));
	}
	err = tent_submit(d.t, r, n, b_p);
	if (which == 2)
		CHECK(!gpu.cu.ctx_pop(&c) && c == other);
	if (which == 1)
		CHECK_EQ(gpu.cu.ctx_push(own), 0);
	return err;
}

static void strike_before(struct model *m, enum fault fault)
{
	static const char *const calls[] = {"cuMemcpyAsync", "cuEventRecord", "cuEventCreate"};

	if (fault == FAILS_HERE)
		gpu.softgpu_fail_copy(1 + (unsigned)below(m, 4), CU_LAUNCH_FAILED);
	else if (fault == FAILS_THERE)
		duo_ask(FAIL_COPY, below(m, 4), 0, CU_LAUNCH_FAILED);
	else if (fault == CALL_FAILS)
		gpu.softgpu_fail_call(calls[below(m, ARRAY_SIZE(calls))], CU_OUT_OF_MEMORY);
	else if (fault != NO_FAULT)
		gpu.softgpu_hold(1);
}

static void strike_during(struct model *m, enum fault fault, struct tent_batch *b)
{
	for (uint64_t i = below(m, 40); i; i--)
		sched_yield();
	if (fault == CANCEL)
		tent_cancel(b);
	if (fault == LEAVES)
		duo_tell(UNREGISTER, 0, 0, 0);
	if (fault == DIES) {
		test_kill(d.child);
		d.child = 0;
	}
	gpu.softgpu_hold(0);
	if (fault == LEAVES)
		CHECK_EQ(duo_reply(), 0);
}

static void heal(enum fault fault)
{
	gpu.softgpu_fail_copy(0, 0);
	gpu.softgpu_fail_call("", 0);
	gpu.softgpu_heal();
	if (fault == FAILS_THERE)
		duo_ask(HEAL, 0, 0, 0);
}

static bool may_end(enum fault fault, int err)
{
	switch (fault) {
	case CANCEL:
		return err == -ECANCELED;
	case FAILS_HERE:
	case FAILS_THERE:
		return err == -EIO;
	case CALL_FAILS:
		return err == -ENOMEM;
	case LEAVES:
		return err == -EACCES;
	case DIES:
		return err == -ECONNRESET;
	default:
		return false;
	}
}

/* The request has ended. Its bytes are in place; after an error they may have any values. */
static void judge(struct model *m, enum fault fault, const struct tent_request *r,
	const struct tent_status *st)
{
	size_t here = (uintptr_t)r->local - d.mine.at, there = r->remote - d.at;
	bool gone = fault == LEAVES || fault == DIES;

	m->requests++;
	if (st->state == TENT_COMPLETED) {
		CHECK(!st->err && st->bytes == r->len);
		if (r->op == TENT_READ)
			memcpy(m->mine + here, m->theirs + there, r->len);
		else
			memcpy(m->theirs + there, m->mine + here, r->len);
		return;
	}
	if (!may_end(fault, st->err))
		fprintf(stderr, "fault %d: error %d\n", fault, st->err);
	CHECK(may_end(fault, st->err));
	m->failed++;
	if (r->op == TENT_READ)
		fill(m, true, here, r->len);
	else if (!gone)
		fill(m, false, there, r->len);
}

/* False: the peer's memory is gone. */
static bool play_round(struct model *m, enum fault fault)
{
	struct tent_request requests[BATCH];
	struct tent_status st;
	struct tent_batch *b;
	bool gone = fault == LEAVES || fault == DIES;
	uint32_t n, told = 0;

	fill(m, true, 0, 1 + below(m, d.mine.len));
	fill(m, false, 0, 1 + below(m, d.mine.len));
	n = draw(m, fault, requests);
	strike_before(m, fault);
	if (submit(m, requests, n, &b)) {
		CHECK(fault == CALL_FAILS || fault == FAILS_HERE);
		heal(fault);
		return true;
	}
	strike_during(m, fault, b);
	tent_wait(b, -1);
	heal(fault);
	CHECK_EQ(gpu.cu.stream_synchronize(m->stream), 0);
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(tent_task_status(b, i, &st, sizeof(st)), 0);
		if (requests[i].notify)
			told |= 1u << duo_ask(NOTICE, 0, 0, 0);
	}
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(told >> (i + 1) & 1, requests[i].notify != 0);
		CHECK_EQ(tent_task_status(b, i, &st, sizeof(st)), 0);
		judge(m, fault, &requests[i], &st);
	}
	CHECK_EQ(tent_batch_free(b), 0);
	check_mine(m, fault);
	if (!gone)
		check_theirs(m);
	return !gone;
}

/* ---- a seed ---- */

static void draw_rails(struct model *m)
{
	static const char *const rails[] = {"gpu:1", "gpu:3", "tcp:1", "tcp:2", "shm:2", "none",
		"mix:1"};

	if (!getenv("TENT_RAILS"))
		CHECK_EQ(setenv("TENT_RAILS", rails[below(m, getenv("SOFTHCACTL") ? 7 : 5)], 1), 0);
}

static void open_model(struct model *m)
{
	static const enum place places[] = {ON_GPU, ON_GPU, IN_POOL, ALLOCATED, ON_HOST};
	struct duo_attr a = {.len = 1 + below(m, 3 * MIB), .before = 256 * below(m, 3)};

	a.mine = places[below(m, ARRAY_SIZE(places))];
	a.theirs = places[below(m, ARRAY_SIZE(places))];
	a.parts = storm_one_in(&m->seed, 3) ? 4096 * (10 + below(m, 200)) : 0;
	m->there = a.theirs;
	draw_rails(m);
	duo_open(&a);
	m->mine = malloc(a.len);
	m->theirs = malloc(a.len);
	CHECK(m->mine && m->theirs);
	m->source = gpu_alloc(a.len);
	CHECK_EQ(gpu.cu.stream_create(&m->stream, CU_STREAM_NON_BLOCKING), 0);
	fill(m, true, 0, a.len);
	fill(m, false, 0, a.len);
}

static void one_seed(uint64_t seed)
{
	struct model m = {.seed = seed};
	uint64_t rounds = 2 + below(&m, ROUNDS);

	open_model(&m);
	for (uint64_t i = 0; i < rounds; i++)
		CHECK(play_round(&m, (enum fault)below(&m, CALL_FAILS + 1)));
	if (storm_one_in(&m.seed, 2))
		play_round(&m, storm_one_in(&m.seed, 2) ? LEAVES : DIES);
	printf("seed 0x%" PRIx64 ": %s, %zu bytes, places %d and %d: %u requests, %u failed\n",
		seed, getenv("TENT_RAILS"), d.mine.len, d.mine.place, m.there, m.requests,
		m.failed);
	free(m.mine);
	free(m.theirs);
	test_end();
}

TEST(seeds)
{
	const char *count = getenv("STORM_COUNT");
	uint64_t n = count ? strtoull(count, NULL, 0) : 1, seed = test_seed();
	int failed = 0;

	for (uint64_t i = 0; i < n; i++)
		failed += storm_seed(seed + i, one_seed);
	CHECK_EQ(failed, 0);
}
