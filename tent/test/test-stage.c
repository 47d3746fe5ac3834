/* SPDX-License-Identifier: MIT */
/* Messages about the stage (stage.c). Most of the peers do not keep to the protocol. */
#include <semaphore.h>

#include "engine.h"
#include "ending.h"
#include "gputest.h"
#include "host.h"

#define LEN (3 * STAGE_SLOT_LEN)

static uint64_t at; /* the engine's memory of a GPU */

/* Exports the engine again, and reads the description to desc. */
static char *describe(void)
{
	char *text;

	CHECK_EQ(tent_export(host, &text), 0);
	desc_fini(&desc);
	CHECK_EQ(desc_read(text, &desc, NULL), 0);
	return text;
}

static void open_host(void)
{
	gpu_open();
	host_begin();
	at = gpu_alloc(LEN);
	CHECK_EQ(tent_register(host, (void *)(uintptr_t)at, LEN, NULL, NULL), 0);
	free(describe());
}

static struct ctl_msg message(enum stage_op op, uint32_t slot, uint64_t addr, uint32_t len)
{
	return (struct ctl_msg){.type = CTL_STAGE,
		.stage = {(uint32_t)addr, (uint32_t)(addr >> 32), len, 7, slot, op}};
}

/* Sends a message and returns the reply. */
static struct ctl_msg asked(struct ctl *c, enum stage_op op, uint32_t slot, uint64_t addr,
	uint32_t len)
{
	struct ctl_msg reply = host_exchange(c, message(op, slot, addr, len), CTL_STAGED);

	CHECK_EQ(reply.stage.chunk, 7);
	return reply;
}

static uint32_t taken(struct ctl *c)
{
	struct ctl_msg reply = asked(c, STAGE_TAKE, 0, 0, 1);

	CHECK_EQ(reply.status, 0);
	CHECK(reply.stage.slot < STAGE_SLOTS);
	return reply.stage.slot;
}

static uint32_t importers(void)
{
	uint32_t n;

	pthread_mutex_lock(&host->lock);
	n = host->importer_ids.used;
	pthread_mutex_unlock(&host->lock);
	return n;
}

GPU_TEST(messages_are_checked)
{
	GUEST c, other;
	uint32_t slot;

	open_host();
	host_sends_away(host_guest(), message((enum stage_op)0, 0, at, 1));
	host_sends_away(host_guest(), message((enum stage_op)5, 0, at, 1));
	host_sends_away(host_guest(), message(STAGE_TAKE, 0, 0, 0));
	host_sends_away(host_guest(), message(STAGE_TAKE, 0, 0, STAGE_SLOT_LEN + 1));
	host_sends_away(host_guest(), message(STAGE_LAND, 0, at, 1));
	host_sends_away(host_guest(), message(STAGE_FREE, 0, 0, 1));
	host_sends_away(host_guest(), message(STAGE_FREE, STAGE_SLOTS, 0, 1));
	host_sends_away(host_guest(), message(STAGE_LAND, UINT32_MAX, at, 1));
	other = host_guest();
	slot = taken(&other);
	host_sends_away(host_guest(), message(STAGE_LAND, slot, at, 1)); /* another peer's slot */
	host_sends_away(host_guest(), message(STAGE_FREE, slot, 0, 1));
	c = host_guest();
	host_sends_away(c, message(STAGE_FREE, taken(&c) + STAGE_SLOTS, 0, 1));
	c = host_guest();
	CHECK_EQ(asked(&c, STAGE_FETCH, 0, at, STAGE_SLOT_LEN).status, 0);
}

