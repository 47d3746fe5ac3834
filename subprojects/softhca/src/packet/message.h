/* SPDX-License-Identifier: MIT */
/*
 * Splits messages into packets. A message of n bytes has max(1, ceil(n / mtu)) PSNs, an atomic has
 * one, a NOP none. The functions set the P_Key to 0; the sender must fill it in.
 */
#ifndef SOFTHCA_PACKET_MESSAGE_H
#define SOFTHCA_PACKET_MESSAGE_H

#include "packet/packet.h"

enum message_kind { MSG_SEND, MSG_WRITE, MSG_READ, MSG_COMPARE_SWAP, MSG_FETCH_ADD, MSG_NOP };

struct message {
	enum packet_transport transport;
	enum message_kind kind;
	bool has_imm; /* SEND, WRITE */
	bool solicited;
	uint32_t imm; /* in network order */
	uint32_t length;
	uint32_t mtu;
	uint32_t dest_qpn;
	uint32_t psn; /* of the first packet */
	uint64_t raddr;
	uint32_t rkey;
	uint64_t swap_add, compare;
	uint32_t qkey, src_qpn; /* datagrams */
};

/* Returns the number of PSNs of the message. */
uint32_t message_packets(const struct message *m);

/*
 * Returns the number of packets from the requester. A READ or atomic has one such packet, however
 * many PSNs it has. @m must not be a NOP.
 */
uint32_t message_requests(const struct message *m);

/*
 * Makes packet @i of the request. Its payload is the payload of @m from byte i * mtu on. The last
 * packet of an RC request requests an acknowledgement.
 */
void message_request(const struct message *m, uint32_t i, struct packet *p);

/*
 * Makes response @i to a READ, or to an atomic (@i is 0). The responder must add MSN, original
 * value and destination.
 */
void message_response(const struct message *m, uint32_t i, struct packet *p);

#endif
