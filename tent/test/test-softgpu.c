/* SPDX-License-Identifier: MIT */
/*
 * Tests that the software GPU behaves like the driver where tent depends on it. Also tests the
 * errors of cuda.c.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "support/fdtest.h"

#include "duopipe.h"
#include "gputest.h"

#define LEN 70000u

/* Each buffer has its own pages, because whole pages are registered. */
static _Alignas(4096) uint8_t pattern[LEN], back[LEN];

static void fill(uint8_t first)
{
	for (size_t i = 0; i < LEN; i++)
		pattern[i] = (uint8_t)(first + i);
}

static struct cu_stream *stream(void)
{
	struct cu_stream *s;

	CHECK_EQ(gpu.cu.stream_create(&s, CU_STREAM_NON_BLOCKING), 0);
	return s;
}

GPU_TEST(bytes_come_back)
{
	uint64_t at, base;
	size_t len;

	gpu_open();
	at = gpu_alloc(LEN);
	fill(1);
	gpu_write(at, pattern, LEN);
	gpu_read(back, at, LEN);
	CHECK(!memcmp(back, pattern, LEN));
	CHECK_EQ(gpu.cu.address_range(&base, &len, at + 777), 0);
	CHECK(base == at && len == LEN);
	if (gpu.softgpu_hold)
		CHECK_EQ(gpu.cuMemcpy((uintptr_t)back, at + 1, LEN), CU_INVALID_VALUE);
	CHECK_EQ(gpu.cu.mem_free(at), 0);
	CHECK_EQ(gpu.cu.address_range(&base, &len, at), CU_INVALID_VALUE);
}

/* Touches memory of the device, which ends the process. */
static void touch(void)
{
	const struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it */
	gpu_open();
	/*
	 * Relaxed, because no access pairs with the store; atomic, so that the compiler does not
	 * remove it.
	 */
	__atomic_store_n((char *)(uintptr_t)gpu_alloc(LEN), 1, __ATOMIC_RELAXED);
}

TEST(the_cpu_may_not_touch_the_memory)
{
	pid_t child = test_fork();

	if (!child) {
		touch();
		exit(0);
	}
	CHECK_EQ(test_reap(child), 128 + SIGSEGV);
}

GPU_TEST(copies_run_later_and_in_order)
{
	struct cu_stream *s, *other;
	struct cu_event *e;
	uint64_t at;

	gpu_open();
	if (!gpu_is_soft())
		return;
	s = stream();
	other = stream();
	at = gpu_alloc(2 * LEN);
	fill(3);
	CHECK_EQ(gpu.cu.host_register(pattern, LEN, 0), 0);
	CHECK_EQ(gpu.cu.host_register(back, LEN, 0), 0);
	CHECK_EQ(gpu.cu.event_create(&e, CU_EVENT_FLAGS), 0);
	gpu.softgpu_hold(1);
	CHECK_EQ(gpu.cu.copy_async(at, (uintptr_t)pattern, LEN, s), 0);
	CHECK_EQ(gpu.cu.copy_async(at + LEN, at, LEN, s), 0);
	CHECK_EQ(gpu.cu.event_record(e, s), 0);
	CHECK_EQ(gpu.cuStreamWaitEvent(other, e, 0), 0);
	CHECK_EQ(gpu.cu.copy_async((uintptr_t)back, at + LEN, LEN, other), 0);
	CHECK_EQ(gpu.cuEventQuery(e), CU_NOT_READY);
	CHECK_EQ(gpu.softgpu_copies(), 0);
	gpu.softgpu_hold(0);
	CHECK_EQ(gpu.cu.event_synchronize(e), 0);
	CHECK_EQ(gpu.cu.stream_synchronize(other), 0);
	CHECK(!memcmp(back, pattern, LEN));
	CHECK_EQ(gpu.softgpu_copies(), 3);
	CHECK_EQ(gpu.cu.host_unregister(back), 0);
	CHECK_EQ(gpu.cu.event_destroy(e), 0);
	CHECK_EQ(gpu.cu.stream_destroy(s), 0);
	CHECK_EQ(gpu.cu.stream_destroy(other), 0);
}

