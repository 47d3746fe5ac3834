/* SPDX-License-Identifier: MIT */
/*
 * The device /dev/infiniband/rdma_cm takes the place of the kernel's rdma_ucm. librdmacm writes a
 * command into a descriptor (an event channel), and gets the answer at an address in the command.
 */
#ifndef SOFTHCA_UCMA_UCMA_H
#define SOFTHCA_UCMA_UCMA_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "sys/fds.h"

/* Opens an event channel. Returns the file descriptor or -errno. */
int ucma_open(int flags);

bool ucma_is_channel(int fd);

/* Executes the command that the program writes. Returns @len or -errno. */
ssize_t ucma_write(int fd, const void *buf, size_t len);

/* Destroys the ids of an event channel. Must be called when its last duplicate is closed. */
void ucma_close(const struct fd_entry *e);

/* Must be called in a forked child, which has no connections. */
void ucma_forget(void);

#endif
