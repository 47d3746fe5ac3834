/* SPDX-License-Identifier: MIT */
#include "capture/capture.h"
#include "cm/cm.h"
#include "cm/ids.h"
#include "fabric/fabric.h"
#include "hca/cq.h"
#include "hca/journal.h"
#include "xport/free.h"
#include "xport/qp.h"
#include "xport/recv.h"
#include "xport/wired.h"

static void replay_lane(struct lane *l)
{
	journal_replay(&l->journal);
	cq_flush_runs(l->comp_queues);
}

static void replay(void)
{
	replay_lane(&arena()->whole);
	for (uint32_t i = 0; i < arena()->lanes_high; i++)
		replay_lane(&arena()->lanes[i]);
}

static void recover(void)
{
	cm_recover();
	recv_recover();
	wired_recover();
	qp_recover();
}

/*
 * Fails the QPs. Recomputes the reference counts, because the process may have been stopped in the
 * middle of a command.
 */
static void fail(uint32_t slot, uint64_t lost)
{
	qp_fail_owned(slot, lost);
	objects_recount(slot);
}

static void reap(uint32_t slot)
{
	cm_reap(slot);
	objects_reap(slot);
	capture_leave(slot);
}

const struct fabric_hooks fabric_hooks = {
	.replay = replay,
	.recover = recover,
	.fail = fail,
	.reap = reap,
	.flush = cq_flush_runs,
};
