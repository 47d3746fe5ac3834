/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "wire/wire.h"

/* A request, and the responder that answers it. */
struct asked {
	struct wire_qp *q;
	const struct wire_ops *ops;
	void *arg;
	const struct packet *p;
	uint32_t traits;
};

static void reply(struct asked *a, uint8_t syndrome, uint32_t psn)
{
	struct packet p = {.opcode = PO_ACK,
		.dest_qpn = a->q->attr.dest_qpn,
		.psn = psn & PSN_MASK,
		.syndrome = syndrome,
		.msn = a->q->rs.msn};

	a->q->rs.ack_due = 0; /* an ACK or a NAK acknowledges all packets before its PSN */
	a->ops->send(a->arg, &p, NULL);
}

/*
 * The answer to a READ or an atomic acknowledges all packets before it, too. But if the request is
 * a late duplicate, the ACK that is due may be of a later packet; then it stays due.
 */
static void answers(struct wire_responder *r, uint32_t psn)
{
	if (r->ack_due && psn_distance(r->ack_due - 1, psn) > 0)
		r->ack_due = 0;
}

static void refuse_at(struct asked *a, enum aeth_syndrome nak, uint32_t psn)
{
	a->q->rs.refused = nak;
	reply(a, (uint8_t)nak, psn);
	a->ops->refused(a->arg, nak);
}

static void refuse(struct asked *a, enum aeth_syndrome nak)
{
	refuse_at(a, nak, a->p->psn);
}

/*
 * Makes the peer send the request again after a delay. Later packets are dropped until the request
 * arrives again.
 */
static void not_ready(struct asked *a)
{
	a->q->rs.nak_sent = 1;
	a->q->counts.no_receives++;
	reply(a, (uint8_t)(AETH_RNR | (a->q->attr.rnr_timer & 31)), a->p->psn);
}

/*
 * Answers a request that cannot be executed. @rc: the error of a function of struct wire_ops, or
 * -EMSGSIZE: the READ is not valid. If the memory's owner is dead or busy, sends no answer, so that
 * the peer tries again.
 */
static void refuse_for(struct asked *a, int rc)
{
	if (rc == -ESRCH || rc == -EBUSY)
		return;
	if (rc == -EAGAIN)
		not_ready(a);
	else if (rc == -EACCES)
		refuse(a, AETH_NAK_ACCESS);
	else if (rc == -EMSGSIZE)
		refuse(a, AETH_NAK_INVALID);
	else
		refuse(a, AETH_NAK_OPERATIONAL);
}

/*
 * Returns the values to store in order to advance the state by this packet, which has @psns PSNs.
 * @ends: the message is complete.
 */
static struct wire_step step_past(struct asked *a, uint32_t psns, bool ends)
{
	struct wire_responder *r = &a->q->rs;
	struct wire_step s = {.n = 0};

	wire_add(&s, &r->expected, (r->expected + psns) & PSN_MASK);
	if (ends) {
		wire_add(&s, &r->msn, (r->msn + 1) & PSN_MASK);
		wire_add(&s, &r->operation, 0);
	}
	return s;
}

/*
 * Returns true if a packet of a SEND or WRITE has a valid length of payload, which may be 0, and a
 * valid position in its message.
 */
static bool fits(const struct asked *a, enum message_kind kind)
{
	const struct wire_responder *r = &a->q->rs;
	bool first = a->traits & PK_FIRST, last = a->traits & PK_LAST;
	uint32_t mtu = a->q->attr.mtu, before = first ? 0 : r->offset;

	if (first ? r->operation != 0 : r->operation != 1 + (uint32_t)kind)
		return false;
	if (last ? a->p->payload > mtu || (!first && !a->p->payload) : a->p->payload != mtu)
		return false;
	if (kind == MSG_WRITE) {
		uint32_t length = first ? a->p->length : r->length;

		return last ? length - before == a->p->payload : length - before > a->p->payload;
	}
	return true;
}

static void begin_write(struct asked *a)
{
	struct wire_responder *r = &a->q->rs;

	r->raddr = a->p->raddr;
	r->rkey = a->p->rkey;
	r->length = a->p->length;
	r->offset = 0;
}

/* Changes the state after a packet that causes no completion at the responder. */
static void go_on(struct asked *a, enum message_kind kind)
{
	struct wire_responder *r = &a->q->rs;
	bool last = a->traits & PK_LAST;
	struct wire_step s = step_past(a, 1, last);

	if (!last) {
		wire_add(&s, &r->operation, 1 + (uint32_t)kind);
		wire_add(&s, &r->offset, r->offset + a->p->payload);
	}
	a->ops->commit(a->arg, &s);
}

