/* SPDX-License-Identifier: MIT */
/* Sends packets to other hosts. The fabric's mutex is held; safe in a signal handler. IPv4 only. */
#ifndef SOFTHCA_XPORT_UDP_H
#define SOFTHCA_XPORT_UDP_H

#include <netinet/in.h>

#include "packet/frame.h"
#include "packet/packet.h"

/* The IPv4 address of a GID, with a port. */
struct sockaddr_in udp_address(const uint8_t *gid, uint16_t port);

/*
 * The largest packet, IP header included, on the way from f->src to f->dst; -errno if there is no
 * way.
 */
int udp_path_mtu(const struct flow *f);

/*
 * The source port of what this process sends from f->src, the address of adapter @rail; 0 if there
 * is no socket, which a line on standard error has explained.
 */
uint16_t udp_source_port(uint32_t rail, const struct flow *f);

/*
 * Sends the @len bytes at @packet, BTH to ICRC, after udp_source_port(). Errors are losses; the
 * first that says more is told on standard error.
 */
void udp_send(uint32_t rail, const struct flow *f, const uint8_t *packet, size_t len);

/* In a child after fork(): the sockets are the parent's. */
void udp_forget(void);

#endif
