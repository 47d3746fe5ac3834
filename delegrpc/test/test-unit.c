/* SPDX-License-Identifier: MIT */
/* delegrpc in one thread: limits, errors, the layout, blocking calls, waits, a server's end. */
#include "solo.h"
#include "support/rpccases.h"

TEST(attributes)
{
	static const struct delegrpc_attr bad[] = {
		{.max_clients = DELEGRPC_MAX_CLIENTS + 1},
		{.resp_depth = DELEGRPC_MAX_RESP_DEPTH + 1},
		{.ring_depth = DELEGRPC_MAX_RING_DEPTH + 1},
		{.req_size = DELEGRPC_MAX_PAYLOAD + 1},
		{.resp_size = DELEGRPC_MAX_PAYLOAD + 1},
		{.max_clients = 4, .resp_depth = 64, .ring_depth = 4 * DELEGRPC_BATCH},
	};
	struct delegrpc_attr attr = {.max_clients = 3, .resp_depth = 33, .ring_depth = 65};
	struct delegrpc_server *s = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(delegrpc_server_create(test_name, &bad[i], &s), -EINVAL);
	CHECK(!s);
	s = server_with(&attr);
	delegrpc_server_get_attr(s, &attr, sizeof(attr));
	CHECK_EQ(attr.max_clients, 3);
	CHECK_EQ(attr.resp_depth, 64);
	CHECK_EQ(attr.ring_depth, 128);
	CHECK_EQ(attr.req_size, 48);
	CHECK_EQ(attr.resp_size, 56);
	delegrpc_server_destroy(s);
	s = server_with(NULL);
	delegrpc_server_get_attr(s, &attr, sizeof(attr));
	CHECK_EQ(attr.max_clients, 64);
	CHECK_EQ(attr.ring_depth, 64 * 64);
	delegrpc_server_destroy(s);
	delegrpc_server_destroy(NULL);
	delegrpc_client_disconnect(NULL);
}

/* The numbers that the manual states. */
TEST(documented_numbers)
{
	SERVER *s = server_new(2, 0, 64);
	struct delegrpc_client *c = client_new();
	struct seen seen = {0};
	struct delegrpc_attr attr;
	struct raw *raw;
	uint64_t pos;

	CHECK(DELEGRPC_MAX_CLIENTS == 4096 && DELEGRPC_MAX_NAME == 192);
	CHECK(DELEGRPC_MAX_RING_DEPTH == 1 << 24 && DELEGRPC_MAX_RESP_DEPTH == 1 << 15);
	CHECK_EQ(DELEGRPC_MAX_PAYLOAD, 1 << 16);
	raw = raw_open(test_name);
	calls(c, 7);
	CHECK_EQ(raw->control->head, 0);
	call(c, 7);
	CHECK_EQ(raw->control->head, 8);
	for (uint32_t i = 8; i < 40; i++)
		call(c, i);
	CHECK_EQ(delegrpc_server_poll(s), 32);
	CHECK_EQ(serve(s), 40);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 8);
	pos = raw_reserve(raw, 1, 1); /* this client dies below */
	raw_close(raw);
	s->empty = 0;
	for (uint32_t i = 0; i < 255; i++)
		CHECK_EQ(delegrpc_server_poll(s), 0);
	CHECK_EQ(s->cursor, pos);
	CHECK_EQ(delegrpc_server_poll(s), 0);
	CHECK_EQ(s->cursor, pos + 1);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
	s = server_new(1, 0, 1);
	delegrpc_server_get_attr(s, &attr, sizeof(attr));
	CHECK_EQ(attr.ring_depth, 256);
}

