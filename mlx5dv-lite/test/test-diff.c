/* SPDX-License-Identifier: MIT */
/*
 * Cannot be told from the vendor's library. Requests: the same random operations are
 * posted with ibv_post_send() and with this library on twin QPs; each request must have
 * the same bytes and the same effect. Completions: the same CQ contents are read with
 * ibv_poll_cq() and with this library's polls.
 *
 * Known and wanted differences of requests: the index (the vendor wraps requests around the
 * end of the ring, here its end is filled), the QP number, bytes that mean nothing, and the
 * signal bit of requests that this library signals on its own account.
 */
#include "vendor.h"

enum {
	OPS = 10000,
	AREA = 8192, /* bytes of memory that one side of the twins works on */
	MAX_LEN = 2000,
};

static uint64_t rand_state;

static uint32_t below(uint32_t n)
{
	return (uint32_t)(test_rand(&rand_state) % n);
}

/* ---- one operation, two ways ---- */

struct op {
	uint8_t opcode;
	uint32_t len, imm, at, remote_at;
	unsigned flags;
	uint64_t a, b; /* operands of atomics */
	uint64_t token;
};

static bool is_atomic(uint8_t opcode)
{
	return opcode == MLX5DVL_FETCH_ADD || opcode == MLX5DVL_CMP_SWAP;
}

static struct op random_op(uint64_t token)
{
	static const uint8_t opcodes[] = { MLX5DVL_WRITE, MLX5DVL_WRITE_IMM, MLX5DVL_READ,
		MLX5DVL_SEND, MLX5DVL_SEND_IMM, MLX5DVL_FETCH_ADD, MLX5DVL_CMP_SWAP };
	struct op op = { .opcode = opcodes[below(ARRAY_SIZE(opcodes))],
		.len = below(4) ? below(221) : below(MAX_LEN),
		.imm = (uint32_t)test_rand(&rand_state),
		.at = below(AREA - MAX_LEN) & ~7u,
		.remote_at = below(AREA - MAX_LEN) & ~7u,
		.flags = below(16),
		.a = test_rand(&rand_state),
		.b = below(2) ? test_rand(&rand_state) : 0,
		.token = token };

	if (is_atomic(op.opcode))
		op.len = 8;
	if (op.len > MLX5DVL_INLINE_MAX)
		op.flags |= MLX5DVL_BY_REF; /* half inline, half not: verbs cannot express it */
	return op;
}

static void post_ours(struct mlx5dvl_qp *qp, const struct op *op, uint8_t *local, uint32_t lkey,
	uint8_t *remote, uint32_t rkey)
{
	uint64_t raddr = (uintptr_t)remote + op->remote_at;
	uint8_t *p = local + op->at;
	int err = -EINVAL;

	if (op->opcode == MLX5DVL_WRITE)
		err = mlx5dvl_post_write(qp, p, lkey, op->len, raddr, rkey, op->flags, op->token);
	else if (op->opcode == MLX5DVL_WRITE_IMM)
		err = mlx5dvl_post_write_imm(
			qp, p, lkey, op->len, raddr, rkey, op->imm, op->flags, op->token);
	else if (op->opcode == MLX5DVL_READ)
		err = mlx5dvl_post_read(qp, p, lkey, op->len, raddr, rkey, op->flags, op->token);
	else if (op->opcode == MLX5DVL_SEND)
		err = mlx5dvl_post_send(qp, p, lkey, op->len, op->flags, op->token);
	else if (op->opcode == MLX5DVL_SEND_IMM)
		err = mlx5dvl_post_send_imm(qp, p, lkey, op->len, op->imm, op->flags, op->token);
	else if (op->opcode == MLX5DVL_FETCH_ADD)
		err = mlx5dvl_post_fetch_add(qp, (uint64_t *)(void *)p, lkey, raddr, rkey, op->a,
			op->flags, op->token);
	else if (op->opcode == MLX5DVL_CMP_SWAP)
		err = mlx5dvl_post_cmp_swap(qp, (uint64_t *)(void *)p, lkey, raddr, rkey, op->a,
			op->b, op->flags, op->token);
	CHECK_EQ(err, 0);
}

