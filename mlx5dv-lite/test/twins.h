/* SPDX-License-Identifier: MIT */
/* Twin QPs that get the same requests: one of this library ("ours") and one of the vendor's. The
 * peers of both use this library. */
#ifndef TWINS_H
#define TWINS_H

#include "diff.h"

struct twins {
	enum mlx5dvl_qp_type type;
	struct hca h;
	struct vendor v;
	struct mlx5dvl_qp *ours, *our_peer, *vendor_peer;
	struct mlx5dvl_ah *ah;
	struct ibv_ah *vendor_ah;
	uint32_t our_peer_qpn, vendor_peer_qpn;
	struct side vs, os;
};

static struct twins t;

static inline struct mlx5dvl_qp *connect_ours(struct mlx5dvl_qp *peer)
{
	struct mlx5dvl_qp_attr a = {.type = (uint8_t)t.type, .qkey = VENDOR_QKEY};
	struct mlx5dvl_qp *qp = hca_qp(&t.h, a);
	struct mlx5dvl_qp_info info;

	if (t.type != MLX5DVL_UD) {
		hca_connect(qp, peer);
		return qp;
	}
	mlx5dvl_qp_get_info(peer, &info, sizeof(info));
	CHECK_EQ(info.qkey, VENDOR_QKEY);
	CHECK_EQ(mlx5dvl_qp_connect(qp, &info, sizeof(info)), -EINVAL);
	CHECK_EQ(mlx5dvl_qp_connect(qp, NULL, 0), 0);
	CHECK_EQ(mlx5dvl_qp_connect(peer, NULL, 0), 0);
	CHECK_EQ(mlx5dvl_ah_create(qp, &info, sizeof(info), &t.ah), 0);
	return qp;
}

static inline void connect_vendor(void)
{
	struct mlx5dvl_qp_info vendor, peer;
	struct ibv_ah_attr attr;

	vendor_info(&t.v, &vendor);
	mlx5dvl_qp_get_info(t.vendor_peer, &peer, sizeof(peer));
	CHECK_EQ(mlx5dvl_qp_connect(t.vendor_peer, t.type == MLX5DVL_UD ? NULL : &vendor,
			 sizeof(vendor)),
		0);
	vendor_connect(&t.v, &peer);
	vendor_address(&t.v, &peer, &attr);
	t.vendor_ah = ibv_create_ah(t.h.ctx->pd, &attr);
	CHECK(t.vendor_ah);
}

static inline void open_twins(enum mlx5dvl_qp_type type, uint32_t srq_depth, uint32_t recv_size)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct mlx5dvl_qp_attr a = {.type = (uint8_t)type, .qkey = VENDOR_QKEY};

	memset(&t, 0, sizeof(t));
	t.type = type;
	hca_open(&t.h, &(struct hca_attr){.srq_depth = srq_depth,
			       .recv_size = recv_size,
			       .mem = 4 * AREA});
	for (size_t i = 0; i < 2 * AREA; i++)
		t.h.mem[i] = t.h.mem[2 * AREA + i] = (uint8_t)test_rand(&rand_state);
	t.vs = (struct side){t.h.mem, t.h.mem + AREA, t.h.mr.lkey, t.h.mr.rkey};
	t.os = t.vs;
	t.os.local += 2 * AREA;
	t.os.remote += 2 * AREA;
	t.our_peer = hca_qp(&t.h, a);
	t.vendor_peer = hca_qp(&t.h, a);
	t.our_peer_qpn = mlx5dvl_qp_qpn(t.our_peer);
	t.vendor_peer_qpn = mlx5dvl_qp_qpn(t.vendor_peer);
	t.ours = connect_ours(t.our_peer);
	CHECK_EQ(qp_of(t.ours)->ibv->qp_type, types[type]);
	vendor_open(&t.v, t.h.ctx, 64, types[type]);
	connect_vendor();
}

static inline void close_twins(void)
{
	mlx5dvl_ah_destroy(t.ah);
	CHECK_EQ(ibv_destroy_ah(t.vendor_ah), 0);
	vendor_close(&t.v);
	mlx5dvl_qp_destroy(t.ours);
	mlx5dvl_qp_destroy(t.our_peer);
	mlx5dvl_qp_destroy(t.vendor_peer);
	hca_close(&t.h);
}

/* Offsets of the fields of a request. */
enum {
	AT_INDEX = 1, /* 2 bytes */
	AT_OPCODE = 3,
	AT_QPN = 4, /* 3 bytes */
	AT_DS = 7, /* low 6 bits: length in units of 16 bytes */
	AT_FLAGS = 11,
	AT_REMOTE = 16, /* remote address segment */
	AT_COMPARE = 40, /* of an atomic; 8 bytes */
	REMOTE_RKEY = 8, /* offset in a remote address segment */
	DATA_LKEY = 4, /* offset in a data segment */
	DATA_ADDR = 8,
	INLINE_HEADER = 4, /* size of the length field before inline data */
	UNIT = 16,
	CQ_UPDATE = 8, /* bit of AT_FLAGS: signaled */
};

