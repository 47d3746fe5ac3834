/* SPDX-License-Identifier: MIT */
/* What a client accepts as read: each rule by hand, then a store with many clients at once. */
#include "history.h"

#include "base/test.h"
#include "store.h"

#define KEYS 64
#define WRITERS 4
#define OPS 40000ull /* of all clients in a run: 10,000 each */
#define SELF 1

static const struct placement place = {.ranks = 1, .shards = 1};

struct world {
	struct source source;
	struct stream stream;
	struct history h;
};

static void world_init(struct world *w, bool preloaded)
{
	const struct workload load = {.key_range = KEYS, .read_ratio = 0.5, .seed = 7};
	const struct history_attr attr = {.source = &w->source,
		.stream = &w->stream,
		.writers = WRITERS,
		.ops = OPS,
		.preloaded = preloaded};

	source_init(&w->source, &load);
	CHECK_EQ(stream_init(&w->stream, &w->source, &place, SELF), 0);
	CHECK_EQ(history_init(&w->h, &attr), 0);
}

static void world_fini(struct world *w)
{
	history_fini(&w->h);
	stream_fini(&w->stream);
}

/* The client's first operation from i on that is a put, or a get, of the key. */
static uint64_t find_op(const struct world *w, uint32_t client, uint64_t key, bool put, uint64_t i)
{
	for (;; i++) {
		bool is_put;

		if (source_op(&w->source, client, i, &is_put) == key && is_put == put)
			return i;
	}
}

static uint64_t value_of(uint64_t key, uint32_t client, uint32_t run, uint64_t op)
{
	return kv_value(key, kv_name(client, kv_stamp(run, op)));
}

/* The client gets the key at its operation i: a get of the stream, which has the key. */
static struct history_get get_at(struct world *w, uint64_t i)
{
	struct history_get get;

	history_get(&w->h, i, kv_stamp(w->h.run, i), &get);
	return get;
}

/* The same, answered at once. */
static enum verdict read_at(struct world *w, uint64_t i, uint64_t value)
{
	struct history_get get = get_at(w, i);

	return history_found(&w->h, &get, value);
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
	history_put(&w.h, s.put);
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
	struct history_get before, after;

	world_init(&w, false);
	s = script(&w);
	before = get_at(&w, s.get);
	history_put(&w.h, s.put);
	after = get_at(&w, s.get2);
	CHECK_EQ(history_absent(&w.h, &before), READ_RIGHT);
	CHECK_EQ(history_absent(&w.h, &after), READ_FORGOTTEN);
	world_fini(&w);
	world_init(&w, true);
	before = get_at(&w, s.get);
	CHECK_EQ(history_absent(&w.h, &before), READ_FORGOTTEN);
	world_fini(&w);
}

static void own_puts(void)
{
	struct world w;
	struct script s;
	struct history_get early;

	world_init(&w, true);
	s = script(&w);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 0, s.put)), READ_INVENTED); /* not yet */
	history_put(&w.h, s.put);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 0, s.put)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 0, s.put2)), READ_INVENTED);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 0, s.get)), READ_INVENTED); /* a get */
	early = get_at(&w, s.get);
	history_put(&w.h, s.put2);
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
	struct history_get early;

	world_init(&w, true);
	s = script(&w);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, s.a)), READ_RIGHT);
	early = get_at(&w, s.get);
	history_put(&w.h, s.put2);
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
	struct history_get first, second;

	world_init(&w, true);
	s = script(&w);
	first = get_at(&w, s.get);
	second = get_at(&w, s.get2);
	CHECK_EQ(history_found(&w.h, &second, value_of(s.key, 2, 0, s.a2)), READ_RIGHT);
	CHECK_EQ(history_found(&w.h, &first, value_of(s.key, 2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get3, value_of(s.key, 2, 0, s.a)), READ_STALE);
	CHECK_EQ(read_at(&w, s.get3, value_of(s.key, 2, 0, s.a2)), READ_RIGHT);
	world_fini(&w);
	/* The same with two writers. */
	world_init(&w, true);
	first = get_at(&w, s.get);
	second = get_at(&w, s.get2);
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
	history_put(&w.h, s.put);
	w.h.run = 1;
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 0, s.put)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, SELF, 1, s.put)), READ_INVENTED);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, s.a)), READ_RIGHT);
	history_put(&w.h, s.put2);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, SELF, 0, s.put2)), READ_STALE);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, SELF, 1, s.put2)), READ_RIGHT);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 2, 0, s.a2)), READ_STALE); /* before our put */
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 3, 0, s.b)), READ_STALE);
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 2, 1, s.a)), READ_RIGHT);
	world_fini(&w);
}

