/* SPDX-License-Identifier: MIT */
/* The rules by which a client accepts what it reads: each rule alone, then a store with many clients. */
#include "history.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "crowd.h"

#define KEYS 64
#define WRITERS 4
#define OPS 40000ull /* of all clients in a run: 10,000 each */
#define SELF 1

static const struct placement place = {.ranks = 1, .shards = 1};

struct world {
	struct source source;
	struct history h;
};

static void world_init(struct world *w, bool preloaded)
{
	const struct workload load = {.key_range = KEYS, .read_ratio = 0.5, .seed = 7};
	const struct history_attr attr = {.source = &w->source,
		.client = SELF,
		.writers = WRITERS,
		.ops = OPS,
		.preloaded = preloaded};

	source_init(&w->source, &load);
	CHECK_EQ(history_init(&w->h, &attr), 0);
}

static void world_fini(struct world *w)
{
	history_fini(&w->h);
}

/* The client's first operation from i on that is a put, or a get, of the key. */
static uint64_t find_op(const struct world *w, uint32_t client, uint64_t key, bool put, uint64_t i)
{
	for (;; i++) {
		struct op op = source_op(&w->source, client, i);

		if (op.key == key && op.put == put)
			return i;
	}
}

static uint64_t value_of(uint64_t key, uint32_t client, uint32_t run, uint64_t op)
{
	return kv_value(key, kv_name(client, kv_stamp(run, op)));
}

/* The client makes its operation i now. */
static struct history_view look_at(struct world *w, uint64_t i)
{
	struct op op = source_op(&w->source, SELF, i);
	struct history_view v;

	history_look(&w->h, &op, kv_stamp(w->h.run, i), &v);
	return v;
}

/* A put, which is not answered yet. */
static struct history_view put_at(struct world *w, uint64_t i)
{
	struct history_view v = look_at(w, i);

	history_put(&w->h, &v);
	return v;
}

/* A get, answered at once. */
static enum verdict read_at(struct world *w, uint64_t i, uint64_t value)
{
	struct history_view v = look_at(w, i);

	return history_found(&w->h, &v, value);
}

/* Operations of this client and of another one on one key, in the order of the names. */
struct script {
	uint64_t key;
	uint64_t put, get, put2, get2, get3, get4; /* own */
	uint64_t a, a2, b; /* puts of clients 2, 2 and 3 */
};

static struct script script(const struct world *w)
{
	struct script s = {.key = 5};

	s.put = find_op(w, SELF, s.key, true, 0);
	s.get = find_op(w, SELF, s.key, false, s.put);
	s.put2 = find_op(w, SELF, s.key, true, s.get);
	s.get2 = find_op(w, SELF, s.key, false, s.put2);
	s.get3 = find_op(w, SELF, s.key, false, s.get2 + 1);
	s.get4 = find_op(w, SELF, s.key, false, s.get3 + 1);
	s.a = find_op(w, 2, s.key, true, 0);
	s.a2 = find_op(w, 2, s.key, true, s.a + 1);
	s.b = find_op(w, 3, s.key, true, 0);
	return s;
}

static void preloaded_until_put(void)
{
	struct world w;
	struct script s;

	world_init(&w, true);
	s = script(&w);
	CHECK_EQ(read_at(&w, s.get, kv_value(s.key, KV_PRELOADED)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get, kv_value(s.key + 1, KV_PRELOADED)), READ_INVENTED);
	CHECK_EQ(read_at(&w, s.get, kv_value(s.key, KV_PRELOADED + 1)), READ_INVENTED);
	put_at(&w, s.put);
	CHECK_EQ(read_at(&w, s.get, kv_value(s.key, KV_PRELOADED)), READ_FORGOTTEN);
	world_fini(&w);

	/* Also when somebody else's put was read. */
	world_init(&w, true);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get2, kv_value(s.key, KV_PRELOADED)), READ_FORGOTTEN);
	world_fini(&w);

	world_init(&w, false);
	CHECK_EQ(read_at(&w, s.get, kv_value(s.key, KV_PRELOADED)), READ_INVENTED);
	world_fini(&w);
}

