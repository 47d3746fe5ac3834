/* SPDX-License-Identifier: MIT */
/*
 * RoCEv2 packets from the BTH on: converts the headers between values and bytes. The functions keep
 * no state.
 *
 *	BTH 12 | DETH 8 | RETH 16 or AtomicETH 28 | AETH 4 | AtomicAckETH 8 | ImmDt 4 | payload |
 *	zeros up to a multiple of 4 | ICRC 4
 *
 * The opcode determines which of the headers between BTH and payload exist.
 */
#ifndef SOFTHCA_PACKET_PACKET_H
#define SOFTHCA_PACKET_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSN_MASK 0xffffffu
#define QPN_MASK 0xffffffu
#define PKEY_NUMBER 0x7fffu /* number of the partition */
#define PKEY_FULL 0x8000u /* the port is a full member of the partition */
#define ICRC_BYTES 4u
#define PACKET_HEADERS_MAX 40u /* BTH and AtomicETH */
#define PACKET_PAYLOAD_MAX 4096u /* the largest MTU */

/* The upper three bits of an opcode. */
enum packet_transport { PT_RC = 0x00, PT_UC = 0x20, PT_UD = 0x60 };
#define PACKET_TRANSPORT(opcode) ((opcode)&0xe0)
#define PACKET_OPERATION(opcode) ((opcode)&0x1f)

/* The lower five bits. */
enum packet_operation {
	PO_SEND_FIRST = 0x00,
	PO_SEND_MIDDLE = 0x01,
	PO_SEND_LAST = 0x02,
	PO_SEND_LAST_IMM = 0x03,
	PO_SEND_ONLY = 0x04,
	PO_SEND_ONLY_IMM = 0x05,
	PO_WRITE_FIRST = 0x06,
	PO_WRITE_MIDDLE = 0x07,
	PO_WRITE_LAST = 0x08,
	PO_WRITE_LAST_IMM = 0x09,
	PO_WRITE_ONLY = 0x0a,
	PO_WRITE_ONLY_IMM = 0x0b,
	PO_READ_REQUEST = 0x0c,
	PO_READ_RESPONSE_FIRST = 0x0d,
	PO_READ_RESPONSE_MIDDLE = 0x0e,
	PO_READ_RESPONSE_LAST = 0x0f,
	PO_READ_RESPONSE_ONLY = 0x10,
	PO_ACK = 0x11,
	PO_ATOMIC_ACK = 0x12,
	PO_COMPARE_SWAP = 0x13,
	PO_FETCH_ADD = 0x14,
};

/* The properties of an opcode; see packet_traits(). */
enum packet_trait {
	PK_DETH = 1 << 0, /* this trait and those up to PK_IMM: the packet has this header */
	PK_RETH = 1 << 1,
	PK_ATOMIC = 1 << 2,
	PK_AETH = 1 << 3,
	PK_ATOMIC_ACK = 1 << 4,
	PK_IMM = 1 << 5,
	PK_PAYLOAD = 1 << 6, /* may have a payload */
	PK_RESPONSE = 1 << 7, /* from the responder */
	PK_FIRST = 1 << 8, /* begins a message; an ONLY packet begins and ends it */
	PK_LAST = 1 << 9, /* ends a message */
	PK_KNOWN = 1 << 10, /* the opcode exists */
};

/* Syndromes of an AETH. RNR is combined with the code of a delay. */
enum aeth_syndrome {
	AETH_ACK = 0x1f, /* without end-to-end credits */
	AETH_RNR = 0x20,
	AETH_NAK_SEQUENCE = 0x60,
	AETH_NAK_INVALID = 0x61,
	AETH_NAK_ACCESS = 0x62,
	AETH_NAK_OPERATIONAL = 0x63,
};

/* packet_decode() sets the fields of headers that the opcode does not have to 0. */
struct packet {
	uint8_t opcode;
	bool solicited;
	bool ack_requested;
	uint8_t syndrome; /* AETH */
	uint16_t pkey;
	uint32_t dest_qpn;
	uint32_t psn;
	uint32_t msn; /* AETH */
	uint32_t qkey, src_qpn; /* DETH */
	uint64_t raddr; /* RETH, AtomicETH */
	uint32_t rkey;
	uint32_t length; /* RETH: of the message */
	uint64_t swap_add, compare; /* AtomicETH */
	uint64_t original; /* AtomicAckETH */
	uint32_t imm; /* ImmDt, in network order, as a WQE and a CQE have it */
	uint32_t payload; /* length of the payload in bytes */
};

/* Returns a set of enum packet_trait; 0: there is no such opcode. */
uint32_t packet_traits(uint8_t opcode);

/* Returns the length of the headers from the BTH on. */
size_t packet_header_bytes(uint8_t opcode);

/* Returns the number of zeros after a payload of @payload bytes. */
static inline uint32_t packet_padding(uint32_t payload)
{
	return -payload & 3;
}

/*
 * Writes the headers and returns their length. The BTH contains the number of zeros after the
 * payload of @p.
 */
size_t packet_encode(const struct packet *p, uint8_t *out);

/*
 * Reads a packet of @len bytes, from BTH to padding, without ICRC. Returns the length of the
 * headers, after which the payload begins, or -EINVAL if the packet is too short, @len is no
 * multiple of 4, the opcode or version is unknown, or there is a payload although the opcode has
 * none.
 */
int packet_decode(const uint8_t *bytes, size_t len, struct packet *p);

/*
 * Returns true if a packet with P_Key @a belongs to the partition of a QP with P_Key @b: the
 * numbers are equal and not 0, and at least one of the two is a full member.
 */
static inline bool packet_pkeys_match(uint16_t a, uint16_t b)
{
	return !((a ^ b) & PKEY_NUMBER) && (a & PKEY_NUMBER) && ((a | b) & PKEY_FULL);
}

/* Returns the distance from PSN @from to PSN @to, between -2^23 and 2^23 - 1. */
static inline int32_t psn_distance(uint32_t from, uint32_t to)
{
	return (int32_t)((to - from) << 8) >> 8;
}

#endif
