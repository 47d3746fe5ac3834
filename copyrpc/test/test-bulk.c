/* SPDX-License-Identifier: MIT */
/* Descriptors, pulls and pushes: the right bytes are moved, and no other access is permitted. */
#include "bulk.h"
#include "pair.h"

#define MIB (1u << 20)
#define SIZE (6 * MIB)

static uint8_t mine[SIZE], theirs[SIZE]; /* memory of ep[0]'s side, and of ep[1]'s side */

struct ends {
	int count, status;
};

static void on_moved(void *arg, struct copyrpc_ep *ep, int status)
{
	struct ends *e = arg;

	e->count++;
	if (status)
		e->status = status;
}

/* ep[0] pulls and pushes; ep[1] owns the remote memory. */
struct rig {
	struct pair p;
	struct copyrpc_bulk *mine, *theirs;
	uint8_t desc[COPYRPC_BULK_SIZE];
	struct copyrpc_remote remote;
	struct ends ends;
};

static struct rig rig_open(const struct copyrpc_ctx_attr *attr)
{
	struct rig r = {.p = pair_open(attr)};

	CHECK_EQ(copyrpc_bulk_create(r.p.ctx[0], mine, SIZE, 0, &r.mine), 0);
	CHECK_EQ(copyrpc_bulk_create(r.p.ctx[1], theirs, SIZE,
			 COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE, &r.theirs),
		0);
	CHECK_EQ(copyrpc_bulk_export(r.theirs, r.p.ep[1], 0, SIZE, r.desc), 0);
	CHECK_EQ(copyrpc_bulk_import(r.p.ep[0], r.desc, sizeof(r.desc), &r.remote), 0);
	return r;
}

static void rig_close(struct rig *r)
{
	pair_close(&r->p);
}

#define RIG AT_END(rig_close) struct rig /* is closed at the end of its block */

static int pull(struct rig *r, uint64_t from, uint64_t to, uint64_t len)
{
	return copyrpc_bulk_pull(r->p.ep[0], &r->remote, from, r->mine, to, len, on_moved,
		&r->ends);
}

static int push(struct rig *r, uint64_t from, uint64_t to, uint64_t len)
{
	return copyrpc_bulk_push(r->p.ep[0], r->mine, from, &r->remote, to, len, on_moved,
		&r->ends);
}

static void until(struct rig *r, int count)
{
	while (r->ends.count < count)
		copyrpc_poll(r->p.ctx[0], NULL, NULL);
	CHECK_EQ(r->ends.count, count);
}

static void fill(uint8_t *at, uint32_t salt)
{
	for (uint32_t i = 0; i < SIZE; i++)
		at[i] = (uint8_t)(i * 7 + (i >> 12) + salt);
}

/* The two sides use different offsets; the bytes around each range do not change. */
TEST(every_length)
{
	static const uint32_t lengths[] = {1, 220, 221, 65537, MIB - 1, MIB, MIB + 1, 5 * MIB + 3};
	uint64_t moved = 0;
	RIG r = rig_open(NULL);

	for (uint32_t i = 0; i < 2 * ARRAY_SIZE(lengths); i++) {
		uint32_t len = lengths[i / 2], from = 1 + 64 * i, to = 4096 - i;
		uint8_t *src = i % 2 ? mine : theirs, *dst = i % 2 ? theirs : mine;

		fill(src, i);
		memset(dst, 0xee, SIZE);
		CHECK_EQ(i % 2 ? push(&r, from, to, len) : pull(&r, from, to, len), 0);
		until(&r, (int)i + 1);
		CHECK_EQ(r.ends.status, 0);
		CHECK(!memcmp(dst + to, src + from, len));
		CHECK(dst[to - 1] == 0xee && dst[to + len] == 0xee);
		moved += len;
		CHECK_EQ(ep_stats_of(r.p.ep[0]).moved, moved);
	}
	CHECK_EQ(copyrpc_raw_pending(r.p.ep[0]), 0);
}

