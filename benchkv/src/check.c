/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t check_bytes(uint32_t writers, uint32_t depth)
{
	const struct checker *c = NULL;

	return pow2_ceil(depth) * sizeof(*c->slots) + STREAM_PERIOD * sizeof(*c->due) +
	       history_bytes(writers);
}

int check_init(struct checker *c, const struct history_attr *attr, uint32_t rank, uint32_t depth)
{
	uint32_t slots = (uint32_t)pow2_ceil(depth);

	*c = (struct checker){
		.stream = attr->stream,
		.origin = attr->stream->client,
		.rank = rank,
		.slot_mask = slots - 1,
	};
	if (slab_init(&c->free, depth))
		return -ENOMEM;
	c->slots = calloc(slots, sizeof(*c->slots));
	c->due = calloc(STREAM_PERIOD, sizeof(*c->due));
	if (!c->slots || !c->due || history_init(&c->history, attr)) {
		check_fini(c);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < slots; i++)
		c->slots[i].seq = i;
	return 0;
}

void check_fini(struct checker *c)
{
	history_fini(&c->history);
	slab_fini(&c->free);
	free(c->slots);
	free(c->due);
	c->slots = NULL;
	c->due = NULL;
}

static void count_from_zero(struct checker *c)
{
	memset(&c->n, 0, sizeof(c->n));
	c->digest = 0;
	c->first_errno = 0;
}

void check_restart(struct checker *c, uint32_t run)
{
	count_from_zero(c);
	c->history.run = run;
}

void check_audit(struct checker *c, uint32_t runs, const uint64_t *made)
{
	count_from_zero(c);
	c->auditing = true;
	c->n_due = history_written(&c->history, c->due);
	c->history.run = runs - 1;
	c->n.invented = history_end(&c->history, made);
}

/* Which operation of the stream has the key, and is it carried out as it stands there? */
static uint64_t in_stream(const struct checker *c, uint64_t i)
{
	return c->auditing ? c->due[i] : i;
}

const struct op *check_open(struct checker *c, uint64_t i, uint64_t now_ns, struct kv_req *req)
{
	uint64_t at = in_stream(c, i);
	const struct op *op = stream_at(c->stream, at);
	uint64_t stamp = kv_stamp(c->history.run + c->auditing, i);
	uint32_t id = slab_get(&c->free);
	struct check_slot *slot;

	assert(id != SLAB_NONE);
	slot = &c->slots[id];
	slot->seq += c->slot_mask + 1; /* the next generation of this slot's names */
	slot->op = i;
	slot->start_ns = now_ns;
	slot->put = op->put && !c->auditing;
	slot->value = slot->put ? kv_value(op->key, kv_name(c->origin, stamp)) : 0;
	if (!slot->put)
		history_get(&c->history, at, stamp, &slot->get);
	c->n.ops++;
	c->n.remote += op->rank != c->rank;
	*req = (struct kv_req){
		.type = slot->put ? KV_PUT : KV_GET,
		.origin = (uint16_t)c->origin,
		.seq = slot->seq,
		.rank = op->rank,
		.key = op->key,
		.value = slot->value,
	};
	return op;
}

void check_cancel(struct checker *c, const struct kv_req *req)
{
	c->n.put_off++;
	c->n.ops--;
	c->n.remote -= req->rank != c->rank;
	slab_put(&c->free, req->seq & c->slot_mask);
}

static void count_verified(struct checker *c, const struct check_slot *slot, bool found)
{
	c->n.verified++;
	c->n.not_found += !found;
	if (!c->auditing)
		c->digest += stream_term(c->stream, slot->op);
}

static void count_read(struct checker *c, const struct check_slot *slot, enum verdict v, bool found)
{
	switch (v) {
	case READ_RIGHT:
		count_verified(c, slot, found);
		break;
	case READ_FORGOTTEN:
		c->n.forgotten++;
		break;
	case READ_STALE:
		c->n.stale++;
		break;
	case READ_INVENTED:
		c->n.invented++;
		break;
	}
}

/* An answer that came to the right place. */
static void check_answer(struct checker *c, const struct check_slot *slot,
	const struct kv_resp *resp)
{
	if (slot->put && resp->type == KV_PUT_OK && resp->value == slot->value)
		count_verified(c, slot, true);
	else if (!slot->put && resp->type == KV_GET_OK)
		count_read(c, slot, history_found(&c->history, &slot->get, resp->value), true);
	else if (!slot->put && resp->type == KV_NOT_FOUND && resp->value == slot->get.key)
		count_read(c, slot, history_absent(&c->history, &slot->get), false);
	else
		c->n.wrong_value++;
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
	} else {
		check_answer(c, slot, resp);
	}
	*start_ns_p = slot->start_ns;
	slab_put(&c->free, id);
	return true;
}

void check_finish(struct checker *c, bool stopped)
{
	*(stopped ? &c->n.unfinished : &c->n.lost) += check_open_count(c);
	if (c->auditing && c->n.ops < c->n_due &&
		!stopped) { /* it was given up: these were not read */
		c->n.lost += c->n_due - c->n.ops;
		c->n.ops = c->n_due;
	}
	for (uint32_t id = 0; id < c->free.capacity; id++) {
		if (slab_in_use(&c->free, id))
			slab_put(&c->free, id);
	}
}
