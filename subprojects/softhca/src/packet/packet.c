/* SPDX-License-Identifier: MIT */
#include "packet/packet.h"

#include <errno.h>
#include <string.h>

#define BTH_BYTES 12u
#define BTH_SOLICITED 0x80
#define BTH_MIGRATED 0x40 /* "M": the state of a QP without path migration */
#define BTH_PAD_SHIFT 4
#define BTH_VERSION 0x0f
#define BTH_ACK_REQUESTED 0x80

static const uint16_t traits[32] = {
	[PO_SEND_FIRST] = PK_PAYLOAD | PK_FIRST,
	[PO_SEND_MIDDLE] = PK_PAYLOAD,
	[PO_SEND_LAST] = PK_PAYLOAD | PK_LAST,
	[PO_SEND_LAST_IMM] = PK_PAYLOAD | PK_LAST | PK_IMM,
	[PO_SEND_ONLY] = PK_PAYLOAD | PK_FIRST | PK_LAST,
	[PO_SEND_ONLY_IMM] = PK_PAYLOAD | PK_FIRST | PK_LAST | PK_IMM,
	[PO_WRITE_FIRST] = PK_PAYLOAD | PK_FIRST | PK_RETH,
	[PO_WRITE_MIDDLE] = PK_PAYLOAD,
	[PO_WRITE_LAST] = PK_PAYLOAD | PK_LAST,
	[PO_WRITE_LAST_IMM] = PK_PAYLOAD | PK_LAST | PK_IMM,
	[PO_WRITE_ONLY] = PK_PAYLOAD | PK_FIRST | PK_LAST | PK_RETH,
	[PO_WRITE_ONLY_IMM] = PK_PAYLOAD | PK_FIRST | PK_LAST | PK_RETH | PK_IMM,
	[PO_READ_REQUEST] = PK_FIRST | PK_LAST | PK_RETH,
	[PO_READ_RESPONSE_FIRST] = PK_PAYLOAD | PK_RESPONSE | PK_FIRST | PK_AETH,
	[PO_READ_RESPONSE_MIDDLE] = PK_PAYLOAD | PK_RESPONSE,
	[PO_READ_RESPONSE_LAST] = PK_PAYLOAD | PK_RESPONSE | PK_LAST | PK_AETH,
	[PO_READ_RESPONSE_ONLY] = PK_PAYLOAD | PK_RESPONSE | PK_FIRST | PK_LAST | PK_AETH,
	[PO_ACK] = PK_RESPONSE | PK_AETH,
	[PO_ATOMIC_ACK] = PK_RESPONSE | PK_AETH | PK_ATOMIC_ACK,
	[PO_COMPARE_SWAP] = PK_FIRST | PK_LAST | PK_ATOMIC,
	[PO_FETCH_ADD] = PK_FIRST | PK_LAST | PK_ATOMIC,
};

uint32_t packet_traits(uint8_t opcode)
{
	uint8_t op = PACKET_OPERATION(opcode);

	switch (PACKET_TRANSPORT(opcode)) {
	case PT_RC:
		return op <= PO_FETCH_ADD ? traits[op] | PK_KNOWN : 0;
	case PT_UC:
		return op <= PO_WRITE_ONLY_IMM ? traits[op] | PK_KNOWN : 0;
	case PT_UD:
		if (op != PO_SEND_ONLY && op != PO_SEND_ONLY_IMM)
			return 0;
		return traits[op] | PK_DETH | PK_KNOWN;
	default:
		return 0;
	}
}

size_t packet_header_bytes(uint8_t opcode)
{
	uint32_t t = packet_traits(opcode);

	return BTH_BYTES + (t & PK_DETH ? 8 : 0) + (t & PK_RETH ? 16 : 0) +
	       (t & PK_ATOMIC ? 28 : 0) + (t & PK_AETH ? 4 : 0) + (t & PK_ATOMIC_ACK ? 8 : 0) +
	       (t & PK_IMM ? 4 : 0);
}

static uint8_t *put32(uint8_t *at, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(v >> (24 - 8 * i));
	return at + 4;
}

