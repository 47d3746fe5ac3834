/* SPDX-License-Identifier: MIT */
/*
 * Strict mode finds what the kernel or an adapter would refuse: each check has one planted mistake.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <signal.h>

#include "said.h"

#define NOWHERE 0x4000 /* a LID that no adapter has */
#define MORE 3u /* QPs beside a's; two share a page */

static struct rig a, b;

/* The attributes of an end. The defaults of both ends fit. */
struct end {
	uint32_t rq_psn, sq_psn;
	enum ibv_mtu mtu; /* 0: 1024 */
	uint8_t rd, dest_rd; /* added to 1 */
	uint16_t dlid; /* 0: the peer's */
	int more; /* attributes that the transition does not permit */
};

static int to_rtr(struct rig *r, const struct rig *to, const struct end *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = e->mtu ? e->mtu : IBV_MTU_1024,
		.dest_qp_num = to->qp->qp_num,
		.rq_psn = e->rq_psn,
		.max_dest_rd_atomic = (uint8_t)(1 + e->dest_rd),
		.min_rnr_timer = 1,
		.ah_attr = {.dlid = e->dlid ? e->dlid : to->port.lid, .port_num = 1},
	};

	return ibv_modify_qp(r->qp, &attr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | e->more);
}

static void to_rts(struct rig *r, const struct end *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = e->sq_psn,
		.timeout = 10,
		.retry_cnt = 3,
		.rnr_retry = 7,
		.max_rd_atomic = (uint8_t)(1 + e->rd),
	};

	CHECK(!ibv_modify_qp(r->qp, &attr,
		IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void open_pair(const struct end *ea, const struct end *eb)
{
	rig_open(&a, &(struct rig_attr){0});
	rig_open(&b, &(struct rig_attr){.srq = true});
	CHECK(!to_rtr(&a, &b, ea));
	CHECK(!to_rtr(&b, &a, eb));
	to_rts(&a, ea);
	to_rts(&b, eb);
}

static void verdict(const char *what)
{
	rig_close(&a);
	rig_close(&b);
	said_verdict(what);
}

static enum ibv_wc_status write_from(uint32_t lkey, uint64_t from, uint64_t to, uint32_t rkey)
{
	struct ibv_sge sge = {from, 8, lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_RDMA_WRITE,
				   .send_flags = IBV_SEND_SIGNALED,
				   .wr.rdma = {.remote_addr = to, .rkey = rkey}},
			   *bad;

	CHECK(!ibv_post_send(a.qp, &wr, &bad));
	return rig_wait(a.scq).status;
}

static enum ibv_wc_status write_one(void)
{
	return write_from(a.mr->lkey, (uintptr_t)a.buf, (uintptr_t)b.buf, b.mr->rkey);
}

static void ends(struct end ea, struct end eb, enum ibv_wc_status status, const char *what)
{
	open_pair(&ea, &eb);
	CHECK_EQ(write_one(), status);
	verdict(what);
}

static void connections(void)
{
	ends((struct end){.sq_psn = 7, .rq_psn = 9, .rd = 3},
		(struct end){.sq_psn = 9, .rq_psn = 7, .dest_rd = 3}, IBV_WC_SUCCESS, NULL);
	ends((struct end){.sq_psn = 7}, (struct end){0}, IBV_WC_RETRY_EXC_ERR,
		"it sends from PSN 0x000007, but QP 0x");
	ends((struct end){0}, (struct end){.mtu = IBV_MTU_512}, IBV_WC_REM_INV_REQ_ERR,
		"its path MTU is 1024, that of QP 0x");
	ends((struct end){.rd = 1}, (struct end){0}, IBV_WC_REM_INV_REQ_ERR,
		"max_rd_atomic 2 exceeds the max_dest_rd_atomic 1 of QP 0x");
	ends((struct end){0}, (struct end){.dlid = NOWHERE}, IBV_WC_RETRY_EXC_ERR,
		"to which it sends, does not lead back to it");
}

static void refused_attributes(void)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	rig_open(&a, &(struct rig_attr){0});
	rig_open(&b, &(struct rig_attr){0});
	CHECK_EQ(to_rtr(&a, &b, &(struct end){.more = IBV_QP_TIMEOUT}), EINVAL);
	verdict("attributes 0x0 are missing, 0x200 are not allowed");

	rig_open(&a, &(struct rig_attr){0});
	rig_open(&b, &(struct rig_attr){0});
	CHECK_EQ(ibv_modify_qp(a.qp, &reset, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
	verdict("0x20 are not allowed");

	rig_open(&a, &(struct rig_attr){0});
	rig_open(&b, &(struct rig_attr){0});
	CHECK_EQ(to_rtr(&a, &b, &(struct end){.more = IBV_QP_PKEY_INDEX}), 0);
	verdict(NULL);

	rig_open(&a, &(struct rig_attr){0});
	rig_open(&b, &(struct rig_attr){0});
	CHECK_EQ(to_rtr(&a, &b, &(struct end){.mtu = IBV_MTU_4096}), EINVAL);
	verdict("path MTU 4096 exceeds the port's active MTU 2048");
}

static struct mlx5dv_qp dv_of(struct ibv_qp *qp)
{
	struct mlx5dv_qp dv;
	struct mlx5dv_obj obj = {.qp = {.in = qp, .out = &dv}};

	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP));
	return dv;
}

/* A NOP at block @index of a's queue, announced. */
static const uint8_t *nop(const struct mlx5dv_qp *dv, uint16_t index)
{
	uint8_t *w = (uint8_t *)dv->sq.buf + index * 64;
	uint32_t words[2] = {htobe32((uint32_t)index << 8), htobe32(a.qp->qp_num << 8 | 1)};

	memset(w, 0, 64);
	memcpy(w, words, sizeof(words));
	w[11] = 8;
	__atomic_store_n((uint32_t *)&dv->dbrec[MLX5_SND_DBR], htobe32(index + 1u),
		__ATOMIC_RELEASE);
	return w;
}

static void foreign_register(void)
{
	struct mlx5dv_qp dv, other_dv;
	struct ibv_qp *others[MORE];
	uint32_t n = 0;
	uint64_t v;

	open_pair(&(struct end){0}, &(struct end){0});
	dv = dv_of(a.qp);
	do { /* until there is one on another page */
		CHECK(n < MORE);
		others[n] =
			ibv_create_qp(a.pd, &(struct ibv_qp_init_attr){.send_cq = a.scq,
						    .recv_cq = a.rcq,
						    .cap = {.max_send_wr = 1, .max_send_sge = 1},
						    .qp_type = IBV_QPT_RC});
		CHECK(others[n]);
		other_dv = dv_of(others[n++]);
	} while ((uintptr_t)other_dv.bf.reg / 4096 == (uintptr_t)dv.bf.reg / 4096);
	memcpy(&v, nop(&dv, 0), sizeof(v));
	__atomic_store_n((uint64_t *)other_dv.bf.reg, v, __ATOMIC_RELEASE);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_WR_FLUSH_ERR);
	while (n)
		CHECK(!ibv_destroy_qp(others[--n]));
	verdict(", which is not its own");
}