TEST(refused_ranges)
{
	static const struct {
		uint64_t from, to, len;
	} cases[] = {{0, 0, 0}, {0, 0, SIZE + 1}, {1, 0, SIZE}, {0, 1, SIZE}, {SIZE, 0, 1},
		{0, SIZE, 1}, {UINT64_MAX, 0, 1}, {0, UINT64_MAX, 1}, {1, 1, UINT64_MAX}};
	uint8_t desc[COPYRPC_BULK_SIZE];
	RIG r = rig_open(NULL);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_EQ(pull(&r, cases[i].from, cases[i].to, cases[i].len), -EINVAL);
		CHECK_EQ(push(&r, cases[i].from, cases[i].to, cases[i].len), -EINVAL);
		if (!cases[i].to)
			CHECK_EQ(copyrpc_bulk_export(r.theirs, r.p.ep[1], cases[i].from,
					 cases[i].len, desc),
				-EINVAL);
	}
	CHECK_EQ(copyrpc_bulk_export(r.theirs, r.p.ep[0], 0, 1, desc), -EINVAL);
	CHECK_EQ(copyrpc_bulk_pull(r.p.ep[0], &r.remote, 0, r.theirs, 0, 1, on_moved, &r.ends),
		-EINVAL);
	CHECK_EQ(copyrpc_bulk_create(r.p.ctx[0], mine, 0, 0, &r.mine), -EINVAL);
	CHECK_EQ(copyrpc_bulk_create(r.p.ctx[0], mine, 1, 4, &r.mine), -EINVAL);
}

TEST(refused_access)
{
	RIG r = rig_open(NULL);

	r.remote.access = COPYRPC_REMOTE_READ;
	CHECK_EQ(push(&r, 0, 0, 1), -EACCES);
	r.remote.access = COPYRPC_REMOTE_WRITE;
	CHECK_EQ(pull(&r, 0, 0, 1), -EACCES);
}

TEST(hostile_descriptors)
{
	static const struct {
		uint32_t at, len; /* bytes that are set to 0xff, or to 0 if they are 0xff */
		int err;
	} cases[] = {{0, 1, -EXDEV}, {4, 1, -EXDEV}, {8, 8, -EINVAL}, {16, 8, -EINVAL},
		{28, 1, -EPROTONOSUPPORT}, {29, 1, -EINVAL}, {30, 1, -EINVAL}, {31, 1, -EINVAL}};
	struct copyrpc_remote remote;
	struct copyrpc_ep *other[2];
	RIG r = rig_open(NULL);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t desc[COPYRPC_BULK_SIZE];

		memcpy(desc, r.desc, sizeof(desc));
		memset(desc + cases[i].at, desc[cases[i].at] == 0xff ? 0 : 0xff, cases[i].len);
		CHECK_EQ(copyrpc_bulk_import(r.p.ep[0], desc, sizeof(desc), &remote), cases[i].err);
	}
	for (int by = -1; by <= 1; by += 2) { /* the version before, and the next one */
		uint8_t desc[COPYRPC_BULK_SIZE];

		memcpy(desc, r.desc, sizeof(desc));
		desc[28] = (uint8_t)(desc[28] + by);
		CHECK_EQ(copyrpc_bulk_import(r.p.ep[0], desc, sizeof(desc), &remote),
			-EPROTONOSUPPORT);
	}
	CHECK_EQ(copyrpc_bulk_import(r.p.ep[0], r.desc, sizeof(r.desc) - 1, &remote), -EINVAL);
	memset(r.desc + 16, 0, 8);
	CHECK_EQ(copyrpc_bulk_import(r.p.ep[0], r.desc, sizeof(r.desc), &remote), -EINVAL);
	CHECK_EQ(copyrpc_bulk_export(r.theirs, r.p.ep[1], 0, 1, r.desc), 0);
	join(r.p.ctx[0], r.p.ctx[1], other);
	CHECK_EQ(copyrpc_bulk_import(other[0], r.desc, sizeof(r.desc), &remote), -EXDEV);
	/* The next endpoint may have the memory of the one that was destroyed. */
	CHECK_EQ(copyrpc_bulk_export(r.theirs, other[1], 0, 1, r.desc), 0);
	for (int i = 0; i < 2; i++) {
		copyrpc_ep_destroy(other[i]);
		copyrpc_poll(r.p.ctx[i], NULL, NULL);
	}
	join(r.p.ctx[0], r.p.ctx[1], other);
	CHECK_EQ(copyrpc_bulk_import(other[0], r.desc, sizeof(r.desc), &remote), -EXDEV);
	CHECK_EQ(copyrpc_ep_create(r.p.ctx[0], NULL, &other[0]), 0);
	CHECK_EQ(copyrpc_bulk_import(other[0], r.desc, sizeof(r.desc), &remote), -ENOTCONN);
	CHECK_EQ(copyrpc_bulk_pull(other[0], &r.remote, 0, r.mine, 0, 1, on_moved, &r.ends),
		-ENOTCONN);
}

