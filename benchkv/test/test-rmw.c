/* SPDX-License-Identifier: MIT */
/*
 * Read-modify-writes (changes): those of a correct store must be verified, and each fault detected.
 */
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "result.h"
#include "rmw.h"
#include "store.h"

#define KEYS 64
#define DEPTH 8
#define CLIENTS 2
#define OPS 4000 /* of a client */

static const struct placement place = {.ranks = 1, .shards = 1};

/* Two clients of two ranks, each with its own struct rmw_known, and a store that answers both. */
static struct world {
	struct source source;
	struct store store;
	struct rmw_known known[CLIENTS];
	struct stream stream[CLIENTS];
	struct checker check[CLIENTS];
	struct rmw rmw[CLIENTS];
	uint64_t next[CLIENTS];
} w;

static void end(void)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		rmw_fini(&w.rmw[i]);
		rmw_known_fini(&w.known[i]);
		check_fini(&w.check[i]);
	}
	store_fini(&w.store);
	memset(&w, 0, sizeof(w));
}

static void begin_with(const struct workload *load, bool preloaded)
{
	end();
	source_init(&w.source, load);
	CHECK_EQ(store_init(&w.store, &place, 0, 0, 16), 0);
	CHECK_EQ(preloaded ? store_preload(&w.store, load->key_range) : 0, 0);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		const struct history attr = {.source = &w.source,
			.client = i,
			.writers = CLIENTS,
			.preloaded = preloaded};

		stream_init(&w.stream[i], &w.source, &place, i);
		CHECK_EQ(check_init(&w.check[i], &attr, &w.stream[i], 0, DEPTH), 0);
		CHECK_EQ(rmw_known_init(&w.known[i], load->key_range), 0);
		CHECK_EQ(rmw_init(&w.rmw[i], &w.check[i], &w.known[i], CLIENTS * OPS, preloaded),
			0);
	}
}

static void begin(double read_ratio, uint64_t keys)
{
	const struct workload load = {.key_range = keys,
		.read_ratio = read_ratio,
		.rmw = true,
		.seed = 7};

	begin_with(&load, true);
}

static struct kv_req open_next(uint32_t client)
{
	struct kv_req req;

	rmw_open(&w.rmw[client], w.next[client]++, 1000, &req);
	return req;
}

/* Gives a client a reply. Returns true if the reply ends the operation. */
static bool reply(uint32_t client, uint64_t token, struct kv_resp resp)
{
	uint64_t start;
	bool closed = rmw_reply(&w.rmw[client], token, &resp, &start);

	CHECK(!closed || start == 1000);
	return closed;
}

static bool answer(uint32_t client, const struct kv_req *req)
{
	return reply(client, req->seq, store_serve(&w.store, req));
}

static struct kv_req next_swap(uint32_t client)
{
	struct kv_req req = {.type = 0};
	struct op op;

	CHECK(rmw_again(&w.rmw[client], &op, &req));
	CHECK_EQ(op.key, req.key);
	rmw_again_sent(&w.rmw[client]);
	return req;
}

static bool has_swap(uint32_t client)
{
	struct kv_req req;
	struct op op;

	return rmw_again(&w.rmw[client], &op, &req);
}

/* A client sends its waiting swaps, then gets up to the depth. All are served, then answered. */
static void turn(uint32_t client, uint64_t last)
{
	struct kv_req req[2 * DEPTH];
	struct kv_resp resp[2 * DEPTH];
	uint32_t n = 0;

	while (has_swap(client))
		req[n++] = next_swap(client);
	while (w.next[client] < last && check_open_count(&w.check[client]) < DEPTH)
		req[n++] = open_next(client);
	for (uint32_t i = 0; i < n; i++)
		resp[i] = store_serve(&w.store, &req[i]);
	for (uint32_t i = 0; i < n; i++)
		reply(client, req[i].seq, resp[i]);
}

static void run_all(uint64_t last)
{
	bool busy;

	do {
		busy = false;
		for (uint32_t i = 0; i < CLIENTS; i++) {
			turn(i, last);
			busy |= w.next[i] < last || check_open_count(&w.check[i]);
		}
	} while (busy);
}

/* Runs the audit of both clients. Returns the sum of their results, without latencies. */
static struct result audit(void)
{
	struct result r = {0};

	for (uint32_t i = 0; i < CLIENTS; i++) {
		result_add_words(&r.counts, &w.check[i].n, sizeof(r.counts));
		rmw_audit(&w.rmw[i]);
		for (w.next[i] = 0; w.next[i] < w.check[i].n_due;)
			turn(i, w.check[i].n_due);
		check_finish(&w.check[i], false);
		result_add_words(&r.audit, &w.check[i].n, sizeof(r.audit));
		r.changes += w.rmw[i].changes;
		r.versions += w.rmw[i].versions;
		r.views += w.check[i].views;
	}
	result_compare_views(&r);
	return r;
}

