/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: the description of a peer's segment. An accepted description is within the limits of
 * desc.h. Written, read and written again, it is the same text.
 */
#include <string.h>

#include "support/fuzz.h"
#include "desc.h"
#include "transport.h"

static const char *const adapter_kinds[] = {"roce", "ib", NULL}, *const shm_kinds[] = {"shm", NULL};
static const struct transport adapters = {.kinds = adapter_kinds, .regions = true};
static const struct transport shm = {.kinds = shm_kinds};
const struct transport *const transports[] = {&shm, &adapters, NULL};

static void check_buffer(const struct desc *d, const struct desc_buffer *b)
{
	uint64_t sum = 0;

	must(b->id && b->fd >= -1 && b->len && b->n_parts && b->n_parts <= DESC_MAX_PARTS);
	must((b->n_parts - 1) * b->part_len < b->len && b->addr + b->len <= INT64_MAX);
	must(desc_find(d, b->addr, b->len) == b && desc_find(d, b->addr + b->len - 1, 1) == b);
	must(!desc_find(d, b->addr, b->len + 1) && desc_find(d, b->addr - 1, 1) != b);
	for (uint32_t i = 0; b->keys && i < d->n_rails * b->n_parts; i++)
		sum += b->keys[i]; /* the sanitizer checks the size */
	for (uint32_t i = 0; i < d->n_rails; i++)
		must(b->tiers[i] < TENT_TIERS);
	must(!b->keys == !d->transport->regions && sum + 1);
}

static char *written(const struct desc *d)
{
	char *text;

	must(!desc_write(d, &text));
	return text;
}

/* Pairs the peer's rails with the rails of an engine of the same kind. */
static void pair(const struct desc *d)
{
	static const struct rail_id local[] = {
		{.name = "mlx5_0", .kind = "roce", .gid = {[10] = 0xff, [11] = 0xff, [12] = 10}},
		{.name = "mlx5_1", .kind = "roce", .gid = {0xfe, 0x80}},
	};
	struct rail_pair pairs[TENT_MAX_RAILS];
	struct tent_why why;
	int n = pair_rails(local, 2, d->rails, d->n_rails, NULL, pairs, &why);

	for (int i = 0; i < n; i++)
		must(pairs[i].local < 2 && pairs[i].remote < d->n_rails);
}

/* Writes and reads a description of the memory alone, and removes its buffers one by one. */
static void check_memory(const struct desc *d)
{
	struct desc e;
	char *text;

	must(!desc_write_memory(d, &text) && !desc_read_memory(text, d, &e));
	must(e.n_buffers == d->n_buffers && !e.stage == !d->stage);
	while (e.n_buffers) {
		struct desc_buffer *b = e.buffers[e.n_buffers / 2];

		desc_remove(&e, b);
		must(desc_find(&e, b->addr, b->len) != b);
		desc_buffer_free(b);
	}
	desc_fini(&e);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *again;
	struct tent_why why = {""};
	struct desc d, e;

	if (!desc_read(text, &d, &why)) {
		must(d.port && d.pid > 0 && d.host[0] && d.n_rails && d.n_rails <= TENT_MAX_RAILS);
		for (uint32_t i = 0; i < d.n_buffers; i++)
			check_buffer(&d, d.buffers[i]);
		pair(&d);
		check_memory(&d);
		free(text);
		text = written(&d);
		must(!desc_read(text, &e, NULL));
		again = written(&e);
		must(!strcmp(text, again));
		free(again);
		desc_fini(&e);
		desc_fini(&d);
	} else {
		must(why.text[0] && !strchr(why.text, '\n'));
	}
	free(text);
	return 0;
}
