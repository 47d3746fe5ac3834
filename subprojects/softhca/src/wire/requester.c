/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "wire/wire.h"

/* The arguments that all functions of the sending half need. */
struct side {
	struct wire_qp *q;
	const struct wire_ops *ops;
	void *arg;
	uint64_t now;
};

static struct wire_flight *flight(struct wire_requester *r, uint32_t n)
{
	return &r->flights[n % WIRE_MESSAGES];
}

static uint32_t advance(uint32_t psn, uint32_t by)
{
	return (psn + by) & PSN_MASK;
}

static bool answers_with_data(const struct wire_flight *f)
{
	return f->kind >= MSG_READ && f->kind != MSG_NOP;
}

/* Returns the number of the message in flight that has PSN @psn, or r->begun if there is none. */
static uint32_t owner_of(struct wire_requester *r, uint32_t psn)
{
	uint32_t n = r->done;

	while (n != r->begun &&
		psn_distance(flight(r, n)->psn, psn) >= (int32_t)flight(r, n)->count)
		n++;
	return n;
}

static void set_timer(struct side *s)
{
	struct wire_requester *r = &s->q->rq;
	uint64_t period = s->q->attr.timeout_ns ? s->q->attr.timeout_ns : WIRE_IDLE_RETRY_NS;

	r->due = r->una == r->top ? 0 : s->now + period;
}

/* Ends the oldest message. */
static void end_oldest(struct side *s, enum wire_status status)
{
	struct wire_requester *r = &s->q->rq;
	const struct wire_flight *f = flight(r, r->done);
	uint32_t n = r->done, after = advance(f->psn, f->count);
	struct wire_step step = {.n = 0};

	wire_add(&step, &r->done, n + 1);
	wire_add(&step, &r->una, status == WIRE_OK ? after : r->una);
	if (s->ops->complete(s->arg, n, status, &step))
		r->failed = 1;
}

static void fail(struct side *s, enum wire_status status)
{
	struct wire_requester *r = &s->q->rq;

	r->failed = 1;
	r->due = r->rnr_until = 0;
	if (r->done != r->begun)
		end_oldest(s, status);
}

/* Ends the messages before PSN @una with success. */
static void end_finished(struct side *s, uint32_t una)
{
	struct wire_requester *r = &s->q->rq;

	while (!r->failed && r->done != r->begun) {
		const struct wire_flight *f = flight(r, r->done);

		if (psn_distance(advance(f->psn, f->count), una) < 0)
			break;
		end_oldest(s, WIRE_OK);
	}
}

/* Makes @una the oldest PSN that is not acknowledged. */
static void progress(struct side *s, uint32_t una)
{
	struct wire_requester *r = &s->q->rq;
	uint32_t moved = (uint32_t)psn_distance(r->una, una);

	if (!moved)
		return;
	r->grown += moved;
	if (r->grown >= r->window && r->window < WIRE_WINDOW_MAX) {
		r->window++;
		r->grown = 0;
	}
	r->retries = r->rnr_retries = 0;
	end_finished(s, una);
	r->una = una;
	if (psn_distance(r->next, una) > 0)
		r->next = una;
	set_timer(s);
}

/*
 * Handles the acknowledgement of all packets before @psn. READs and atomics are not acknowledged
 * but answered with data. If one of them is before @psn, its answer is lost, and the function
 * returns false.
 */
static bool acknowledged(struct side *s, uint32_t psn)
{
	struct wire_requester *r = &s->q->rq;
	uint32_t to = r->una;

	for (uint32_t n = r->done; n != r->begun && psn_distance(to, psn) > 0; n++) {
		const struct wire_flight *f = flight(r, n);

		if (answers_with_data(f))
			break;
		to = advance(f->psn, f->count);
	}
	if (psn_distance(psn, to) > 0)
		to = psn;
	progress(s, to);
	return to == psn;
}

/* Sends again from the oldest packet on. */
static void go_back(struct side *s)
{
	struct wire_requester *r = &s->q->rq;

	r->next = r->una;
	r->window = r->window / 2 < WIRE_WINDOW_MIN ? WIRE_WINDOW_MIN : r->window / 2;
	r->grown = 0;
}

/*
 * Called when an answer has arrived although an earlier one is missing. Sends everything again from
 * the request of the missing answer on, but only once for each missing answer.
 */
static void gap(struct side *s)
{
	struct wire_requester *r = &s->q->rq;

	if (r->gap == r->una + 1)
		return;
	r->gap = r->una + 1;
	go_back(s);
}

/* Returns the number of READ requests and atomics in flight before PSN `next`. */
static uint32_t reads_in_flight(struct wire_requester *r)
{
	uint32_t count = 0;

	for (uint32_t n = r->done; n != r->begun; n++) {
		const struct wire_flight *f = flight(r, n);
		int32_t from = psn_distance(f->psn, r->una), to = psn_distance(f->psn, r->next);

		from = from < 0 ? 0 : from;
		to = to > (int32_t)f->count ? (int32_t)f->count : to;
		if (answers_with_data(f) && from < to)
			count += (uint32_t)(to - 1) / WIRE_READ_PART -
				 (uint32_t)from / WIRE_READ_PART + 1;
	}
	return count;
}

