/* SPDX-License-Identifier: MIT */
/*
 * Partitions: which messages arrive, and the counters, captures and lines on standard error for the
 * others.
 */
#include <errno.h>

#include "../cm/raw.h"
#include "../tmpdir.h"
#include "said.h"

#define RETRIES 2

static const char topology[] = "pkey=0x8001 pkey=0x0001\n"
			       "pkey=0x0001 pkey=0x8001 pkey=0x8002 pkey=0x8000\n"
			       "link=roce pkey=0x8001\n"
			       "link=roce pkey=0x8002\n"
			       "link=roce pkey=0x0001\n";

static struct rig a, b;
static bool strict;

static uint64_t dropped(unsigned rail)
{
	uint64_t value = rig_counter(rail, "counters/port_rcv_constraint_errors");
	struct ibv_port_attr port;

	CHECK(!ibv_query_port((rail ? &b : &a)->ctx, 1, &port));
	CHECK_EQ(port.bad_pkey_cntr, value);
	return value;
}

static const struct rig_timers timers = {.timeout = 4, .retry = RETRIES};

static void open_pair(enum ibv_qp_type type, uint16_t at_a, uint16_t at_b)
{
	rig_open(&a, &(struct rig_attr){.type = type, .pkey_index = at_a});
	rig_open(&b, &(struct rig_attr){.rail = 1, .type = type, .pkey_index = at_b});
	if (type != IBV_QPT_UD) {
		rig_connect(&a, rig_addr(&b), timers);
		rig_connect(&b, rig_addr(&a), timers);
	} else {
		rig_datagrams(&a);
		rig_datagrams(&b);
	}
}

static void close_pair(const char *says)
{
	rig_close_pair(&a, &b);
	said_verdict(strict ? says : NULL);
}

static enum ibv_wc_status send_one(enum ibv_wr_opcode op, uint32_t len)
{
	if (a.qp->qp_type == IBV_QPT_UD)
		return rig_datagram(&a, &b, 8);
	rig_request(&a, op, len, rig_addr(&b));
	return rig_wait(a.scq).status;
}

static void reach(enum ibv_qp_type type, uint16_t at_a, uint16_t at_b)
{
	uint64_t before;

	open_pair(type, at_a, at_b);
	before = dropped(1);
	rig_recv(&b, 0, 0, 64);
	CHECK_EQ(send_one(IBV_WR_SEND, 8), IBV_WC_SUCCESS);
	rig_wait_ok(b.rcq);
	CHECK_EQ(dropped(1), before);
	close_pair(NULL);
}

/*
 * Checks that none of the @packets packets of a message arrives. Only an RC sender notices that, by
 * its timers.
 */
static void miss(enum ibv_qp_type type, uint16_t at_a, uint16_t at_b, enum ibv_wr_opcode op,
	uint32_t len, uint32_t packets)
{
	bool rc = type == IBV_QPT_RC;
	uint64_t before;
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

/* Two QPs reach each other if their P_Keys match, and otherwise do not. */
TEST(all_types)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

	for (size_t i = 0; i < 3; i++) {
		enum ibv_qp_type t = types[i];

		reach(t, 0, 0); /* full and limited */
		reach(t, 0, 1); /* both full */
		reach(t, 1, 1); /* limited and full */
		miss(t, 1, 0, IBV_WR_SEND, 8, 1); /* both limited */
		miss(t, 0, 2, IBV_WR_SEND, 8, 1); /* different partitions */
		miss(t, 0, 3, IBV_WR_SEND, 8, 1);
	}
	miss(IBV_QPT_RC, 0, 2, IBV_WR_RDMA_WRITE, 2500, 3);
	miss(IBV_QPT_RC, 0, 2, IBV_WR_RDMA_READ, 2500, 1); /* the request */
	miss(IBV_QPT_RC, 0, 2, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1);
}

/* A QP is connected to itself. Its P_Key has the number 0, which is not valid. */
TEST(number_zero)
{
	rig_open(&b, &(struct rig_attr){.rail = 1, .pkey_index = 3});
	rig_connect(&b, rig_addr(&b), timers);
	rig_write(&b, &b, 8);
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
TEST(packets_have_it)
{
	static char bytes[65536];
	char path[128];
	size_t n;
	FILE *f;

	open_pair(IBV_QPT_RC, 0, 0);
	snprintf(path, sizeof(path), "%s/packets", tmpdir);
	f = fopen(path, "r");
	CHECK(f && !fseek(f, 0, SEEK_END));
	CHECK_EQ(send_one(IBV_WR_RDMA_WRITE, 8), IBV_WC_SUCCESS);
	n = fread(bytes, 1, sizeof(bytes), f);
	CHECK(n < sizeof(bytes));
	CHECK(captured(bytes, n, 0x8001, b.qp->qp_num));
	CHECK(captured(bytes, n, 0x0001, a.qp->qp_num));
	CHECK_EQ(send_one(IBV_WR_RDMA_READ, 8), IBV_WC_SUCCESS);
	clearerr(f);
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	CHECK(captured(bytes, n, 0x0001, a.qp->qp_num));
	close_pair(NULL);
}

/* The connection manager's ids are in the partition of their port's first P_Key. */
TEST(resolve)
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

/* The first argument may be strict. The other arguments name cases. */
int main(int argc, char **argv)
{
	char path[128];

	strict = argc > 1 && !strcmp(argv[1], "strict");
	test_fabric("partition");
	tmpdir_topology("%s", topology);
	snprintf(path, sizeof(path), "%s/packets", tmpdir);
	CHECK(!setenv("SOFTHCA_CAPTURE", path, 1));
	CHECK(!setenv("SOFTHCA_STRICT", strict ? "1" : "0", 1));
	said_listen();
	return test_main(argc - strict, argv + strict);
}
