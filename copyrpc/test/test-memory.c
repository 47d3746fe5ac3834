/* SPDX-License-Identifier: MIT */
/* The memory of endpoints: how much idle endpoints use, how rings grow, and when memory is
 * freed. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "grow.h"
#include "timed.h"

#define IDLE 1024
#define MANY 24 /* endpoints; the send rings of several are in one memory region */
#define LARGEST COPYRPC_PAYLOAD_MAX(1 << 20)

static uint64_t registered; /* bytes */
static bool full; /* no more memory can be registered */
static size_t longest = SIZE_MAX; /* bytes of the largest memory that can be registered */

int __real_mlx5dvl_mr_reg(struct mlx5dvl_ctx *ctx, void *addr, size_t len, unsigned access,
	struct mlx5dvl_mr *mr_p);
void __real_mlx5dvl_mr_dereg(struct mlx5dvl_mr *mr);
int __wrap_mlx5dvl_mr_reg(struct mlx5dvl_ctx *ctx, void *addr, size_t len, unsigned access,
	struct mlx5dvl_mr *mr_p);
void __wrap_mlx5dvl_mr_dereg(struct mlx5dvl_mr *mr);

/* Touches each page: with an adapter, the kernel makes registered memory resident. */
int __wrap_mlx5dvl_mr_reg(struct mlx5dvl_ctx *ctx, void *addr, size_t len, unsigned access,
	struct mlx5dvl_mr *mr_p)
{
	bool none = full || len > longest;
	int rc = none ? -ENOMEM : __real_mlx5dvl_mr_reg(ctx, addr, len, access, mr_p);

	if (rc)
		return rc;
	registered += len;
	for (size_t at = 0; at < len; at += 4096)
		__atomic_fetch_or((uint8_t *)addr + at, 0, __ATOMIC_RELAXED);
	return 0;
}

void __wrap_mlx5dvl_mr_dereg(struct mlx5dvl_mr *mr)
{
	if (mr->priv)
		registered -= mr->len;
	__real_mlx5dvl_mr_dereg(mr);
}

/* Returns the resident memory of the process in KiB, including shared memory. */
static long resident(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kib = 0;

	CHECK(f);
	while (!kib && fgets(line, sizeof(line), f))
		sscanf(line, "Rss: %ld", &kib);
	fclose(f);
	CHECK(kib > 0);
	return kib;
}

TEST(a_thousand_idle_endpoints)
{
	const struct copyrpc_ctx_attr attr = {.max_endpoints = IDLE};
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep[2];
	long before = resident(), after;

	CHECK_EQ(copyrpc_ctx_create(&attr, &ctx), 0);
	for (int i = 0; i < IDLE / 2; i++)
		join(ctx, ctx, ep);
	after = resident();
	printf("  %ld KiB more, of these %" PRIu64 " registered\n", after - before,
		registered / 1024);
	CHECK(registered >= IDLE * 2 * 8192u);
	/* Sanitizers use memory, too. */
	CHECK(SCALE > 1 || after - before <= 64 * 1024);
	copyrpc_ctx_destroy(ctx);
	CHECK_EQ(registered, 0);
}

static int call(struct pair *p, uint32_t len)
{
	static const char payload[LARGEST];

	return copyrpc_call(p->ep[0], payload, len, len, 0);
}

/* The first call that needs larger rings succeeds after one round trip. */
TEST(one_round_trip)
{
	struct heard h = {0};
	PAIR p = pair_open(NULL);

	CHECK_EQ(call(&p, LARGEST + 1), -EMSGSIZE);
	CHECK_EQ(call(&p, LARGEST), -EAGAIN);
	copyrpc_flush(p.ctx[0]);
	pair_turn(&p, &h);
	CHECK_EQ(call(&p, LARGEST), 0);
	while (!h.ok)
		pair_turn(&p, &h);
	CHECK_EQ(h.failed, 0);
}

