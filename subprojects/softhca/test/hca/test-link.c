/* SPDX-License-Identifier: MIT */
/* The link model in virtual time is exact; in real time nothing is early. */
#include "rig.h"
#include "softhca.h"
#include "stopped.h"
#include "tmpdir.h"

#define LATENCY 5000u /* ns; at 8000 Mb/s a byte takes 1 ns */
#define SERVICE 700u
#define LONG_SERVICE 1000000u
#define MESSAGES 20

static struct rig a, b;

static void topology(const char *link, uint32_t service)
{
	tmpdir_topology("rate_mbps=8000 latency_ns=%u service_ns=%u\n", LATENCY, service);
	CHECK(!setenv("SOFTHCA_LINK", link, 1));
}

/* Sends @n messages under one doorbell. */
static void post_list(uint32_t n, uint32_t len)
{
	rig_write_list(&a, &b, n, len, 1);
	rig_wait_ok(a.scq);
}

static void in_virtual_time(void)
{
	uint64_t t;

	rig_open_pair(&a, NULL, &b, NULL);
	t = rig_info().virtual_ns;
	rig_write(&a, &b, 1000);
	rig_wait_ok(a.scq);
	CHECK_EQ(rig_info().virtual_ns - t, 1000 + LATENCY);
	t = rig_info().virtual_ns;
	rig_request(&a, IBV_WR_RDMA_READ, 2000, rig_addr(&b));
	rig_wait_ok(a.scq);
	CHECK_EQ(rig_info().virtual_ns - t, 2000 + 2 * LATENCY);
	/* The latencies of messages in sequence overlap, but not their times on the link. */
	t = rig_info().virtual_ns;
	post_list(10, 3000);
	CHECK_EQ(rig_info().virtual_ns - t, 10 * 3000 + LATENCY);
}

/* A rule delays a message by its delay_ns; those behind it arrive with it. No thread waits. */
static void delayed_in_virtual_time(void)
{
	const uint64_t hour = 3600000000000u;
	uint64_t t;

	rig_open_pair(&a, NULL, &b, NULL);
	CHECK(softhca_fault_add("action=delay delay_ns=3600000000000 opcode=write nth=2") > 0);
	t = rig_info().virtual_ns;
	rig_write(&a, &b, 1000);
	rig_wait_ok(a.scq);
	CHECK_EQ(rig_info().virtual_ns - t, 1000 + LATENCY);
	t = rig_info().virtual_ns;
	post_list(3, 1000);
	CHECK_EQ(rig_info().virtual_ns - t, 1000 + LATENCY + hour);
}

/* A context at either end takes its service time for each message, one after the other. */
static void with_service_in_virtual_time(void)
{
	uint64_t t;

	rig_open_pair(&a, NULL, &b, NULL);
	t = rig_info().virtual_ns;
	rig_write(&a, &b, 1000);
	rig_wait_ok(a.scq);
	CHECK_EQ(rig_info().virtual_ns - t, 2 * SERVICE + 1000 + LATENCY);
	/* Small messages leave at the rate of the context, large ones at the rate of the link. */
	t = rig_info().virtual_ns;
	post_list(10, 100);
	CHECK_EQ(rig_info().virtual_ns - t, 11 * SERVICE + 100 + LATENCY);
	t = rig_info().virtual_ns;
	post_list(10, 3000);
	CHECK_EQ(rig_info().virtual_ns - t, 2 * SERVICE + 10 * 3000 + LATENCY);
}

/* A message that is dropped occupies the link like one that arrives. */
static void dropped_in_virtual_time(void)
{
	const struct rig_attr uc = {.type = IBV_QPT_UC};
	struct rig_addr to;
	uint64_t t;

	rig_open_pair(&a, &uc, &b, &uc);
	to = rig_addr(&b);
	CHECK(!ibv_destroy_qp(b.qp));
	b.qp = NULL;
	for (uint32_t len = 1000; len <= 3000; len += 1000) {
		t = rig_info().virtual_ns;
		rig_request(&a, IBV_WR_RDMA_WRITE, len, to);
		rig_wait_ok(a.scq);
		CHECK_EQ(rig_info().virtual_ns - t, len + LATENCY);
	}
}

