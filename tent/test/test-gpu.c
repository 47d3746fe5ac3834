/* SPDX-License-Identifier: MIT */
/* Requests between memory of GPUs of two processes. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>

#include "gpuduo.h"

#define LEN (3 * MIB + 123)

static uint64_t seed;

/* A case for the software GPU, in which duo_open() has been called. */
#define SOFT_TEST(f)                                                                               \
	static void soft_##f(void);                                                                \
	GPU_TEST(f)                                                                                \
	{                                                                                          \
		duo_open(&(struct duo_attr){.len = LEN});                                          \
		if (gpu_is_soft())                                                                 \
			soft_##f();                                                                \
	}                                                                                          \
	static void soft_##f(void)

/* Moves a part of the memory there and back. */
static void both_ways(size_t at, size_t len)
{
	uint64_t old = test_rand(&seed), new = test_rand(&seed);

	part_fill(&d.mine, 0, d.mine.len, old);
	duo_ask(FILL, 0, d.mine.len, old);
	part_fill(&d.mine, at, len, new);
	CHECK_EQ(duo_move(TENT_WRITE, at, len), 0);
	CHECK_EQ(duo_ask(HAS, at, len, new), 1);
	part_fill(&d.mine, at, len, old);
	CHECK_EQ(duo_move(TENT_READ, at, len), 0);
	CHECK(part_has(&d.mine, at, len, new));
}

/* The bytes around the moved ones must not change. */
static void both_ways_between(size_t at, size_t len)
{
	both_ways(at, len);
	both_ways(0, at);
	both_ways(at + len, d.mine.len - at - len);
	part_fill(&d.mine, 0, at, 1);
	part_fill(&d.mine, at, len, 2);
	part_fill(&d.mine, at + len, d.mine.len - at - len, 3);
	CHECK_EQ(duo_move(TENT_WRITE, 0, d.mine.len), 0);
	part_fill(&d.mine, at, len, 4);
	CHECK_EQ(duo_move(TENT_WRITE, at, len), 0);
	CHECK_EQ(duo_ask(HAS, 0, at, 1), 1);
	CHECK_EQ(duo_ask(HAS, at, len, 4), 1);
	CHECK_EQ(duo_ask(HAS, at + len, d.mine.len - at - len, 3), 1);
}

static void between(enum place mine, enum place theirs)
{
	duo_open(&(struct duo_attr){.len = LEN, .before = 256, .mine = mine, .theirs = theirs});
	both_ways_between(1001, 2 * MIB);
	both_ways(LEN - 1, 1);
}

GPU_TEST_WITH(between_gpus, between, ON_GPU, ON_GPU);
GPU_TEST_WITH(between_a_gpu_and_the_host, between, ON_GPU, ALLOCATED);
GPU_TEST_WITH(between_the_host_and_a_gpu, between, ON_HOST, ON_GPU);
GPU_TEST_WITH(from_a_pool, between, IN_POOL, ON_GPU);

/* Memory without a handle is staged by the peer. */
GPU_TEST_WITH(to_a_pool, between, ON_GPU, IN_POOL);
GPU_TEST_WITH(to_the_host, between, ON_GPU, ON_HOST);

GPU_TEST(notices_come_after_the_bytes)
{
	duo_open(&(struct duo_attr){.len = LEN});
	for (uint16_t i = 1; i <= 20; i++) {
		struct tent_request r = duo_request(TENT_WRITE, i, i * 100 * KIB);
		struct tent_batch *b;

		r.notify = i;
		part_fill(&d.mine, i, i * 100 * KIB, i);
		CHECK_EQ(tent_submit(d.t, &r, 1, &b), 0);
		CHECK_EQ(duo_ask(NOTICE, 0, 0, 0), i);
		CHECK_EQ(duo_ask(HAS, i, i * 100 * KIB, i), 1);
		CHECK_EQ(duo_end(b), 0);
	}
}