GPU_TEST(an_error_comes_late_and_stays)
{
	struct cu_stream *s;
	struct cu_event *e;
	uint64_t at;

	gpu_open();
	if (!gpu_is_soft())
		return;
	s = stream();
	at = gpu_alloc(LEN);
	CHECK_EQ(gpu.cu.event_create(&e, CU_EVENT_FLAGS), 0);
	gpu.softgpu_hold(1);
	gpu.softgpu_fail_copy(2, CU_LAUNCH_FAILED);
	CHECK_EQ(gpu.cu.copy_async(at, at + 100, 50, s), 0);
	CHECK_EQ(gpu.cu.copy_async(at, at + 200, 50, s), 0);
	CHECK_EQ(gpu.cu.event_record(e, s), 0);
	gpu.softgpu_hold(0);
	CHECK_EQ(gpu.cu.event_synchronize(e), CU_LAUNCH_FAILED);
	CHECK_EQ(gpu.softgpu_copies(), 1);
	CHECK_EQ(gpu.cu.mem_alloc(&at, 1), CU_LAUNCH_FAILED);
	CHECK_EQ(gpu.cu.stream_destroy(s), 0);
	CHECK_EQ(gpu.cu.event_destroy(e), 0);
	gpu.softgpu_heal();
	gpu_alloc(1);
	gpu.softgpu_fail_call("cuMemAlloc_v2", CU_OUT_OF_MEMORY);
	CHECK_EQ(gpu.cu.mem_alloc(&at, 1), CU_OUT_OF_MEMORY);
	gpu_alloc(1);
}

GPU_TEST(no_function_has_this_name)
{
	const struct rlimit none = {0, 0};
	pid_t child;

	gpu_open();
	if (!gpu_is_soft())
		return;
	child = test_fork();
	if (!child) {
		setrlimit(RLIMIT_CORE, &none);
		gpu.softgpu_fail_call("cuMemAlloc", CU_OUT_OF_MEMORY);
		exit(0);
	}
	CHECK_EQ(test_reap(child), 128 + SIGABRT);
}

GPU_TEST(an_allocation_that_fails_leaves_no_descriptor)
{
	uint64_t at;
	int fds;

	gpu_open();
	fds = fdtest_open();
	CHECK_EQ(gpu.cu.mem_alloc(&at, 1ull << 62), CU_OUT_OF_MEMORY);
	CHECK_EQ(fdtest_open(), fds);
}

GPU_TEST(contexts_are_checked)
{
	struct cu_context *primary, *c;
	struct cu_ipc handle;
	struct cu_stream *s;
	uint64_t at, base;
	size_t len;

	gpu_open();
	at = gpu_alloc(LEN);
	s = stream();
	CHECK_EQ(gpu.cu.ctx_pop(&primary), 0);
	CHECK_EQ(gpu.cu.mem_alloc(&base, 1), CU_INVALID_CONTEXT);
	CHECK_EQ(gpu.cuCtxCreate_v2(&c, 0, 0), 0);
	if (!gpu_is_soft())
		return;
	CHECK_EQ(gpu.cu.copy_async(at, at + 1, 1, s), CU_INVALID_HANDLE);
	CHECK_EQ(gpu.cu.address_range(&base, &len, at), CU_INVALID_VALUE);
	CHECK_EQ(gpu.cu.ipc_get(&handle, at), CU_INVALID_VALUE);
	CHECK_EQ(gpu.cu.ctx_pop(&c), 0);
	CHECK_EQ(gpu.cu.ctx_pop(&c), CU_INVALID_CONTEXT);
}

/* ---- two processes ---- */