TEST(layout)
{
	static const unsigned char magic[] = {0x31, 0x56, 0x43, 0x50, 0x52, 0x47, 0x4c, 0x44};
	SERVER *s = server_new(2, 256, 16);
	CLIENT *c = client_new();
	uint32_t word[4];
	RAW *raw = raw_open(test_name);

	CHECK(memcmp(raw->region.addr, magic, sizeof(magic)) == 0);
	memcpy(word, (char *)raw->region.addr + 8, sizeof(word));
	CHECK_EQ(word[0], 8);
	CHECK_EQ(word[1], 2);
	CHECK_EQ(word[2], 256);
	CHECK_EQ(word[3], 16);
	CHECK_EQ(((unsigned char *)raw->region.addr)[28], 1);
	CHECK_EQ(raw->region.size, 256 + 2 * 128 + 256 * 64 + 2 * 16 * 64);
	call_out(c, 77);
	memcpy(word, raw->requests, sizeof(word));
	CHECK_EQ(word[0], 1); /* lap */
	/* Length, number of replies to publish together less one (here 0), client. */
	CHECK_EQ(word[1], 4u << 15 | delegrpc_client_index(c));
	CHECK_EQ(word[2], 1u << 16); /* generation, index 0 */
	CHECK_EQ(word[3], 0);
	memcpy(word, raw->requests + 16, 4);
	CHECK_EQ(word[0], 77);
	CHECK_EQ(raw->control->head, 1);
	CHECK_EQ(raw->control->tail, 0);
	CHECK_EQ(serve(s), 1);
	CHECK_EQ(raw->control->tail, 1);
	memcpy(word, raw->responses, sizeof(word));
	CHECK_EQ(word[0], 1u << 16 | 1); /* lap, generation */
	CHECK_EQ(word[1], 4u << 15); /* length, id 0 */
}

/* Slots are packed, and the rings of two clients share no line. */
TEST(layout_is_packed)
{
	struct delegrpc_attr attr = {.max_clients = 3,
		.ring_depth = 64,
		.resp_depth = 4,
		.req_size = 33,
		.resp_size = 17};
	SERVER *s = server_with(&attr);
	struct delegrpc_client *c[2];
	RAW *raw;

	for (int i = 0; i < 2; i++)
		CHECK_EQ(delegrpc_client_connect(test_name, &attr, &c[i]), 0);
	raw = raw_open(test_name);
	CHECK_EQ(raw->region.size, 256 + 3 * 128 + 64 * 64 + 3 * 128);
	CHECK_EQ(raw->req_stride, 64);
	CHECK_EQ(c[0]->resp_stride, 32);
	CHECK_EQ((uintptr_t)c[0]->responses % 64, 0);
	CHECK_EQ(c[1]->responses - c[0]->responses, 128);
	raw_close(raw);
	for (int i = 0; i < 2; i++)
		delegrpc_client_disconnect(c[i]);
	delegrpc_server_destroy(s);
	attr = (struct delegrpc_attr){.max_clients = 2,
		.resp_depth = 1,
		.ring_depth = 2,
		.req_size = 1,
		.resp_size = 1};
	s = server_with(&attr);
	raw = raw_open(test_name);
	CHECK_EQ(raw->region.size, 256 + 2 * 128 + 64 + 2 * 64);
}

TEST(round_trips)
{
	SERVER *s = server_new(2, 0, 16);
	CLIENT *c = client_new();
	struct delegrpc_client_stats cs;
	struct delegrpc_server_stats ss;
	uint32_t total = 0;

	for (uint32_t i = 0; i < 10000; i++) {
		struct seen seen = {0};
		uint32_t n = i % 16 + 1;

		for (uint32_t k = 0; k < n; k++)
			call(c, total + k);
		CHECK_EQ(delegrpc_client_pending(c), n);
		CHECK_EQ(delegrpc_client_flush(c), 0);
		CHECK_EQ(serve(s), n);
		while (seen.n < n)
			CHECK(delegrpc_client_poll(c, note, &seen) > 0);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
		for (uint32_t k = 0; k < n; k++) {
			CHECK_EQ(seen.token[k], total + k);
			CHECK_EQ(seen.value[k], total + k + 1000);
		}
		CHECK_EQ(delegrpc_client_pending(c), 0);
		total += n;
	}
	delegrpc_client_get_stats(c, &cs, sizeof(cs));
	delegrpc_server_get_stats(s, &ss, sizeof(ss));
	CHECK_EQ(cs.calls, total);
	CHECK_EQ(cs.responses, total);
	CHECK_EQ(ss.requests, total);
	CHECK_EQ(ss.replies, total);
	CHECK_EQ(ss.bad_requests + ss.holes + ss.stale_replies + cs.bad_responses, 0);
}