static void absent_until_put(void)
{
	struct world w;
	struct script s;
	struct history_view before, after;

	world_init(&w, false);
	s = script(&w);
	before = look_at(&w, s.get);
	put_at(&w, s.put);
	after = look_at(&w, s.get2);
	CHECK_EQ(history_absent(&w.h, &before), READ_RIGHT);
	CHECK_EQ(history_absent(&w.h, &after), READ_FORGOTTEN);
	world_fini(&w);
	world_init(&w, true);
	before = look_at(&w, s.get);
	CHECK_EQ(history_absent(&w.h, &before), READ_FORGOTTEN);
	world_fini(&w);
}

static void own_puts(void)
{
	struct world w;
	struct script s;
	struct history_view early;

	world_init(&w, true);
	s = script(&w);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 0, s.put2)), READ_INVENTED); /* not yet */
	put_at(&w, s.put);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 0, s.put)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 0, s.put2)), READ_INVENTED);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 0, s.get)), READ_INVENTED); /* a get */
	early = look_at(&w, s.get);
	put_at(&w, s.put2);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, SELF, 0, s.put)), READ_STALE);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, SELF, 0, s.get)), READ_INVENTED);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, SELF, 0, s.put2)), READ_RIGHT);
	/* The get that was made before the second put sees the first one. */
	CHECK_EQ(history_found(&w.h, &early, value_of(s.key, SELF, 0, s.put)), READ_RIGHT);
	CHECK_EQ(history_found(&w.h, &early, value_of(s.key, SELF, 0, s.put2)), READ_INVENTED);
	/* Replaced by another client's, then back. */
	CHECK_EQ(read_at(&w, s.get3, value_of(s.key, 2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get4, value_of(s.key, SELF, 0, s.put2)), READ_STALE);
	world_fini(&w);
}

static void foreign_puts(void)
{
	struct world w;
	struct script s;

	world_init(&w, true);
	s = script(&w);
	CHECK_EQ(read_at(&w, s.get,
			 value_of(s.key, WRITERS, 0, find_op(&w, WRITERS, s.key, true, 0))),
		READ_INVENTED);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, s.a + 1)), READ_INVENTED);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, find_op(&w, 2, s.key + 1, true, 0))),
		READ_INVENTED); /* another key */
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, find_op(&w, 2, s.key, false, 0))),
		READ_INVENTED); /* a get */
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, find_op(&w, 2, s.key, true, OPS / 4))),
		READ_INVENTED); /* more than it makes */
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 1, s.a)), READ_INVENTED); /* the next run */
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, s.a2)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, s.a2)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 2, 0, s.a)), READ_STALE);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 3, 0, s.b)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get3, value_of(s.key, 2, 0, s.a2)), READ_STALE); /* is back */
	CHECK_EQ(read_at(&w, s.get3, value_of(s.key, 3, 0, s.b)), READ_RIGHT);
	world_fini(&w);
}

static void own_put_replaces(void)
{
	struct world w;
	struct script s;
	struct history_view early;

	world_init(&w, true);
	s = script(&w);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, s.a)), READ_RIGHT);
	early = look_at(&w, s.get);
	put_at(&w, s.put2);
	CHECK_EQ(history_found(&w.h, &early, value_of(s.key, 2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 2, 0, s.a)), READ_STALE);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 2, 0, s.a2)), READ_RIGHT);
	world_fini(&w);
}

/* The answer to the later get comes first. */
static void answers_in_any_order(void)
{
	struct world w;
	struct script s;
	struct history_view first, second;

	world_init(&w, true);
	s = script(&w);
	first = look_at(&w, s.get);
	second = look_at(&w, s.get2);
	CHECK_EQ(history_found(&w.h, &second, value_of(s.key, 2, 0, s.a2)), READ_RIGHT);
	CHECK_EQ(history_found(&w.h, &first, value_of(s.key, 2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get3, value_of(s.key, 2, 0, s.a)), READ_STALE);
	CHECK_EQ(read_at(&w, s.get3, value_of(s.key, 2, 0, s.a2)), READ_RIGHT);
	world_fini(&w);
	/* The same with two writers. */
	world_init(&w, true);
	first = look_at(&w, s.get);
	second = look_at(&w, s.get2);
	CHECK_EQ(history_found(&w.h, &second, value_of(s.key, 3, 0, s.b)), READ_RIGHT);
	CHECK_EQ(history_found(&w.h, &first, value_of(s.key, 2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get3, value_of(s.key, 2, 0, s.a)), READ_STALE);
	CHECK_EQ(read_at(&w, s.get3, value_of(s.key, 3, 0, s.b)), READ_RIGHT);
	world_fini(&w);
}

static void runs_are_told_apart(void)
{
	struct world w;
	struct script s;

	world_init(&w, true);
	s = script(&w);
	put_at(&w, s.put);
	w.h.run = 1;
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 0, s.put)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 1, s.put)), READ_INVENTED);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, s.a)), READ_RIGHT);
	put_at(&w, s.put2);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, SELF, 0, s.put2)), READ_STALE);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, SELF, 1, s.put2)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 2, 0, s.a2)), READ_STALE); /* before our put */
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 3, 0, s.b)), READ_STALE);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 2, 1, s.a)), READ_RIGHT);
	world_fini(&w);
}

