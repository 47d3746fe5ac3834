/* SPDX-License-Identifier: MIT */
/* QPs that wait for the receives of one shared queue get them in turn. */
#include <stdlib.h>
#include <time.h>

#include "rig.h"
#include "softhca.h"

#define QPS 8u
#define ROUNDS 3u
#define RNR_CODE 1 /* 10 us */
#define RNR_NS 10000u

static struct rig a, b;
static struct ibv_qp *from[QPS], *to[QPS];

/* @r with one of its other QPs. */
static struct rig with(const struct rig *r, struct ibv_qp *qp)
{
	struct rig view = *r;

	view.qp = qp;
	return view;
}

static struct ibv_qp *make_qp(struct rig *r, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {.send_cq = r->scq,
		.recv_cq = r->rcq,
		.srq = srq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp = ibv_create_qp(r->pd, &init);

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return qp;
}

static void connect_to(struct rig *r, struct ibv_qp *qp, struct rig *peer, struct ibv_qp *dest)
{
	struct rig here = with(r, qp), there = with(peer, dest);
	struct rig_addr addr = rig_addr(&there);

	rig_connect(&here, &addr,
		(struct rig_timers){.timeout = 10,
			.retry = 3,
			.rnr_retry = 7,
			.min_rnr = RNR_CODE,
			.set = true});
}

static void open_all(void)
{
	rig_open(&a, &(struct rig_attr){0});
	rig_open(&b, &(struct rig_attr){.srq = true});
	for (uint32_t i = 0; i < QPS; i++) {
		from[i] = make_qp(&a, NULL);
		to[i] = make_qp(&b, b.srq);
		connect_to(&a, from[i], &b, to[i]);
		connect_to(&b, to[i], &a, from[i]);
	}
}

static void close_all(void)
{
	for (uint32_t i = 0; i < QPS; i++)
		CHECK(!ibv_destroy_qp(from[i]) && !ibv_destroy_qp(to[i]));
	rig_close(&a);
	rig_close(&b);
}

static void send_one(uint32_t i)
{
	struct rig r = with(&a, from[i]);

	rig_post(&r,
		&(struct rig_wr){.id = i, .op = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .len = 8});
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Waits until the timers of all QPs have expired. No QP is served meanwhile (step mode). */
static void all_run_out(void)
{
	uint64_t until = now() + 2 * RNR_NS;

	while (now() < until)
		;
}

/*
 * Each QP has several messages, so a QP that got a receive waits again immediately, and its timer
 * is the first to expire. It would get every receive if receives went to the first timer that
 * expires.
 */
static void in_turn(void)
{
	open_all();
	for (uint32_t round = 0; round < ROUNDS; round++)
		for (uint32_t i = 0; i < QPS; i++)
			send_one(i);
	softhca_step();
	for (uint32_t n = 0; n < ROUNDS * QPS; n++) {
		all_run_out();
		rig_recv(&b, n, 0, 64);
		softhca_step();
		CHECK_EQ(rig_wait_ok(a.scq).wr_id, n % QPS);
		rig_idle(a.scq);
		rig_wait_ok(b.rcq);
	}
	close_all();
}

int main(void)
{
	rig_fabric("rnr");
	CHECK(!setenv("SOFTHCA_MODE", "step", 1));
	in_turn();
	return 0;
}