GPU_TEST(memory_must_be_registered)
{
	GUEST c;

	open_host();
	c = host_guest();
	CHECK_EQ(asked(&c, STAGE_FETCH, 0, at + LEN, 1).status, EACCES);
	CHECK_EQ(asked(&c, STAGE_FETCH, 0, at + LEN - 1, 2).status, EACCES);
	CHECK_EQ(asked(&c, STAGE_LAND, taken(&c), at + LEN - 1, 2).status, EACCES);
	/* Memory of the host, which rails reach. */
	CHECK_EQ(asked(&c, STAGE_FETCH, 0, (uintptr_t)memory, 1).status, EACCES);
	CHECK_EQ(asked(&c, STAGE_LAND, taken(&c), (uintptr_t)memory, 1).status, EACCES);
	for (int i = 0; i < STAGE_OF_CONN; i++) /* the slots are free again */
		taken(&c);
}

GPU_TEST(slots_have_limits)
{
	const struct ctl_msg take = message(STAGE_TAKE, 0, 0, 1);
	GUEST a, c;
	struct ctl b;

	open_host();
	a = host_guest();
	b = host_guest();
	c = host_guest();
	for (int i = 0; i < STAGE_OF_CONN; i++)
		taken(&a);
	host_send(&a, take); /* must wait */
	for (int i = 0; i < STAGE_OF_CONN; i++)
		taken(&b);
	host_send(&c, take);
	host_send(&a, message(STAGE_FREE, 0, 0, 1));
	host_await(&a, CTL_STAGED); /* a was the first to ask */
	ctl_close(&b); /* its slots are free */
	host_await(&c, CTL_STAGED);
	for (int i = 1; i < STAGE_OF_CONN; i++)
		taken(&c);
	for (int i = 0; i <= STAGE_SLOTS; i++)
		host_send(&c, take);
	host_disconnects(&c); /* c has sent more requests than it may */
}

/* A registration ends only after the copies for peers, even if the peer confirms the end before. */
GPU_TEST(copies_are_waited_for)
{
	struct ctl_msg m;
	GUEST c = {.fd = -1};

	open_host();
	if (!gpu_is_soft())
		return;
	c = host_guest();
	gpu.softgpu_hold(1);
	host_send(&c, message(STAGE_FETCH, 0, at, 1));
	CHECK_EQ(asked(&c, STAGE_TAKE, 0, 0, 1).status, 0); /* the copy began before the reply */
	begin_end(host, (uint8_t *)(uintptr_t)at, 0); /* 0: the CPU may not touch the memory */
	m = (struct ctl_msg){.type = CTL_UNREGISTERED, .rail = host_await(&c, CTL_UNREGISTER).rail};
	host_send(&c, m);
	CHECK_EQ(asked(&c, STAGE_FETCH, 0, at, 1).status, EACCES); /* the engine has handled m */
	end_waits();
	gpu.softgpu_hold(0);
	CHECK_EQ(await_end(), 0);
}

/* The time of tent_unregister() for confirmations. */
static bool no_time; /* it is over at once; the test's store pairs with the load of the thread */
static sem_t over; /* it was over */

int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts);

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts)
{
	if (!__atomic_load_n(&no_time, __ATOMIC_ACQUIRE))
		return __real_pthread_cond_timedwait(c, m, ts);
	CHECK_EQ(sem_post(&over), 0);
	return ETIMEDOUT;
}

/* A silent peer leaves while tent_unregister() waits for its copy. Another one gets its place. */
GPU_TEST(a_silent_peer_leaves_during_its_copy)
{
	struct ctl a;
	GUEST b = {.fd = -1};

	duo_rails_set = "shm:1"; /* other rails do not depend on the confirmation */
	open_host();
	if (!gpu_is_soft())
		return;
	a = host_guest();
	gpu.softgpu_hold(1);
	host_send(&a, message(STAGE_FETCH, 0, at, 1));
	taken(&a); /* the copy has begun */
	CHECK_EQ(sem_init(&over, 0, 0), 0);
	__atomic_store_n(&no_time, true, __ATOMIC_RELEASE);
	begin_end(host, (uint8_t *)(uintptr_t)at, 0);
	CHECK_EQ(sem_wait(&over), 0);
	ctl_close(&a);
	while (importers())
		sched_yield();
	b = host_guest();
	gpu.softgpu_hold(0);
	CHECK_EQ(await_end(), 0);
	taken(&b);
}