static inline void replace32(uint8_t *p, uint32_t was, uint32_t is)
{
	uint32_t word;

	memcpy(&word, p, 4);
	CHECK_EQ(be32toh(word), was);
	word = htobe32(is);
	memcpy(p, &word, 4);
}

static inline void replace64(uint8_t *p, uint64_t was, uint64_t is)
{
	replace32(p, (uint32_t)(was >> 32), (uint32_t)(is >> 32));
	replace32(p + 4, (uint32_t)was, (uint32_t)is);
}

/* Replaces the address and the key in a remote address segment of the vendor's request by those of
 * this library's twin. */
static inline void translate_remote(uint8_t *seg, uint32_t at)
{
	replace64(seg, (uintptr_t)t.vs.remote + at, (uintptr_t)t.os.remote + at);
	replace32(seg + REMOTE_RKEY, t.vs.rkey, t.os.rkey);
}

/* Does the same in a data segment. */
static inline void translate_local(uint8_t *seg, uint32_t at)
{
	replace32(seg + DATA_LKEY, t.vs.lkey, t.os.lkey);
	replace64(seg + DATA_ADDR, (uintptr_t)t.vs.local + at, (uintptr_t)t.os.local + at);
}

static inline const uint8_t *our_request(void)
{
	return t.ours->sq + (size_t)(t.ours->last & (t.ours->depth - 1)) * 64;
}

/* Copies the vendor's newest request, whose length and opcode must be those of ours. If this
 * library has signaled the request by itself, sets CQ_UPDATE in the copy. @left: t.ours->left
 * before the request. Returns the length. */
static inline uint32_t same_head(const struct op *op, uint8_t *theirs, int32_t left)
{
	const uint8_t *ours = our_request();
	uint32_t ds = vendor_request(&t.v, theirs);
	bool own_signal = !(op->flags & MLX5DVL_SIGNALED) && t.ours->left == t.ours->interval;

	CHECK_EQ(ours[AT_DS] & 0x3f, ds);
	CHECK_EQ(ours[AT_OPCODE], theirs[AT_OPCODE]);
	CHECK(!own_signal || left <= (int32_t)(ds + 3) / 4);
	if (own_signal)
		theirs[AT_FLAGS] |= CQ_UPDATE;
	return ds;
}

/* Compares the vendor's request with ours, except the index, the QP number and the bytes for which
 * @ignored returns true. */
static inline void same_bytes(const struct op *op, const uint8_t *theirs, uint32_t ds,
	bool (*ignored)(const struct op *op, uint32_t i))
{
	const uint8_t *ours = our_request();

	for (uint32_t i = 0; i < ds * UNIT; i++) {
		bool masked = i == AT_INDEX || i == AT_INDEX + 1 ||
			      (i >= AT_QPN && i < AT_QPN + 3) || ignored(op, i);

		if (masked || ours[i] == theirs[i])
			continue;
		fprintf(stderr,
			"type %d opcode %#x len %u flags %#x: byte %u is %02x, the vendor's %02x\n",
			t.type, op->opcode, op->len, op->flags, i, ours[i], theirs[i]);
		exit(1);
	}
}

/* The receives of the two peers, which must be equal. */
struct arrivals {
	uint64_t n, sum[2]; /* [0]: ours, [1]: the vendor's */
};

static inline uint64_t digest(const struct mlx5dvl_recv *r, uint32_t skip)
{
	const uint8_t *p = r->buf;
	uint64_t sum = r->len + r->opcode;

	if (r->opcode != MLX5DVL_RECV_SEND)
		sum = sum * 31 + r->imm;
	for (uint32_t i = skip; r->opcode != MLX5DVL_RECV_WRITE_IMM && i < r->len; i++)
		sum = sum * 31 + p[i];
	return sum;
}

static inline void on_arrival(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct arrivals *a = arg;
	int which = qp == t.vendor_peer;

	a->n++;
	/* The sums depend on the order of the receives. They leave out the GRH, which differs
	 * between the two peers. */
	a->sum[which] = a->sum[which] * 1000003 +
			digest(recv, t.type == MLX5DVL_UD ? MLX5DVL_GRH_BYTES : 0);
}

/* The operations that were posted on both twins, and their results. */
struct progress {
	uint64_t tokens, our_tokens, vendor_tokens; /* sums of the tokens of signaled requests */
	uint64_t to_receive;
	struct arrivals arrived;
};

static inline bool all_is_done(struct progress *p)
{
	mlx5dvl_send_poll(t.h.scq, 64, token_sum, &p->our_tokens);
	p->vendor_tokens += vendor_poll(&t.v);
	mlx5dvl_mono_poll(t.h.rcq, 64, on_arrival, &p->arrived);
	mlx5dvl_srq_refill(t.h.srq);
	CHECK_EQ(t.h.nerrors, 0);
	return p->our_tokens == p->tokens && p->vendor_tokens == p->tokens &&
	       p->arrived.n == p->to_receive;
}

#endif
