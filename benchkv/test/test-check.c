/* SPDX-License-Identifier: MIT */
/* The checker: does it see what must not happen? Replies are made here, one by one. */
#include <errno.h>

#include "base/test.h"
#include "check.h"
#include "store.h"

#define KEYS 4096
#define DEPTH 8

static const struct workload load = {.key_range = KEYS, .read_ratio = 0.5, .seed = 7};
static const struct placement place = {.ranks = 2, .shards = 2};

/* A client, and servers that answer it, each with its own store. */
struct world {
	struct source source;
	struct stream stream;
	struct checker check;
	struct store stores[2][2];
	uint64_t next;
};

static void world_init(struct world *w, bool preloaded)
{
	const struct history_attr attr = {.source = &w->source,
		.stream = &w->stream,
		.writers = 4,
		.preloaded = preloaded};

	w->next = 0;
	source_init(&w->source, &load);
	CHECK_EQ(stream_init(&w->stream, &w->source, &place, 1), 0);
	CHECK_EQ(check_init(&w->check, &attr, 0, DEPTH), 0);
	for (uint32_t r = 0; r < 2; r++) {
		for (uint32_t s = 0; s < 2; s++) {
			CHECK_EQ(store_init(&w->stores[r][s], &place, r, s, 16), 0);
			if (preloaded)
				CHECK_EQ(store_preload(&w->stores[r][s], KEYS), 0);
		}
	}
}

static void world_fini(struct world *w)
{
	for (uint32_t i = 0; i < 4; i++)
		store_fini(&w->stores[i / 2][i % 2]);
	check_fini(&w->check);
	stream_fini(&w->stream);
}

static struct kv_req open_next(struct world *w)
{
	struct kv_req req;

	check_open(&w->check, w->next, 1000, &req);
	check_sent(&w->check, w->next++, &req);
	return req;
}

static struct kv_resp serve(struct world *w, const struct kv_req *req)
{
	return store_serve(&w->stores[req->rank][place_shard(&place, req->key)], req);
}

static bool reply(struct world *w, uint32_t token, struct kv_resp resp)
{
	uint64_t start;
	bool closed = check_reply(&w->check, token, &resp, &start);

	CHECK(!closed || start == 1000);
	return closed;
}

/* The next operation that is a put, or a get; those before it are done. */
static struct kv_req open_type(struct world *w, enum kv_type type)
{
	struct kv_req req = open_next(w);

	while (req.type != type) {
		CHECK(reply(w, req.seq, serve(w, &req)));
		req = open_next(w);
	}
	return req;
}

static void all_right(bool preloaded)
{
	struct world w;
	struct kv_req req[DEPTH];
	struct kv_resp resp[DEPTH];

	world_init(&w, preloaded);
	for (uint32_t round = 0; round < 10000; round++) {
		for (uint32_t i = 0; i < DEPTH; i++)
			req[i] = open_next(&w);
		CHECK_EQ(check_open_count(&w.check), DEPTH);
		for (uint32_t i = 0; i < DEPTH; i++)
			resp[i] = serve(&w, &req[i]);
		for (uint32_t i = DEPTH; i-- > 0;) /* in another order */
			CHECK(reply(&w, req[i].seq, resp[i]));
	}
	check_finish(&w.check, false);
	CHECK_EQ(w.check.n.ops, 10000 * DEPTH);
	CHECK_EQ(w.check.n.verified, 10000 * DEPTH);
	CHECK_EQ(check_errors(&w.check.n), 0);
	CHECK((w.check.n.not_found == 0) == preloaded);
	CHECK(w.check.n.remote > 0 && w.check.n.remote < w.check.n.ops);
	CHECK_EQ(w.check.digest, stream_digest(&w.stream, 10000 * DEPTH));
	world_fini(&w);
}

static void right_when_preloaded(void)
{
	all_right(true);
}

static void right_when_empty(void)
{
	all_right(false);
}

