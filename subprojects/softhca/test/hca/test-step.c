/* SPDX-License-Identifier: MIT */
/* Step mode: nothing happens until the program calls softhca_step(). */
#include <errno.h>

#include "rig.h"
#include "softhca.h"

static struct rig a, b;

TEST(in_steps)
{
	CHECK_EQ(softhca_step(), -ENODEV);
	rig_open_pair(&a, NULL, &b, &(struct rig_attr){.events = true});
	CHECK_EQ(softhca_step(), 0);
	CHECK(!ibv_req_notify_cq(b.rcq, 0));
	rig_recv(&b, 1, 0, 64);
	for (uint32_t i = 0; i < 3; i++) {
		rig_fill(a.buf, 64, i);
		rig_post(&a, &(struct rig_wr){.id = i,
				     .op = IBV_WR_SEND,
				     .flags = IBV_SEND_SIGNALED,
				     .len = 64});
	}
	rig_idle(a.scq);
	rig_idle(b.rcq);
	/* Handles the arm and the send queue; the second message waits for a receive. */
	CHECK(softhca_step() >= 1);
	CHECK_EQ(rig_wait_ok(a.scq).wr_id, 0);
	CHECK_EQ(rig_wait_ok(b.rcq).wr_id, 1);
	CHECK(rig_same(b.buf, 64, 2)); /* the source as it was when the message was executed */
	rig_idle(a.scq);
	rig_recv(&b, 2, 0, 64);
	rig_recv(&b, 3, 0, 64);
	rig_idle(b.rcq);
	do
		softhca_step();
	while (ibv_poll_cq(b.rcq, 1, &(struct ibv_wc){0}) == 0);
	CHECK_EQ(rig_wait_ok(b.rcq).wr_id, 3);
	CHECK_EQ(rig_wait_ok(a.scq).wr_id, 1);
	CHECK_EQ(rig_wait_ok(a.scq).wr_id, 2);
}

FABRIC_MAIN("step", "SOFTHCA_MODE=step");