static enum ibv_wr_opcode vendor_opcode(uint8_t opcode)
{
	switch (opcode) {
	case MLX5DVL_WRITE:
		return IBV_WR_RDMA_WRITE;
	case MLX5DVL_WRITE_IMM:
		return IBV_WR_RDMA_WRITE_WITH_IMM;
	case MLX5DVL_READ:
		return IBV_WR_RDMA_READ;
	case MLX5DVL_SEND:
		return IBV_WR_SEND;
	case MLX5DVL_SEND_IMM:
		return IBV_WR_SEND_WITH_IMM;
	case MLX5DVL_FETCH_ADD:
		return IBV_WR_ATOMIC_FETCH_AND_ADD;
	default:
		return IBV_WR_ATOMIC_CMP_AND_SWP;
	}
}

static unsigned vendor_flags(const struct op *op)
{
	bool can_inline = op->opcode != MLX5DVL_READ && !is_atomic(op->opcode);

	return (op->flags & MLX5DVL_SIGNALED ? IBV_SEND_SIGNALED : 0) |
	       (op->flags & MLX5DVL_SOLICITED ? IBV_SEND_SOLICITED : 0) |
	       (op->flags & MLX5DVL_FENCE ? IBV_SEND_FENCE : 0) |
	       (can_inline && !(op->flags & MLX5DVL_BY_REF) ? IBV_SEND_INLINE : 0);
}

static void post_vendor(struct vendor *v, const struct op *op, uint8_t *local, uint32_t lkey,
	uint8_t *remote, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)local + op->at, op->len, lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = op->token,
		.sg_list = &sge,
		.num_sge = op->len ? 1 : 0,
		.opcode = vendor_opcode(op->opcode),
		.send_flags = vendor_flags(op),
		.imm_data = htobe32(op->imm) };

	if (is_atomic(op->opcode)) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote + op->remote_at;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = op->a;
		wr.wr.atomic.swap = op->opcode == MLX5DVL_CMP_SWAP ? op->b : 0;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)remote + op->remote_at;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK_EQ(ibv_post_send(v->qp, &wr, &bad), 0);
}

/* ---- requests ---- */

/* The vendor's request, unwrapped. Returns its length in units of 16 bytes. */
static uint32_t vendor_request(struct vendor *v, uint8_t *out)
{
	uint32_t bytes = v->dv.sq.wqe_cnt * 64, at = v->pi * 64 % bytes, ds = 1;
	const uint8_t *sq = v->dv.sq.buf;

	for (uint32_t i = 0; i < ds * 16; i++) {
		out[i] = sq[(at + i) % bytes];
		if (i == 7)
			ds = out[7] & 0x3f;
	}
	v->pi += (ds + 3) / 4;
	return ds;
}

/* Bytes that mean nothing, and that the vendor's library leaves as they were: behind inline
   data up to the next 16, and the comparand of a fetch-and-add. */
static bool is_padding(const struct op *op, uint32_t i)
{
	uint32_t start = op->opcode == MLX5DVL_SEND || op->opcode == MLX5DVL_SEND_IMM ? 20 : 36;

	if (op->opcode == MLX5DVL_FETCH_ADD)
		return i >= 40 && i < 48;
	return (vendor_flags(op) & IBV_SEND_INLINE) && op->len && i >= start + op->len;
}

struct side {
	uint8_t *local, *remote; /* AREA bytes each */
	uint32_t lkey, rkey;
};

