/* SPDX-License-Identifier: MIT */
/* Large calls: the right bytes arrive, the server's limits hold, and a call that is interrupted
 * ends once and leaves no memory in use. */
#include "bulk.h"
#include "pair.h"
#include "pool.h"

#define MIB (1u << 20)
#define MOST (5 * MIB + 3)
#define PAGE 4096u

static uint8_t data[MOST], resp[MOST + 1];

struct ends {
	uint32_t count;
	int status;
	uint64_t token;
	const void *data;
	uint32_t len;
};

static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *bytes,
	uint32_t len)
{
	struct ends *e = arg;

	*e = (struct ends){e->count + 1, status, token, bytes, len};
}

/* ep[0] calls, ep[1] serves. */
static struct pair rig_open(uint32_t message_max, uint64_t memory_max)
{
	const struct copyrpc_large_attr large = {.message_max = message_max,
		.memory_max = memory_max};
	const struct copyrpc_ctx_attr attr = {.ring_size = 1 << 16, .path = &quick};
	struct pair p = pair_open(&attr);

	CHECK_EQ(copyrpc_large_accept(p.ctx[1], &large), 0);
	return p;
}

/* Returns the page of a payload that begins at byte @at. Payloads are copied and compared by the
 * page, because loops over single bytes take long under a sanitizer. */
static const uint8_t *page_of(uint32_t at, uint32_t salt)
{
	static uint8_t bytes[PAGE + 256];

	for (uint32_t i = 0; !bytes[sizeof(bytes) - 1]; i++)
		bytes[i] = (uint8_t)(i * 5);
	return bytes + (uint8_t)(at / PAGE + salt);
}

static void fill(uint8_t *at, uint32_t len, uint32_t salt)
{
	for (uint32_t i = 0; i < len; i += PAGE)
		memcpy(at + i, page_of(i, salt), len - i < PAGE ? len - i : PAGE);
}

static void check(const uint8_t *at, uint32_t len, uint32_t salt)
{
	for (uint32_t i = 0; i < len; i += PAGE)
		if (memcmp(at + i, page_of(i, salt), len - i < PAGE ? len - i : PAGE))
			CHECK_EQ(i, len);
}

static struct copyrpc_req *take(struct pair *p)
{
	struct copyrpc_req *req;

	while (!copyrpc_recv(p->ctx[1], &req)) {
		copyrpc_poll(p->ctx[0], NULL, NULL);
		copyrpc_poll(p->ctx[1], NULL, NULL);
	}
	return req;
}

static void until(struct pair *p, struct ends *e, uint32_t count)
{
	while (e->count < count) {
		copyrpc_poll(p->ctx[1], NULL, NULL);
		copyrpc_poll(p->ctx[0], on_end, e);
	}
	CHECK_EQ(e->count, count);
}

/* The response is written in place, or comes from other memory of the server. */
static void serve(struct copyrpc_req *req, uint32_t len, uint32_t salt, bool in_place)
{
	uint8_t *at = in_place ? copyrpc_req_memory(req) : malloc(len + 1);

	CHECK(at);
	fill(at, len, salt);
	CHECK_EQ(copyrpc_reply(req, at, len), 0);
	if (!in_place)
		free(at);
}