/* More requests at once than there are slots for staged ones. */
GPU_TEST(many_at_once)
{
	enum { N = 60 };
	const size_t each = LEN / N;
	struct tent_request r[N];
	struct tent_batch *b;

	duo_open(&(struct duo_attr){.len = LEN});
	for (int op = TENT_READ; op <= TENT_WRITE; op++) {
		part_fill(&d.mine, 0, LEN, (uint64_t)op);
		duo_ask(FILL, 0, LEN, (uint64_t)op + 2);
		for (uint32_t i = 0; i < N; i++)
			r[i] = duo_request((enum tent_op)op, i * each, each);
		CHECK_EQ(tent_submit(d.t, r, N, &b), 0);
		CHECK_EQ(duo_end(b), 0);
		if (op == TENT_READ)
			CHECK(part_has(&d.mine, 0, N * each, (uint64_t)op + 2));
		else
			CHECK_EQ(duo_ask(HAS, 0, N * each, (uint64_t)op), 1);
		CHECK_EQ(tent_submit(d.t, r, N, &b), 0);
		tent_cancel(b);
		duo_end(b);
	}
	CHECK_EQ(duo_move(TENT_WRITE, 0, LEN), 0);
	CHECK_EQ(duo_ask(HAS, 0, LEN, TENT_WRITE), 1);
}

/* ---- two engines that use each other's memory ---- */

/* Moves the first or second half of the memory there and back, several times. */
static void exchange(const struct part *mine, struct tent *t, const char *text, uint64_t there,
	uint32_t i)
{
	const size_t len = LEN / 2;
	struct tent_request r = {.size = sizeof(r), .remote = there + i * len};
	struct tent_batch *b;

	CHECK_EQ(tent_import(t, text, NULL, &r.segment), 0);
	for (uint64_t round = 0; round < 4; round++) {
		r.local = (void *)(uintptr_t)(mine->at + i * len);
		r.len = len - test_rand(&seed) % (256 * KIB);
		part_fill(mine, i * len, r.len, round);
		for (int op = TENT_WRITE; op >= TENT_READ; op--) {
			r.op = (enum tent_op)op;
			CHECK_EQ(tent_submit(t, &r, 1, &b), 0);
			CHECK_EQ(duo_end(b), 0);
			if (op == TENT_WRITE)
				part_fill(mine, i * len, r.len, ~round);
		}
		CHECK(part_has(mine, i * len, r.len, round));
	}
	CHECK_EQ(tent_release(r.segment), 0);
}

GPU_TEST(both_use_each_other)
{
	duo_open(&(struct duo_attr){.len = LEN, .exchange = exchange});
	duo_tell(EXCHANGE, d.mine.at, 0, 0);
	duo_write_text(d.fd, d.t);
	exchange(&d.mine, d.t, d.text, d.at, 0);
	CHECK_EQ(duo_reply(), 0);
}

/* ---- streams ---- */

/* A stream of the program, which writes bytes of @value to the memory later. */
static struct cu_stream *stream_that_fills(uint64_t value)
{
	struct part from = {.at = gpu_alloc(LEN), .len = LEN};
	struct cu_stream *s;

	part_fill(&from, 0, LEN, value);
	CHECK_EQ(gpu.cu.stream_create(&s, CU_STREAM_NON_BLOCKING), 0);
	gpu.softgpu_hold_stream(s);
	CHECK_EQ(gpu.cu.copy_async(d.mine.at, from.at, LEN, s), 0);
	return s;
}

/* Submits a write of all bytes after the work of the stream. */
static struct tent_batch *start_after(struct cu_stream *s)
{
	struct tent_request r = duo_request(TENT_WRITE, 0, LEN);
	struct tent_batch *b;

	r.stream = s;
	CHECK_EQ(tent_submit(d.t, &r, 1, &b), 0);
	return b;
}

static enum tent_state state_of(struct tent_batch *b)
{
	struct tent_status status;

	CHECK_EQ(tent_task_status(b, 0, &status, sizeof(status)), 0);
	return status.state;
}

