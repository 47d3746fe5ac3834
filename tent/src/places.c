/* SPDX-License-Identifier: MIT */
#include "places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

void place_sets_init(struct place_sets *sets, uint32_t max)
{
	static const uint8_t unknown[TENT_MAX_RAILS];

	sets->n = 1;
	sets->max = max;
	sets->tiers[0] = unknown;
}

uint32_t place_set(struct place_sets *sets, const uint8_t *tiers)
{
	uint32_t i = 0;

	while (i < sets->n && memcmp(sets->tiers[i], tiers, TENT_MAX_RAILS))
		i++;
	if (i == sets->max)
		return 0;
	if (i == sets->n)
		sets->tiers[sets->n++] = tiers;
	return i;
}

static uint8_t farther(uint8_t a, uint8_t b)
{
	return a > b ? a : b;
}

int places_init(struct tent_segment *s, uint8_t **tiers_p)
{
	const struct topo *topo = &s->t->topo;
	struct place_sets sets;
	uint8_t *tiers;

	place_sets_init(&sets, SCHED_MAX_LOCATIONS / topo->n_locations);
	s->tier_sets = calloc(s->desc.n_buffers + 1, sizeof(*s->tier_sets));
	if (!s->tier_sets)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->desc.n_buffers + s->desc.has_stage; i++)
		s->tier_sets[i] = place_set(&sets, s->desc.buffers[i].tiers);
	tiers = malloc((size_t)sets.n * topo->n_locations * s->n_pairs);
	if (!tiers)
		return -ENOMEM;
	for (uint32_t l = 0; l < sets.n * topo->n_locations; l++) {
		for (uint32_t i = 0; i < s->n_pairs; i++)
			tiers[l * s->n_pairs + i] =
				farther(topo->tiers[l % topo->n_locations][s->pairs[i].local],
					sets.tiers[l / topo->n_locations][s->pairs[i].remote]);
	}
	*tiers_p = tiers;
	return (int)(sets.n * topo->n_locations);
}

uint32_t place_of(const struct tent_segment *s, const struct buffer *b,
	const struct desc_buffer *remote)
{
	uint32_t set = s->tier_sets[remote - s->desc.buffers];

	return set * s->t->topo.n_locations + b->location;
}
