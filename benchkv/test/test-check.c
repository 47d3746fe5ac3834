/* SPDX-License-Identifier: MIT */
/* The checker must detect every error. Most cases make the replies one by one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "check.h"
#include "puts.h"
#include "stop.h"
#include "store.h"

#define KEYS 4096
#define DEPTH 8
#define FAR 65536 /* operations of a client; more than any case makes */

static const struct workload load = {.key_range = KEYS, .read_ratio = 0.5, .seed = 7};
static const struct placement place = {.ranks = 2, .shards = 2};

/* A client, and servers that answer it, each with its own store. */
static struct world {
	struct source source;
	struct stream stream;
	struct checker check;
	struct store stores[2][2];
	uint64_t next;
} w;

static const struct check_counts *const counts = &w.check.n;

/* Begins with a client that has made no request. */
static void begin(bool preloaded)
{
	const struct history attr = {.source = &w.source,
		.client = 1,
		.writers = 4,
		.preloaded = preloaded};

	check_fini(&w.check);
	w.next = 0;
	source_init(&w.source, &load);
	stream_init(&w.stream, &w.source, &place, 1);
	CHECK_EQ(check_init(&w.check, &attr, &w.stream, 0, DEPTH), 0);
	for (uint32_t i = 0; i < 4; i++) {
		struct store *store = &w.stores[i / 2][i % 2];

		store_fini(store);
		CHECK_EQ(store_init(store, &place, i / 2, i % 2, 16), 0);
		CHECK_EQ(preloaded ? store_preload(store, KEYS) : 0, 0);
	}
}

/* The next operation from @i on that is a put (or a get) of this key; KEYS: of any key. */
static uint64_t find_op(uint64_t i, bool put, uint64_t key)
{
	for (;; i++) {
		const struct op *op = stream_at(&w.stream, i);

		CHECK(i < 1u << 20);
		if (op->put == put && (key == KEYS || op->key == key))
			return i;
	}
}

/* Two open requests for the same key cross if one of them is a put. */
TEST(requests_that_may_cross)
{
	for (int kinds = 0; kinds < 4; kinds++) {
		struct kv_req req[3];
		uint64_t first;

		begin(true);
		first = find_op(0, kinds & 1, KEYS);
		check_open(&w.check, first, 0, &req[0]);
		CHECK(!check_crosses(&w.check, &req[0]));
		check_open(&w.check, find_op(first + 1, kinds & 2, req[0].key), 0, &req[1]);
		CHECK_EQ(check_crosses(&w.check, &req[1]), kinds != 0);
		check_open(&w.check, find_op(first + 1, true, (req[0].key + 1) % KEYS), 0, &req[2]);
		CHECK(!check_crosses(&w.check, &req[2]));
		check_cancel(&w.check, &req[0]);
		CHECK(!check_crosses(&w.check, &req[1]));
	}
}

static struct kv_req open_next(void)
{
	struct kv_req req;

	check_open(&w.check, w.next, 1000, &req);
	check_sent(&w.check, &req);
	w.next++;
	return req;
}

static struct kv_resp serve(const struct kv_req *req)
{
	return store_serve(&w.stores[req->rank][place_shard(&place, req->key)], req);
}

static bool reply(uint32_t token, struct kv_resp resp)
{
	uint64_t start;
	bool closed = check_reply(&w.check, token, &resp, &start);

	CHECK(!closed || start == 1000);
	return closed;
}

/* Gives the checker the right reply to an open request. */
static void answer(const struct kv_req *req)
{
	CHECK(reply(req->seq, serve(req)));
}

/* Opens the next operation of this type; the operations before it are completed. */
static struct kv_req open_type(enum kv_type type)
{
	struct kv_req req = open_next();

	for (; req.type != type; req = open_next())
		answer(&req);
	return req;
}