SOFT_TEST(a_request_after_work_of_a_stream)
{
	struct tent_batch *b;
	struct cu_stream *s;

	part_fill(&d.mine, 0, LEN, 1);
	s = stream_that_fills(2);
	b = start_after(s);
	CHECK_EQ(duo_move(TENT_WRITE, 0, LEN), 0); /* a request without the stream does not wait */
	CHECK_EQ(duo_ask(HAS, 0, LEN, 1), 1);
	CHECK_EQ(state_of(b), TENT_WAITING);
	CHECK_EQ(tent_batch_free(b), -EBUSY);
	gpu.softgpu_hold_stream(NULL);
	CHECK_EQ(duo_end(b), 0);
	CHECK_EQ(duo_ask(HAS, 0, LEN, 2), 1);
	CHECK_EQ(duo_end(start_after(s)), 0); /* the stream has no more work */
	CHECK_EQ(gpu.cu.stream_destroy(s), 0);
}

/* The default stream is that of the memory's context, even if this context is not current. */
SOFT_TEST(a_request_after_the_default_stream)
{
	const uint64_t from = gpu_alloc(LEN);
	const struct part other = {.at = from, .len = LEN};
	struct cu_context *own;
	struct tent_batch *b;

	part_fill(&d.mine, 0, LEN, 1);
	part_fill(&other, 0, LEN, 2);
	gpu.softgpu_hold(1);
	CHECK_EQ(gpu.cu.copy_async(d.mine.at, from, LEN, CU_STREAM_LEGACY), 0);
	CHECK_EQ(gpu.cu.ctx_pop(&own), 0);
	b = start_after(CU_STREAM_LEGACY);
	CHECK_EQ(gpu.cu.ctx_push(own), 0);
	CHECK_EQ(state_of(b), TENT_WAITING);
	gpu.softgpu_hold(0);
	CHECK_EQ(duo_end(b), 0);
	CHECK_EQ(duo_ask(HAS, 0, LEN, 2), 1);
}

SOFT_TEST(a_request_that_waits_for_a_stream_ends)
{
	struct tent_batch *b;
	struct cu_stream *s;

	s = stream_that_fills(2);
	b = start_after(s);
	tent_cancel(b);
	CHECK_EQ(duo_end(b), -ECANCELED);
	b = start_after(s);
	CHECK_EQ(duo_ask(UNREGISTER, 0, 0, 0), 0);
	CHECK_EQ(duo_end(b), -EACCES);
	gpu.softgpu_hold_stream(NULL);
	CHECK_EQ(gpu.cu.stream_synchronize(s), 0);
	CHECK_EQ(tent_release(d.s), 0);
}

SOFT_TEST(work_of_the_stream_fails)
{
	struct tent_batch *b;
	struct cu_stream *s;

	s = stream_that_fills(2);
	b = start_after(s);
	gpu.softgpu_fail_copy(1, CU_LAUNCH_FAILED);
	gpu.softgpu_hold_stream(NULL);
	CHECK_EQ(duo_end(b), -EIO);
	gpu.softgpu_heal();
}

/* The stream reaches the point of the request after the end of the engine. */
SOFT_TEST(an_engine_ends_before_the_stream)
{
	struct cu_stream *s;

	s = stream_that_fills(2);
	start_after(s);
	test_now(duo_close);
	gpu.softgpu_hold_stream(NULL);
	CHECK_EQ(gpu.cu.stream_synchronize(s), 0);
}

SOFT_TEST(streams_are_checked)
{
	struct tent_request r[2];
	struct tent_batch *b;
	struct cu_stream *s;

	s = stream_that_fills(2);
	r[0] = r[1] = duo_request(TENT_WRITE, 0, LEN);
	r[0].stream = s;
	r[1].stream = &seed;
	CHECK_EQ(tent_submit(d.t, r, 2, &b), -EINVAL);
	gpu.softgpu_hold_stream(NULL);
	CHECK_EQ(gpu.cu.stream_synchronize(s), 0);
	both_ways(0, LEN);
}

/* ---- registration ---- */

static char *exported(struct tent *t)
{
	char *text;

	CHECK_EQ(tent_export(t, &text), 0);
	return text;
}

