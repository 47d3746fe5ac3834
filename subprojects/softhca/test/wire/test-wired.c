/* SPDX-License-Identifier: MIT */
/*
 * The queues of a QP whose peer is in another fabric, and the state that a process leaves in them
 * if it is killed. No packet is sent: the requests are NOPs.
 */
#include <endian.h>
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "abi/wire.h"
#include "check.h"
#include "fabric/reserve.h"
#include "fabric/tally.h"
#include "hca/event.h"
#include "hca/objects.h"
#include "member/member.h"
#include "xport/qp.h"
#include "xport/wired.h"
#include "xport/wired_ops.h"

#define LOG_SIZE 6
#define BLOCKS 64u
#define RECEIVES 2u

static struct cqe64 cqes[1 << LOG_SIZE];
static uint32_t cq_dbrec[2];
static uint8_t ring[BLOCKS][WQE_BLOCK] __attribute__((aligned(64)));
static uint32_t dbrec[2];
static struct wqe_data receives[RECEIVES];
static struct cq *cq;
static struct qp *qp;
static int events; /* reads the context's events */

static void make_cq(void)
{
	uint32_t i = obj_alloc(OBJ_CQ, 0);

	CHECK((int32_t)i >= 0);
	cq = cq_at(i);
	cq->buf = (uintptr_t)cqes;
	cq->dbrec = (uintptr_t)cq_dbrec;
	cq->cqe_size = sizeof(struct cqe64);
	cq->log_size = LOG_SIZE;
	memset(cqes, 0xff, sizeof(cqes));
	obj_publish(OBJ_CQ, i);
}

static void make_qp(void)
{
	uint32_t i = obj_alloc(OBJ_QP, 0);

	CHECK((int32_t)i >= 0);
	qp = &arena()->qps[i];
	qp->qpn = i;
	qp->type = QPT_RC;
	qp->state = QPS_RTS;
	qp->srq = NO_INDEX;
	qp->send_cq = qp->recv_cq = cq_index(cq);
	qp->sq_buf = (uintptr_t)ring;
	qp->sq_count = BLOCKS;
	qp->dbrec = (uintptr_t)dbrec;
	memset(dbrec, 0, sizeof(dbrec));
	qp->wired = 1;
	arena()->on_wire[i / 64] |= UINT64_C(1) << i % 64;
	CHECK(!reserve(wired_of(qp), sizeof(struct wired)));
	memset(wired_of(qp), 0, sizeof(struct wired));
	wire_init(&wired_of(qp)->q, &(struct wire_attr){.mtu = 1024});
	obj_publish(OBJ_QP, i);
}

static void open_queues(void)
{
	make_cq();
	make_qp();
}

static void close_queues(void)
{
	wired_stop(qp);
	obj_retract(OBJ_QP, qp_index(qp));
	obj_retract(OBJ_CQ, cq_index(cq));
}

/* Writes a signaled NOP of @units into block @block. */
static void nop(uint32_t block, uint32_t units)
{
	struct wqe_ctrl c = {
		.opmod_idx_opcode = htobe32(block << 8),
		.qpn_ds = htobe32(qp->qpn << 8 | units),
		.fm_ce_se = CTRL_CQ_UPDATE,
	};

	memset(ring[block], 0, WQE_BLOCK);
	memcpy(ring[block], &c, sizeof(c));
}

static void post(uint32_t pi)
{
	dbrec[DBREC_SEND / sizeof(dbrec[0])] = htobe32(pi);
}

/* The syndrome of completion @n, SYN_NONE for a success. */
static enum syndrome status_of(uint32_t n)
{
	const uint8_t *bytes = (const uint8_t *)&cqes[n];

	CHECK(n < cq->producer);
	if (cqes[n].op_own >> 4 == CQE_REQ)
		return SYN_NONE;
	CHECK(cqes[n].op_own >> 4 == CQE_REQ_ERR || cqes[n].op_own >> 4 == CQE_RESP_ERR);
	return bytes[CQE_SYNDROME];
}

/* The number of a message wraps. */
TEST(last_number)
{
	struct wire_requester *r;

	open_queues();
	r = &wired_of(qp)->q.rq;
	r->done = r->begun = UINT32_MAX;
	nop(0, 1);
	nop(1, 5);
	nop(3, 1);
	post(4);
	wired_send(qp);
	CHECK_EQ(r->done, 2);
	CHECK_EQ(qp->sq_done, 4);
	CHECK_EQ(cq->producer, 3);
	for (uint32_t i = 0; i < 3; i++)
		CHECK_EQ(status_of(i), SYN_NONE);
	close_queues();
}

/* A request that reaches beyond the posted blocks fails. Nothing after it is flushed. */
TEST(longer_than_posted)
{
	open_queues();
	nop(0, 1);
	nop(1, 5);
	post(2);
	wired_send(qp);
	CHECK_EQ(qp->state, QPS_ERR);
	CHECK_EQ(cq->producer, 2);
	CHECK_EQ(status_of(0), SYN_NONE);
	CHECK_EQ(status_of(1), SYN_LOCAL_QP_OP);
	CHECK_EQ(qp->sq_done, 2);
	close_queues();
}

