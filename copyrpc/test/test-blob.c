/* SPDX-License-Identifier: MIT */
/*
 * The connection blob, decoded according to copyrpc.h without the library: a queue pair that has
 * only the blob writes a request into the ring. The last tests check the default attributes and the
 * objects of a context.
 */
#include <endian.h>

#include "../../mlx5dv-lite/test/hca.h"
#include "internal.h"
#include "pair.h"

static uint8_t blob[COPYRPC_INFO_SIZE];

/* Returns the little-endian number in the n bytes at @at. */
static uint64_t field(int at, int n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | blob[at + n];
	return v;
}

static bool is_zero(int at, int n)
{
	while (n--)
		if (blob[at + n])
			return false;
	return true;
}

static bool on_roce(void)
{
	return getenv("SOFTHCA_TOPOLOGY") != NULL;
}

TEST(fields)
{
	AT_END(end_ctx) struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;

	CHECK_EQ(copyrpc_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(copyrpc_ep_create(ctx, NULL, &ep), 0);
	copyrpc_ep_info(ep, blob);
	CHECK_EQ(COPYRPC_INFO_SIZE, 96);
	CHECK(memcmp(blob, "CPRPCINF", 8) == 0);
	CHECK_EQ(field(8, 2), 5); /* version */
	CHECK_EQ(field(10, 2), 96);
	CHECK_EQ(field(12, 4), mlx5dvl_qp_qpn(ep->qp));
	CHECK(field(16, 4) < 1 << 24); /* PSN */
	CHECK_EQ(field(23, 1), 4); /* READs served */
	CHECK_EQ(field(24, 1), 0); /* nested */
	CHECK(is_zero(25, 15));
	if (on_roce()) {
		CHECK_EQ(field(20, 2), 0); /* LID */
		CHECK_EQ(field(22, 1), 3); /* MTU of 1024 */
		CHECK(!is_zero(40, 16)); /* GID */
	} else {
		CHECK(field(20, 2) != 0);
		CHECK_EQ(field(22, 1), 5); /* 4096 */
		CHECK(is_zero(40, 16));
	}
	CHECK_EQ(field(80, 4), 1 << 20); /* ring: the default */
	CHECK_EQ(field(84, 4), 2048); /* credit: a quarter of the first ring */
	CHECK(is_zero(88, 8));
}

/* ---------------------------------------------- a peer that has only the blob */

#define RING 4096u

struct bare {
	struct hca h;
	struct mlx5dvl_qp *qp;
	uint8_t *ring;
	uint64_t *word, *seen; /* after the ring */
	uint32_t arrived;
};

static void bare_open(struct bare *b)
{
	memset(b, 0, sizeof(*b));
	hca_open(&b->h, &(struct hca_attr){0});
	b->qp = hca_qp(&b->h, (struct mlx5dvl_qp_attr){.user = b});
	b->ring = b->h.mem;
	b->word = (uint64_t *)(void *)(b->ring + RING);
	b->seen = b->word + 1;
}

static void bare_close(struct bare *b)
{
	mlx5dvl_qp_destroy(b->qp);
	hca_close(&b->h);
}

/* Connects the queue pair according to the endpoint's blob. */
static void bare_connect(struct bare *b)
{
	struct mlx5dvl_qp_info peer = {
		.qpn = (uint32_t)field(12, 4),
		.psn = (uint32_t)field(16, 4),
		.lid = (uint16_t)field(20, 2),
		.mtu = (uint8_t)field(22, 1),
		.rd_atomic = (uint8_t)field(23, 1),
	};

	memcpy(peer.gid, blob + 40, 16);
	CHECK_EQ(mlx5dvl_qp_connect(b->qp, &peer, sizeof(peer)), 0);
}

static void put(uint8_t *at, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		at[i] = (uint8_t)(v >> (8 * i));
}

/* Writes the blob of the queue pair, according to copyrpc.h. */
static void bare_blob(const struct bare *b, uint8_t *out)
{
	struct mlx5dvl_qp_info me;

	mlx5dvl_qp_get_info(b->qp, &me, sizeof(me));
	memset(out, 0, COPYRPC_INFO_SIZE);
	memcpy(out, "CPRPCINF", 8);
	put(out + 8, 5, 2);
	put(out + 10, 96, 2);
	put(out + 12, me.qpn, 4);
	put(out + 16, me.psn, 4);
	put(out + 20, me.lid, 2);
	out[22] = me.mtu;
	out[23] = me.rd_atomic;
	memcpy(out + 40, me.gid, 16);
	put(out + 56, (uintptr_t)b->ring, 8);
	put(out + 64, (uintptr_t)b->word, 8);
	put(out + 72, b->h.mr.rkey, 4);
	put(out + 76, b->h.mr.rkey, 4);
	put(out + 80, RING, 4);
	put(out + 84, RING / 4, 4);
}

static inline void on_arrival(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct bare *b = arg;

	b->arrived = recv->imm;
}

static inline void on_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	++*(int *)arg;
}