GPU_TEST(memory_is_found_by_its_address)
{
	static _Alignas(4096) char host[4096];
	struct tent *t;
	uint64_t at;
	char *text;

	gpu_open();
	t = duo_create(0, 0);
	at = gpu_alloc(LEN);
	duo_not_registered(t, at, LEN, "cuda:1", -EINVAL, "is memory of cuda:0, not of cuda:1");
	duo_not_registered(t, at, LEN, "cuda:x", -EINVAL, "is memory of cuda:0, not of cuda:x");
	duo_not_registered(t, (uintptr_t)host, sizeof(host), "cuda:0", -EINVAL,
		"no memory of a GPU");
	duo_not_registered(t, at, LEN, "gpu:0", -EINVAL, "cuda:N");
	duo_not_registered(t, at, 0, NULL, -EINVAL, "give 1 byte");
	if (gpu_is_soft())
		duo_not_registered(t, at + 1, LEN, NULL, -EFAULT, "a part is not allocated");
	CHECK_EQ(tent_register(t, (void *)(uintptr_t)at, LEN, NULL, NULL), 0);
	text = exported(t);
	CHECK(strstr(text, "\"location\":\"cuda:0\""));
	CHECK(!strstr(text, "\"handle\":\"") == !duo_rails("gpu:"));
	CHECK(!strstr(text, "\"staged\":true") == !!duo_rails("gpu:"));
	free(text);
	CHECK_EQ(tent_unregister(t, (void *)(uintptr_t)at), 0);
	CHECK_EQ(tent_register(t, (void *)(uintptr_t)at, LEN, "cuda:0", NULL), 0);
	CHECK_EQ(tent_unregister(t, (void *)(uintptr_t)at), 0);
	CHECK_EQ(gpu.cuMemAllocAsync(&at, LEN, NULL), 0);
	CHECK_EQ(tent_register(t, (void *)(uintptr_t)at, LEN, NULL, NULL), 0);
	text = exported(t);
	CHECK(strstr(text, "\"location\":\"cuda:0\"") && !strstr(text, "\"handle\":\""));
	CHECK(strstr(text, "\"staged\":true"));
	free(text);
	tent_destroy(t);
}

GPU_TEST(synchronous_functions_wait_for_the_memory)
{
	unsigned on = 0;
	struct tent *t;
	uint64_t at;

	gpu_open();
	t = duo_create(0, 0);
	at = gpu_alloc(LEN);
	CHECK_EQ(tent_register(t, (void *)(uintptr_t)at, LEN, NULL, NULL), 0);
	CHECK_EQ(gpu.cu.pointer_attribute(&on, CU_POINTER_SYNC_MEMOPS, at), 0);
	CHECK_EQ(on, 1);
	tent_destroy(t);
}

/* The library must not change the current context, nor need one. */
GPU_TEST(memory_of_another_context)
{
	struct cu_context *own, *c;
	struct tent *t;
	uint64_t at;

	gpu_open();
	t = duo_create(0, 0);
	CHECK_EQ(gpu.cuCtxCreate_v2(&own, 0, 0), 0);
	at = gpu_alloc(LEN);
	CHECK_EQ(gpu.cu.ctx_pop(&c), 0);
	CHECK_EQ(gpu.cu.ctx_pop(&c), 0);
	CHECK_EQ(tent_register(t, (void *)(uintptr_t)at, LEN, NULL, NULL), 0);
	CHECK_EQ(gpu.cu.ctx_pop(&c), CU_INVALID_CONTEXT);
	tent_destroy(t);
	CHECK_EQ(gpu.cu.ctx_pop(&c), CU_INVALID_CONTEXT);
}

/* ---- the peer's memory ---- */

/* Replaces the value after @key in the child's description. */
static char *changed(const char *key, const char *value)
{
	char *at = strstr(d.text, key), *text;

	CHECK(at);
	at += strlen(key);
	CHECK(asprintf(&text, "%.*s%s%s", (int)(at - d.text), d.text, value,
		      at + strcspn(at, ",}")) > 0);
	return text;
}

