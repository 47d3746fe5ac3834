/* SPDX-License-Identifier: MIT */
#include "puts.h"

#include <errno.h>
#include <stdlib.h>

#include "stop.h"

#define BITMAP_KEYS (1u << 26) /* with a key range up to this a set has a bit for each key */

/* A set of keys: a bit for each key, or a hash table with open addressing of key + 1; 0: empty. */
struct seen {
	uint64_t *table, mask;
	bool bitmap;
};

static int seen_init(struct seen *s, uint64_t key_range, uint64_t most)
{
	uint64_t entries = pow2_ceil(2 * most + 1);

	s->bitmap = key_range <= BITMAP_KEYS;
	s->mask = entries - 1;
	s->table = calloc(s->bitmap ? key_range / 64 + 1 : entries, sizeof(*s->table));
	return s->table ? 0 : -ENOMEM;
}

/* Adds a key. True: the set did not contain it. */
static bool see(struct seen *s, uint32_t key)
{
	uint64_t entry = (uint64_t)key + 1, at = mix64(key) & s->mask;

	if (s->bitmap) {
		uint64_t *bits = &s->table[key / 64], before = *bits;

		*bits |= 1ull << key % 64;
		return *bits != before;
	}
	while (s->table[at] && s->table[at] != entry)
		at = (at + 1) & s->mask;
	if (s->table[at])
		return false;
	s->table[at] = entry;
	return true;
}

static uint64_t count_puts(const struct source *src, uint32_t client, uint64_t first, uint64_t end)
{
	uint64_t n = 0;

	for (uint64_t i = first; i < end && !stop_requested(); i++)
		n += source_op(src, client, i).put;
	return n;
}

int puts_last(const struct source *src, uint32_t client, uint64_t first, uint64_t end,
	uint64_t **ops_p, uint32_t *n_p)
{
	uint64_t puts = count_puts(src, client, first, end), keys = src->load.key_range;
	uint64_t most = puts < keys ? puts : keys;
	uint64_t *ops = calloc(most + 1, sizeof(*ops));
	struct seen seen;
	uint32_t n = 0;

	if (!ops || seen_init(&seen, keys, most)) {
		free(ops);
		return -ENOMEM;
	}
	for (uint64_t i = end; i-- > first && !stop_requested();) {
		struct op op = source_op(src, client, i);

		if (op.put && see(&seen, op.key))
			ops[n++] = i;
	}
	free(seen.table);
	if (stop_requested()) {
		free(ops);
		return -EINTR;
	}
	*ops_p = ops;
	*n_p = n;
	return 0;
}

/* Radix sort, eight bits at a time, the lowest first. @spare must have the size of @keys. */
static void sort_keys(uint32_t *keys, uint32_t *spare, uint32_t n)
{
	for (uint32_t shift = 0; shift < 32; shift += 8) {
		uint32_t at[257] = {0}, *from = keys;

		for (uint32_t i = 0; i < n; i++)
			at[(keys[i] >> shift & 255) + 1]++;
		for (uint32_t i = 0; i < 256; i++)
			at[i + 1] += at[i];
		for (uint32_t i = 0; i < n; i++)
			spare[at[keys[i] >> shift & 255]++] = keys[i];
		keys = spare;
		spare = from;
	}
}

int puts_count(const struct source *src, uint32_t client, uint64_t first, uint64_t end,
	uint32_t *n_p)
{
	uint32_t *keys = calloc(2 * (end - first) + 1, sizeof(*keys)), n = 0, distinct = 0;

	if (!keys)
		return -ENOMEM;
	for (uint64_t i = first; i < end && !stop_requested(); i++) {
		struct op op = source_op(src, client, i);

		if (op.put)
			keys[n++] = op.key;
	}
	sort_keys(keys, keys + n, n);
	for (uint32_t i = 0; i < n; i++)
		distinct += !i || keys[i] != keys[i - 1];
	free(keys);
	*n_p = distinct;
	return stop_requested() ? -EINTR : 0;
}
