/* SPDX-License-Identifier: MIT */
/* Handles messages of other fabrics; posts events and repeats messages when they are due. */
#include <errno.h>
#include <string.h>

#include "cm/cm.h"
#include "cm/ids.h"
#include "cm/remote.h"
#include "hca/port.h"
#include "xport/wired.h"

#define RC 0 /* mad.transport */
#define BATCH 64 /* see struct batch */

/* ---- repetitions ---- */

static void give_up(struct cm_id *id)
{
	if (id->away.gone) {
		cm_free(id);
	} else if (id->state == CM_DREQ_SENT) {
		cm_end_connection(id);
	} else {
		cm_tell(id, CM_EV_UNREACHABLE, -ETIMEDOUT, false);
		remote_stop(id);
		id->state = CM_ENDED;
	}
}

static void repeat(struct cm_id *id, uint64_t now)
{
	if (!id->away.repeats) {
		give_up(id);
		return;
	}
	id->away.repeats--;
	id->away.due = now + REMOTE_REPEAT_NS;
	remote_send(id, (enum mad_type)id->away.message, 0);
}

/* Returns the time at which the next message of the id arrives or is repeated; 0: none. */
static uint64_t due_of(const struct cm_id *id)
{
	uint64_t repeats = id->away.due, arrives = cm_due(id);

	return !arrives || (repeats && repeats < arrives) ? repeats : arrives;
}

/*
 * The ids of this process that are due first, in the order in which they are due. There are
 * several, because the search reads all ids, and thousands are due when a process is killed.
 */
struct batch {
	uint32_t n;
	struct cm_id *ids[BATCH];
};

static void insert(struct batch *b, struct cm_id *id)
{
	uint32_t at;

	if (b->n == BATCH && due_of(id) >= due_of(b->ids[BATCH - 1]))
		return;
	if (b->n < BATCH)
		b->n++;
	for (at = b->n - 1; at && due_of(id) < due_of(b->ids[at - 1]); at--)
		b->ids[at] = b->ids[at - 1];
	b->ids[at] = id;
}

static void search(struct batch *b)
{
	b->n = 0;
	for (uint32_t i = FIRST_CM_ID; i < arena()->cm_high; i++) {
		struct cm_id *id = cm_at(i);

		if (id->used && id->owner == fabric_self.slot && due_of(id))
			insert(b, id);
	}
}

static bool is_due(const struct cm_id *id, uint64_t now)
{
	return id->used && due_of(id) && due_of(id) <= now;
}

static void serve(struct cm_id *id, uint64_t now)
{
	if (id->away.due && id->away.due <= now)
		repeat(id, now);
	else
		cm_deliver(id, now);
}

uint64_t cm_serve(uint64_t now)
{
	uint64_t *due = &arena()->procs[fabric_self.slot].cm_due;
	struct batch b;

	while (*due && *due <= now) {
		search(&b);
		*due = b.n ? due_of(b.ids[0]) : 0;
		for (uint32_t i = 0; i < b.n && is_due(b.ids[i], now); i++)
			serve(b.ids[i], now);
	}
	return *due;
}

/*
 * ---- messages ----
 *
 * Any process of the fabric may handle a message, also one for an id of another process. If it is
 * killed, the message is handled again when the other host repeats it. So these functions post the
 * events first, then end this host's repetitions, and store the state last.
 */

/* Sends a refusal to an end that has no id here. */
static void send_refusal(const struct cm_place *from, uint32_t owner, const struct cm_refused *r)
{
	struct mad m = {.type = r->ud ? MAD_SIDR_REP : MAD_REJ,
		.tid = r->there,
		.remote = r->there,
		.status = (uint16_t)r->status,
		.param = r->param};

	remote_emit(from, owner, r->gid, &m);
}

/*
 * Returns the id to which an answer belongs, or NULL. The answer contains the number of the id, and
 * must come from the id's other end.
 */
static struct cm_id *addressed(const struct flow *f, const struct mad *m)
{
	struct cm_id *id = cm_at(m->remote % MAX_CM_IDS);

	if (!m->remote || cm_index(id) >= arena()->cm_high || !id->used ||
		id->away.here != m->remote)
		return NULL;
	if (memcmp(id->away.gid, f->src, sizeof(f->src)) ||
		(id->away.there && m->local && id->away.there != m->local))
		return NULL;
	return id;
}

/*
 * Returns the id that was made for an earlier request with the communication id @there of the other
 * end, or NULL.
 */
