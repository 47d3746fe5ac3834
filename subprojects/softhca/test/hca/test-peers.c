/* SPDX-License-Identifier: MIT */
/* Two processes exchange messages; every payload is checked. */
#include <sched.h>

#include "rig.h"
#include "softhca.h"

#define SLOTS 16u
#define SLOT 2048u
#define IN 0u /* messages arrive here */
#define OUT (RIG_BUF / 2u) /* and leave from here */

static struct rig r;

static uint32_t length_of(uint32_t n)
{
	return 4 + n * 61 % (SLOT - 4);
}

static void send_message(struct rig_addr to, uint32_t n, uint32_t seed)
{
	uint32_t at = n % SLOTS * SLOT, len = length_of(n);

	rig_fill(r.buf + OUT + at, len, seed + n);
	to.addr += IN + at;
	rig_write_imm(&r, n, OUT + at, len, to);
}

static void check_message(const struct ibv_wc *wc, uint32_t n, uint32_t seed)
{
	CHECK_EQ(wc->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(wc->imm_data, n);
	CHECK_EQ(wc->byte_len, length_of(n));
	CHECK(rig_same(r.buf + IN + n % SLOTS * SLOT, wc->byte_len, seed + n));
}

/* Both ends call this. An end sends at most SLOTS / 2 messages more than it has received. */
static void exchange(struct rig_addr to, uint32_t count, uint32_t mine, uint32_t theirs)
{
	uint32_t sent = 0, done = 0, got = 0;
	struct ibv_wc wc;

	while (done < count || got < count) {
		if (sent < count && sent - done < 8 && sent < got + SLOTS / 2)
			send_message(to, sent++, mine);
		if (rig_poll(r.scq, &wc))
			CHECK_EQ(wc.wr_id, done++);
		if (rig_poll(r.rcq, &wc)) {
			check_message(&wc, got++, theirs);
			rig_recv(&r, wc.wr_id, 0, 0);
		} else {
			sched_yield();
		}
	}
}

static void run_end(int fd, uint32_t mine, uint32_t theirs)
{
	struct rig_addr to;

	rig_open(&r, &(struct rig_attr){.srq = true});
	for (uint64_t i = 0; i < SLOTS + 8; i++)
		rig_recv(&r, i, 0, 0);
	to = rig_meet(&r, fd, NULL, (struct rig_timers){0});
	exchange(to, 5000, mine, theirs);
	test_meet(fd);
}

static void first(int fd)
{
	run_end(fd, 0, 1000);
}

static void second(int fd)
{
	run_end(fd, 1000, 0);
}

TEST(two_processes)
{
	pid_t pid;
	int fd;

	pid = test_peer(second, &fd);
	first(fd);
	CHECK_EQ(test_reap(pid), 0);
}

FABRIC_MAIN("peers");
