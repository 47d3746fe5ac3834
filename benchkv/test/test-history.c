/* SPDX-License-Identifier: MIT */
/* The rules by which a client accepts values: each rule alone, then a store with many clients. */
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

/* Operations of clients on one key. A client makes its operations in the order of the fields. */
static struct script {
	uint64_t key;
	uint64_t put, get, put2, get2, get3, get4; /* of this client */
	uint64_t a, a2, b; /* puts of clients 2, 2 and 3 */
} s;

/* The client of the current case. */
static struct source source;
static struct history h;

/* The client's first operation from i on that is a put (or a get) of the key. */
static uint64_t find_op(uint32_t client, uint64_t key, bool put, uint64_t i)
{
	for (;; i++) {
		struct op op = source_op(&source, client, i);

		if (op.key == key && op.put == put)
			return i;
	}
}

/* Initializes a client that knows nothing. */
static void init(struct history *client, uint32_t id, bool preloaded, struct board *board)
{
	const struct history attr = {.source = &source,
		.board = board,
		.client = id,
		.writers = WRITERS,
		.ops = OPS,
		.preloaded = preloaded};

	history_fini(client);
	CHECK_EQ(history_init(client, &attr), 0);
}

/* Initializes the client of the case, which knows nothing. */
static void begin(bool preloaded)
{
	const struct workload load = {.key_range = KEYS, .read_ratio = 0.5, .seed = 7};

	source_init(&source, &load);
	init(&h, SELF, preloaded, NULL);
	s = (struct script){.key = 5};
	s.put = find_op(SELF, s.key, true, 0);
	s.get = find_op(SELF, s.key, false, s.put);
	s.put2 = find_op(SELF, s.key, true, s.get);
	s.get2 = find_op(SELF, s.key, false, s.put2);
	s.get3 = find_op(SELF, s.key, false, s.get2 + 1);
	s.get4 = find_op(SELF, s.key, false, s.get3 + 1);
	s.a = find_op(2, s.key, true, 0);
	s.a2 = find_op(2, s.key, true, s.a + 1);
	s.b = find_op(3, s.key, true, 0);
}

/* The value of a put of the key. */
static uint64_t value_of(uint32_t client, uint32_t run, uint64_t op)
{
	return kv_value(s.key, kv_name(client, kv_stamp(run, op)));
}

/* A client begins its operation i. */
static struct history_view look_of(struct history *client, uint64_t i)
{
	struct op op = source_op(client->source, client->client, i);
	struct history_view v;

	history_look(client, &op, kv_stamp(client->run, i), &v);
	return v;
}

static struct history_view look_at(uint64_t i)
{
	return look_of(&h, i);
}

/* Begins a put. Its reply has not come yet. */
static struct history_view put_at(uint64_t i)
{
	struct history_view v = look_at(i);

	history_put(&h, &v);
	return v;
}

/* A get, answered at once. */
static enum verdict read_at(uint64_t i, uint64_t value)
{
	struct history_view v = look_at(i);

	return history_found(&h, &v, value);
}