/* Makes two copies; @half selects the half of the register for the second one. */
static void halves(uint32_t half, const char *what)
{
	struct mlx5dv_qp dv;

	open_pair(&(struct end){0}, &(struct end){0});
	dv = dv_of(a.qp);
	for (uint16_t n = 0; n < 2; n++) {
		const uint8_t *w = nop(&dv, n);
		uint64_t *to =
			(uint64_t *)(void *)((char *)dv.bf.reg + (n ? half * dv.bf.size : 0));

		for (uint32_t i = 0; i < 8; i++) {
			uint64_t v;

			memcpy(&v, w + i * 8ul, sizeof(v));
			__atomic_store_n(to + i, v, __ATOMIC_RELAXED);
		}
		rig_wait_ok(a.scq);
	}
	verdict(what);
}

static void locked_memory(void)
{
	uint8_t *p = aligned_alloc(4096, 1 << 20);

	CHECK(p);
	open_pair(&(struct end){0}, &(struct end){0});
	CHECK(!ibv_reg_mr(a.pd, p, 1 << 20, IBV_ACCESS_LOCAL_WRITE));
	CHECK_EQ(errno, ENOMEM);
	verdict("1152 KiB of locked memory with this region of 1048576 bytes; the limit (ulimit -l) "
		"is 1024 KiB");
	free(p);
}

