/* SPDX-License-Identifier: MIT */
/* Functions that all forms of statistics use. */
#ifndef TENT_STATS_H
#define TENT_STATS_H

#include "engine.h"

/* The engine's lock is held. */
void stats_rail(const struct tent_segment *s, uint32_t pair, struct tent_rail_stats *stats_p);

/* Writes the output of put(), which has the lock. 0, -ENOMEM, -errno of the stream. */
int stats_write(struct tent *t, FILE *out, void (*put)(struct tent *t, FILE *f));

#endif