static void all_right(bool preloaded)
{
	struct kv_req req[DEPTH];
	struct kv_resp resp[DEPTH];

	begin(preloaded);
	for (uint32_t round = 0; round < 10000; round++) {
		for (uint32_t i = 0; i < DEPTH; i++)
			req[i] = open_next();
		CHECK_EQ(check_open_count(&w.check), DEPTH);
		for (uint32_t i = 0; i < DEPTH; i++)
			resp[i] = serve(&req[i]);
		for (uint32_t i = DEPTH; i-- > 0;) /* in another order */
			CHECK(reply(req[i].seq, resp[i]));
	}
	check_finish(&w.check, false);
	CHECK_EQ(counts->ops, 10000 * DEPTH);
	CHECK_EQ(counts->verified, 10000 * DEPTH);
	CHECK_EQ(check_errors(counts), 0);
	CHECK((counts->not_found == 0) == preloaded);
	CHECK(counts->remote > 0 && counts->remote < counts->ops);
	CHECK_EQ(w.check.digest, source_digest(&w.source, 1, 10000 * DEPTH));
}

TEST_WITH(right_when_preloaded, all_right, true);
TEST_WITH(right_when_empty, all_right, false);

/* In a run that is stopped, the open operations are neither verified nor errors. */
TEST(stopped_is_not_lost)
{
	struct kv_req a;

	begin(true);
	a = open_next();
	open_next();
	answer(&a);
	check_finish(&w.check, true);
	CHECK_EQ(counts->unfinished, 1);
	CHECK_EQ(check_errors(counts), 0);
	CHECK_EQ(counts->verified + 1, counts->ops);
	CHECK_EQ(check_open_count(&w.check), 0);
}

TEST(sees_loss)
{
	struct kv_req a, b;

	begin(true);
	a = open_next();
	b = open_next();
	answer(&a);
	check_finish(&w.check, false);
	CHECK_EQ(counts->lost, 1);
	CHECK_EQ(check_errors(counts), 1);
	CHECK_EQ(counts->verified + 1, counts->ops);
	CHECK(w.check.digest != source_digest(&w.source, 1, 2));
	CHECK(!reply(b.seq, serve(&b))); /* too late */
	CHECK_EQ(counts->duplicated, 1);
}

TEST(sees_duplicates)
{
	struct kv_req a, b;

	begin(true);
	a = open_next();
	answer(&a);
	CHECK(!reply(a.seq, serve(&a)));
	CHECK_EQ(counts->duplicated, 1);
	b = open_next(); /* in the same slot, with another token (seq) */
	CHECK(a.seq != b.seq);
	CHECK(!reply(a.seq, serve(&a)));
	CHECK_EQ(counts->duplicated, 2);
	answer(&b);
	CHECK_EQ(counts->verified, 2);
	CHECK(!reply(UINT32_MAX, serve(&b)));
	CHECK_EQ(counts->duplicated, 3);
}

TEST(sees_misdelivery)
{
	struct kv_req a, b;
	struct kv_resp of_a, of_b, other;

	begin(true);
	a = open_next();
	b = open_next();
	of_a = serve(&a);
	of_b = serve(&b);
	CHECK(reply(a.seq, of_b)); /* swapped */
	CHECK(reply(b.seq, of_a));
	CHECK_EQ(counts->misdelivered, 2);
	CHECK_EQ(counts->verified, 0);
	a = open_next();
	other = serve(&a);
	other.origin++; /* the same token, but of another client */
	CHECK(reply(a.seq, other));
	CHECK_EQ(counts->misdelivered, 3);
	CHECK_EQ(check_errors(counts), 3);
}

TEST(sees_wrong_puts)
{
	struct kv_req put;
	struct kv_resp resp;

	begin(true);
	put = open_type(KV_PUT);
	resp = serve(&put);
	resp.value ^= 1;
	CHECK(reply(put.seq, resp));
	put = open_type(KV_PUT);
	resp = serve(&put);
	resp.type = KV_GET_OK;
	CHECK(reply(put.seq, resp));
	put = open_type(KV_PUT);
	resp = serve(&put);
	resp.type = 0;
	CHECK(reply(put.seq, resp));
	CHECK_EQ(counts->wrong_value, 3);
	CHECK_EQ(check_errors(counts), 3);
}

/* Makes a get with this reply, and checks that the reply increases @count. */
static void get_with(enum kv_type type, uint64_t (*make)(uint64_t key), const uint64_t *count)
{
	struct kv_req get = open_type(KV_GET);
	uint64_t before = *count;

	CHECK(reply(get.seq, kv_reply(&get, type, make(get.key))));
	CHECK_EQ(*count, before + 1);
}

static uint64_t itself(uint64_t key)
{
	return key;
}