/* @bulks: both buffers are bulks, so that they are registered only once. */
static void every_length(bool bulks)
{
	static const uint32_t lengths[] = {0, 1, 960, 961, MIB, MOST};
	struct copyrpc_bulk *b[2];
	struct ends e = {0};
	PAIR p = rig_open(MOST, 0);
	uint32_t n = 0;

	if (bulks) {
		CHECK_EQ(copyrpc_bulk_create(p.ctx[0], data, MOST, COPYRPC_REMOTE_READ, &b[0]), 0);
		CHECK_EQ(copyrpc_bulk_create(p.ctx[0], resp, MOST, COPYRPC_REMOTE_WRITE, &b[1]), 0);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(lengths); i++)
		for (uint32_t k = 0; k < ARRAY_SIZE(lengths); k++, n++) {
			uint32_t len = lengths[i], back = lengths[k];
			struct copyrpc_req *req;

			fill(data, len, n);
			memset(resp, 0xee, back + 1);
			CHECK_EQ(copyrpc_call_large(p.ep[0], data, len, resp, back, n), 0);
			CHECK_EQ(!p.ctx[0]->regs, !bulks && len <= 960 && back <= 960);
			req = take(&p);
			CHECK(copyrpc_req_len(req) == len && copyrpc_req_allowance(req) == back);
			check(copyrpc_req_data(req), len, n);
			CHECK_EQ(copyrpc_reply(req, data, back + 1), -EMSGSIZE);
			serve(req, back - back / 8, n + 1, n % 2);
			until(&p, &e, n + 1);
			CHECK(!e.status && e.token == n && e.data == resp);
			CHECK_EQ(e.len, back - back / 8);
			check(resp, e.len, n + 1);
			CHECK_EQ(resp[back], 0xee);
		}
	CHECK(p.ctx[1]->pool.size <= p.ctx[1]->pool.most);
	CHECK_EQ(!p.ctx[0]->regs, !bulks);
}

TEST_WITH(every_length_registered_for_the_call, every_length, false);
TEST_WITH(every_length_of_a_bulk, every_length, true);

TEST(the_limit_of_the_server)
{
	static const struct {
		uint32_t most, len, resp_max;
		int status;
	} cases[] = {{4096, 4096, 4096, 0}, {4096, 4097, 0, -EMSGSIZE}, {4096, 0, 4097, -EMSGSIZE},
		{0, 1, 0, -EMSGSIZE}, {0, 0, 0, -EMSGSIZE}};
	struct copyrpc_large_attr attr = {0};
	struct ends e = {0};
	PAIR p = rig_open(0, 0);

	for (uint32_t i = 0; i < ARRAY_SIZE(cases); i++) {
		attr.message_max = cases[i].most;
		CHECK_EQ(copyrpc_large_accept(p.ctx[1], &attr), 0);
		CHECK_EQ(copyrpc_call_large(p.ep[0], data, cases[i].len, resp, cases[i].resp_max,
				 i),
			0);
		if (!cases[i].status)
			CHECK_EQ(copyrpc_reply(take(&p), data, 0), 0);
		until(&p, &e, i + 1);
		CHECK(e.status == cases[i].status && e.token == i);
		CHECK(!p.ctx[0]->regs);
	}
	CHECK_EQ(copyrpc_call_large(p.ep[0], data, COPYRPC_LARGE_MAX + 1, resp, 0, 0), -EMSGSIZE);
	CHECK_EQ(copyrpc_call_large(p.ep[0], data, 0, resp, COPYRPC_LARGE_MAX + 1, 0), -EMSGSIZE);
	attr.message_max = COPYRPC_LARGE_MAX + 1;
	CHECK_EQ(copyrpc_large_accept(p.ctx[1], &attr), -EINVAL);
	attr = (struct copyrpc_large_attr){.message_max = MIB, .memory_max = MIB - 1};
	CHECK_EQ(copyrpc_large_accept(p.ctx[1], &attr), -EINVAL);
}

static size_t refused; /* calloc() of this number of elements fails */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return n == refused ? NULL : __real_calloc(n, size);
}

/* The server has no memory for the entries of its raw operations. Calls end, and later ones
 * succeed. */
static void no_memory_to_move(uint32_t len, uint32_t back)
{
	struct ends e = {0};
	PAIR p = rig_open(MIB, 0);

	for (uint32_t n = 1; n <= 2; n++) {
		refused = n == 1 ? p.ctx[1]->attr.sq_depth : 0;
		CHECK_EQ(copyrpc_call_large(p.ep[0], data, len, resp, back, n), 0);
		if (back || !refused)
			CHECK_EQ(copyrpc_reply(take(&p), data, back), refused ? -ENOMEM : 0);
		until(&p, &e, n);
		CHECK_EQ(e.status, refused ? -ENOMEM : 0);
	}
}