/* Opens @b, and a context with an endpoint that is connected to it. */
static struct copyrpc_ep *bare_meet(struct bare *b, struct copyrpc_ctx **ctx_p)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = RING};
	uint8_t mine[COPYRPC_INFO_SIZE];
	struct copyrpc_ep *ep;

	bare_open(b);
	CHECK_EQ(copyrpc_ctx_create(&attr, ctx_p), 0);
	CHECK_EQ(copyrpc_ep_create(*ctx_p, NULL, &ep), 0);
	copyrpc_ep_info(ep, blob);
	bare_connect(b);
	bare_blob(b, mine);
	CHECK_EQ(copyrpc_ep_connect(ep, mine, sizeof(mine)), 0);
	return ep;
}

static uint32_t bare_hear(struct bare *b)
{
	b->arrived = 0;
	while (!b->arrived)
		mlx5dvl_mono_poll(b->h.rcq, 8, on_arrival, b);
	return b->arrived;
}

/* Writes a request into the ring that the blob describes. Afterwards the consumer word has
 * advanced, and the reply is in the ring of @b. */
TEST(a_peer_that_has_only_the_blob)
{
	uint8_t batch[64] = {0};
	struct copyrpc_ctx *ctx;
	struct copyrpc_req *req;
	static struct bare b;
	int sent = 0;

	bare_meet(&b, &ctx);
	put(batch + 16, 1, 4); /* metadata: one message */
	put(batch + 32, 77, 4); /* id, limit, length, payload */
	put(batch + 36, 9, 4);
	put(batch + 40, 5, 4);
	memcpy(batch + 44, "hello", 5);
	CHECK_EQ(mlx5dvl_post_write_imm(b.qp, batch, 0, sizeof(batch), field(56, 8),
			 (uint32_t)field(72, 4), 2, 0, 0),
		0);
	mlx5dvl_ring(b.qp);
	while (!copyrpc_poll(ctx, NULL, NULL))
		;
	CHECK_EQ(copyrpc_recv(ctx, &req), 1);
	CHECK(copyrpc_req_len(req) == 5 && memcmp(copyrpc_req_data(req), "hello", 5) == 0);
	CHECK_EQ(copyrpc_req_allowance(req), 9);
	CHECK_EQ(copyrpc_reply(req, "good day!", 9), 0);
	CHECK_EQ(copyrpc_flush(ctx), 1);
	CHECK_EQ(mlx5dvl_post_read(b.qp, b.seen, b.h.mr.lkey, 8, field(64, 8),
			 (uint32_t)field(76, 4), MLX5DVL_SIGNALED, 0),
		0);
	mlx5dvl_ring(b.qp);
	while (!sent)
		mlx5dvl_send_poll(b.h.scq, 8, on_sent, &sent);
	CHECK_EQ(le64toh(*b.seen), 64); /* both blocks are consumed */
	CHECK_EQ(bare_hear(&b), 2);
	CHECK(memcmp(b.ring + 32, "\x4d\0\0\x80\x09\0\0\0\x09\0\0\0good day!", 21) == 0);
	copyrpc_ctx_destroy(ctx);
	CHECK_EQ(bare_hear(&b), 0xffffffff); /* the goodbye */
	bare_close(&b);
}

TEST(a_peer_that_says_goodbye)
{
	struct copyrpc_ctx *ctx;
	static struct bare b;
	struct copyrpc_ep *ep = bare_meet(&b, &ctx);

	CHECK_EQ(mlx5dvl_post_write_imm(b.qp, NULL, 0, 0, 0, 0, 0xffffffff, 0, 0), 0);
	mlx5dvl_ring(b.qp);
	while (!copyrpc_ep_status(ep))
		copyrpc_poll(ctx, NULL, NULL);
	CHECK_EQ(copyrpc_ep_status(ep), -ECONNRESET);
	copyrpc_ctx_destroy(ctx);
	bare_close(&b);
}

