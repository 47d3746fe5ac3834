/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched_priv.h"

#define MAX_REQUESTS (1u << 16)
#define MAX_SLICES (1u << 20)
#define PROBE_TIMEOUT_NS 2000000ull

static bool rails_fit(const struct sched_attr *a)
{
	for (uint32_t r = 0; r < a->n_rails; r++) {
		const struct sched_rail_attr *rail = &a->rails[r];

		if (!(rail->rate > 0) || !isfinite(rail->rate))
			return false;
		if (rail->stall_min_ns > SCHED_STALL_MAX_NS && rail->stall_min_ns != SCHED_NEVER)
			return false;
		if (rail->group != SCHED_NO_GROUP && rail->group >= a->n_groups)
			return false;
	}
	for (uint32_t i = 0; i < a->n_rails * a->n_locations; i++) {
		if (a->tiers[i] >= TENT_TIERS)
			return false;
	}
	for (uint32_t g = 0; g < a->n_groups; g++) {
		if (!(a->group_rates[g] >= 0) || !isfinite(a->group_rates[g]))
			return false;
	}
	return true;
}

static bool attr_fits(const struct sched_attr *a)
{
	if (!a->n_rails || a->n_rails > SCHED_MAX_RAILS || !a->n_locations ||
		a->n_locations > SCHED_MAX_LOCATIONS || a->n_groups > SCHED_MAX_GROUPS ||
		!a->wake_ns != !a->most_awake || a->max_requests > MAX_REQUESTS ||
		a->max_slices > MAX_SLICES)
		return false;
	return rails_fit(a);
}

static void init_lists(struct sched *s)
{
	const struct list empty = {NO_SLICE, NO_SLICE};

	for (uint32_t r = 0; r < s->n_rails; r++)
		s->posted[r] = empty;
	for (uint32_t i = 0; i < SCHED_PRIORITIES * s->n_rails; i++)
		s->bound[i] = empty;
	s->ended_head = s->ended_tail = SLAB_NONE;
}

static void init_location(struct sched *s, uint32_t l, const uint8_t *tiers)
{
	const struct list empty = {NO_SLICE, NO_SLICE};

	memcpy(&s->tiers[l * s->n_rails], tiers, s->n_rails);
	s->best_tier[l] = TENT_TIERS;
	for (uint32_t r = 0; r < s->n_rails; r++) {
		if (tiers[r] < s->best_tier[l])
			s->best_tier[l] = tiers[r];
	}
	for (uint32_t p = 0; p < SCHED_PRIORITIES; p++)
		*sched_queue(s, l, p) = (struct queue){SLAB_NONE, empty, 0};
	s->no_rail_at[l] = SCHED_NEVER;
}

/* Makes an array longer. If no memory is left, sets *ok_p to false and returns the old array. */
static void *longer(void *array, size_t n, size_t size, bool *ok_p)
{
	void *p = realloc(array, n * size);

	*ok_p &= p != NULL;
	return p ? p : array;
}

int sched_add_locations(struct sched *s, const uint8_t *tiers, uint32_t n)
{
	uint32_t all = s->n_locations + n;
	bool ok = true;

	if (!n || all > SCHED_MAX_LOCATIONS)
		return -EINVAL;
	s->tiers = longer(s->tiers, all, s->n_rails, &ok);
	s->best_tier = longer(s->best_tier, all, sizeof(*s->best_tier), &ok);
	s->queues = longer(s->queues, all, SCHED_PRIORITIES * sizeof(*s->queues), &ok);
	s->no_rail_at = longer(s->no_rail_at, all, sizeof(*s->no_rail_at), &ok);
	if (!ok)
		return -ENOMEM;
	for (uint32_t l = 0; l < n; l++)
		init_location(s, s->n_locations + l, tiers + l * s->n_rails);
	s->n_locations = all;
	return 0;
}

static bool allocate(struct sched *s, const struct sched_attr *a)
{
	uint32_t requests = a->max_requests ? a->max_requests : 64;
	uint32_t slices = a->max_slices ? a->max_slices : 4096;

	s->rails = calloc(a->n_rails, sizeof(*s->rails));
	s->posted = calloc(a->n_rails, sizeof(*s->posted));
	s->bound = calloc(SCHED_PRIORITIES * a->n_rails, sizeof(*s->bound));
	s->slices = calloc(slices, sizeof(*s->slices));
	s->requests = calloc(requests, sizeof(*s->requests));
	return s->rails && s->posted && s->bound && s->slices && s->requests &&
	       !sched_add_locations(s, a->tiers, a->n_locations) &&
	       !slab_init(&s->slice_ids, slices) && !slab_init(&s->request_ids, requests);
}

int sched_create(const struct sched_attr *attr, struct sched **s_p)
{
	struct sched *s;

	if (!attr_fits(attr))
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->config = *attr->config;
	s->ops = attr->ops;
	s->arg = attr->arg;
	s->n_rails = attr->n_rails;
	s->n_groups = attr->n_groups;
	s->random = attr->seed;
	s->first_open_ns = attr->first_open_ns;
	s->wake_ns = attr->wake_ns;
	s->most_awake = attr->most_awake;
	s->no_rail_ns = attr->no_rail_ns;
	s->probe_timeout_ns = attr->probe_timeout_ns ? attr->probe_timeout_ns : PROBE_TIMEOUT_NS;
	if (!allocate(s, attr)) {
		sched_destroy(s);
		return -ENOMEM;
	}
	if (attr->n_groups)
		memcpy(s->group_rates, attr->group_rates, attr->n_groups * sizeof(*s->group_rates));
	init_lists(s);
	for (uint32_t r = 0; r < s->n_rails; r++) {
		rail_init(&s->rails[r], &attr->rails[r]);
		rail_begin(&s->rails[r], attr->first_open_ns != 0);
		s->n_up += s->rails[r].state == RAIL_UP;
		s->n_timed += s->rails[r].stall_min_ns != SCHED_NEVER;
		s->link_rates += attr->rails[r].rate;
	}
	*s_p = s;
	return 0;
}

void sched_destroy(struct sched *s)
{
	if (!s)
		return;
	slab_fini(&s->slice_ids);
	slab_fini(&s->request_ids);
	free(s->tiers);
	free(s->best_tier);
	free(s->rails);
	free(s->posted);
	free(s->bound);
	free(s->queues);
	free(s->no_rail_at);
	free(s->slices);
	free(s->requests);
	free(s);
}