static int look(struct side *s, uint32_t n, uint32_t psn, struct wire_message *m)
{
	int r = s->ops->message(s->arg, n, m);

	m->m.transport = PT_RC;
	m->m.mtu = s->q->attr.mtu;
	m->m.dest_qpn = s->q->attr.dest_qpn;
	m->m.psn = psn;
	return r;
}

/*
 * Begins the next posted message. Returns false if there is none, there is no room for it, or it
 * has to wait at its fence.
 */
static bool begin_message(struct side *s)
{
	struct wire_requester *r = &s->q->rq;
	struct wire_message m;

	if (r->begun - r->done == WIRE_MESSAGES || look(s, r->begun, r->next, &m))
		return false;
	if (m.fence && reads_in_flight(r))
		return false;
	*flight(r, r->begun) = (struct wire_flight){.psn = r->next,
		.count = message_packets(&m.m),
		.kind = m.m.kind};
	r->begun++;
	return true;
}

/*
 * Sends a READ request for the packets from @i to the end of the part that contains packet @i.
 * Returns the number of these packets.
 */
static uint32_t send_read(struct side *s, const struct message *m, uint32_t i)
{
	uint32_t all = message_packets(m), end = (i / WIRE_READ_PART + 1) * WIRE_READ_PART;
	struct message part = *m;
	struct packet p;

	end = end < all ? end : all;
	part.psn = advance(m->psn, i);
	part.raddr += (uint64_t)i * m->mtu;
	part.length = (end == all ? m->length : end * m->mtu) - i * m->mtu;
	message_request(&part, 0, &p);
	s->ops->send(s->arg, &p, NULL);
	return end - i;
}

/* Sends packet @i of message @n. Returns the number of its PSNs, or 0 if it cannot be sent. */
static uint32_t send_packet(struct side *s, uint32_t n, const struct message *m, uint32_t i)
{
	uint8_t payload[PACKET_PAYLOAD_MAX];
	struct wire_requester *r = &s->q->rq;
	struct packet p;
	uint32_t filled;

	if (m->kind == MSG_READ)
		return send_read(s, m, i);
	message_request(m, i, &p);
	if (p.payload && s->ops->gather(s->arg, n, i * m->mtu, payload, p.payload)) {
		/* If @n is not the oldest message, it fails later, when it is the oldest. */
		if (n == r->done)
			fail(s, WIRE_LOCAL_PROTECTION);
		return 0;
	}
	filled = (uint32_t)psn_distance(r->una, p.psn) + 1;
	if (filled >= r->window || p.psn % WIRE_ACK_EVERY == WIRE_ACK_EVERY - 1)
		p.ack_requested = true;
	s->ops->send(s->arg, &p, payload);
	return 1;
}

/* Sends the packet with PSN `next`. Returns false if nothing more can be sent now. */
static bool send_next(struct side *s)
{
	struct wire_requester *r = &s->q->rq;
	struct wire_message m;
	uint32_t n = owner_of(r, r->next), sent;
	bool idle = r->una == r->top;

	if (n == r->begun && !begin_message(s))
		return false;
	if (!flight(r, n)->count) {
		end_finished(s, r->una);
		return true; /* a NOP ends when all messages before it have ended */
	}
	if (answers_with_data(flight(r, n)) && reads_in_flight(r) >= s->q->attr.max_reads)
		return false;
	if (look(s, n, flight(r, n)->psn, &m))
		return false;
	sent = send_packet(s, n, &m.m, (uint32_t)psn_distance(flight(r, n)->psn, r->next));
	if (!sent)
		return false;
	r->next = advance(r->next, sent);
	if (psn_distance(r->top, r->next) > 0)
		r->top = r->next;
	if (idle)
		set_timer(s);
	return true;
}

/* Completes steps that a killed or stopped process has begun. */
static void recover(struct side *s)
{
	struct wire_requester *r = &s->q->rq;

	if (r->failed)
		return;
	if (psn_distance(r->next, r->una) > 0)
		r->next = r->una;
	if (psn_distance(r->top, r->next) > 0)
		r->top = r->next;
	if (r->una != r->top && !r->due)
		set_timer(s);
	end_finished(s, r->una); /* a NOP may be the oldest */
}

static void send_all(struct side *s)
{
	struct wire_requester *r = &s->q->rq;

	while (!r->failed && !r->rnr_until && (uint32_t)psn_distance(r->una, r->next) < r->window &&
		send_next(s))
		;
}

void wire_init(struct wire_qp *q, const struct wire_attr *attr)
{
	memset(q, 0, sizeof(*q));
	q->attr = *attr;
	q->rq.una = q->rq.next = q->rq.top = attr->sq_psn & PSN_MASK;
	q->rq.window = WIRE_WINDOW_START;
	q->rs.expected = attr->rq_psn & PSN_MASK;
}

void wire_send(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now)
{
	struct side s = {q, ops, arg, now};

	recover(&s);
	send_all(&s);
}