static struct cm_id *of_request(const struct flow *f, uint32_t there)
{
	for (uint32_t i = FIRST_CM_ID; i < arena()->cm_high; i++) {
		struct cm_id *id = cm_at(i);

		if (id->used && remote_is_passive(id) && id->away.there == there &&
			!memcmp(id->away.gid, f->src, sizeof(f->src)))
			return id;
	}
	return NULL;
}

static bool was_refused(const struct flow *f, const struct cm_place *at, const struct mad *m)
{
	for (uint32_t i = 0; i < MAX_CM_REFUSED; i++) {
		const struct cm_refused *r = &arena()->cm_refused[i];

		if (r->there != m->local || memcmp(r->gid, f->src, sizeof(r->gid)))
			continue;
		send_refusal(at, fabric_self.slot, r);
		return true;
	}
	return false;
}

static void refuse_request(const struct flow *f, const struct cm_place *at, const struct mad *m,
	int rej, int sidr)
{
	bool ud = m->type == MAD_SIDR_REQ;
	struct cm_refused r = {.there = m->local, .ud = ud, .status = (uint32_t)(ud ? sidr : rej)};

	memcpy(r.gid, f->src, sizeof(r.gid));
	send_refusal(at, fabric_self.slot, &r);
}

/* Makes an id for a request to @listener. Returns NULL if there is no room. */
static struct cm_id *make(const struct flow *f, const struct cm_place *at, const struct mad *m,
	const struct cm_id *listener)
{
	struct cm_id *id = cm_alloc_request(listener);
	struct remote_path path = {.mtu = m->mtu};

	if (!id)
		return NULL;
	memcpy(path.gid, f->src, sizeof(path.gid));
	id->rail = at->rail;
	id->gid = at->gid;
	id->src = m->dst;
	id->dst = m->src;
	id->tos = m->traffic_class;
	id->remote = m->param;
	id->state = cm_is_ud(id) ? CM_SIDR_RCVD : CM_REQ_RCVD;
	remote_begin(id, &path);
	id->away.there = m->local;
	return id;
}

/* Answers a repeated request by sending the reply again, if there has been a reply. */
static void repeated(struct cm_id *id)
{
	if (id->state == CM_REP_SENT)
		remote_send(id, MAD_REP, 0);
	else if (id->state == CM_SIDR_DONE)
		remote_send(id, MAD_SIDR_REP, 0);
}

static void on_request(const struct flow *f, const struct cm_place *at, const struct mad *m)
{
	struct cm_id *id = of_request(f, m->local), *listener;
	bool ud = m->type == MAD_SIDR_REQ;

	if (was_refused(f, at, m)) /* even if the program has not destroyed the id yet */
		return;
	if (id && id->state == CM_ENDED && !ud) {
		/* A new request: the other host uses the number again. */
		refuse_request(f, at, m, CM_REJ_STALE, 0);
		return;
	}
	if (id) {
		repeated(id);
		return;
	}
	listener = cm_live_listener((uint32_t)(m->service >> 16), &m->dst);
	if (!listener || cm_is_ud(listener) != ud) {
		refuse_request(f, at, m, CM_REJ_NO_SERVICE, CM_SIDR_UNSUPPORTED);
		return;
	}
	if (!ud && (!m->mtu || m->mtu > port_mtu_code(rail_at(at->rail)->mtu))) {
		refuse_request(f, at, m, CM_REJ_MTU, 0);
		return;
	}
	id = m->transport == RC && cm_unread(listener) < listener->backlog ?
		     make(f, at, m, listener) :
		     NULL;
	if (!id) {
		refuse_request(f, at, m, CM_REJ_CONSUMER, CM_SIDR_REJECT);
		return;
	}
	cm_tell(id, CM_EV_CONNECT_REQUEST, 0, true); /* before cm_publish(), as in cm_connect() */
	cm_publish(id);
}

static void on_reply(struct cm_id *id, const struct mad *m)
{
	if (id->state == CM_ESTABLISHED) {
		remote_send(id, MAD_RTU, 0); /* the first one was lost */
		return;
	}
	if (id->state != CM_REQ_SENT)
		return;
	id->away.there = m->local;
	id->remote = m->param;
	cm_tell(id, CM_EV_CONNECT_RESPONSE, 0, true);
	remote_stop(id);
	id->state = CM_REP_RCVD;
}