/* The counts of the protocol are added to the counters of the process and of the port once. */
TEST(counts)
{
	struct softhca_counters process;
	struct port_counts before, port;

	open_queues();
	tally_port(qp_rail(qp), &before);
	for (uint32_t i = 0; i < 2; i++) {
		if (!i)
			wired_of(qp)->q.counts = (struct wire_counts){1, 2, 3, 4, 5, 6, 7, 8};
		wired_send(qp);
		tally_process(qp->obj.owner, &process);
		tally_port(qp_rail(qp), &port);
		CHECK_EQ(port.writes, 1);
		CHECK_EQ(port.reads, 2);
		CHECK_EQ(port.atomics, 3);
		CHECK_EQ(port.no_receives - before.no_receives, 4);
		CHECK_EQ(process.rnr_naks, 5);
		CHECK_EQ(port.rnr_retries, 6);
		CHECK_EQ(process.retries, 7);
		CHECK_EQ(port.timeout_retries, 8);
	}
	close_queues();
}

/* A datagram from another host that finds no receive is counted. */
TEST(dropped_datagram)
{
	const struct packet p = {.opcode = PT_UD | PO_SEND_ONLY};
	const struct flow f = {.hop_limit = 1};
	struct port_counts before, after;

	open_queues();
	qp->type = QPT_UD;
	tally_port(qp_rail(qp), &before);
	wired_datagram(qp, &f, &p, NULL);
	tally_port(qp_rail(qp), &after);
	CHECK_EQ(after.no_receives, before.no_receives + 1);
	close_queues();
}

/* Opens queues with two posted requests, and a context that receives events. */
static void open_posted(void)
{
	uint32_t ctx = obj_alloc(OBJ_CTX, NO_INDEX);

	CHECK((int32_t)ctx >= 0);
	events = fifo_create(&ctx_at(ctx)->fifo);
	CHECK(events >= 0);
	obj_publish(OBJ_CTX, ctx);
	open_queues();
	qp->obj.ctx = ctx;
	nop(0, 1);
	nop(1, 1);
	post(2);
}

static void close_posted(void)
{
	uint32_t ctx = qp->obj.ctx;

	close_queues();
	fifo_remove(ctx_at(ctx)->fifo);
	obj_retract(OBJ_CTX, ctx);
	close(events);
}

/* The two requests are flushed, and the owner has got the event @type; -1: none. */
static void check_recovered(int type)
{
	struct ib_uverbs_async_event_desc e = {.event_type = UINT32_MAX};
	int bytes;

	wired_recover();
	CHECK_EQ(qp->state, QPS_ERR);
	CHECK_EQ(cq->producer, 2);
	CHECK_EQ(status_of(0), SYN_FLUSH);
	CHECK_EQ(status_of(1), SYN_FLUSH);
	CHECK(!ioctl(events, FIONREAD, &bytes));
	if (bytes)
		CHECK_EQ(read(events, &e, sizeof(e)), sizeof(e));
	CHECK_EQ((int)e.event_type, type);
	wired_recover(); /* once only */
	CHECK_EQ(cq->producer, 2);
	CHECK(!ioctl(events, FIONREAD, &bytes));
	CHECK_EQ(bytes, 0);
	close_posted();
}

/*
 * A process was killed after it had stored that a message fails or is refused, and before the QP
 * was in ERR.
 */
TEST(killed_in_failure)
{
	open_posted();
	wired_of(qp)->q.rq.failed = 1;
	check_recovered(-1);
}

TEST(killed_in_bad_request)
{
	open_posted();
	wired_of(qp)->bad = SYN_LOCAL_QP_OP;
	check_recovered(-1);
}

TEST(killed_in_refusal)
{
	open_posted();
	wired_of(qp)->q.rs.refused = AETH_NAK_ACCESS;
	check_recovered(EV_QP_ACCESS_ERR);
}

/* Posts two receives whose key is not valid. */
static void post_receives(void)
{
	for (uint32_t i = 0; i < RECEIVES; i++)
		receives[i] = (struct wqe_data){.bytes = htobe32(8), .lkey = htobe32(8)};
	qp->rq_buf = (uintptr_t)receives;
	qp->rq_count = RECEIVES;
	qp->rq_shift = 4;
	dbrec[DBREC_RECV / sizeof(dbrec[0])] = htobe32(RECEIVES);
}

/* A process was killed after it had completed a receive with an error. */
TEST(killed_in_receive)
{
	struct call c;

	open_posted();
	post_receives();
	c = (struct call){.qp = qp, .wd = wired_of(qp)};
	CHECK_EQ(wired_recv_place(&c, 0, "x", 1), -EFAULT);
	CHECK_EQ(cq->producer, 1);
	CHECK_EQ(status_of(0), SYN_LOCAL_PROT);
	CHECK_EQ(qp->state, QPS_RTS);
	wired_recover();
	qp_recover();
	CHECK_EQ(qp->state, QPS_ERR);
	CHECK_EQ(cq->producer, 4);
	for (uint32_t i = 1; i < 4; i++)
		CHECK_EQ(status_of(i), SYN_FLUSH);
	close_posted();
}

/* A QP without such an end goes on. */
TEST(killed_elsewhere)
{
	open_posted();
	wired_recover();
	qp_recover();
	CHECK_EQ(qp->state, QPS_RTS);
	close_posted();
}

int main(int argc, char **argv)
{
	sigset_t saved;
	int status;

	test_fabric("wired");
	CHECK(!member_attach());
	CHECK(!fabric_enter(&saved));
	status = test_main(argc, argv);
	fabric_leave(&saved);
	member_detach();
	return status;
}