TEST_WITH(no_memory_to_pull, no_memory_to_move, MIB, 0);
TEST_WITH(no_memory_to_push, no_memory_to_move, 1, MIB);

/* There is memory for two requests; the others wait, and are served in their order. */
TEST(bounded_memory)
{
	struct copyrpc_req *held[8];
	struct ends e = {0};
	PAIR p = rig_open(MIB, 2 * MIB);

	for (uint32_t i = 0; i < 8; i++)
		CHECK_EQ(copyrpc_call_large(p.ep[0], data, MIB - i, resp, 1, i), 0);
	for (uint32_t i = 0; i < 8; i++) {
		held[i] = take(&p);
		CHECK_EQ(copyrpc_req_len(held[i]), MIB - i);
		CHECK(p.ctx[1]->pool.size <= 2 * MIB);
		if (!i)
			continue;
		CHECK(!copyrpc_recv(p.ctx[1], &held[7]));
		CHECK_EQ(copyrpc_reply(held[i - 1], "x", 1), 0);
		copyrpc_flush(p.ctx[1]);
		CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), i < 7); /* a request gets the memory */
		until(&p, &e, i);
		CHECK(e.token == i - 1 && !e.status);
	}
	CHECK_EQ(copyrpc_reply(held[7], "x", 1), 0);
	until(&p, &e, 8);
	/* A block of another size replaces the spare ones. */
	CHECK_EQ(copyrpc_call_large(p.ep[0], data, 2000, resp, 1, 0), 0);
	CHECK_EQ(copyrpc_reply(take(&p), "x", 1), 0);
	until(&p, &e, 9);
	CHECK(p.ctx[1]->pool.size <= 2 * MIB);
}

/* A poll counts a large request when the program can receive it. */
TEST(counted_once)
{
	static const uint32_t lengths[] = {10, MIB, MIB + 1}; /* copied, pulled, refused */
	struct ends e = {0};
	PAIR p = rig_open(MIB, 0);

	for (uint32_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct copyrpc_req *req = NULL;
		int n = 0;

		CHECK_EQ(copyrpc_call_large(p.ep[0], data, lengths[i], resp, 2000, i), 0);
		while (e.count <= i) {
			n += copyrpc_poll(p.ctx[1], NULL, NULL);
			if (copyrpc_recv(p.ctx[1], &req))
				CHECK_EQ(copyrpc_reply(req, "x", 1), 0);
			copyrpc_poll(p.ctx[0], on_end, &e);
		}
		CHECK_EQ(n, !!req);
		CHECK_EQ(!req, lengths[i] > MIB);
	}
}

/* A request that waits for memory is served when the program raises the limit. */
TEST(more_memory)
{
	const struct copyrpc_large_attr more = {.message_max = MIB, .memory_max = 2 * MIB};
	struct copyrpc_req *held[2];
	struct ends e = {0};
	PAIR p = rig_open(MIB, MIB);

	for (uint32_t i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_call_large(p.ep[0], data, MIB, resp, 1, i), 0);
	held[0] = take(&p);
	pair_settle(&p);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 0);
	CHECK_EQ(copyrpc_large_accept(p.ctx[1], &more), 0);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 1);
	held[1] = take(&p);
	for (uint32_t i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_reply(held[i], "x", 1), 0);
	until(&p, &e, 2);
}

/* Receives and answers the requests that have arrived. Then no memory may be in use. */
static void check_drained(struct copyrpc_ctx *ctx)
{
	uint64_t spare = 0;
	struct copyrpc_req *req;

	for (int i = 0; i < 4; i++) {
		copyrpc_poll(ctx, NULL, NULL);
		while (copyrpc_recv(ctx, &req))
			CHECK(copyrpc_reply(req, data, MIB));
	}
	for (struct block *b = ctx->pool.spare; b; b = b->next)
		spare += b->mr.len;
	CHECK_EQ(spare, ctx->pool.size);
	CHECK(!ctx->waiting.head);
}