static void compare_requests(const struct op *op, struct vendor *v, const struct side *vs,
	struct mlx5dvl_qp *qp, const struct side *os, uint32_t quiet)
{
	uint8_t theirs[1024];
	const uint8_t *ours = qp->sq + (size_t)(qp->last & (qp->depth - 1)) * 64;
	uint32_t ds = vendor_request(v, theirs), at_remote = 16, at_local;
	bool own_signal = !(op->flags & MLX5DVL_SIGNALED) && qp->quiet == 0;

	CHECK_EQ(ours[7] & 0x3f, ds);
	CHECK_EQ(ours[3], theirs[3]);
	CHECK(!own_signal || quiet + (ds + 3) / 4 >= qp->interval);
	if (own_signal)
		theirs[11] |= 8;
	/* The twins work on different memory: take the vendor's addresses and keys to ours. */
	if (op->opcode != MLX5DVL_SEND && op->opcode != MLX5DVL_SEND_IMM) {
		CHECK_EQ(be64toh(*(uint64_t *)(void *)(theirs + at_remote)),
			(uintptr_t)vs->remote + op->remote_at);
		*(uint64_t *)(void *)(theirs + at_remote) =
			htobe64((uintptr_t)os->remote + op->remote_at);
		CHECK_EQ(be32toh(*(uint32_t *)(void *)(theirs + at_remote + 8)), vs->rkey);
		*(uint32_t *)(void *)(theirs + at_remote + 8) = htobe32(os->rkey);
	}
	at_local = ds * 16 - 16;
	if (op->len && !(vendor_flags(op) & IBV_SEND_INLINE)) {
		CHECK_EQ(be64toh(*(uint64_t *)(void *)(theirs + at_local + 8)),
			(uintptr_t)vs->local + op->at);
		*(uint64_t *)(void *)(theirs + at_local + 8) =
			htobe64((uintptr_t)os->local + op->at);
		*(uint32_t *)(void *)(theirs + at_local + 4) = htobe32(os->lkey);
	}
	for (uint32_t i = 0; i < ds * 16; i++) {
		bool masked = i == 1 || i == 2 || (i >= 4 && i < 7) || is_padding(op, i);

		if (masked || ours[i] == theirs[i])
			continue;
		fprintf(stderr, "opcode %#x len %u flags %#x: byte %u is %02x, the vendor's %02x\n",
			op->opcode, op->len, op->flags, i, ours[i], theirs[i]);
		exit(1);
	}
}

static void ignore_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	++*(uint64_t *)arg;
}

static void token_sum(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	*(uint64_t *)arg += sent->token;
}

static uint64_t vendor_poll(struct vendor *v)
{
	struct ibv_wc wc[32];
	uint64_t sum = 0;
	int n;

	while ((n = ibv_poll_cq(v->scq, 32, wc)) > 0)
		for (int i = 0; i < n; i++) {
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
			sum += wc[i].wr_id;
		}
	CHECK_EQ(n, 0);
	return sum;
}

/* The twins, and the peers that they talk to, which are both of this library. */
struct twins {
	struct hca h;
	struct vendor v;
	struct mlx5dvl_qp *ours, *our_peer, *vendor_peer;
	struct side vs, os;
};

static struct twins twins;

static void open_twins(void)
{
	struct twins *t = &twins;
	struct mlx5dvl_qp_info vendor, peer;

	hca_open(&t->h, &(struct hca_attr){ .recv_size = MAX_LEN, .mem = 4 * AREA });
	for (size_t i = 0; i < 2 * AREA; i++)
		t->h.mem[i] = t->h.mem[2 * AREA + i] = (uint8_t)test_rand(&rand_state);
	t->vs = (struct side){ t->h.mem, t->h.mem + AREA, t->h.mr.lkey, t->h.mr.rkey };
	t->os = (struct side){ t->h.mem + 2 * AREA, t->h.mem + 3 * AREA, t->h.mr.lkey, t->h.mr.rkey };
	t->ours = hca_qp(&t->h, (struct mlx5dvl_qp_attr){ 0 });
	t->our_peer = hca_qp(&t->h, (struct mlx5dvl_qp_attr){ 0 });
	t->vendor_peer = hca_qp(&t->h, (struct mlx5dvl_qp_attr){ 0 });
	hca_connect(t->ours, t->our_peer);
	vendor_open(&t->v, t->h.ctx, 64);
	vendor_info(&t->v, &vendor);
	mlx5dvl_qp_info(t->vendor_peer, &peer);
	CHECK_EQ(mlx5dvl_qp_connect(t->vendor_peer, &vendor), 0);
	vendor_connect(&t->v, &peer);
}

