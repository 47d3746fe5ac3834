/* SPDX-License-Identifier: MIT */
/*
 * Doorbell pages as objects, as in kernels since 5.7: the provider allocates each page and passes
 * its id when it creates a QP or CQ. Legacy contexts have a fixed set of pages instead.
 */
#ifndef SOFTHCA_UVERBS_UAR_H
#define SOFTHCA_UVERBS_UAR_H

#include <rdma/rdma_user_ioctl_cmds.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/wire.h"
#include "trap/uctx.h"

/* Executes a method of MLX5_IB_OBJECT_UAR. Returns 0 or -errno. */
int uar_ioctl(struct uctx *u, struct ib_uverbs_ioctl_hdr *h);

/*
 * Converts the id of a page of @u to its number in the device file. Returns -EINVAL if @u has no
 * such page.
 */
int uar_of_page_id(const struct uctx *u, uint32_t page_id);

/* Returns the page with number @uar in this library's mapping, or NULL if there is no mapping. */
static inline const uint8_t *uar_page(const struct uctx *u, uint32_t uar)
{
	return u->pages ? u->pages + uar * UAR_PAGE : NULL;
}

#endif
