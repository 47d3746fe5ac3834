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
#include <endian.h>

#include "twins.h"

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

static void compare_requests(const struct op *op, struct vendor *v, const struct side *vs,
	struct mlx5dvl_qp *qp, const struct side *os, int32_t left)
{
	uint8_t theirs[1024];
	const uint8_t *ours = qp->sq + (size_t)(qp->last & (qp->depth - 1)) * 64;
	uint32_t ds = vendor_request(v, theirs), at_local;
	bool own_signal = !(op->flags & MLX5DVL_SIGNALED) && qp->left == qp->interval;

	CHECK_EQ(ours[AT_DS] & 0x3f, ds);
	CHECK_EQ(ours[AT_OPCODE], theirs[AT_OPCODE]);
	CHECK(!own_signal || left <= (int32_t)(ds + 3) / 4);
	if (own_signal)
		theirs[AT_FLAGS] |= CQ_UPDATE;
	/* The twins use different memory: replaces the vendor's addresses and keys. */
	if (op->opcode != MLX5DVL_SEND && op->opcode != MLX5DVL_SEND_IMM) {
		CHECK_EQ(be64toh(*(uint64_t *)(void *)(theirs + AT_REMOTE)),
			(uintptr_t)vs->remote + op->remote_at);
		*(uint64_t *)(void *)(theirs + AT_REMOTE) =
			htobe64((uintptr_t)os->remote + op->remote_at);
		CHECK_EQ(be32toh(*(uint32_t *)(void *)(theirs + AT_REMOTE + REMOTE_RKEY)),
			vs->rkey);
		*(uint32_t *)(void *)(theirs + AT_REMOTE + REMOTE_RKEY) = htobe32(os->rkey);
	}
	at_local = (ds - 1) * UNIT;
	if (op->len && !(vendor_flags(op) & IBV_SEND_INLINE)) {
		CHECK_EQ(be64toh(*(uint64_t *)(void *)(theirs + at_local + DATA_ADDR)),
			(uintptr_t)vs->local + op->at);
		*(uint64_t *)(void *)(theirs + at_local + DATA_ADDR) =
			htobe64((uintptr_t)os->local + op->at);
		*(uint32_t *)(void *)(theirs + at_local + DATA_LKEY) = htobe32(os->lkey);
	}
	for (uint32_t i = 0; i < ds * UNIT; i++) {
		bool masked = i == AT_INDEX || i == AT_INDEX + 1 ||
			      (i >= AT_QPN && i < AT_QPN + 3) || is_padding(op, i);

		if (masked || ours[i] == theirs[i])
			continue;
		fprintf(stderr, "opcode %#x len %u flags %#x: byte %u is %02x, the vendor's %02x\n",
			op->opcode, op->len, op->flags, i, ours[i], theirs[i]);
		exit(1);
	}
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
	compare_requests(&op, &t.v, &t.vs, t.ours, &t.os, left);
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
		CHECK(!memcmp(t.h.mem, t.h.mem + 2 * AREA, 2 * AREA));
	}
	CHECK(p.arrived.n > ops / 2);
	CHECK_EQ(mlx5dvl_qp_status(t.ours), 0);
	close_twins();
}