static void on_datagram_reply(struct cm_id *id, const struct mad *m)
{
	if (id->state != CM_SIDR_SENT)
		return;
	id->remote = m->param;
	cm_tell(id, m->status ? CM_EV_UNREACHABLE : CM_EV_ESTABLISHED, m->status, true);
	remote_stop(id);
	id->state = m->status ? CM_ENDED : CM_SIDR_DONE;
}

/*
 * If the other end withdraws its request, the program gets no event of that: it finds out when it
 * accepts. A request that it has not read yet is not freed (cm_free()). An established id is
 * rejected, too, if the other end was destroyed before the acknowledgement of its reply arrived.
 */
static void on_rejection(struct cm_id *id, const struct mad *m)
{
	bool withdrawn = id->state == CM_REQ_RCVD, established = id->state == CM_ESTABLISHED;

	if (id->state != CM_REQ_SENT && id->state != CM_REQ_RCVD && id->state != CM_REP_SENT &&
		id->state != CM_REP_RCVD && !established)
		return;
	if (!withdrawn) {
		id->remote = m->param;
		cm_tell(id, CM_EV_REJECTED, m->status, true);
	}
	if (established)
		cm_post(id, CM_EV_TIMEWAIT_EXIT, 0, false);
	remote_stop(id);
	id->state = CM_ENDED;
}

static void on_end(struct cm_id *id)
{
	if (id->away.gone)
		cm_free(id);
	else
		cm_end_connection(id);
}

static void on_disconnect(struct cm_id *id)
{
	if (id->state == CM_REP_SENT)
		cm_answered(id); /* the other end has accepted the reply */
	switch (id->state) {
	case CM_ESTABLISHED:
		cm_tell(id, CM_EV_DISCONNECTED, 0, false);
		id->state = CM_DREQ_RCVD;
		break;
	case CM_DREQ_SENT: /* both ends disconnect */
		remote_send(id, MAD_DREP, 0);
		on_end(id);
		break;
	case CM_ENDED:
		remote_send(id, MAD_DREP, 0);
		break;
	default: /* the program has not disconnected yet */
		break;
	}
}

/* Answers an end that waits for an id that does not exist any more. */
static void on_stranger(const struct flow *f, const struct cm_place *at, const struct mad *m)
{
	struct mad answer = {.tid = m->tid, .local = m->remote, .remote = m->local};

	if (m->type == MAD_DREQ) {
		answer.type = MAD_DREP;
	} else if (m->type == MAD_REP) {
		answer.type = MAD_REJ;
		answer.rejected = MAD_REJECTED_REP;
		answer.status = CM_REJ_INVALID_ID;
	} else {
		return;
	}
	remote_emit(at, fabric_self.slot, f->src, &answer);
}

static void on_message(const struct flow *f, const struct cm_place *at, const struct mad *m)
{
	struct cm_id *id = addressed(f, m);

	if (m->type == MAD_REQ || m->type == MAD_SIDR_REQ) {
		on_request(f, at, m);
		return;
	}
	if (!id && m->type == MAD_REJ && m->rejected == MAD_REJECTED_REQ)
		id = of_request(f, m->local); /* the request is withdrawn: there was no reply */
	if (!id)
		on_stranger(f, at, m);
	else if (m->type == MAD_REP)
		on_reply(id, m);
	else if (m->type == MAD_SIDR_REP)
		on_datagram_reply(id, m);
	else if (m->type == MAD_REJ)
		on_rejection(id, m);
	else if (m->type == MAD_DREQ)
		on_disconnect(id);
	else if (m->type == MAD_DREP && id->state == CM_DREQ_SENT)
		on_end(id);
	else if (m->type == MAD_RTU)
		cm_answered(id);
}

bool remote_packet(const struct flow *f, const struct packet *p, const uint8_t *payload)
{
	struct udp_end to = {.owner = fabric_self.slot, .qpn = MAD_QPN, .peer_qpn = p->src_qpn};
	struct cm_place at;
	struct mad m;

	if (!cm_gid_place(f->dst, &at) || !rail_at(at.rail)->udp ||
		arena()->rails[at.rail].link_down)
		return false;
	if (p->opcode != (PT_UD | PO_SEND_ONLY) || p->qkey != MAD_QKEY || p->src_qpn != MAD_QPN ||
		!packet_pkeys_match(p->pkey, rail_at(at.rail)->pkeys[0]) ||
		mad_decode(payload, p->payload, &m))
		return false;
	to.rail = at.rail;
	wired_received(&to, f, p, payload);
	on_message(f, &at, &m);
	return true;
}
