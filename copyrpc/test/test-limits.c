/* SPDX-License-Identifier: MIT */
/* Limits that the manual states: for endpoints, for raw operations, for a peer that connects
 * late. */
#include <fcntl.h>
#include <sys/resource.h>

#include "support/hcacall.h"
#include "pair.h"

static void limit_descriptors(rlim_t n)
{
	struct rlimit limit;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = n < limit.rlim_max ? n : limit.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Returns the lowest free descriptor. */
static int next_descriptor(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	close(fd);
	return fd;
}

/* The error is the same at each place where descriptors run out, in libibverbs or later, and no
 * object is left. */
TEST(too_few_descriptors)
{
	struct copyrpc_ctx *ctx[64];
	int before, rc;

	before = next_descriptor();
	for (int limit = before; limit < before + 40; limit++) {
		int n = 0;

		limit_descriptors((rlim_t)limit);
		while (n < 64 && !(rc = copyrpc_ctx_create(NULL, &ctx[n])))
			n++;
		CHECK_EQ(rc, -EMFILE);
		while (n)
			copyrpc_ctx_destroy(ctx[--n]);
	}
	limit_descriptors(256);
	before = next_descriptor();
	CHECK_EQ(copyrpc_ctx_create(NULL, &ctx[0]), 0);
	copyrpc_ctx_destroy(ctx[0]);
	CHECK_EQ(next_descriptor(), before);
}

/*
 * Connects the peer after COPYRPC_RETRIES - 1 repetitions of the first message. Returns false if
 * this process was without a core for so long that the endpoint has failed.
 */
static bool connects_late(void)
{
	const struct copyrpc_ctx_attr attr = {.path = &impatient};
	uint64_t before = hca_counters().retries;
	uint8_t blob[2][COPYRPC_INFO_SIZE];
	struct heard h = {0};
	PAIR p = pair_create(&attr);
	bool in_time;

	for (int i = 0; i < 2; i++)
		copyrpc_ep_info(p.ep[i], blob[i]);
	CHECK_EQ(copyrpc_ep_connect(p.ep[0], blob[1], COPYRPC_INFO_SIZE), 0);
	CHECK_EQ(copyrpc_call(p.ep[0], "early", 5, 5, 0), 0);
	while (hca_counters().retries - before < COPYRPC_RETRIES - 1 && !copyrpc_ep_status(p.ep[0]))
		copyrpc_poll(p.ctx[0], hear, &h);
	in_time = !copyrpc_ep_status(p.ep[0]);
	CHECK_EQ(copyrpc_ep_connect(p.ep[1], blob[0], COPYRPC_INFO_SIZE), 0);
	while (!h.ok && !copyrpc_ep_status(p.ep[0]))
		pair_turn(&p, &h);
	in_time &= h.ok == 1;
	CHECK(!in_time || !h.failed);
	return in_time;
}

/* If the peer connects before the last repetition, no message is lost. */
TEST(a_peer_that_connects_late)
{
	bool in_time = false;

	for (int i = 0; i < 20 && !in_time; i++)
		in_time = connects_late();
	CHECK(in_time);
}

/* A destroyed endpoint counts for max_endpoints until the next poll. Its held requests stay
 * readable and do not count. */
TEST(held_requests_take_no_place)
{
	struct copyrpc_ctx_attr attr = {.ring_size = 4096, .max_endpoints = 1};
	struct copyrpc_req *held[4];
	struct heard h = {0};
	PAIR p = pair_open(&attr);

	for (uint32_t i = 0; i < 4; i++) {
		CHECK_EQ(copyrpc_call(p.ep[0], &i, sizeof(i), 4, 0), 0);
		copyrpc_flush(p.ctx[0]);
		CHECK_EQ(copyrpc_poll(p.ctx[1], hear, &h), 1);
		CHECK_EQ(copyrpc_recv(p.ctx[1], &held[i]), 1);
		for (int k = 0; k < 2; k++) {
			struct copyrpc_ep *old = p.ep[k];

			copyrpc_ep_destroy(old);
			CHECK_EQ(copyrpc_ep_create(p.ctx[k], NULL, &p.ep[k]), -EMFILE);
			copyrpc_poll(p.ctx[k], hear, &h);
			CHECK_EQ(copyrpc_ep_create(p.ctx[k], NULL, &p.ep[k]), 0);
		}
		connect_eps(p.ep);
	}
	CHECK_EQ(h.status, -ECANCELED);
	for (uint32_t i = 0; i < 4; i++) {
		CHECK(memcmp(copyrpc_req_data(held[i]), &i, sizeof(i)) == 0);
		CHECK_EQ(copyrpc_reply(held[i], NULL, 0), -ECANCELED);
		copyrpc_poll(p.ctx[1], hear, &h);
	}
}

TEST(a_peer_that_never_connects)
{
	const struct copyrpc_ctx_attr attr = {.path = &impatient};
	struct softhca_counters before, after;
	uint8_t blob[COPYRPC_INFO_SIZE];
	struct heard h = {0};
	PAIR p = pair_create(&attr);

	CHECK_EQ(COPYRPC_ANSWER_NS, 7516192768); /* "7.5 s" */
	copyrpc_ep_info(p.ep[1], blob);
	before = hca_counters();
	CHECK_EQ(copyrpc_ep_connect(p.ep[0], blob, COPYRPC_INFO_SIZE), 0);
	CHECK_EQ(copyrpc_call(p.ep[0], "early", 5, 5, 0), 0);
	while (!h.failed)
		copyrpc_poll(p.ctx[0], hear, &h);
	after = hca_counters();
	CHECK_EQ(h.status, -ECONNRESET);
	printf("  %d attempts\n", (int)(after.retries - before.retries));
	CHECK(after.retries - before.retries >= COPYRPC_RETRIES);
	CHECK(after.retries - before.retries <= COPYRPC_RETRIES + 1);
}

/* Checks lengths, access rights, and the limit of operations that copyrpc_raw_recv() has not
 * returned. */
TEST(raw_operations)
{
	struct copyrpc_ctx_attr attr = {.sq_depth = 32};
	struct copyrpc_raw_done done;
	struct copyrpc_mr mr, none;
	static uint64_t mem[2];
	struct heard h = {0};
	uint32_t n = 0;
	PAIR p = pair_open(&attr);
	int rc;

	for (unsigned access = 4; access; access <<= 1)
		CHECK_EQ(copyrpc_mr_reg(p.ctx[0], mem, sizeof(mem), (int)access, &mr), -EINVAL);
	CHECK_EQ(copyrpc_mr_reg(p.ctx[0], mem, sizeof(mem), 0, &mr), 0);
	CHECK_EQ(copyrpc_mr_reg(p.ctx[1], mem, sizeof(mem), COPYRPC_REMOTE_READ, &none), 0);
	CHECK_EQ(copyrpc_read(p.ep[0], mem, mr.lkey, (uintptr_t)mem, none.rkey, 0, 0), -EINVAL);
	CHECK_EQ(copyrpc_read(p.ep[0], mem, mr.lkey, (uintptr_t)mem, none.rkey, (1u << 30) + 1, 0),
		-EINVAL);
	CHECK_EQ(copyrpc_raw_pending(p.ep[0]), 0);
	/* The operations complete, but copyrpc_raw_recv() is not called. */
	do {
		rc = copyrpc_read(p.ep[0], &mem[0], mr.lkey, (uintptr_t)&mem[1], none.rkey, 8, n);
		n += !rc;
		copyrpc_poll(p.ctx[0], hear, &h);
		CHECK(n <= 32);
	} while (!rc);
	CHECK_EQ(rc, -EAGAIN);
	CHECK_EQ(n, 32);
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(copyrpc_raw_pending(p.ep[0]), n - i);
		CHECK_EQ(copyrpc_raw_recv(p.ctx[0], &done), 1);
		CHECK(done.ep == p.ep[0] && done.token == i && !done.status);
	}
	CHECK_EQ(copyrpc_raw_recv(p.ctx[0], &done), 0);
	/* The memory may be read but not written. */
	CHECK_EQ(copyrpc_write(p.ep[0], mem, mr.lkey, (uintptr_t)mem, none.rkey, 8, 7), 0);
	while (!copyrpc_raw_recv(p.ctx[0], &done))
		copyrpc_poll(p.ctx[0], hear, &h);
	CHECK(done.token == 7 && done.status == -EACCES);
	CHECK_EQ(copyrpc_ep_status(p.ep[0]), -EACCES);
	copyrpc_mr_dereg(&mr);
	copyrpc_mr_dereg(&none);
}