TEST(preloaded_until_put)
{
	begin(true);
	CHECK_EQ(read_at(s.get, kv_value(s.key, KV_PRELOADED)), READ_RIGHT);
	CHECK_EQ(read_at(s.get, kv_value(s.key + 1, KV_PRELOADED)), READ_INVENTED);
	CHECK_EQ(read_at(s.get, kv_value(s.key, KV_PRELOADED + 1)), READ_INVENTED);
	put_at(s.put);
	CHECK_EQ(read_at(s.get, kv_value(s.key, KV_PRELOADED)), READ_FORGOTTEN);

	/* The same if another client's put was read. */
	begin(true);
	CHECK_EQ(read_at(s.get, value_of(2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(s.get2, kv_value(s.key, KV_PRELOADED)), READ_FORGOTTEN);

	begin(false);
	CHECK_EQ(read_at(s.get, kv_value(s.key, KV_PRELOADED)), READ_INVENTED);
}

TEST(absent_until_put)
{
	struct history_view before, after;

	begin(false);
	before = look_at(s.get);
	put_at(s.put);
	after = look_at(s.get2);
	CHECK_EQ(history_absent(&h, &before), READ_RIGHT);
	CHECK_EQ(history_absent(&h, &after), READ_FORGOTTEN);
	begin(true);
	before = look_at(s.get);
	CHECK_EQ(history_absent(&h, &before), READ_FORGOTTEN);
}

TEST(own_puts)
{
	struct history_view early;

	begin(true);
	CHECK_EQ(read_at(s.get, value_of(SELF, 0, s.put2)), READ_INVENTED); /* not yet */
	put_at(s.put);
	CHECK_EQ(read_at(s.get, value_of(SELF, 0, s.put)), READ_RIGHT);
	CHECK_EQ(read_at(s.get, value_of(SELF, 0, s.put2)), READ_INVENTED);
	CHECK_EQ(read_at(s.get, value_of(SELF, 0, s.get)), READ_INVENTED); /* a get */
	early = look_at(s.get);
	put_at(s.put2);
	CHECK_EQ(read_at(s.get2, value_of(SELF, 0, s.put)), READ_STALE);
	CHECK_EQ(read_at(s.get2, value_of(SELF, 0, s.get)), READ_INVENTED);
	CHECK_EQ(read_at(s.get2, value_of(SELF, 0, s.put2)), READ_RIGHT);
	/* The get that was made before the second put sees the first one. */
	CHECK_EQ(history_found(&h, &early, value_of(SELF, 0, s.put)), READ_RIGHT);
	CHECK_EQ(history_found(&h, &early, value_of(SELF, 0, s.put2)), READ_INVENTED);
	/* A value that another client's put had replaced is read again. */
	CHECK_EQ(read_at(s.get3, value_of(2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(s.get4, value_of(SELF, 0, s.put2)), READ_STALE);
}

TEST(foreign_puts)
{
	begin(true);
	CHECK_EQ(read_at(s.get, value_of(WRITERS, 0, find_op(WRITERS, s.key, true, 0))),
		READ_INVENTED);
	CHECK_EQ(read_at(s.get, value_of(2, 0, s.a + 1)), READ_INVENTED);
	/* Another key: */
	CHECK_EQ(read_at(s.get, value_of(2, 0, find_op(2, s.key + 1, true, 0))), READ_INVENTED);
	/* A get: */
	CHECK_EQ(read_at(s.get, value_of(2, 0, find_op(2, s.key, false, 0))), READ_INVENTED);
	/* An operation that its client does not reach: */
	CHECK_EQ(read_at(s.get, value_of(2, 0, find_op(2, s.key, true, OPS / 4))), READ_INVENTED);
	CHECK_EQ(read_at(s.get, value_of(2, 1, s.a)), READ_INVENTED); /* the next run */
	CHECK_EQ(read_at(s.get, value_of(2, 0, s.a2)), READ_RIGHT);
	CHECK_EQ(read_at(s.get, value_of(2, 0, s.a2)), READ_RIGHT);
	CHECK_EQ(read_at(s.get2, value_of(2, 0, s.a)), READ_STALE);
	CHECK_EQ(read_at(s.get2, value_of(3, 0, s.b)), READ_RIGHT);
	CHECK_EQ(read_at(s.get3, value_of(2, 0, s.a2)), READ_STALE); /* is read again */
	CHECK_EQ(read_at(s.get3, value_of(3, 0, s.b)), READ_RIGHT);
}

TEST(own_put_replaces)
{
	struct history_view early;

	begin(true);
	CHECK_EQ(read_at(s.get, value_of(2, 0, s.a)), READ_RIGHT);
	early = look_at(s.get);
	put_at(s.put2);
	CHECK_EQ(history_found(&h, &early, value_of(2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(s.get2, value_of(2, 0, s.a)), READ_STALE);
	CHECK_EQ(read_at(s.get2, value_of(2, 0, s.a2)), READ_RIGHT);
}

/* The reply to the later get comes first. */
TEST(answers_in_any_order)
{
	for (int writers = 1; writers <= 2; writers++) {
		struct history_view first, second;
		uint64_t newer;

		begin(true);
		newer = writers == 1 ? value_of(2, 0, s.a2) : value_of(3, 0, s.b);
		first = look_at(s.get);
		second = look_at(s.get2);
		CHECK_EQ(history_found(&h, &second, newer), READ_RIGHT);
		CHECK_EQ(history_found(&h, &first, value_of(2, 0, s.a)), READ_RIGHT);
		CHECK_EQ(read_at(s.get3, value_of(2, 0, s.a)), READ_STALE);
		CHECK_EQ(read_at(s.get3, newer), READ_RIGHT);
	}
}

TEST(runs_are_told_apart)
{
	begin(true);
	put_at(s.put);
	h.run = 1;
	CHECK_EQ(read_at(s.get, value_of(SELF, 0, s.put)), READ_RIGHT);
	CHECK_EQ(read_at(s.get, value_of(SELF, 1, s.put)), READ_INVENTED);
	CHECK_EQ(read_at(s.get, value_of(2, 0, s.a)), READ_RIGHT);
	put_at(s.put2);
	CHECK_EQ(read_at(s.get2, value_of(SELF, 0, s.put2)), READ_STALE);
	CHECK_EQ(read_at(s.get2, value_of(SELF, 1, s.put2)), READ_RIGHT);
	CHECK_EQ(read_at(s.get2, value_of(2, 0, s.a2)), READ_STALE); /* before our put */
	CHECK_EQ(read_at(s.get2, value_of(3, 0, s.b)), READ_STALE);
	CHECK_EQ(read_at(s.get2, value_of(2, 1, s.a)), READ_RIGHT);
}

TEST(knows_what_was_made)
{
	struct history_made made[WRITERS] = {{OPS, OPS, 0}, {OPS, OPS, 0}, {0}, {OPS, OPS, 0}};
	uint64_t far;

	begin(true);
	h.ops = 0; /* the duration limits the runs */
	far = find_op(2, s.key, true, 30000);
	CHECK_EQ(read_at(s.get, value_of(2, 0, far)), READ_RIGHT);
	made[2].most = far;
	CHECK_EQ(history_end(&h, made), 1);
	made[2].most = far + 1;
	CHECK_EQ(history_end(&h, made), 0);
	made[3].most = s.b;
	CHECK_EQ(read_at(s.get2, value_of(3, 0, s.b)), READ_INVENTED);
	made[3].most = s.b + 1;
	CHECK_EQ(read_at(s.get2, value_of(3, 0, s.b)), READ_RIGHT);
}

/* For a key beyond n_keys, only a value that no put of this key can have is wrong. */
TEST(other_keys)
{
	struct history_made made[WRITERS] = {{OPS, OPS, 0}, {OPS, OPS, 0}, {OPS, OPS, 0}};

	begin(true);
	h.n_keys = 5; /* keys 0 to 4 */
	CHECK_EQ(read_at(s.get, kv_value(s.key, KV_PRELOADED)), READ_RIGHT);
	put_at(s.put);
	CHECK_EQ(read_at(s.get, kv_value(s.key, KV_PRELOADED)), READ_RIGHT);
	put_at(s.put2);
	CHECK_EQ(read_at(s.get2, value_of(SELF, 0, s.put)), READ_RIGHT);
	CHECK_EQ(read_at(s.get, value_of(SELF, 0, s.put2)), READ_INVENTED); /* not yet */
	CHECK_EQ(read_at(s.get2, value_of(SELF, 0, s.get)), READ_INVENTED); /* a get */
	CHECK_EQ(read_at(s.get2, value_of(2, 0, s.a2)), READ_RIGHT);
	CHECK_EQ(read_at(s.get2, value_of(2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(s.get2, value_of(2, 0, s.a + 1)), READ_INVENTED);
	CHECK_EQ(read_at(s.get2, value_of(WRITERS, 0, s.a)), READ_INVENTED);
	h.ops = 0;
	made[3].most = find_op(3, s.key, true, 30000);
	CHECK_EQ(read_at(s.get2, value_of(3, 0, made[3].most)), READ_RIGHT);
	CHECK_EQ(history_end(&h, made), 1);
}

/* ---- the board ---- */

static struct board board;
static struct history two, three; /* clients 2 and 3 */

/* Initializes three clients that share a board. */
static void begin_rank(void)
{
	begin(true);
	board_fini(&board);
	CHECK_EQ(board_init(&board, KEYS), 0);
	init(&h, SELF, true, &board);
	init(&two, 2, true, &board);
	init(&three, 3, true, &board);
}

/* A put of a client, which is acknowledged at once. */
static void put_of(struct history *client, uint64_t i)
{
	struct history_view v = look_of(client, i);

	history_put(client, &v);
	history_acknowledged(client, &v);
}

/* A put that was acknowledged to another client is in the store before the get is made. */
TEST(board_of_others)
{
	struct history_view early;
	uint64_t a3;

	begin_rank();
	a3 = find_op(2, s.key, true, s.a2 + 1);
	early = look_at(s.get);
	put_of(&two, s.a);
	put_of(&two, s.a2);
	/* The client made this get before the put was posted: the preloaded value is right. */
	CHECK_EQ(history_found(&h, &early, kv_value(s.key, KV_PRELOADED)), READ_RIGHT);
	/* It makes this get after the put was posted: the preloaded value is wrong. */
	CHECK_EQ(read_at(s.get, kv_value(s.key, KV_PRELOADED)), READ_FORGOTTEN);
	CHECK_EQ(read_at(s.get, value_of(2, 0, s.a)), READ_STALE);
	CHECK_EQ(read_at(s.get2, value_of(2, 0, s.a2)), READ_RIGHT);
	/* Neither of the two newest puts has this value, but its client has made a later put. */
	put_of(&two, a3);
	early = look_of(&three, find_op(3, s.key, false, 0));
	CHECK_EQ(history_found(&three, &early, value_of(2, 0, s.a)), READ_STALE);
	/* The values of the put before the newest one, and of an even earlier one. */
	put_of(&three, s.b);
	CHECK_EQ(read_at(s.get3, value_of(2, 0, a3)), READ_STALE);
	CHECK_EQ(read_at(s.get3, value_of(2, 0, s.a2)), READ_STALE);
	CHECK_EQ(read_at(s.get3, value_of(3, 0, s.b)), READ_RIGHT);
}

TEST(board_of_absent)
{
	struct history_view v;

	begin_rank();
	h.preloaded = false;
	v = look_at(s.get);
	CHECK_EQ(history_absent(&h, &v), READ_RIGHT);
	put_of(&two, s.a);
	v = look_at(s.get);
	CHECK_EQ(history_absent(&h, &v), READ_FORGOTTEN);
}

/* Other clients have replaced a put of this client, by one put or by several. */
TEST(board_of_own)
{
	begin_rank();
	put_of(&h, s.put);
	CHECK_EQ(read_at(s.get, value_of(SELF, 0, s.put)), READ_RIGHT);
	put_of(&two, s.a);
	CHECK_EQ(read_at(s.get, value_of(SELF, 0, s.put)), READ_STALE);
	put_of(&three, s.b);
	CHECK_EQ(read_at(s.get, value_of(SELF, 0, s.put)), READ_STALE);
}

/* A value that another client has read also shows that older values are replaced. */
TEST(board_of_reads)
{
	struct history_view v;
	uint64_t of_three;

	begin_rank();
	of_three = find_op(3, s.key, false, 0);
	put_of(&h, s.put);
	v = look_of(&three, of_three);
	CHECK_EQ(history_found(&three, &v, value_of(2, 0, s.a)), READ_RIGHT);
	CHECK_EQ(read_at(s.get, value_of(SELF, 0, s.put)), READ_STALE);
}

/* If two puts were under way together, either may be the newer one. */
TEST(board_of_concurrent)
{
	for (int mine_first = 0; mine_first < 2; mine_first++) {
		struct history_view mine, theirs;

		begin_rank();
		mine = put_at(s.put);
		theirs = look_of(&two, s.a);
		history_put(&two, &theirs);
		if (mine_first)
			history_acknowledged(&h, &mine);
		history_acknowledged(&two, &theirs);
		if (!mine_first)
			history_acknowledged(&h, &mine);
		CHECK_EQ(read_at(s.get,
				 mine_first ? value_of(2, 0, s.a) : value_of(SELF, 0, s.put)),
			READ_RIGHT);
	}
}

/* A put of this run replaces all puts of the previous run. */
TEST(board_of_runs)
{
	begin_rank();
	h.run = two.run = 1;
	put_of(&two, s.a);
	CHECK_EQ(read_at(s.get, value_of(3, 0, s.b)), READ_STALE);
	CHECK_EQ(read_at(s.get, value_of(3, 1, s.b)), READ_RIGHT);
}

/* After a put that failed, the stored value is unknown. */
TEST(doubt_forgets)
{
	struct history_view failed, later;

	begin(true);
	failed = put_at(s.put);
	history_doubt(&h, &failed);
	CHECK_EQ(read_at(s.get, kv_value(s.key, KV_PRELOADED)), READ_RIGHT);
	CHECK_EQ(read_at(s.get2, value_of(SELF, 0, s.put)), READ_RIGHT);
	/* After a later put that was acknowledged, it is known again. */
	begin(true);
	failed = put_at(s.put);
	later = put_at(s.put2);
	history_acknowledged(&h, &later);
	history_doubt(&h, &failed);
	CHECK_EQ(read_at(s.get2, kv_value(s.key, KV_PRELOADED)), READ_FORGOTTEN);
	CHECK_EQ(read_at(s.get2, value_of(SELF, 0, s.put)), READ_STALE);
}

TEST(lists_what_was_put)
{
	bool put[KEYS] = {false}, listed[KEYS] = {false};
	uint64_t written[KEYS];
	uint32_t n, want = 0;

	begin(true);
	CHECK_EQ(h.n_keys, KEYS);
	for (uint64_t i = 0; i < 50; i++) {
		struct op op = source_op(&source, SELF, i);

		if (!op.put)
			continue;
		put_at(i);
		want += !put[op.key];
		put[op.key] = true;
	}
	n = history_written(&h, 0, written);
	CHECK_EQ(n, want);
	for (uint32_t i = 0; i < n; i++) {
		struct op op = source_op(&source, SELF, written[i]);

		CHECK(op.put && put[op.key] && !listed[op.key]);
		listed[op.key] = true;
	}
	for (uint64_t first = 0; first < 50; first++) {
		n = history_written(&h, first, written);
		for (uint32_t i = 0; i < n; i++)
			CHECK(written[i] >= first);
		CHECK(first < 40 || n <= 10);
	}
	h.run = 1; /* a run without puts */
	CHECK_EQ(history_written(&h, 0, written), 0);
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
	{.key_range = 300,
		.read_ratio = 0.5,
		.keys = KEYS_HOTSPOT,
		.hot_keys = 0.1,
		.hot_ops = 0.9,
		.seed = 6},
	{.key_range = 200, .read_ratio = 0.7, .keys = KEYS_LATEST, .zipf_theta = 0.99, .seed = 7},
	{.key_range = 100, .read_ratio = 0.5, .keys = KEYS_SEQUENTIAL, .seed = 8},
};

TEST(no_false_alarm)
{
	for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
		CHECK_EQ(errors_found(CROWD_RIGHT, &loads[i], 5000), 0);
}

TEST(every_fault_is_seen)
{
	for (int fault = CROWD_RIGHT + 1; fault < CROWD_FAULTS; fault++) {
		for (size_t i = 0; i < ARRAY_SIZE(loads); i++) {
			/* Consecutive requests have different keys, so any order is right. */
			if (fault == CROWD_REORDER && loads[i].keys == KEYS_SEQUENTIAL)
				continue;
			CHECK(errors_found((enum crowd_fault)fault, &loads[i], 20000) > 0);
		}
	}
}

/* ---- the board, with threads ---- */

#define SHARED_KEYS 3
#define SHARED_OPS 20000

struct shared {
	struct source source;
	struct board board;
	struct store store;
	pthread_mutex_t lock; /* protects the store */
};

struct shared_client {
	struct shared *shared;
	struct history h;
	uint64_t wrong;
};

static void *shared_run(void *arg)
{
	struct shared_client *c = arg;
	struct shared *shared = c->shared;

	for (uint64_t i = 0; i < SHARED_OPS; i++) {
		struct history_view v = look_of(&c->h, i);
		bool put = source_op(&shared->source, c->h.client, i).put;
		uint64_t value = kv_value(v.key, kv_name(c->h.client, v.at - 1));

		if (put)
			history_put(&c->h, &v);
		pthread_mutex_lock(&shared->lock);
		if (put)
			store_put(&shared->store, v.key, value);
		else
			store_get(&shared->store, v.key, &value);
		pthread_mutex_unlock(&shared->lock);
		if (put)
			history_acknowledged(&c->h, &v);
		else
			c->wrong += history_found(&c->h, &v, value) != READ_RIGHT;
	}
	return NULL;
}

/* Threads that use the board at the same time find no error in a correct store. */
TEST(board_of_threads)
{
	const struct workload load = {.key_range = SHARED_KEYS, .read_ratio = 0.5, .seed = 11};
	struct shared shared = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct shared_client client[WRITERS];
	pthread_t thread[WRITERS];
	uint64_t turns = 0;

	source_init(&shared.source, &load);
	CHECK_EQ(board_init(&shared.board, SHARED_KEYS), 0);
	CHECK_EQ(store_init(&shared.store, &place, 0, 0, SHARED_KEYS), 0);
	CHECK_EQ(store_preload(&shared.store, SHARED_KEYS), 0);
	for (uint32_t i = 0; i < WRITERS; i++) {
		const struct history attr = {.source = &shared.source,
			.board = &shared.board,
			.client = i,
			.writers = WRITERS,
			.preloaded = true};

		client[i] = (struct shared_client){.shared = &shared};
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
		turns += board_look(&shared.board, i).turn;
	CHECK(turns / 2 > SHARED_OPS / 10); /* the threads have really posted */
	store_fini(&shared.store);
	board_fini(&shared.board);
}
