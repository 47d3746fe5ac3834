/* SPDX-License-Identifier: MIT */
#include "xport/complete.h"

#include <endian.h>
#include <string.h>

#include "hca/journal.h"
#include "hca/owed.h"
#include "xport/link.h"

static struct cqe64 send_cqe(const struct qp *qp, const struct wqe *w)
{
	return (struct cqe64){
		.uidx = htobe32(qp->uidx),
		.timestamp = htobe64(link_clock()),
		.sop_drop_qpn = htobe32((uint32_t)w->opcode << 24 | qp->qpn),
		.wqe_counter = htobe16((uint16_t)qp->sq_done),
		.op_own = CQE_REQ << 4,
	};
}

static void set_error(struct cqe64 *cqe, enum cqe_opcode op, enum syndrome s)
{
	uint8_t *bytes = (uint8_t *)cqe;

	bytes[CQE_VENDOR_SYNDROME] = 0;
	bytes[CQE_SYNDROME] = (uint8_t)s;
	cqe->op_own = (uint8_t)(op << 4);
}

/* Besides the stores @also, a step has those for a receive of an SRQ and for an owed completion. */
_Static_assert(WIRE_ARRIVAL_STORES + 3 <= JOURNAL_STORES && WIRE_STORES + 2 <= JOURNAL_STORES,
	"a step fits the journal");

static void add_stores(const struct wire_step *also)
{
	for (uint32_t i = 0; also && i < also->n; i++)
		journal_store(also->stores[i].at, also->stores[i].value);
}

static inline void send_done(struct qp *qp, const struct wqe *w, const struct wire_step *also)
{
	uint32_t end = qp->sq_done + wqe_blocks(w);
	struct cqe64 cqe;

	if (w->signaled)
		owed_room(qp, OWED_SEND);
	journal_begin();
	add_stores(also);
	if (w->signaled) {
		cqe = send_cqe(qp, w);
		if (w->opcode >= OP_READ)
			cqe.byte_cnt = htobe32((uint32_t)w->length);
		owed_add(qp, OWED_SEND, &cqe, end);
	}
	journal_store(&qp->sq_done, end);
	journal_commit();
}

void complete_send(struct qp *qp, const struct wqe *w)
{
	send_done(qp, w, NULL);
}

void complete_send_with(struct qp *qp, const struct wqe *w, const struct wire_step *also)
{
	send_done(qp, w, also);
}

void complete_send_error(struct qp *qp, const struct wqe *w, enum syndrome s)
{
	uint32_t end = qp->sq_done + wqe_blocks(w);
	struct cqe64 cqe = send_cqe(qp, w);

	set_error(&cqe, CQE_REQ_ERR, s);
	owed_room(qp, OWED_SEND);
	journal_begin();
	owed_add(qp, OWED_SEND, &cqe, end);
	journal_store(&qp->sq_done, end);
	journal_commit();
}

static struct cqe64 recv_cqe(const struct qp *qp, const struct recv *rx)
{
	return (struct cqe64){
		.uidx = htobe32(qp->uidx),
		.timestamp = htobe64(link_clock()),
		.sop_drop_qpn = htobe32(qp->qpn),
		.wqe_counter = htobe16((uint16_t)rx->index),
	};
}

static void commit_recv(struct qp *qp, const struct recv *rx, const struct cqe64 *cqe,
	const struct wire_step *also)
{
	bool begun = qp->recv_begun;

	owed_room(qp, OWED_RECV);
	journal_begin();
	add_stores(also);
	owed_add(qp, OWED_RECV, cqe, 0);
	recv_take(qp, rx);
	journal_commit();
	if (!begun)
		recv_taken(qp);
}

static void complete_message(struct qp *qp, const struct recv *rx, const struct qp *from,
	const struct wqe *w, uint32_t bytes, uint32_t flags)
{
	struct cqe64 cqe = recv_cqe(qp, rx);
	uint32_t op = CQE_RESP_SEND;

	if (w->opcode == OP_WRITE_IMM)
		op = CQE_RESP_WRITE_IMM;
	else if (w->opcode == OP_SEND_IMM)
		op = CQE_RESP_SEND_IMM;
	cqe.op_own = (uint8_t)(op << 4 | (w->solicited ? CQE_SOLICITED : 0));
	cqe.byte_cnt = htobe32(bytes);
	cqe.imm = w->opcode == OP_SEND ? 0 : w->imm;
	cqe.flags_rqpn = htobe32(from->qpn | flags);
	cqe.slid = htobe16(arena()->topo.rails[qp_rail(from)].lid);
	commit_recv(qp, rx, &cqe, NULL);
}

void complete_arrival(struct qp *qp, const struct recv *rx, const struct wire_arrival *a,
	uint32_t flags_qpn, const struct wire_step *also)
{
	struct cqe64 cqe = recv_cqe(qp, rx);
	uint32_t op = a->write   ? CQE_RESP_WRITE_IMM :
		      a->has_imm ? CQE_RESP_SEND_IMM :
				   CQE_RESP_SEND;

	cqe.op_own = (uint8_t)(op << 4 | (a->solicited ? CQE_SOLICITED : 0));
	cqe.byte_cnt = htobe32(a->length);
	cqe.imm = a->imm;
	cqe.flags_rqpn = htobe32(flags_qpn);
	commit_recv(qp, rx, &cqe, also);
}

void complete_recv(struct qp *qp, const struct recv *rx, const struct qp *from, const struct wqe *w,
	uint32_t bytes)
{
	complete_message(qp, rx, from, w, bytes, 0);
}

void complete_datagram(struct qp *qp, const struct recv *rx, const struct qp *from,
	const struct wqe *w, uint32_t flags)
{
	complete_message(qp, rx, from, w, (uint32_t)w->length + GRH_BYTES, flags);
}

void begin_recv(struct qp *qp, const struct recv *rx)
{
	journal_begin();
	recv_take(qp, rx);
	journal_store(&qp->recv_begun, 1 + rx->index);
	journal_commit();
	recv_taken(qp);
}

void lose_recv(struct qp *qp, const struct recv *rx)
{
	journal_begin();
	recv_take(qp, rx);
	journal_commit();
}

void complete_recv_error(struct qp *qp, const struct recv *rx, enum syndrome s)
{
	struct cqe64 cqe = recv_cqe(qp, rx);

	set_error(&cqe, CQE_RESP_ERR, s);
	commit_recv(qp, rx, &cqe, NULL);
}
