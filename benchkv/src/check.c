/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int check_init(struct checker *c, const struct stream *stream, uint32_t writers, uint32_t rank,
	uint32_t depth, uint64_t key_range, bool preloaded)
{
	uint32_t slots = (uint32_t)pow2_ceil(depth);

	*c = (struct checker){
		.stream = stream,
		.origin = stream->client,
		.writers = writers,
		.rank = rank,
		.slot_mask = slots - 1,
	};
	if (slab_init(&c->free, depth))
		return -ENOMEM;
	c->slots = calloc(slots, sizeof(*c->slots));
	if (!preloaded)
		c->written = calloc(key_range / 64 + 1, sizeof(*c->written));
	if (!c->slots || (!preloaded && !c->written)) {
		check_fini(c);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < slots; i++)
		c->slots[i].seq = i;
	return 0;
}

void check_fini(struct checker *c)
{
	slab_fini(&c->free);
	free(c->slots);
	free(c->written);
	c->slots = NULL;
	c->written = NULL;
}

void check_restart(struct checker *c)
{
	memset(&c->n, 0, sizeof(c->n));
	c->digest = 0;
	c->first_errno = 0;
}

static bool was_written(const struct checker *c, uint64_t key)
{
	return !c->written || (c->written[key / 64] >> key % 64 & 1);
}

void check_open(struct checker *c, uint64_t i, uint64_t now_ns, struct kv_req *req)
{
	const struct op *op = stream_at(c->stream, i);
	uint32_t id = slab_get(&c->free);
	struct check_slot *slot;

	assert(id != SLAB_NONE);
	slot = &c->slots[id];
	slot->seq += c->slot_mask + 1; /* the next generation of this slot's names */
	slot->op = i;
	slot->start_ns = now_ns;
	slot->must_exist = !op->put && was_written(c, op->key);
	c->n.ops++;
	c->n.remote += op->rank != c->rank;
	*req = (struct kv_req){
		.type = op->put ? KV_PUT : KV_GET,
		.origin = (uint16_t)c->origin,
		.seq = slot->seq,
		.rank = op->rank,
		.key = op->key,
		.value = op->put ? kv_value(op->key, c->origin, i) : 0,
	};
}

void check_cancel(struct checker *c, const struct kv_req *req)
{
	c->n.ops--;
	c->n.remote -= req->rank != c->rank;
	slab_put(&c->free, req->seq & c->slot_mask);
}

static bool is_own_put(const struct checker *c, uint32_t op, uint64_t key)
{
	const struct op *o = stream_at(c->stream, op); /* the period divides 2^24 */

	return o->put && o->key == key;
}

static_assert((KV_OP_MASK + 1) % STREAM_PERIOD == 0, "an operation's name finds it");

static bool value_is_right(const struct checker *c, const struct check_slot *slot,
	const struct kv_resp *resp)
{
	const struct op *op = stream_at(c->stream, slot->op);
	uint32_t writer = kv_value_writer(resp->value);

	switch (resp->type) {
	case KV_PUT_OK:
		return op->put && resp->value == kv_value(op->key, c->origin, slot->op);
	case KV_NOT_FOUND:
		return !op->put && resp->value == op->key && !slot->must_exist;
	case KV_GET_OK:
		if (op->put || !kv_value_is_of(resp->value, op->key))
			return false;
		if (writer == c->origin)
			return is_own_put(c, kv_value_op(resp->value), op->key);
		if (writer == KV_PRELOADER)
			return !c->written && kv_value_op(resp->value) == 0;
		return writer < c->writers;
	default:
		return false;
	}
}

static void count_verified(struct checker *c, const struct check_slot *slot,
	const struct kv_resp *resp)
{
	const struct op *op = stream_at(c->stream, slot->op);

	c->n.verified++;
	c->n.not_found += resp->type == KV_NOT_FOUND;
	c->digest += stream_term(c->stream, slot->op);
	if (op->put && c->written)
		c->written[op->key / 64] |= 1ull << op->key % 64;
}

bool check_reply(struct checker *c, uint64_t token, const struct kv_resp *resp,
	uint64_t *start_ns_p)
{
	uint32_t id = (uint32_t)token & c->slot_mask;
	struct check_slot *slot;

	if (token > UINT32_MAX || !slab_in_use(&c->free, id) || c->slots[id].seq != token) {
		c->n.duplicated++;
		return false;
	}
	slot = &c->slots[id];
	if (resp->origin != (uint16_t)c->origin || resp->seq != slot->seq) {
		c->n.misdelivered++;
	} else if (resp->type == KV_ERROR) {
		c->n.refused++;
		if (!c->first_errno)
			c->first_errno = (int)(resp->value & 0xffff);
	} else if (!value_is_right(c, slot, resp)) {
		c->n.wrong_value++;
	} else {
		count_verified(c, slot, resp);
	}
	*start_ns_p = slot->start_ns;
	slab_put(&c->free, id);
	return true;
}

void check_finish(struct checker *c)
{
	c->n.lost += check_open_count(c);
	for (uint32_t id = 0; id < c->free.capacity; id++) {
		if (slab_in_use(&c->free, id))
			slab_put(&c->free, id);
	}
}