/* The rings become no larger than the messages need. */
TEST(no_more_than_needed)
{
	static const struct {
		uint32_t len, ring;
	} steps[] = {{1012, 8192}, {1013, 16384}, {5000, 65536}, {LARGEST, 1 << 20}};
	PAIR p = pair_open(NULL);

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct heard h = {0};

		while (call(&p, steps[i].len))
			pair_turn(&p, &h);
		while (!h.ok)
			pair_turn(&p, &h);
		CHECK_EQ(p.ep[0]->ch.cr.c * WIRE_BLOCK, steps[i].ring);
		CHECK_EQ(p.ep[1]->ch.cr.c * WIRE_BLOCK, steps[i].ring);
	}
}

/* Calls that find no room make the rings grow; then they find room. */
TEST(traffic)
{
	struct copyrpc_stats s[3];
	struct heard h = {0};
	PAIR p = pair_open(NULL);
	uint32_t made = 0;

	for (int i = 0; i < 3; i++) {
		while (made < 4000u * (uint32_t)(i + 1)) {
			for (int k = 0; k < 200; k++)
				made += !call(&p, 100);
			pair_turn(&p, &h);
		}
		s[i] = ctx_stats_of(p.ctx[0]);
	}
	CHECK(s[0].grown > 0 && s[0].grown <= 4 && s[0].credit_stalls + s[0].ring_stalls > 0);
	CHECK_EQ(s[2].credit_stalls, s[1].credit_stalls);
	CHECK_EQ(s[2].ring_stalls, s[1].ring_stalls);
	while (h.ok < made)
		pair_turn(&p, &h);
}

/* Memory is used again by the next endpoints, and in the end freed. */
TEST(memory_comes_back)
{
	const struct copyrpc_ctx_attr attr = {.max_endpoints = 4};
	struct copyrpc_ep *keep[2];
	struct heard h = {0};
	uint64_t few;
	struct pair p = pair_open(&attr);

	join(p.ctx[0], p.ctx[1], keep);
	few = registered;
	pair_grow(&p, LARGEST);
	CHECK(registered >= 4u << 20);
	for (int i = 0; i < 2; i++) {
		copyrpc_ep_destroy(p.ep[i]);
		copyrpc_poll(p.ctx[i], hear, &h);
	}
	CHECK(registered <= few);
	join(p.ctx[0], p.ctx[1], p.ep);
	CHECK_EQ(registered, few);
	pair_close(&p);
	CHECK_EQ(registered, 0);
}

/* The memory is freed even if a forked child has the file open: `fd` acts as its descriptor. */
TEST(memory_of_the_file_comes_back)
{
	struct pair p = pair_open(NULL);
	struct stat st;
	int fd = dup(p.ctx[0]->file.fd), closed = p.ctx[0]->file.fd;

	CHECK(p.ctx[0]->file.open && fd >= 0);
	CHECK(!fstat(fd, &st) && st.st_blocks > 0);
	pair_close(&p);
	CHECK(!fstat(fd, &st) && !st.st_blocks);
	CHECK_EQ(fcntl(closed, F_GETFD), -1);
	close(fd);
}

/* The process would get SIGXFSZ if it made the file longer than its limit. So rings beyond the
 * limit are private memory. */
TEST(the_file_has_its_longest)
{
	PAIR p = pair_open(NULL);
	off_t end = p.ctx[0]->file.end;
	struct rlimit before, least;

	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
	least = (struct rlimit){(rlim_t)end, before.rlim_max};
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &least), 0);
	pair_grow(&p, LARGEST);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
	CHECK(end > 0 && p.ctx[0]->file.end == end);
}

/* Chunks that can have huge pages are not in the file, because files seldom have huge pages. */
TEST(huge_pages_are_not_of_the_file)
{
	const struct copyrpc_ctx_attr attr = {.ring_size = 4 << 20};
	PAIR p = pair_open(&attr);

	pair_grow(&p, COPYRPC_PAYLOAD_MAX(4 << 20));
	CHECK_EQ(p.ep[1]->ch.cr.c * WIRE_BLOCK, 4 << 20);
	CHECK(p.ctx[0]->file.end > 0 && p.ctx[0]->file.end < 2 << 20);
	CHECK(p.ctx[1]->file.end > 0 && p.ctx[1]->file.end < 2 << 20);
}