/* A bulk within another one shares its registration, which is kept until both are freed. */
TEST(registrations_are_shared)
{
	struct copyrpc_bulk *within, *first, *more;
	RIG r = rig_open(NULL);

	CHECK_EQ(copyrpc_bulk_create(r.p.ctx[0], mine + 1, SIZE - 1, 0, &within), 0);
	CHECK(within->reg == r.mine->reg);
	CHECK_EQ(copyrpc_bulk_create(r.p.ctx[0], mine + 1, 1, COPYRPC_REMOTE_READ, &more), 0);
	CHECK(more->reg != r.mine->reg);
	copyrpc_bulk_free(more);
	CHECK_EQ(copyrpc_bulk_create(r.p.ctx[0], mine, 1, 0, &first), 0);
	CHECK(first->reg == r.mine->reg);
	copyrpc_bulk_free(r.mine);
	r.mine = within;
	CHECK_EQ(copyrpc_bulk_create(r.p.ctx[0], mine + 1, 1, 0, &more), 0);
	CHECK(more->reg == within->reg);
	copyrpc_bulk_free(more);
	/* None of the other bulks has both of these bytes. */
	CHECK_EQ(copyrpc_bulk_create(r.p.ctx[0], mine, 2, 0, &more), 0);
	CHECK(more->reg != within->reg);
	copyrpc_bulk_free(more);
	copyrpc_bulk_free(first);
	fill(theirs, 1);
	CHECK_EQ(pull(&r, 0, 0, SIZE - 1), 0);
	copyrpc_bulk_free(within); /* the pull keeps the registration */
	CHECK(r.p.ctx[0]->regs && !r.p.ctx[0]->bulks);
	until(&r, 1);
	CHECK(!r.ends.status && !memcmp(mine + 1, theirs, SIZE - 1));
	CHECK(!r.p.ctx[0]->regs);
}

/* A transfer with a bulk that the peer has freed breaks the connection, and changes no memory. */
static void freed(bool is_pull)
{
	RIG r = rig_open(NULL);

	fill(theirs, 1);
	memset(mine, 0xee, SIZE);
	copyrpc_bulk_free(r.theirs);
	CHECK_EQ(is_pull ? pull(&r, 0, 0, SIZE) : push(&r, 0, 0, SIZE), 0);
	until(&r, 1);
	CHECK_EQ(r.ends.status, -EACCES);
	CHECK_EQ(copyrpc_ep_status(r.p.ep[0]), -EACCES);
	CHECK(mine[0] == 0xee && theirs[0] == 1);
	CHECK_EQ(pull(&r, 0, 0, 1), -EACCES);
}

TEST_WITH(a_freed_bulk_is_not_pulled, freed, true);
TEST_WITH(a_freed_bulk_is_not_pushed, freed, false);

/* More transfers than the send queue has room for, while calls are made. */
TEST(many_at_a_time)
{
	static const struct copyrpc_ctx_attr attr = {.sq_depth = 16};
	struct heard heard = {0};
	RIG r = rig_open(&attr);

	fill(theirs, 3);
	memset(mine, 0, SIZE);
	for (uint32_t i = 0; i < 300; i++)
		CHECK_EQ(pull(&r, i * 20000, i * 20000, 20000), 0);
	CHECK_EQ(pull(&r, 6000000, 6000000, SIZE - 6000000), 0);
	for (uint32_t calls = 0; r.ends.count < 301 || heard.ok < calls;) {
		if (r.ends.count < 301 && !copyrpc_call(r.p.ep[0], "x", 1, 1, 0))
			calls++;
		copyrpc_poll(r.p.ctx[0], hear, &heard);
		copyrpc_poll(r.p.ctx[1], NULL, NULL);
		echo_all(r.p.ctx[1]);
	}
	CHECK(!heard.failed && !r.ends.status && !memcmp(mine, theirs, SIZE));
}

/* The first parts of a transfer and the messages share a doorbell. */
TEST(one_doorbell_with_the_messages)
{
	struct copyrpc_stats before, after;
	RIG r = rig_open(NULL);

	copyrpc_poll(r.p.ctx[0], NULL, NULL);
	before = ep_stats_of(r.p.ep[0]);
	CHECK_EQ(pull(&r, 0, 0, 2 * MIB), 0);
	CHECK_EQ(copyrpc_call(r.p.ep[0], "x", 1, 1, 0), 0);
	CHECK_EQ(copyrpc_ctx_arm(r.p.ctx[0]), 1);
	copyrpc_poll(r.p.ctx[0], NULL, NULL);
	after = ep_stats_of(r.p.ep[0]);
	CHECK_EQ(after.doorbells - before.doorbells, 1);
	CHECK_EQ(after.wqes - before.wqes, 3);
}

/* copyrpc_ctx_arm() returns 1 if a transfer has not begun, so that the program polls before it
 * sleeps. */
