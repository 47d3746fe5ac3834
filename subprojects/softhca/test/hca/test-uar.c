/* SPDX-License-Identifier: MIT */
/*
 * Doorbell pages: objects that the provider allocates, as from a current kernel, and the fixed set
 * of a legacy context. Each case is a process of its own, because a process has one scheme.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5_api.h>
#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#include "said.h"

#define QPS 24u /* more than there are registers in a legacy set */
#define PAGE 4096ull

static struct rig a, b;
static bool legacy;

static uint64_t page_of(const void *reg)
{
	return (uintptr_t)reg / PAGE;
}

static struct mlx5dv_qp dv_of(struct ibv_qp *qp)
{
	struct mlx5dv_qp dv;
	struct mlx5dv_obj obj = {.qp = {.in = qp, .out = &dv}};

	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP));
	return dv;
}

static struct ibv_qp *make_qp(struct ibv_pd *pd)
{
	struct ibv_qp *qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = a.scq,
						      .recv_cq = a.rcq,
						      .cap = {.max_send_wr = 8,
							      .max_recv_wr = 8,
							      .max_send_sge = 1,
							      .max_recv_sge = 1,
							      .max_inline_data = 64},
						      .qp_type = IBV_QPT_RC});

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp,
		&(struct ibv_qp_attr){.qp_state = IBV_QPS_INIT,
			.port_num = 1,
			.qp_access_flags = IBV_ACCESS_REMOTE_WRITE},
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return qp;
}

/* @qp takes the place of a's own while it is connected with b, and writes 8 bytes to it. */
static void write_by(struct ibv_qp *qp, uint8_t byte)
{
	struct ibv_qp *own = a.qp;
	struct rig_addr to;

	rig_open(&b, &(struct rig_attr){0});
	a.qp = qp;
	rig_connect_pair(&a, &b);
	to = rig_addr(&b);
	memset(a.buf, byte, 8);
	rig_post(&a, &(struct rig_wr){.op = IBV_WR_RDMA_WRITE,
			     .flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
			     .len = 8,
			     .raddr = to.addr,
			     .rkey = to.rkey});
	rig_wait_ok(a.scq);
	CHECK(b.buf[0] == byte && b.buf[7] == byte);
	a.qp = own;
	rig_close(&b);
}

static void many_qps(void)
{
	struct ibv_qp *qps[QPS];

	rig_open(&a, &(struct rig_attr){0});
	for (uint32_t i = 0; i < QPS; i++)
		qps[i] = make_qp(a.pd);
	for (uint32_t i = 0; i < QPS; i++)
		write_by(qps[i], (uint8_t)(i + 1));
	for (uint32_t i = 0; i < QPS; i++)
		CHECK(!ibv_destroy_qp(qps[i]));
	rig_close(&a);
	said_verdict(NULL);
}

static struct ibv_pd *domain_of(struct ibv_td *td)
{
	struct ibv_pd *pd = ibv_alloc_parent_domain(a.ctx,
		&(struct ibv_parent_domain_init_attr){.pd = a.pd, .td = td});

	CHECK(pd);
	return pd;
}

/* A QP of a thread domain has a page that no other QP has. */
static void thread_domains(void)
{
	struct ibv_td *td[3];
	struct ibv_pd *pd[3];
	struct ibv_qp *qp[3];
	void *reg[3];

	rig_open(&a, &(struct rig_attr){0});
	for (int i = 0; i < 3; i++) {
		td[i] = ibv_alloc_td(a.ctx, &(struct ibv_td_init_attr){0});
		CHECK(td[i]);
		pd[i] = domain_of(td[i]);
		qp[i] = make_qp(pd[i]);
		reg[i] = dv_of(qp[i]).bf.reg;
		CHECK(page_of(reg[i]) != page_of(dv_of(a.qp).bf.reg));
	}
	CHECK(page_of(reg[2]) != page_of(reg[0])); /* two registers are on a page */
	for (int i = 0; i < 3; i++)
		write_by(qp[i], (uint8_t)(0x40 + i));
	for (int i = 0; i < 3; i++) {
		CHECK(!ibv_destroy_qp(qp[i]));
		CHECK(!ibv_dealloc_pd(pd[i]));
		CHECK(!ibv_dealloc_td(td[i]));
	}
	rig_close(&a);
	said_verdict(NULL);
}