/* Unmaps the memory of a region. @remote: the receiver's. */
static void unmapped(bool remote)
{
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	CHECK(p != MAP_FAILED);
	open_pair(&(struct end){0}, &(struct end){0});
	mr = ibv_reg_mr(remote ? b.pd : a.pd, p, 4096,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	CHECK(!munmap(p, 4096));
	if (remote)
		CHECK_EQ(write_from(a.mr->lkey, (uintptr_t)a.buf, (uintptr_t)p, mr->rkey),
			IBV_WC_REM_OP_ERR);
	else
		CHECK_EQ(write_from(mr->lkey, (uintptr_t)p, (uintptr_t)b.buf, b.mr->rkey),
			IBV_WC_LOC_PROT_ERR);
	CHECK(!ibv_dereg_mr(mr));
	verdict("memory was unmapped while registered");
}

static void too_many_receives(void)
{
	struct mlx5dv_srq dv;
	struct mlx5dv_obj obj = {.srq = {.out = &dv}};

	open_pair(&(struct end){0}, &(struct end){0});
	obj.srq.in = b.srq;
	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ));
	rig_recv(&b, 0, 0, 8);
	__atomic_store_n((uint32_t *)dv.dbrec, htobe32(20000), __ATOMIC_RELEASE);
	rig_post(&a, &(struct rig_wr){.op = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .len = 8});
	rig_wait_ok(a.scq);
	verdict(": 20000 receives are posted, of ");
}

static void open_events(void)
{
	rig_open(&a, &(struct rig_attr){.events = true});
	rig_open(&b, &(struct rig_attr){0});
	CHECK(!to_rtr(&a, &b, &(struct end){0}));
	CHECK(!to_rtr(&b, &a, &(struct end){0}));
	to_rts(&a, &(struct end){0});
	to_rts(&b, &(struct end){0});
}

static void arming(void)
{
	struct mlx5dv_cq dv;
	struct mlx5dv_obj obj = {.cq = {.out = &dv}};
	struct ibv_cq *cq;
	uint64_t event;
	void *arg;

	open_events(); /* as it should be */
	for (int i = 0; i < 3; i++) {
		CHECK(!ibv_req_notify_cq(a.scq, 0));
		CHECK_EQ(write_one(), IBV_WC_SUCCESS);
		CHECK(!ibv_get_cq_event(a.channel, &cq, &arg));
		ibv_ack_cq_events(cq, 1);
	}
	verdict(NULL);

	open_events(); /* the event is still to be read */
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_req_notify_cq(a.scq, 0));
		CHECK_EQ(write_one(), IBV_WC_SUCCESS);
	}
	verdict(NULL);

	open_events(); /* the event is read, and the provider is not told */
	CHECK(!ibv_req_notify_cq(a.scq, 0));
	CHECK_EQ(write_one(), IBV_WC_SUCCESS);
	CHECK_EQ(read(a.channel->fd, &event, sizeof(event)), (ssize_t)sizeof(event));
	CHECK(!ibv_req_notify_cq(a.scq, 0));
	ibv_ack_cq_events(a.scq, 1);
	verdict("armed with sequence number 0, whose event has been read");

	open_events(); /* the record is behind what is polled */
	obj.cq.in = a.scq;
	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ));
	CHECK_EQ(write_one(), IBV_WC_SUCCESS);
	__atomic_store_n(&dv.dbrec[0], 0, __ATOMIC_RELEASE);
	CHECK(!ibv_req_notify_cq(a.scq, 0));
	verdict("armed with consumer index 0x1, but its doorbell record says 0x0");
}

static void abort_at_once(void)
{
	open_pair(&(struct end){.sq_psn = 7}, &(struct end){0});
	write_one();
	exit(0);
}

/* An adapter whose MTU is not the largest. */
static const char *topology(void)
{
	static char path[64];
	int fd = memfd_create("topology", 0);

	CHECK(fd >= 0 && write(fd, "mtu=2048\n", 9) == 9);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	return path;
}

int main(void)
{
	rig_fabric("strict-ends");
	CHECK(!setenv("SOFTHCA_STRICT", "abort", 1));
	CHECK(!setenv("SOFTHCA_BF", "1", 1));
	CHECK(!setenv("SOFTHCA_MEMLOCK", "1048576", 1));
	CHECK(!setenv("SOFTHCA_TOPOLOGY", topology(), 1));
	CHECK(!unsetenv("SOFTHCA_MODE"));
	CHECK_EQ(rig_child(abort_at_once, "it sends from PSN"), 128 + SIGABRT);
	CHECK(!setenv("SOFTHCA_STRICT", "1", 1));
	open_events();
	rig_close(&a);
	rig_close(&b);
	said_listen();
	connections();
	refused_attributes();
	foreign_register();
	halves(1, NULL);
	halves(0, "BlueFlame copy into the half of its register that was used last");
	locked_memory();
	unmapped(false);
	unmapped(true);
	too_many_receives();
	arming();
	return 0;
}
