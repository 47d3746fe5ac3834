/* SPDX-License-Identifier: MIT */
#include "packet/message.h"

#include <string.h>

/*
 * The packet operations of a message with payload. The index of last[] and only[] is has_imm.
 */
struct operations {
	uint8_t first, middle, last[2], only[2];
};

static const struct operations operations[] = {
	[MSG_SEND] = {PO_SEND_FIRST, PO_SEND_MIDDLE, {PO_SEND_LAST, PO_SEND_LAST_IMM},
		{PO_SEND_ONLY, PO_SEND_ONLY_IMM}},
	[MSG_WRITE] = {PO_WRITE_FIRST, PO_WRITE_MIDDLE, {PO_WRITE_LAST, PO_WRITE_LAST_IMM},
		{PO_WRITE_ONLY, PO_WRITE_ONLY_IMM}},
	[MSG_READ] = {PO_READ_RESPONSE_FIRST, PO_READ_RESPONSE_MIDDLE,
		{PO_READ_RESPONSE_LAST, PO_READ_RESPONSE_LAST},
		{PO_READ_RESPONSE_ONLY, PO_READ_RESPONSE_ONLY}},
};

static uint8_t operation(const struct message *m, uint32_t i, uint32_t n)
{
	const struct operations *o = &operations[m->kind];

	if (n == 1)
		return o->only[m->has_imm];
	if (!i)
		return o->first;
	return i + 1 < n ? o->middle : o->last[m->has_imm];
}

uint32_t message_packets(const struct message *m)
{
	if (m->kind == MSG_NOP)
		return 0;
	if (m->kind > MSG_READ || !m->length)
		return 1;
	return (m->length - 1) / m->mtu + 1;
}

uint32_t message_requests(const struct message *m)
{
	return m->kind < MSG_READ ? message_packets(m) : 1;
}

static uint32_t payload(const struct message *m, uint32_t i)
{
	uint32_t left = m->length - i * m->mtu;

	return left < m->mtu ? left : m->mtu;
}

static void begin(const struct message *m, uint32_t i, struct packet *p)
{
	memset(p, 0, sizeof(*p));
	p->dest_qpn = m->dest_qpn;
	p->psn = (m->psn + i) & PSN_MASK;
}

void message_request(const struct message *m, uint32_t i, struct packet *p)
{
	uint32_t n = message_requests(m);

	begin(m, i, p);
	p->ack_requested = m->transport == PT_RC && i + 1 == n;
	p->raddr = m->raddr;
	p->rkey = m->rkey;
	switch (m->kind) {
	case MSG_READ:
		p->opcode = PO_READ_REQUEST;
		p->length = m->length;
		return;
	case MSG_COMPARE_SWAP:
	case MSG_FETCH_ADD:
		p->opcode = m->kind == MSG_FETCH_ADD ? PO_FETCH_ADD : PO_COMPARE_SWAP;
		p->swap_add = m->swap_add;
		p->compare = m->compare;
		return;
	default:
		p->opcode = (uint8_t)m->transport | operation(m, i, n);
		p->length = m->length;
		p->payload = payload(m, i);
		p->qkey = m->qkey;
		p->src_qpn = m->src_qpn;
	}
	if (i + 1 < n)
		return;
	p->solicited = m->solicited;
	p->imm = m->imm;
}

void message_response(const struct message *m, uint32_t i, struct packet *p)
{
	begin(m, i, p);
	p->syndrome = AETH_ACK;
	if (m->kind == MSG_READ) {
		p->opcode = operation(m, i, message_packets(m));
		p->payload = payload(m, i);
	} else {
		p->opcode = PO_ATOMIC_ACK;
	}
}