#define MANY 12

static struct pair call_many(uint32_t len)
{
	struct pair p = rig_open(MIB, MANY * MIB);

	for (uint32_t i = 0; i < MANY; i++)
		CHECK_EQ(copyrpc_call_large(p.ep[0], data, len, resp, 1, i), 0);
	copyrpc_flush(p.ctx[0]);
	return p;
}

/* Two requests keep the link busy. The others have no memory yet, later get the memory of answered
 * requests, and are served in their order. */
TEST(memory_in_turn)
{
	struct ends e = {0};
	PAIR p = call_many(MIB);

	while (e.count < MANY) {
		struct copyrpc_req *req;
		uint32_t next = e.count;

		copyrpc_poll(p.ctx[1], NULL, NULL);
		CHECK(p.ctx[1]->pool.size <= 2 * MIB);
		while (copyrpc_recv(p.ctx[1], &req))
			CHECK_EQ(copyrpc_reply(req, "x", 1), 0);
		copyrpc_poll(p.ctx[0], on_end, &e);
		CHECK(e.count == next || (e.token == e.count - 1 && !e.status));
	}
	CHECK(!p.ep[1]->due.head && !p.ep[1]->moves && !p.ep[1]->bytes_wanted);
}

/* Short requests do not wait for each other. */
TEST(many_short_ones_at_a_time)
{
	PAIR p = call_many(2000);

	while (!p.ep[1]->moves && !p.ctx[1]->queue.head)
		copyrpc_poll_recv(p.ctx[1], NULL, NULL);
	CHECK(!p.ep[1]->due.head);
}

/* A short request does not wait for the end of the @n long ones before it: while these are moved,
 * the short one gets a turn, but the next long one does not. */
static void after_long_ones(uint32_t n, uint32_t len)
{
	PAIR p = rig_open(MOST, 8 * MOST);

	for (uint32_t i = 0; i < n + 2; i++)
		CHECK_EQ(copyrpc_call_large(p.ep[0], data, i == n ? 2000 : len, resp, 1, i), 0);
	copyrpc_poll(p.ctx[0], NULL, NULL);
	copyrpc_poll(p.ctx[1], NULL, NULL);
	CHECK(p.ep[1]->due.head);
	CHECK_EQ(copyrpc_req_len(take(&p)), 2000);
}

TEST_WITH(a_short_one_after_a_long_one, after_long_ones, 1, 3 * MIB);
TEST_WITH(a_short_one_after_two_long_ones, after_long_ones, 2, MOST);

/* Counts the ends of large calls, whose token is 1, and of small ones, whose token is 0. */
static void on_either(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *bytes, uint32_t len)
{
	uint32_t *ended = arg;

	CHECK_EQ(status, 0);
	ended[token]++;
}

static void answer_fully(struct copyrpc_ctx *ctx)
{
	struct copyrpc_req *req;

	while (copyrpc_recv(ctx, &req))
		CHECK_EQ(copyrpc_reply(req, data, copyrpc_req_allowance(req)), 0);
}

/* Small calls, one at a time, beside large ones: at most one part (1 MiB) of a transfer is posted
 * before the answer to a small call. The first small call is an exception, because the server
 * cannot expect it. After the small calls two parts are posted at a time again. */