static void knows_what_was_made(void)
{
	struct history_made made[WRITERS] = {{OPS, OPS, 0}, {OPS, OPS, 0}, {0}, {OPS, OPS, 0}};
	struct world w;
	struct script s;
	uint64_t far;

	world_init(&w, true);
	s = script(&w);
	w.h.ops = 0; /* for as long as it takes */
	far = find_op(&w, 2, s.key, true, 30000);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, far)), READ_RIGHT);
	made[2].most = far;
	CHECK_EQ(history_end(&w.h, made), 1);
	made[2].most = far + 1;
	CHECK_EQ(history_end(&w.h, made), 0);
	made[3].most = s.b;
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 3, 0, s.b)), READ_INVENTED);
	made[3].most = s.b + 1;
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 3, 0, s.b)), READ_RIGHT);
	world_fini(&w);
}

/* A key that is not followed: only what cannot be a put of it is wrong. */
static void other_keys(void)
{
	struct history_made made[WRITERS] = {{OPS, OPS, 0}, {OPS, OPS, 0}, {OPS, OPS, 0}};
	struct world w;
	struct script s;

	world_init(&w, true);
	w.h.n_keys = 5; /* keys 0 to 4 */
	s = script(&w);
	CHECK_EQ(read_at(&w, s.get, kv_value(s.key, KV_PRELOADED)), READ_RIGHT);
	put_at(&w, s.put);
	CHECK_EQ(read_at(&w, s.get, kv_value(s.key, KV_PRELOADED)), READ_RIGHT);
	put_at(&w, s.put2);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, SELF, 0, s.put)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 0, s.put2)), READ_INVENTED); /* not yet */
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, SELF, 0, s.get)), READ_INVENTED); /* a get */
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 2, 0, s.a2)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 2, 0, s.a + 1)), READ_INVENTED);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, WRITERS, 0, s.a)), READ_INVENTED);
	w.h.ops = 0;
	made[3].most = find_op(&w, 3, s.key, true, 30000);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 3, 0, made[3].most)), READ_RIGHT);
	CHECK_EQ(history_end(&w.h, made), 1);
	world_fini(&w);
}

/* ---- the board ---- */

/* A client beside this one, with the same board. */
static void history_of(struct history *h, const struct world *w, uint32_t client)
{
	const struct history_attr attr = {.source = &w->source,
		.board = w->h.board,
		.client = client,
		.writers = WRITERS,
		.ops = OPS,
		.preloaded = true};

	CHECK_EQ(history_init(h, &attr), 0);
}

static struct history_view look_of(struct history *h, uint64_t i)
{
	struct op op = source_op(h->source, h->client, i);
	struct history_view v;

	history_look(h, &op, kv_stamp(h->run, i), &v);
	return v;
}

/* Another client puts: it is acknowledged at once. */
static void put_of(struct history *h, uint64_t i)
{
	struct history_view v = look_of(h, i);

	history_put(h, &v);
	history_acknowledged(h, &v);
}

struct rank {
	struct world w;
	struct board board;
	struct history two, three; /* clients 2 and 3 */
	struct script s;
};

static void rank_init(struct rank *r)
{
	world_init(&r->w, true);
	CHECK_EQ(board_init(&r->board, KEYS), 0);
	r->w.h.board = &r->board;
	history_of(&r->two, &r->w, 2);
	history_of(&r->three, &r->w, 3);
	r->s = script(&r->w);
}

