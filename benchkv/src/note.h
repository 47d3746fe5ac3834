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

/* A loop has ended its polls. */
void note_polls(struct control *c, const struct control_polls *p);

/* An endpoint is flushed or must wait. */
void note_flush(struct control *c, const struct control_load *load, uint64_t age_ns,
	uint32_t unconsumed, enum decision_reason why);

/* `held` replies, of which the oldest has waited for age_ns, are released or kept. */
void note_hold(struct control *c, uint32_t held, uint64_t age_ns, uint32_t outstanding,
	bool released);

/* adaptive-budget has set u, which was u_before. */
void note_budget(struct control *c, uint32_t u_before);

/* An epoch of little has ended. */
void note_batching(struct control *c);

#endif
