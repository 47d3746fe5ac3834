/* SPDX-License-Identifier: MIT */
/*
 * A hostile peer: a bare queue pair writes arbitrary bytes and immediates into the ring of an
 * endpoint, before and while the ring is read. Only that endpoint fails; other endpoints in the
 * same context keep working.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "../../mlx5dv-lite/test/hca.h"
#include "blob.h"
#include "internal.h"
#include "pair.h"

#define RING 4096u

/* The attacker: a bare queue pair, and memory to write from. */
struct attacker {
	struct hca h;
	struct mlx5dvl_qp *qp;
	uint8_t *buf; /* RING bytes */
};

static inline void on_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
}

static void attacker_open(struct attacker *a)
{
	hca_open(&a->h, &(struct hca_attr){.mem = RING});
	a->qp = NULL;
	a->buf = a->h.mem;
}

static void attacker_close(struct attacker *a)
{
	mlx5dvl_qp_destroy(a->qp);
	hca_close(&a->h);
}

/* Creates a victim endpoint, connected to a new queue pair of the attacker. */
static struct copyrpc_ep *attack(struct attacker *a, struct copyrpc_ctx *ctx)
{
	uint8_t bytes[COPYRPC_INFO_SIZE];
	struct copyrpc_ep *ep;
	struct blob b;

	mlx5dvl_qp_destroy(a->qp);
	a->h.nerrors = 0;
	a->qp = hca_qp(&a->h, (struct mlx5dvl_qp_attr){.user = a});
	CHECK_EQ(copyrpc_ep_create(ctx, NULL, &ep), 0);
	copyrpc_ep_info(ep, bytes);
	CHECK_EQ(blob_decode(&b, bytes, sizeof(bytes)), 0);
	CHECK_EQ(mlx5dvl_qp_connect(a->qp, &b.qp, sizeof(b.qp)), 0);
	mlx5dvl_qp_get_info(a->qp, &b.qp, sizeof(b.qp));
	b.ring_addr = b.word_addr = (uintptr_t)a->buf;
	b.ring_rkey = b.word_rkey = a->h.mr.rkey;
	blob_encode(&b, bytes);
	CHECK_EQ(copyrpc_ep_connect(ep, bytes, sizeof(bytes)), 0);
	return ep;
}

static void write_to(struct attacker *a, uint32_t from, uint32_t len, uint64_t raddr, uint32_t rkey)
{
	mlx5dvl_post_write(a->qp, a->buf + from, a->h.mr.lkey, len, raddr, rkey, 0, 0);
	mlx5dvl_ring(a->qp);
	mlx5dvl_send_poll(a->h.scq, 64, on_sent, NULL);
}

static void announce(struct attacker *a, uint32_t imm)
{
	mlx5dvl_post_write_imm(a->qp, NULL, 0, 0, 0, 0, imm, 0, 0);
	mlx5dvl_ring(a->qp);
	mlx5dvl_send_poll(a->h.scq, 64, on_sent, NULL);
}

/* ------------------------------------------------------------ the neighbours */

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	uint64_t *good = arg, sum = 0;

	for (uint32_t i = 0; i < len; i++)
		sum += ((const uint8_t *)data)[i];
	if (token == 4711) {
		CHECK(!status && len == 4 && sum == 'g' + 'o' * 2 + 'd');
		++*good;
	}
}

struct neighbours {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep[2];
	uint64_t good;
};

static void neighbours_open(struct neighbours *n)
{
	struct copyrpc_ctx_attr attr = {.ring_size = RING};

	n->good = 0;
	CHECK_EQ(copyrpc_ctx_create(&attr, &n->ctx), 0);
	join(n->ctx, n->ctx, n->ep);
}

/* Handles all messages and answers all requests. */
static void work(struct neighbours *n, uint64_t *seed)
{
	struct copyrpc_req *req;

	copyrpc_poll(n->ctx, on_response, &n->good);
	while (copyrpc_recv(n->ctx, &req)) {
		uint32_t sum = 0, most = copyrpc_req_allowance(req) < 4 ? 0 : 4;

		for (uint32_t i = 0; i < copyrpc_req_len(req); i++)
			sum += ((const uint8_t *)copyrpc_req_data(req))[i];
		if (test_rand(seed) % 4 == 0)
			CHECK_EQ(copyrpc_req_detach(req), 0);
		copyrpc_reply(req, "good", copyrpc_req_ep(req) == n->ep[1] || sum % 2 ? most : 0);
	}
}

static void check_neighbours(struct neighbours *n, uint64_t *seed)
{
	uint64_t before = n->good;

	CHECK_EQ(copyrpc_call(n->ep[0], "hello", 5, 4, 4711), 0);
	while (n->good == before)
		work(n, seed);
}

/* ------------------------------------------------------------------- attacks */