/* The program was compiled for a later version, whose structs have one field more. */
TEST(programs_of_a_later_version)
{
	struct {
		struct copyrpc_ctx_attr attr;
		uint64_t more;
	} ctx_attr = {.attr.size = sizeof(ctx_attr), .attr.ring_size = 8192};
	struct {
		struct copyrpc_ep_attr attr;
		uint64_t more;
	} ep_attr = {.attr.size = sizeof(ep_attr), .more = 1};
	struct {
		struct copyrpc_stats known;
		uint64_t more;
	} stats = {.more = 1};
	struct copyrpc_ep_load load = {.posted = 7};
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;

	CHECK_EQ(copyrpc_ctx_create(&ctx_attr.attr, &ctx), 0);
	CHECK_EQ(copyrpc_ep_create(ctx, &ep_attr.attr, &ep), -E2BIG);
	ep_attr.more = 0;
	CHECK_EQ(copyrpc_ep_create(ctx, &ep_attr.attr, &ep), 0);
	copyrpc_ctx_get_stats(ctx, &stats.known, sizeof(stats));
	copyrpc_ep_get_stats(ep, &stats.known, sizeof(stats));
	CHECK_EQ(stats.more, 1);
	copyrpc_ep_get_load(ep, &load, offsetof(struct copyrpc_ep_load, posted));
	CHECK(load.credit == 8192 / 4 && load.posted == 7);
	copyrpc_ctx_destroy(ctx);
	ctx_attr.more = 1;
	CHECK_EQ(copyrpc_ctx_create(&ctx_attr.attr, &ctx), -E2BIG);
}