static void small_beside_large(uint32_t len, uint32_t back)
{
	uint32_t made[2] = {0}, ended[2] = {0};
	uint64_t most = 0;
	PAIR p = rig_open(MOST, 4 * MOST);

	while (ended[1] < 3) {
		if (made[1] < 3 && !copyrpc_call_large(p.ep[0], data, len, resp, back, 1))
			made[1]++;
		if (made[0] == ended[0] && !copyrpc_call(p.ep[0], "x", 1, 1, 0))
			made[0]++;
		copyrpc_poll(p.ctx[0], on_either, ended);
		copyrpc_poll(p.ctx[1], NULL, NULL);
		CHECK(p.ep[1]->bytes_posted <= (ended[0] ? 1 : 2) * MIB);
		answer_fully(p.ctx[1]);
	}
	CHECK(ended[0] >= MOST / MIB);
	CHECK_EQ(p.ep[0]->ch.stats.responses - p.ep[0]->large, ended[0]);
	CHECK_EQ(p.ep[1]->ch.stats.requests - p.ep[1]->large, made[0]);
	CHECK_EQ(copyrpc_call_large(p.ep[0], data, len, resp, back, 1), 0);
	while (ended[1] < 4) {
		copyrpc_poll(p.ctx[0], on_either, ended);
		copyrpc_poll(p.ctx[1], NULL, NULL);
		most = p.ep[1]->bytes_posted > most ? p.ep[1]->bytes_posted : most;
		answer_fully(p.ctx[1]);
	}
	CHECK_EQ(most, 2 * MIB);
}

TEST_WITH(small_calls_beside_pulls, small_beside_large, 5 * MIB, 1);
TEST_WITH(small_calls_beside_pushes, small_beside_large, 1, 5 * MIB);

/* Requests that have not had their turn yet end like the others. */
static void in_turn_until(int side)
{
	struct ends e = {0};
	PAIR p = call_many(MIB);

	copyrpc_poll(p.ctx[1], NULL, NULL);
	CHECK(p.ep[1]->due.head);
	if (side < 2) {
		copyrpc_ep_destroy(p.ep[side]);
		until(&p, &e, MANY);
		CHECK_EQ(e.status, side ? -ECONNRESET : -ECANCELED);
		while (!side && !copyrpc_ep_status(p.ep[1]))
			copyrpc_poll(p.ctx[1], NULL, NULL);
		check_drained(p.ctx[1]);
		CHECK(side || !p.ep[1]->due.head);
	}
}

TEST_WITH(in_turn_until_the_caller_is_destroyed, in_turn_until, 0);
TEST_WITH(in_turn_until_the_server_is_destroyed, in_turn_until, 1);
TEST_WITH(in_turn_until_the_contexts_are_destroyed, in_turn_until, 2);

/* The stages of a large call. In WAITING the server has memory for one request, so the second one
 * waits. */
enum stage { COLLECTED, SENT, HELD, WAITING, REPLIED };

static struct copyrpc_req *proceed(struct pair *p, enum stage stage)
{
	struct copyrpc_req *req = NULL;

	CHECK_EQ(copyrpc_call_large(p->ep[0], data, MIB, resp, MIB, 1), 0);
	if (stage == WAITING)
		CHECK_EQ(copyrpc_call_large(p->ep[0], data, MIB, resp, MIB, 2), 0);
	if (stage >= SENT)
		copyrpc_flush(p->ctx[0]);
	if (stage >= HELD)
		req = take(p);
	if (stage < REPLIED)
		return req;
	CHECK_EQ(copyrpc_reply(req, data, MIB), 0); /* the push starts */
	return NULL;
}

static void canceled(int stage)
{
	struct copyrpc_req *req;
	struct ends e = {0};
	PAIR p = rig_open(MIB, 2 * MIB);

	req = proceed(&p, (enum stage)stage);
	CHECK_EQ(copyrpc_cancel(p.ep[0], 1), 0);
	CHECK_EQ(copyrpc_cancel(p.ep[0], 1), -ENOENT);
	copyrpc_poll(p.ctx[0], on_end, &e);
	CHECK(e.count == 0 && p.ctx[0]->regs);
	if (stage < REPLIED)
		CHECK_EQ(copyrpc_reply(req ? req : take(&p), data, MIB), 0);
	until(&p, &e, 1);
	CHECK(e.status == -ECANCELED && !e.data && !e.len && !p.ctx[0]->regs);
}

TEST_WITH(canceled_collected, canceled, COLLECTED);
TEST_WITH(canceled_sent, canceled, SENT);
TEST_WITH(canceled_held, canceled, HELD);
TEST_WITH(canceled_replied, canceled, REPLIED);