static void rank_fini(struct rank *r)
{
	history_fini(&r->three);
	history_fini(&r->two);
	board_fini(&r->board);
	world_fini(&r->w);
}

/* A put that was acknowledged to another client is in the store before the get is made. */
static void board_of_others(void)
{
	struct rank r;
	struct history_view early;
	uint64_t a3;

	rank_init(&r);
	a3 = find_op(&r.w, 2, r.s.key, true, r.s.a2 + 1);
	early = look_at(&r.w, r.s.get);
	put_of(&r.two, r.s.a);
	put_of(&r.two, r.s.a2);
	/* Not after the get was made, */
	CHECK_EQ(history_found(&r.w.h, &early, kv_value(r.s.key, KV_PRELOADED)), READ_RIGHT);
	/* but before. */
	CHECK_EQ(read_at(&r.w, r.s.get, kv_value(r.s.key, KV_PRELOADED)), READ_FORGOTTEN);
	CHECK_EQ(read_at(&r.w, r.s.get, value_of(r.s.key, 2, 0, r.s.a)), READ_STALE);
	CHECK_EQ(read_at(&r.w, r.s.get2, value_of(r.s.key, 2, 0, r.s.a2)), READ_RIGHT);
	/* Neither the newest nor the one before, but of a client that has put since. */
	put_of(&r.two, a3);
	early = look_of(&r.three, find_op(&r.w, 3, r.s.key, false, 0));
	CHECK_EQ(history_found(&r.three, &early, value_of(r.s.key, 2, 0, r.s.a)), READ_STALE);
	/* The one before the newest, or one before that. */
	put_of(&r.three, r.s.b);
	CHECK_EQ(read_at(&r.w, r.s.get3, value_of(r.s.key, 2, 0, a3)), READ_STALE);
	CHECK_EQ(read_at(&r.w, r.s.get3, value_of(r.s.key, 2, 0, r.s.a2)), READ_STALE);
	CHECK_EQ(read_at(&r.w, r.s.get3, value_of(r.s.key, 3, 0, r.s.b)), READ_RIGHT);
	rank_fini(&r);
}

static void board_of_absent(void)
{
	struct rank r;
	struct history_view v;

	rank_init(&r);
	r.w.h.preloaded = false;
	v = look_at(&r.w, r.s.get);
	CHECK_EQ(history_absent(&r.w.h, &v), READ_RIGHT);
	put_of(&r.two, r.s.a);
	v = look_at(&r.w, r.s.get);
	CHECK_EQ(history_absent(&r.w.h, &v), READ_FORGOTTEN);
	rank_fini(&r);
}

/* An own put that others have replaced, with one put or with several. */
static void board_of_own(void)
{
	struct rank r;

	rank_init(&r);
	put_of(&r.w.h, r.s.put);
	CHECK_EQ(read_at(&r.w, r.s.get, value_of(r.s.key, SELF, 0, r.s.put)), READ_RIGHT);
	put_of(&r.two, r.s.a);
	CHECK_EQ(read_at(&r.w, r.s.get, value_of(r.s.key, SELF, 0, r.s.put)), READ_STALE);
	put_of(&r.three, r.s.b);
	CHECK_EQ(read_at(&r.w, r.s.get, value_of(r.s.key, SELF, 0, r.s.put)), READ_STALE);
	rank_fini(&r);
}

/* Values that others have read count as well. */
static void board_of_reads(void)
{
	struct rank r;
	struct history_view v;
	uint64_t of_three;

	rank_init(&r);
	of_three = find_op(&r.w, 3, r.s.key, false, 0);
	put_of(&r.w.h, r.s.put);
	v = look_of(&r.three, of_three);
	CHECK_EQ(history_found(&r.three, &v, value_of(r.s.key, 2, 0, r.s.a)), READ_RIGHT);
	CHECK_EQ(read_at(&r.w, r.s.get, value_of(r.s.key, SELF, 0, r.s.put)), READ_STALE);
	rank_fini(&r);
}

