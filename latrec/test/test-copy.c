/* SPDX-License-Identifier: MIT */
/*
 * Copies that a second thread makes while the first one records. Value number i of the first thread
 * is a function of i, so a copy with n values is compared with another histogram of the first n
 * values.
 */
#include <pthread.h>
#include <sched.h>

#include "hist.h"

#ifdef __SANITIZE_THREAD__ /* twenty times as slow; any single copy suffices to see a data race */
#define COPIES 24
#else
#define COPIES 100
#endif
/* Copy number i begins after at least i * VALUES values. Until it ends, the first thread records at
 * most (i + 1) * VALUES. */
#define VALUES 20000
#define EPOCHS 12 /* number of times that the histogram is filled from empty */

struct run {
	struct latrec_hist *h;
	struct latrec *r;
	bool clears;
	uint64_t recorded; /* number of values that the first thread has recorded */
	uint64_t copies; /* number of copies that the second thread has made */
};

/* Waits for copies if necessary. Returns true if the first thread is to record value number i. */
static bool awaits_copy(struct run *run, uint64_t i)
{
	uint64_t copies;

	/* Pairs with the load of await_values(). */
	__atomic_store_n(&run->recorded, i, __ATOMIC_RELEASE);
	/* Pairs with the increment of copied(). */
	while (copies = __atomic_load_n(&run->copies, __ATOMIC_ACQUIRE),
		copies < COPIES && i >= (copies + 1) * VALUES)
		sched_yield();
	return copies < COPIES;
}

static void await_values(struct run *run, uint64_t n)
{
	/* Pairs with the store of awaits_copy(). */
	while (__atomic_load_n(&run->recorded, __ATOMIC_ACQUIRE) < n)
		sched_yield();
}

static void copied(struct run *run)
{
	/* Pairs with the load of awaits_copy(). */
	__atomic_fetch_add(&run->copies, 1, __ATOMIC_RELEASE);
}

/* The smallest value of an epoch is its first one. */
static uint64_t value_of(uint64_t epoch, uint64_t i)
{
	uint64_t base = 1000ull << epoch;

	return base + (i * 7919 % 1000) * base / 1000;
}

static void *record_values(void *arg)
{
	struct run *run = arg;
	uint64_t epoch = 0, n = 0;

	for (uint64_t i = 0; awaits_copy(run, i); i++) {
		if (run->clears && n == COPIES * VALUES / EPOCHS) {
			latrec_hist_clear(run->h);
			epoch++;
			n = 0;
		}
		latrec_hist_record(run->h, value_of(epoch, n++));
	}
	return NULL;
}

/*
 * Brings *like to the values of @copy: clears it if the histogram was cleared since the last copy,
 * then records the values that it lacks. @first: number of values before the thread began.
 */
static void follow(struct latrec_hist *like, const struct latrec_hist *copy, uint64_t first,
	uint64_t *epoch_p)
{
	uint64_t epoch = *epoch_p;

	while (copy->count > first && latrec_hist_min(copy) >= 1000ull << (epoch + 1))
		epoch++;
	if (epoch != *epoch_p)
		latrec_hist_clear(like);
	*epoch_p = epoch;
	while (like->count < copy->count)
		latrec_hist_record(like, value_of(epoch, like->count - first));
}

