/* SPDX-License-Identifier: MIT */
/* Raw operations of all lengths transfer the right data and take the right number of blocks of the
 * send queue. */
#include "internal.h"
#include "pair.h"

#define LONGEST (1u << 20)

static uint8_t from[LONGEST], to[LONGEST + 1];

struct rig {
	struct pair p;
	struct copyrpc_mr from, to;
};

static struct rig rig_open(void)
{
	struct rig r = {.p = pair_open(NULL)};

	CHECK_EQ(copyrpc_mr_reg(r.p.ctx[0], from, sizeof(from), 0, &r.from), 0);
	CHECK_EQ(copyrpc_mr_reg(r.p.ctx[1], to, sizeof(to),
			 COPYRPC_REMOTE_WRITE | COPYRPC_REMOTE_READ, &r.to),
		0);
	return r;
}

static void rig_close(struct rig *r)
{
	copyrpc_mr_dereg(&r->from);
	copyrpc_mr_dereg(&r->to);
	pair_close(&r->p);
}

#define RIG AT_END(rig_close) struct rig /* is closed at the end of its block */

static void finish(struct rig *r, uint64_t token)
{
	struct copyrpc_raw_done done = {0};

	while (!copyrpc_raw_recv(r->p.ctx[0], &done))
		copyrpc_poll(r->p.ctx[0], NULL, NULL);
	CHECK_EQ(done.status, 0);
	CHECK_EQ(done.token, token);
}

TEST(every_length)
{
	static const uint32_t lengths[] = {1, 7, 64, 220, 221, 4096, 65537, LONGEST};
	RIG r = rig_open();

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint32_t len = lengths[i];

		memset(to, 0xee, sizeof(to));
		for (uint32_t k = 0; k < len; k++)
			from[k] = (uint8_t)(k * 7 + i);
		CHECK_EQ(copyrpc_write(r.p.ep[0], from, r.from.lkey, (uintptr_t)to, r.to.rkey, len,
				 i),
			0);
		finish(&r, i);
		CHECK(!memcmp(from, to, len) && to[len] == 0xee);
		memset(from, 0, len);
		CHECK_EQ(copyrpc_read(r.p.ep[0], from, r.from.lkey, (uintptr_t)to, r.to.rkey, len,
				 i),
			0);
		finish(&r, i);
		CHECK(!memcmp(from, to, len));
	}
}

/*
 * Up to 220 bytes are inlined in the WQE. A longer payload has a data segment, and its WQE takes
 * one block (WQEBB).
 */
TEST(blocks_of_the_send_queue)
{
	static const struct {
		uint32_t len, blocks;
	} cases[] = {{1, 1}, {28, 1}, {29, 2}, {220, 4}, {221, 1}, {4096, 1}, {LONGEST, 1}};
	RIG r = rig_open();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t before = r.p.ep[0]->qp->pi;

		CHECK_EQ(copyrpc_write(r.p.ep[0], from, r.from.lkey, (uintptr_t)to, r.to.rkey,
				 cases[i].len, i),
			0);
		CHECK_EQ(r.p.ep[0]->qp->pi - before, cases[i].blocks);
		finish(&r, i);
	}
}