/* Contexts come and go; their pages may be at the same addresses. */
static void reopened(void)
{
	for (int i = 0; i < 20; i++) {
		rig_open(&a, &(struct rig_attr){0});
		write_by(a.qp, (uint8_t)(i + 1));
		rig_close(&a);
	}
	said_verdict(NULL);
}

union request {
	struct ib_uverbs_ioctl_hdr h;
	char bytes[sizeof(struct ib_uverbs_ioctl_hdr) + 8 * sizeof(struct ib_uverbs_attr)];
};

static void add(union request *q, uint16_t id, uint16_t len, uint64_t data)
{
	q->h.attrs[q->h.num_attrs++] =
		(struct ib_uverbs_attr){.attr_id = id, .len = len, .data = data};
}

static int execute(union request *q, uint16_t object, uint16_t method)
{
	q->h.length = (uint16_t)(sizeof(q->h) + q->h.num_attrs * sizeof(q->h.attrs[0]));
	q->h.object_id = object;
	q->h.method_id = method;
	return ioctl(a.ctx->cmd_fd, RDMA_VERBS_IOCTL, q) ? -errno : 0;
}

/* Allocates a page of @type. @handle_p: its handle. */
static int alloc_page(uint64_t type, uint64_t *handle_p)
{
	union request q = {0};
	uint64_t offset = 0;
	uint32_t length = 0, id = 0;
	int r;

	add(&q, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, 0, 0);
	add(&q, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, 8, type);
	add(&q, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, 8, (uintptr_t)&offset);
	add(&q, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, 4, (uintptr_t)&length);
	add(&q, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, 4, (uintptr_t)&id);
	r = execute(&q, MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC);
	CHECK_EQ(length, r ? 0 : PAGE);
	*handle_p = q.h.attrs[0].data;
	return r;
}

static int destroy_page(uint64_t handle)
{
	union request q = {0};

	add(&q, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, 0, handle);
	return execute(&q, MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY);
}

static void objects(void)
{
	union request none = {0}, wrong = {0};
	uint64_t handles[300], h;
	uint32_t n = 0;

	rig_open(&a, &(struct rig_attr){0});
	CHECK_EQ(alloc_page(2, &h), -EOPNOTSUPP);
	CHECK_EQ(execute(&none, MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC), -EINVAL);
	CHECK_EQ(execute(&none, MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY), -EINVAL);
	CHECK_EQ(execute(&none, MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY + 1),
		-EPROTONOSUPPORT);
	add(&wrong, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, 8, 0);
	CHECK_EQ(execute(&wrong, MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY), -EINVAL);
	CHECK_EQ(destroy_page(255), -ENOENT);
	CHECK_EQ(destroy_page(256), -ENOENT);
	CHECK_EQ(destroy_page(UINT64_MAX), -ENOENT);
	while (n < 300 && !alloc_page(n & 1, &handles[n]))
		n++;
	CHECK(n >= 250 && n < 256); /* the provider has some */
	CHECK_EQ(alloc_page(0, &h), -ENOMEM);
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(destroy_page(handles[i]), 0);
	CHECK_EQ(destroy_page(handles[0]), -ENOENT);
	CHECK_EQ(alloc_page(0, &h), 0);
	write_by(a.qp, 9);
	rig_close(&a);
	said_verdict(NULL);
}

