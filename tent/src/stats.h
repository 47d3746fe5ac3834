/* SPDX-License-Identifier: MIT */
/* Functions that all forms of statistics use. */
#ifndef TENT_STATS_H
#define TENT_STATS_H

#include "engine.h"

/* The caller must hold the engine's lock. */
void stats_rail(const struct tent_segment *s, uint32_t pair, struct tent_rail_stats *stats_p);

/*
 * Calls @put with the lock held, and writes its output. 0; -ENOMEM, also if @put wrote nothing;
 * -errno of the stream.
 */
int stats_write(struct tent *t, FILE *out, void (*put)(struct tent *t, FILE *f));

#endif
