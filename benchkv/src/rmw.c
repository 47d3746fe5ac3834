/* SPDX-License-Identifier: MIT */
#include "rmw.h"

#include <errno.h>
#include <stdlib.h>

/* ---- what is known ---- */

uint64_t rmw_known_bytes(uint64_t key_range)
{
	return history_keys(key_range) * sizeof(uint64_t);
}

int rmw_known_init(struct rmw_known *k, uint64_t key_range)
{
	k->keys = history_keys(key_range);
	k->names = calloc(k->keys, sizeof(*k->names));
	return k->names ? 0 : -ENOMEM;
}

void rmw_known_fini(struct rmw_known *k)
{
	free(k->names);
}

/* Acquire: pairs with the release of known_add(). */
static uint64_t known_look(const struct rmw_known *k, uint32_t number)
{
	return number < k->keys ? atomic_load_explicit(&k->names[number], memory_order_acquire) : 0;
}

/* Adds a value that is or was in the store. False: another value of the same version is known. */
static bool known_add(struct rmw_known *k, uint32_t number, uint64_t name)
{
	uint64_t newest;

	if (number >= k->keys)
		return true;
	/* Relaxed: no other data depends on it. */
	newest = atomic_load_explicit(&k->names[number], memory_order_relaxed);
	while (kv_name_version(newest) < kv_name_version(name)) {
		/*
		 * Release: pairs with the acquire of known_look(). Relaxed after a failure: the
		 * loop tries again.
		 */
		if (atomic_compare_exchange_weak_explicit(&k->names[number], &newest, name,
			    memory_order_release, memory_order_relaxed))
			return true;
	}
	return newest == name || kv_name_version(newest) > kv_name_version(name);
}

/* ---- one client ---- */

int rmw_init(struct rmw *r, struct checker *check, struct rmw_known *known, uint64_t ops,
	bool preloaded)
{
	size_t slots = (size_t)check->slot_mask + 1;

	*r = (struct rmw){.check = check,
		.known = known,
		.slots = calloc(slots, sizeof(*r->slots)),
		.again = calloc(slots, sizeof(*r->again)),
		.most = ops,
		.preloaded = preloaded};
	return r->slots && r->again ? 0 : -ENOMEM;
}

void rmw_fini(struct rmw *r)
{
	free(r->slots);
	free(r->again);
}

void rmw_restart(struct rmw *r)
{
	r->again_first = r->again_end = 0;
}

/* The number of keys that the audits of all clients read. */
static uint32_t audited_keys(const struct rmw *r)
{
	const struct workload *w = &r->check->history.source->load;
	uint64_t n = w->read_ratio < 1 ? w->key_range : 0;

	return n < RMW_AUDITED ? (uint32_t)n : RMW_AUDITED;
}

void rmw_audit(struct rmw *r)
{
	uint32_t client = r->check->origin, clients = r->check->history.writers;

	rmw_restart(r);
	check_audit_numbers(r->check, client, clients,
		(uint32_t)workload_share(audited_keys(r), client, clients));
}

static struct rmw_slot *extra_of(const struct rmw *r, const struct check_slot *slot)
{
	return &r->slots[slot - r->check->slots];
}

const struct op *rmw_open(struct rmw *r, uint64_t i, uint64_t now_ns, struct kv_req *req)
{
	const struct op *op = check_open(r->check, i, now_ns, req);
	struct check_slot *slot = &r->check->slots[req->seq & r->check->slot_mask];

	slot->view.followed = false; /* the history does not follow changes */
	*extra_of(r, slot) = (struct rmw_slot){.floor = known_look(r->known, op->number)};
	req->type = KV_GET;
	req->value = 0;
	return op;
}

/* ---- replies ---- */

static enum verdict judge_value(struct rmw *r, const struct check_slot *slot, uint64_t name)
{
	uint64_t floor = extra_of(r, slot)->floor, version = kv_name_version(name);

	if (!version) {
		if (name != KV_PRELOADED || !r->preloaded)
			return READ_INVENTED;
		return floor ? READ_FORGOTTEN : READ_RIGHT;
	}
	if (kv_name_writer(name) >= r->check->history.writers || version > r->most)
		return READ_INVENTED;
	if (version < kv_name_version(floor))
		return READ_STALE;
	return known_add(r->known, slot->view.number, name) ? READ_RIGHT : READ_INVENTED;
}

static enum verdict judge_absent(const struct rmw *r, const struct check_slot *slot)
{
	return r->preloaded || extra_of(r, slot)->floor ? READ_FORGOTTEN : READ_RIGHT;
}

/* Queues the swap that stores the next value of a key with this version. */
static void swap_later(struct rmw *r, struct check_slot *slot, uint64_t version)
{
	uint32_t mask = r->check->slot_mask;

	slot->seq += mask + 1; /* another reply to the last request does not count */
	slot->value = kv_value(slot->view.key, kv_name(r->check->origin, version + 1));
	extra_of(r, slot)->swap = true;
	r->again[r->again_end++ & mask] = (uint32_t)(slot - r->check->slots);
}