/* Stores in a->buf a batch that an honest peer could send. Returns the number of its blocks. */
static uint32_t honest(struct attacker *a, const struct copyrpc_ep *ep, uint64_t *seed)
{
	uint32_t off = (uint32_t)ep->ch.live.pos & ep->ch.mask,
		 len = (uint32_t)(test_rand(seed) % 200);
	uint32_t n = 1 + wire_blocks(len);

	if (n > ep->ch.cr.c - off) {
		wire_put_meta(a->buf + off * WIRE_BLOCK, ep->ch.sent * WIRE_BLOCK, 0, WIRE_WRAP);
		return ep->ch.cr.c - off;
	}
	wire_put_meta(a->buf + off * WIRE_BLOCK, ep->ch.sent * WIRE_BLOCK, 0, 1);
	wire_put_header(a->buf + (off + 1) * WIRE_BLOCK, (uint32_t)test_rand(seed) % 64, 4, len);
	return n;
}

static struct {
	struct attacker a;
	struct neighbours n;
	uint64_t seed;
	int failed; /* endpoints that failed with -EPROTO */
} s;

/* Makes each attack on a new endpoint. */
static void attacks(int times, void (*fn)(struct copyrpc_ep *ep, int i))
{
	s.seed = test_seed();
	s.failed = 0;
	attacker_open(&s.a);
	neighbours_open(&s.n);
	for (int i = 0; i < times; i++) {
		struct copyrpc_ep *ep = attack(&s.a, s.n.ctx);

		fn(ep, i);
		s.failed += copyrpc_ep_status(ep) == -EPROTO;
		check_neighbours(&s.n, &s.seed);
		copyrpc_ep_destroy(ep);
		work(&s.n, &s.seed);
	}
	copyrpc_ctx_destroy(s.n.ctx);
	attacker_close(&s.a);
}

static void send_random(struct copyrpc_ep *ep, int round)
{
	for (int i = 0; i < 40 && !copyrpc_ep_status(ep); i++) {
		uint32_t imm = honest(&s.a, ep, &s.seed);

		if (round % 4 == 1 && i > 3)
			for (uint32_t k = 0; k < RING; k++)
				s.a.buf[k] = (uint8_t)test_rand(&s.seed);
		if (round % 4 == 2 && i > 3)
			s.a.buf[test_rand(&s.seed) % RING] ^= (uint8_t)test_rand(&s.seed);
		if (round % 4 == 3 && i > 3)
			imm = (uint32_t)test_rand(&s.seed) >> test_rand(&s.seed) % 32;
		copyrpc_call(ep, "x", 1, 64, 1); /* so that a response is possible */
		write_to(&s.a, 0, RING, (uintptr_t)ep->recv.at, ep->recv.rkey);
		announce(&s.a, imm);
		work(&s.n, &s.seed);
	}
}

TEST(random_bytes_and_immediates)
{
	attacks(200, send_random);
	printf("  %d endpoints failed\n", s.failed);
	CHECK(s.failed > 50);
}

static void write_elsewhere(struct copyrpc_ep *ep, int i)
{
	const struct {
		void *at;
		uint32_t rkey;
	} to[] = {{ep->ch.send_ring, ep->send.rkey}, {&ep->words->peer, ep->word.rkey},
		{&ep->words->consumer, ep->word.rkey},
		{s.n.ep[0]->recv.at, ep->recv.rkey}, /* the receive ring of another endpoint */
		/* across the end of the ring that the peer may write */
		{ep->recv.at + RING - 4, ep->recv.rkey}};

	memset(s.a.buf, 0xee, 64);
	write_to(&s.a, 0, 8, (uintptr_t)to[i].at, to[i].rkey);
	while (!s.a.h.nerrors)
		mlx5dvl_send_poll(s.a.h.scq, 64, on_sent, NULL);
	CHECK_EQ(s.a.h.errors[0].err, -EACCES);
	CHECK(*(const uint8_t *)to[i].at != 0xee);
}

static void until_it_fails(struct copyrpc_ep *ep)
{
	while (!copyrpc_ep_status(ep))
		work(&s.n, &s.seed);
	CHECK_EQ(copyrpc_ep_status(ep), -EPROTO);
}

/* WRITEs to memory outside the endpoint's receive ring fail. */
TEST_WITH(other_memory_is_out_of_reach, attacks, 5, write_elsewhere);

static void lie(struct copyrpc_ep *ep, int i)
{
	static const uint64_t lies[] = {7, 1 << 20, UINT64_MAX - 31};
	int rc;

	memset(s.a.buf, 0, RING);
	while (!(rc = copyrpc_call(ep, s.a.buf, 400, 0, 1)))
		;
	CHECK_EQ(rc, -EAGAIN);
	/* The calls are sent to the memory that holds the false position, so they are sent
	 * first. */
	while (copyrpc_flush(s.n.ctx))
		;
	memcpy(s.a.buf, &lies[i], 8);
	until_it_fails(ep);
}

