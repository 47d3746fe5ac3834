/* SPDX-License-Identifier: MIT */
/*
 * Small requests over shared memory: the thread that submits them copies them, without the
 * engine's lock. The program's own process_vm_writev() replaces that of libc, and can hold a copy.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/uio.h>

#include "engine.h"

#include "ending.h"
#include "gate.h"
#include "writev.h"

#define HELD 54321 /* a copy of this many bytes is held */

static pid_t copied_by; /* the thread of the last copy; accessed by __atomic builtins */

static void on_writev(size_t len)
{
	if (len == HELD)
		gate_pass();
	__atomic_store_n(&copied_by, gettid(), __ATOMIC_RELAXED); /* read after the copy's end */
}

/* A small request does not wait until a thread wakes up. */
TEST(small_ones_are_copied_by_who_submits)
{
	static const struct {
		uint64_t len;
		bool here;
	} cases[] = {{1, true}, {64 * KIB, true}, {64 * KIB + 1, false}, {MIB, false}, {8, true}};

	duo_open(&(struct duo_attr){.len = MIB});
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tent_batch *b;

		memset(d.mine, (int)i, d.len);
		b = duo_start(TENT_WRITE, 0, cases[i].len);
		while (duo_status(b).state == TENT_PENDING)
			sched_yield(); /* in tent_wait() this thread would copy */
		CHECK_EQ(duo_end(b), 0);
		CHECK_EQ(__atomic_load_n(&copied_by, __ATOMIC_RELAXED) == gettid(), cases[i].here);
		test_filled(d.theirs, cases[i].len, (int)i);
	}
}

/* ---- a nap that does not end by itself ---- */

static bool endless; /* accessed by __atomic builtins: the copying threads read it */

int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts);

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts)
{
	if (__atomic_load_n(&endless, __ATOMIC_RELAXED))
		return pthread_cond_wait(c, m);
	return __real_pthread_cond_timedwait(c, m, ts);
}

/*
 * After calls of tent_wait() the copying thread naps, see shm.c. If a program polls for the end of
 * a batch, the nap ends.
 */
TEST(who_polls_wakes_the_copying_thread)
{
	const size_t len = 64 * KIB + 1; /* too long for the submitting thread to copy */

	duo_open(&(struct duo_attr){.len = MIB});
	__atomic_store_n(&endless, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 20; i++) {
		struct pollfd p = {.events = POLLIN};
		struct tent_batch *b;

		for (int k = 0; k < 3; k++)
			CHECK_EQ(duo_move(TENT_WRITE, 0, len, 0), 0);
		b = duo_start(TENT_WRITE, 0, len);
		while (i % 2 && duo_status(b).state == TENT_PENDING)
			sched_yield();
		p.fd = tent_batch_fd(b);
		CHECK_EQ(poll(&p, 1, 30000), 1);
		CHECK_EQ(duo_end(b), 0);
	}
	__atomic_store_n(&endless, false, __ATOMIC_RELAXED);
}

/* ---- a copy that is held ---- */

static pthread_t submitter;
static struct tent_batch *batch; /* of the submitter */

/* @arg: the number of requests. The copy of the first one is held. */
static void *submit_thread(void *arg)
{
	const struct tent_request two[] = {duo_request(TENT_WRITE, 0, HELD),
		duo_request(TENT_WRITE, HELD, 64)};

	batch = duo_submit(two, *(const uint32_t *)arg);
	return NULL;
}

static void begin_held(uint32_t n)
{
	duo_open(&(struct duo_attr){.len = MIB, .command = end_command});
	memset(d.mine, 'A', d.len);
	gate_set(false);
	CHECK_EQ(pthread_create(&submitter, NULL, submit_thread, &n), 0);
	gate_await();
}

static void await_held(void)
{
	gate_set(true);
	CHECK_EQ(pthread_join(submitter, NULL), 0);
}

static int status_of(uint32_t i)
{
	struct tent_status status;

	CHECK_EQ(tent_task_status(batch, i, &status, sizeof(status)), 0);
	return status.err;
}

