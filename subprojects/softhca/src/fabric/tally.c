/* SPDX-License-Identifier: MIT */
#include "fabric/tally.h"

/* struct softhca_counters and struct port_counts consist of 64-bit words. */
static void add(void *sum, const void *part, size_t bytes)
{
	const uint64_t *from = (const uint64_t *)part;
	uint64_t *to = (uint64_t *)sum;

	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		to[i] += from[i];
}

static void add_objects(const struct arena *a, uint32_t slot, struct softhca_counters *out)
{
	for (uint32_t i = 1; i < a->high[OBJ_CQ]; i++)
		if (a->cqs[i].obj.used && a->cqs[i].obj.owner == slot)
			out->cqes += a->cqs[i].cqes;
	for (uint32_t i = 1; i < a->high[OBJ_SRQ]; i++)
		if (a->srqs[i].obj.used && a->srqs[i].obj.owner == slot)
			out->recvs += a->srqs[i].recvs;
	for (uint32_t i = FIRST_QP_INDEX; i < a->high[OBJ_QP]; i++)
		if (a->qps[i].obj.used && a->qps[i].obj.owner == slot)
			out->recvs += a->qps[i].recvs;
}

void tally_process(uint32_t slot, struct softhca_counters *out)
{
	const struct arena *a = arena();

	*out = a->procs[slot].counters;
	for (uint32_t i = slot * PROC_LANES; i < (slot + 1) * PROC_LANES; i++)
		add(out, &a->tallies[i].process, sizeof(*out));
	add_objects(a, slot, out);
}

void tally_port(uint32_t rail, struct port_counts *out)
{
	const struct arena *a = arena();

	*out = a->rails[rail].counts;
	for (uint32_t i = 0; i < a->lanes_high; i++)
		add(out, &a->tallies[i].ports[rail], sizeof(*out));
}