TEST(calls_are_staged)
{
	SERVER *s = server_new(2, 0, 16);
	CLIENT *c = client_new();
	struct seen seen = {0};

	calls(c, 7);
	CHECK_EQ(delegrpc_server_poll(s), 0);
	call(c, 7); /* the eighth publishes */
	CHECK_EQ(delegrpc_server_poll(s), 8);
	call(c, 8);
	CHECK_EQ(delegrpc_server_poll(s), 8);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0); /* a poll publishes, too */
	CHECK_EQ(delegrpc_server_poll(s), 8); /* counts only requests found before */
	CHECK_EQ(client_stats_of(c).flushes, 2);
	CHECK_EQ(serve(s), 9);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 8); /* the maximum per poll */
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
}

TEST(limits_of_a_call)
{
	SERVER *s = server_new(1, 0, 4);
	CLIENT *c = client_new();
	struct seen seen = {0};
	unsigned char big[49] = {0};
	uint32_t v = 4;

	CHECK_EQ(delegrpc_client_call(c, big, 49, 0), -EMSGSIZE);
	CHECK_EQ(delegrpc_client_call(c, big, 48, 0), 0);
	CHECK_EQ(delegrpc_client_call(c, NULL, 0, 1), 0);
	call(c, 2);
	call(c, 3);
	CHECK_EQ(delegrpc_client_call(c, &v, 4, v), -EAGAIN);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	CHECK_EQ(delegrpc_server_poll(s), 4);
	for (uint32_t i = 0; i < 4; i++) {
		struct delegrpc_req r;

		CHECK_EQ(delegrpc_server_recv(s, &r), 1);
		CHECK_EQ(r.len, i == 0 ? 48 : i == 1 ? 0 : 4);
		if (r.len)
			answer(s, &r, i);
		else
			CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, NULL, 0), 0);
	}
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 4);
	call(c, 4);
}

/* Replies in any order, one of them after a thousand others. */
TEST(replies_out_of_order)
{
	SERVER *s = server_new(1, 0, 8);
	CLIENT *c = client_new();
	struct delegrpc_req held, r[7];
	struct seen seen = {0};

	held = pass(c, s, 12345);
	for (uint32_t round = 0; round < 200; round++) {
		seen.n = 0;
		for (uint32_t i = 0; i < 7; i++)
			call(c, round * 7 + i);
		delegrpc_client_flush(c);
		CHECK_EQ(delegrpc_server_poll(s), 7);
		for (uint32_t i = 0; i < 7; i++)
			r[i] = take(s, round * 7 + i);
		delegrpc_server_advance_tail(s);
		for (uint32_t i = 7; i-- > 0;)
			answer(s, &r[i], i);
		delegrpc_server_flush(s);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 7);
		for (uint32_t i = 0; i < 7; i++) {
			CHECK_EQ(seen.token[i], round * 7 + 6 - i);
			CHECK_EQ(seen.value[i], 6 - i);
		}
	}
	seen.n = 0;
	answer(s, &held, 54321);
	delegrpc_server_flush(s);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
	CHECK_EQ(seen.token[0], 12345);
	CHECK_EQ(seen.value[0], 54321);
}