/*
 * Handles the last packet of a message that consumes a receive WQE. Makes the completion and
 * changes the state in one step, so that a repeated packet is recognised.
 */
static void arrive(struct asked *a, bool write)
{
	struct wire_responder *r = &a->q->rs;
	struct wire_step s = step_past(a, 1, true);
	struct wire_arrival what = {
		.write = write,
		.has_imm = a->traits & PK_IMM,
		.solicited = a->p->solicited,
		.imm = a->p->imm,
		.length = r->offset + a->p->payload,
	};

	a->ops->recv_complete(a->arg, &what, &s);
}

static void take_write(struct asked *a, const void *payload)
{
	struct wire_responder *r = &a->q->rs;
	const struct packet *p = a->p;
	int rc = 0;

	if (!fits(a, MSG_WRITE)) {
		refuse(a, AETH_NAK_INVALID);
		return;
	}
	if (a->traits & PK_FIRST) {
		if (p->length)
			rc = a->ops->access(a->arg, PO_WRITE_ONLY, p->raddr, p->rkey, p->length);
		if (!rc)
			begin_write(a);
	}
	if (!rc && (a->traits & PK_IMM))
		rc = a->ops->recv_ready(a->arg);
	if (!rc && p->payload)
		rc = a->ops->place(a->arg, r->raddr + r->offset, r->rkey, payload, p->payload);
	if (rc)
		refuse_for(a, rc);
	else if (a->traits & PK_IMM)
		arrive(a, true);
	else
		go_on(a, MSG_WRITE);
	if (!rc && (a->traits & PK_LAST))
		a->q->counts.writes++;
}

static void take_send(struct asked *a, const void *payload)
{
	struct wire_responder *r = &a->q->rs;
	int rc = 0;

	if (!fits(a, MSG_SEND)) {
		refuse(a, AETH_NAK_INVALID);
		return;
	}
	if (a->traits & PK_FIRST) {
		rc = a->ops->recv_ready(a->arg);
		if (!rc)
			r->offset = 0;
	}
	if (!rc)
		rc = a->ops->recv_place(a->arg, r->offset, payload, a->p->payload);
	if (rc)
		refuse_for(a, rc);
	else if (a->traits & PK_LAST)
		arrive(a, false);
	else
		go_on(a, MSG_SEND);
}

/* Returns the READ as a struct message, as the functions of packet/message.h need it. */
static struct message read_of(const struct asked *a)
{
	return (struct message){.kind = MSG_READ,
		.length = a->p->length,
		.mtu = a->q->attr.mtu,
		.dest_qpn = a->q->attr.dest_qpn,
		.psn = a->p->psn};
}

/* Sends the data, at most WIRE_READ_BURST packets. Needs nothing but the request, so it can answer
 * a repeated request, too. */
static void respond_read(struct asked *a, const struct message *m)
{
	uint8_t payload[PACKET_PAYLOAD_MAX];
	uint32_t n = message_packets(m);
	struct packet p;
	int rc = 0;

	answers(&a->q->rs, m->psn);
	for (uint32_t i = 0; i < n && i < WIRE_READ_BURST; i++) {
		message_response(m, i, &p);
		p.msn = a->q->rs.msn;
		if (p.payload)
			rc = a->ops->fetch(a->arg, a->p->raddr + (uint64_t)i * m->mtu, a->p->rkey,
				payload, p.payload);
		if (rc) {
			if (rc != -ESRCH)
				refuse_at(a, AETH_NAK_OPERATIONAL, p.psn);
			return;
		}
		a->ops->send(a->arg, &p, payload);
	}
}

/*
 * With more than twice as many packets as this limit, the last PSN of a READ would be so far from
 * the first one that psn_distance() would take it for an earlier one.
 */
static bool too_long(const struct message *m)
{
	return message_packets(m) > PSN_MASK / 4;
}

static bool may_read(struct asked *a, const struct message *m)
{
	int rc = 0;

	if (!a->q->attr.max_dest_reads || a->q->rs.operation || too_long(m))
		rc = -EMSGSIZE;
	else if (m->length)
		rc = a->ops->access(a->arg, PO_READ_REQUEST, a->p->raddr, a->p->rkey, m->length);
	if (rc)
		refuse_for(a, rc);
	return !rc;
}

static void take_read(struct asked *a)
{
	struct message m = read_of(a);
	struct wire_step s;

	if (!may_read(a, &m))
		return;
	s = step_past(a, message_packets(&m), true);
	a->ops->commit(a->arg, &s);
	a->q->counts.reads++;
	respond_read(a, &m);
}

