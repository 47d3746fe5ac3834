/* SPDX-License-Identifier: MIT */
#include "fabric/fabric.h"
#include "hca/cq.h"
#include "hca/journal.h"
#include "xport/free.h"
#include "xport/qp.h"

const struct fabric_hooks fabric_hooks = {
	.replay = journal_replay,
	.recover = qp_recover,
	.reap = objects_reap,
	.release = cq_flush_runs,
};