static void not_opened(char *text)
{
	const struct tent_request r = duo_request(TENT_WRITE, 0, 1);
	struct tent_batch *b;

	d.s = duo_import(d.t, text);
	CHECK_EQ(gpu.softgpu_opened ? gpu.softgpu_opened() : 0, 0);
	CHECK_EQ(tent_submit(d.t,
			 &(struct tent_request){.segment = d.s,
				 .local = r.local,
				 .remote = r.remote,
				 .len = 1},
			 1, &b),
		-EOPNOTSUPP);
	CHECK_EQ(tent_release(d.s), 0);
	free(text);
}

GPU_TEST(handles_are_checked)
{
	char wrong[131];

	if (!duo_rails("gpu:"))
		return; /* other rails use no handles */
	memset(wrong, 'f', sizeof(wrong));
	wrong[0] = wrong[129] = '"';
	wrong[130] = 0;
	duo_open(&(struct duo_attr){.len = LEN, .before = 256, .no_import = true});
	not_opened(changed("\"offset\":", "257"));
	not_opened(changed("\"offset\":", "9223372036854775807"));
	not_opened(changed("\"handle\":", wrong));
	d.s = duo_import(d.t, d.text);
	both_ways(0, LEN);
}

static bool alone; /* the kernel does not let this process use descriptors of another one */

/* Replaces the function of libc. */
int pidfd_getfd(int process, int fd, unsigned flags)
{
	if (!alone)
		return (int)syscall(SYS_pidfd_getfd, process, fd, flags);
	errno = EPERM;
	return -1;
}

/* The peer's memory has no handle, and this process cannot map the peer's stage. */
GPU_TEST(a_stage_that_is_not_mapped)
{
	if (!duo_rails("gpu:"))
		return; /* other rails do not need the mapping */
	duo_open(&(struct duo_attr){.len = LEN,
		.mine = ON_HOST,
		.theirs = ON_HOST,
		.no_import = true});
	alone = true;
	not_opened(strdup(d.text));
	alone = false;
	d.s = duo_import(d.t, d.text);
	both_ways(0, LEN);
}

GPU_TEST(memory_that_the_peer_ends)
{
	struct tent_batch *b;

	duo_open(&(struct duo_attr){.len = LEN});
	if (gpu_is_soft()) {
		gpu.softgpu_hold(1);
		b = duo_start(TENT_WRITE, 0, LEN);
		duo_tell(UNREGISTER, 0, 0, 0);
		gpu.softgpu_hold(0);
		CHECK_EQ(duo_reply(), 0);
		CHECK_EQ(gpu.softgpu_opened(), 0);
		CHECK(tent_wait(b, -1) == 0 || tent_wait(b, -1) == -EACCES);
		CHECK_EQ(tent_batch_free(b), 0);
	} else {
		CHECK_EQ(duo_ask(UNREGISTER, 0, 0, 0), 0);
	}
	CHECK_EQ(tent_submit(d.t,
			 &(struct tent_request){.segment = d.s,
				 .local = (void *)(uintptr_t)d.mine.at,
				 .remote = d.at,
				 .len = 1},
			 1, &b),
		-EFAULT);
}

/* Lets no thread access the part, or all again. */
static void protect(const struct part *p, bool all)
{
	CHECK_EQ(mprotect((void *)(uintptr_t)p->at, p->len, all ? PROT_READ | PROT_WRITE : 0), 0);
}

/* For EXCHANGE. */
static void protect_theirs(const struct part *mine, struct tent *t, const char *text, uint64_t all,
	uint32_t i)
{
	protect(mine, all);
}

static void not_mapped(void)
{
	CHECK_EQ(duo_move(TENT_WRITE, 0, LEN), -EFAULT);
	CHECK_EQ(duo_move(TENT_READ, 0, LEN), -EFAULT);
}

/* Only the requests on that memory fail. */
GPU_TEST(own_memory_that_was_unmapped)
{
	if (!duo_rails("gpu:"))
		return; /* other rails do not copy with the CPU of this side */
	duo_open(&(struct duo_attr){.len = LEN, .mine = ON_HOST, .theirs = ALLOCATED});
	protect(&d.mine, false);
	not_mapped();
	protect(&d.mine, true);
	both_ways(0, LEN);
}