TEST(other_threads_go_on)
{
	begin_held(2);
	for (size_t len = 1; len <= MIB; len *= 4)
		CHECK_EQ(duo_move(TENT_WRITE, 0, len, 0), 0);
	test_filled(d.theirs, MIB, 'A');
	CHECK_EQ(tent_release(d.s), -EBUSY);
	CHECK_EQ(tent_unregister(d.t, d.mine), -EBUSY);
	memset(d.mine, 'B', d.len);
	await_held();
	CHECK_EQ(duo_end(batch), 0);
	test_filled(d.theirs, HELD + 64, 'B');
	test_filled(d.theirs + HELD + 64, d.len - HELD - 64, 'A');
}

/* tent_unregister() waits for the copy. The second request of the batch does not begin any more. */
TEST(the_peer_waits_for_the_copy)
{
	struct tent_batch *other;

	begin_held(2);
	duo_ask('b');
	while (!tent_submit(d.t,
		&(struct tent_request){.op = TENT_WRITE,
			.local = d.mine,
			.segment = d.s,
			.remote = d.at,
			.len = 1},
		1, &other))
		duo_end(other); /* until this side knows that the registration has ended */
	for (int i = 0; i < 200; i++)
		CHECK_EQ(duo_ask('o'), 0);
	await_held();
	CHECK_EQ(duo_ask('j'), 0);
	CHECK_EQ(status_of(0), 0);
	CHECK_EQ(status_of(1), -EACCES);
	CHECK_EQ(duo_end(batch), -EACCES);
	test_filled(d.theirs, d.len, 'P');
}

/*
 * The peer's tent_destroy() waits for the copy, too: the connection is open until the copy has
 * ended.
 */
TEST(an_engine_ends_after_the_copy)
{
	struct pollfd child = {.events = POLLIN};
	struct tent_rail_stats r = {.up = true};

	begin_held(1);
	child.fd = pidfd_open(d.child, 0);
	duo_ask('x');
	while (r.up) { /* until the rails of the lost peer are closed */
		CHECK_EQ(tent_rail_get_stats(d.s, 0, &r, sizeof(r)), 0);
		sched_yield();
	}
	CHECK_EQ(poll(&child, 1, 100), 0); /* an engine that does not wait ends within 100 ms */
	close(child.fd);
	await_held();
	CHECK_EQ(test_reap(d.child), 0);
	d.child = 0;
	CHECK_EQ(duo_end(batch), 0);
}

/* ---- the end of a mapping ---- */

#define MAPPED (320 * KIB) /* munmap() of so many bytes is held, but not in the child */

int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);

#define OTHER (384 * KIB) /* if `starts` is set, munmap() of so many bytes first starts a write */

static bool starts; /* accessed by __atomic builtins: the engine's thread clears it */
static struct tent_batch *meanwhile; /* the write */
static const struct link_ops *ops; /* of the rails that carry it */
static struct link_ops patient;

static int poll_patiently(struct link *l, link_done_fn *fn, void *arg)
{
	int n = 0;

	while (l->posted && !n) {
		sched_yield();
		n = ops->poll(l, fn, arg);
	}
	return n;
}

static void set_ops(const struct link_ops *to)
{
	pthread_mutex_lock(&d.t->lock);
	for (uint32_t i = 0; i < d.s->n_pairs; i++)
		d.s->pairs[i].link->ops = to;
	pthread_mutex_unlock(&d.t->lock);
}

int __wrap_munmap(void *at, size_t len)
{
	if (len == MAPPED && d.child)
		gate_pass();
	if (len == OTHER && __atomic_exchange_n(&starts, false, __ATOMIC_ACQ_REL)) {
		meanwhile = duo_start(TENT_WRITE, 0, d.len);
		set_ops(&patient); /* the next poll of these rails ends the write */
	}
	return __real_munmap(at, len);
}

/*
 * The engine goes on while memory is unmapped, which takes long on a GPU. The peer waits for the
 * unmapping.
 */
