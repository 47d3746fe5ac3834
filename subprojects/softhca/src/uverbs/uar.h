/* SPDX-License-Identifier: MIT */
/*
 * Doorbell pages as objects, as kernels since 5.7 give them: the provider asks for each page and
 * names it when it creates a QP or CQ. Legacy contexts have a fixed set of pages instead.
 */
#ifndef SOFTHCA_UVERBS_UAR_H
#define SOFTHCA_UVERBS_UAR_H

#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdint.h>

#include "trap/uctx.h"

/* The methods of MLX5_IB_OBJECT_UAR; 0 or -errno. */
int uar_ioctl(struct uctx *u, struct ib_uverbs_ioctl_hdr *h);

/* The number in the device file of a page that @u has; the mutex is held. -EINVAL: not one. */
int uar_of_page_id(const struct uctx *u, uint32_t page_id);

#endif
