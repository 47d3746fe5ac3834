/* SPDX-License-Identifier: MIT */
/* Counters of ports, as programs read them in sysfs. */
#include <sched.h>
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

/* The last values of rail 0 and rail 1. */
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

/* Returns how much a counter of a rail's hw_counters has grown since the last call. */
static uint64_t rise(unsigned rail, const char *name)
{
	static struct {
		unsigned rail;
		const char *name;
		uint64_t value;
	} last[16];
	char path[64];
	uint64_t rose;
	size_t i = 0;

	snprintf(path, sizeof(path), "hw_counters/%s", name);
	while (last[i].name && (strcmp(last[i].name, name) || last[i].rail != rail))
		i++;
	CHECK(i < sizeof(last) / sizeof(last[0]) - 1);
	rose = counter(rail, path) - last[i].value;
	last[i].rail = rail;
	last[i].name = name;
	last[i].value += rose;
	return rose;
}

static void requests_are_counted(void)
{
	CHECK_EQ(rise(1, "rx_write_requests"), 2);
	CHECK_EQ(rise(1, "rx_read_requests"), 1);
	CHECK_EQ(rise(1, "rx_atomic_requests"), 0);
	CHECK_EQ(rise(0, "rx_read_requests"), 0);
	CHECK_EQ(rise(0, "rx_write_requests"), 0);
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	CHECK_EQ(rise(1, "rx_atomic_requests"), 1);
	CHECK_EQ(rise(1, "rx_write_requests"), 0);
}

static void retries(uint64_t no_receive, uint64_t rnr, uint64_t timeout)
{
	CHECK_EQ(rise(1, "out_of_buffer"), no_receive);
	CHECK_EQ(rise(0, "rnr_nak_retry_err"), rnr);
	CHECK_EQ(rise(0, "local_ack_timeout_err"), timeout);
	CHECK_EQ(rise(0, "out_of_buffer"), 0);
	CHECK_EQ(rise(1, "rnr_nak_retry_err"), 0);
	CHECK_EQ(rise(1, "local_ack_timeout_err"), 0);
}

static void reopen(const struct rig_attr *to)
{
	struct rig_attr from = {.type = to->type};

	rig_close(&a);
	rig_close(&b);
	rig_open(&a, &from);
	rig_open(&b, to);
}

/* Sends to an end without a receive; the third attempt is the last. */
static void no_receive(bool srq)
{
	struct rig_timers t = {.timeout = 10,
		.retry = 3,
		.rnr_retry = 2,
		.min_rnr = 1,
		.set = true};
	struct rig_addr from, to;

	reopen(&(struct rig_attr){.rail = 1, .srq = srq});
	from = rig_addr(&a);
	to = rig_addr(&b);
	rig_connect(&a, &to, t);
	rig_connect(&b, &from, t);
	rig_recv(&b, 0, 0, 64);
	post(IBV_WR_SEND, 64);
	retries(0, 0, 0);
	rig_post(&a, &(struct rig_wr){.op = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .len = 64});
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_RNR_RETRY_EXC_ERR);
	retries(3, 2, 0);
}

/* A receive that is posted late ends the retries. */
static void late_receive(void)
{
	uint64_t n = 0;

	reopen(&(struct rig_attr){.rail = 1, .srq = true});
	rig_connect_pair(&a, &b);
	rig_post(&a, &(struct rig_wr){.op = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .len = 64});
	while (!(n = rise(1, "out_of_buffer")))
		sched_yield();
	rig_recv(&b, 0, 0, 64);
	rig_wait_ok(a.scq);
	CHECK_EQ(n + rise(1, "out_of_buffer"), rise(0, "rnr_nak_retry_err"));
	retries(0, 0, 0);
}

static void datagram_end(struct rig *r)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

	CHECK(!ibv_modify_qp(r->qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(r->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

/* A datagram that finds no receive is dropped; its sender gets no error. */
static void dropped_datagram(void)
{
	struct ibv_ah_attr path = {.port_num = 1};
	struct ibv_sge sge = {0};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.ud.remote_qkey = 0x1234};

	reopen(&(struct rig_attr){.rail = 1, .type = IBV_QPT_UD});
	datagram_end(&a);
	datagram_end(&b);
	path.dlid = b.port.lid;
	wr.wr.ud.ah = ibv_create_ah(a.pd, &path);
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	sge = (struct ibv_sge){(uintptr_t)a.buf, 64, a.mr->lkey};
	CHECK(wr.wr.ud.ah && !ibv_post_send(a.qp, &wr, &bad));
	rig_wait_ok(a.scq);
	CHECK(!ibv_destroy_ah(wr.wr.ud.ah));
	retries(1, 0, 0);
}

/* The peer QP has been destroyed. */
static void no_answer(void)
{
	struct rig_timers t = {.timeout = 4, .retry = 3, .rnr_retry = 7, .min_rnr = 1, .set = true};
	struct rig_addr to;

	reopen(&(struct rig_attr){.rail = 1});
	to = rig_addr(&b);
	to.qpn = 0xfffff0;
	rig_connect(&a, &to, t);
	rig_post(&a, &(struct rig_wr){.op = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .len = 64});
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_RETRY_EXC_ERR);
	retries(0, 0, 3);
}

/* No temporary files are left in the directory. */
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
	requests_are_counted();
	no_receive(false);
	no_receive(true);
	late_receive();
	dropped_datagram();
	no_answer();
	nothing_is_left();
	rig_close(&a);
	rig_close(&b);
	return 0;
}
