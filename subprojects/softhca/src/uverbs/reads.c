/* SPDX-License-Identifier: MIT */
#include "uverbs/reads.h"

#include <stdatomic.h>
#include <string.h>

#include "fabric/arena.h"

/*
 * The events of CQ i have the handle handles[i], 0: no CQ. All handles that are not 0 are before
 * `end`. Relaxed: a thread that reads an event of a CQ knows the CQ from the thread that made it, and
 * libibverbs destroys the CQ after that.
 */
static _Atomic uint64_t handles[MAX_CQS];
static _Atomic uint32_t counts[MAX_CQS], end;

void reads_begin(uint32_t cq, uint64_t handle)
{
	atomic_store_explicit(&counts[cq], 0, memory_order_relaxed);
	atomic_store_explicit(&handles[cq], handle, memory_order_relaxed);
	if (atomic_load_explicit(&end, memory_order_relaxed) <= cq)
		atomic_store_explicit(&end, cq + 1, memory_order_relaxed);
}

void reads_end(uint32_t cq)
{
	atomic_store_explicit(&handles[cq], 0, memory_order_relaxed);
}

uint32_t reads_count(uint32_t cq)
{
	return atomic_load_explicit(&counts[cq], memory_order_relaxed);
}

/* A CQ of a device that was closed may have left an entry with the same handle; it counts, too. */
static void add(uint64_t handle)
{
	uint32_t n = atomic_load_explicit(&end, memory_order_relaxed);

	for (uint32_t i = 0; i < n; i++)
		if (atomic_load_explicit(&handles[i], memory_order_relaxed) == handle)
			atomic_fetch_add_explicit(&counts[i], 1, memory_order_relaxed);
}

void reads_add(const void *events, size_t len)
{
	uint64_t handle;

	for (size_t at = 0; at + sizeof(handle) <= len; at += sizeof(handle)) {
		memcpy(&handle, (const char *)events + at, sizeof(handle));
		if (handle)
			add(handle);
	}
}

void reads_forget(void)
{
	uint32_t n = atomic_exchange_explicit(&end, 0, memory_order_relaxed);

	for (uint32_t i = 0; i < n; i++)
		reads_end(i);
}
