/* SPDX-License-Identifier: MIT */
/* QPs that wait for the receives of one shared queue get them in turn. */
#include "rig.h"
#include "softhca.h"

#define QPS 8u
#define ROUNDS 3u
#define RNR_NS 10000u /* the RNR timer that rig_connect() sets */

static struct rig a, b;
static struct rig from[QPS], to[QPS]; /* a and b with other QPs */

static void close_all(void)
{
	for (uint32_t i = 0; i < QPS; i++)
		CHECK(!ibv_destroy_qp(from[i].qp) && !ibv_destroy_qp(to[i].qp));
}

/* Waits until the timers of all QPs have expired. In step mode no QP is served meanwhile. */
static void all_run_out(void)
{
	uint64_t until = test_now_ns() + 2 * RNR_NS;

	while (test_now_ns() < until)
		;
}

/*
 * Each QP has several messages, so a QP that got a receive waits again immediately, and its timer
 * is the first to expire. It would get every receive if a receive went to the QP whose timer expires
 * first.
 */
TEST(in_turn)
{
	rig_open_fan(&a, &b, from, to, QPS);
	for (uint32_t round = 0; round < ROUNDS; round++)
		for (uint32_t i = 0; i < QPS; i++)
			rig_post(&from[i], &(struct rig_wr){.id = i,
						   .op = IBV_WR_SEND,
						   .flags = IBV_SEND_SIGNALED,
						   .len = 8});
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

FABRIC_MAIN("rnr", "SOFTHCA_MODE=step");