TEST(refused_replies)
{
	SERVER *s = server_new(2, 0, 8);
	CLIENT *c = client_new();
	struct delegrpc_req r;
	unsigned char big[57] = {0};

	r = pass(c, s, 1);
	CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, big, 57), -EMSGSIZE);
	CHECK_EQ(delegrpc_server_reply(s, r.client + 1, r.id, big, 4), -EPIPE);
	CHECK_EQ(delegrpc_server_reply(s, 2, r.id, big, 4), -EINVAL);
	CHECK_EQ(delegrpc_server_reply(s, UINT32_MAX, r.id, big, 4), -EINVAL);
	CHECK_EQ(delegrpc_server_reply(s, r.client, r.id + 8, big, 4), -EINVAL);
	CHECK_EQ(delegrpc_server_reply(s, r.client, r.id & 0xffff, big, 4), -EINVAL);
	CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, big, 56), 0);
	CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, big, 56), -EINVAL);
}

/*
 * A ring that cannot hold all calls in flight fills up. delegrpc_server_advance_tail() makes room.
 */
TEST(small_ring_is_full)
{
	SERVER *s = server_new(1, 16, 64);
	CLIENT *c = client_new();
	struct seen seen = {0};
	struct delegrpc_req r;
	uint32_t v = 0, served = 0;

	/*
	 * A batch is published if at most 16 - 8 slots are in use. So 16 slots are filled, and a
	 * further batch stays staged.
	 */
	while (delegrpc_client_call(c, &v, 4, v) == 0)
		v++;
	CHECK_EQ(v, 24);
	CHECK_EQ(delegrpc_client_flush(c), -EAGAIN);
	CHECK_EQ(delegrpc_server_poll(s), 16);
	while (delegrpc_server_recv(s, &r)) {
		CHECK_EQ(value_of(&r), served++);
		answer(s, &r, 0);
	}
	CHECK_EQ(served, 16);
	CHECK_EQ(delegrpc_client_flush(c), -EAGAIN);
	CHECK_EQ(delegrpc_server_poll(s), 0);
	delegrpc_server_advance_tail(s);
	CHECK_EQ(delegrpc_client_flush(c), 0);
	CHECK_EQ(delegrpc_server_poll(s), 8);
	CHECK(client_stats_of(c).full > 0);
	while (delegrpc_client_poll(c, note, &seen) > 0)
		;
	CHECK_EQ(seen.n, 16);
}

/* The state of response functions, each of which makes up to `next` calls. */
static struct {
	struct delegrpc_client *c;
	uint32_t want, made, got, next;
	unsigned char *order;
} again;

/* The other clients may each reserve a batch: 24 of the 64 slots are kept for them. */
TEST(small_ring_has_a_margin)
{
	SERVER *s = server_new(4, 64, 64);
	CLIENT *c = client_new();
	uint32_t v = 0;
	RAW *raw = raw_open(test_name);

	for (uint32_t i = 0; i < 48; i++) /* the last eight are staged */
		call(c, i);
	CHECK_EQ(raw->control->head, 40);
	CHECK_EQ(delegrpc_client_call(c, &v, 4, 0), -EAGAIN);
	CHECK_EQ(delegrpc_client_flush(c), -EAGAIN);
	CHECK_EQ(serve(s), 40);
	CHECK_EQ(delegrpc_client_flush(c), 0);
	CHECK_EQ(raw->control->head, 48);
}

static void call_again(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	uint32_t v;

	memcpy(&v, resp, 4);
	CHECK_EQ(v, (uint32_t)token + 1000);
	CHECK_EQ(again.order[token]++, 0);
	again.got++;
	for (uint32_t i = 0; i < again.next && again.made < again.want; i++) {
		int err = delegrpc_client_call(again.c, &again.made, 4, again.made);

		if (err) {
			CHECK_EQ(err, -EAGAIN);
			break;
		}
		again.made++;
	}
	/* The response that is being read must not have been overwritten. */
	memcpy(&v, resp, 4);
	CHECK_EQ(v, (uint32_t)token + 1000);
}

static void serve_in_callback(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	call_again(NULL, token, resp, len);
	serve(arg); /* answers everything that was published so far */
	CHECK_EQ(memcmp(resp, &(uint32_t){(uint32_t)token + 1000}, 4), 0);
}