/* An engine has no stage if its rails reach all of its memory. */
GPU_TEST(without_a_stage)
{
	host_begin();
	host_sends_away(host_guest(), message(STAGE_TAKE, 0, 0, 1));
}

/* ---- the initiator's side ---- */

static int answered(struct tent *t, struct tent_segment *s, uint32_t chunk, uint32_t slot)
{
	const struct ctl_msg m = {.type = CTL_STAGED, .stage = {.chunk = chunk, .slot = slot}};
	int err;

	pthread_mutex_lock(&t->lock);
	err = stage_answered(s, &m);
	pthread_mutex_unlock(&t->lock);
	return err;
}

/*
 * Opens the host, and an engine with memory for the request. Returns the engine; NULL: the GPU is a
 * real one.
 */
static struct tent *open_both(struct tent_request *r, char **text_p)
{
	struct tent *t;

	open_host();
	if (!gpu_is_soft())
		return NULL;
	*text_p = describe();
	t = duo_create(NULL, 0, 0);
	r->local = test_shared(4096);
	CHECK_EQ(tent_register(t, r->local, 4096, NULL, NULL), 0);
	return t;
}

/* The peer unregisters memory while the bytes of a chunk wait for room in the scheduler. */
GPU_TEST(a_waiting_chunk_is_stopped)
{
	const struct ctl_msg m = {.type = CTL_STAGED};
	AT_END(end_free) char *text = NULL;
	struct tent_request r = {.size = sizeof(r), .op = TENT_READ, .len = 1};
	struct tent_batch *b;
	struct tent *t;

	t = open_both(&r, &text);
	if (!t)
		return;
	r.remote = at;
	CHECK_EQ(tent_import(t, text, NULL, &r.segment), 0);
	gpu.softgpu_hold(1); /* the reply does not come */
	CHECK_EQ(tent_submit(t, &r, 1, &b), 0);
	pthread_mutex_lock(&t->lock);
	CHECK_EQ(stage_answered(r.segment, &m), 0);
	tasks_refuse(r.segment, r.segment->desc.buffers[0]);
	pthread_mutex_unlock(&t->lock);
	CHECK_EQ(duo_end(b), -EACCES);
	gpu.softgpu_hold(0);
	tent_destroy(t);
}

/* Requests end as after a fence that has timed out. The peer's slots are free again. */
GPU_TEST(slots_are_free_after_a_fence_that_timed_out)
{
	struct tent_request r[STAGE_OF_CONN - 1] = {
		{.size = sizeof(r[0]), .op = TENT_READ, .len = 1}};
	AT_END(end_free) char *text = NULL;
	struct tent_batch *b;
	struct tent *t;

	t = open_both(&r[0], &text);
	if (!t)
		return;
	r[0].remote = at;
	CHECK_EQ(tent_import(t, text, NULL, &r[0].segment), 0);
	for (uint32_t i = 1; i < ARRAY_SIZE(r); i++)
		r[i] = r[0];
	gpu.softgpu_hold(1); /* all requests wait for replies */
	CHECK_EQ(tent_submit(t, r, ARRAY_SIZE(r), &b), 0);
	pthread_mutex_lock(&t->lock);
	for (uint32_t i = 0; i < ARRAY_SIZE(r); i++)
		task_stop(t, b->tasks[i], -ETIMEDOUT);
	pthread_mutex_unlock(&t->lock);
	gpu.softgpu_hold(0);
	CHECK_EQ(duo_end(b), -ETIMEDOUT);
	CHECK_EQ(tent_submit(t, r, 1, &b), 0);
	CHECK_EQ(duo_end(b), 0);
	pthread_mutex_lock(&host->lock);
	CHECK(host->conns->slots <= 1); /* that of the last request, which may still be in use */
	pthread_mutex_unlock(&host->lock);
	tent_destroy(t);
}