/* A hostile peer can return any value to the READ of its position. */
TEST_WITH(lies_about_the_position, attacks, 3, lie);

static void send_message(struct copyrpc_ep *ep, int i)
{
	/* The endpoint's receive ring is still zero, which is a valid batch without messages. */
	if (i)
		mlx5dvl_post_send(s.a.qp, s.a.buf, s.a.h.mr.lkey, 8 * (uint32_t)i, 0, 0);
	else
		mlx5dvl_post_send_imm(s.a.qp, NULL, 0, 0, 1, 0, 0);
	mlx5dvl_ring(s.a.qp);
	until_it_fails(ep);
}

/* Batches are WRITEs; a SEND, with or without payload, breaks the protocol. */
TEST_WITH(sends_are_refused, attacks, 9, send_message);

static void respond_twice(struct copyrpc_ep *ep, int i)
{
	CHECK_EQ(copyrpc_call(ep, "x", 1, 64, 1), 0);
	copyrpc_flush(s.n.ctx);
	for (uint64_t k = 0; k < 2; k++) {
		uint32_t off = (uint32_t)ep->ch.live.pos & ep->ch.mask;

		CHECK_EQ(copyrpc_ep_status(ep), 0);
		wire_put_meta(s.a.buf + off * WIRE_BLOCK, 0, 0, 1);
		wire_put_header(s.a.buf + (off + 1) * WIRE_BLOCK, WIRE_RESPONSE, 64, 4);
		write_to(&s.a, 0, RING, (uintptr_t)ep->recv.at, ep->recv.rkey);
		announce(&s.a, 2);
		for (int late = 0; late < i; late++)
			check_neighbours(&s.n, &s.seed);
		while (ep->ch.stats.batches_received < k + 1)
			work(&s.n, &s.seed);
	}
	CHECK_EQ(ep->ch.ncalls, 0);
	CHECK_EQ(copyrpc_ep_status(ep), -EPROTO);
}

/* The response to a call that has ended arrives again: only that endpoint fails. */
TEST_WITH(a_stale_response, attacks, 8, respond_twice);

/* ------------------------------------------------------- while it is being read */

struct race {
	struct attacker a;
	uint64_t addr;
	uint32_t rkey;
	atomic_bool stop;
};

static void *scribble(void *arg)
{
	struct race *r = arg;
	uint64_t seed = 1;

	/* Acquire: pairs with the release in the test, which uses r->a afterwards. */
	while (!atomic_load_explicit(&r->stop, memory_order_acquire)) {
		uint32_t at = (uint32_t)(test_rand(&seed) % (RING / 8)) * 8;
		uint64_t v = test_rand(&seed) >> test_rand(&seed) % 64;

		/* This probably changes a field of a header while the endpoint reads it. */
		memcpy(r->a.buf + at, &v, 8);
		write_to(&r->a, at, 8, r->addr + at, r->rkey);
		sched_yield();
	}
	return NULL;
}

TEST(writes_while_it_is_read)
{
	uint64_t seed = test_seed();
	static struct race r;
	static struct attacker b;
	struct neighbours n;
	int failed = 0;

	neighbours_open(&n);
	attacker_open(&b);
	for (int round = 0; round < 30; round++) {
		struct copyrpc_ep *ep = attack(&b, n.ctx);
		struct copyrpc_ep *door;
		pthread_t thread;

		/* A second connection of the attacker writes into the same ring. */
		memset(&r, 0, sizeof(r));
		attacker_open(&r.a);
		door = attack(&r.a, n.ctx);
		r.addr = (uintptr_t)ep->recv.at;
		r.rkey = ep->recv.rkey;
		CHECK_EQ(pthread_create(&thread, NULL, scribble, &r), 0);
		for (int i = 0; i < 500 && !copyrpc_ep_status(ep); i++) {
			uint32_t imm = honest(&b, ep, &seed);

			write_to(&b, 0, RING, r.addr, r.rkey);
			announce(&b, imm);
			work(&n, &seed);
		}
		check_neighbours(&n, &seed);
		failed += copyrpc_ep_status(ep) == -EPROTO;
		atomic_store_explicit(&r.stop, true,
			memory_order_release); /* pairs with scribble() */
		CHECK_EQ(pthread_join(thread, NULL), 0);
		copyrpc_ep_destroy(door);
		copyrpc_ep_destroy(ep);
		work(&n, &seed);
		attacker_close(&r.a);
	}
	printf("  %d endpoints failed\n", failed);
	copyrpc_ctx_destroy(n.ctx);
	attacker_close(&b);
}
