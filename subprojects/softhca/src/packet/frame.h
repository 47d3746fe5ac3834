/* SPDX-License-Identifier: MIT */
/*
 * The surroundings of a packet on the wire: IP and UDP headers before the BTH, the ICRC at the end.
 * Addresses are GIDs; if both are IPv4-mapped, the packet is IPv4's, else IPv6's.
 */
#ifndef SOFTHCA_PACKET_FRAME_H
#define SOFTHCA_PACKET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCE_PORT 4791
#define FRAME_HEAD_MAX 48u /* IPv6 and UDP */
#define FRAME_HOP_LIMIT 64 /* of what is sent */

struct flow {
	uint8_t src[16], dst[16];
	uint16_t src_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint32_t flow_label;
};

/* Returns true if @gid is an IPv4 address, which is then in its last four bytes. */
bool gid_is_ipv4(const uint8_t *gid);

/* Bytes of the IP and UDP headers. */
size_t frame_head_bytes(const struct flow *f);

/*
 * Writes the IP header of such a frame, whose BTH to padding are @len bytes. Returns its length.
 */
size_t frame_ip_header(const struct flow *f, uint8_t *ip, size_t len);

/*
 * Completes a frame: @frame has room for the headers, then @len bytes, BTH to padding, then room
 * for the ICRC. Returns the length of all. The IPv4 identification is 0 and fragments are
 * forbidden: such a packet is what a UDP socket with IP_PMTUDISC_PROBE sends.
 */
size_t frame_seal(const struct flow *f, uint8_t *frame, size_t len);

/*
 * Returns true if the ICRC of a packet is right that a UDP socket has received: @bytes is what follows the
 * UDP header, ICRC included; @f has the sender's source port. The IPv4 identification is not known
 * to the receiver, so any is right: of 65,536 broken packets one passes; with IPv6, one of 2^32. An
 * IPv4 address has no place in an IPv6 header.
 */
bool frame_check(const struct flow *f, const uint8_t *bytes, size_t len);

#endif