TEST(calls_from_a_response)
{
	for (uint32_t depth = 1; depth <= 64; depth *= 2)
		for (uint32_t next = 1; next <= 20; next += 9) {
			SERVER *s = server_new(1, 0, depth);

			memset(&again, 0, sizeof(again));
			again.c = client_new();
			again.want = 3000;
			again.next = next;
			again.order = calloc(again.want, 1);
			CHECK(again.order);
			while (again.got < again.want) {
				if (again.made < again.want && !delegrpc_client_pending(again.c)) {
					call(again.c, again.made);
					again.made++;
				}
				delegrpc_client_flush(again.c);
				serve(s);
				CHECK(delegrpc_client_poll(again.c, serve_in_callback, s) >= 0);
			}
			free(again.order);
			delegrpc_client_disconnect(again.c);
		}
}

TEST(blocking_call)
{
	SERVER *s = server_new(1, 0, 2);
	CLIENT *c = client_new();
	struct seen seen = {0};
	unsigned char resp[56];
	uint32_t v = 5;

	call(c, 4);
	CHECK_EQ(delegrpc_client_call_wait(c, &v, 4, resp, sizeof(resp), 0, NULL), -EBUSY);
	delegrpc_client_flush(c);
	CHECK_EQ(serve(s), 1);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);

	CHECK_EQ(delegrpc_client_call_wait(c, &v, 4, resp, sizeof(resp), 0, NULL), -ETIMEDOUT);
	CHECK_EQ(delegrpc_client_call_wait(c, &v, 4, resp, sizeof(resp), 100000, NULL), -ETIMEDOUT);
	CHECK_EQ(delegrpc_client_pending(c), 0);
	CHECK_EQ(delegrpc_client_call_wait(c, &v, 4, resp, sizeof(resp), 0, NULL), -EAGAIN);
	CHECK_EQ(serve(s), 2);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	CHECK_EQ(seen.n, 1);
	CHECK_EQ(client_stats_of(c).late_responses, 2);
	CHECK_EQ(client_stats_of(c).responses, 1);
	call(c, 6);
	call_out(c, 7);
	CHECK_EQ(serve(s), 2);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 2);
	CHECK_EQ(seen.value[2], 1007);
	CHECK_EQ(delegrpc_client_call_wait(c, resp, 49, resp, sizeof(resp), 0, NULL), -EMSGSIZE);
}

TEST(waits_time_out)
{
	SERVER *s = server_new(1, 0, 2);
	CLIENT *c = client_new();

	CHECK_EQ(delegrpc_server_wait(s, 0), 0);
	CHECK_EQ(delegrpc_server_wait(s, 2000000), 0);
	CHECK_EQ(delegrpc_client_wait(c, UINT64_MAX), 0); /* nothing is pending */
	call(c, 1);
	CHECK_EQ(delegrpc_client_wait(c, 0), 0);
	CHECK_EQ(delegrpc_client_wait(c, 2000000), 0);
	CHECK_EQ(delegrpc_server_wait(s, UINT64_MAX), 1);
	CHECK_EQ(serve(s), 1);
	CHECK_EQ(delegrpc_client_wait(c, UINT64_MAX), 1);
}

