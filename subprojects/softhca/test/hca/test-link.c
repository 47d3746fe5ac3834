/* SPDX-License-Identifier: MIT */
/* The link model in virtual time is exact; in real time nothing is early. */
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <time.h>

#include "rig.h"
#include "softhca.h"
#include "tmpdir.h"

#define LATENCY 5000u /* ns; at 8000 Mb/s a byte takes one */

static struct rig a, b;

static void topology(const char *link)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/topo", tmpdir);
	f = fopen(path, "w");
	CHECK(f);
	fprintf(f, "rate_mbps=8000 latency_ns=%u\n", LATENCY);
	CHECK(!fclose(f));
	CHECK(!setenv("SOFTHCA_TOPOLOGY", path, 1));
	CHECK(!setenv("SOFTHCA_LINK", link, 1));
}

static void post(enum ibv_wr_opcode op, uint32_t len, unsigned flags)
{
	rig_post(&a, &(struct rig_wr){.op = op,
			     .flags = flags,
			     .len = len,
			     .raddr = (uintptr_t)b.buf,
			     .rkey = b.mr->rkey});
}

static uint64_t virtual_ns(void)
{
	struct softhca_fabric_info info;

	CHECK(!softhca_fabric_info(&info));
	return info.virtual_ns;
}

/* @n messages under one doorbell. */
static void post_list(uint32_t n, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)a.buf, len, a.mr->lkey};
	struct ibv_send_wr wr[16], *bad;

	for (uint32_t i = 0; i < n; i++)
		wr[i] = (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.send_flags = i + 1 < n ? 0 : IBV_SEND_SIGNALED,
			.wr.rdma = {.remote_addr = (uintptr_t)b.buf, .rkey = b.mr->rkey}};
	CHECK(!ibv_post_send(a.qp, wr, &bad));
	rig_wait_ok(a.scq);
}

static void open_pair(void)
{
	rig_open(&a, &(struct rig_attr){0});
	rig_open(&b, &(struct rig_attr){0});
	rig_connect_pair(&a, &b);
}

static void close_pair(void)
{
	rig_close(&a);
	rig_close(&b);
}

static void in_virtual_time(void)
{
	uint64_t t;

	open_pair();
	t = virtual_ns();
	post(IBV_WR_RDMA_WRITE, 1000, IBV_SEND_SIGNALED);
	rig_wait_ok(a.scq);
	CHECK_EQ(virtual_ns() - t, 1000 + LATENCY);
	t = virtual_ns();
	post(IBV_WR_RDMA_READ, 2000, IBV_SEND_SIGNALED);
	rig_wait_ok(a.scq);
	CHECK_EQ(virtual_ns() - t, 2000 + 2 * LATENCY);
	/* Messages behind each other share the latency, not the link. */
	t = virtual_ns();
	post_list(10, 3000);
	CHECK_EQ(virtual_ns() - t, 10 * 3000 + LATENCY);
	close_pair();
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void in_real_time(void)
{
	uint64_t start = now_ns();

	open_pair();
	for (uint32_t i = 0; i < 200; i++)
		post_list(10, 10000);
	CHECK(now_ns() - start >= 200 * (10 * 10000 + LATENCY));
	close_pair();
}

int main(int argc, char **argv)
{
	tmpdir_make();
	rig_fabric("link");
	CHECK_EQ(argc, 2);
	topology(argv[1]);
	if (!strcmp(argv[1], "virtual"))
		in_virtual_time();
	else
		in_real_time();
	return 0;
}
