/* SPDX-License-Identifier: MIT */
/*
 * UDP sockets of adapters. GIDs are addresses: IPv4-mapped ones are IPv4's, all others IPv6's.
 * Sending: the fabric's mutex is held, and it is safe in a signal handler.
 */
#ifndef SOFTHCA_XPORT_UDP_H
#define SOFTHCA_XPORT_UDP_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "packet/frame.h"
#include "packet/packet.h"

union udp_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Room for what a socket tells of a packet beside its source. */
#define UDP_CONTROL_BYTES (2 * CMSG_SPACE(sizeof(int)))

/*
 * A socket at port @port (0: any) of the GID @gid of adapter @rail, or -errno. A link-local address is
 * that of the adapter's network interface.
 */
int udp_socket(uint32_t rail, const uint8_t *gid, uint16_t port);

/*
 * Returns what recvmmsg() has told of a packet for GID @gid: source, port, fields of the IP header.
 * The message had room for a union udp_address and UDP_CONTROL_BYTES.
 */
struct flow udp_flow(struct msghdr *h, const uint8_t *gid);

/*
 * The largest packet, IP header included, on the way from f->src, an address of adapter @rail, to
 * f->dst; -errno if there is no way.
 */
int udp_path_mtu(uint32_t rail, const struct flow *f);

/*
 * The source port of what this process sends from f->src, an address of adapter @rail; 0 if there
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