/* Creates a QP by a command of the test, so that a provider cannot correct the command. */
static int create_qp(uint32_t flags, uint32_t page_id)
{
	struct ib_uverbs_create_qp in = {
		.pd_handle = a.pd->handle,
		.send_cq_handle = a.scq->handle,
		.recv_cq_handle = a.rcq->handle,
		.qp_type = IB_UVERBS_QPT_RC,
	};
	struct mlx5_ib_create_qp drv = {.sq_wqe_count = 4, .flags = flags, .bfreg_index = page_id};
	struct ib_uverbs_create_qp_resp out;
	struct ib_uverbs_destroy_qp end = {0};
	struct ib_uverbs_destroy_qp_resp ended;
	union request q = {0}, d = {0};
	int r;

	add(&q, UVERBS_ATTR_CORE_IN, sizeof(in), (uintptr_t)&in);
	add(&q, UVERBS_ATTR_CORE_OUT, sizeof(out), (uintptr_t)&out);
	add(&q, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_CREATE_QP);
	add(&q, UVERBS_ATTR_UHW_IN, sizeof(drv), (uintptr_t)&drv);
	r = execute(&q, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	if (r)
		return r;
	end.qp_handle = out.qp_handle;
	add(&d, UVERBS_ATTR_CORE_IN, sizeof(end), (uintptr_t)&end);
	add(&d, UVERBS_ATTR_CORE_OUT, sizeof(ended), (uintptr_t)&ended);
	add(&d, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_DESTROY_QP);
	CHECK_EQ(execute(&d, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE), 0);
	return 0;
}

static int create_cq(uint16_t page_id)
{
	struct ib_uverbs_create_cq in = {.cqe = 15, .comp_channel = -1};
	struct mlx5_ib_create_cq drv = {.cqe_size = 64,
		.flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX,
		.uar_page_index = page_id};
	union request q = {0};

	add(&q, UVERBS_ATTR_CORE_IN, sizeof(in), (uintptr_t)&in);
	add(&q, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_CREATE_CQ);
	add(&q, UVERBS_ATTR_UHW_IN, sizeof(drv), (uintptr_t)&drv);
	return execute(&q, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
}

/* A QP or CQ is created with a page that its context does not have. */
static void wrong_pages(void)
{
	struct mlx5dv_devx_uar *uar;
	uint64_t h;
	uint32_t id;

	rig_open(&a, &(struct rig_attr){0});
	if (legacy) {
		CHECK_EQ(alloc_page(0, &h), -EPROTONOSUPPORT);
		CHECK_EQ(destroy_page(0), -EPROTONOSUPPORT);
		CHECK_EQ(create_qp(0, 0), 0);
		CHECK_EQ(create_qp(MLX5_QP_FLAG_BFREG_INDEX, 31), 0);
		CHECK_EQ(create_qp(MLX5_QP_FLAG_BFREG_INDEX, 32), -EINVAL);
		CHECK_EQ(create_qp(MLX5_QP_FLAG_UAR_PAGE_INDEX, 0), -EINVAL);
		CHECK(!mlx5dv_devx_alloc_uar(a.ctx, MLX5DV_UAR_ALLOC_TYPE_BF));
		CHECK(!mlx5dv_devx_alloc_uar(a.ctx, MLX5DV_UAR_ALLOC_TYPE_NC));
		rig_close(&a);
		return;
	}
	uar = mlx5dv_devx_alloc_uar(a.ctx, MLX5DV_UAR_ALLOC_TYPE_BF);
	CHECK(uar);
	id = uar->page_id;
	CHECK_EQ(create_qp(0, 0), -EINVAL);
	CHECK_EQ(create_qp(MLX5_QP_FLAG_BFREG_INDEX, 0), -EINVAL);
	CHECK_EQ(create_qp(MLX5_QP_FLAG_UAR_PAGE_INDEX, id), 0);
	CHECK_EQ(create_qp(MLX5_QP_FLAG_UAR_PAGE_INDEX, id + 100), -EINVAL);
	CHECK_EQ(create_qp(MLX5_QP_FLAG_UAR_PAGE_INDEX, 0), -EINVAL);
	CHECK_EQ(create_cq((uint16_t)(id + 100)), -EINVAL);
	CHECK_EQ(create_cq(0), -EINVAL);
	mlx5dv_devx_free_uar(uar);
	rig_close(&a);
	said_verdict(NULL);
}

/* A NOP in the first block of a's queue, announced, is rung at @reg. */
static void ring_at(void *reg, enum ibv_wc_status status, const char *what)
{
	struct mlx5dv_qp dv = dv_of(a.qp);
	uint32_t words[2] = {0, htobe32(a.qp->qp_num << 8 | 1)};
	uint8_t *w = dv.sq.buf;
	uint64_t v;

	memset(w, 0, 64);
	memcpy(w, words, sizeof(words));
	w[11] = 8; /* signaled */
	__atomic_store_n((uint32_t *)&dv.dbrec[MLX5_SND_DBR], htobe32(1), __ATOMIC_RELEASE);
	memcpy(&v, w, sizeof(v));
	__atomic_store_n((uint64_t *)reg, v, __ATOMIC_RELEASE);
	CHECK_EQ(rig_wait(a.scq).status, status);
	said_verdict(what);
}

static void open_ready(void)
{
	rig_open(&a, &(struct rig_attr){.events = true});
	rig_open(&b, &(struct rig_attr){0});
	rig_connect_pair(&a, &b);
}

static void close_both(void)
{
	rig_close(&a);
	rig_close(&b);
}

/* The planted mistakes: a doorbell at the page of another QP, of a thread domain, of no owner. */
static void other_pages(void)
{
	const char *not_its_own = ", which is not its own";
	struct mlx5dv_devx_uar *uar;
	struct ibv_td *td;
	struct ibv_pd *pd;
	struct ibv_qp *qp;

	open_ready();
	ring_at(dv_of(a.qp).bf.reg, IBV_WC_SUCCESS, NULL);
	close_both();

	open_ready();
	td = ibv_alloc_td(a.ctx, &(struct ibv_td_init_attr){0});
	CHECK(td);
	pd = domain_of(td);
	qp = make_qp(pd);
	ring_at(dv_of(qp).bf.reg, IBV_WC_WR_FLUSH_ERR, not_its_own);
	CHECK(!ibv_destroy_qp(qp) && !ibv_dealloc_pd(pd) && !ibv_dealloc_td(td));
	close_both();

	if (legacy)
		return;
	open_ready();
	uar = mlx5dv_devx_alloc_uar(a.ctx, MLX5DV_UAR_ALLOC_TYPE_BF);
	CHECK(uar && (char *)uar->base_addr + 0x800 == (char *)uar->reg_addr);
	CHECK(page_of(uar->base_addr) == page_of(uar->reg_addr));
	qp = make_qp(a.pd); /* its command finds the new page */
	ring_at(uar->reg_addr, IBV_WC_WR_FLUSH_ERR, not_its_own);
	CHECK(!ibv_destroy_qp(qp));
	mlx5dv_devx_free_uar(uar);
	close_both();
}

/* A CQ is armed through the page of a thread domain. */
static void arm_elsewhere(void)
{
	struct mlx5dv_cq dv;
	struct mlx5dv_obj obj = {.cq = {.in = NULL, .out = &dv}};
	struct ibv_td *td;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	uint64_t v;

	open_ready();
	obj.cq.in = a.scq;
	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ));
	td = ibv_alloc_td(a.ctx, &(struct ibv_td_init_attr){0});
	CHECK(td);
	pd = domain_of(td);
	qp = make_qp(pd);
	v = htobe64(dv.cqn);
	__atomic_store_n((uint64_t *)(void *)((char *)dv.cq_uar + 0x20), v, __ATOMIC_RELEASE);
	said_verdict(NULL);
	__atomic_store_n((uint64_t *)(void *)((char *)dv_of(qp).bf.reg - 0x800 + 0x20), v,
		__ATOMIC_RELEASE);
	said_verdict(", which is not its own");
	CHECK(!ibv_destroy_qp(qp) && !ibv_dealloc_pd(pd) && !ibv_dealloc_td(td));
	close_both();
}