static void knows_what_was_made(void)
{
	const struct history_attr attr = {.writers = WRITERS}; /* for as long as it takes */
	uint64_t made[WRITERS] = {OPS, OPS, 0, OPS};
	struct world w;
	struct script s;
	uint64_t far;

	world_init(&w, true);
	s = script(&w);
	w.h.ops = attr.ops;
	far = find_op(&w, 2, s.key, true, 30000);
	CHECK_EQ(read_at(&w, s.get, value_of(s.key, 2, 0, far)), READ_RIGHT);
	made[2] = far;
	CHECK_EQ(history_end(&w.h, made), 1);
	made[2] = far + 1;
	CHECK_EQ(history_end(&w.h, made), 0);
	made[3] = s.b;
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 3, 0, s.b)), READ_INVENTED);
	made[3] = s.b + 1;
	CHECK_EQ(read_at(&w, s.get2, value_of(s.key, 3, 0, s.b)), READ_RIGHT);
	world_fini(&w);
}

static void lists_what_was_put(void)
{
	static uint16_t written[STREAM_PERIOD];
	bool put[KEYS] = {false}, listed[KEYS] = {false};
	uint32_t n, want = 0;
	struct world w;

	world_init(&w, true);
	CHECK_EQ(w.h.n_keys, KEYS);
	for (uint64_t i = 0; i < 50; i++) {
		if (stream_at(&w.stream, i)->put) {
			history_put(&w.h, i);
			want += !put[stream_at(&w.stream, i)->key];
			put[stream_at(&w.stream, i)->key] = true;
		}
	}
	n = history_written(&w.h, written);
	CHECK_EQ(n, want);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t key = stream_at(&w.stream, written[i])->key;

		CHECK(put[key] && !listed[key]);
		listed[key] = true;
	}
	world_fini(&w);
}

/* ---- a store with many clients ---- */

#define DEPTH 6
#define CLIENTS 4

enum fault {
	FAULT_NONE,
	FAULT_LOSE, /* a put is not stored */
	FAULT_REPLAY, /* an older put once more */
	FAULT_AGE, /* a get returns what the newest put replaced */
	FAULT_REORDER, /* a put overtakes the client's next request */
	FAULTS,
};

/* Requests of a client, in order: the store takes from served on, answers come in any order. */
struct sim_client {
	struct stream stream;
	struct history h;
	struct {
		uint64_t op, value;
		struct history_get get;
		bool served;
	} slot[DEPTH];
	uint32_t open;
	uint64_t next;
};

struct sim {
	struct source source;
	struct store store, older;
	struct sim_client client[CLIENTS];
	uint64_t rng, served;
	enum fault fault;
	uint64_t wrong, reads;
};

static void sim_put(struct sim *s, uint64_t key, uint64_t value, bool due)
{
	uint64_t old = 0, oldest = 0;

	CHECK_EQ(store_get(&s->store, key, &old), 0);
	if (store_get(&s->older, key, &oldest))
		oldest = old;
	if (s->fault == FAULT_LOSE && due)
		return;
	store_put(&s->older, key, old);
	store_put(&s->store, key, s->fault == FAULT_REPLAY && due ? oldest : value);
}

static void sim_serve(struct sim *s, struct sim_client *c, uint32_t i)
{
	const struct op *op = stream_at(&c->stream, c->slot[i].op);
	bool due = ++s->served % 50 == 0;

	if (op->put)
		sim_put(s, op->key, c->slot[i].value, due);
	else
		CHECK_EQ(store_get(&s->store, op->key, &c->slot[i].value), 0);
	if (!op->put && s->fault == FAULT_AGE && due)
		store_get(&s->older, op->key, &c->slot[i].value);
	c->slot[i].served = true;
}

static void sim_open(struct sim_client *c)
{
	uint32_t i = c->open++;
	uint64_t op = c->next++, stamp = kv_stamp(c->h.run, op);

	c->slot[i].op = op;
	c->slot[i].served = false;
	if (stream_at(&c->stream, op)->put) {
		c->slot[i].value =
			kv_value(stream_at(&c->stream, op)->key, kv_name(c->stream.client, stamp));
		history_put(&c->h, op);
	} else {
		history_get(&c->h, op, stamp, &c->slot[i].get);
	}
}