/*
 * In step mode, a request that is posted while another is in flight enters the link immediately.
 */
static void behind_another(void)
{
	const uint64_t start = 1000000000u, size = 8, later = 100;
	struct ibv_wc wc;

	stopped_ns = start;
	rig_open_pair(&a, NULL, &b, NULL);
	rig_post(&a, &(struct rig_wr){.op = IBV_WR_RDMA_WRITE,
			     .len = size,
			     .raddr = (uintptr_t)b.buf,
			     .rkey = b.mr->rkey});
	softhca_step();
	stopped_ns = start + later;
	rig_write(&a, &b, size);
	softhca_step();
	stopped_ns = start + later + size + LATENCY - 1;
	softhca_step();
	CHECK_EQ(ibv_poll_cq(a.scq, 1, &wc), 0);
	stopped_ns++;
	softhca_step();
	CHECK_EQ(ibv_poll_cq(a.scq, 1, &wc), 1);
}

static void in_real_time(void)
{
	uint64_t start = test_now_ns();

	rig_open_pair(&a, NULL, &b, NULL);
	for (uint32_t i = 0; i < 200; i++)
		post_list(10, 10000);
	CHECK(test_now_ns() - start >= 200 * (10 * 10000 + LATENCY));
}

/* A context with two QPs, each with a peer, sends to both, or receives from both, one by one. */
static void context_is_serial(bool sends)
{
	RIG c;
	struct rig second, *from, *to;
	uint64_t start;

	rig_open_pair(&a, NULL, &b, NULL);
	rig_open(&c, NULL);
	second = rig_with(&a, rig_qp(&a));
	rig_connect_pair(&c, &second);
	start = test_now_ns();
	for (int i = 0; i < MESSAGES; i++) {
		from = i % 2 ? &a : &second;
		to = i % 2 ? &b : &c;
		rig_post(sends ? from : to,
			&(struct rig_wr){.op = IBV_WR_RDMA_WRITE,
				.flags = i < MESSAGES - 2 ? 0 : IBV_SEND_SIGNALED,
				.len = 8,
				.raddr = (uintptr_t)(sends ? to : from)->buf,
				.rkey = (sends ? to : from)->mr->rkey});
	}
	for (int i = 0; i < 2; i++)
		rig_wait_ok(sends || !i ? (sends ? &a : &b)->scq : c.scq);
	/* If the context were not the limit, the two peers would need only half of this time. */
	CHECK(test_now_ns() - start >= MESSAGES * (uint64_t)LONG_SERVICE);
	CHECK(!ibv_destroy_qp(second.qp));
}

static void sender_is_serial(void)
{
	context_is_serial(true);
}

static void receiver_is_serial(void)
{
	context_is_serial(false);
}

/* Runs @fn in a process and a fabric of its own. @mode: of the adapters; NULL: the default. */
static void in_time(const char *link, uint32_t service, const char *mode, void (*fn)(void))
{
	if (!test_in_child())
		return;
	test_fabric("link");
	topology(link, service);
	CHECK(!mode || !setenv("SOFTHCA_MODE", mode, 1));
	fn();
	test_end();
	exit(0);
}

TEST_WITH(virtual, in_time, "virtual", 0, NULL, in_virtual_time);
TEST_WITH(held, in_time, "virtual", 0, NULL, delayed_in_virtual_time);
TEST_WITH(served, in_time, "virtual", SERVICE, NULL, with_service_in_virtual_time);
TEST_WITH(dropped, in_time, "virtual", 0, NULL, dropped_in_virtual_time);
TEST_WITH(behind, in_time, "real", 0, "step", behind_another);
TEST_WITH(real, in_time, "real", 0, NULL, in_real_time);
TEST_WITH(sender, in_time, "real", LONG_SERVICE, NULL, sender_is_serial);
TEST_WITH(receiver, in_time, "real", LONG_SERVICE, NULL, receiver_is_serial);