static uint64_t another(uint64_t key)
{
	return key + 1;
}

static uint64_t of_other_key(uint64_t key)
{
	return kv_value(key + 1, KV_PRELOADED);
}

static uint64_t preloaded(uint64_t key)
{
	return kv_value(key, KV_PRELOADED);
}

TEST(sees_wrong_gets)
{
	begin(true);
	get_with(KV_GET_OK, of_other_key, &counts->invented);
	get_with(KV_GET_OK, preloaded, &counts->verified);
	get_with(KV_NOT_FOUND, itself, &counts->forgotten);
	get_with(KV_NOT_FOUND, another, &counts->wrong_value);
	get_with(KV_PUT_OK, preloaded, &counts->wrong_value);
	CHECK_EQ(check_errors(counts), 4);
	begin(false);
	get_with(KV_GET_OK, preloaded, &counts->invented);
	get_with(KV_NOT_FOUND, itself, &counts->not_found);
	CHECK_EQ(check_errors(counts), 1);
}

/* A store that acknowledges every put, but stores none. */
TEST(sees_lost_puts)
{
	uint64_t puts = 0;

	begin(true);
	for (uint32_t i = 0; i < 30000; i++) {
		struct kv_req req = open_next();

		puts += req.type == KV_PUT;
		CHECK(reply(req.seq,
			req.type == KV_PUT ? kv_reply(&req, KV_PUT_OK, req.value) : serve(&req)));
	}
	/* With 4096 keys, most keys are put before they are read. */
	CHECK(counts->forgotten > 5000);
	CHECK_EQ(counts->forgotten, check_errors(counts));
	CHECK(puts > 10000);
}

/* After two runs the audit reads every key that was put. The store has lost the last puts. */
TEST(audits)
{
	const struct history_made made[4] = {[1] = {.most = 1000, .last = 1000}};
	uint32_t lost_key = UINT32_MAX, found = 0;

	begin(true);
	for (uint32_t run = 0; run < 2; run++) {
		check_restart(&w.check, run);
		w.next = 0;
		for (uint32_t i = 0; i < 1000; i++) {
			struct kv_req req = open_next();
			struct kv_resp resp = kv_reply(&req, KV_PUT_OK, req.value);

			if (run == 1 && req.type == KV_PUT && i > 990)
				lost_key = (uint32_t)req.key;
			else
				resp = serve(&req);
			CHECK(reply(req.seq, resp));
		}
		check_finish(&w.check, false);
		CHECK_EQ(counts->verified, 1000);
		CHECK_EQ(w.check.digest, source_digest(&w.source, 1, 1000));
	}
	CHECK(lost_key != UINT32_MAX);
	CHECK_EQ(check_audit(&w.check, 2, made), 0);
	w.next = 0;
	while (w.next < w.check.n_due) {
		struct kv_req req = open_next();
		uint64_t wrong = counts->stale;

		CHECK_EQ(req.type, KV_GET);
		answer(&req);
		found += req.key == lost_key && counts->stale == wrong + 1;
	}
	CHECK_EQ(found, 1);
	check_finish(&w.check, false);
	CHECK(counts->ops == w.check.n_due && w.check.n_due > 400 && w.check.n_due < 500);
	CHECK_EQ(counts->verified + counts->stale, counts->ops);
}

/* The value of the n-th put of the key by client 3. */
static uint64_t foreign(uint64_t key, uint32_t n)
{
	for (uint64_t i = 0;; i++) {
		struct op op = source_op(&w.source, 3, i);

		if (op.key == key && op.put && !n--)
			return kv_value(key, kv_name(3, i));
	}
}

/* The audit also uses the knowledge of values that were read in the runs before it. */
TEST(audit_knows_the_runs)
{
	const struct history_made made[4] = {[1] = {FAR, FAR, 0}, [3] = {FAR, FAR, 0}};
	struct kv_req put, req;

	begin(true);
	put = open_type(KV_PUT);
	answer(&put);
	do {
		req = open_type(KV_GET);
		CHECK(reply(req.seq, req.key == put.key ?
					     kv_reply(&req, KV_GET_OK, foreign(req.key, 1)) :
					     serve(&req)));
	} while (req.key != put.key);
	CHECK_EQ(check_errors(counts), 0);
	CHECK_EQ(check_audit(&w.check, 1, made), 0);
	for (w.next = 0; w.next < w.check.n_due;) {
		req = open_next();
		CHECK(reply(req.seq, req.key == put.key ?
					     kv_reply(&req, KV_GET_OK, foreign(req.key, 0)) :
					     serve(&req)));
	}
	CHECK_EQ(counts->stale, 1);
	CHECK_EQ(check_errors(counts), 1);
}

