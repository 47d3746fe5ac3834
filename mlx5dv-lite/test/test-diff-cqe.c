/* SPDX-License-Identifier: MIT */
/*
 * This library reads completions in the same way as the vendor's library. The test copies the CQ,
 * polls the CQ with ibv_poll_cq() and the copy with this library, and compares the results.
 */
#include "diff.h"
#include <endian.h>

/* A completion as both polls report it. */
struct event {
	uint32_t qpn, imm, len;
	uint8_t syndrome;
	uint8_t opcode; /* enum mlx5dvl_opcode, or enum mlx5dvl_recv_opcode */
	uint64_t token;
};

struct events {
	struct event e[2048];
	uint32_t n;
};

/* A copy of the vendor's CQ, which this library reads. */
struct copy {
	struct core core;
	struct mlx5dvl_cq cq;
	struct mlx5dvl_srq srq;
	struct mlx5dvl_qp qp[2];
	struct mlx5dv_cq dv;
	uint32_t record[2], srq_record;
	uint8_t *buf, *wqes;
	struct events seen;
};

static void copy_error(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_error *error)
{
	struct events *s = arg;

	s->e[s->n++] =
		(struct event){.qpn = qp->qpn, .syndrome = error->syndrome, .token = error->token};
	qp->status = 0;
}

static void copy_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct events *s = arg;

	s->e[s->n++] = (struct event){.qpn = qp->qpn,
		.imm = recv->opcode == MLX5DVL_RECV_SEND ? 0 : recv->imm,
		.len = recv->len,
		.opcode = recv->opcode};
}

static void copy_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	struct events *s = arg;

	s->e[s->n++] = (struct event){.qpn = qp->qpn, .opcode = sent->opcode, .token = sent->token};
}

static void copy_open(struct copy *c, struct ibv_cq *cq, bool receives)
{
	const struct mlx5dvl_srq_attr attr = {.depth = VENDOR_SRQ_DEPTH};
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = &c->dv}};

	memset(c, 0, sizeof(*c));
	core_init(&c->core, copy_error, &c->seen);
	CHECK_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	c->buf = malloc((size_t)c->dv.cqe_cnt * c->dv.cqe_size);
	c->wqes = malloc(((size_t)VENDOR_SRQ_DEPTH * 4) * 32);
	CHECK(c->buf && c->wqes);
	srq_init(&c->srq, c->wqes, 5, VENDOR_SRQ_DEPTH, &c->srq_record, &attr);
	cq_init(&c->cq, c->buf, c->dv.cqe_cnt, c->dv.cqe_size, c->record, receives ? &c->srq : NULL,
		&c->core);
}

static void copy_add_qp(struct copy *c, int i, const struct vendor *v)
{
	CHECK_EQ(sq_init(&c->qp[i], v->dv.sq.buf, v->dv.sq.wqe_cnt, c->record, NULL, v->qp->qp_num),
		0);
	CHECK_EQ(core_add_qp(&c->core, &c->qp[i]), 0);
}

static void copy_close(struct copy *c)
{
	for (int i = 0; i < 2; i++)
		sq_fini(&c->qp[i]);
	core_fini(&c->core);
	free(c->buf);
	free(c->wqes);
}

/* Reads the new completions of the vendor's queue before the vendor's library does. */
static void copy_poll(struct copy *c)
{
	memcpy(c->buf, c->dv.buf, (size_t)c->dv.cqe_cnt * c->dv.cqe_size);
	c->seen.n = 0;
	if (c->cq.srq)
		while (mlx5dvl_mono_poll(&c->cq, 1 + (int)below(64), copy_recv, &c->seen))
			;
	else
		while (mlx5dvl_send_poll(&c->cq, 1 + (int)below(64), copy_sent, &c->seen))
			;
}

static uint8_t wc_recv_opcode(const struct ibv_wc *wc)
{
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		return MLX5DVL_RECV_WRITE_IMM;
	return wc->wc_flags & IBV_WC_WITH_IMM ? MLX5DVL_RECV_SEND_IMM : MLX5DVL_RECV_SEND;
}

