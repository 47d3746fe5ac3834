/* SPDX-License-Identifier: MIT */
/*
 * Queues in plain memory. The test acts as the device: it reads the work queues and writes
 * completions byte by byte, at the offsets in the device's manual, and not through the structs of
 * the code under test.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include <endian.h>
#include <errno.h>

#include "support/test.h"
#include "internal.h"

static inline uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static inline uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

static inline void put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void put32(uint8_t *p, uint32_t v)
{
	put16(p, (uint16_t)(v >> 16));
	put16(p + 2, (uint16_t)v);
}

static inline void put64(uint8_t *p, uint64_t v)
{
	put32(p, (uint32_t)(v >> 32));
	put32(p + 4, (uint32_t)v);
}

static inline void *plain_alloc(size_t len)
{
	void *p = aligned_alloc(4096, align_up(len, 4096));

	CHECK(p);
	memset(p, 0xa5, len);
	return p;
}

/* A completion queue and the device's side of it. */
struct plain_cq {
	struct mlx5dvl_cq cq;
	uint8_t *buf;
	uint32_t record[2];
	uint32_t size, depth;
	uint32_t pi; /* completions written */
};

static inline void plain_cq_init(struct plain_cq *c, struct core *core, struct mlx5dvl_srq *srq,
	uint32_t depth, uint32_t size, uint32_t start)
{
	memset(c, 0, sizeof(*c));
	c->buf = plain_alloc((size_t)depth * size);
	c->size = size;
	c->depth = depth;
	cq_init(&c->cq, c->buf, depth, size, c->record, srq, core);
	/* The state is as if @start completions had been written and consumed. */
	c->pi = start;
	cq_seek(&c->cq, start);
	c->record[0] = htobe32(start & 0xffffff);
	for (uint32_t back = 1; back <= depth && back <= start; back++)
		c->buf[(size_t)((start - back) & (depth - 1)) * size + size - 1] =
			!!((start - back) & depth);
}

static inline void plain_cq_fini(struct plain_cq *c)
{
	free(c->buf);
}

struct plain_cqe {
	uint8_t opcode; /* opcode of the completion */
	uint8_t format;
	uint32_t uidx; /* the vendor's library finds a QP by this number, which it has assigned */
	uint32_t qpn;
	uint8_t wqe_opcode;
	uint16_t counter;
	uint32_t imm, byte_cnt;
	uint8_t syndrome, vendor;
};

/* Returns the address of completion @at. */
static inline uint8_t *plain_cqe_place(struct plain_cq *c, uint32_t at)
{
	return c->buf + (size_t)(at & (c->depth - 1)) * c->size + (c->size - 64);
}

static inline void plain_cqe_write(struct plain_cq *c, uint32_t at, const struct plain_cqe *e)
{
	uint8_t *p = plain_cqe_place(c, at);

	memset(p, 0x5a, 63);
	put32(p + 32, e->uidx);
	put32(p + 36, e->imm);
	put32(p + 44, e->byte_cnt);
	if (e->opcode >= 0xd) {
		p[54] = e->vendor;
		p[55] = e->syndrome;
	}
	put32(p + 56, (uint32_t)e->wqe_opcode << 24 | e->qpn);
	put16(p + 60, e->counter);
	p[63] = (uint8_t)(e->opcode << 4 | e->format << 2 | !!(at & c->depth));
}

/* Writes a completion, and checks that the program has released the CQE before. */
static inline void plain_cqe(struct plain_cq *c, const struct plain_cqe *e)
{
	uint32_t released = be32toh(c->record[0]);

	CHECK(((c->pi - released) & 0xffffff) < c->depth);
	plain_cqe_write(c, c->pi++, e);
}

/* Calls plain_cqe() for a completion with the given fields. */
#define PLAIN_CQE(cq, ...) plain_cqe(cq, &(struct plain_cqe){__VA_ARGS__})

/* A QP whose queue is in plain memory. */
struct plain_qp {
	struct mlx5dvl_qp qp;
	uint8_t *sq;
	uint32_t record;
};

static inline void plain_qp_init(struct plain_qp *q, struct core *core, uint32_t depth,
	struct mlx5dvl_bf *bf, uint32_t qpn)
{
	memset(q, 0, sizeof(*q));
	q->sq = plain_alloc((size_t)depth * 64);
	CHECK_EQ(sq_init(&q->qp, q->sq, depth, &q->record, bf, qpn), 0);
	CHECK_EQ(core_add_qp(core, &q->qp), 0);
	sq_open(&q->qp);
}

static inline void plain_qp_fini(struct plain_qp *q, struct core *core)
{
	core_remove_qp(core, &q->qp);
	sq_fini(&q->qp);
	free(q->sq);
}

#endif
