/* SPDX-License-Identifier: MIT */
/*
 * The only code that accesses the memory of user programs. Memory of this process, and memory of
 * other processes that is mapped here too (dma/view.h), is accessed by copies that survive a bad
 * address. Other memory is accessed by process_vm_readv() and process_vm_writev().
 *
 * The functions return 0 or -errno. -EFAULT: an address of the source or the destination is not
 * mapped; only dma_copy() reports which. -ESRCH: the process has ended. -EPERM: the memory of the
 * process cannot be accessed; a line on standard error has explained why.
 */
#ifndef SOFTHCA_DMA_DMA_H
#define SOFTHCA_DMA_DMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <ucontext.h>

#include "fabric/fabric.h"

/* Copies between @buf of this library and @addr of the process of @slot. */
int dma_read(uint32_t slot, uint64_t addr, void *buf, size_t len);
int dma_write(uint32_t slot, uint64_t addr, const void *buf, size_t len);

/*
 * Do the same as dma_read() and dma_write() for the memory of a queue. @shift: the queue's shift
 * (dma/pool.h), or 0. If this process has mapped the pool, no system call is needed.
 */
int dma_get(uint32_t slot, uint64_t addr, uint64_t shift, void *buf, size_t len);
int dma_put(uint32_t slot, uint64_t addr, uint64_t shift, const void *buf, size_t len);

/* Reads a big-endian 32-bit counter that its owner may store to at any moment. */
int dma_get_be32(uint32_t slot, uint64_t addr, uint64_t shift, uint32_t *value);

static inline int dma_read_be32(uint32_t slot, uint64_t addr, uint32_t *value)
{
	return dma_get_be32(slot, addr, 0, value);
}

/* Stores a big-endian 32-bit word; in this process's memory, in one access. */
int dma_write_be32(uint32_t slot, uint64_t addr, uint32_t value);

/*
 * Writes 64 bytes. The last byte is stored last, with release order, so that a reader that sees it
 * sees the other bytes too. @shift: as for dma_put().
 */
int dma_write_cqe(uint32_t slot, uint64_t addr, uint64_t shift, const void *bytes);

/* Memory of a queue. */
struct dma_queue {
	uint32_t slot;
	uint64_t addr;
	uint64_t shift;
};

/*
 * Reads a counter, as dma_get_be32() does, and then @len bytes at @from. This order ensures that
 * the bytes that the counter announces have been written. @counter and @from must belong to the
 * same process.
 */
int dma_get_counted(const struct dma_queue *counter, uint32_t *value, const struct dma_queue *from,
	void *buf, size_t len);

/* A piece of user memory. */
struct dma_seg {
	uint32_t slot;
	uint32_t region; /* index of its memory region, or 0 */
	uint64_t addr;
	uint64_t len;
};

/*
 * Copy between a buffer of this library and the pieces @segs, from byte @offset of the pieces on.
 * -EMSGSIZE: the pieces end before @len bytes.
 */
int dma_gather(const struct dma_seg *segs, size_t n, uint64_t offset, void *out, uint64_t len);
int dma_scatter(const struct dma_seg *segs, size_t n, uint64_t offset, const void *bytes,
	uint64_t len);

/*
 * Copies @src to @dst, until one of them ends. One of them must be entirely in this process, the
 * other one in this or in one other process. @peer: the other process, whose identity is checked
 * before each access; NULL if the caller holds the fabric's mutex or a lane and has checked that
 * the process lives. If @peer is NULL, windows (dma/window.h) are used, and a caller with a lane
 * may get -EAGAIN, which means that it must hold the mutex instead. @fault_dst: after -EFAULT or
 * -ESRCH, true if the destination caused the error.
 */
int dma_copy(const struct fabric_peer *peer, const struct dma_seg *dst, size_t ndst,
	const struct dma_seg *src, size_t nsrc, bool *fault_dst);

/*
 * For the fault handler: if the fault at @fault_addr interrupted one of these copies, makes @uc
 * continue where the copy reports the fault, and returns true.
 */
bool dma_fixup(ucontext_t *uc, uint64_t fault_addr);

#endif
