/* SPDX-License-Identifier: MIT */
/*
 * Requests are the same as the vendor's: the test posts the same random operations with
 * ibv_post_send() and with this library on twin QPs; each request must have the same bytes and the
 * same effect.
 *
 * Intended differences: the index (the vendor's library wraps requests around the end of the ring,
 * this library fills the end), the QP number, unused bytes, and the signal bit of requests that
 * this library signals by itself.
 */
#include "diff.h"
#include <endian.h>

/* Offsets of the fields of a request. */
enum {
	AT_INDEX = 1, /* 2 bytes */
	AT_OPCODE = 3,
	AT_QPN = 4, /* 3 bytes */
	AT_DS = 7, /* low 6 bits: length in units */
	AT_FLAGS = 11,
	AT_REMOTE = 16, /* remote address segment */
	AT_COMPARE = 40, /* of an atomic; 8 bytes */
	REMOTE_RKEY = 8, /* in a remote address segment */
	DATA_LKEY = 4, /* in a data segment */
	DATA_ADDR = 8,
	INLINE_HEADER = 4, /* the length before inline data */
	UNIT = 16,
	CQ_UPDATE = 8, /* bit of AT_FLAGS: signaled */
};

/* True for bytes that the device ignores and the vendor's library does not write: those after
 * inline data, up to a multiple of 16, and the comparand of a fetch-and-add. */
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
	/* The twins use different memory: replace the vendor's addresses and keys by ours. */
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

/* The twins, and their peers, which both use this library. */
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

	hca_open(&t->h, &(struct hca_attr){.recv_size = MAX_LEN, .mem = 4 * AREA});
	for (size_t i = 0; i < 2 * AREA; i++)
		t->h.mem[i] = t->h.mem[2 * AREA + i] = (uint8_t)test_rand(&rand_state);
	t->vs = (struct side){t->h.mem, t->h.mem + AREA, t->h.mr.lkey, t->h.mr.rkey};
	t->os = t->vs;
	t->os.local += 2 * AREA;
	t->os.remote += 2 * AREA;
	t->ours = hca_qp(&t->h, (struct mlx5dvl_qp_attr){0});
	t->our_peer = hca_qp(&t->h, (struct mlx5dvl_qp_attr){0});
	t->vendor_peer = hca_qp(&t->h, (struct mlx5dvl_qp_attr){0});
	hca_connect(t->ours, t->our_peer);
	vendor_open(&t->v, t->h.ctx, 64);
	vendor_info(&t->v, &vendor);
	mlx5dvl_qp_get_info(t->vendor_peer, &peer, sizeof(peer));
	CHECK_EQ(mlx5dvl_qp_connect(t->vendor_peer, &vendor, sizeof(vendor)), 0);
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

/* The operations that both twins were given, and their results. */
struct progress {
	uint64_t tokens, our_tokens, vendor_tokens; /* sums, of signaled requests */
	uint64_t to_receive, received;
};

static void one_operation(uint64_t i, bool last, struct progress *p)
{
	struct twins *t = &twins;
	struct op op = random_op(i);
	int32_t left = t->ours->left;

	if (last)
		op.flags |= MLX5DVL_SIGNALED; /* the vendor's library frees slots only at signaled
						 requests */
	post_vendor(&t->v, &op, t->vs.local, t->vs.lkey, t->vs.remote, t->vs.rkey);
	post_ours(t->ours, &op, t->os.local, t->os.lkey, t->os.remote, t->os.rkey);
	compare_requests(&op, &t->v, &t->vs, t->ours, &t->os, left);
	mlx5dvl_ring(t->ours);
	p->tokens += op.flags & MLX5DVL_SIGNALED ? i : 0;
	p->to_receive += 2 * consumes_receive(op.opcode);
}

static bool all_is_done(struct progress *p)
{
	struct twins *t = &twins;

	mlx5dvl_send_poll(t->h.scq, 64, token_sum, &p->our_tokens);
	p->vendor_tokens += vendor_poll(&t->v);
	mlx5dvl_mono_poll(t->h.rcq, 1024, ignore_recv, &p->received);
	mlx5dvl_srq_refill(t->h.srq);
	CHECK_EQ(t->h.nerrors, 0);
	return p->our_tokens == p->tokens && p->vendor_tokens == p->tokens &&
	       p->received == p->to_receive;
}

static void requests_have_the_vendors_bytes(void)
{
	uint64_t ops = OPS * (getenv("SOAK") ? 10 : 1);
	const char *mode = getenv("SOFTHCA_MODE");
	/*
	 * A polling HCA runs in parallel and serves one twin before the other: the result of a READ
	 * or a receive in one twin's memory must not be inlined before the other twin has it, too.
	 */
	uint32_t burst = mode && !strcmp(mode, "poll") ? 1 : 16;
	struct progress p = {0};

	rand_state = test_seed();
	open_twins();
	for (uint64_t i = 1; i <= ops; i++) { /* starts at 1, because a token 0 would not change the
						 sums */
		bool last = i % burst == 0 || i == ops;

		one_operation(i, last, &p);
		if (!last)
			continue;
		hca_until(all_is_done(&p));
		CHECK(!memcmp(twins.h.mem, twins.h.mem + 2 * AREA, 2 * AREA));
	}
	CHECK(p.received > ops / 2);
	CHECK_EQ(mlx5dvl_qp_status(twins.ours), 0);
	close_twins();
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {TEST(requests_have_the_vendors_bytes)};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
