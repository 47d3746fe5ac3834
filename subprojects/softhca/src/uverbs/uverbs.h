/* SPDX-License-Identifier: MIT */
/*
 * The command channel: what the kernel's ib_uverbs answers on /dev/infiniband/uverbsN.
 *
 * The provider library asks by ioctl. Every method of the newer interface but one is
 * refused with EPROTONOSUPPORT, which makes the library fall back, method by method, to
 * the older commands carried by that one (INVOKE_WRITE).
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
 * @to is a duplicate of @from: it stands for the same device or event channel. Returns 0,
 * or -EMFILE if @to is too high to be kept track of.
 */
int uverbs_duplicated(int from, int to);

/*
 * The program closes @fd: with the last of its duplicates, all that was made through it
 * goes. Also for event fds.
 */
void uverbs_closing(int fd);

/* In a forked child: none of the open files is an adapter's any more. */
void uverbs_forget(void);

/* The FIFO behind a completion channel's fd of this process, else 0. */
uint64_t uverbs_channel_fifo(int fd);
int uverbs_channel_add(int fd, uint64_t fifo);

#endif
