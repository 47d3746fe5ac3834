/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "puts.h"

#define AHEAD 8 /* operations between a prefetch and the use; about the time of a cache miss */

uint64_t check_bytes(uint64_t key_range, uint32_t writers, uint32_t depth)
{
	const struct checker *c = NULL;

	return pow2_ceil(depth) * sizeof(*c->slots) + history_bytes(key_range, writers);
}

int check_init(struct checker *c, const struct history *given, struct stream *stream, uint32_t rank,
	uint32_t depth)
{
	uint32_t slots = (uint32_t)pow2_ceil(depth);

	*c = (struct checker){
		.stream = stream,
		.origin = given->client,
		.rank = rank,
		.slot_mask = slots - 1,
	};
	c->slots = calloc(slots, sizeof(*c->slots));
	if (!c->slots || slab_init(&c->free, depth) || history_init(&c->history, given))
		return -ENOMEM;
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

/*
 * Appends this client's own puts of followed keys to the operations of the audit, after the puts of
 * the next client. A single client is its own next client.
 */
static int add_own(struct checker *c, const struct history_made *made)
{
	uint64_t *due;

	if (c->next == c->origin)
		return 0;
	due = reallocarray(c->due, (size_t)c->n_next + c->history.n_keys, sizeof(*due));
	if (!due)
		return -ENOMEM;
	c->due = due;
	c->n_due +=
		history_written(&c->history, check_window(made[c->origin].last), due + c->n_next);
	return 0;
}

int check_audit(struct checker *c, uint32_t runs, const struct history_made *made)
{
	uint64_t end;
	int err;

	count_from_zero(c);
	c->auditing = true;
	c->history.run = runs - 1;
	c->n.invented = history_end(&c->history, made);
	c->next = (c->origin + 1) % c->history.writers;
	end = made[c->next].last;
	err = puts_last(c->history.source, c->next, check_window(end), end, &c->due, &c->n_next);
	c->n_due = c->n_next;
	return err ? err : add_own(c, made);
}

void check_audit_numbers(struct checker *c, uint32_t first, uint32_t step, uint32_t n)
{
	count_from_zero(c);
	c->auditing = true;
	c->next = c->origin;
	c->first = first;
	c->step = step;
	c->n_due = c->n_next = n;
}

/* The client whose put is read by request i of the audit. */
static uint32_t audited(const struct checker *c, uint64_t i)
{
	return i < c->n_next ? c->next : c->origin;
}

/* The i-th operation, of the stream or of the audit. */
static const struct op *find_op(struct checker *c, uint64_t i)
{
	if (likely(!c->auditing)) {
		history_prefetch(&c->history, stream_peek(c->stream, i + AHEAD));
		return stream_at(c->stream, i);
	}
	c->op = c->step ? source_get(c->history.source, c->first + i * c->step) :
			  source_op(c->history.source, audited(c, i), c->due[i]);
	op_place(&c->op, &c->stream->place);
	return &c->op;
}

const struct op *check_open(struct checker *c, uint64_t i, uint64_t now_ns, struct kv_req *req)
{
	const struct op *op = find_op(c, i);
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
	history_look(&c->history, op, stamp, &slot->view);
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

bool check_crosses(const struct checker *c, const struct kv_req *req)
{
	uint32_t own = req->seq & c->slot_mask;
	bool put = c->slots[own].put;

	for (uint32_t id = 0; id < c->free.capacity; id++) {
		if (c->slots[id].view.key == req->key && id != own && slab_in_use(&c->free, id) &&
			(put || c->slots[id].put))
			return true;
	}
	return false;
}

void check_cancel(struct checker *c, const struct kv_req *req)
{
	c->n.put_off++;
	c->n.ops--;
	c->n.remote -= req->rank != c->rank;
	slab_put(&c->free, req->seq & c->slot_mask);
}

/* If two clients read the key, adds or subtracts its term in c->views, see check_audit(). */
static void compare_views(struct checker *c, const struct check_slot *slot, uint64_t value)
{
	uint32_t owner = audited(c, slot->op);
	uint64_t term = mix64(mix64((uint64_t)owner << 48 ^ slot->view.key) ^ value);

	if (slot->view.followed && c->next != c->origin)
		c->views += owner == c->origin ? term : -term;
}

void check_verified(struct checker *c, const struct check_slot *slot, uint64_t value, bool found)
{
	c->n.verified++;
	c->n.not_found += !found;
	if (c->auditing)
		compare_views(c, slot, value);
	else
		c->digest += op_term(c->origin, slot->op, slot->view.key, slot->put);
}

void check_wrong(struct checker *c, enum verdict v)
{
	uint64_t *const counts[] = {[READ_FORGOTTEN] = &c->n.forgotten,
		[READ_STALE] = &c->n.stale,
		[READ_INVENTED] = &c->n.invented};

	if (v != READ_RIGHT)
		++*counts[v];
}

static void count_read(struct checker *c, const struct check_slot *slot, enum verdict v,
	uint64_t value, bool found)
{
	if (v == READ_RIGHT)
		check_verified(c, slot, value, found);
	else
		check_wrong(c, v);
}

static enum verdict judge_found(struct checker *c, const struct check_slot *slot, uint64_t value)
{
	enum verdict v = history_found(&c->history, &slot->view, value);

	if (v == READ_RIGHT && c->auditing)
		v = history_final(&c->history, audited(c, slot->op), c->due[slot->op],
			slot->view.key, value);
	return v;
}

static enum verdict judge_absent(struct checker *c, const struct check_slot *slot)
{
	enum verdict v = history_absent(&c->history, &slot->view);

	if (v == READ_RIGHT && c->auditing)
		v = history_final_absent(&c->history, audited(c, slot->op));
	return v;
}

/* A put did not get its correct acknowledgement. */
static void doubt(struct checker *c, const struct check_slot *slot)
{
	c->doubtful++;
	history_doubt(&c->history, &slot->view);
}

static void check_put(struct checker *c, const struct check_slot *slot, const struct kv_resp *resp)
{
	if (likely(resp->type == KV_PUT_OK && resp->value == slot->value)) {
		history_acknowledged(&c->history, &slot->view);
		check_verified(c, slot, 0, true);
	} else {
		c->n.wrong_value++;
		doubt(c, slot);
	}
}

/* Checks a reply that came to the right client and request. */
static void check_answer(struct checker *c, const struct check_slot *slot,
	const struct kv_resp *resp)
{
	if (slot->put)
		check_put(c, slot, resp);
	else if (resp->type == KV_GET_OK)
		count_read(c, slot, judge_found(c, slot, resp->value), resp->value, true);
	else if (resp->type == KV_NOT_FOUND && resp->value == slot->view.key)
		count_read(c, slot, judge_absent(c, slot), 0, false);
	else
		c->n.wrong_value++;
}

void check_give_up(struct checker *c, const struct check_slot *slot)
{
	if (slot->put)
		doubt(c, slot);
}

bool check_reply(struct checker *c, uint64_t token, const struct kv_resp *resp,
	uint64_t *start_ns_p)
{
	struct check_slot *slot = check_find(c, token);

	if (!slot)
		return false;
	if (check_answers(c, slot, resp))
		check_answer(c, slot, resp);
	*start_ns_p = slot->start_ns;
	check_close(c, slot);
	return true;
}

void check_finish(struct checker *c, bool stopped)
{
	*(stopped ? &c->n.unfinished : &c->n.lost) += check_open_count(c);
	if (c->auditing && c->n.ops < c->n_due && !stopped) {
		/* The audit has ended early: the remaining keys count as lost. */
		c->n.lost += c->n_due - c->n.ops;
		c->n.ops = c->n_due;
	}
	for (uint32_t id = 0; id < c->free.capacity; id++) {
		if (!slab_in_use(&c->free, id))
			continue;
		check_give_up(c, &c->slots[id]);
		slab_put(&c->free, id);
	}
}
