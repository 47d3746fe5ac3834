/* SPDX-License-Identifier: MIT */
#include "history.h"

#include <errno.h>
#include <stdlib.h>

#include "base/compiler.h"

static_assert(HISTORY_KEYS <= 1u << 16, "followed keys have 16-bit names");

uint32_t history_keys(uint64_t key_range)
{
	return key_range < HISTORY_KEYS ? (uint32_t)key_range : HISTORY_KEYS;
}

uint64_t history_bytes(uint64_t key_range, uint32_t writers)
{
	const struct history *h = NULL;

	return history_keys(key_range) * sizeof(*h->keys) + HISTORY_PAIRS * sizeof(*h->pairs) +
	       writers * sizeof(*h->highest);
}

int history_init(struct history *h, const struct history *given)
{
	*h = *given;
	h->n_keys = history_keys(h->source->load.key_range);
	h->keys = calloc(h->n_keys, sizeof(*h->keys));
	h->pairs = calloc(HISTORY_PAIRS, sizeof(*h->pairs));
	h->highest = calloc(h->writers, sizeof(*h->highest));
	return h->keys && h->pairs && h->highest ? 0 : -ENOMEM;
}

void history_fini(struct history *h)
{
	free(h->keys);
	free(h->pairs);
	free(h->highest);
}

/* ---- requests ---- */

void history_look(const struct history *h, const struct op *op, uint64_t stamp,
	struct history_view *v)
{
	const struct history_key *k = &h->keys[op->number];

	v->at = stamp + 1;
	v->key = op->key;
	v->number = op->number;
	v->followed = op->number < h->n_keys;
	if (!v->followed)
		return;
	v->changed_at = k->changed_at;
	v->put_at = k->put_at;
	v->posted = k->posted;
	if (h->board)
		v->board = board_look(h->board, op->number);
	else
		v->board = (struct board_view){.newest = BOARD_NONE, .before = BOARD_NONE};
}

void history_put(struct history *h, const struct history_view *v)
{
	if (v->followed)
		h->keys[v->number] = (struct history_key){
			.last = kv_name(h->client, v->at - 1),
			.last_at = v->at,
			.changed_at = v->at,
			.put_at = v->at,
		};
}

void history_acknowledged(struct history *h, const struct history_view *v)
{
	struct history_key *k = &h->keys[v->number];
	uint64_t turn;

	if (!v->followed || !h->board)
		return;
	turn = board_post(h->board, v->number, &v->board, kv_name(h->client, v->at - 1));
	if (k->put_at == v->at)
		k->posted = turn;
}

void history_doubt(struct history *h, const struct history_view *v)
{
	if (v->followed && h->keys[v->number].put_at == v->at)
		h->keys[v->number] = (struct history_key){.last = 0};
}

/* ---- verdicts ---- */

/* The number of operations that the client makes in a run, or an upper bound. */
static uint64_t ops_of(const struct history *h, uint32_t client)
{
	if (h->made)
		return h->made[client].most;
	return h->ops ? workload_share(h->ops, client, h->writers) : KV_MAX_OPS;
}

/* True: this client can have made this put, according to its regenerated stream. */
static bool can_be(const struct history *h, uint32_t writer, uint64_t stamp, uint32_t key)
{
	uint64_t i = kv_stamp_op(stamp);
	struct op op;

	if (writer >= h->writers || kv_stamp_run(stamp) > h->run || i >= ops_of(h, writer))
		return false;
	op = source_op(h->source, writer, i);
	return op.key == key && op.put;
}

/*
 * Returns true if the board shows that another put had replaced this put before the request was
 * made. It shows that in three cases: this put is `before` on the board; `newest` or `before` was
 * made in a later run, or later by the same client; or this put is this client's own last put, and
 * another put was posted after it.
 */
static bool outdated(const struct history *h, const struct history_view *v, uint64_t name)
{
	const uint64_t known[] = {v->board.newest, v->board.before};
	uint64_t stamp = kv_name_stamp(name);

	if (v->board.newest == BOARD_NONE || v->board.newest == name)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(known) && known[i] != BOARD_NONE; i++) {
		uint64_t other = kv_name_stamp(known[i]);

		if (kv_stamp_run(stamp) < kv_stamp_run(other) ||
			(kv_name_writer(known[i]) == kv_name_writer(name) && stamp < other))
			return true;
	}
	if (name == v->board.before)
		return true;
	return v->posted && v->posted < v->board.turn && kv_name_stamp(name) + 1 == v->put_at &&
	       kv_name_writer(name) == h->client;
}

static enum verdict own_value(const struct history *h, const struct history_view *v, uint64_t stamp)
{
	/* The own last put is right, unless another value was seen after it. */
	if (v->followed && stamp + 1 == v->put_at)
		return v->changed_at > v->put_at ? READ_STALE : READ_RIGHT;
	if (stamp + 1 >= v->at || !can_be(h, h->client, stamp, v->key))
		return READ_INVENTED;
	if (!v->followed || !v->put_at) /* no own put is known, see history_doubt() */
		return READ_RIGHT;
	return stamp + 1 > v->put_at ? READ_INVENTED : READ_STALE;
}

static void see_writer(struct history *h, uint32_t writer, uint64_t stamp)
{
	if (h->highest[writer] <= kv_stamp_op(stamp))
		h->highest[writer] = kv_stamp_op(stamp) + 1;
}