TEST(audit_counts_what_it_cannot_read)
{
	const struct history_made made[4] = {[1] = {.most = 100, .last = 100}};

	begin(true);
	for (uint32_t i = 0; i < 100; i++) {
		struct kv_req req = open_next();

		answer(&req);
	}
	CHECK_EQ(check_audit(&w.check, 1, made), 0);
	CHECK(w.check.n_due > 10);
	w.next = 0;
	open_next();
	check_finish(&w.check, false);
	CHECK_EQ(counts->lost, w.check.n_due);
	CHECK_EQ(counts->ops, w.check.n_due);
}

/* A put that could not be sent was not made, so the audit does not read its key. */
TEST(cancelled_puts_are_none)
{
	struct kv_req req = {.type = 0};

	begin(true);
	while (req.type != KV_PUT) {
		check_open(&w.check, w.next, 1000, &req);
		if (req.type == KV_PUT)
			check_cancel(&w.check, &req);
		else
			check_sent(&w.check, &req);
		w.next += req.type != KV_PUT;
	}
	CHECK_EQ(counts->put_off, 1);
	check_finish(&w.check, false);
	CHECK_EQ(check_audit(&w.check, 1, (const struct history_made[4]){0}), 0);
	CHECK_EQ(w.check.n_due, 0);
}

/* ---- the audit of the next client's keys ---- */

#define OPS 3000 /* of client 2, the next client, in each of two runs */

/* The audit reads the store's values, except that one key has a wrong value. */
static struct {
	struct history_made made[4];
	uint64_t at; /* the last put of the key by client 2 */
	uint32_t key;
} a;

/* In both runs only client 2 makes puts; the client that is tested makes none. */
static void begin_audit(bool preloaded, uint64_t doubtful)
{
	memset(a.made, 0, sizeof(a.made));
	a.made[2] = (struct history_made){OPS, OPS, doubtful};
	a.made[3] = (struct history_made){FAR, FAR, 0};
	begin(preloaded);
	for (uint64_t i = 0; i < 2 * OPS; i++) {
		struct op op = source_op(&w.source, 2, i % OPS);

		op_place(&op, &place);
		if (op.put)
			store_put(&w.stores[op.rank][op.shard], op.key,
				kv_value(op.key, kv_name(2, kv_stamp(i / OPS, i % OPS))));
	}
	check_restart(&w.check, 1);
	CHECK_EQ(check_audit(&w.check, 2, a.made), 0);
	a.at = w.check.due[0];
	a.key = source_op(&w.source, 2, a.at).key;
	w.next = 0;
}

#define AS_STORED UINT64_MAX
#define NOTHING 0

/* Reads all keys. The reply for a.key has the given value. */
static void audit_all(uint64_t value)
{
	while (w.next < w.check.n_due) {
		struct kv_req req = open_next();
		struct kv_resp resp = serve(&req);

		CHECK_EQ(resp.type, KV_GET_OK);
		if (value != AS_STORED && req.key == a.key)
			resp = value == NOTHING ? kv_reply(&req, KV_NOT_FOUND, req.key) :
						  kv_reply(&req, KV_GET_OK, value);
		CHECK(reply(req.seq, resp));
	}
	check_finish(&w.check, false);
}

/* Sets a.key to a key that client 2 has put twice. Returns the value of an earlier put of it. */
static uint64_t earlier(uint32_t run)
{
	for (uint32_t j = 0; j < w.check.n_next; j++) {
		uint32_t key = source_op(&w.source, 2, w.check.due[j]).key;

		for (uint64_t i = 0; i < w.check.due[j]; i++) {
			struct op op = source_op(&w.source, 2, i);

			a.key = key;
			if (op.key == key && op.put)
				return kv_value(key, kv_name(2, kv_stamp(run, i)));
		}
	}
	CHECK(!"no key was put twice");
	return 0;
}