/* If two puts were under way together, either may be the newer one. */
static void board_of_concurrent(void)
{
	struct rank r;
	struct history_view mine, theirs;

	rank_init(&r);
	mine = put_at(&r.w, r.s.put);
	theirs = look_of(&r.two, r.s.a);
	history_put(&r.two, &theirs);
	history_acknowledged(&r.w.h, &mine);
	history_acknowledged(&r.two, &theirs);
	CHECK_EQ(read_at(&r.w, r.s.get, value_of(r.s.key, 2, 0, r.s.a)), READ_RIGHT);
	rank_fini(&r);
	rank_init(&r);
	mine = put_at(&r.w, r.s.put);
	theirs = look_of(&r.two, r.s.a);
	history_put(&r.two, &theirs);
	history_acknowledged(&r.two, &theirs);
	history_acknowledged(&r.w.h, &mine);
	CHECK_EQ(read_at(&r.w, r.s.get, value_of(r.s.key, SELF, 0, r.s.put)), READ_RIGHT);
	rank_fini(&r);
}

/* A put of this run replaces all of the run before. */
static void board_of_runs(void)
{
	struct rank r;

	rank_init(&r);
	r.w.h.run = r.two.run = 1;
	put_of(&r.two, r.s.a);
	CHECK_EQ(read_at(&r.w, r.s.get, value_of(r.s.key, 3, 0, r.s.b)), READ_STALE);
	CHECK_EQ(read_at(&r.w, r.s.get, value_of(r.s.key, 3, 1, r.s.b)), READ_RIGHT);
	rank_fini(&r);
}

/* A put that failed says nothing about what is there. */
static void doubt_forgets(void)
{
	struct history_view failed, later;
	struct world w;
	struct script s;

	world_init(&w, true);
	s = script(&w);
	failed = put_at(&w, s.put);
	history_doubt(&w.h, &failed);
	CHECK_EQ(read_at(&w, s.get, kv_value(s.key, KV_PRELOADED)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, SELF, 0, s.put)), READ_RIGHT);
	world_fini(&w);
	/* But a later put that is acknowledged does. */
	world_init(&w, true);
	failed = put_at(&w, s.put);
	later = put_at(&w, s.put2);
	history_acknowledged(&w.h, &later);
	history_doubt(&w.h, &failed);
	CHECK_EQ(read_at(&w, s.get2, kv_value(s.key, KV_PRELOADED)), READ_FORGOTTEN);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, SELF, 0, s.put)), READ_STALE);
	world_fini(&w);
}

static void lists_what_was_put(void)
{
	bool put[KEYS] = {false}, listed[KEYS] = {false};
	uint64_t written[KEYS];
	uint32_t n, want = 0;
	struct world w;

	world_init(&w, true);
	CHECK_EQ(w.h.n_keys, KEYS);
	for (uint64_t i = 0; i < 50; i++) {
		struct op op = source_op(&w.source, SELF, i);

		if (!op.put)
			continue;
		put_at(&w, i);
		want += !put[op.key];
		put[op.key] = true;
	}
	n = history_written(&w.h, 0, written);
	CHECK_EQ(n, want);
	for (uint32_t i = 0; i < n; i++) {
		struct op op = source_op(&w.source, SELF, written[i]);

		CHECK(op.put && put[op.key] && !listed[op.key]);
		listed[op.key] = true;
	}
	for (uint64_t first = 0; first < 50; first++) {
		n = history_written(&w.h, first, written);
		for (uint32_t i = 0; i < n; i++)
			CHECK(written[i] >= first);
		CHECK(first < 40 || n <= 10);
	}
	w.h.run = 1; /* in which nothing was put */
	CHECK_EQ(history_written(&w.h, 0, written), 0);
	world_fini(&w);
}

/* ---- a store with many clients ---- */

static bool each_50th(struct crowd *c, bool put)
{
	return c->requests % 50 == 49;
}

static uint64_t errors_found(enum crowd_fault fault, const struct workload *load, uint64_t ops)
{
	static struct crowd c;
	const struct crowd_shape shape =
		{.load = *load, .ranks = 2, .clients = 2, .depth = 6, .runs = 3, .ops = ops};

	memset(&c, 0, sizeof(c));
	c.shape = &shape;
	c.fault = fault;
	c.due = each_50th;
	c.rng = test_seed();
	return crowd_find(&c);
}

