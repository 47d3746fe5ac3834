/* SPDX-License-Identifier: MIT */
/* What ports have carried, as programs read it in sysfs. */
#include <stdlib.h>
#include <sys/stat.h>

#include "rig.h"
#include "tmpdir.h"

#define PORT "/sys/class/infiniband/mlx5_%u/ports/1/"

static struct rig a, b;

static uint64_t counter(unsigned rail, const char *name)
{
	unsigned long long value;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), PORT "%s", rail, name);
	f = fopen(path, "r");
	CHECK(f);
	CHECK_EQ(fscanf(f, "%llu\n", &value), 1);
	CHECK_EQ(getc(f), EOF);
	fclose(f);
	return value;
}

/* Of rail 0 and rail 1, since the last call. */
struct change {
	uint64_t tx_bytes, tx_packets, rx_bytes, rx_packets;
};

static struct change change_of(unsigned rail)
{
	static struct change last[2];
	struct change now = {counter(rail, "hw_counters/tx_vport_rdma_unicast_bytes"),
			      counter(rail, "hw_counters/tx_vport_rdma_unicast_packets"),
			      counter(rail, "hw_counters/rx_vport_rdma_unicast_bytes"),
			      counter(rail, "hw_counters/rx_vport_rdma_unicast_packets")},
		      d = {now.tx_bytes - last[rail].tx_bytes,
			      now.tx_packets - last[rail].tx_packets,
			      now.rx_bytes - last[rail].rx_bytes,
			      now.rx_packets - last[rail].rx_packets};

	last[rail] = now;
	return d;
}

static void carried(uint64_t out_bytes, uint64_t out_packets, uint64_t in_bytes,
	uint64_t in_packets)
{
	struct change at[2] = {change_of(0), change_of(1)};

	CHECK_EQ(at[0].tx_bytes, out_bytes);
	CHECK_EQ(at[0].tx_packets, out_packets);
	CHECK_EQ(at[1].rx_bytes, out_bytes);
	CHECK_EQ(at[1].rx_packets, out_packets);
	CHECK_EQ(at[0].rx_bytes, in_bytes);
	CHECK_EQ(at[0].rx_packets, in_packets);
	CHECK_EQ(at[1].tx_bytes, in_bytes);
	CHECK_EQ(at[1].tx_packets, in_packets);
}

static void post(enum ibv_wr_opcode op, uint32_t len)
{
	rig_post(&a, &(struct rig_wr){.op = op,
			     .flags = IBV_SEND_SIGNALED,
			     .len = len,
			     .raddr = (uintptr_t)b.buf,
			     .rkey = b.mr->rkey});
	rig_wait_ok(a.scq);
}

static void messages_are_counted_at_both_ports(void)
{
	carried(0, 0, 0, 0);
	post(IBV_WR_RDMA_WRITE, 10000);
	carried(10000, 10, 0, 0); /* of 1024 bytes */
	post(IBV_WR_RDMA_READ, 8192);
	carried(0, 0, 8192, 8);
	rig_recv(&b, 0, 0, 64);
	post(IBV_WR_SEND, 64);
	carried(64, 1, 0, 0);
	post(IBV_WR_RDMA_WRITE, 0);
	carried(0, 1, 0, 0);
}

static void the_kernels_counters_agree(void)
{
	CHECK_EQ(counter(0, "counters/port_xmit_data"), (10000 + 64) / 4);
	CHECK_EQ(counter(0, "counters/port_rcv_data"), 8192 / 4);
	CHECK_EQ(counter(1, "counters/port_rcv_packets"), 10 + 1 + 1);
	CHECK_EQ(counter(1, "counters/port_xmit_packets"), 8);
	CHECK_EQ(counter(1, "hw_counters/tx_prio3_pause_duration"), 0);
	CHECK_EQ(counter(1, "hw_counters/rx_prio3_pause_duration"), 0);
}

/* Nothing of the writing is left to be seen. */
static void nothing_is_left(void)
{
	struct stat st;

	CHECK(stat("/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", &st) == 0);
	CHECK(stat("/sys/class/infiniband/mlx5_0/ports/1/.counter", &st) != 0);
}

int main(void)
{
	tmpdir_make();
	rig_fabric("counts");
	CHECK(!setenv("SOFTHCA_RAILS", "2", 1));
	rig_open(&a, &(struct rig_attr){0});
	rig_open(&b, &(struct rig_attr){.rail = 1});
	rig_connect_pair(&a, &b);
	messages_are_counted_at_both_ports();
	the_kernels_counters_agree();
	nothing_is_left();
	rig_close(&a);
	rig_close(&b);
	return 0;
}
