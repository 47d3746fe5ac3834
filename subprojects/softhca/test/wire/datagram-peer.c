/* SPDX-License-Identifier: MIT */
/*
 * datagram-peer GID [HOST]: a server, or with HOST its client. GID is the index of this side's GID.
 * The client sends datagrams of several lengths. The server checks the IP header in front of each
 * payload, as it was in the packet, and replies to the sender that the header and the completion
 * name.
 */
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "grh.h"
#include "meet.h"

#define PORT "4444"
#define QKEY 0x1234
#define LONGEST 1024
#define OTHERS (12 + 8 + 4 + 8) /* BTH, DETH, ICRC, UDP header */

static const uint32_t lengths[] = {0, 1, 4, 1023, LONGEST};

struct address {
	union ibv_gid gid;
	uint32_t qpn;
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint8_t memory[2][GRH + LONGEST]; /* to receive, to send */
static struct address own, theirs;
static int fd;

static void set_up(int gid)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	ctx = ibv_open_device(list[0]);
	CHECK(ctx);
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	CHECK(pd && cq && mr);
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	CHECK(!ibv_query_gid(ctx, 1, gid, &own.gid));
	own.qpn = qp->qp_num;
}

static struct ibv_wc completion(void)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		sched_yield();
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	return wc;
}

/* Posts a receive, and waits until the other end has posted one, too. */
static void post_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)memory[0], sizeof(memory[0]), mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	char byte = 0;

	memset(memory[0], 0xee, sizeof(memory[0]));
	CHECK(!ibv_post_recv(qp, &wr, &bad));
	meet_exchange(fd, &byte, &byte, 1);
}

static void send_to(struct ibv_ah *ah, uint32_t qpn, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)memory[1], len, mr->lkey};
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY}};

	CHECK(ah);
	for (uint32_t i = 0; i < len; i++)
		memory[1][i] = (uint8_t)(i * 7 + len);
	CHECK(!ibv_post_send(qp, &wr, &bad));
	CHECK_EQ(completion().opcode, IBV_WC_SEND);
	CHECK(!ibv_destroy_ah(ah));
}

static struct ibv_wc receive(uint32_t len)
{
	struct ibv_wc wc = completion();

	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, GRH + len);
	CHECK_EQ(wc.src_qp, theirs.qpn);
	CHECK(wc.wc_flags & IBV_WC_GRH);
	for (uint32_t i = 0; i < len; i++)
		CHECK_EQ(memory[0][GRH + i], (uint8_t)(i * 7 + len));
	return wc;
}

static void serve(uint32_t len)
{
	static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
	const struct grh_want want = {.hops = 64,
		.next = IPPROTO_UDP,
		.payload = OTHERS + ((len + 3) & ~3u),
		.from = theirs.gid,
		.to = own.gid};
	struct ibv_wc wc;

	post_receive();
	wc = receive(len);
	if (memcmp(own.gid.raw, ipv4, sizeof(ipv4)))
		grh_is_ipv6(memory[0], &want);
	else
		grh_is_ipv4(memory[0], &want);
	send_to(ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)memory[0], 1), wc.src_qp, len);
}

static void ask(uint32_t len, int gid)
{
	struct ibv_ah_attr attr = {.port_num = 1,
		.is_global = 1,
		.grh = {.dgid = theirs.gid, .sgid_index = (uint8_t)gid, .hop_limit = 64}};

	post_receive();
	send_to(ibv_create_ah(pd, &attr), theirs.qpn, len);
	receive(len);
}

int main(int argc, char **argv)
{
	alarm(600);
	CHECK(argc == 2 || argc == 3);
	set_up(atoi(argv[1]));
	fd = meet_at(argv[2], PORT);
	meet_exchange(fd, &own, &theirs, sizeof(own));
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		if (argv[2])
			ask(lengths[i], atoi(argv[1]));
		else
			serve(lengths[i]);
	}
	printf("all is right\n");
	return 0;
}
