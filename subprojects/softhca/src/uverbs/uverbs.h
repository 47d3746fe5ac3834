/* SPDX-License-Identifier: MIT */
/*
 * The command channel: takes the place of the kernel's ib_uverbs behind
 * /dev/infiniband/uverbsN.
 *
 * The provider library sends commands by ioctl. The supported methods of the newer interface are
 * INVOKE_WRITE, those of doorbell pages (uar.h) and that of dma-bufs. All other methods are refused
 * with EPROTONOSUPPORT. The provider library then sends the older command instead, by INVOKE_WRITE.
 */
#ifndef SOFTHCA_UVERBS_UVERBS_H
#define SOFTHCA_UVERBS_UVERBS_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/fds.h"
#include "trap/uctx.h"

/* Opens device @rail. Returns the file descriptor or -errno. */
int uverbs_open(uint32_t rail, int flags);

/* Returns the open device of @fd; NULL if @fd is no open device. */
struct uctx *uverbs_of_fd(int fd);

/* Answers an ioctl on the device. Returns 0 or -errno. */
int uverbs_ioctl(struct uctx *u, unsigned long request, void *arg);

/*
 * Must be called when the last duplicate of a device or of a completion channel is closed. Destroys
 * all objects that were made through the device, or removes the channel's FIFO.
 */
void uverbs_close(const struct fd_entry *e);

/* Must be called in a forked child, where no device is open. */
void uverbs_forget(void);

#endif
