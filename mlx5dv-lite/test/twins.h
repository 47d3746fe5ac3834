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
	vendor_open_as(&t.v, t.h.ctx, 64, types[type]);
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

/* The receives of the two peers: those of one peer must equal those of the other. */
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

/* The operations that both twins were given, and their results. */
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
