/* SPDX-License-Identifier: MIT */
/*
 * This library writes the same requests as the vendor's library. The test posts the same random
 * operations with ibv_post_send() and with this library on twin QPs. Both requests must have the
 * same bytes and the same effect.
 *
 * Intended differences: the index (the vendor's library wraps requests around the end of the ring,
 * this library fills the end), the QP number, unused bytes, and the signal bit of requests that
 * this library signals by itself.
 */
#include "twins.h"

/* Returns true for bytes that the device ignores and the vendor's library does not write: those
 * after inline data, up to a multiple of 16, and the compare operand of a fetch-and-add. */
static bool is_padding(const struct op *op, uint32_t i)
{
	bool send = op->opcode == MLX5DVL_SEND || op->opcode == MLX5DVL_SEND_IMM;
	uint32_t start = (send ? AT_REMOTE : AT_REMOTE + UNIT) + INLINE_HEADER;

	if (op->opcode == MLX5DVL_FETCH_ADD)
		return i >= AT_COMPARE && i < AT_COMPARE + 8;
	return (vendor_flags(op) & IBV_SEND_INLINE) && op->len && i >= start + op->len;
}

static void compare_requests(const struct op *op, int32_t left)
{
	uint8_t theirs[1024];
	uint32_t ds = same_head(op, theirs, left);

	if (op->opcode != MLX5DVL_SEND && op->opcode != MLX5DVL_SEND_IMM)
		translate_remote(theirs + AT_REMOTE, op->remote_at);
	if (op->len && !(vendor_flags(op) & IBV_SEND_INLINE))
		translate_local(theirs + (ds - 1) * UNIT, op->at);
	same_bytes(op, theirs, ds, is_padding);
}

static void one_operation(uint64_t i, bool last, struct progress *p)
{
	struct op op = random_op(i);
	int32_t left = t.ours->left;

	if (last)
		op.flags |= MLX5DVL_SIGNALED; /* the vendor's library frees slots only at signaled
						 requests */
	post_vendor(&t.v, &op, t.vs.local, t.vs.lkey, t.vs.remote, t.vs.rkey);
	post_ours(t.ours, &op, t.os.local, t.os.lkey, t.os.remote, t.os.rkey);
	compare_requests(&op, left);
	mlx5dvl_ring(t.ours);
	p->tokens += op.flags & MLX5DVL_SIGNALED ? i : 0;
	p->to_receive += 2 * consumes_receive(op.opcode);
}

TEST(requests_have_the_vendors_bytes)
{
	uint64_t ops = OPS * (getenv("SOAK") ? 10 : 1);
	const char *mode = getenv("SOFTHCA_MODE");
	/*
	 * An HCA in mode poll runs in parallel and serves one twin before the other. A later
	 * request may inline the result of a READ or a received message, so it must not be posted
	 * before the memory of both twins has that data.
	 */
	uint32_t burst = mode && !strcmp(mode, "poll") ? 1 : 16;
	struct progress p = {0};

	rand_state = test_seed();
	open_twins(MLX5DVL_RC, 0, MAX_LEN);
	for (uint64_t i = 1; i <= ops; i++) { /* starts at 1, because a token 0 would not change the
						 sums */
		bool last = i % burst == 0 || i == ops;

		one_operation(i, last, &p);
		if (!last)
			continue;
		hca_until(all_is_done(&p));
		CHECK(p.arrived.sum[0] == p.arrived.sum[1]);
		CHECK(!memcmp(t.h.mem, t.h.mem + 2 * AREA, 2 * AREA));
	}
	CHECK(p.arrived.n > ops / 2);
	CHECK_EQ(mlx5dvl_qp_status(t.ours), 0);
	close_twins();
}