static void respond_atomic(struct asked *a, uint64_t original)
{
	struct message m = {.kind = MSG_FETCH_ADD, .dest_qpn = a->q->attr.dest_qpn};
	struct packet p;

	m.psn = a->p->psn;
	message_response(&m, 0, &p);
	p.msn = a->q->rs.msn;
	p.original = original;
	answers(&a->q->rs, m.psn);
	a->ops->send(a->arg, &p, NULL);
}

static void take_atomic(struct asked *a)
{
	struct wire_responder *r = &a->q->rs;
	struct wire_replay *replay = &r->replays[r->atomics % WIRE_REPLAYS];
	struct wire_step s = step_past(a, 1, true);
	int rc;

	if (!a->q->attr.max_dest_reads || r->operation || (a->p->raddr & 7)) {
		refuse(a, AETH_NAK_INVALID);
		return;
	}
	wire_add(&s, &replay->psn, 1 + a->p->psn);
	wire_add(&s, &r->atomics, r->atomics + 1);
	rc = a->ops->atomic(a->arg, a->p, &replay->original, &s);
	if (rc) {
		refuse_for(a, rc);
		return;
	}
	a->q->counts.atomics++;
	respond_atomic(a, replay->original);
}

/*
 * Makes wire_acknowledge() acknowledge @psn. Must be called for SENDs and WRITEs only: READs and
 * atomics have answers of their own.
 */
static void owe(struct wire_responder *r, uint32_t psn)
{
	if (!r->ack_due || psn_distance(r->ack_due - 1, psn) > 0)
		r->ack_due = 1 + psn;
}

/*
 * Answers a request that was executed before. A READ may be repeated in part. The answer of an
 * atomic is in r->replays.
 */
static void repeated(struct asked *a)
{
	struct wire_responder *r = &a->q->rs;
	struct message m = read_of(a);

	switch (PACKET_OPERATION(a->p->opcode)) {
	case PO_READ_REQUEST:
		/* The repeated READ must not extend beyond `expected`. */
		if (!too_long(&m) &&
			psn_distance(a->p->psn + message_packets(&m), r->expected) >= 0 &&
			(!m.length || !a->ops->access(a->arg, PO_READ_REQUEST, a->p->raddr,
					      a->p->rkey, m.length)))
			respond_read(a, &m);
		break;
	case PO_COMPARE_SWAP:
	case PO_FETCH_ADD:
		for (uint32_t i = 0; i < WIRE_REPLAYS; i++)
			if (r->replays[i].psn == 1 + a->p->psn)
				respond_atomic(a, r->replays[i].original);
		break;
	default:
		owe(r, a->p->psn);
	}
}

static void execute(struct asked *a, const void *payload)
{
	uint8_t op = PACKET_OPERATION(a->p->opcode);

	a->q->rs.nak_sent = 0;
	if (op <= PO_SEND_ONLY_IMM)
		take_send(a, payload);
	else if (op <= PO_WRITE_ONLY_IMM)
		take_write(a, payload);
	else if (op == PO_READ_REQUEST)
		take_read(a);
	else
		take_atomic(a);
	if (a->p->ack_requested && op <= PO_WRITE_ONLY_IMM && a->q->rs.expected != a->p->psn)
		owe(&a->q->rs, a->p->psn);
}

void wire_request(struct wire_qp *q, const struct wire_ops *ops, void *arg, const struct packet *p,
	const void *payload)
{
	struct asked a = {q, ops, arg, p, packet_traits(p->opcode)};
	int32_t ahead = psn_distance(q->rs.expected, p->psn);

	if (q->rs.refused)
		return;
	if (!ahead) {
		execute(&a, payload);
	} else if (ahead < 0) {
		repeated(&a);
	} else if (!q->rs.nak_sent) {
		q->rs.nak_sent = 1;
		reply(&a, AETH_NAK_SEQUENCE, q->rs.expected);
	}
}

void wire_acknowledge(struct wire_qp *q, const struct wire_ops *ops, void *arg)
{
	struct asked a = {.q = q, .ops = ops, .arg = arg};

	if (q->rs.ack_due && !q->rs.refused)
		reply(&a, AETH_ACK, q->rs.ack_due - 1);
}

void wire_receive(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now,
	const struct packet *p, const void *payload)
{
	if (PACKET_TRANSPORT(p->opcode) != PT_RC)
		return;
	if (packet_traits(p->opcode) & PK_RESPONSE)
		wire_response(q, ops, arg, now, p, payload);
	else
		wire_request(q, ops, arg, p, payload);
}
