/* SPDX-License-Identifier: MIT */
/*
 * The command channel: takes the place of the kernel's ib_uverbs behind
 * /dev/infiniband/uverbsN.
 *
 * The provider library sends commands by ioctl. Of the methods of the newer interface there are
 * INVOKE_WRITE and those of doorbell pages (uar.h); all others are refused with EPROTONOSUPPORT.
 * The library then falls back, method by method, to the older commands, which INVOKE_WRITE
 * carries.
 */
#ifndef SOFTHCA_UVERBS_UVERBS_H
#define SOFTHCA_UVERBS_UVERBS_H

#include <stdbool.h>
#include <stdint.h>

#include "trap/uctx.h"

/* Opens device @rail. Returns the file descriptor or -errno. */
int uverbs_open(uint32_t rail, int flags);

/* The open device behind @fd, else NULL. */
struct uctx *uverbs_of_fd(int fd);

/* Answers an ioctl on it; 0 or -errno. */
int uverbs_ioctl(struct uctx *u, unsigned long request, void *arg);

/*
 * @to has become a duplicate of @from, which may be a device or an event channel. Returns 0,
 * or -EMFILE if @to is too high to be tracked.
 */
int uverbs_duplicated(int from, int to);

/*
 * The program closes @fd, a device or an event channel. With the last duplicate of a device,
 * all objects that were made through it are destroyed.
 */
void uverbs_closing(int fd);

/* In a forked child: no open file is a device or an event channel any more. */
void uverbs_forget(void);

/* The FIFO behind a completion channel's fd of this process, else 0. */
uint64_t uverbs_channel_fifo(int fd);

/* Registers @fd as a completion channel. Returns 0, or -EMFILE if @fd is too high. */
int uverbs_channel_add(int fd, uint64_t fifo);

#endif
