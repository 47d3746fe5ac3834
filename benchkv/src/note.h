/* SPDX-License-Identifier: MIT */
/* Writes the decisions of a control to its log. Must be called only if the control has a log. */
#ifndef BENCHKV_NOTE_H
#define BENCHKV_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "decision.h"

struct control;
struct control_load;
struct control_polls;

/* Notes the polls of a loop. */
void note_polls(struct control *c, const struct control_polls *p);

/* Notes that an endpoint is flushed or must wait. */
void note_flush(struct control *c, const struct control_load *load, uint64_t age_ns,
	uint32_t unconsumed, enum decision_reason why);

/* Notes that `held` replies, the oldest of which has waited for age_ns, are released or kept. */
void note_hold(struct control *c, uint32_t held, uint64_t age_ns, uint32_t outstanding,
	bool released);

/* Notes that adaptive-budget has changed u from u_before, or has confirmed it. */
void note_budget(struct control *c, uint32_t u_before);

/* Notes the end of an epoch of little. */
void note_batching(struct control *c);

#endif
