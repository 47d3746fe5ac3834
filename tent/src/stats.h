/* SPDX-License-Identifier: MIT */
/* What the forms of statistics share. */
#ifndef TENT_STATS_H
#define TENT_STATS_H

#include "engine.h"

/* The engine's lock is held. */
void stats_rail(const struct tent_segment *s, uint32_t pair, struct tent_rail_stats *stats_p);

/* Writes what put() writes, which is called with the lock held. 0, -ENOMEM, -errno of the stream. */
int stats_write(struct tent *t, FILE *out, void (*put)(struct tent *t, FILE *f));

#endif
