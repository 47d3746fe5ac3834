/* SPDX-License-Identifier: MIT */
#include "fabric/tally.h"

/* All members of both kinds of counters are 64-bit words. */
static void add(void *sum, const void *part, size_t bytes)
{
	const uint64_t *from = (const uint64_t *)part;
	uint64_t *to = (uint64_t *)sum;

	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		to[i] += from[i];
}

void tally_process(uint32_t slot, struct softhca_counters *out)
{
	const struct arena *a = arena();

	*out = a->procs[slot].counters;
	for (uint32_t i = 0; i < a->high[OBJ_CTX]; i++)
		if (a->ctxs[i].obj.used && a->ctxs[i].obj.owner == slot)
			add(out, &a->tallies[i].process, sizeof(*out));
}

void tally_port(uint32_t rail, struct port_counts *out)
{
	const struct arena *a = arena();

	*out = a->rails[rail].counts;
	for (uint32_t i = 0; i < a->high[OBJ_CTX]; i++)
		if (a->ctxs[i].obj.used && a->ctxs[i].rail == rail)
			add(out, &a->tallies[i].port, sizeof(*out));
}
