/* SPDX-License-Identifier: MIT */
/*
 * The only code that touches memory of user programs: the own process by copies that
 * survive a bad address, another one by process_vm_readv and process_vm_writev.
 *
 * Return 0 or: -EFAULT, an address is not mapped (the source's or the destination's;
 * only dma_copy tells them apart), -ESRCH, the process is gone, -EPERM, it is out of reach,
 * which a line on standard error has said.
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

/* Reads a big-endian 32-bit counter that its owner may store to at any moment. */
int dma_read_be32(uint32_t slot, uint64_t addr, uint32_t *value);

/*
 * The same, and @len bytes at @at, which were written before the counter said so: the
 * counter is read first.
 */
int dma_read_counted(uint32_t slot, uint64_t addr, uint32_t *value, uint64_t at, void *buf,
	size_t len);

/* Stores a big-endian 32-bit word in one access. */
int dma_write_be32(uint32_t slot, uint64_t addr, uint32_t value);

/*
 * Writes 64 bytes at @addr of @slot: the last byte last, in one store with release
 * order, so that who sees it sees the rest.
 */
int dma_write_cqe(uint32_t slot, uint64_t addr, const void *bytes);

/* A piece of user memory. */
struct dma_seg {
	uint32_t slot;
	uint64_t addr;
	uint64_t len;
};

/*
 * Copies @src to @dst; their lengths add up to the same, at least one side is in this
 * process altogether, and what is not belongs to one other process. @peer: that process,
 * which is looked at again before each access; NULL when the fabric's mutex is held and
 * the caller has seen that it lives. @fault_dst: which side it was that gave -EFAULT or
 * -ESRCH.
 */
int dma_copy(const struct fabric_peer *peer, const struct dma_seg *dst, size_t ndst,
	const struct dma_seg *src, size_t nsrc, bool *fault_dst);

/*
 * For the fault handler: if @uc stands in one of the copies, moves it to where the
 * copy reports the fault and returns true.
 */
bool dma_fixup(ucontext_t *uc, uint64_t fault_addr);

#endif
