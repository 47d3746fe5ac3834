/* SPDX-License-Identifier: MIT */
/* Values of more than 8 bytes: their sizes and bytes, and the detection of a wrong byte. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "node.h"
#include "sizes.h"
#include "values.h"

/* ---- sizes ---- */

static struct sizes sizes_of(const char *text)
{
	struct sizes s;

	CHECK_EQ(sizes_parse(text, &s), 0);
	return s;
}

TEST(texts)
{
	static const struct {
		const char *text;
		uint32_t most;
		double mean;
	} cases[] = {{"8", 8, 8}, {"9", 9, 9}, {"65536", 65536, 65536}, {"8-65536", 65536, 32772},
		{"64:90,1000-9000:10", 9000, (64 * 90 + 5000 * 10) / 100.0},
		{"8:1,9:1,10:1,11:1,12:1,13:1,14:1,15:1000000", 15, 0}};

	for (uint32_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sizes s = sizes_of(cases[i].text);
		char name[SIZES_NAME_MAX];

		sizes_name(&s, name);
		CHECK(!strcmp(name, cases[i].text));
		CHECK_EQ(sizes_most(&s), cases[i].most);
		CHECK(!cases[i].mean || sizes_mean(&s) == cases[i].mean);
	}
	CHECK_EQ(sizes_of("8").parts, 0);
	CHECK_EQ(sizes_of("8-8").parts, 0);
}