static const struct workload loads[] = {
	{.key_range = 1, .read_ratio = 0.5, .seed = 1},
	{.key_range = 3, .read_ratio = 0.8, .seed = 2},
	{.key_range = 50, .read_ratio = 0.5, .seed = 3},
	{.key_range = 200, .read_ratio = 0.9, .seed = 4},
	{.key_range = 100000, .read_ratio = 0.5, .zipf_theta = 0.99, .seed = 5},
};

static void no_false_alarm(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
		CHECK_EQ(errors_found(CROWD_RIGHT, &loads[i], 5000), 0);
}

static void every_fault_is_seen(void)
{
	for (int fault = CROWD_RIGHT + 1; fault < CROWD_FAULTS; fault++) {
		for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
			CHECK(errors_found((enum crowd_fault)fault, &loads[i], 20000) > 0);
	}
}

/* ---- the board, with threads ---- */

#define SHARED_KEYS 3
#define SHARED_OPS 20000

struct shared {
	struct source source;
	struct board board;
	struct store store;
	pthread_mutex_t lock; /* of the store */
};

struct shared_client {
	struct shared *shared;
	struct history h;
	uint64_t wrong;
};

static void *shared_run(void *arg)
{
	struct shared_client *c = arg;
	struct shared *s = c->shared;

	for (uint64_t i = 0; i < SHARED_OPS; i++) {
		struct history_view v = look_of(&c->h, i);
		bool put = source_op(&s->source, c->h.client, i).put;
		uint64_t value = kv_value(v.key, kv_name(c->h.client, v.at - 1));

		if (put)
			history_put(&c->h, &v);
		pthread_mutex_lock(&s->lock);
		if (put)
			store_put(&s->store, v.key, value);
		else
			store_get(&s->store, v.key, &value);
		pthread_mutex_unlock(&s->lock);
		if (put)
			history_acknowledged(&c->h, &v);
		else
			c->wrong += history_found(&c->h, &v, value) != READ_RIGHT;
	}
	return NULL;
}

/* Clients that look and post at the same time see nothing wrong in a store that is right. */
static void board_of_threads(void)
{
	const struct workload load = {.key_range = SHARED_KEYS, .read_ratio = 0.5, .seed = 11};
	struct shared s = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct shared_client client[WRITERS];
	pthread_t thread[WRITERS];
	uint64_t turns = 0;

	source_init(&s.source, &load);
	CHECK_EQ(board_init(&s.board, SHARED_KEYS), 0);
	CHECK_EQ(store_init(&s.store, &place, 0, 0, SHARED_KEYS), 0);
	CHECK_EQ(store_preload(&s.store, SHARED_KEYS), 0);
	for (uint32_t i = 0; i < WRITERS; i++) {
		const struct history_attr attr = {.source = &s.source,
			.board = &s.board,
			.client = i,
			.writers = WRITERS,
			.preloaded = true};

		client[i] = (struct shared_client){.shared = &s};
		CHECK_EQ(history_init(&client[i].h, &attr), 0);
	}
	for (uint32_t i = 0; i < WRITERS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, shared_run, &client[i]), 0);
	for (uint32_t i = 0; i < WRITERS; i++) {
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
		CHECK_EQ(client[i].wrong, 0);
		history_fini(&client[i].h);
	}
	for (uint32_t i = 0; i < SHARED_KEYS; i++)
		turns += board_look(&s.board, i).turn;
	CHECK(turns / 2 > SHARED_OPS / 10); /* they have posted */
	store_fini(&s.store);
	board_fini(&s.board);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(preloaded_until_put),
		TEST(absent_until_put),
		TEST(own_puts),
		TEST(foreign_puts),
		TEST(own_put_replaces),
		TEST(answers_in_any_order),
		TEST(runs_are_told_apart),
		TEST(knows_what_was_made),
		TEST(other_keys),
		TEST(board_of_others),
		TEST(board_of_absent),
		TEST(board_of_own),
		TEST(board_of_reads),
		TEST(board_of_concurrent),
		TEST(board_of_runs),
		TEST(board_of_threads),
		TEST(doubt_forgets),
		TEST(lists_what_was_put),
		TEST(no_false_alarm),
		TEST(every_fault_is_seen),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