/* Returns the vendor's status for a syndrome. */
static enum ibv_wc_status status_of(uint8_t syndrome)
{
	static const enum ibv_wc_status of[] = {
		[0x01] = IBV_WC_LOC_LEN_ERR,
		[0x02] = IBV_WC_LOC_QP_OP_ERR,
		[0x04] = IBV_WC_LOC_PROT_ERR,
		[0x05] = IBV_WC_WR_FLUSH_ERR,
		[0x06] = IBV_WC_MW_BIND_ERR,
		[0x10] = IBV_WC_BAD_RESP_ERR,
		[0x11] = IBV_WC_LOC_ACCESS_ERR,
		[0x12] = IBV_WC_REM_INV_REQ_ERR,
		[0x13] = IBV_WC_REM_ACCESS_ERR,
		[0x14] = IBV_WC_REM_OP_ERR,
		[0x15] = IBV_WC_RETRY_EXC_ERR,
		[0x16] = IBV_WC_RNR_RETRY_EXC_ERR,
		[0x22] = IBV_WC_REM_ABORT_ERR,
	};

	if (!syndrome)
		return IBV_WC_SUCCESS;
	return syndrome < ARRAY_SIZE(of) && of[syndrome] ? of[syndrome] : IBV_WC_GENERAL_ERR;
}

static void same_recv(const struct event *e, const struct ibv_wc *wc)
{
	CHECK_EQ(e->qpn, wc->qp_num);
	CHECK_EQ(wc->status, IBV_WC_SUCCESS);
	CHECK_EQ(e->opcode, wc_recv_opcode(wc));
	CHECK_EQ(e->len, wc->byte_len);
	if (e->opcode != MLX5DVL_RECV_SEND)
		CHECK_EQ(e->imm, be32toh(wc->imm_data));
}

/* Returns the vendor's opcode of the completion of a request. */
static enum ibv_wc_opcode wc_opcode(uint8_t opcode)
{
	static const enum ibv_wc_opcode of[] = {
		[MLX5DVL_WRITE] = IBV_WC_RDMA_WRITE,
		[MLX5DVL_WRITE_IMM] = IBV_WC_RDMA_WRITE,
		[MLX5DVL_SEND] = IBV_WC_SEND,
		[MLX5DVL_SEND_IMM] = IBV_WC_SEND,
		[MLX5DVL_READ] = IBV_WC_RDMA_READ,
		[MLX5DVL_FETCH_ADD] = IBV_WC_FETCH_ADD,
		[MLX5DVL_CMP_SWAP] = IBV_WC_COMP_SWAP,
	};

	return of[opcode];
}

static void same_sent(const struct event *e, const struct ibv_wc *wc)
{
	CHECK_EQ(e->qpn, wc->qp_num);
	CHECK_EQ(e->token, wc->wr_id);
	CHECK_EQ(status_of(e->syndrome), wc->status);
	if (!e->syndrome)
		CHECK_EQ(wc_opcode(e->opcode), wc->opcode);
}

static void same_completions(struct copy *c, struct ibv_cq *cq,
	void (*same)(const struct event *, const struct ibv_wc *))
{
	struct ibv_wc wc[32];
	uint32_t at = 0;
	int n;

	copy_poll(c);
	while ((n = ibv_poll_cq(cq, 32, wc)) > 0)
		for (int i = 0; i < n; i++) {
			CHECK(at < c->seen.n);
			same(&c->seen.e[at++], &wc[i]);
		}
	CHECK_EQ(n, 0);
	CHECK_EQ(at, c->seen.n);
}

/* Two QPs of the vendor's library, connected to each other, with the same CQs. */
struct pair {
	struct vendor v[2];
	struct copy sends, recvs;
	uint8_t *mem;
	struct ibv_mr *mr;
	uint64_t posted, errors;
};

static void pair_open(struct pair *p, struct mlx5dvl_ctx *ctx, uint16_t cqe_size)
{
	struct mlx5dvl_qp_info info[2];

	memset(p, 0, sizeof(*p));
	vendor_open(&p->v[0], ctx, cqe_size, IBV_QPT_RC);
	p->v[1] = p->v[0];
	vendor_qp(&p->v[1]);
	p->mem = aligned_alloc(4096, 2 * AREA);
	CHECK(p->mem);
	memset(p->mem, 0, 2 * AREA);
	p->mr = ibv_reg_mr(ctx->pd, p->mem, 2 * AREA, ALL_ACCESS);
	CHECK(p->mr);
	copy_open(&p->sends, p->v[0].scq, false);
	copy_open(&p->recvs, p->v[0].rcq, true);
	for (int i = 0; i < 2; i++) {
		vendor_info(&p->v[i], &info[i]);
		copy_add_qp(&p->sends, i, &p->v[i]);
		copy_add_qp(&p->recvs, i, &p->v[i]);
	}
	for (int i = 0; i < 2; i++)
		vendor_connect(&p->v[i], &info[!i]);
}