TEST(audit_reads_the_next)
{
	uint32_t keys;

	begin_audit(true, 0);
	CHECK_EQ(puts_count(&w.source, 2, 0, OPS, &keys), 0);
	CHECK(w.check.next == 2 && w.check.n_due == keys && keys > OPS / 4);
	audit_all(AS_STORED);
	CHECK_EQ(counts->verified, keys);
	CHECK_EQ(check_errors(counts), 0);
}

/*
 * A key that the next client has put must not have the preloaded value, an older put, or a put of
 * an earlier run.
 */
TEST(audit_sees_the_next)
{
	begin_audit(true, 0);
	audit_all(kv_value(a.key, KV_PRELOADED));
	CHECK_EQ(counts->forgotten, 1);
	begin_audit(false, 0);
	audit_all(NOTHING);
	CHECK_EQ(counts->forgotten, 1);
	begin_audit(true, 0);
	audit_all(earlier(1));
	CHECK_EQ(counts->stale, 1);
	begin_audit(true, 0);
	audit_all(kv_value(a.key, kv_name(2, kv_stamp(0, a.at))));
	CHECK_EQ(counts->stale, 1);
	begin_audit(true, 0);
	audit_all(foreign(a.key, 0)); /* in the first run */
	CHECK_EQ(counts->stale, 1);
	begin_audit(true, 0);
	audit_all(kv_value(a.key, kv_name(2, kv_stamp(1, OPS + 1))));
	CHECK_EQ(counts->invented, 1);
}

/*
 * A put that was not acknowledged may be the last one, so no stored value is an error.
 */
TEST(audit_knows_of_doubt)
{
	begin_audit(true, 1);
	audit_all(kv_value(a.key, KV_PRELOADED));
	CHECK_EQ(check_errors(counts), 0);
	begin_audit(false, 1);
	audit_all(NOTHING);
	CHECK_EQ(check_errors(counts), 0);
	begin_audit(true, 1);
	audit_all(earlier(1));
	CHECK_EQ(check_errors(counts), 0);
}

/*
 * A put that is refused, or has no reply, is doubtful: what is later read of its key is not counted
 * as another error.
 */
TEST(doubts_what_failed)
{
	for (int refused = 0; refused < 2; refused++) {
		const struct history_made made[4] = {[1] = {FAR, FAR, 1}};
		struct kv_req put, get;
		uint64_t before;

		begin(true);
		put = open_type(KV_PUT);
		if (refused)
			CHECK(reply(put.seq, kv_reply(&put, KV_ERROR, ECONNRESET)));
		check_finish(&w.check, false);
		CHECK_EQ(w.check.doubtful, 1);
		CHECK_EQ(counts->lost + counts->refused, 1);
		before = check_errors(counts);
		check_restart(&w.check, 1);
		w.next = 0;
		do {
			get = open_type(KV_GET);
			answer(&get);
		} while (get.key != put.key && w.next < 3 * KEYS);
		CHECK_EQ(get.key, put.key);
		CHECK_EQ(check_errors(counts) + before, 1);
		CHECK_EQ(check_audit(&w.check, 2, made), 0);
	}
}

/*
 * Two clients that read each other's keys agree, unless one of them reads another value or fewer
 * keys.
 */