static const struct workload loads[] = {
	{.key_range = KEYS, .read_ratio = 0.5, .rmw = true, .seed = 1},
	{.key_range = KEYS, .read_ratio = 0.5, .zipf_theta = 0.99, .rmw = true, .seed = 2},
	{.key_range = 1, .read_ratio = 0, .rmw = true, .seed = 3},
	{.key_range = KEYS, .keys = KEYS_SEQUENTIAL, .read_ratio = 0.2, .rmw = true, .seed = 4},
	{.key_range = KEYS,
		.keys = KEYS_LATEST,
		.zipf_theta = 0.99,
		.read_ratio = 0.9,
		.rmw = true,
		.seed = 5},
	{.key_range = KEYS,
		.keys = KEYS_HOTSPOT,
		.hot_keys = 0.1,
		.hot_ops = 0.9,
		.rmw = true,
		.seed = 6},
	{.key_range = 100000, .read_ratio = 0.5, .rmw = true, .seed = 7}, /* not all in rmw_known */
};

static void all_right(bool preloaded)
{
	for (size_t i = 0; i < ARRAY_SIZE(loads); i++) {
		struct result r;

		begin_with(&loads[i], preloaded);
		run_all(OPS);
		for (uint32_t c = 0; c < CLIENTS; c++) {
			CHECK_EQ(w.check[c].n.verified, OPS);
			CHECK_EQ(w.check[c].digest, source_digest(&w.source, c, OPS));
		}
		r = audit();
		CHECK(result_verified(&r));
		CHECK_EQ(r.audit.verified, loads[i].key_range);
		CHECK(r.changes > 0 && r.changes == r.versions);
		CHECK_EQ(r.counts.swaps, r.changes + r.counts.conflicts);
		CHECK((r.counts.conflicts > 0) == (loads[i].key_range <= KEYS));
		CHECK((r.counts.not_found == 0) == (preloaded || loads[i].read_ratio <= 0));
	}
	end();
}

TEST_WITH(right_when_preloaded, all_right, true);
TEST_WITH(right_when_empty, all_right, false);

/* ---- faults of the store that only the audit detects ---- */

static uint64_t version_in_store(uint64_t key, uint64_t *name_p)
{
	uint64_t value = 0;

	CHECK_EQ(store_get(&w.store, key, &value), 0);
	*name_p = kv_value_name(key, value);
	return kv_name_version(*name_p);
}

/* Changes the version of a key in the store: takes back (by < 0) or repeats its last changes. */
static void shift(uint64_t key, int64_t by)
{
	uint64_t name, version = version_in_store(key, &name);

	name = by < 0 && version + (uint64_t)by == 0 ? KV_PRELOADED : name + (uint64_t)by;
	CHECK_EQ(store_put(&w.store, key, kv_value(key, name)), 0);
}

static void shifted(int64_t first, int64_t second, uint64_t undone, uint64_t redone)
{
	struct result r;

	begin(0.5, KEYS);
	run_all(OPS);
	for (uint32_t i = 0; i < CLIENTS; i++) { /* or else a rank would detect the shift at once */
		rmw_known_fini(&w.known[i]);
		CHECK_EQ(rmw_known_init(&w.known[i], KEYS), 0);
	}
	shift(3, first);
	shift(4, second);
	r = audit();
	CHECK_EQ(r.undone, undone);
	CHECK_EQ(r.redone, redone);
	CHECK_EQ(result_errors(&r), undone + redone);
	CHECK_EQ(result_verified(&r), !undone && !redone);
	end();
}

TEST(lost_and_doubled_changes)
{
	shifted(0, 0, 0, 0);
	shifted(-1, 0, 1, 0);
	shifted(0, 1, 0, 1);
	shifted(-2, 5, 0, 3);
	shifted(-1, 1, 0, 1); /* as many changes lost as carried out twice */
}

/* ---- replies ---- */

static const struct check_counts *const counts = &w.check[0].n;

/* Begins the next change of client 0: its get is answered. Returns its swap. */
static struct kv_req change(void)
{
	struct kv_req req = open_next(0);

	CHECK_EQ(req.type, KV_GET);
	CHECK(!answer(0, &req));
	return next_swap(0);
}

static uint64_t value_of(uint32_t writer, uint64_t version)
{
	return kv_value(0, kv_name(writer, version));
}

/* A job of one key, in which client 0 has made two changes. */
static void begin_one(void)
{
	begin(0, 1);
	for (int i = 0; i < 2; i++) {
		struct kv_req swap = change();

		CHECK(answer(0, &swap));
	}
	CHECK_EQ(check_errors(counts), 0);
}

/* Gives this reply to the get of a change. @counter must increase; NULL: a swap must follow. */
static void get_with(enum kv_type type, uint64_t value, const uint64_t *counter)
{
	struct kv_req req;

	begin_one();
	req = open_next(0);
	CHECK_EQ(reply(0, req.seq, kv_reply(&req, type, value)), counter != NULL);
	CHECK_EQ(check_errors(counts), counter != NULL);
	CHECK(!counter || *counter == 1);
	CHECK_EQ(has_swap(0), counter == NULL);
}

