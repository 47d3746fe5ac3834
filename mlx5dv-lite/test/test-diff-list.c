/* SPDX-License-Identifier: MIT */
/*
 * Requests with up to four data segments, on RC, UC and UD QPs. The same random requests are posted
 * with ibv_post_send() and with mlx5dvl_post_list() on twin QPs. Both must write the same bytes and
 * have the same effect. test-diff-wqe.c lists the intended differences.
 */
#include <endian.h>

#include "twins.h"

enum { LISTS = 3000, MAX_PLACE = 250 };

struct request {
	struct op op; /* `at`, `a` and `b` are not used */
	uint32_t n, at[MLX5DVL_LIST_MAX], len[MLX5DVL_LIST_MAX]; /* op.len is the sum */
};

static struct request random_request(uint64_t token)
{
	static const uint8_t opcodes[] = {MLX5DVL_SEND, MLX5DVL_SEND_IMM, MLX5DVL_WRITE,
		MLX5DVL_WRITE_IMM, MLX5DVL_READ};
	static const uint32_t allowed[] = {[MLX5DVL_RC] = 5, [MLX5DVL_UC] = 4, [MLX5DVL_UD] = 2};
	struct request r = {
		.op = {.opcode = opcodes[below(allowed[t.type])],
			.imm = (uint32_t)test_rand(&rand_state),
			.remote_at = below(AREA - 4 * MAX_PLACE),
			.flags = below(8) | MLX5DVL_BY_REF,
			.token = token},
		.n = below(MLX5DVL_LIST_MAX + 1),
	};

	for (uint32_t i = 0; i < r.n; i++) {
		r.at[i] = below(AREA - MAX_PLACE);
		r.len[i] = below(4) ? 1 + below(MAX_PLACE) : 0;
		r.op.len += r.len[i];
	}
	return r;
}

static void post_ours_list(const struct request *r)
{
	struct mlx5dvl_sge sge[MLX5DVL_LIST_MAX];
	struct mlx5dvl_list l = {.opcode = r->op.opcode,
		.nsge = (uint8_t)r->n,
		.sge = sge,
		.raddr = (uintptr_t)t.os.remote + r->op.remote_at,
		.rkey = t.os.rkey,
		.imm = r->op.imm,
		.ah = t.ah,
		.flags = r->op.flags,
		.token = r->op.token};

	for (uint32_t i = 0; i < r->n; i++)
		sge[i] = (struct mlx5dvl_sge){t.os.local + r->at[i], t.os.lkey, r->len[i]};
	CHECK_EQ(mlx5dvl_post_list(t.ours, &l), 0);
}

static void post_vendor_list(const struct request *r)
{
	struct ibv_sge sge[MLX5DVL_LIST_MAX];
	struct ibv_send_wr *bad, wr = {.wr_id = r->op.token,
					 .sg_list = sge,
					 .num_sge = (int)r->n,
					 .opcode = vendor_opcode(r->op.opcode),
					 .send_flags = vendor_flags(&r->op),
					 .imm_data = htobe32(r->op.imm)};

	for (uint32_t i = 0; i < r->n; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)t.vs.local + r->at[i], r->len[i], t.vs.lkey};
	if (t.type == MLX5DVL_UD) {
		wr.wr.ud.ah = t.vendor_ah;
		wr.wr.ud.remote_qpn = t.vendor_peer_qpn;
		wr.wr.ud.remote_qkey = VENDOR_QKEY;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)t.vs.remote + r->op.remote_at;
		wr.wr.rdma.rkey = t.vs.rkey;
	}
	CHECK_EQ(ibv_post_send(t.v.qp, &wr, &bad), 0);
}

/* Returns true for the UDP source port of RoCE, which the driver draws at random per address. */
static bool is_udp_port(const struct op *op, uint32_t i)
{
	return t.type == MLX5DVL_UD && t.h.ctx->gid_index >= 0 && (i & ~1u) == 30;
}

static void compare(const struct request *r, int32_t left)
{
	uint8_t theirs[1024], *seg = theirs + AT_REMOTE;
	uint32_t ds = same_head(&r->op, theirs, left);

	if (t.type == MLX5DVL_UD) {
		replace32(seg + 8, t.vendor_peer_qpn | 0x80000000u, t.our_peer_qpn | 0x80000000u);
		seg += 3 * UNIT;
	} else if (mlx5dvl_op_remote_(r->op.opcode)) {
		translate_remote(seg, r->op.remote_at);
		seg += UNIT;
	}
	for (uint32_t i = 0; i < r->n; i++) {
		if (!r->len[i])
			continue;
		translate_local(seg, r->at[i]);
		seg += UNIT;
	}
	same_bytes(&r->op, theirs, ds, is_udp_port);
}