TEST(views_agree)
{
	const struct history_made made[2] = {{500, 500, 0}, {500, 500, 0}};
	const struct placement one = {.ranks = 1, .shards = 1};

	for (int fault = 0; fault < 3; fault++) {
		struct source source;
		struct stream stream[2];
		struct checker check[2];
		AT_END(store_fini) struct store store;
		uint64_t start;

		source_init(&source, &load);
		CHECK_EQ(store_init(&store, &one, 0, 0, KEYS), 0);
		CHECK_EQ(store_preload(&store, KEYS), 0);
		for (uint32_t c = 0; c < 2; c++) {
			const struct history attr = {.source = &source,
				.client = c,
				.writers = 2,
				.preloaded = true};

			stream_init(&stream[c], &source, &one, c);
			CHECK_EQ(check_init(&check[c], &attr, &stream[c], 0, 1), 0);
		}
		for (uint64_t i = 0; i < 1000; i++) {
			struct checker *c = &check[i % 2];
			struct kv_resp resp;
			struct kv_req req;

			check_open(c, i / 2, 1000, &req);
			check_sent(c, &req);
			resp = store_serve(&store, &req);
			CHECK(check_reply(c, req.seq, &resp, &start));
		}
		for (uint32_t c = 0; c < 2; c++) {
			CHECK_EQ(check_audit(&check[c], 1, made), 0);
			for (uint64_t i = 0; i < check[c].n_due - (fault == 1 && c); i++) {
				struct kv_resp resp;
				struct kv_req req;

				check_open(&check[c], i, 1000, &req);
				resp = store_serve(&store, &req);
				if (fault == 2 && c && i == check[c].n_due - 1)
					resp.value = kv_value(req.key, kv_name(0, 0));
				check_reply(&check[c], req.seq, &resp, &start);
			}
			check_finish(&check[c], false);
		}
		CHECK_EQ(check[0].views + check[1].views == 0, !fault);
		CHECK_EQ(check_errors(&check[0].n), 0);
		CHECK_EQ(check_errors(&check[1].n) == 0, !fault);
		for (uint32_t c = 0; c < 2; c++)
			check_fini(&check[c]);
	}
}

TEST(audit_window)
{
	CHECK_EQ(check_window(0), 0);
	CHECK_EQ(check_window(CHECK_WINDOW), 0);
	CHECK_EQ(check_window(CHECK_WINDOW + 5ull), 5);
	CHECK_EQ(CHECK_WINDOW, 2097152);
}

/* A put must be listed if no later put has its key. */
static bool is_last(const struct source *src, uint64_t op, uint64_t end)
{
	uint64_t key = source_op(src, 0, op).key;

	for (uint64_t i = op + 1; i < end; i++) {
		struct op later = source_op(src, 0, i);

		if (later.put && later.key == key)
			return false;
	}
	return source_op(src, 0, op).put;
}

/* The list and the count of a client's puts are compared with a third computation. */
TEST(puts_are_listed)
{
	static const uint64_t ranges[] = {1, 3, KEYS, 1ull << 26, (1ull << 26) + 1, 1ull << 32};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		const struct workload some = {.key_range = ranges[i],
			.read_ratio = 0.5,
			.zipf_theta = ranges[i] > KEYS ? 1.5 : 0, /* keys repeat */
			.seed = 3};
		uint32_t n, want = 0, counted;
		struct source src;
		uint64_t *ops;

		source_init(&src, &some);
		CHECK_EQ(puts_last(&src, 0, 100, 1500, &ops, &n), 0);
		CHECK_EQ(puts_count(&src, 0, 100, 1500, &counted), 0);
		for (uint64_t op = 1500; op-- > 100;) {
			if (is_last(&src, op, 1500))
				CHECK_EQ(ops[want++], op);
		}
		CHECK_EQ(n, want);
		CHECK_EQ(counted, want);
		free(ops);
		CHECK_EQ(puts_last(&src, 3, 5, 5, &ops, &n), 0);
		CHECK_EQ(n, 0);
		free(ops);
		CHECK_EQ(puts_count(&src, 3, 5, 5, &n), 0);
		CHECK_EQ(n, 0);
	}
}

/* A program that is stopped does not wait for a long list. */
TEST(puts_are_not_listed_after_a_stop)
{
	const struct workload some = {.key_range = KEYS};
	struct source src;
	uint64_t *ops;
	uint32_t n;

	source_init(&src, &some);
	atomic_store(&stop_signal, STOP_FAILED);
	CHECK_EQ(puts_last(&src, 0, 0, UINT64_MAX, &ops, &n), -EINTR);
	CHECK_EQ(puts_count(&src, 0, 0, 1500, &n), -EINTR);
	atomic_store(&stop_signal, 0);
}

TEST(counts_refusals)
{
	struct kv_req req;

	begin(true);
	req = open_next();
	CHECK(reply(req.seq, kv_reply(&req, KV_ERROR, ECONNRESET)));
	CHECK_EQ(counts->refused, 1);
	CHECK_EQ(w.check.first_errno, ECONNRESET);
	CHECK_EQ(counts->verified, 0);
	req = open_next();
	check_cancel(&w.check, &req);
	CHECK_EQ(counts->ops, 1);
	CHECK_EQ(counts->put_off, 1);
	CHECK_EQ(check_open_count(&w.check), 0);
}