TEST(replies_to_gets)
{
	get_with(KV_GET_OK, value_of(0, 2), NULL);
	get_with(KV_GET_OK, value_of(1, 3), NULL);
	get_with(KV_GET_OK, value_of(0, 1), &counts->stale);
	get_with(KV_GET_OK, value_of(1, 2), &counts->invented); /* version 2 is client 0's */
	get_with(KV_GET_OK, value_of(CLIENTS, 3), &counts->invented);
	get_with(KV_GET_OK, value_of(1, CLIENTS * OPS), NULL);
	get_with(KV_GET_OK, value_of(1, CLIENTS * OPS + 1), &counts->invented);
	get_with(KV_GET_OK, value_of(1, 0), &counts->invented);
	get_with(KV_GET_OK, kv_value(0, KV_PRELOADED), &counts->forgotten);
	get_with(KV_NOT_FOUND, 0, &counts->forgotten);
	get_with(KV_NOT_FOUND, 1, &counts->wrong_value);
	get_with(KV_PUT_OK, 0, &counts->wrong_value);
	get_with(KV_SWAP_OK, value_of(0, 3), &counts->wrong_value);
	get_with(KV_ERROR, 5, &counts->refused);
	end();
}

/*
 * Gives this reply to the swap to version 3. @counter must increase; NULL: the reply is right, and
 * a failed swap must be tried again.
 */
static void swap_with(enum kv_type type, uint64_t value, const uint64_t *counter)
{
	struct kv_req req;

	begin_one();
	req = change();
	CHECK_EQ(req.value, value_of(0, 3));
	CHECK_EQ(reply(0, req.seq, kv_reply(&req, type, value)), type != KV_SWAP_NO || counter);
	CHECK_EQ(check_errors(counts), counter != NULL);
	CHECK(!counter || *counter == 1);
	CHECK_EQ(has_swap(0), type == KV_SWAP_NO && !counter);
}

TEST(replies_to_swaps)
{
	swap_with(KV_SWAP_OK, value_of(0, 3), NULL);
	swap_with(KV_SWAP_OK, value_of(0, 4), &counts->wrong_value);
	swap_with(KV_SWAP_NO, value_of(1, 3), NULL);
	swap_with(KV_SWAP_NO, value_of(1, 4), NULL);
	swap_with(KV_SWAP_NO, value_of(0, 2), &counts->wrong_value); /* the expected version */
	swap_with(KV_SWAP_NO, value_of(0, 1), &counts->stale);
	swap_with(KV_SWAP_NO, value_of(CLIENTS, 3), &counts->invented);
	swap_with(KV_SWAP_NO, kv_value(0, KV_PRELOADED), &counts->forgotten);
	swap_with(KV_NOT_FOUND, 0, &counts->forgotten);
	swap_with(KV_NOT_FOUND, 1, &counts->wrong_value);
	swap_with(KV_GET_OK, value_of(0, 2), &counts->wrong_value);
	swap_with(KV_ERROR, 5, &counts->refused);
	end();
}

/* A swap that succeeds although its version, or another value of that version, is known. */
TEST(swaps_that_should_have_failed)
{
	struct kv_req first, second;

	begin_one();
	first = open_next(0);
	second = open_next(0);
	CHECK(!answer(0, &first) && !answer(0, &second)); /* both swaps are to version 2 */
	first = next_swap(0);
	CHECK(answer(0, &first));
	second = next_swap(0);
	CHECK(reply(0, second.seq, kv_reply(&second, KV_SWAP_OK, second.value)));
	CHECK_EQ(counts->stale, 1);

	begin_one();
	first = change();
	second = open_next(0);
	CHECK(!reply(0, second.seq, kv_reply(&second, KV_GET_OK, value_of(1, 3))));
	CHECK(reply(0, first.seq, kv_reply(&first, KV_SWAP_OK, first.value)));
	CHECK_EQ(counts->invented, 1);
	end();
}

/* A second reply to a get is not mistaken for the reply to the swap. */
TEST(replies_twice)
{
	struct kv_req get, swap;

	begin_one();
	get = open_next(0);
	CHECK(!answer(0, &get));
	CHECK(!answer(0, &get));
	CHECK_EQ(counts->duplicated, 1);
	swap = next_swap(0);
	CHECK(swap.seq != get.seq);
	CHECK(answer(0, &swap));
	CHECK(!answer(0, &swap));
	CHECK_EQ(counts->duplicated, 2);
	end();
}

/* An operation that is open at the end of a run is lost. The next run does not send its swap. */
TEST(ends_with_a_swap)
{
	struct kv_req get;

	begin_one();
	get = open_next(0);
	CHECK(!answer(0, &get));
	check_finish(&w.check[0], false);
	CHECK_EQ(counts->lost, 1);
	CHECK_EQ(w.check[0].doubtful, 1);
	check_restart(&w.check[0], 1);
	rmw_restart(&w.rmw[0]);
	CHECK(!has_swap(0));
	end();
}
