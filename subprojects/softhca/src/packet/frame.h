/* SPDX-License-Identifier: MIT */
/*
 * The parts of a packet around its BTH and payload: IP and UDP headers before them, the ICRC at the
 * end. Addresses are GIDs; if both are IPv4-mapped, the packet is IPv4, else IPv6.
 */
#ifndef SOFTHCA_PACKET_FRAME_H
#define SOFTHCA_PACKET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCE_PORT 4791
#define GID_IPV4 12 /* offset of the address in an IPv4-mapped GID */
#define FRAME_HEAD_MAX 48u /* IPv6 and UDP */
#define FRAME_HOP_LIMIT 64 /* of packets that a UDP socket sends; captured ones have their path's */

struct flow {
	uint8_t src[16], dst[16];
	uint16_t src_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint32_t flow_label;
};

/* Returns true if @gid contains an IPv4 address, in its last four bytes. */
bool gid_is_ipv4(const uint8_t *gid);

/* Makes a GID of the four bytes of an IPv4 address. */
void gid_set_ipv4(uint8_t *gid, const void *ipv4);

/* Returns the length of the IP and UDP headers. */
size_t frame_head_bytes(const struct flow *f);

/*
 * Writes the IP header of a frame that has @len bytes from BTH to padding. Returns the header's
 * length.
 */
size_t frame_ip_header(const struct flow *f, uint8_t *ip, size_t len);

/*
 * Completes a frame: @frame has room for the headers, then @len bytes from BTH to padding, then
 * room for the ICRC. Returns the length of the frame. The IPv4 identification is 0 and fragments
 * are forbidden, as in packets of a UDP socket with IP_PMTUDISC_PROBE.
 */
size_t frame_seal(const struct flow *f, uint8_t *frame, size_t len);

/*
 * Returns true if the ICRC of a packet from a UDP socket is right. @bytes: everything after the UDP
 * header, including the ICRC; @f: the packet's addresses and the sender's source port. The receiver
 * does not know the IPv4 identification, so any value is accepted: one of 65,536 broken packets
 * passes. With IPv6, one of 2^32 passes. Returns false if only one of the two addresses is IPv4.
 */
bool frame_check(const struct flow *f, const uint8_t *bytes, size_t len);

#endif