uint64_t wire_deadline(const struct wire_qp *q)
{
	return q->rq.rnr_until ? q->rq.rnr_until : q->rq.due;
}

/* Handles a missing answer. Returns false if the message has failed. */
static bool time_out(struct side *s)
{
	struct wire_requester *r = &s->q->rq;

	s->q->counts.timeouts++;
	if (s->q->attr.timeout_ns && ++r->retries > s->q->attr.retry_cnt) {
		fail(s, WIRE_RETRY_EXCEEDED);
		return false;
	}
	s->q->counts.timeout_retries++;
	r->gap = 0;
	go_back(s);
	set_timer(s);
	return true;
}

void wire_tick(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now)
{
	struct side s = {q, ops, arg, now};
	struct wire_requester *r = &q->rq;

	recover(&s);
	if (r->failed || !wire_deadline(q) || now < wire_deadline(q))
		return;
	if (r->rnr_until) {
		r->rnr_until = 0;
		set_timer(&s);
	} else if (!time_out(&s)) {
		return;
	}
	send_all(&s);
}

void wire_sent(struct wire_qp *q, uint64_t now)
{
	struct side s = {.q = q, .now = now};

	if (q->rq.due)
		set_timer(&s);
}

/* Stores the data of response @p. The PSN of @p must be the oldest that is not acknowledged. */
static void take_data(struct side *s, const struct packet *p, const void *payload)
{
	struct wire_requester *r = &s->q->rq;
	uint32_t n = owner_of(r, p->psn);
	uint32_t i = (uint32_t)psn_distance(flight(r, n)->psn, p->psn), len, offset;
	struct wire_message m;
	int rc;

	if (n == r->begun || look(s, n, flight(r, n)->psn, &m))
		return;
	if ((m.m.kind == MSG_READ) != (PACKET_OPERATION(p->opcode) != PO_ATOMIC_ACK) ||
		m.m.kind < MSG_READ) {
		fail(s, WIRE_BAD_RESPONSE);
		return;
	}
	offset = i * m.m.mtu;
	len = m.m.length - offset < m.m.mtu ? m.m.length - offset : m.m.mtu;
	if (m.m.kind == MSG_READ && p->payload != len) {
		fail(s, WIRE_BAD_RESPONSE);
		return;
	}
	if (m.m.kind == MSG_READ)
		rc = len ? s->ops->scatter(s->arg, n, offset, payload, len) : 0;
	else
		rc = s->ops->scatter(s->arg, n, 0, &p->original, sizeof(p->original));
	if (rc)
		fail(s, WIRE_LOCAL_PROTECTION);
	else
		progress(s, advance(p->psn, 1));
}

static enum wire_status status_of(uint8_t nak)
{
	switch (nak) {
	case AETH_NAK_INVALID:
		return WIRE_REMOTE_INVALID;
	case AETH_NAK_ACCESS:
		return WIRE_REMOTE_ACCESS;
	default:
		return WIRE_REMOTE_OPERATIONAL;
	}
}

uint64_t wire_rnr_ns(uint32_t code)
{
	/* In units of 10 us. */
	static const uint32_t delay[32] = {65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128,
		192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384,
		24576, 32768, 49152};

	return delay[code & 31] * UINT64_C(10000);
}

static void back_off(struct side *s, uint8_t syndrome)
{
	struct wire_requester *r = &s->q->rq;

	s->q->counts.rnr_naks++;
	if (s->q->attr.rnr_retry != WIRE_RNR_FOR_EVER && ++r->rnr_retries > s->q->attr.rnr_retry) {
		fail(s, WIRE_RNR_EXCEEDED);
		return;
	}
	s->q->counts.rnr_retries++;
	r->next = r->una;
	r->rnr_until = s->now + wire_rnr_ns(syndrome);
}

/* Handles a NAK: the packets before its PSN have arrived. */
static void take_nak(struct side *s, const struct packet *p)
{
	struct wire_requester *r = &s->q->rq;

	if (!acknowledged(s, p->psn)) {
		gap(s); /* an earlier answer is lost; later answers will be repeated */
		return;
	}
	if ((p->syndrome & 0x60) == AETH_RNR)
		back_off(s, p->syndrome);
	else if (p->syndrome == AETH_NAK_SEQUENCE)
		gap(s);
	else if (r->done != r->begun)
		fail(s, status_of(p->syndrome));
}

void wire_response(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now,
	const struct packet *p, const void *payload)
{
	struct side s = {q, ops, arg, now};
	struct wire_requester *r = &q->rq;
	bool data = PACKET_OPERATION(p->opcode) != PO_ACK;

	recover(&s);
	/* Drops late packets, and answers to packets that were never sent. */
	if (r->failed || psn_distance(r->una, p->psn) < 0 || psn_distance(p->psn, r->top) <= 0)
		return;
	if (data && acknowledged(&s, p->psn))
		take_data(&s, p, payload);
	else if (data)
		gap(&s);
	else if (!(p->syndrome & 0x60) && !acknowledged(&s, advance(p->psn, 1)))
		gap(&s);
	else if ((p->syndrome & 0x60) && !r->rnr_until)
		take_nak(&s, p);
	send_all(&s);
}
