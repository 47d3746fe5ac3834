/* SPDX-License-Identifier: MIT */
/*
 * The device /dev/infiniband/rdma_cm: takes the place of the kernel's rdma_ucm. librdmacm writes a
 * command into a descriptor, an event channel, and has the answer where the command says.
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

/* The last duplicate of an event channel is closed: its ids are destroyed. */
void ucma_close(const struct fd_entry *e);

/* In a forked child, which has no connections. */
void ucma_forget(void);

#endif