TEST(connect_errors)
{
	struct delegrpc_attr attr = {0};
	struct delegrpc_client *c[3] = {0};
	SERVER *s;

	CHECK_EQ(delegrpc_client_connect(test_name, NULL, &c[0]), -ENOENT);
	CHECK_EQ(delegrpc_client_connect("x/y", NULL, &c[0]), -EINVAL);
	s = server_new(2, 0, 8);
	CHECK_EQ(delegrpc_server_create(test_name, NULL, &s), -EADDRINUSE);
	attr.req_size = 47;
	CHECK_EQ(delegrpc_client_connect(test_name, &attr, &c[0]), -EPROTO);
	attr.req_size = 48;
	attr.resp_size = 57;
	CHECK_EQ(delegrpc_client_connect(test_name, &attr, &c[0]), -EPROTO);
	attr.resp_size = 56;
	attr.resp_depth = 7; /* is rounded up to 8 */
	attr.max_clients = 3;
	CHECK_EQ(delegrpc_client_connect(test_name, &attr, &c[0]), -EPROTO);
	attr.max_clients = 2;
	CHECK_EQ(delegrpc_client_connect(test_name, &attr, &c[0]), 0);
	c[1] = client_new();
	CHECK_EQ(delegrpc_client_index(c[0]), 0);
	CHECK_EQ(delegrpc_client_index(c[1]), 1);
	CHECK_EQ(delegrpc_client_connect(test_name, NULL, &c[2]), -EUSERS);
	CHECK(!c[2]);
	delegrpc_client_disconnect(c[0]);
	c[2] = client_new();
	CHECK_EQ(delegrpc_client_index(c[2]), 0);
	CHECK_EQ(delegrpc_server_unlink(s), 0);
	CHECK_EQ(delegrpc_server_unlink(s), 0);
	CHECK_EQ(delegrpc_client_connect(test_name, NULL, &c[0]), -ENOENT);
	call_out(c[2], 3);
	CHECK_EQ(serve(s), 1);
	delegrpc_client_disconnect(c[1]);
	delegrpc_client_disconnect(c[2]);
}

/* A client refuses a header that another library or another version has written. */
TEST(connect_checks_the_header)
{
	static const size_t fields[] = {0, 8, 12, 16, 20, 32, 36};
	SERVER *s = server_new(2, 256, 8);
	struct delegrpc_client *c;
	RAW *raw = raw_open(test_name);

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		uint32_t *word = (void *)((char *)raw->region.addr + fields[i]), was = *word;
		static const uint32_t bad[] = {UINT32_MAX, 0x80000000u, 0, 1, 6};

		for (size_t k = 0; k < ARRAY_SIZE(bad); k++) {
			*word = bad[k];
			CHECK_EQ(delegrpc_client_connect(test_name, NULL, &c), -EPROTO);
		}
		*word = was;
	}
	for (uint32_t version = DELEGRPC_VERSION - 1; version <= DELEGRPC_VERSION + 1;
		version += 2) {
		raw->header->version = version;
		CHECK_EQ(delegrpc_client_connect(test_name, NULL, &c), -EPROTO);
	}
	raw->header->version = DELEGRPC_VERSION;
	raw->header->magic = 0;
	CHECK_EQ(delegrpc_client_connect(test_name, NULL, &c), -EAGAIN);
	raw->header->magic = DELEGRPC_MAGIC;
	raw->header->server_alive = 0;
	CHECK_EQ(delegrpc_client_connect(test_name, NULL, &c), -ECONNREFUSED);
}

TEST(server_goes)
{
	struct delegrpc_server *s = server_new(1, 0, 16);
	struct delegrpc_client *c = client_new();
	struct seen seen = {0};
	uint32_t v = 0;
	int n;

	calls_out(c, 10);
	for (int i = 0; i < 3; i++) {
		struct delegrpc_req r;

		CHECK(delegrpc_server_poll(s) > 0);
		r = take(s, (uint32_t)i);
		answer(s, &r, (uint32_t)i);
	}
	delegrpc_server_destroy(s);
	CHECK_EQ(delegrpc_client_call(c, &v, 4, 0), -EPIPE);
	CHECK_EQ(delegrpc_client_wait(c, UINT64_MAX), 1);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 3); /* the server's last responses */
	CHECK_EQ(delegrpc_client_wait(c, UINT64_MAX), -EPIPE);
	do
		n = delegrpc_client_poll(c, note, &seen);
	while (n == 0);
	CHECK_EQ(n, -EPIPE);
	CHECK_EQ(seen.n, 3);
	CHECK_EQ(delegrpc_client_pending(c), 7);
	delegrpc_client_disconnect(c);
	CHECK_EQ(delegrpc_client_connect(test_name, NULL, &c), -ENOENT);
}
