/* SPDX-License-Identifier: MIT */
/*
 * One function per command. The caller must hold the fabric's mutex, unless documented otherwise.
 * The functions return 0 or -errno.
 */
#ifndef SOFTHCA_UVERBS_CMD_H
#define SOFTHCA_UVERBS_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "dma/window.h"
#include "hca/objects.h"
#include "uverbs/uverbs.h"

#define COMP_VECTORS 4 /* completion vectors of a context */
#define MODERATION_PERIOD_MAX 4095u /* us; the adapter has 12 bits for it */
#define LEGACY_DYNAMIC_BFREGS 32u /* registers for the thread domains of a legacy context */

struct span {
	void *p;
	uint32_t len;
};

struct cmd {
	struct uctx *u;
	struct span in, out; /* the command's own structures */
	struct span drv_in, drv_out; /* the structures of the provider */
	bool extended;
	/*
	 * Memory in the pool (dma/pool.h). Before the command: the memory of the object that the
	 * command makes. After the command: memory that is not in use any more. A shift of 0: none.
	 */
	struct pooled {
		uint64_t at, shift;
	} buf, dbrec;
	struct region_file file; /* of a memory region */
	bool receives; /* set by the command: this process must receive packets from now on */
};

/* Copy the fields that both structures have and zero the rest, as the kernel does. */
void cmd_get(struct span from, void *to, size_t len);
void cmd_put(struct span to, const void *from, size_t len);

/*
 * Moves memory of the queue that the command makes into the pool: @len bytes of its buffer, and its
 * doorbell record. @len or @dbrec is 0 if other processes do not access that memory. The caller
 * must not hold the mutex.
 */
void cmd_enter_pool(struct cmd *c, uint64_t buf, uint64_t len, uint64_t dbrec);

/*
 * Writes the shifts of the memory to the queue that the command makes. The memory belongs to the
 * queue from now on.
 */
void cmd_give_pooled(struct cmd *c, uint64_t *buf_shift_p, uint64_t *dbrec_shift_p);

/* Returns the attribute @id of a command if it has @len bytes, else NULL. */
struct ib_uverbs_attr *cmd_attr(struct ib_uverbs_ioctl_hdr *h, uint16_t id, uint16_t len);

/* Returns the exponent of the smallest power of two that is at least @n. */
static inline uint32_t cmd_log2_up(uint32_t n)
{
	uint32_t l = 0;

	while ((1u << l) < n)
		l++;
	return l;
}

/* Returns the FIFO of this process's completion channel @fd, or 0 if @fd is no channel. */
uint64_t uverbs_channel_fifo(int fd);

/* Registers @fd as a completion channel. Returns 0, or -EMFILE if @fd is too high. */
int uverbs_channel_add(int fd, uint64_t fifo);

/* Each prepare_...() and finish_...() is called before or after its command, without the mutex. */
int prepare_get_context(struct cmd *c);
int cmd_get_context(struct cmd *c);
int finish_get_context(struct cmd *c);
/* Frees the context of an open device, if it has one, with all its objects. */
void cmd_free_context(struct uctx *u);
/* Must be called in a forked child. */
void cmd_forget_contexts(void);
int cmd_query_device(struct cmd *c);
int cmd_query_port(struct cmd *c);
int cmd_alloc_pd(struct cmd *c);
int cmd_dealloc_pd(struct cmd *c);
int cmd_create_ah(struct cmd *c);
int cmd_destroy_ah(struct cmd *c);
int cmd_reg_mr(struct cmd *c);
int check_reg_mr(struct cmd *c); /* must be called before cmd_reg_mr(), without the mutex */
int cmd_rereg_mr(struct cmd *c);
int cmd_dereg_mr(struct cmd *c);

/* Not a command but a method of the newer interface. The caller must not hold the mutex. */
int cmd_reg_dmabuf_mr(struct uctx *u, struct ib_uverbs_ioctl_hdr *h);

/* Unmaps the dma-bufs of context @ctx, which is being closed: its messages must have ended. */
void cmd_unmap_dmabufs(uint32_t ctx);

int cmd_create_comp_channel(struct cmd *c);
int prepare_create_cq(struct cmd *c);
int cmd_create_cq(struct cmd *c);
int prepare_resize_cq(struct cmd *c);
int cmd_resize_cq(struct cmd *c);
int cmd_modify_cq(struct cmd *c);
int cmd_destroy_cq(struct cmd *c);
int prepare_create_srq(struct cmd *c);
int cmd_create_srq(struct cmd *c);
int cmd_modify_srq(struct cmd *c);
int cmd_query_srq(struct cmd *c);
int cmd_destroy_srq(struct cmd *c);
int prepare_create_qp(struct cmd *c);
int cmd_create_qp(struct cmd *c);
int cmd_query_qp(struct cmd *c);
int cmd_modify_qp(struct cmd *c);
int finish_modify_qp(struct cmd *c);
int cmd_destroy_qp(struct cmd *c);

#endif