/* A run that is stopped loses nothing: what is open then is neither verified nor an error. */
static void stopped_is_not_lost(void)
{
	struct world w;
	struct kv_req a;

	world_init(&w, true);
	a = open_next(&w);
	open_next(&w);
	CHECK(reply(&w, a.seq, serve(&w, &a)));
	check_finish(&w.check, true);
	CHECK_EQ(w.check.n.unfinished, 1);
	CHECK_EQ(check_errors(&w.check.n), 0);
	CHECK_EQ(w.check.n.verified + 1, w.check.n.ops);
	CHECK_EQ(check_open_count(&w.check), 0);
	world_fini(&w);
}

static void sees_loss(void)
{
	struct world w;
	struct kv_req a, b;

	world_init(&w, true);
	a = open_next(&w);
	b = open_next(&w);
	CHECK(reply(&w, a.seq, serve(&w, &a)));
	check_finish(&w.check, false);
	CHECK_EQ(w.check.n.lost, 1);
	CHECK_EQ(check_errors(&w.check.n), 1);
	CHECK_EQ(w.check.n.verified + 1, w.check.n.ops);
	CHECK(w.check.digest != stream_digest(&w.stream, 2));
	CHECK(!reply(&w, b.seq, serve(&w, &b))); /* too late */
	CHECK_EQ(w.check.n.duplicated, 1);
	world_fini(&w);
}

static void sees_duplicates(void)
{
	struct world w;
	struct kv_req a, b;

	world_init(&w, true);
	a = open_next(&w);
	CHECK(reply(&w, a.seq, serve(&w, &a)));
	CHECK(!reply(&w, a.seq, serve(&w, &a)));
	CHECK_EQ(w.check.n.duplicated, 1);
	b = open_next(&w); /* in the same slot: another name */
	CHECK(a.seq != b.seq);
	CHECK(!reply(&w, a.seq, serve(&w, &a)));
	CHECK_EQ(w.check.n.duplicated, 2);
	CHECK(reply(&w, b.seq, serve(&w, &b)));
	CHECK_EQ(w.check.n.verified, 2);
	CHECK(!reply(&w, UINT32_MAX, serve(&w, &b)));
	CHECK_EQ(w.check.n.duplicated, 3);
	world_fini(&w);
}

static void sees_misdelivery(void)
{
	struct world w;
	struct kv_req a, b;
	struct kv_resp of_a, of_b, other;

	world_init(&w, true);
	a = open_next(&w);
	b = open_next(&w);
	of_a = serve(&w, &a);
	of_b = serve(&w, &b);
	CHECK(reply(&w, a.seq, of_b)); /* swapped */
	CHECK(reply(&w, b.seq, of_a));
	CHECK_EQ(w.check.n.misdelivered, 2);
	CHECK_EQ(w.check.n.verified, 0);
	a = open_next(&w);
	other = serve(&w, &a);
	other.origin++; /* the same request name, of another client */
	CHECK(reply(&w, a.seq, other));
	CHECK_EQ(w.check.n.misdelivered, 3);
	CHECK_EQ(check_errors(&w.check.n), 3);
	world_fini(&w);
}

static void sees_wrong_puts(void)
{
	struct world w;
	struct kv_req put;
	struct kv_resp resp;

	world_init(&w, true);
	put = open_type(&w, KV_PUT);
	resp = serve(&w, &put);
	resp.value ^= 1;
	CHECK(reply(&w, put.seq, resp));
	put = open_type(&w, KV_PUT);
	resp = serve(&w, &put);
	resp.type = KV_GET_OK;
	CHECK(reply(&w, put.seq, resp));
	put = open_type(&w, KV_PUT);
	resp = serve(&w, &put);
	resp.type = 0;
	CHECK(reply(&w, put.seq, resp));
	CHECK_EQ(w.check.n.wrong_value, 3);
	CHECK_EQ(check_errors(&w.check.n), 3);
	world_fini(&w);
}