static uint64_t weight(const struct check_slot *slot)
{
	return mix64_add(0, slot->view.key);
}

/* A get has found this version of the key. True: the operation has ended; false: a swap follows. */
static bool found(struct rmw *r, struct check_slot *slot, uint64_t version, uint64_t value,
	bool is_there)
{
	if (slot->put) {
		swap_later(r, slot, version);
		return false;
	}
	check_verified(r->check, slot, value, is_there);
	if (r->check->auditing) {
		r->versions += version;
		r->check->views += weight(slot) * version;
	}
	return true;
}

/* Handles the reply to a get. True, here and below: the operation has ended. */
static bool take_get(struct rmw *r, struct check_slot *slot, const struct kv_resp *resp)
{
	uint64_t name = kv_value_name(slot->view.key, resp->value);
	bool is_there = resp->type == KV_GET_OK;
	enum verdict v;

	if (!is_there && (resp->type != KV_NOT_FOUND || resp->value != slot->view.key)) {
		r->check->n.wrong_value++;
		return true;
	}
	v = is_there ? judge_value(r, slot, name) : judge_absent(r, slot);
	if (v == READ_RIGHT)
		return found(r, slot, is_there ? kv_name_version(name) : 0, resp->value, is_there);
	check_wrong(r->check, v);
	return true;
}

static void count_change(struct rmw *r, const struct check_slot *slot)
{
	check_verified(r->check, slot, 0, true);
	if (slot->view.number >= RMW_AUDITED)
		return;
	r->changes++;
	r->check->views -= weight(slot);
}

static void take_swapped(struct rmw *r, const struct check_slot *slot, const struct kv_resp *resp)
{
	uint64_t name = kv_value_name(slot->view.key, slot->value);

	if (resp->value != slot->value)
		r->check->n.wrong_value++;
	else if (kv_name_version(extra_of(r, slot)->floor) >= kv_name_version(name))
		check_wrong(r->check, READ_STALE);
	else if (!known_add(r->known, slot->view.number, name))
		check_wrong(r->check, READ_INVENTED);
	else
		count_change(r, slot);
}

static bool take_conflict(struct rmw *r, struct check_slot *slot, const struct kv_resp *resp)
{
	uint64_t name = kv_value_name(slot->view.key, resp->value);
	uint64_t wanted = kv_name_version(kv_value_name(slot->view.key, slot->value));
	enum verdict v = judge_value(r, slot, name);

	r->check->n.conflicts++;
	if (v == READ_RIGHT && kv_name_version(name) >= wanted) {
		swap_later(r, slot, kv_name_version(name));
		return false;
	}
	if (v == READ_RIGHT)
		r->check->n.wrong_value++; /* the stored version does not explain the failure */
	else
		check_wrong(r->check, v);
	return true;
}

static bool take_swap(struct rmw *r, struct check_slot *slot, const struct kv_resp *resp)
{
	struct check_counts *n = &r->check->n;

	n->swaps++;
	n->remote_swaps += place_rank(&r->check->stream->place, slot->view.key) != r->check->rank;
	if (resp->type == KV_SWAP_NO)
		return take_conflict(r, slot, resp);
	if (resp->type == KV_SWAP_OK)
		take_swapped(r, slot, resp);
	else if (resp->type == KV_NOT_FOUND && resp->value == slot->view.key)
		n->forgotten++; /* the client has read a value before */
	else
		n->wrong_value++;
	return true;
}

bool rmw_reply(struct rmw *r, uint64_t token, const struct kv_resp *resp, uint64_t *start_ns_p)
{
	struct check_slot *slot = check_find(r->check, token);

	if (!slot)
		return false;
	if (check_answers(r->check, slot, resp) &&
		!(extra_of(r, slot)->swap ? take_swap(r, slot, resp) : take_get(r, slot, resp)))
		return false;
	*start_ns_p = slot->start_ns;
	check_close(r->check, slot);
	return true;
}

/* ---- swaps ---- */

bool rmw_again(struct rmw *r, struct op *op, struct kv_req *req)
{
	const struct check_slot *slot;

	if (r->again_first == r->again_end)
		return false;
	slot = &r->check->slots[r->again[r->again_first & r->check->slot_mask]];
	*op = (struct op){.key = slot->view.key, .number = slot->view.number, .put = true};
	op_place(op, &r->check->stream->place);
	extra_of(r, slot)->floor = known_look(r->known, op->number);
	*req = (struct kv_req){
		.type = KV_SWAP,
		.origin = (uint16_t)r->check->origin,
		.seq = slot->seq,
		.rank = op->rank,
		.key = op->key,
		.value = slot->value,
	};
	return true;
}

void rmw_again_sent(struct rmw *r)
{
	r->again_first++;
}