static struct history_pair *pair_of(const struct history *h, uint32_t who)
{
	return &h->pairs[who * 0x9e3779b1u >> 17];
}

static_assert(HISTORY_PAIRS == 1u << (32 - 17), "the hash of a pair has 15 bits");

static void see_pair(struct history *h, struct history_pair *p, uint32_t who, uint64_t stamp,
	uint64_t at)
{
	if (p->who == who && p->at >= at) /* the reply to a later get came first */
		return;
	*p = (struct history_pair){.who = who, .stamp = stamp, .at = at};
	see_writer(h, who & 0xffff, stamp);
}

static enum verdict foreign_value(struct history *h, const struct history_view *v, uint32_t writer,
	uint64_t stamp)
{
	uint32_t who = v->number << 16 | writer;
	struct history_pair *p = pair_of(h, who);
	bool known = p->at && p->who == who;

	if (!(known && p->stamp == stamp) && !can_be(h, writer, stamp, v->key))
		return READ_INVENTED;
	if (v->put_at && kv_stamp_run(stamp) < kv_stamp_run(v->put_at - 1))
		return READ_STALE;
	if (known && p->at < v->at &&
		(stamp < p->stamp || (stamp == p->stamp && p->at < v->changed_at)))
		return READ_STALE;
	see_pair(h, p, who, stamp, v->at);
	return READ_RIGHT;
}

/*
 * Posts this put on the board. Stores it as the newest known put of the key, unless the reply to a
 * later request came first.
 */
static void learn(struct history *h, const struct history_view *v, uint64_t name)
{
	struct history_key *k = &h->keys[v->number];

	if (h->board && v->board.newest != name)
		board_post(h->board, v->number, &v->board, name);
	if (k->last_at >= v->at)
		return;
	if (!k->last_at || k->last != name)
		k->changed_at = v->at;
	k->last = name;
	k->last_at = v->at;
}

static enum verdict followed_value(struct history *h, const struct history_view *v, uint64_t name)
{
	uint64_t stamp = kv_name_stamp(name);
	uint32_t writer = kv_name_writer(name);
	enum verdict verdict =
		writer == h->client ? own_value(h, v, stamp) : foreign_value(h, v, writer, stamp);

	if (verdict == READ_RIGHT && outdated(h, v, name))
		verdict = READ_STALE;
	if (verdict == READ_RIGHT)
		learn(h, v, name);
	return verdict;
}

/* Checks a value of a key that is not followed: only whether it names a put of this key. */
static enum verdict other_value(struct history *h, const struct history_view *v, uint64_t name)
{
	uint64_t stamp = kv_name_stamp(name);
	uint32_t writer = kv_name_writer(name);

	if (writer == h->client)
		return own_value(h, v, stamp);
	if (!can_be(h, writer, stamp, v->key))
		return READ_INVENTED;
	see_writer(h, writer, stamp);
	return READ_RIGHT;
}

/* True: the client has put the key or read a put of it, or the board shows a put. */
static bool was_put(const struct history_view *v)
{
	return v->followed && (v->changed_at || v->board.newest != BOARD_NONE);
}

enum verdict history_found(struct history *h, const struct history_view *v, uint64_t value)
{
	uint64_t name = kv_value_name(v->key, value);

	if (name == KV_PRELOADED && h->preloaded)
		return was_put(v) ? READ_FORGOTTEN : READ_RIGHT;
	return v->followed ? followed_value(h, v, name) : other_value(h, v, name);
}

enum verdict history_absent(const struct history *h, const struct history_view *v)
{
	return h->preloaded || was_put(v) ? READ_FORGOTTEN : READ_RIGHT;
}

/* ---- the end ---- */

uint32_t history_end(struct history *h, const struct history_made *made)
{
	uint32_t n = 0;

	h->made = made;
	for (uint32_t i = 0; i < h->writers; i++)
		n += h->highest[i] > made[i].most;
	return n;
}

/* All puts of earlier runs were carried out before those of the last one. */
enum verdict history_final(const struct history *h, uint32_t writer, uint64_t op, uint32_t key,
	uint64_t value)
{
	uint64_t name = kv_value_name(key, value), last = kv_name(writer, kv_stamp(h->run, op));

	if (h->made[writer].doubtful || name == last)
		return READ_RIGHT;
	if (name == KV_PRELOADED)
		return READ_FORGOTTEN;
	if (kv_stamp_run(kv_name_stamp(name)) < h->run)
		return READ_STALE;
	if (kv_name_writer(name) != writer)
		return READ_RIGHT;
	return name < last ? READ_STALE : READ_INVENTED;
}

enum verdict history_final_absent(const struct history *h, uint32_t writer)
{
	return h->made[writer].doubtful ? READ_RIGHT : READ_FORGOTTEN;
}

uint32_t history_written(const struct history *h, uint64_t first, uint64_t *to)
{
	uint64_t from = kv_stamp(h->run, first) + 1;
	uint32_t n = 0;

	for (uint32_t i = 0; i < h->n_keys; i++) {
		if (h->keys[i].put_at >= from)
			to[n++] = kv_stamp_op(h->keys[i].put_at - 1);
	}
	return n;
}