static uint8_t *put64(uint8_t *at, uint64_t v)
{
	return put32(put32(at, (uint32_t)(v >> 32)), (uint32_t)v);
}

static uint32_t get32(const uint8_t **at)
{
	const uint8_t *p = *at;

	*at += 4;
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t get64(const uint8_t **at)
{
	uint64_t high = get32(at);

	return high << 32 | get32(at);
}

static uint8_t *put_bth(uint8_t *at, const struct packet *p)
{
	uint8_t flags = BTH_MIGRATED | (p->solicited ? BTH_SOLICITED : 0) |
			(uint8_t)(packet_padding(p->payload) << BTH_PAD_SHIFT);

	at = put32(at, (uint32_t)p->opcode << 24 | (uint32_t)flags << 16 | p->pkey);
	at = put32(at, p->dest_qpn & QPN_MASK);
	return put32(at,
		(p->ack_requested ? (uint32_t)BTH_ACK_REQUESTED << 24 : 0) | (p->psn & PSN_MASK));
}

size_t packet_encode(const struct packet *p, uint8_t *out)
{
	uint32_t t = packet_traits(p->opcode);
	uint8_t *at = put_bth(out, p);

	if (t & PK_DETH)
		at = put32(put32(at, p->qkey), p->src_qpn & QPN_MASK);
	if (t & (PK_RETH | PK_ATOMIC))
		at = put32(put64(at, p->raddr), p->rkey);
	if (t & PK_RETH)
		at = put32(at, p->length);
	if (t & PK_ATOMIC)
		at = put64(put64(at, p->swap_add), p->compare);
	if (t & PK_AETH)
		at = put32(at, (uint32_t)p->syndrome << 24 | (p->msn & PSN_MASK));
	if (t & PK_ATOMIC_ACK)
		at = put64(at, p->original);
	if (t & PK_IMM) {
		memcpy(at, &p->imm, sizeof(p->imm));
		at += sizeof(p->imm);
	}
	return (size_t)(at - out);
}

static const uint8_t *get_bth(const uint8_t *at, struct packet *p)
{
	uint32_t word = get32(&at);

	p->opcode = (uint8_t)(word >> 24);
	p->solicited = word >> 16 & BTH_SOLICITED;
	p->pkey = (uint16_t)word;
	p->dest_qpn = get32(&at) & QPN_MASK;
	word = get32(&at);
	p->ack_requested = word >> 24 & BTH_ACK_REQUESTED;
	p->psn = word & PSN_MASK;
	return at;
}

int packet_decode(const uint8_t *bytes, size_t len, struct packet *p)
{
	const uint8_t *at = bytes;
	uint32_t t, word, pad;
	size_t head;

	if (len < BTH_BYTES)
		return -EINVAL;
	t = packet_traits(bytes[0]);
	pad = bytes[1] >> BTH_PAD_SHIFT & 3;
	head = packet_header_bytes(bytes[0]);
	if (!t || (bytes[1] & BTH_VERSION) || len < head + pad || (len & 3))
		return -EINVAL;
	if (!(t & PK_PAYLOAD) && (len > head || pad))
		return -EINVAL;
	memset(p, 0, sizeof(*p));
	at = get_bth(at, p);
	if (t & PK_DETH) {
		p->qkey = get32(&at);
		p->src_qpn = get32(&at) & QPN_MASK;
	}
	if (t & (PK_RETH | PK_ATOMIC)) {
		p->raddr = get64(&at);
		p->rkey = get32(&at);
	}
	if (t & PK_RETH)
		p->length = get32(&at);
	if (t & PK_ATOMIC) {
		p->swap_add = get64(&at);
		p->compare = get64(&at);
	}
	if (t & PK_AETH) {
		word = get32(&at);
		p->syndrome = (uint8_t)(word >> 24);
		p->msn = word & PSN_MASK;
	}
	if (t & PK_ATOMIC_ACK)
		p->original = get64(&at);
	if (t & PK_IMM)
		memcpy(&p->imm, at, sizeof(p->imm));
	p->payload = (uint32_t)(len - head) - pad;
	return (int)head;
}