static void destroy(void *arg, struct copyrpc_ep *ep, int status)
{
	CHECK_EQ(status, 0);
	copyrpc_ep_destroy(ep);
}

/* The end of a pull and the bytes of a request arrive in the same poll. The callback of the pull
 * destroys the endpoint, so the request is dropped. */
TEST(destroyed_when_it_arrives)
{
	uint8_t desc[COPYRPC_BULK_SIZE];
	struct copyrpc_bulk *from, *to;
	struct copyrpc_remote remote;
	struct copyrpc_req *req;
	struct ends e = {0};
	PAIR p = rig_open(MIB, MIB);

	CHECK_EQ(copyrpc_bulk_create(p.ctx[0], data, 64, COPYRPC_REMOTE_READ, &from), 0);
	CHECK_EQ(copyrpc_bulk_create(p.ctx[1], resp, 64, 0, &to), 0);
	CHECK_EQ(copyrpc_bulk_export(from, p.ep[0], 0, 64, desc), 0);
	CHECK_EQ(copyrpc_bulk_import(p.ep[1], desc, sizeof(desc), &remote), 0);
	CHECK_EQ(copyrpc_bulk_pull(p.ep[1], &remote, 0, to, 0, 64, destroy, NULL), 0);
	CHECK_EQ(copyrpc_call_large(p.ep[0], data, 4 * PAGE, NULL, 0, 1), 0);
	copyrpc_flush(p.ctx[0]);
	until(&p, &e, 1);
	CHECK_EQ(e.status, -ECONNRESET);
	CHECK(!copyrpc_recv(p.ctx[1], &req));
}

/* One side destroys its endpoint. The calls end once; no memory stays in use. */
static void destroyed(int stage, int side)
{
	struct copyrpc_req *req;
	struct ends e = {0};
	PAIR p = rig_open(MIB, MIB);

	req = proceed(&p, (enum stage)stage);
	copyrpc_ep_destroy(p.ep[side]);
	until(&p, &e, stage == WAITING ? 2 : 1);
	CHECK_EQ(e.status, side ? -ECONNRESET : -ECANCELED);
	CHECK(!p.ctx[0]->regs);
	if (req)
		CHECK_EQ(copyrpc_reply(req, data, MIB),
			side ? -ECANCELED : copyrpc_ep_status(p.ep[1]));
	while (!side && stage > COLLECTED && !copyrpc_ep_status(p.ep[1]))
		copyrpc_poll(p.ctx[1], NULL, NULL);
	check_drained(p.ctx[1]);
}

static void at_each_stage(int side)
{
	for (int stage = COLLECTED; stage <= REPLIED; stage++)
		destroyed(stage, side);
}

TEST_WITH(the_caller_is_destroyed, at_each_stage, 0);
TEST_WITH(the_server_is_destroyed, at_each_stage, 1);

/* The sanitizer finds memory that is not freed. */
TEST(contexts_are_destroyed_at_each_stage)
{
	for (int stage = COLLECTED; stage <= REPLIED; stage++) {
		PAIR p = rig_open(MIB, MIB);

		proceed(&p, (enum stage)stage);
	}
}

/* ------------------------------------------------------------------ hostile peers */

static int no_end(struct call_hook *hook, struct copyrpc_ep *ep, const struct listener *to,
	int status, const void *bytes, uint32_t len)
{
	return 0;
}