TEST(a_transfer_that_has_not_begun)
{
	RIG r = rig_open(NULL);

	until(&r, 0);
	copyrpc_poll(r.p.ctx[0], NULL, NULL);
	CHECK_EQ(copyrpc_ctx_arm(r.p.ctx[0]), 0);
	CHECK_EQ(pull(&r, 0, 0, 1), 0);
	CHECK_EQ(copyrpc_ctx_arm(r.p.ctx[0]), 1);
	until(&r, 1);
	CHECK_EQ(copyrpc_ctx_arm(r.p.ctx[0]), 0);
}

static const struct copyrpc_ctx_attr shallow = {.sq_depth = 16};

/* Begins a transfer for which there is no entry: completed raw operations, which the program has
 * not taken, have all entries. */
static void pull_behind_raw(struct rig *r)
{
	static uint64_t from, to;
	struct copyrpc_mr src, dst;

	CHECK_EQ(copyrpc_mr_reg(r->p.ctx[1], &from, 8, COPYRPC_REMOTE_READ, &src), 0);
	CHECK_EQ(copyrpc_mr_reg(r->p.ctx[0], &to, 8, 0, &dst), 0);
	while (copyrpc_raw_pending(r->p.ep[0]) < shallow.sq_depth) {
		copyrpc_read(r->p.ep[0], &to, dst.lkey, (uintptr_t)&from, src.rkey, 8, 0);
		pair_settle(&r->p);
	}
	copyrpc_mr_dereg(&src);
	copyrpc_mr_dereg(&dst);
	CHECK_EQ(pull(r, 0, 0, 1), 0);
	pair_settle(&r->p);
	CHECK_EQ(copyrpc_ctx_arm(r->p.ctx[0]), 0);
}

/* When the program has taken the raw operations, the transfer can begin, so the program polls
 * before it sleeps. */
TEST(a_transfer_behind_raw_operations)
{
	struct copyrpc_raw_done done;
	RIG r = rig_open(&shallow);

	pull_behind_raw(&r);
	while (copyrpc_raw_recv(r.p.ctx[0], &done))
		CHECK_EQ(done.status, 0);
	CHECK_EQ(copyrpc_ctx_arm(r.p.ctx[0]), 1);
	until(&r, 1);
}

/* Takes a raw operation, and destroys its endpoint, whose transfer could begin now. */
static void takes_and_destroys(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct rig *r = arg;
	struct copyrpc_raw_done done;

	CHECK_EQ(status, -ECANCELED);
	CHECK_EQ(copyrpc_raw_recv(r->p.ctx[0], &done), 1);
	copyrpc_ep_destroy(r->p.ep[0]);
}

/* If a transfer that can begin ends at once, the program can sleep. */
TEST(a_transfer_that_ends_before_it_begins)
{
	struct copyrpc_ep *other[2];
	RIG r = rig_open(&shallow);

	join(r.p.ctx[0], r.p.ctx[1], other);
	pull_behind_raw(&r);
	CHECK_EQ(copyrpc_call(other[0], "x", 1, 1, 0), 0);
	copyrpc_ep_destroy(other[0]);
	copyrpc_poll(r.p.ctx[0], takes_and_destroys, &r);
	CHECK_EQ(r.ends.status, -ECANCELED);
	pair_settle(&r.p);
	CHECK_EQ(copyrpc_ctx_arm(r.p.ctx[0]), 0);
}

static void calls_again(void *arg, struct copyrpc_ep *ep, int status)
{
	struct rig *r = arg;

	CHECK_EQ(status, -ECANCELED);
	CHECK_EQ(pull(r, 0, 0, 1), -ECANCELED);
	r->ends.count++;
}

TEST(the_endpoint_is_destroyed)
{
	RIG r = rig_open(NULL);

	for (int i = 0; i < 3; i++)
		CHECK_EQ(copyrpc_bulk_push(r.p.ep[0], r.mine, 0, &r.remote, 0, SIZE, calls_again,
				 &r),
			0);
	copyrpc_ep_destroy(r.p.ep[0]);
	CHECK_EQ(r.ends.count, 0);
	copyrpc_poll(r.p.ctx[0], NULL, NULL);
	CHECK_EQ(r.ends.count, 3);
}

/* There is no callback; the sanitizer finds memory that is not freed. */
TEST(the_context_is_destroyed)
{
	RIG r = rig_open(NULL);

	CHECK_EQ(pull(&r, 0, 0, SIZE), 0);
	copyrpc_ctx_destroy(r.p.ctx[0]);
	r.p.ctx[0] = NULL;
	CHECK_EQ(r.ends.count, 0);
}
