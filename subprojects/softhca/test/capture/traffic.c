/* SPDX-License-Identifier: MIT */
/*
 * Sends messages of every kind between two adapters, and prints what the HCA has recorded of them:
 * "counts MESSAGES BYTES RNR-NAKS", and for each work request "wqe TRANSPORT QPN OPCODE LENGTH
 * SYNDROME".
 *
 * traffic: all kinds. traffic write: one WRITE, with success or not. traffic kill: children, one
 * after the other, send numbers to this process until they are killed; prints "got NUMBER" for each
 * number that has arrived.
 */
#include <arpa/inet.h>
#include <signal.h>

#include "rig.h"

#define HALF (RIG_BUF / 2)
#define ROUNDS 10
#define PER_ROUND 100

static struct rig a, b;

static void dump(const char *transport)
{
	static struct softhca_wqe_record records[SOFTHCA_TRACE_DEPTH];
	int n = softhca_trace_wqes(a.qp->qp_num, 0, records, SOFTHCA_TRACE_DEPTH);

	CHECK(n > 0);
	for (int i = 0; i < n; i++)
		printf("wqe %s %u %u %u %u\n", transport, a.qp->qp_num, records[i].opcode,
			records[i].length, records[i].syndrome);
}

static void post(enum ibv_wr_opcode op, uint32_t len, uint32_t rkey)
{
	bool atomic = op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP;

	rig_post(&a, &(struct rig_wr){.op = op,
			     .offset = atomic ? RIG_BUF - 8 : 0,
			     .flags = IBV_SEND_SIGNALED | (len & 1 ? IBV_SEND_SOLICITED : 0),
			     .imm = len,
			     .len = len,
			     .raddr = (uintptr_t)b.buf + HALF,
			     .rkey = rkey,
			     .compare_add = len,
			     .swap = 7});
}

static void one(enum ibv_wr_opcode op, uint32_t len)
{
	bool takes =
		op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (takes)
		rig_recv(&b, 1, 0, HALF);
	post(op, len, b.mr->rkey);
	rig_wait_ok(a.scq);
	if (takes)
		rig_wait_ok(b.rcq);
}

static void every_length(enum ibv_wr_opcode op)
{
	static const uint32_t lengths[] = {0, 1, 2, 3, 4, 64, 1023, 1024, 1025, 4096, 10000, 32768};

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
		one(op, lengths[i]);
}

static void open_pair(enum ibv_qp_type type)
{
	rig_open_pair(&a, &(struct rig_attr){.type = type}, &b,
		&(struct rig_attr){.type = type, .rail = 1});
	rig_fill(a.buf, RIG_BUF, 1);
}

static void close_pair(const char *transport)
{
	dump(transport);
	rig_close_pair(&a, &b);
}

static void reliable(void)
{
	struct ibv_wc wc;

	open_pair(IBV_QPT_RC);
	every_length(IBV_WR_SEND);
	every_length(IBV_WR_SEND_WITH_IMM);
	every_length(IBV_WR_RDMA_WRITE);
	every_length(IBV_WR_RDMA_WRITE_WITH_IMM);
	every_length(IBV_WR_RDMA_READ);
	one(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	one(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
	post(IBV_WR_SEND, 5, 0); /* finds no receive, is repeated */
	while (ibv_poll_cq(a.scq, 1, &wc))
		CHECK(0);
	rig_recv(&b, 1, 0, 64);
	rig_wait_ok(a.scq);
	rig_wait_ok(b.rcq);
	post(IBV_WR_RDMA_WRITE, 3000, b.mr->rkey + 1); /* refused */
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_REM_ACCESS_ERR);
	close_pair("rc");
}

static void unreliable(void)
{
	open_pair(IBV_QPT_UC);
	every_length(IBV_WR_SEND);
	every_length(IBV_WR_RDMA_WRITE);
	every_length(IBV_WR_RDMA_WRITE_WITH_IMM);
	close_pair("uc");
}

static void all(void)
{
	struct softhca_counters c;
	unsigned long long messages = 0, bytes = 0;

	reliable();
	unreliable();
	c = rig_counters();
	for (int i = 0; i < SOFTHCA_OPCODES; i++) {
		messages += c.wqes[i];
		bytes += c.bytes[i];
	}
	printf("counts %llu %llu %llu\n", messages, bytes, (unsigned long long)c.rnr_naks);
}

static void one_write(void)
{
	open_pair(IBV_QPT_RC);
	post(IBV_WR_RDMA_WRITE, 3000, b.mr->rkey);
	printf("status %d\n", rig_wait(a.scq).status);
	close_pair("rc");
}

static uint32_t next = 1; /* the number that a new sender begins with */

/* Sends numbers until it is killed. */
static void send_numbers(int fd)
{
	struct rig_addr peer;

	rig_open(&a, NULL);
	peer = rig_meet(&a, fd, NULL, (struct rig_timers){0});
	for (;; next++) {
		rig_write_imm(&a, htonl(next), 0, 5000, peer);
		rig_wait_ok(a.scq);
	}
}

static void receive_some(uint32_t n)
{
	while (n--) {
		CHECK_EQ(ntohl(rig_wait_ok(b.rcq).imm_data), next);
		printf("got %u\n", next++);
		rig_recv(&b, 1, 0, 0);
	}
}

/* Receives the messages that had arrived before the sender died. */
static void receive_rest(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(b.rcq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS)
		printf("got %u\n", next++);
}

static void kill_one(void)
{
	pid_t pid;
	int fd;

	fflush(stdout);
	pid = test_peer(send_numbers, &fd);
	rig_open(&b, &(struct rig_attr){.rail = 1});
	for (int i = 0; i < 32; i++)
		rig_recv(&b, 1, 0, 0);
	rig_meet(&b, fd, NULL, (struct rig_timers){0});
	receive_some(PER_ROUND);
	test_kill(pid);
	receive_rest();
	rig_close(&b);
	close(fd);
}

int main(int argc, char **argv)
{
	alarm(600);
	if (argc < 2)
		all();
	else if (!strcmp(argv[1], "write"))
		one_write();
	else
		for (int i = 0; i < ROUNDS; i++)
			kill_one();
	return 0;
}
