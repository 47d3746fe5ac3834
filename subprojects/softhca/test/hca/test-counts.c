/* SPDX-License-Identifier: MIT */
/* Counters of ports, as programs read them in sysfs. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"

static struct rig a, b, keeper;

/* The growth of an adapter's counters since the last call of change_of(). */
struct change {
	uint64_t tx_bytes, tx_packets, rx_bytes, rx_packets;
};

static struct change change_of(unsigned rail)
{
	static struct change last[2];
	struct change now = {rig_counter(rail, "hw_counters/tx_vport_rdma_unicast_bytes"),
			      rig_counter(rail, "hw_counters/tx_vport_rdma_unicast_packets"),
			      rig_counter(rail, "hw_counters/rx_vport_rdma_unicast_bytes"),
			      rig_counter(rail, "hw_counters/rx_vport_rdma_unicast_packets")},
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
	rig_request(&a, op, len, rig_addr(&b));
	rig_wait_ok(a.scq);
}

static void messages_are_counted_at_both_ports(void)
{
	carried(0, 0, 0, 0);
	post(IBV_WR_RDMA_WRITE, 10000);
	carried(10000, 10, 0, 0); /* packets of 1024 bytes */
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
	CHECK_EQ(rig_counter(0, "counters/port_xmit_data"), (10000 + 64) / 4);
	CHECK_EQ(rig_counter(0, "counters/port_rcv_data"), 8192 / 4);
	CHECK_EQ(rig_counter(1, "counters/port_rcv_packets"), 10 + 1 + 1);
	CHECK_EQ(rig_counter(1, "counters/port_xmit_packets"), 8);
	CHECK_EQ(rig_counter(1, "hw_counters/tx_prio3_pause_duration"), 0);
	CHECK_EQ(rig_counter(1, "hw_counters/rx_prio3_pause_duration"), 0);
}

/* Returns the growth of a counter in hw_counters since the last call for this counter. */
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
	CHECK(i < ARRAY_SIZE(last) - 1);
	rose = rig_counter(rail, path) - last[i].value;
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

TEST(traffic)
{
	rig_open_pair(&a, NULL, &b, &(struct rig_attr){.rail = 1});
	messages_are_counted_at_both_ports();
	the_kernels_counters_agree();
	requests_are_counted();
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

static void open_ends(const struct rig_attr *to)
{
	struct rig_attr from = {.type = to->type};

	rig_open(&a, &from);
	rig_open(&b, to);
}

/* Sends to an end without a receive; the third attempt is the last. */
static void no_receive(bool srq)
{
	open_ends(&(struct rig_attr){.rail = 1, .srq = srq});
	rig_connect(&a, rig_addr(&b), (struct rig_timers){.rnr_retry = 2});
	rig_connect(&b, rig_addr(&a), (struct rig_timers){0});
	rig_recv(&b, 0, 0, 64);
	post(IBV_WR_SEND, 64);
	retries(0, 0, 0);
	rig_send(&a, 64);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_RNR_RETRY_EXC_ERR);
	retries(3, 2, 0);
}

TEST_WITH(no_receive_in_queue, no_receive, false);
TEST_WITH(no_receive_in_srq, no_receive, true);

/* A receive that is posted late ends the retries. */
TEST(late_receive)
{
	uint64_t n = 0;

	open_ends(&(struct rig_attr){.rail = 1, .srq = true});
	rig_connect_pair(&a, &b);
	rig_send(&a, 64);
	while (!(n = rise(1, "out_of_buffer")))
		sched_yield();
	rig_recv(&b, 0, 0, 64);
	rig_wait_ok(a.scq);
	CHECK_EQ(n + rise(1, "out_of_buffer"), rise(0, "rnr_nak_retry_err"));
	retries(0, 0, 0);
}

/* A datagram that finds no receive is dropped; its sender gets no error. */
TEST(dropped_datagram)
{
	open_ends(&(struct rig_attr){.rail = 1, .type = IBV_QPT_UD});
	rig_datagrams(&a);
	rig_datagrams(&b);
	CHECK_EQ(rig_datagram(&a, &b, 64), IBV_WC_SUCCESS);
	retries(1, 0, 0);
}