/* The copies of adjacent requests become one copy. If it fails, only the faulty request does. */
GPU_TEST(memory_beside_some_that_was_unmapped)
{
	enum { N = 4 };
	const size_t each = 64 * KIB;
	struct tent_request r[N];
	struct tent_status status;
	struct tent_batch *b;

	if (!duo_rails("gpu:"))
		return; /* other rails do not copy with the CPU of this side */
	duo_rails_set = "gpu:1";
	duo_open(&(struct duo_attr){.len = N * each, .mine = ON_HOST, .theirs = ALLOCATED});
	protect(&(struct part){.at = d.mine.at + each, .len = each}, false);
	for (uint32_t i = 0; i < N; i++)
		r[i] = duo_request(TENT_WRITE, i * each, each);
	for (int round = 0; round < 50; round++) {
		CHECK_EQ(tent_submit(d.t, r, N, &b), 0);
		CHECK_EQ(tent_wait(b, -1), -EFAULT);
		for (uint32_t i = 0; i < N; i++) {
			CHECK_EQ(tent_task_status(b, i, &status, sizeof(status)), 0);
			CHECK_EQ(status.err, i == 1 ? -EFAULT : 0);
		}
		CHECK_EQ(tent_batch_free(b), 0);
	}
	protect(&(struct part){.at = d.mine.at + each, .len = each}, true);
	both_ways(0, N * each);
}

GPU_TEST(memory_of_the_peer_that_was_unmapped)
{
	if (!duo_rails("gpu:"))
		return; /* other rails do not stage memory of the host */
	duo_open(&(struct duo_attr){.len = LEN,
		.mine = ALLOCATED,
		.theirs = ON_HOST,
		.exchange = protect_theirs});
	for (uint64_t all = 0; all < 2; all++) {
		duo_tell(EXCHANGE, all, 0, 0);
		duo_write_text(d.fd, d.t);
		CHECK_EQ(duo_reply(), 0);
		if (!all)
			not_mapped();
	}
	both_ways(0, LEN);
}

GPU_TEST(memory_of_a_gpu_that_was_freed)
{
	if (!duo_rails("gpu:"))
		return;
	duo_open(&(struct duo_attr){.len = LEN, .theirs = ALLOCATED});
	CHECK_EQ(gpu.cu.mem_free(d.mine.base), 0);
	not_mapped();
}

/* ---- failures ---- */

GPU_TEST(the_peer_dies)
{
	struct tent_batch *b;

	duo_open(&(struct duo_attr){.len = 32 * MIB});
	if (gpu_is_soft())
		gpu.softgpu_hold(1);
	b = duo_start(TENT_WRITE, 0, 32 * MIB);
	test_kill(d.child);
	d.child = 0;
	if (gpu.softgpu_hold)
		gpu.softgpu_hold(0);
	CHECK_EQ(duo_end(b), -ECONNRESET);
}

/* If the GPU of the peer fails, only the request fails. */
GPU_TEST(the_gpu_of_the_peer_fails)
{
	if (duo_rails("gpu:"))
		return; /* only the GPU of this side copies */
	duo_open(&(struct duo_attr){.len = LEN});
	if (!gpu_is_soft())
		return;
	for (int i = 0; i < 2; i++) {
		duo_ask(FAIL_COPY, 0, 0, CU_LAUNCH_FAILED);
		CHECK_EQ(duo_move(i ? TENT_READ : TENT_WRITE, 0, LEN), -EIO);
		duo_ask(HEAL, 0, 0, 0);
		both_ways(0, LEN);
	}
}

/*
 * An error of a copy is reported late. After it all functions of the GPU fail until the end of the
 * process.
 */
SOFT_TEST(a_gpu_fails)
{
	struct tent_rail_stats st;

	gpu.softgpu_fail_copy(1, CU_LAUNCH_FAILED);
	CHECK_EQ(duo_move(TENT_WRITE, 0, 1), -EIO);
	CHECK_EQ(duo_move(TENT_READ, 0, LEN), -EIO);
	CHECK_EQ(tent_rail_get_stats(d.s, 0, &st, sizeof(st)), 0);
	CHECK_EQ(st.exclusions, 0);
	gpu.softgpu_heal();
	both_ways(0, LEN);
}