/* A peer sends a wrong large request. */
TEST(hostile_requests)
{
	static const struct {
		uint32_t payload, limit; /* of the message */
		struct wire_large w;
		int status; /* of the server's endpoint */
	} cases[] = {
		{31, 8, {.len = 1}, -EPROTO},
		{0, 8, {.len = 1}, -EPROTO},
		{32, 7, {.len = 1}, -EPROTO},
		{33, 8, {.len = 2}, -EPROTO},
		{33, 8, {.len = 0}, -EPROTO},
		{32, 8, {.len = 1, .from_rkey = 0x12345}, -EACCES},
		{32, 8, {.from = UINT64_MAX, .len = MIB, .from_rkey = 0x12345}, -EACCES},
		{32, 8, {.resp_max = MIB, .to_rkey = 0x12345}, -EACCES},
		{32, 8, {.len = UINT32_MAX}, 0},
		{32, 8, {.resp_max = UINT32_MAX}, 0},
	};
	static struct call_hook hook = {.end = no_end};

	for (uint32_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t payload[64] = {0};
		struct copyrpc_req *req;
		PAIR p = rig_open(MIB, 0);

		memcpy(payload, &cases[i].w, sizeof(cases[i].w));
		ep_dirty(p.ep[0]);
		CHECK_EQ(chan_call_large(&p.ep[0]->ch, payload, cases[i].payload, cases[i].limit,
				 &hook),
			0);
		for (int k = 0; k < 4; k++) {
			copyrpc_poll(p.ctx[0], on_end, &(struct ends){0});
			copyrpc_poll(p.ctx[1], NULL, NULL);
			if (copyrpc_recv(p.ctx[1], &req))
				copyrpc_reply(req, data, MIB);
		}
		CHECK_EQ(copyrpc_ep_status(p.ep[1]), cases[i].status);
		CHECK_EQ(chan_requests(&p.ep[1]->ch), 0);
	}
}

static uint8_t forged[64];
static uint32_t forged_len;

static int forge(struct copyrpc_req *req)
{
	ep_dirty(ep_of(req->ch));
	return chan_reply_odd(req, forged, forged_len);
}

/* A server sends a wrong response to a large call. The payload of the response may have 4 bytes,
 * which are part of the message, or 1 MiB, which the server pushes. */
TEST(hostile_responses)
{
	static const struct {
		uint32_t payload, resp_max;
		struct wire_large_response r;
		int status;
	} cases[] = {
		{0, 4, {0, 0}, -EPROTO},
		{7, 4, {0, 0}, -EPROTO},
		{8, 4, {WIRE_NO_MEMORY, 0}, -ENOMEM},
		{8, 4, {WIRE_NO_MEMORY + 1, 0}, -EPROTO},
		{8, 4, {WIRE_TOO_LARGE, 1}, -EPROTO},
		{9, 4, {WIRE_TOO_LARGE, 0}, -EPROTO},
		{12, 4, {0, 3}, -EPROTO},
		{11, 4, {0, 4}, -EPROTO},
		{8, 4, {0, 4}, -EPROTO}, /* nothing was pushed */
		{8, MIB, {0, MIB + 1}, -EPROTO},
		{10, MIB, {0, 3}, -EPROTO},
		{12, 4, {0, 4}, 0},
		{8, 4, {0, 0}, 0},
		{8, MIB, {0, MIB}, 0},
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ends e = {0};
		PAIR p = rig_open(MIB, 0);

		p.ctx[1]->queue.large = forge;
		forged_len = cases[i].payload;
		memcpy(forged, &cases[i].r, sizeof(cases[i].r));
		CHECK_EQ(copyrpc_call_large(p.ep[0], data, 1, resp, cases[i].resp_max, 1), 0);
		copyrpc_poll(p.ctx[0], on_end, &e);
		until(&p, &e, 1);
		CHECK_EQ(e.status, cases[i].status);
		CHECK_EQ(copyrpc_ep_status(p.ep[0]), e.status == -EPROTO ? -EPROTO : 0);
	}
}

/* A response that fills the caller's buffer does not change the byte after the buffer. */
TEST(no_byte_beyond_the_buffer)
{
	struct ends e = {0};
	PAIR p = rig_open(MIB, 0);

	p.ctx[1]->queue.large = forge;
	forged_len = 8 + 8;
	memcpy(forged, &(struct wire_large_response){0, 8}, 8);
	memset(resp, 0xee, 16);
	CHECK_EQ(copyrpc_call_large(p.ep[0], data, 1, resp, 8, 1), 0);
	copyrpc_poll(p.ctx[0], on_end, &e);
	until(&p, &e, 1);
	CHECK(!e.status && e.len == 8 && resp[8] == 0xee);
}