static void pair_close(struct pair *p)
{
	copy_close(&p->sends);
	copy_close(&p->recvs);
	CHECK_EQ(ibv_destroy_qp(p->v[1].qp), 0);
	vendor_close(&p->v[0]);
	CHECK_EQ(ibv_dereg_mr(p->mr), 0);
	free(p->mem);
}

static void post_receives(struct pair *p, uint32_t n)
{
	struct ibv_sge sge = {(uintptr_t)p->mem + AREA, MAX_LEN, p->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	while (n--)
		CHECK_EQ(ibv_post_srq_recv(p->v[0].srq, &wr, &bad), 0);
}

/* Posts on QP i, and records for the copy what this library would have recorded. */
static void post_noted(struct pair *p, int i, const struct op *op, uint32_t rkey)
{
	struct vendor *v = &p->v[i];
	uint8_t request[1024];
	uint32_t at = v->pi & (v->dv.sq.wqe_cnt - 1), ds;

	post_vendor(v, op, p->mem, p->mr->lkey, p->mem + AREA, rkey);
	ds = vendor_request(v, request);
	p->sends.qp[i].slots[at] = (struct mlx5dvl_slot){.token = op->token,
		.request.blocks = (uint8_t)((ds + 3) / 4),
		.request.flags = (uint8_t)op->flags,
		.request.opcode = op->opcode};
	p->posted++;
}

static void good_traffic(struct pair *p, uint64_t ops)
{
	while (p->posted < ops) {
		uint32_t n = 1 + below(60), used = 0;

		for (uint32_t k = 0; k < n; k++) {
			struct op op = random_op(p->posted);

			if (k + 1 >= n - 1 || below(2)) /* each QP's last request is signaled: its
							   completion frees the slots */
				op.flags |= MLX5DVL_SIGNALED;
			used += consumes_receive(op.opcode);
			post_noted(p, (int)(k % 2), &op, p->mr->rkey);
		}
		same_completions(&p->recvs, p->v[0].rcq, same_recv);
		same_completions(&p->sends, p->v[0].scq, same_sent);
		post_receives(p, used);
	}
}

/* Posts a request with a wrong key on both QPs, so that all later requests are flushed. Then
 * overwrites the syndromes in the error CQEs, so that every syndrome is compared. */
static void failing_traffic(struct pair *p)
{
	static const uint8_t syndromes[] = {0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13,
		0x14, 0x15, 0x16, 0x22, 0x7f};
	const struct mlx5dv_cq *dv = &p->sends.dv;
	uint32_t s = 0;

	for (uint32_t k = 0; k < 80; k++) {
		struct op op = random_op(1000000 + k);

		op.opcode = MLX5DVL_WRITE;
		op.len += !op.len; /* the device does not check the key if the length is 0 */
		op.flags &= ~(unsigned)(below(2) ? MLX5DVL_SIGNALED : 0);
		post_noted(p, (int)(k % 2), &op, k < 2 ? p->mr->rkey + 1 : p->mr->rkey);
	}
	for (uint32_t i = 0; i < dv->cqe_cnt; i++) {
		uint8_t *cqe = (uint8_t *)dv->buf + (size_t)(i + 1) * dv->cqe_size - 64;

		if (cqe[63] >> 4 == 0xd && s < 2 * ARRAY_SIZE(syndromes))
			cqe[55] = syndromes[s++ % ARRAY_SIZE(syndromes)];
	}
	CHECK_EQ(s, 2 * ARRAY_SIZE(syndromes));
	same_completions(&p->sends, p->v[0].scq, same_sent);
	CHECK_EQ(p->sends.seen.n, 80);
}

TEST(completions_read_as_the_vendor_reads_them)
{
	struct mlx5dvl_ctx *ctx;
	static struct pair pair;
	uint64_t ops = OPS * (getenv("SOAK") ? 10 : 1);

	rand_state = test_seed();
	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){0}, &ctx), 0);
	for (uint16_t cqe_size = 64; cqe_size <= 128; cqe_size *= 2) {
		pair_open(&pair, ctx, cqe_size);
		post_receives(&pair, VENDOR_SRQ_DEPTH - 1);
		good_traffic(&pair, ops);
		CHECK(pair.sends.cq.ci > 2 * pair.sends.cq.depth); /* the owner bit wrapped */
		failing_traffic(&pair);
		pair_close(&pair);
	}
	mlx5dvl_ctx_close(ctx);
}
