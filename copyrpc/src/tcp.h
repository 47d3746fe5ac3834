/* SPDX-License-Identifier: MIT */
/* Waiting for sockets up to a time. */
#ifndef COPYRPC_SRC_TCP_H
#define COPYRPC_SRC_TCP_H

#include <stddef.h>
#include <stdint.h>

/* The time on clock_ns() at which a limit is over. */
uint64_t limit_of(int timeout_ms);

/* Waits for events of poll(2). Returns 0, -ETIMEDOUT or -errno. */
int wait_for(int fd, short events, uint64_t limit);

/* Writes the address of the other end; leaves `name` if there is none. */
void peer_name(int fd, char *name, size_t size);

#endif