static void copies_are_of_one_moment(struct latrec_hist *h, uint64_t first, bool clears)
{
	struct run run = {.h = h, .clears = clears};
	HIST *copy = new_hist(0, 0, 0), *like = new_hist(0, 0, 0);
	uint64_t epoch = 0;
	pthread_t thread;

	CHECK_EQ(latrec_hist_snapshot(h, like), 0);
	CHECK_EQ(pthread_create(&thread, NULL, record_values, &run), 0);
	for (uint64_t i = 0; i < COPIES; i++) {
		await_values(&run, i * VALUES);
		CHECK_EQ(latrec_hist_snapshot(h, copy), 0);
		copied(&run);
		if (clears && !copy->count)
			continue;
		follow(like, copy, first, &epoch);
		CHECK(same(copy, like));
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void copies_of_a_new_one(bool clears)
{
	HIST *h = new_hist(0, 0, 0);

	copies_are_of_one_moment(h, 0, clears);
}

TEST_WITH(a_copy_is_of_one_moment, copies_of_a_new_one, false);
TEST_WITH(a_copy_is_not_half_cleared, copies_of_a_new_one, true);

/* Values from 1024 to 2047 are in buckets of eight. The counter of each bucket whose eight values
 * all occur passes 2^31 during the run, each at another moment. */
TEST(a_copy_has_no_half_carry)
{
	HIST *h = new_hist(0, 0, 0);

	for (uint64_t i = 0; i < 1000; i++)
		CHECK_EQ(latrec_hist_record_n(h, value_of(0, i), (1u << 28) - 125 + i / 8), 0);
	copies_are_of_one_moment(h, h->count, false);
}

/* ---- recorders ---- */

#define STEP_NS 1000
#define WINDOW_NS (700 * STEP_NS)

static int record_op(struct latrec *r, uint64_t i)
{
	uint64_t posted_ns = i * STEP_NS + 20000;
	uint64_t late_ns = i * 7919 % 20000, took_ns = 500 + i * 104729 % 100000;

	return latrec_record(r, posted_ns - late_ns, posted_ns, posted_ns + took_ns);
}

static void *record_ops(void *arg)
{
	struct run *run = arg;

	for (uint64_t i = 0; awaits_copy(run, i); i++)
		CHECK_EQ(record_op(run->r, i), 0);
	return NULL;
}

static struct latrec *new_recorder(bool intended, uint64_t window_ns)
{
	const struct latrec_attr attr = {.size = sizeof(attr),
		.intended = intended,
		.window_ns = window_ns,
		.low = 1000,
		.high = 50000,
		.precision = 32};
	struct latrec *r = NULL;

	CHECK_EQ(latrec_create(&attr, &r), 0);
	return r;
}

static void same_recorders(const struct latrec *a, const struct latrec *b)
{
	struct latrec_window v = {.count = 0}, w = v;

	CHECK(same(latrec_service(a), latrec_service(b)));
	CHECK(same(latrec_response(a), latrec_response(b)));
	CHECK_EQ(latrec_worst_window(a, &v, sizeof(v)), latrec_worst_window(b, &w, sizeof(w)));
	CHECK(v.start_ns == w.start_ns && v.count == w.count && v.p99_ns == w.p99_ns);
	CHECK(v.max_ns == w.max_ns && !(v.mean_ns < w.mean_ns) && !(v.mean_ns > w.mean_ns));
}

TEST(a_copy_of_a_recorder_is_of_one_moment)
{
	struct run run = {.r = new_recorder(true, WINDOW_NS)};
	RECORDER *copy = new_recorder(true, WINDOW_NS), *like = new_recorder(true, WINDOW_NS);
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, record_ops, &run), 0);
	for (uint64_t i = 0; i < COPIES; i++) {
		await_values(&run, i * VALUES);
		CHECK_EQ(latrec_snapshot(run.r, copy), 0);
		copied(&run);
		while (latrec_service(like)->count < latrec_service(copy)->count)
			CHECK_EQ(record_op(like, latrec_service(like)->count), 0);
		same_recorders(copy, like);
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	latrec_destroy(run.r);
}

#define FIRSTS 100 /* tries; in most of them the copy and the first record overlap */

static void *record_first(void *arg)
{
	struct run *run = arg;

	CHECK_EQ(record_op(run->r, 0), 0);
	return NULL;
}

/* The first record opens a window. For that it copies an empty histogram into `before` of
 * recorder.c, which the other thread reads. */
TEST(a_copy_during_the_first_record_does_not_race)
{
	for (unsigned i = 0; i < FIRSTS; i++) {
		struct run run = {.r = new_recorder(true, WINDOW_NS)};
		RECORDER *copy = new_recorder(true, WINDOW_NS);
		pthread_t thread;

		CHECK_EQ(pthread_create(&thread, NULL, record_first, &run), 0);
		CHECK_EQ(latrec_snapshot(run.r, copy), 0);
		CHECK(latrec_hist_count(latrec_service(copy)) <= 1);
		CHECK_EQ(pthread_join(thread, NULL), 0);
		latrec_destroy(run.r);
	}
}

/* The recording thread makes the wanted copy in its next record, before it counts the new value.
 * Here the same thread leaves the wish and records. */
TEST(a_wish_is_fulfilled_by_the_next_record)
{
	HIST *h = new_hist(0, 0, 0), *copy = new_hist(0, 0, 0);
	struct wish wish = {.to = copy};

	for (uint64_t i = 0; i < 10; i++)
		latrec_hist_record(h, 500 + i);
	hist_own(h)->wanted = &wish;
	h->gate = 0;
	latrec_hist_record(h, 505);
	CHECK(wish.done && !wish.err && !hist_own(h)->wanted && h->gate);
	CHECK(latrec_hist_count(copy) == 10 && latrec_hist_count(h) == 11);
	/* If the copy lacks room for wide counters, the result is -EAGAIN. */
	CHECK_EQ(hist_reserve(h), 0);
	wish.done = 0;
	hist_own(h)->wanted = &wish;
	h->gate = 0;
	latrec_hist_record(h, 505);
	CHECK(wish.done && wish.err == -EAGAIN && latrec_hist_count(copy) == 10);
}

TEST(a_histogram_that_is_being_cleared_is_not_copied)
{
	HIST *h = new_hist(0, 0, 0), *copy = new_hist(0, 0, 0);

	latrec_hist_record(h, 500);
	change_begin(&hist_own(h)->changes);
	CHECK_EQ(hist_copy(copy, h), -EAGAIN);
	change_end(&hist_own(h)->changes);
	CHECK_EQ(hist_copy(copy, h), 0);
	CHECK(same(copy, h));
}

/* Sets the counter of a value to the largest count, after which it counts no further value. */
static void fill(struct latrec_hist *h, uint64_t value)
{
	struct hist *f = hist_own(h);
	uint64_t at = hist_place(f, value), before = hist_at(f, at);

	CHECK_EQ(hist_reserve(h), 0);
	f->carry[at] = UINT32_MAX;
	f->bucket[at] = UINT32_MAX - 1;
	h->count += hist_at(f, at) - before;
}

/* A value that only one histogram of a recorder could count does not keep copies from ending. */
TEST(a_copy_after_a_lost_value)
{
	RECORDER *r = new_recorder(true, 0), *copy = new_recorder(true, 0);
	RECORDER *sum = new_recorder(true, 0);
	const struct latrec_hist *service = latrec_service(copy), *response = latrec_response(copy);
	uint64_t n;

	CHECK_EQ(latrec_record(r, 0, 0, 2000), 0);
	fill(&r->service, 2000);
	fill(r->response, 2000);
	n = r->service.count;
	CHECK_EQ(latrec_record(r, 0, 1000, 3000), 0); /* by the inline code */
	hist_own(&r->service)->hot.gate = 0;
	CHECK_EQ(latrec_record(r, 0, 1000, 3000), 0);
	CHECK_EQ(latrec_snapshot(r, copy), 0);
	CHECK(service->count == n && response->count == n + 2);
	CHECK_EQ(latrec_snapshot(copy, r), 0);
	CHECK(r->service.count == n && r->response->count == n + 2);
	latrec_reset(copy);
	CHECK_EQ(latrec_record(copy, 0, 0, 2000), 0);
	CHECK_EQ(latrec_snapshot(copy, r), 0);
	latrec_hist_record(copy->response, 2000); /* as if the other histogram had lost it */
	hist_own(&copy->service)->lost = 1;
	CHECK_EQ(latrec_merge(sum, copy), 0);
	CHECK_EQ(latrec_snapshot(sum, r), 0);
	CHECK(r->service.count == 1 && r->response->count == 2);
}

TEST(other_recorders_are_refused)
{
	RECORDER *open = new_recorder(true, 0), *closed = new_recorder(false, 0), *other = NULL;

	CHECK_EQ(latrec_create(NULL, &other), 0);
	CHECK_EQ(latrec_snapshot(open, closed), -EINVAL);
	CHECK_EQ(latrec_snapshot(closed, other), -EINVAL);
}