static void close_twins(void)
{
	vendor_close(&twins.v);
	mlx5dvl_qp_destroy(twins.ours);
	mlx5dvl_qp_destroy(twins.our_peer);
	mlx5dvl_qp_destroy(twins.vendor_peer);
	hca_close(&twins.h);
}

static void requests_have_the_vendors_bytes(void)
{
	struct twins *t = &twins;
	uint64_t our_tokens = 0, vendor_tokens = 0, received = 0, ops = OPS * (getenv("SOAK") ? 10 : 1);

	rand_state = test_seed();
	open_twins();
	for (uint64_t i = 0; i < ops; i++) {
		struct op op = random_op(i);
		uint32_t quiet = t->ours->quiet;

		if (i % 16 == 15)
			op.flags |= MLX5DVL_SIGNALED; /* the vendor frees slots only by these */
		post_vendor(&t->v, &op, t->vs.local, t->vs.lkey, t->vs.remote, t->vs.rkey);
		post_ours(t->ours, &op, t->os.local, t->os.lkey, t->os.remote, t->os.rkey);
		compare_requests(&op, &t->v, &t->vs, t->ours, &t->os, quiet);
		mlx5dvl_ring(t->ours);
		if (i % 16 == 15 || i + 1 == ops) {
			mlx5dvl_send_poll(t->h.scq, 64, token_sum, &our_tokens);
			vendor_tokens += vendor_poll(&t->v);
			mlx5dvl_mono_poll(t->h.rcq, 1024, ignore_recv, &received);
			mlx5dvl_srq_refill(t->h.srq);
			CHECK(our_tokens == vendor_tokens);
			CHECK(!memcmp(t->h.mem, t->h.mem + 2 * AREA, 2 * AREA));
		}
	}
	CHECK(received > ops / 2 && received % 2 == 0);
	CHECK_EQ(t->h.nerrors, 0);
	CHECK_EQ(mlx5dvl_qp_status(t->ours), 0);
	close_twins();
}

/* ---- completions ---- */

/* What both polls must report. */
struct event {
	uint32_t qpn, imm, len;
	uint8_t syndrome;
	uint8_t opcode; /* of a receive: enum mlx5dvl_recv_opcode */
	uint64_t token;
};

struct events {
	struct event e[2048];
	uint32_t n;
};

/* This library's reading of a copy of the vendor's CQ. */
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

	s->e[s->n++] = (struct event){
		.qpn = qp->qpn, .syndrome = error->syndrome, .token = error->token };
	qp->status = 0;
}

static void copy_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct events *s = arg;

	s->e[s->n++] = (struct event){ .qpn = qp->qpn,
		.imm = recv->opcode == MLX5DVL_RECV_SEND ? 0 : recv->imm, .len = recv->len,
		.opcode = recv->opcode };
}

static void copy_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	struct events *s = arg;

	s->e[s->n++] = (struct event){ .qpn = qp->qpn, .opcode = sent->opcode, .token = sent->token };
}