/* A port does not receive a datagram that has the LID of another port. */
TEST(datagram_to_another_port)
{
	struct ibv_ah_attr path = {.port_num = 1};
	struct ibv_ah *ah;
	uint64_t sent, received;

	open_ends(&(struct rig_attr){.rail = 1, .type = IBV_QPT_UD});
	rig_datagrams(&a);
	path.dlid = a.port.lid;
	ah = ibv_create_ah(a.pd, &path);
	sent = rig_counter(0, "counters/port_xmit_packets");
	received = rig_counter(1, "counters/port_rcv_packets");
	CHECK_EQ(rig_send_datagram(&a, ah, b.qp->qp_num, 0, 64, IBV_WR_SEND), IBV_WC_SUCCESS);
	CHECK_EQ(rig_counter(0, "counters/port_xmit_packets"), sent + 1);
	CHECK_EQ(rig_counter(1, "counters/port_rcv_packets"), received);
	CHECK(!ibv_destroy_ah(ah));
}

/* The sender is connected to a QP number that no QP has. */
TEST(no_answer)
{
	struct rig_addr to;

	open_ends(&(struct rig_attr){.rail = 1});
	to = rig_addr(&b);
	to.qpn = 0xfffff0;
	rig_connect(&a, to, (struct rig_timers){.timeout = 4});
	rig_send(&a, 64);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_RETRY_EXC_ERR);
	retries(0, 0, 3);
}

static uint64_t value_in(FILE *f)
{
	unsigned long long value;

	CHECK(f);
	CHECK_EQ(fscanf(f, "%llu", &value), 1);
	CHECK(!fclose(f));
	return value;
}

#define PORT "/sys/class/infiniband/mlx5_1/ports/1"
#define WRITES "rx_write_requests"

/* A file has the current value, whatever path opens it. */
TEST(opened_by_any_path)
{
	char real[PATH_MAX];
	uint64_t n;
	int dir;

	rig_open_pair(&a, NULL, &b, &(struct rig_attr){.rail = 1});
	n = rig_counter(1, "hw_counters/" WRITES);
	dir = open(PORT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(realpath(PORT "/hw_counters/" WRITES, real));
	CHECK(!chdir(PORT "/hw_counters"));
	post(IBV_WR_RDMA_WRITE, 8);
	CHECK_EQ(value_in(fopen(WRITES, "re")), n + 1);
	post(IBV_WR_RDMA_WRITE, 8);
	CHECK_EQ(value_in(fdopen(open("./" WRITES, O_RDONLY | O_CLOEXEC), "r")), n + 2);
	post(IBV_WR_RDMA_WRITE, 8);
	CHECK_EQ(value_in(fdopen(openat(dir, "hw_counters/" WRITES, O_RDONLY | O_CLOEXEC), "r")),
		n + 3);
	post(IBV_WR_RDMA_WRITE, 8);
	CHECK_EQ(value_in(fopen(real, "re")), n + 4);
	CHECK(!chdir("/"));
	CHECK(!close(dir));
}

/* No temporary files are left in the directory. */
TEST(nothing_is_left)
{
	struct stat st;

	rig_counter(0, "counters/port_xmit_data");
	CHECK(stat("/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", &st) == 0);
	CHECK(stat("/sys/class/infiniband/mlx5_0/ports/1/.counter", &st) != 0);
}

/* A process keeps the counts of the contexts that it has closed. */
static void contexts_are_closed(bool srq)
{
	struct softhca_counters before, sent, after;

	rig_open_pair(&a, NULL, &b, &(struct rig_attr){.srq = srq});
	before = rig_counters();
	rig_recv(&b, 0, 0, 64);
	post(IBV_WR_SEND, 64);
	sent = rig_counters();
	CHECK_EQ(sent.cqes - before.cqes, 2);
	CHECK_EQ(sent.recvs - before.recvs, 1);
	rig_close_pair(&a, &b);
	after = rig_counters();
	CHECK(!memcmp(&after, &sent, sizeof(after)));
}

TEST_WITH(contexts_with_queue_closed, contexts_are_closed, false);
TEST_WITH(contexts_with_srq_closed, contexts_are_closed, true);

/*
 * The counts of a process begin at zero, even if another process had its slot in the fabric before.
 */
static void count_alone(int fd)
{
	const struct softhca_counters none = {0};
	struct softhca_counters now;

	(void)fd;
	rig_open_pair(&a, NULL, &b, NULL);
	now = rig_counters();
	CHECK(!memcmp(&now, &none, sizeof(now)));
	post(IBV_WR_RDMA_WRITE, 64);
}

TEST(slot_of_another_process)
{
	pid_t pid;
	int fd;

	rig_open(&keeper, NULL); /* so the fabric stays */
	for (int i = 0; i < 2; i++) {
		pid = test_peer(count_alone, &fd);
		test_peer_ends(pid, fd);
	}
}

FABRIC_MAIN("counts", "SOFTHCA_RAILS=2");