/* The reply to the next get, and what it counts as. */
static void get_with(struct world *w, enum kv_type type, uint64_t (*make)(uint64_t key),
	const uint64_t *count)
{
	struct kv_req get = open_type(w, KV_GET);
	uint64_t before = *count;

	CHECK(reply(w, get.seq, kv_reply(&get, type, make(get.key))));
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

static void sees_wrong_gets(void)
{
	struct world w;
	const struct check_counts *n = &w.check.n;

	world_init(&w, true);
	get_with(&w, KV_GET_OK, of_other_key, &n->invented);
	get_with(&w, KV_GET_OK, preloaded, &n->verified);
	get_with(&w, KV_NOT_FOUND, itself, &n->forgotten);
	get_with(&w, KV_NOT_FOUND, another, &n->wrong_value);
	get_with(&w, KV_PUT_OK, preloaded, &n->wrong_value);
	CHECK_EQ(check_errors(n), 4);
	world_fini(&w);
	world_init(&w, false);
	get_with(&w, KV_GET_OK, preloaded, &n->invented);
	get_with(&w, KV_NOT_FOUND, itself, &n->not_found);
	CHECK_EQ(check_errors(n), 1);
	world_fini(&w);
}

/* A store that acknowledges every put, and stores none. */
static void sees_lost_puts(void)
{
	struct world w;
	uint64_t puts = 0;

	world_init(&w, true);
	for (uint32_t i = 0; i < 30000; i++) {
		struct kv_req req = open_next(&w);

		puts += req.type == KV_PUT;
		CHECK(reply(&w, req.seq,
			req.type == KV_PUT ? kv_reply(&req, KV_PUT_OK, req.value) :
					     serve(&w, &req)));
	}
	/* Of 4096 keys, most are put before they are read again. */
	CHECK(w.check.n.forgotten > 5000);
	CHECK_EQ(w.check.n.forgotten, check_errors(&w.check.n));
	CHECK(puts > 10000);
	world_fini(&w);
}

/* Two runs, then every key that was put is read; the store has lost one put. */
static void audits(void)
{
	uint64_t made[4] = {0, 1000, 0, 0};
	uint32_t lost_key = UINT32_MAX;
	struct world w;

	world_init(&w, true);
	for (uint32_t run = 0; run < 2; run++) {
		check_restart(&w.check, run);
		w.next = 0;
		for (uint32_t i = 0; i < 1000; i++) {
			struct kv_req req = open_next(&w);
			struct kv_resp resp = kv_reply(&req, KV_PUT_OK, req.value);

			if (run == 1 && req.type == KV_PUT && i > 990)
				lost_key = (uint32_t)req.key;
			else
				resp = serve(&w, &req);
			CHECK(reply(&w, req.seq, resp));
		}
		check_finish(&w.check, false);
		CHECK_EQ(w.check.n.verified, 1000);
		CHECK_EQ(w.check.digest, stream_digest(&w.stream, 1000));
	}
	CHECK(lost_key != UINT32_MAX);
	check_audit(&w.check, 2, made);
	w.next = 0;
	while (w.next < w.check.n_due) {
		struct kv_req req = open_next(&w);
		uint64_t wrong = w.check.n.stale;

		CHECK_EQ(req.type, KV_GET);
		CHECK(reply(&w, req.seq, serve(&w, &req)));
		if (req.key == lost_key)
			CHECK_EQ(w.check.n.stale, wrong + 1);
	}
	check_finish(&w.check, false);
	CHECK(w.check.n.ops == w.check.n_due && w.check.n_due > 400 && w.check.n_due < 500);
	CHECK_EQ(w.check.n.verified + w.check.n.stale, w.check.n.ops);
	world_fini(&w);
}

/* The value of the n-th put of the key by client 3. */
static uint64_t foreign(const struct world *w, uint64_t key, uint32_t n)
{
	for (uint64_t i = 0;; i++) {
		bool put;

		if (source_op(&w->source, 3, i, &put) == key && put && !n--)
			return kv_value(key, kv_name(3, i));
	}
}

/* What was read in the runs counts: the audit comes after all of it. */
static void audit_knows_the_runs(void)
{
	const uint64_t made[4] = {STREAM_PERIOD, STREAM_PERIOD, 0, STREAM_PERIOD};
	struct kv_req put, req;
	struct world w;

	world_init(&w, true);
	put = open_type(&w, KV_PUT);
	CHECK(reply(&w, put.seq, serve(&w, &put)));
	do {
		req = open_type(&w, KV_GET);
		CHECK(reply(&w, req.seq,
			req.key == put.key ? kv_reply(&req, KV_GET_OK, foreign(&w, req.key, 1)) :
					     serve(&w, &req)));
	} while (req.key != put.key);
	CHECK_EQ(check_errors(&w.check.n), 0);
	check_audit(&w.check, 1, made);
	for (w.next = 0; w.next < w.check.n_due;) {
		req = open_next(&w);
		CHECK(reply(&w, req.seq,
			req.key == put.key ? kv_reply(&req, KV_GET_OK, foreign(&w, req.key, 0)) :
					     serve(&w, &req)));
	}
	CHECK_EQ(w.check.n.stale, 1);
	CHECK_EQ(check_errors(&w.check.n), 1);
	world_fini(&w);
}

static void audit_counts_what_it_cannot_read(void)
{
	uint64_t made[4] = {0, 100, 0, 0};
	struct world w;

	world_init(&w, true);
	for (uint32_t i = 0; i < 100; i++) {
		struct kv_req req = open_next(&w);

		CHECK(reply(&w, req.seq, serve(&w, &req)));
	}
	check_audit(&w.check, 1, made);
	CHECK(w.check.n_due > 10);
	w.next = 0;
	open_next(&w);
	check_finish(&w.check, false);
	CHECK_EQ(w.check.n.lost, w.check.n_due);
	CHECK_EQ(w.check.n.ops, w.check.n_due);
	world_fini(&w);
}

/* An operation that could not be sent is none: its value may not be found. */
static void cancelled_puts_are_none(void)
{
	struct world w;
	struct kv_req req = {.type = 0};

	world_init(&w, true);
	while (req.type != KV_PUT) {
		check_open(&w.check, w.next, 1000, &req);
		if (req.type == KV_PUT)
			check_cancel(&w.check, &req);
		else
			check_sent(&w.check, w.next, &req);
		w.next += req.type != KV_PUT;
	}
	CHECK_EQ(w.check.n.put_off, 1);
	check_finish(&w.check, false);
	check_audit(&w.check, 1, (const uint64_t[4]){0});
	CHECK_EQ(w.check.n_due, 0);
	world_fini(&w);
}

static void counts_refusals(void)
{
	struct world w;
	struct kv_req req;

	world_init(&w, true);
	req = open_next(&w);
	CHECK(reply(&w, req.seq, kv_reply(&req, KV_ERROR, ECONNRESET)));
	CHECK_EQ(w.check.n.refused, 1);
	CHECK_EQ(w.check.first_errno, ECONNRESET);
	CHECK_EQ(w.check.n.verified, 0);
	req = open_next(&w);
	check_cancel(&w.check, &req);
	CHECK_EQ(w.check.n.ops, 1);
	CHECK_EQ(w.check.n.put_off, 1);
	CHECK_EQ(check_open_count(&w.check), 0);
	world_fini(&w);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(right_when_preloaded),
		TEST(right_when_empty),
		TEST(stopped_is_not_lost),
		TEST(sees_loss),
		TEST(sees_duplicates),
		TEST(sees_misdelivery),
		TEST(sees_wrong_puts),
		TEST(sees_wrong_gets),
		TEST(sees_lost_puts),
		TEST(audits),
		TEST(audit_knows_the_runs),
		TEST(audit_counts_what_it_cannot_read),
		TEST(cancelled_puts_are_none),
		TEST(counts_refusals),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
