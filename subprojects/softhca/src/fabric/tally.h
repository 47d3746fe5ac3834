/* SPDX-License-Identifier: MIT */
/*
 * Each context has counts of its own: the part of its messages in the counters of its process and
 * of its port. A thread that executes a message holds the lane of both contexts, so it adds to
 * counts that no other thread uses. The caller of the functions in tally.c must hold the mutex.
 */
#ifndef SOFTHCA_FABRIC_TALLY_H
#define SOFTHCA_FABRIC_TALLY_H

#include "fabric/fabric.h"

static inline struct tally *tally_of(const struct obj *o)
{
	return &arena()->tallies[o->ctx];
}

/* Gets the counters of the process of @slot, or of the port of @rail, with all their contexts. */
void tally_process(uint32_t slot, struct softhca_counters *out);
void tally_port(uint32_t rail, struct port_counts *out);

#endif
