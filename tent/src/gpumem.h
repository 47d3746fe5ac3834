/* SPDX-License-Identifier: MIT */
/* Memory of GPUs: recognised by its address, and lent to another process by a handle. */
#ifndef TENT_GPUMEM_H
#define TENT_GPUMEM_H

#include <stdbool.h>

#include "cuda.h"

struct gpu_memory {
	int device;
	struct cu_context
		*context; /* NULL: the memory has no context, for example memory of a pool */
	bool shared; /* another process can open @handle */
	struct cu_ipc handle; /* of the allocation */
	uint64_t offset; /* in the allocation */
};

/* True: @at is memory of a GPU, and *m_p contains its context and device, but no handle. */
bool gpu_memory_at(const struct cuda *cu, uint64_t at, struct gpu_memory *m_p);
/*
 * Finds out whether [addr, addr + len) is memory of a GPU; with @location "cuda:N" it must be
 * memory of GPU number N. Afterwards, synchronous functions of the driver on this memory return
 * only when their copies have ended. 1: memory of a GPU; 0: memory of the host; -EINVAL: the memory
 * is not at @location; -EFAULT: a part of the range is not allocated; -ENODEV or another error of
 * the driver.
 */
int gpu_memory_find(uint64_t addr, uint64_t len, const char *location, struct gpu_memory *m_p,
	struct tent_why *why);
/* The NUMA node that the GPU is attached to; -1: not known. */
int gpu_memory_node(int device);

/*
 * Returns a descriptor (dma-buf) of the allocation that contains the range, or -errno. The caller
 * must close the descriptor. Writes the offset of the range in it.
 */
int gpu_memory_dmabuf(const struct gpu_memory *m, uint64_t addr, uint64_t len, uint64_t *offset_p);

/*
 * Opens memory of another process: @len bytes, from @offset on. NULL: the driver refuses that, or
 * there are fewer bytes. The caller must close the memory with gpu_memory_close().
 */
void *gpu_memory_open(const struct cu_ipc *handle, uint64_t offset, uint64_t len, int device);
void gpu_memory_close(void *at, uint64_t offset);

/*
 * Pins memory of the host, so that GPUs copy it without the CPU. 0; -EEXIST: it is pinned already;
 * or another -errno.
 */
int gpu_memory_pin(void *at, uint64_t len);
void gpu_memory_unpin(void *at);

#endif