/* The peer's GPU does not copy, so all chunks that may be under way wait for replies. */
GPU_TEST(a_failed_request_is_cut_no_further)
{
	const uint64_t most = STAGE_SLOTS * STAGE_SLOT_LEN, len = 2 * most;
	const struct ctl_msg m = {.type = CTL_STAGED, .status = EIO};
	AT_END(end_free) char *text = NULL;
	struct tent_request r = {.size = sizeof(r), .op = TENT_READ, .len = len};
	struct tent_batch *b;
	struct tent *t;
	uint32_t id;

	t = open_both(&r, &text);
	if (!t)
		return;
	free(text);
	r.remote = gpu_alloc(len);
	CHECK_EQ(tent_register(host, (void *)(uintptr_t)r.remote, len, NULL, NULL), 0);
	text = describe();
	r.local = test_shared(len);
	CHECK_EQ(tent_register(t, r.local, len, NULL, NULL), 0);
	CHECK_EQ(tent_import(t, text, NULL, &r.segment), 0);
	gpu.softgpu_hold(1);
	CHECK_EQ(tent_submit(t, &r, 1, &b), 0);
	pthread_mutex_lock(&t->lock);
	id = b->tasks[0];
	CHECK_EQ(t->tasks[id].cut, most);
	CHECK_EQ(stage_answered(r.segment, &m), 0);
	stage_start(r.segment);
	CHECK_EQ(t->tasks[id].cut, most);
	pthread_mutex_unlock(&t->lock);
	gpu.softgpu_hold(0);
	CHECK_EQ(duo_end(b), -ECONNRESET); /* the peer's own reply is one too many */
	tent_destroy(t);
	munmap(r.local, len);
}

GPU_TEST(replies_are_checked)
{
	struct tent_request r = {.size = sizeof(r), .op = TENT_READ, .len = 1};
	struct tent_segment *s, *other;
	struct tent_batch *b;
	AT_END(end_free) char *text = NULL;
	struct tent *t;

	t = open_both(&r, &text);
	if (!t)
		return;
	CHECK_EQ(tent_import(t, text, NULL, &s), 0);
	CHECK_EQ(tent_import(t, text, NULL, &other), 0);
	r.segment = s;
	r.remote = at;
	gpu.softgpu_hold(1); /* the reply does not come */
	CHECK_EQ(tent_submit(t, &r, 1, &b), 0);
	CHECK_EQ(answered(t, s, STAGE_CHUNKS, 0), -EPROTO);
	CHECK_EQ(answered(t, s, UINT32_MAX, 0), -EPROTO);
	CHECK_EQ(answered(t, s, 1, 0), -EPROTO); /* there is no such chunk */
	CHECK_EQ(answered(t, other, 0, 0), -EPROTO); /* of another segment */
	CHECK_EQ(answered(t, s, 0, STAGE_SLOTS), -EPROTO);
	CHECK_EQ(answered(t, s, 0, UINT32_MAX), -EPROTO);
	gpu.softgpu_hold(0);
	CHECK_EQ(tent_wait(b, -1), 0);
	CHECK_EQ(answered(t, s, 0, 0), -EPROTO);
	CHECK_EQ(tent_batch_free(b), 0);
	gpu.softgpu_hold(1); /* from now on, no chunk is copied from this side's GPU to the stage */
	r.local = (void *)(uintptr_t)gpu_alloc(LEN);
	r.op = TENT_WRITE;
	CHECK_EQ(tent_register(t, r.local, LEN, NULL, NULL), 0);
	CHECK_EQ(tent_submit(t, &r, 1, &b), 0);
	CHECK_EQ(answered(t, s, 0, 0), -EPROTO);
	gpu.softgpu_hold(0);
	CHECK_EQ(duo_end(b), 0);
	tent_destroy(t);
}