/*
 * If the driver does not know the memory, only its request fails. The request is a single slice: if
 * adjacent slices become one copy that fails, each is copied again alone.
 */
SOFT_TEST(memory_that_the_driver_refuses)
{
	struct tent_rail_stats st;

	gpu.softgpu_fail_call("cuMemcpyAsync", CU_INVALID_VALUE);
	CHECK_EQ(duo_move(TENT_READ, 0, 1000), -EFAULT);
	both_ways(0, LEN);
	CHECK_EQ(tent_rail_get_stats(d.s, 0, &st, sizeof(st)), 0);
	CHECK_EQ(st.exclusions, 0);
}

/*
 * The end of a copy cannot be recorded. The request must still not end before the copy has ended.
 */
SOFT_TEST(copies_whose_end_is_not_recorded)
{
	struct tent_batch *b;

	part_fill(&d.mine, 0, LEN, 1);
	duo_ask(FILL, 0, LEN, 2);
	gpu.softgpu_fail_call("cuEventRecord", CU_OUT_OF_MEMORY);
	gpu.softgpu_hold(1);
	b = duo_start(TENT_READ, 0, 1000);
	CHECK_EQ(tent_wait(b, 30), -ETIMEDOUT);
	gpu.softgpu_hold(0);
	CHECK_EQ(duo_end(b), 0);
	CHECK(part_has(&d.mine, 0, 1000, 2));
}

/*
 * A function of the driver fails once. A failed rail is opened again; a failed chunk of a staged
 * request is not repeated.
 */
static void call_fails(const char *name, int staged)
{
	duo_open(&(struct duo_attr){.len = LEN, .no_import = true});
	if (!gpu_is_soft())
		return;
	gpu.softgpu_fail_call(name, CU_OUT_OF_MEMORY);
	d.s = duo_import(d.t, d.text);
	CHECK_EQ(duo_move(TENT_WRITE, 0, 1), duo_rails("gpu:") ? 0 : staged);
	both_ways(0, LEN);
}

GPU_TEST_WITH(a_stream_cannot_be_made, call_fails, "cuStreamCreate", -ENOMEM);
GPU_TEST_WITH(an_event_cannot_be_made, call_fails, "cuEventCreate", -ENOMEM);
GPU_TEST_WITH(an_event_cannot_be_recorded, call_fails, "cuEventRecord", 0);

GPU_TEST(cancelled_requests_end)
{
	struct tent_batch *b;

	duo_open(&(struct duo_attr){.len = 32 * MIB});
	if (gpu_is_soft())
		gpu.softgpu_hold(1);
	b = duo_start(TENT_WRITE, 0, 32 * MIB);
	tent_cancel(b);
	if (gpu.softgpu_hold) {
		CHECK_EQ(tent_wait(b, 0), -ETIMEDOUT); /* its copies are under way */
		gpu.softgpu_hold(0);
	}
	CHECK_EQ(duo_end(b), -ECANCELED);
	both_ways(0, LEN);
}

GPU_TEST(attributes_are_checked)
{
	struct tent_attr attr = {.size = sizeof(attr), .gpu_rails = TENT_MAX_RAILS + 1};
	const char rails[] = "{\"cpu:0\": [[\"gpu0\"]]}";
	int fd = memfd_create("topology", 0);
	char config[64];

	duo_refused(&attr, -EINVAL, "gpu_rails: give up to 32");
	attr.gpu_rails = attr.shm_rails = 1;
	duo_refused(&attr, -EINVAL, "give rails of one kind");
	attr.shm_rails = 0;
	CHECK_EQ(write(fd, rails, strlen(rails)), strlen(rails));
	snprintf(config, sizeof(config), "{\"topology\": \"/proc/self/fd/%d\"}", fd);
	attr.config = config;
	duo_refused(&attr, -EINVAL, "a topology file describes adapters");
	close(fd);
}

int main(int argc, char **argv)
{
	seed = test_seed();
	return test_main(argc, argv);
}