/* All tests with the scheme and BlueFlame of the environment. */
static void one_process(void)
{
	open_ready(); /* the context that the counters need */
	said_listen();
	CHECK(page_of(dv_of(a.qp).bf.reg) != 0);
	close_both();
	many_qps();
	thread_domains();
	reopened();
	wrong_pages();
	if (!legacy)
		objects();
	if (getenv("SOFTHCA_MODE"))
		exit(0);
	other_pages();
	arm_elsewhere();
	exit(0);
}

int main(void)
{
	/* MLX5_SHUT_UP_BF: the provider rings at pages that are not write-combining. */
	static const struct {
		const char *uar, *shut_up_bf;
	} cases[] = {{"dynamic", "0"}, {"legacy", "0"}, {"", "0"}, {"dynamic", "1"},
		{"legacy", "1"}};

	rig_fabric("uar");
	CHECK(!setenv("SOFTHCA_STRICT", "1", 1));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		legacy = !strcmp(cases[i].uar, "legacy");
		CHECK(!setenv("SOFTHCA_UAR", cases[i].uar, 1));
		CHECK(!setenv("MLX5_SHUT_UP_BF", cases[i].shut_up_bf, 1));
		CHECK_EQ(rig_child(one_process, NULL), 0);
	}
	return 0;
}