/* Completions that copyrpc_raw_recv() has not returned are dropped with the endpoint. */
TEST(raw_ends_of_an_endpoint_that_is_gone)
{
	struct copyrpc_ep *more[2];
	struct copyrpc_raw_done done;
	static uint64_t mem[2];
	struct heard h = {0};
	struct copyrpc_mr mr;
	PAIR p = pair_open(NULL);

	join(p.ctx[0], p.ctx[1], more);
	CHECK_EQ(copyrpc_mr_reg(p.ctx[0], mem, sizeof(mem), COPYRPC_REMOTE_READ, &mr), 0);
	for (uint32_t i = 0; i < 6; i++) {
		struct copyrpc_ep *ep = i % 2 ? p.ep[0] : more[0];

		/* The other end has its own PD, so this operation ends with an error. */
		CHECK_EQ(copyrpc_read(ep, &mem[0], mr.lkey, (uintptr_t)&mem[1], mr.rkey, 8, i), 0);
	}
	while (!copyrpc_ep_status(p.ep[0]) || !copyrpc_ep_status(more[0]))
		copyrpc_poll(p.ctx[0], hear, &h);
	copyrpc_poll(p.ctx[0], hear, &h);
	copyrpc_ep_destroy(more[0]);
	for (uint32_t i = 1; i < 6; i += 2) {
		CHECK_EQ(copyrpc_raw_recv(p.ctx[0], &done), 1);
		CHECK(done.ep == p.ep[0] && done.token == i && done.status);
	}
	CHECK_EQ(copyrpc_raw_recv(p.ctx[0], &done), 0);
	CHECK_EQ(copyrpc_raw_pending(p.ep[0]), 0);
	copyrpc_mr_dereg(&mr);
}
