/* SPDX-License-Identifier: MIT */
/*
 * UDP sockets of adapters. GIDs are addresses: IPv4-mapped GIDs are IPv4 addresses, all others
 * IPv6. To send, the caller must hold the fabric's mutex; sending is safe in a signal handler.
 */
#ifndef SOFTHCA_XPORT_UDP_H
#define SOFTHCA_XPORT_UDP_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "packet/frame.h"
#include "packet/packet.h"

/* This fabric's end of a packet to or from another host. */
struct udp_end {
	uint32_t rail;
	uint32_t owner; /* slot of the process */
	uint32_t qpn, peer_qpn;
};

union udp_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Room for the control data that a socket reports with a packet. */
#define UDP_CONTROL_BYTES (2 * CMSG_SPACE(sizeof(int)))

/*
 * Opens a socket at port @port (0: any) of the GID @gid of adapter @rail. Returns the socket or
 * -errno. A link-local address is bound to the adapter's network interface.
 */
int udp_socket(uint32_t rail, const uint8_t *gid, uint16_t port);

/*
 * Returns the flow (source, port, fields of the IP header) of a packet that recvmmsg() has received
 * for the GID @gid. The message must have had room for a union udp_address and UDP_CONTROL_BYTES.
 */
struct flow udp_flow(struct msghdr *h, const uint8_t *gid);

/*
 * Writes the address from which the host sends to @dst. Returns 0, or -errno if there is no route.
 */
int udp_source(const uint8_t *dst, uint8_t src[16]);

/*
 * Returns the path MTU, IP header included, from f->src, an address of adapter @rail, to f->dst, or
 * -errno if there is no route.
 */
int udp_path_mtu(uint32_t rail, const struct flow *f);

/*
 * Returns the source port of packets that this process sends from f->src, an address of adapter
 * @rail, or 0 if there is no socket (a line on standard error has given the reason).
 */
uint16_t udp_source_port(uint32_t rail, const struct flow *f);

/*
 * Sends the @len bytes at @packet, from BTH to ICRC. udp_source_port() must have been called.
 * Errors count as losses. The adapter's first error that is not temporary is reported on standard
 * error.
 */
void udp_send(uint32_t rail, const struct flow *f, const uint8_t *packet, size_t len);

/* A forked child must call this function, because the sockets are the parent's. */
void udp_forget(void);

#endif
