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
	struct stream stream;
	struct checker check;
	struct store stores[2][2];
	uint64_t next;
};

static void world_init(struct world *w, bool preloaded)
{
	w->next = 0;
	CHECK_EQ(stream_init(&w->stream, &load, &place, 1), 0);
	CHECK_EQ(check_init(&w->check, &w->stream, 4, 0, DEPTH, KEYS, preloaded), 0);
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

	check_open(&w->check, w->next++, 1000, &req);
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

	world_init(&w, preloaded);
	for (uint32_t round = 0; round < 10000; round++) {
		for (uint32_t i = 0; i < DEPTH; i++)
			req[i] = open_next(&w);
		CHECK_EQ(check_open_count(&w.check), DEPTH);
		for (uint32_t i = DEPTH; i-- > 0;) /* in another order */
			CHECK(reply(&w, req[i].seq, serve(&w, &req[i])));
	}
	check_finish(&w.check);
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

static void sees_loss(void)
{
	struct world w;
	struct kv_req a, b;

	world_init(&w, true);
	a = open_next(&w);
	b = open_next(&w);
	CHECK(reply(&w, a.seq, serve(&w, &a)));
	check_finish(&w.check);
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

/* An operation of the stream that is, or is not, a put of this key. */
static uint64_t find_op(const struct stream *s, uint64_t key, bool put_of_key)
{
	for (uint64_t i = 0; i < STREAM_PERIOD; i++) {
		const struct op *op = stream_at(s, i);

		if ((op->put && op->key == key) == put_of_key)
			return i;
	}
	return UINT64_MAX;
}

static void get_with(struct world *w, uint64_t (*make)(struct world *, uint64_t key), bool right)
{
	struct kv_req get = open_type(w, KV_GET);
	struct kv_resp resp = kv_reply(&get, KV_GET_OK, make(w, get.key));
	uint64_t wrong = w->check.n.wrong_value;

	CHECK(reply(w, get.seq, resp));
	CHECK_EQ(w->check.n.wrong_value - wrong, !right);
}

static uint64_t of_other_key(struct world *w, uint64_t key)
{
	return kv_value(key + 1, KV_PRELOADER, 0);
}

static uint64_t of_no_writer(struct world *w, uint64_t key)
{
	return kv_value(key, 4, 0);
}

static uint64_t of_other_writer(struct world *w, uint64_t key)
{
	return kv_value(key, 3, 12345);
}

static uint64_t own_put(struct world *w, uint64_t key)
{
	return kv_value(key, 1, find_op(&w->stream, key, true));
}

static uint64_t not_own_put(struct world *w, uint64_t key)
{
	return kv_value(key, 1, find_op(&w->stream, key, false));
}

static uint64_t preloaded(struct world *w, uint64_t key)
{
	return kv_value(key, KV_PRELOADER, 0);
}

static void sees_wrong_gets(void)
{
	struct world w;

	world_init(&w, true);
	get_with(&w, of_other_key, false);
	get_with(&w, of_no_writer, false);
	get_with(&w, of_other_writer, true);
	get_with(&w, own_put, true);
	get_with(&w, not_own_put, false);
	get_with(&w, preloaded, true);
	world_fini(&w);
	world_init(&w, false);
	get_with(&w, preloaded, false);
	world_fini(&w);
}

static void sees_what_vanished(void)
{
	struct world w;
	struct kv_req get;

	world_init(&w, true);
	get = open_type(&w, KV_GET);
	CHECK(reply(&w, get.seq, kv_reply(&get, KV_NOT_FOUND, get.key)));
	CHECK_EQ(w.check.n.wrong_value, 1);
	world_fini(&w);

	/* Not preloaded: right until an own put of the key has ended. */
	world_init(&w, false);
	for (uint32_t i = 0; i < 3 * STREAM_PERIOD; i++) {
		struct kv_req req = open_next(&w);
		bool written = w.check.written[req.key / 64] >> req.key % 64 & 1;
		uint64_t wrong = w.check.n.wrong_value;

		if (req.type == KV_PUT) {
			CHECK(reply(&w, req.seq, serve(&w, &req)));
			continue;
		}
		CHECK(reply(&w, req.seq, kv_reply(&req, KV_NOT_FOUND, req.key)));
		CHECK_EQ(w.check.n.wrong_value - wrong, written);
	}
	CHECK(w.check.n.wrong_value > 0 && w.check.n.not_found > 0);
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
	CHECK_EQ(check_open_count(&w.check), 0);
	world_fini(&w);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(right_when_preloaded),
		TEST(right_when_empty),
		TEST(sees_loss),
		TEST(sees_duplicates),
		TEST(sees_misdelivery),
		TEST(sees_wrong_puts),
		TEST(sees_wrong_gets),
		TEST(sees_what_vanished),
		TEST(counts_refusals),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