/* Lends memory with the pattern, checks what the test has written to it, and frees it. */
static void lend(int fd)
{
	struct cu_ipc handle;
	uint64_t at;
	char c;

	gpu_open();
	at = gpu_alloc(LEN);
	fill(9);
	gpu_write(at, pattern, LEN);
	CHECK_EQ(gpu.cu.ipc_get(&handle, at), 0);
	CHECK(gpu.cu.ipc_open(&at, handle, CU_IPC_LAZY_PEER_ACCESS)); /* this process has made it */
	CHECK(gpu.cu.ipc_get(&handle, at + 256)); /* only the base of an allocation has a handle */
	CHECK_EQ(write(fd, &handle, sizeof(handle)), sizeof(handle));
	CHECK_EQ(read(fd, &c, 1), 1);
	fill(33);
	gpu_read(back, at, LEN);
	CHECK(!memcmp(back, pattern, LEN));
	CHECK_EQ(gpu.cu.mem_free(at), 0);
	CHECK_EQ(write(fd, "", 1), 1);
	CHECK_EQ(read(fd, &c, 1), 0);
	exit(0);
}

GPU_TEST(handles_reach_another_process)
{
	struct cu_ipc handle;
	uint64_t a, b, pool;
	int fd;
	pid_t child = duo_fork(&fd);
	char c;

	if (!child)
		lend(fd);
	gpu_open();
	CHECK_EQ(read(fd, &handle, sizeof(handle)), sizeof(handle));
	CHECK_EQ(gpu.cu.ipc_open(&a, handle, CU_IPC_LAZY_PEER_ACCESS), 0);
	CHECK_EQ(gpu.cu.ipc_open(&b, handle, CU_IPC_LAZY_PEER_ACCESS), 0);
	CHECK_EQ(a, b);
	fill(9);
	gpu_read(back, a, LEN);
	CHECK(!memcmp(back, pattern, LEN));
	fill(33);
	gpu_write(a, pattern, LEN);
	CHECK_EQ(gpu.cu.ipc_close(a), 0);
	CHECK_EQ(gpu.cu.ipc_close(a), 0);
	CHECK(gpu.cu.ipc_close(a));
	CHECK_EQ(write(fd, "", 1), 1);
	CHECK_EQ(read(fd, &c, 1), 1);
	CHECK(gpu.cu.ipc_open(&a, handle, CU_IPC_LAZY_PEER_ACCESS)); /* the memory is freed */
	CHECK_EQ(gpu.cuMemAllocAsync(&pool, LEN, NULL), 0);
	CHECK(gpu.cu.ipc_get(&handle, pool));
	close(fd);
	CHECK_EQ(test_reap(child), 0);
}

GPU_TEST(a_forked_child_has_no_gpu)
{
	pid_t child;

	gpu_open();
	child = fork();
	if (!child)
		_exit(gpu.cu.init(0) == CU_NOT_INITIALIZED ? 0 : 1);
	CHECK_EQ(test_reap(child), 0);
}

/* ---- cuda.c ---- */

GPU_TEST(the_driver_is_opened_when_it_is_needed)
{
	const struct cuda *cu;
	struct tent_why why;

	CHECK(!cuda_used());
	cu = cuda_open(&why);
	CHECK(cu && cuda_used() == cu);
	CHECK_EQ(cuda_push(cu, NULL, 0), 0);
	cuda_pop(cu);
	CHECK_EQ(cuda_push(cu, NULL, 63), -ENODEV);
	CHECK_EQ(cuda_push(cu, NULL, 64), -ENODEV);
	CHECK_EQ(cuda_push(cu, NULL, -1), -ENODEV);
	CHECK_EQ(cuda_why("copy", CU_ILLEGAL_ADDRESS, &why), -EFAULT);
	CHECK(!strncmp(why.text, "copy: ", 6) && strstr(why.text, "(700)"));
	CHECK_EQ(cuda_why("copy", 12345, NULL), -EIO);
}

GPU_TEST(without_a_device)
{
	struct tent_why why = {""};

	setenv("SOFTGPU_DEVICES", "0", 1);
	if (cuda_open(&why))
		return; /* a real driver */
	CHECK(strstr(why.text, "(100)"));
}