static void sim_answer(struct sim *s, struct sim_client *c, uint32_t i)
{
	if (!stream_at(&c->stream, c->slot[i].op)->put) {
		s->reads++;
		s->wrong += history_found(&c->h, &c->slot[i].get, c->slot[i].value) != READ_RIGHT;
	}
	memmove(&c->slot[i], &c->slot[i + 1], (--c->open - i) * sizeof(c->slot[0]));
}

/* One of: the client makes a request, the store serves its oldest one, an answer arrives. */
static void sim_step(struct sim *s, struct sim_client *c, uint64_t last)
{
	uint32_t first = 0, pick = (uint32_t)(test_rand(&s->rng) % DEPTH);

	while (first < c->open && c->slot[first].served)
		first++;
	switch (test_rand(&s->rng) % 3) {
	case 0:
		if (c->open < DEPTH && c->next < last)
			sim_open(c);
		break;
	case 1:
		if (s->fault == FAULT_REORDER && first + 1 < c->open &&
			test_rand(&s->rng) % 4 == 0 && !c->slot[first + 1].served)
			sim_serve(s, c, first + 1);
		if (first < c->open && !c->slot[first].served)
			sim_serve(s, c, first);
		break;
	default:
		if (pick < c->open && c->slot[pick].served)
			sim_answer(s, c, pick);
	}
}

static bool sim_busy(const struct sim *s, uint64_t last)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		if (s->client[i].open || s->client[i].next < last)
			return true;
	}
	return false;
}

static void sim_run(struct sim *s, uint32_t run, uint64_t last)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		s->client[i].h.run = run;
		s->client[i].next = 0;
	}
	while (sim_busy(s, last))
		sim_step(s, &s->client[test_rand(&s->rng) % CLIENTS], last);
}

/* What was put is there at the end, or it is noticed. */
static void sim_audit(struct sim *s, uint32_t runs, uint64_t ops)
{
	static uint16_t due[STREAM_PERIOD];
	uint64_t made[CLIENTS] = {ops, ops, ops, ops}, value = 0;

	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct history *h = &s->client[i].h;
		uint32_t n = history_written(h, due);

		s->wrong += history_end(h, made);
		for (uint32_t j = 0; j < n; j++) {
			struct history_get get;

			history_get(h, due[j], kv_stamp(runs, j), &get);
			CHECK_EQ(store_get(&s->store, get.key, &value), 0);
			s->reads++;
			s->wrong += history_found(h, &get, value) != READ_RIGHT;
		}
	}
}

static uint64_t simulate(enum fault fault, const struct workload *load, uint64_t ops)
{
	struct sim s = {.rng = test_seed(), .fault = fault};

	source_init(&s.source, load);
	CHECK_EQ(store_init(&s.store, &place, 0, 0, load->key_range), 0);
	CHECK_EQ(store_init(&s.older, &place, 0, 0, load->key_range), 0);
	CHECK_EQ(store_preload(&s.store, load->key_range), 0);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		const struct history_attr attr = {.source = &s.source,
			.stream = &s.client[i].stream,
			.writers = CLIENTS,
			.ops = ops * CLIENTS,
			.preloaded = true};

		CHECK_EQ(stream_init(&s.client[i].stream, &s.source, &place, i), 0);
		CHECK_EQ(history_init(&s.client[i].h, &attr), 0);
	}
	for (uint32_t run = 0; run < 3; run++)
		sim_run(&s, run, ops);
	sim_audit(&s, 3, ops);
	CHECK(s.reads > ops);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		history_fini(&s.client[i].h);
		stream_fini(&s.client[i].stream);
	}
	store_fini(&s.older);
	store_fini(&s.store);
	return s.wrong;
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
		CHECK_EQ(simulate(FAULT_NONE, &loads[i], 5000), 0);
}

static void every_fault_is_seen(void)
{
	for (int fault = FAULT_NONE + 1; fault < FAULTS; fault++) {
		for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
			CHECK(simulate((enum fault)fault, &loads[i], 20000) > 0);
	}
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
		TEST(lists_what_was_put),
		TEST(no_false_alarm),
		TEST(every_fault_is_seen),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
