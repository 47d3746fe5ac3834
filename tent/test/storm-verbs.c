/* SPDX-License-Identifier: MIT */
/*
 * Counts the adapters' objects that this process has created and not destroyed. The functions here
 * replace those of libibverbs and libmlx5, and call them.
 */
#include <dlfcn.h>

#include "storm.h"

enum kind {
	DEVICES,
	DOMAINS,
	CHANNELS,
	REGIONS,
	COMPLETION_QUEUES,
	RECEIVE_QUEUES,
	QUEUE_PAIRS,
	KINDS,
};

static atomic_int left[KINDS], made;

static void *next(const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name);

	CHECK(fn);
	return fn;
}

#define MAKES(kind, name, parameters, ...)                                                         \
	void *name parameters;                                                                     \
	void *name parameters                                                                      \
	{                                                                                          \
		void *(*fn)parameters, *object;                                                    \
		*(void **)&fn = next(#name);                                                       \
		object = fn(__VA_ARGS__);                                                          \
		atomic_fetch_add(&left[kind], object != NULL);                                     \
		atomic_fetch_add(&made, object != NULL);                                           \
		return object;                                                                     \
	}

#define DESTROYS(kind, name)                                                                       \
	int name(void *object);                                                                    \
	int name(void *object)                                                                     \
	{                                                                                          \
		int (*fn)(void *object), err;                                                      \
		*(void **)&fn = next(#name);                                                       \
		err = fn(object);                                                                  \
		atomic_fetch_sub(&left[kind], !err);                                               \
		return err;                                                                        \
	}

MAKES(DEVICES, ibv_open_device, (void *device), device)
MAKES(DOMAINS, ibv_alloc_pd, (void *context), context)
MAKES(CHANNELS, ibv_create_comp_channel, (void *context), context)
MAKES(REGIONS, ibv_reg_mr, (void *pd, void *addr, size_t len, int access), pd, addr, len, access)
MAKES(RECEIVE_QUEUES, ibv_create_srq, (void *pd, void *attr), pd, attr)
MAKES(COMPLETION_QUEUES, mlx5dv_create_cq, (void *context, void *attr, void *more), context, attr,
	more)
MAKES(QUEUE_PAIRS, mlx5dv_create_qp, (void *context, void *attr, void *more), context, attr, more)
DESTROYS(DEVICES, ibv_close_device)
DESTROYS(DOMAINS, ibv_dealloc_pd)
DESTROYS(CHANNELS, ibv_destroy_comp_channel)
DESTROYS(REGIONS, ibv_dereg_mr)
DESTROYS(RECEIVE_QUEUES, ibv_destroy_srq)
DESTROYS(COMPLETION_QUEUES, ibv_destroy_cq)
DESTROYS(QUEUE_PAIRS, ibv_destroy_qp)

void storm_check_objects(bool some)
{
	CHECK_EQ(atomic_load(&made) > 0, some);
	for (uint32_t i = 0; i < KINDS; i++)
		CHECK_EQ(atomic_load(&left[i]), 0);
}