TEST(a_mapping_ends_without_the_lock)
{
	struct pollfd p = {.events = POLLIN};
	struct tent_rail_stats r;
	uint16_t value;

	if (!getenv("TENT_ALLOC"))
		return; /* other memory is not mapped */
	gate_set(false);
	duo_open(&(struct duo_attr){.len = MAPPED});
	CHECK_EQ(duo_move(TENT_WRITE, 0, MAPPED, 0), 0);
	duo_write(d.fd, "u", 1);
	gate_await();
	CHECK_EQ(tent_rail_get_stats(d.s, 0, &r, sizeof(r)), 0);
	CHECK_EQ(duo_move(TENT_WRITE, 0, 64, 0), -EFAULT);
	p.fd = d.fd;
	CHECK_EQ(poll(&p, 1, 50), 0); /* a peer that does not wait replies within that time */
	gate_set(true);
	duo_read(d.fd, &value, sizeof(value));
	test_now(duo_close);
}

static void *release_thread(void *arg)
{
	CHECK_EQ(tent_release(d.s), 0);
	return NULL;
}

/* A message that comes while memory is unmapped does not keep the engine's thread awake. */
TEST(a_released_segment_causes_no_events)
{
	struct pollfd peer = {.events = POLLIN}, events = {.events = POLLIN};
	pthread_t thread;

	if (!getenv("TENT_ALLOC"))
		return; /* other memory is not mapped */
	gate_set(false);
	duo_open(&(struct duo_attr){.len = MAPPED});
	peer.fd = d.s->ctl.fd;
	events.fd = d.t->epoll;
	CHECK_EQ(pthread_create(&thread, NULL, release_thread, NULL), 0);
	gate_await();
	duo_ask('x');
	CHECK_EQ(poll(&peer, 1, 60000), 1);
	while (poll(&events, 1, 0))
		sched_yield();
	gate_set(true);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	d.s = NULL;
	CHECK_EQ(test_reap(d.child), 0);
	d.child = 0;
}

/*
 * A write starts while the engine unmaps memory without the lock. The engine must not use a time
 * from before the unmapping as the time of the write's end.
 */
TEST(time_passes_while_memory_is_unmapped)
{
	struct tent *other;
	struct tent_segment *s;
	char *text;
	void *at;

	duo_open(&(struct duo_attr){.len = MIB});
	other = duo_create(NULL, 0, 0);
	CHECK_EQ(tent_alloc(other, OTHER, NULL, NULL, &at), 0);
	CHECK_EQ(tent_export(other, &text), 0);
	s = duo_import(d.t, text); /* the engine serves it before d.s */
	free(text);
	ops = d.s->pairs[0].link->ops;
	patient = *ops;
	patient.poll = poll_patiently;
	__atomic_store_n(&starts, true, __ATOMIC_RELEASE); /* pairs with the exchange */
	CHECK_EQ(tent_unregister(other, at), 0);
	CHECK_EQ(duo_end(meanwhile), 0);
	set_ops(ops);
	for (uint32_t i = 0; i < d.s->n_pairs; i++)
		CHECK(latrec_hist_max(d.s->pairs[i].slice_ns) < 3600 * NSEC_PER_SEC);
	CHECK_EQ(tent_release(s), 0);
	tent_destroy(other);
}

/* ---- many threads ---- */

#define THREADS 8

/*
 * @arg: the thread's place in the memory. Writes and reads until the peer has ended the
 * registration.
 */
static void *until_refused(void *arg)
{
	size_t at = *(const size_t *)arg;
	int err = 0;

	for (int i = 0; !err; i++)
		err = duo_move(i % 2 ? TENT_READ : TENT_WRITE, at, 64 * KIB, 0);
	CHECK(err == -EACCES || err == -EFAULT);
	return NULL;
}

/* The peer unregisters memory while threads copy. The memory stays mapped until they have ended. */
TEST(the_memory_ends_under_threads)
{
	pthread_t threads[THREADS];
	size_t at[THREADS];

	for (int round = 0; round < 4; round++) {
		duo_open(&(struct duo_attr){.len = THREADS * 64 * KIB});
		for (size_t i = 0; i < THREADS; i++) {
			at[i] = i * 64 * KIB;
			CHECK_EQ(pthread_create(&threads[i], NULL, until_refused, &at[i]), 0);
		}
		for (int i = 0; i < 100 * round; i++)
			CHECK_EQ(duo_ask('e'), 0);
		duo_ask('u');
		for (size_t i = 0; i < THREADS; i++)
			CHECK_EQ(pthread_join(threads[i], NULL), 0);
		test_now(duo_close);
	}
}