/* Rings that another endpoint has used are cleared. A batch includes the padding between its
 * messages, so it would carry old bytes of the send ring to another peer. A peer can announce a
 * request that it has not written, so its payload would be old bytes of the receive ring. */
TEST(nothing_goes_to_another_peer)
{
	static const uint8_t zero[8192];
	const struct copyrpc_ctx_attr attr = {.max_endpoints = 2 * MANY};
	struct copyrpc_ep *ep[MANY][2];
	struct heard h = {0};
	PAIR p = pair_open(&attr);
	char secret[100];
	int n = 0;

	memset(secret, 0x5e, sizeof(secret));
	for (int i = 0; i < MANY; i++)
		join(p.ctx[0], p.ctx[1], ep[i]);
	for (int i = 0; i < 2 * MANY; i++)
		CHECK_EQ(copyrpc_call(ep[i / 2][i % 2], secret, sizeof(secret), 0, 0), 0);
	copyrpc_poll(p.ctx[1], hear, &h);
	CHECK_EQ(copyrpc_poll(p.ctx[0], hear, &h), MANY);
	for (int i = 0; i < MANY / 2; i++)
		copyrpc_ep_destroy(ep[2 * i][0]);
	copyrpc_poll(p.ctx[0], hear, &h);
	/* Use all pieces of memory, including those that were used before. */
	while (!copyrpc_ep_create(p.ctx[0], NULL, &ep[0][0])) {
		CHECK(!memcmp(ep[0][0]->ch.send_ring, zero, sizeof(zero)));
		CHECK(!memcmp(ep[0][0]->recv.at, zero, sizeof(zero)));
		n++;
	}
	CHECK_EQ(n, 2 * MANY - 1 - MANY / 2);
}

/* Without memory the rings stay as they are, and calls for which they are large enough succeed.
 * When there is memory again, the larger call succeeds, too. */
TEST(no_memory)
{
	struct heard h = {0};
	PAIR p = pair_open(NULL);

	full = true;
	for (uint32_t i = 0; i < 1000; i++) {
		CHECK_EQ(call(&p, LARGEST), -EAGAIN);
		CHECK_EQ(call(&p, 20), 0);
		while (h.ok <= i)
			pair_turn(&p, &h);
	}
	full = false;
	while (call(&p, LARGEST))
		pair_turn(&p, &h);
	while (h.ok <= 1000)
		pair_turn(&p, &h);
	CHECK_EQ(h.failed, 0);
}

/* The peer wants a ring for which there is no memory. The other ring, for which there is some,
 * becomes larger all the same. */
TEST(no_memory_for_one_ring)
{
	static const char payload[LARGEST];
	struct heard h = {0};
	PAIR p = open_timed(NULL);

	longest = 64 * 1024;
	CHECK_EQ(copyrpc_call(p.ep[0], payload, LARGEST, 0, 0), -EAGAIN);
	copyrpc_poll(p.ctx[0], hear, &h);
	pair_settle(&p);
	for (int i = 0; copyrpc_call(p.ep[1], payload, 2000, 0, 0); i++) {
		CHECK(i < 100);
		now += NSEC_PER_MSEC;
		pair_turn(&p, &h);
	}
	CHECK_EQ(p.ep[1]->ch.recv_mask + 1, RING_START / WIRE_BLOCK);
	longest = SIZE_MAX;
}

/* A server that sleeps wakes up to allocate again what it had no memory for. */
TEST(no_memory_for_a_moment)
{
	static const char payload[LARGEST];
	struct heard h = {0};
	PAIR p = open_timed(NULL);

	full = true;
	CHECK_EQ(copyrpc_call(p.ep[0], payload, LARGEST, 0, 0), -EAGAIN);
	copyrpc_poll(p.ctx[0], hear, &h);
	pair_settle(&p);
	full = false;
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 0);
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[1]), 10);
	now += 10 * NSEC_PER_MSEC;
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[1]), 0);
	copyrpc_poll(p.ctx[1], hear, &h);
	copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(copyrpc_call(p.ep[0], payload, LARGEST, 0, 0), 0);
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[1]), -1);
}
