/* SPDX-License-Identifier: MIT */
/*
 * Messages that find no receive are repeated by the HCA's thread, which holds the fabric's mutex
 * meanwhile. Commands and the arming of a CQ need the mutex, too.
 */
#include "rig.h"

#define QPS 200
#define COMMANDS 20 /* each makes a QP and destroys it */
#define REFUSALS_MAX 100000 /* refusals during all commands; usually about 5,000 */

static struct rig a, b;
static struct rig from[QPS], to[QPS]; /* a and b with other QPs */

/*
 * Counts the refusals of messages during commands. If the thread did not pause after a few refusals
 * in a row, it would repeat all messages while it holds the mutex, and often take the mutex again
 * before the waiting command does. Then there would be millions of refusals.
 */
TEST(do_not_keep_the_mutex)
{
	uint64_t before;

	rig_open_fan(&a, &b, from, to, QPS);
	for (uint32_t i = 0; i < QPS; i++)
		rig_post(&from[i], &(struct rig_wr){.op = IBV_WR_SEND, .len = 8});
	while (rig_counters().rnr_naks < 2 * QPS)
		sched_yield();
	before = rig_counters().rnr_naks;
	for (int i = 0; i < COMMANDS; i++) {
		CHECK(!ibv_destroy_qp(rig_qp(&a)));
		CHECK(rig_counters().rnr_naks - before < REFUSALS_MAX);
	}
	for (uint32_t i = 0; i < QPS; i++)
		CHECK(!ibv_destroy_qp(from[i].qp) && !ibv_destroy_qp(to[i].qp));
}

FABRIC_MAIN("refused", "SOFTHCA_MODE=trap");