/* --------------------------------------------------------------------- objects */

TEST(defaults)
{
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;

	CHECK_EQ(copyrpc_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(copyrpc_ep_create(ctx, NULL, &ep), 0);
	CHECK_EQ(ctx->srq->depth, 8192); /* 64 endpoints, 256 / 2 receives for each */
	CHECK_EQ(ctx->recv_cq->depth, 8192);
	CHECK_EQ(ctx->send_cq->depth, 64 * 256);
	CHECK_EQ(ep->qp->depth, 256);
	CHECK_EQ(ep->ch.cr.c * 32, 8192);
	CHECK_EQ(ep->ch.most * 32, 1 << 20);
	CHECK_EQ(ep->ch.payload_max, 131060);
	for (int i = 1; i < 64; i++)
		CHECK_EQ(copyrpc_ep_create(ctx, &(struct copyrpc_ep_attr){.ring_size = 4096}, &ep),
			0);
	CHECK_EQ(copyrpc_ep_create(ctx, &(struct copyrpc_ep_attr){.ring_size = 4096}, &ep),
		-EMFILE);
	copyrpc_ctx_destroy(ctx);
	CHECK_EQ(copyrpc_ctx_create(&(struct copyrpc_ctx_attr){.srq_depth = 8192}, &ctx), 0);
	CHECK_EQ(ctx->recv_cq->depth, 8192);
	copyrpc_ctx_destroy(ctx);
}

/* Reads the numbers in the line of softhcactl about this process: contexts, PDs, AHs, MRs, CQs,
 * SRQs, QPs. */
static void count_objects(int n[7])
{
	char cmd[512], line[256];
	int pid = 0;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "LD_PRELOAD= %s -f %s show", getenv("SOFTHCACTL"),
		getenv("SOFTHCA_FABRIC"));
	f = popen(cmd, "r");
	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%d %*s %d %d %d %d %d %d %d", &pid, &n[0], &n[1], &n[2], &n[3],
			    &n[4], &n[5], &n[6]) == 8 &&
			pid == getpid())
			break;
	CHECK_EQ(pid, getpid());
	while (fgets(line, sizeof(line), f))
		;
	CHECK_EQ(pclose(f), 0);
}

/* There are receives for all batches that the peers can have in flight, within the device's
 * limit. */
TEST(receives_follow_the_endpoints)
{
	static const struct {
		uint32_t endpoints, sq, srq, cq;
	} cases[] = {{1, 256, 1024, 4096}, {8, 256, 1024, 4096}, {10, 256, 1280, 4096},
		{40, 256, 5120, 8192}, {1000, 256, 32767, 32768}, {16, 2048, 16384, 16384}};
	struct copyrpc_ctx *ctx;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct copyrpc_ctx_attr attr = {.max_endpoints = cases[i].endpoints,
			.sq_depth = cases[i].sq};

		CHECK_EQ(copyrpc_ctx_create(&attr, &ctx), 0);
		CHECK_EQ(ctx->srq->depth, cases[i].srq);
		CHECK_EQ(ctx->recv_cq->depth, cases[i].cq);
		copyrpc_ctx_destroy(ctx);
	}
}

/* For any number of endpoints there are one PD, two CQs, one SRQ, and a QP per endpoint. */
TEST(objects)
{
	struct copyrpc_ep *ep[5];
	AT_END(end_ctx) struct copyrpc_ctx *ctx;
	int n[7];

	CHECK_EQ(copyrpc_ctx_create(NULL, &ctx), 0);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(copyrpc_ep_create(ctx, NULL, &ep[i]), 0);
		count_objects(n);
		CHECK_EQ(n[0], 1);
		CHECK_EQ(n[1], 1);
		CHECK_EQ(n[2], 0);
		CHECK_EQ(n[3], 2 * (i + 1) + 1); /* two rings each, and all consumer words */
		CHECK_EQ(n[4], 2);
		CHECK_EQ(n[5], 1);
		CHECK_EQ(n[6], i + 1);
	}
	for (int i = 0; i < 5; i++)
		copyrpc_ep_destroy(ep[i]);
	copyrpc_poll(ctx, NULL, NULL);
	count_objects(n);
	CHECK_EQ(n[3], 0);
	CHECK_EQ(n[6], 0);
}
