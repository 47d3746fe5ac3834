/* SPDX-License-Identifier: MIT */
#include "puts.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t most_keys(const struct source *src, uint64_t ops)
{
	return ops < src->load.key_range ? ops : src->load.key_range;
}

/* Open addressing: keys + 1; 0 is an empty place. */
struct seen {
	uint64_t *table, mask;
};

/* True: it is a new one. */
static bool see(struct seen *s, uint32_t key)
{
	uint64_t at = mix64(key) & s->mask, entry = (uint64_t)key + 1;

	while (s->table[at] && s->table[at] != entry)
		at = (at + 1) & s->mask;
	if (s->table[at])
		return false;
	s->table[at] = entry;
	return true;
}

int puts_last(const struct source *src, uint32_t client, uint64_t first, uint64_t end,
	uint64_t **ops_p, uint32_t *n_p)
{
	uint64_t most = most_keys(src, end - first), entries = pow2_ceil(2 * most + 1);
	struct seen seen = {.table = calloc(entries, sizeof(*seen.table)), .mask = entries - 1};
	uint64_t *ops = calloc(most + 1, sizeof(*ops));
	uint32_t n = 0;

	if (!seen.table || !ops) {
		free(seen.table);
		free(ops);
		return -ENOMEM;
	}
	for (uint64_t i = end; i-- > first;) {
		struct op op = source_op(src, client, i);

		if (op.put && see(&seen, op.key))
			ops[n++] = i;
	}
	free(seen.table);
	*ops_p = ops;
	*n_p = n;
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int puts_count(const struct source *src, uint32_t client, uint64_t first, uint64_t end,
	uint32_t *n_p)
{
	uint32_t *keys = calloc(end - first + 1, sizeof(*keys)), n = 0, distinct = 0;

	if (!keys)
		return -ENOMEM;
	for (uint64_t i = first; i < end; i++) {
		struct op op = source_op(src, client, i);

		if (op.put)
			keys[n++] = op.key;
	}
	qsort(keys, n, sizeof(*keys), compare);
	for (uint32_t i = 0; i < n; i++)
		distinct += !i || keys[i] != keys[i - 1];
	free(keys);
	*n_p = distinct;
	return 0;
}