TEST(bad_texts)
{
	static const char *const bad[] = {"", "7", "65537", "8-", "-8", "9-8", "8-65537", "8,9",
		"8:0", "8:1,", "8:1,9", "8:1000001", "8:1,9:", ":1", "8x", " 8", "+8",
		"99999999999999999999", "8:1,8:1,8:1,8:1,8:1,8:1,8:1,8:1,8:1"};
	struct sizes s = {.parts = 77};

	for (uint32_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(sizes_parse(bad[i], &s), -EINVAL);
	CHECK_EQ(s.parts, 77);
}

/* Sizes of a range are equally likely, ranges have their weights; a value determines its size. */
TEST(sizes_as_given)
{
	struct sizes s = sizes_of("10-13:3,100:1");
	uint32_t count[101] = {0};

	for (uint64_t i = 0; i < 16000; i++) {
		uint32_t rest = sizes_rest(&s, mix64(i));

		CHECK(rest + 8 <= 100);
		CHECK_EQ(rest, sizes_rest(&s, mix64(i)));
		count[rest + 8]++;
	}
	for (uint32_t n = 10; n <= 13; n++)
		CHECK(count[n] > 2700 && count[n] < 3300);
	CHECK(count[100] > 3700 && count[100] < 4300);
	CHECK_EQ(count[10] + count[11] + count[12] + count[13] + count[100], 16000);
	CHECK_EQ(sizes_rest(&(struct sizes){.parts = 0}, 5), 0);
}

TEST(different_sizes_differ)
{
	static const char *const texts[] = {"8", "9", "8-9", "9-10", "8:1,9:1", "8:1,9:2",
		"9:1,8:1"};

	for (uint32_t i = 0; i < ARRAY_SIZE(texts); i++)
		for (uint32_t k = 0; k < i; k++) {
			struct sizes a = sizes_of(texts[i]), b = sizes_of(texts[k]);

			CHECK(sizes_mark(&a) != sizes_mark(&b));
		}
}

/* Each byte is checked. The bytes of another value, or at another position, differ. */
TEST(every_byte_is_checked)
{
	uint8_t at[67], other[67];

	for (uint32_t rest = 0; rest <= 65; rest++) {
		memset(at, 0xee, sizeof(at));
		sizes_fill(rest, at, rest);
		CHECK(sizes_right(rest, at, rest));
		CHECK_EQ(at[rest], 0xee);
		for (uint32_t i = 0; i < rest; i++) {
			at[i] ^= 1;
			CHECK(!sizes_right(rest, at, rest));
			at[i] ^= 1;
		}
	}
	sizes_fill(1, at, 64);
	sizes_fill(2, other, 64);
	CHECK(memcmp(at, other, 8) != 0 && memcmp(at, at + 8, 8) != 0);
}

/* ---- a rank ---- */

#define KEYS 64
#define DEPTH 3
#define CLIENTS 2

static struct options o;
static struct node n;
static struct store store;

static void begin(const char *sizes, bool preload)
{
	o = (struct options){.daemons = 1,
		.clients = CLIENTS,
		.queue_depth = DEPTH,
		.preload = preload};
	o.load.key_range = KEYS;
	o.sizes = sizes_of(sizes);
	n = (struct node){.o = &o,
		.ranks = 1,
		.place = {.ranks = 1, .shards = 1},
		.stores = &store};
	CHECK_EQ(store_init(&store, &n.place, 0, 0, KEYS), 0);
	CHECK_EQ(preload ? store_preload(&store, KEYS) : 0, 0);
	CHECK_EQ(values_create(&n, KEYS, &n.values), 0);
}

static void end(void)
{
	values_destroy(n.values, 1);
	store_fini(&store);
}

static struct kv_req request(enum kv_type type, uint64_t key, uint64_t version, uint32_t seq)
{
	return (struct kv_req){.type = (uint16_t)type,
		.origin = 1,
		.seq = seq,
		.key = key,
		.value = type == KV_GET ? 0 : kv_value(key, kv_name(1, version))};
}

/* A daemon serves a client's request. Returns the reply after its check. */
static struct kv_resp ask(const struct kv_req *req)
{
	struct kv_resp resp;

	values_write(n.values, req);
	resp = values_serve_local(n.values, &store, req);
	values_check(n.values, &resp);
	return resp;
}

static void expect(enum kv_type type, uint64_t key, uint64_t version, enum kv_type want)
{
	static uint32_t seq;
	struct kv_req req = request(type, key, version, seq++);
	struct kv_resp resp = ask(&req);

	CHECK_EQ(resp.type, want);
	if (want == KV_GET_OK)
		CHECK_EQ(resp.value, kv_value(key, version ? kv_name(1, version) : KV_PRELOADED));
}

TEST(values_come_back)
{
	static const char *const all[] = {"9", "64", "8-65536", "8:5,3000:1"};

	for (uint32_t i = 0; i < ARRAY_SIZE(all); i++) {
		begin(all[i], true);
		for (uint64_t key = 0; key < KEYS; key++)
			expect(KV_GET, key, 0, KV_GET_OK);
		for (uint64_t version = 1; version < 4; version++) {
			for (uint64_t key = 0; key < KEYS; key++)
				expect(KV_PUT, key, version, KV_PUT_OK);
			for (uint64_t key = 0; key < KEYS; key++)
				expect(KV_GET, key, version, KV_GET_OK);
		}
		end();
	}
}

/* A swap that succeeds replaces the bytes after the first 8; a swap that fails does not. */
TEST(values_of_changes)
{
	begin("100-200", false);
	expect(KV_GET, 5, 0, KV_NOT_FOUND);
	expect(KV_SWAP, 5, 1, KV_SWAP_OK);
	expect(KV_SWAP, 5, 1, KV_SWAP_NO);
	expect(KV_SWAP, 5, 3, KV_SWAP_NO);
	expect(KV_GET, 5, 1, KV_GET_OK);
	expect(KV_SWAP, 5, 2, KV_SWAP_OK);
	expect(KV_GET, 5, 2, KV_GET_OK);
	end();
}

/* The check finds a changed byte in the store, too few bytes, and the bytes of an older value. */
TEST(wrong_bytes_are_found)
{
	struct kv_req get = request(KV_GET, 7, 0, 1), put = request(KV_PUT, 7, 1, 2);
	uint8_t bytes[56];
	struct value_io io = {.put = bytes, .put_len = sizeof(bytes)};

	begin("64", true);
	sizes_fill(put.value, bytes, sizeof(bytes));
	CHECK_EQ(values_serve(n.values, &store, &put, &io).type, KV_PUT_OK);
	CHECK_EQ(ask(&get).type, KV_GET_OK);
	bytes[55] ^= 0x80;
	CHECK_EQ(values_serve(n.values, &store, &put, &io).type, KV_PUT_OK);
	CHECK_EQ(ask(&get).type, 0);
	bytes[55] ^= 0x80;
	CHECK_EQ(values_serve(n.values, &store, &put, &io).type, KV_PUT_OK);
	CHECK_EQ(ask(&get).type, KV_GET_OK);
	io.put_len--; /* the client's slot still has the right last byte, of the get before */
	CHECK_EQ(values_serve(n.values, &store, &put, &io).type, KV_PUT_OK);
	CHECK_EQ(ask(&get).type, 0);
	CHECK_EQ(store_put(&store, 7, kv_value(7, kv_name(1, 9))), 0);
	CHECK_EQ(ask(&get).type, 0);
	end();
}

TEST(what_does_not_fit_is_refused)
{
	struct kv_req get = request(KV_GET, 7, 0, 1), put = request(KV_PUT, 7, 1, 2);
	uint8_t bytes[57] = {0};
	struct value_io io = {.put = bytes, .put_len = 57, .got = bytes, .got_most = 55};
	struct kv_resp resp;

	begin("64", true);
	resp = values_serve(n.values, &store, &put, &io);
	CHECK(resp.type == KV_ERROR && resp.value == EMSGSIZE);
	io.put_len = 0;
	resp = values_serve(n.values, &store, &get, &io);
	CHECK(resp.type == KV_ERROR && resp.value == EMSGSIZE && !io.got_len);
	for (uint32_t origin = CLIENTS; origin < CLIENTS + 2; origin++) {
		get.origin = (uint16_t)origin;
		resp = values_serve_local(n.values, &store, &get);
		CHECK(resp.type == KV_ERROR && resp.value == EBADMSG);
	}
	CHECK(!values_take(n.values, 1, 0, bytes, sizeof(resp) - 1, &resp));
	CHECK(!values_take(n.values, CLIENTS, 0, bytes, sizeof(resp), &resp));
	end();
}
