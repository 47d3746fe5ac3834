/* SPDX-License-Identifier: MIT */
/* Partitions: messages that arrive; counters, captures and lines for those that do not. */
#include <errno.h>

#include "../cm/raw.h"
#include "../tmpdir.h"
#include "said.h"

#define COUNTER "/sys/class/infiniband/mlx5_%u/ports/1/counters/port_rcv_constraint_errors"
#define RETRIES 2

static const char topology[] = "pkey=0x8001 pkey=0x0001\n"
			       "pkey=0x0001 pkey=0x8001 pkey=0x8002 pkey=0x8000\n"
			       "link=roce pkey=0x8001\n"
			       "link=roce pkey=0x8002\n"
			       "link=roce pkey=0x0001\n";

static struct rig a, b;
static bool strict;

static unsigned long long dropped(unsigned rail)
{
	unsigned long long value;
	struct ibv_port_attr port;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), COUNTER, rail);
	f = fopen(path, "r");
	CHECK(f && fscanf(f, "%llu", &value) == 1);
	fclose(f);
	CHECK(!ibv_query_port((rail ? &b : &a)->ctx, 1, &port));
	CHECK_EQ(port.bad_pkey_cntr, value);
	return value;
}

static void open_pair(enum ibv_qp_type type, uint16_t at_a, uint16_t at_b)
{
	static const struct rig_timers t = {.timeout = 4,
		.retry = RETRIES,
		.rnr_retry = 7,
		.min_rnr = 1,
		.set = true};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct rig_addr from, to;

	rig_open(&a, &(struct rig_attr){.type = type, .pkey_index = at_a});
	rig_open(&b, &(struct rig_attr){.rail = 1, .type = type, .pkey_index = at_b});
	from = rig_addr(&a);
	to = rig_addr(&b);
	if (type != IBV_QPT_UD) {
		rig_connect(&a, &to, t);
		rig_connect(&b, &from, t);
		return;
	}
	for (int i = 0; i < 2; i++) {
		attr.qp_state = IBV_QPS_RTR;
		CHECK(!ibv_modify_qp((i ? &a : &b)->qp, &attr, IBV_QP_STATE));
		attr.qp_state = IBV_QPS_RTS;
		CHECK(!ibv_modify_qp((i ? &a : &b)->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	}
}

static void close_pair(const char *says)
{
	rig_close(&a);
	rig_close(&b);
	said_verdict(strict ? says : NULL);
}

static enum ibv_wc_status send_datagram(void)
{
	struct ibv_ah_attr path = {.port_num = 1, .dlid = b.port.lid};
	struct ibv_sge sge = {(uintptr_t)a.buf, 8, a.mr->lkey};
	struct ibv_ah *ah = ibv_create_ah(a.pd, &path);
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = {.ah = ah, .remote_qpn = b.qp->qp_num, .remote_qkey = 0x1234}};
	enum ibv_wc_status status;

	CHECK(ah && !ibv_post_send(a.qp, &wr, &bad));
	status = rig_wait(a.scq).status;
	CHECK(!ibv_destroy_ah(ah));
	return status;
}

static enum ibv_wc_status send_one(enum ibv_wr_opcode op, uint32_t len)
{
	struct rig_addr to = rig_addr(&b);

	if (a.qp->qp_type == IBV_QPT_UD)
		return send_datagram();
	rig_post(&a, &(struct rig_wr){.op = op,
			     .flags = IBV_SEND_SIGNALED,
			     .len = len,
			     .raddr = to.addr,
			     .rkey = to.rkey});
	return rig_wait(a.scq).status;
}

static void reach(enum ibv_qp_type type, uint16_t at_a, uint16_t at_b)
{
	unsigned long long before;

	open_pair(type, at_a, at_b);
	before = dropped(1);
	rig_recv(&b, 0, 0, 64);
	CHECK_EQ(send_one(IBV_WR_SEND, 8), IBV_WC_SUCCESS);
	rig_wait_ok(b.rcq);
	CHECK_EQ(dropped(1), before);
	close_pair(NULL);
}

/* Nothing of a message of @packets packets arrives, and only RC is told of it, by its timers. */
static void miss(enum ibv_qp_type type, uint16_t at_a, uint16_t at_b, enum ibv_wr_opcode op,
	uint32_t len, uint32_t packets)
{
	bool rc = type == IBV_QPT_RC;
	unsigned long long before;
	char says[80];

	open_pair(type, at_a, at_b);
	before = dropped(1);
	rig_recv(&b, 0, 0, 64);
	CHECK_EQ(send_one(op, len), rc ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
	rig_idle(b.rcq);
	CHECK_EQ(dropped(1) - before, packets * (rc ? RETRIES + 1 : 1));
	CHECK_EQ(dropped(0), 0);
	snprintf(says, sizeof(says), "of QP 0x%06x, to which it sends, do not match", b.qp->qp_num);
	close_pair(says);
}

/* The result of a message from an end of each kind to each other. */
static void all_types(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

	for (size_t i = 0; i < 3; i++) {
		enum ibv_qp_type t = types[i];

		reach(t, 0, 0); /* full and limited */
		reach(t, 0, 1); /* both full */
		reach(t, 1, 1); /* limited and full */
		miss(t, 1, 0, IBV_WR_SEND, 8, 1); /* both limited */
		miss(t, 0, 2, IBV_WR_SEND, 8, 1); /* of two partitions */
		miss(t, 0, 3, IBV_WR_SEND, 8, 1);
	}
	miss(IBV_QPT_RC, 0, 2, IBV_WR_RDMA_WRITE, 2500, 3);
	miss(IBV_QPT_RC, 0, 2, IBV_WR_RDMA_READ, 2500, 1); /* the request */
	miss(IBV_QPT_RC, 0, 2, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1);
}

/* Both have number 0: the numbers are equal, but neither is in the partition. */
static void number_zero(void)
{
	struct rig_addr to;

	rig_open(&b, &(struct rig_attr){.rail = 1, .pkey_index = 3});
	to = rig_addr(&b);
	rig_connect(&b, &to,
		(struct rig_timers){.timeout = 4,
			.retry = RETRIES,
			.rnr_retry = 7,
			.min_rnr = 1,
			.set = true});
	rig_post(&b, &(struct rig_wr){.op = IBV_WR_RDMA_WRITE,
			     .flags = IBV_SEND_SIGNALED,
			     .len = 8,
			     .raddr = to.addr,
			     .rkey = to.rkey});
	CHECK_EQ(rig_wait(b.scq).status, IBV_WC_RETRY_EXC_ERR);
	rig_close(&b);
	said_verdict(strict ? "P_Key 0x8000 and 0x8000" : NULL);
}

static bool captured(const char *bytes, size_t len, uint16_t pkey, uint32_t dest_qpn)
{
	const uint8_t bth[] = {pkey >> 8, (uint8_t)pkey, 0, (uint8_t)(dest_qpn >> 16),
		(uint8_t)(dest_qpn >> 8), (uint8_t)dest_qpn};

	return memmem(bytes, len, bth, sizeof(bth));
}

/* Requests have the P_Key of their sender, answers that of the responder. */
static void packets_have_it(void)
{
	static char bytes[65536];
	char path[128];
	size_t n;
	FILE *f;

	open_pair(IBV_QPT_RC, 0, 0);
	snprintf(path, sizeof(path), "%s/packets", tmpdir);
	CHECK_EQ(send_one(IBV_WR_RDMA_WRITE, 8), IBV_WC_SUCCESS);
	f = fopen(path, "r");
	CHECK(f);
	n = fread(bytes, 1, sizeof(bytes), f);
	CHECK(n < sizeof(bytes));
	fclose(f);
	CHECK(captured(bytes, n, 0x8001, b.qp->qp_num));
	CHECK(captured(bytes, n, 0x0001, a.qp->qp_num));
	CHECK_EQ(send_one(IBV_WR_RDMA_READ, 8), IBV_WC_SUCCESS);
	f = fopen(path, "r");
	CHECK(f && fseek(f, (long)n, SEEK_SET) == 0);
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	CHECK(captured(bytes, n, 0x0001, a.qp->qp_num));
	close_pair(NULL);
}

/* The connection manager's ids are in the partition of their port's first P_Key. */
static void resolve(void)
{
	int channel = raw_open(0);
	uint32_t id = raw_id(channel, 1, RDMA_PS_TCP);

	CHECK_EQ(raw_bind(channel, id, "10.95.2.1", 0), 0);
	CHECK_EQ(raw_resolve(channel, id, "10.95.3.1", 1), 0);
	CHECK_EQ((int)raw_expect(channel, ADDR_ERROR, 1).status, -ETIMEDOUT);
	CHECK_EQ(raw_resolve(channel, id, "10.95.4.1", 1), 0);
	raw_expect(channel, ADDR_RESOLVED, 1);
	CHECK_EQ(close(channel), 0);
	said_verdict(NULL);
}

int main(int argc, char **argv)
{
	char path[128];

	strict = argc > 1 && !strcmp(argv[1], "strict");
	rig_fabric("partition");
	tmpdir_make();
	tmpdir_topology(topology);
	snprintf(path, sizeof(path), "%s/packets", tmpdir);
	CHECK(!setenv("SOFTHCA_CAPTURE", path, 1));
	CHECK(!setenv("SOFTHCA_STRICT", strict ? "1" : "0", 1));
	said_listen();
	packets_have_it();
	all_types();
	number_zero();
	resolve();
	return 0;
}