static void open_lists(enum mlx5dvl_qp_type type)
{
	open_twins(type, 256, MLX5DVL_GRH_BYTES + 4 * MAX_PLACE);
}

static void lists_have_the_vendors_bytes(enum mlx5dvl_qp_type type)
{
	uint64_t n = LISTS * (getenv("SOAK") ? 10 : 1);
	struct progress p = {0};

	rand_state = test_seed();
	open_lists(type);
	for (uint64_t i = 1; i <= n; i++) {
		struct request r = random_request(i);
		int32_t left = t.ours->left;

		r.op.flags |= i % 16 == 0 || i == n ? MLX5DVL_SIGNALED : 0;
		post_vendor_list(&r);
		post_ours_list(&r);
		compare(&r, left);
		mlx5dvl_ring(t.ours);
		p.tokens += r.op.flags & MLX5DVL_SIGNALED ? i : 0;
		p.to_receive += 2 * consumes_receive(r.op.opcode);
		if (i % 16 && i != n)
			continue;
		hca_until(all_is_done(&p));
		CHECK(p.arrived.sum[0] == p.arrived.sum[1]);
		CHECK(!memcmp(t.h.mem, t.h.mem + 2 * AREA, 2 * AREA));
	}
	CHECK(p.arrived.n > n / 2);
	close_twins();
}

TEST_WITH(rc_lists, lists_have_the_vendors_bytes, MLX5DVL_RC);
TEST_WITH(uc_lists, lists_have_the_vendors_bytes, MLX5DVL_UC);
TEST_WITH(ud_lists, lists_have_the_vendors_bytes, MLX5DVL_UD);

static int post_one(struct mlx5dvl_list l)
{
	return mlx5dvl_post_list(t.ours, &l);
}

TEST(wrong_lists_are_refused)
{
	struct mlx5dvl_sge sge[MLX5DVL_LIST_MAX + 1] = {0};
	struct mlx5dvl_qp_info info;
	struct mlx5dvl_ah *ah;
	struct mlx5dvl_qp *qp;

	rand_state = 1;
	open_lists(MLX5DVL_UD);
	CHECK_EQ(post_one((struct mlx5dvl_list){.opcode = MLX5DVL_SEND}), -EINVAL);
	CHECK_EQ(post_one((struct mlx5dvl_list){.opcode = MLX5DVL_WRITE, .ah = t.ah}), -EINVAL);
	CHECK_EQ(post_one((struct mlx5dvl_list){.opcode = MLX5DVL_SEND,
			 .ah = t.ah,
			 .nsge = MLX5DVL_LIST_MAX + 1,
			 .sge = sge}),
		-EINVAL);
	mlx5dvl_qp_get_info(t.our_peer, &info, sizeof(info));
	info.qkey = 1u << 31;
	CHECK_EQ(mlx5dvl_ah_create(t.ours, &info, sizeof(info), &ah), -EINVAL);
	info.qkey = 1;
	info.qpn = 0;
	CHECK_EQ(mlx5dvl_ah_create(t.ours, &info, sizeof(info), &ah), -EINVAL);
	mlx5dvl_ah_destroy(NULL);
	CHECK_EQ(mlx5dvl_qp_create(t.h.ctx,
			 &(struct mlx5dvl_qp_attr){.send_cq = t.h.scq, .type = MLX5DVL_UD + 1},
			 &qp),
		-EINVAL);
	CHECK_EQ(mlx5dvl_qp_create(t.h.ctx,
			 &(struct mlx5dvl_qp_attr){.send_cq = t.h.scq, .qkey = 1u << 31}, &qp),
		-EINVAL);
	close_twins();
	open_lists(MLX5DVL_UC);
	CHECK_EQ(post_one((struct mlx5dvl_list){.opcode = MLX5DVL_CMP_SWAP}), -EINVAL);
	mlx5dvl_qp_get_info(t.our_peer, &info, sizeof(info));
	CHECK_EQ(mlx5dvl_ah_create(t.ours, &info, sizeof(info), &ah), -EINVAL);
	qp = hca_qp(&t.h, (struct mlx5dvl_qp_attr){0});
	CHECK_EQ(mlx5dvl_qp_connect(qp, NULL, 0), -EINVAL);
	mlx5dvl_qp_destroy(qp);
	close_twins();
}

TEST(full_queues_say_so)
{
	struct mlx5dvl_list l = {.opcode = MLX5DVL_WRITE};
	uint32_t posted = 0;

	rand_state = 1;
	open_lists(MLX5DVL_UC);
	l.raddr = (uintptr_t)t.os.remote;
	l.rkey = t.os.rkey;
	while (!mlx5dvl_post_list(t.ours, &l))
		posted++;
	CHECK_EQ(posted, t.ours->depth);
	CHECK_EQ(mlx5dvl_post_list(t.ours, &l), -EAGAIN);
	close_twins();
}
