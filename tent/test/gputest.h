/* SPDX-License-Identifier: MIT */
/*
 * Tests with memory of a GPU: of the software GPU, or of a real one if its libcuda.so.1 is found
 * instead. A process that has used the driver cannot fork, so each case runs in a child of its own:
 *
 *	GPU_TEST(adds)
 *	{
 *		gpu_open();
 *		...
 *	}
 */
#ifndef TENT_TEST_GPUTEST_H
#define TENT_TEST_GPUTEST_H

#include <dlfcn.h>
#include <stdbool.h>

#include "softgpu/softgpu.h"
#include "support/test.h"

#define GPU_TEST(f)                                                                                \
	static void body_##f(void);                                                                \
	TEST(f)                                                                                    \
	{                                                                                          \
		gpu_run(body_##f);                                                                 \
	}                                                                                          \
	static void body_##f(void)

/* A case that calls f with these arguments. A semicolon follows it. */
#define GPU_TEST_WITH(n, f, ...)                                                                   \
	GPU_TEST(n)                                                                                \
	{                                                                                          \
		f(__VA_ARGS__);                                                                    \
	}                                                                                          \
	struct test

/*
 * The driver: gpu.cu has the functions that the library uses, the other members are functions that
 * only tests use. With a real driver, the functions of the software GPU are NULL.
 */
static struct {
	struct cuda cu;
#define X(result, name, ...) result (*name)(__VA_ARGS__);
	GPU_FUNCTIONS(X)
#undef X
} gpu;

/* Runs a case in a child, which must end with status 0. */
static inline void gpu_run(void (*body)(void))
{
	pid_t child;

	fflush(NULL);
	child = test_fork();
	if (!child) {
		body();
		test_end();
		exit(0);
	}
	CHECK_EQ(test_reap(child), 0);
}

/* Opens the driver and makes the primary context of device 0 current. */
static inline void gpu_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	struct cu_context *c;
	int device;

	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library);
#define X(member, name, ...) CHECK(*(void **)&gpu.cu.member = dlsym(library, #name));
	CUDA_FUNCTIONS(X)
#undef X
#define X(result, name, ...) *(void **)&gpu.name = dlsym(library, #name);
	GPU_FUNCTIONS(X)
#undef X
	CHECK_EQ(gpu.cu.init(0), 0);
	CHECK_EQ(gpu.cu.device_get(&device, 0), 0);
	CHECK_EQ(gpu.cu.primary_retain(&c, device), 0);
	CHECK_EQ(gpu.cu.ctx_push(c), 0);
}

/*
 * True: the driver is the software GPU. Otherwise prints a message, and a case that needs the
 * software GPU must end.
 */
static inline bool gpu_is_soft(void)
{
	if (!gpu.softgpu_hold)
		printf("not with a real GPU\n");
	return gpu.softgpu_hold;
}

static inline uint64_t gpu_alloc(size_t len)
{
	uint64_t at = 0;

	CHECK_EQ(gpu.cu.mem_alloc(&at, len), 0);
	return at;
}

static inline void gpu_write(uint64_t to, const void *from, size_t len)
{
	CHECK_EQ(gpu.cuMemcpy(to, (uintptr_t)from, len), 0);
}

static inline void gpu_read(void *to, uint64_t from, size_t len)
{
	CHECK_EQ(gpu.cuMemcpy((uintptr_t)to, from, len), 0);
}

#endif