static void copy_open(struct copy *c, struct ibv_cq *cq, bool receives)
{
	const struct mlx5dvl_srq_attr attr = { .depth = VENDOR_SRQ_DEPTH };
	struct mlx5dv_obj obj = { .cq = { .in = cq, .out = &c->dv } };

	memset(c, 0, sizeof(*c));
	core_init(&c->core, copy_error, &c->seen);
	CHECK_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	c->buf = malloc((size_t)c->dv.cqe_cnt * c->dv.cqe_size);
	c->wqes = malloc(((size_t)VENDOR_SRQ_DEPTH * 4) * 32);
	CHECK(c->buf && c->wqes);
	srq_init(&c->srq, c->wqes, 5, VENDOR_SRQ_DEPTH, &c->srq_record, &attr);
	cq_init(&c->cq, c->buf, c->dv.cqe_cnt, c->dv.cqe_size, c->record,
		receives ? &c->srq : NULL, &c->core);
}

static void copy_add_qp(struct copy *c, int i, const struct vendor *v)
{
	CHECK_EQ(sq_init(&c->qp[i], v->dv.sq.buf, v->dv.sq.wqe_cnt, c->record, NULL,
			 v->qp->qp_num), 0);
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

/* Reads what is new in the vendor's queue, before the vendor's library does. */
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

/* The vendor's word for each syndrome; -1 as status: it has none of its own for it. */
static int status_of(uint8_t syndrome)
{
	switch (syndrome) {
	case 0:
		return IBV_WC_SUCCESS;
	case 0x01:
		return IBV_WC_LOC_LEN_ERR;
	case 0x02:
		return IBV_WC_LOC_QP_OP_ERR;
	case 0x04:
		return IBV_WC_LOC_PROT_ERR;
	case 0x05:
		return IBV_WC_WR_FLUSH_ERR;
	case 0x06:
		return IBV_WC_MW_BIND_ERR;
	case 0x10:
		return IBV_WC_BAD_RESP_ERR;
	case 0x11:
		return IBV_WC_LOC_ACCESS_ERR;
	case 0x12:
		return IBV_WC_REM_INV_REQ_ERR;
	case 0x13:
		return IBV_WC_REM_ACCESS_ERR;
	case 0x14:
		return IBV_WC_REM_OP_ERR;
	case 0x15:
		return IBV_WC_RETRY_EXC_ERR;
	case 0x16:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	case 0x22:
		return IBV_WC_REM_ABORT_ERR;
	default:
		return IBV_WC_GENERAL_ERR;
	}
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

static uint8_t wc_sent_opcode(const struct ibv_wc *wc, uint8_t ours)
{
	switch (wc->opcode) {
	case IBV_WC_RDMA_WRITE:
		return ours == MLX5DVL_WRITE_IMM ? MLX5DVL_WRITE_IMM : MLX5DVL_WRITE;
	case IBV_WC_SEND:
		return ours == MLX5DVL_SEND_IMM ? MLX5DVL_SEND_IMM : MLX5DVL_SEND;
	case IBV_WC_RDMA_READ:
		return MLX5DVL_READ;
	case IBV_WC_FETCH_ADD:
		return MLX5DVL_FETCH_ADD;
	default:
		return MLX5DVL_CMP_SWAP;
	}
}

static void same_sent(const struct event *e, const struct ibv_wc *wc)
{
	CHECK_EQ(e->qpn, wc->qp_num);
	CHECK_EQ(e->token, wc->wr_id);
	CHECK_EQ(status_of(e->syndrome), wc->status);
	if (!e->syndrome)
		CHECK_EQ(e->opcode, wc_sent_opcode(wc, e->opcode));
}

static void same_completions(
	struct copy *c, struct ibv_cq *cq, void (*same)(const struct event *, const struct ibv_wc *))
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

/* Two QPs of the vendor's, connected to each other, over the same CQs. */
struct pair {
	struct vendor v[2];
	struct copy sends, recvs;
	uint8_t *mem;
	struct ibv_mr *mr;
	uint64_t posted, errors;
};

static void share_queues(struct vendor *to, const struct vendor *from)
{
	struct mlx5dv_obj obj = { .qp = { .out = &to->dv } };

	*to = *from;
	to->qp = vendor_qp(to);
	obj.qp.in = to->qp;
	CHECK_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
}

static void pair_open(struct pair *p, struct mlx5dvl_ctx *ctx, uint16_t cqe_size)
{
	struct mlx5dvl_qp_info info[2];

	memset(p, 0, sizeof(*p));
	vendor_open(&p->v[0], ctx, cqe_size);
	share_queues(&p->v[1], &p->v[0]);
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
	struct ibv_sge sge = { (uintptr_t)p->mem + AREA, MAX_LEN, p->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	while (n--)
		CHECK_EQ(ibv_post_srq_recv(p->v[0].srq, &wr, &bad), 0);
}

/* Posts on QP i, and notes for the copy what this library would have noted. */
static void post_noted(struct pair *p, int i, const struct op *op, uint32_t rkey)
{
	struct vendor *v = &p->v[i];
	uint8_t request[1024];
	uint32_t at = v->pi & (v->dv.sq.wqe_cnt - 1), ds;

	post_vendor(v, op, p->mem, p->mr->lkey, p->mem + AREA, rkey);
	ds = vendor_request(v, request);
	p->sends.qp[i].slots[at] = (struct mlx5dvl_slot){ .token = op->token,
		.blocks = (uint8_t)((ds + 3) / 4),
		.flags = (uint8_t)op->flags, .opcode = op->opcode };
	p->posted++;
}

static bool consumes_receive(uint8_t opcode)
{
	return opcode == MLX5DVL_WRITE_IMM || opcode == MLX5DVL_SEND || opcode == MLX5DVL_SEND_IMM;
}

static void good_traffic(struct pair *p, uint64_t ops)
{
	while (p->posted < ops) {
		uint32_t n = 1 + below(60), used = 0;

		for (uint32_t k = 0; k < n; k++) {
			struct op op = random_op(p->posted);

			if (k + 1 >= n - 1 || below(2)) /* the last of each QP frees the slots */
				op.flags |= MLX5DVL_SIGNALED;
			used += consumes_receive(op.opcode);
			post_noted(p, (int)(k % 2), &op, p->mr->rkey);
		}
		same_completions(&p->recvs, p->v[0].rcq, same_recv);
		same_completions(&p->sends, p->v[0].scq, same_sent);
		post_receives(p, used);
	}
}

/* A request with a wrong key, and everything behind it flushed, on both QPs. With some
   other syndromes put into the queue, so that every one of them is compared. */
static void failing_traffic(struct pair *p)
{
	static const uint8_t syndromes[] = { 0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13,
		0x14, 0x15, 0x16, 0x22, 0x7f };
	const struct mlx5dv_cq *dv = &p->sends.dv;

	for (uint32_t k = 0; k < 80; k++) {
		struct op op = random_op(1000000 + k);

		op.opcode = MLX5DVL_WRITE;
		op.flags &= ~(unsigned)(below(2) ? MLX5DVL_SIGNALED : 0);
		post_noted(p, (int)(k % 2), &op, k < 2 ? p->mr->rkey + 1 : p->mr->rkey);
	}
	for (uint32_t i = 0, s = 0; i < dv->cqe_cnt; i++) {
		uint8_t *cqe = (uint8_t *)dv->buf + (size_t)(i + 1) * dv->cqe_size - 64;

		if (cqe[63] >> 4 == 0xd && s < 2 * ARRAY_SIZE(syndromes))
			cqe[55] = syndromes[s++ % ARRAY_SIZE(syndromes)];
	}
	same_completions(&p->sends, p->v[0].scq, same_sent);
	CHECK_EQ(p->sends.seen.n, 80);
}

static void completions_read_as_the_vendor_reads_them(void)
{
	struct mlx5dvl_ctx *ctx;
	static struct pair pair;
	uint64_t ops = OPS * (getenv("SOAK") ? 10 : 1);

	rand_state = test_seed();
	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){ 0 }, &ctx), 0);
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

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(requests_have_the_vendors_bytes),
		TEST(completions_read_as_the_vendor_reads_them),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
