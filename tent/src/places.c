/* SPDX-License-Identifier: MIT */
#include "places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

void place_sets_init(struct place_sets *sets, uint32_t max)
{
	sets->n = 1;
	sets->max = max;
	memset(sets->tiers[0], 0, TENT_MAX_RAILS);
}

uint32_t place_set(struct place_sets *sets, const uint8_t *tiers)
{
	uint32_t i = 0;

	while (i < sets->n && memcmp(sets->tiers[i], tiers, TENT_MAX_RAILS))
		i++;
	if (i == sets->max)
		return 0;
	if (i == sets->n)
		memcpy(sets->tiers[sets->n++], tiers, TENT_MAX_RAILS);
	return i;
}

static uint8_t farther(uint8_t a, uint8_t b)
{
	return a > b ? a : b;
}

/* Returns the tiers of all places whose set has the number @first or a higher one, in the order of
 * places_init(). NULL: no memory is left. */
static uint8_t *tiers_from(const struct tent_segment *s, uint32_t first)
{
	const struct topo *topo = &s->t->topo;
	uint32_t n = (s->sets.n - first) * topo->n_locations;
	uint8_t *tiers = malloc((size_t)n * s->n_pairs);

	for (uint32_t l = 0; l < n && tiers; l++) {
		const uint8_t *here = topo->tiers[l % topo->n_locations];
		const uint8_t *there = s->sets.tiers[first + l / topo->n_locations];

		for (uint32_t i = 0; i < s->n_pairs; i++)
			tiers[l * s->n_pairs + i] =
				farther(here[s->pairs[i].local], there[s->pairs[i].remote]);
	}
	return tiers;
}

int places_init(struct tent_segment *s, uint8_t **tiers_p)
{
	place_sets_init(&s->sets, SCHED_MAX_LOCATIONS / s->t->topo.n_locations);
	for (uint32_t i = 0; i < s->desc.n_buffers; i++)
		s->desc.buffers[i]->lent.set = place_set(&s->sets, s->desc.buffers[i]->tiers);
	if (s->desc.stage)
		s->desc.stage->lent.set = place_set(&s->sets, s->desc.stage->tiers);
	*tiers_p = tiers_from(s, 0);
	return *tiers_p ? (int)(s->sets.n * s->t->topo.n_locations) : -ENOMEM;
}

/* If the new set cannot be allocated, the buffer is in set 0. */
void places_add(struct tent_segment *s, struct desc_buffer *b)
{
	uint32_t n = s->sets.n;
	uint8_t *tiers;

	b->lent.set = place_set(&s->sets, b->tiers);
	if (s->sets.n == n)
		return;
	tiers = tiers_from(s, n);
	if (!tiers || sched_add_locations(s->sched, tiers, s->t->topo.n_locations)) {
		s->sets.n = n;
		b->lent.set = 0;
	}
	free(tiers);
}

uint32_t place_of(const struct tent_segment *s, const struct buffer *b,
	const struct desc_buffer *remote)
{
	return remote->lent.set * s->t->topo.n_locations + b->location;
}
