/* SPDX-License-Identifier: MIT */
/* TCP sockets for the set-up. All return a descriptor or -errno. */
#ifndef RDMABENCH_TCP_H
#define RDMABENCH_TCP_H

#include <stddef.h>
#include <stdint.h>

/* On all addresses, or (local) on this machine's only; port 0: any, in *port_p. */
int tcp_listen(uint32_t port, int local, uint32_t *port_p);
/* Waits so long at most: -EAGAIN. The other's address goes to peer. */
int tcp_accept(int fd, int timeout_ms, char *peer, size_t size);
/* Tries again while nobody listens there, until the time is over. -ENOENT no such host. */
int tcp_connect(const char *host, uint32_t port, uint64_t timeout_ns);

#endif
