/* SPDX-License-Identifier: MIT */
/*
 * Doorbell pages: objects that the provider allocates, as with a current kernel, and the fixed set
 * of a legacy context. Each case runs in a process of its own, because a process uses only one of
 * the two schemes.
 */
#include <endian.h>
#include <infiniband/mlx5_api.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "command.h"
#include "said.h"

#define QPS 24u /* more than there are registers in a legacy set */
#define PAGE 4096ull

static struct rig a, b;
static bool legacy;

static uint64_t page_of(const void *reg)
{
	return (uintptr_t)reg / PAGE;
}

/* Connects @qp, in place of a's own QP, with b, and writes 8 bytes to b. */
static void write_by(struct ibv_qp *qp, uint8_t byte)
{
	struct ibv_qp *own = a.qp;

	rig_open(&b, NULL);
	a.qp = qp;
	rig_connect_pair(&a, &b);
	memset(a.buf, byte, 8);
	rig_post(&a, &(struct rig_wr){.op = IBV_WR_RDMA_WRITE,
			     .flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
			     .len = 8,
			     .raddr = (uintptr_t)b.buf,
			     .rkey = b.mr->rkey});
	rig_wait_ok(a.scq);
	CHECK(b.buf[0] == byte && b.buf[7] == byte);
	a.qp = own;
}

static void many_qps(void)
{
	struct ibv_qp *qps[QPS];

	rig_open(&a, NULL);
	for (uint32_t i = 0; i < QPS; i++)
		qps[i] = rig_qp(&a);
	for (uint32_t i = 0; i < QPS; i++)
		write_by(qps[i], (uint8_t)(i + 1));
	for (uint32_t i = 0; i < QPS; i++)
		CHECK(!ibv_destroy_qp(qps[i]));
	rig_close(&a);
	said_verdict(NULL);
}

/* A thread domain, its PD, and a QP of it. */
struct domain {
	struct ibv_td *td;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
};

static struct domain domain_open(void)
{
	struct ibv_td *td = ibv_alloc_td(a.ctx, &(struct ibv_td_init_attr){0});
	struct rig view = a;

	CHECK(td);
	view.pd = ibv_alloc_parent_domain(a.ctx,
		&(struct ibv_parent_domain_init_attr){.pd = a.pd, .td = td});
	CHECK(view.pd);
	return (struct domain){td, view.pd, rig_qp(&view)};
}

static void domain_close(struct domain d)
{
	CHECK(!ibv_destroy_qp(d.qp) && !ibv_dealloc_pd(d.pd) && !ibv_dealloc_td(d.td));
}

/* The register of a thread domain's QP is not on the page of a QP without a thread domain. */
static void thread_domains(void)
{
	struct domain d[3];
	void *reg[3];

	rig_open(&a, NULL);
	for (int i = 0; i < 3; i++) {
		d[i] = domain_open();
		reg[i] = rig_dv_qp(d[i].qp).bf.reg;
		CHECK(page_of(reg[i]) != page_of(rig_dv_qp(a.qp).bf.reg));
	}
	CHECK(page_of(reg[2]) != page_of(reg[0])); /* two registers are on a page */
	for (int i = 0; i < 3; i++)
		write_by(d[i].qp, (uint8_t)(0x40 + i));
	for (int i = 0; i < 3; i++)
		domain_close(d[i]);
	rig_close(&a);
	said_verdict(NULL);
}

/* Contexts come and go; their pages may be at the same addresses. */
static void reopened(void)
{
	for (int i = 0; i < 20; i++) {
		rig_open(&a, NULL);
		write_by(a.qp, (uint8_t)(i + 1));
	}
	said_verdict(NULL);
}

static int execute(union command *c, uint16_t method)
{
	return command_execute(c, a.ctx, MLX5_IB_OBJECT_UAR, method);
}

/* Allocates a page of @type. @handle_p: its handle. */
static int alloc_page(uint64_t type, uint64_t *handle_p)
{
	union command q = {0};
	uint64_t offset = 0;
	uint32_t length = 0, id = 0;
	int r;

	command_add(&q, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, 0, 0);
	command_add(&q, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, 8, type);
	command_add(&q, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, 8, (uintptr_t)&offset);
	command_add(&q, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, 4, (uintptr_t)&length);
	command_add(&q, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, 4, (uintptr_t)&id);
	r = execute(&q, MLX5_IB_METHOD_UAR_OBJ_ALLOC);
	CHECK_EQ(length, r ? 0 : PAGE);
	*handle_p = q.h.attrs[0].data;
	return r;
}

static int destroy_page(uint64_t handle)
{
	union command q = {0};

	command_add(&q, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, 0, handle);
	return execute(&q, MLX5_IB_METHOD_UAR_OBJ_DESTROY);
}

static void objects(void)
{
	union command none = {0}, wrong = {0};
	uint64_t handles[300], h;
	uint32_t n = 0;

	rig_open(&a, NULL);
	CHECK_EQ(alloc_page(2, &h), -EOPNOTSUPP);
	CHECK_EQ(execute(&none, MLX5_IB_METHOD_UAR_OBJ_ALLOC), -EINVAL);
	CHECK_EQ(execute(&none, MLX5_IB_METHOD_UAR_OBJ_DESTROY), -EINVAL);
	CHECK_EQ(execute(&none, MLX5_IB_METHOD_UAR_OBJ_DESTROY + 1), -EPROTONOSUPPORT);
	command_add(&wrong, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, 8, 0);
	CHECK_EQ(execute(&wrong, MLX5_IB_METHOD_UAR_OBJ_DESTROY), -EINVAL);
	CHECK_EQ(destroy_page(255), -ENOENT);
	CHECK_EQ(destroy_page(256), -ENOENT);
	CHECK_EQ(destroy_page(UINT64_MAX), -ENOENT);
	while (n < 300 && !alloc_page(n & 1, &handles[n]))
		n++;
	CHECK(n >= 250 && n < 256); /* the provider has allocated some, too */
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
	int r = command_write(a.ctx, IB_USER_VERBS_CMD_CREATE_QP, &in, sizeof(in), &drv,
		sizeof(drv), &out, sizeof(out));

	if (r)
		return r;
	end.qp_handle = out.qp_handle;
	CHECK_EQ(command_write(a.ctx, IB_USER_VERBS_CMD_DESTROY_QP, &end, sizeof(end), NULL, 0,
			 &ended, sizeof(ended)),
		0);
	return 0;
}

static int create_cq(uint16_t page_id)
{
	struct ib_uverbs_create_cq in = {.cqe = 15, .comp_channel = -1};
	struct mlx5_ib_create_cq drv = {.cqe_size = 64,
		.flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX,
		.uar_page_index = page_id};

	return command_write(a.ctx, IB_USER_VERBS_CMD_CREATE_CQ, &in, sizeof(in), &drv, sizeof(drv),
		NULL, 0);
}

/* A QP or CQ cannot be created with a page that its context does not have. */
static void wrong_pages(void)
{
	struct mlx5dv_devx_uar *uar;
	uint64_t h;
	uint32_t id;

	rig_open(&a, NULL);
	if (legacy) {
		CHECK_EQ(alloc_page(0, &h), -EPROTONOSUPPORT);
		CHECK_EQ(destroy_page(0), -EPROTONOSUPPORT);
		CHECK_EQ(create_qp(0, 0), 0);
		CHECK_EQ(create_qp(MLX5_QP_FLAG_BFREG_INDEX, 31), 0);
		CHECK_EQ(create_qp(MLX5_QP_FLAG_BFREG_INDEX, 32), -EINVAL);
		CHECK_EQ(create_qp(MLX5_QP_FLAG_UAR_PAGE_INDEX, 0), -EINVAL);
		CHECK(!mlx5dv_devx_alloc_uar(a.ctx, MLX5DV_UAR_ALLOC_TYPE_BF));
		CHECK(!mlx5dv_devx_alloc_uar(a.ctx, MLX5DV_UAR_ALLOC_TYPE_NC));
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

/* Writes a NOP to the first block of a's queue, stores the doorbell record, and rings at @reg. */
static void ring_at(void *reg, enum ibv_wc_status status, const char *what)
{
	const uint8_t *w = rig_nop(a.qp, 0, 0, true);

	rig_record(a.qp, 1);
	rig_ring(reg, w);
	CHECK_EQ(rig_wait(a.scq).status, status);
	said_verdict(what);
}

static void open_ready(void)
{
	rig_open_pair(&a, &(struct rig_attr){.events = true}, &b, NULL);
}

/* The stores name queues that do not exist. The thread finds the NOP by its doorbell record. */
static void not_named(void)
{
	uint64_t elsewhere;

	open_ready();
	__atomic_store_n((uint64_t *)rig_dv_qp(a.qp).bf.reg, UINT64_MAX, __ATOMIC_RELEASE);
	__atomic_store_n((uint64_t *)(void *)((char *)rig_dv_cq(a.scq).cq_uar + 0x20), UINT64_MAX,
		__ATOMIC_RELEASE);
	ring_at(&elsewhere, IBV_WC_SUCCESS, NULL);
}

/* The planted mistakes: a doorbell at the page of a thread domain, and at a page of no QP. */
static void other_pages(void)
{
	const char *not_its_own = ", which is not its own";
	struct mlx5dv_devx_uar *uar;
	struct domain d;
	struct ibv_qp *qp;

	open_ready();
	ring_at(rig_dv_qp(a.qp).bf.reg, IBV_WC_SUCCESS, NULL);

	open_ready();
	d = domain_open();
	ring_at(rig_dv_qp(d.qp).bf.reg, IBV_WC_WR_FLUSH_ERR, not_its_own);
	domain_close(d);

	if (legacy)
		return;
	open_ready();
	uar = mlx5dv_devx_alloc_uar(a.ctx, MLX5DV_UAR_ALLOC_TYPE_BF);
	CHECK(uar && (char *)uar->base_addr + 0x800 == (char *)uar->reg_addr);
	CHECK(page_of(uar->base_addr) == page_of(uar->reg_addr));
	qp = rig_qp(&a); /* at this command the HCA finds the new page */
	ring_at(uar->reg_addr, IBV_WC_WR_FLUSH_ERR, not_its_own);
	CHECK(!ibv_destroy_qp(qp));
	mlx5dv_devx_free_uar(uar);
}

/* A CQ is armed through the page of a thread domain. */
static void arm_elsewhere(void)
{
	struct mlx5dv_cq dv;
	struct domain d;
	uint64_t v;

	open_ready();
	dv = rig_dv_cq(a.scq);
	d = domain_open();
	v = htobe64(dv.cqn);
	__atomic_store_n((uint64_t *)(void *)((char *)dv.cq_uar + 0x20), v, __ATOMIC_RELEASE);
	said_verdict(NULL);
	__atomic_store_n((uint64_t *)(void *)((char *)rig_dv_qp(d.qp).bf.reg - 0x800 + 0x20), v,
		__ATOMIC_RELEASE);
	said_verdict(", which is not its own");
	domain_close(d);
}

/* Runs all tests with the scheme and the kind of pages that the environment selects. */
static void one_process(void)
{
	open_ready(); /* the context that the counters need */
	said_listen();
	CHECK(page_of(rig_dv_qp(a.qp).bf.reg) != 0);
	many_qps();
	thread_domains();
	reopened();
	wrong_pages();
	if (!legacy)
		objects();
	if (rig_mode("poll")) {
		not_named();
	} else {
		other_pages();
		arm_elsewhere();
	}
	test_end();
	exit(0);
}

/* With @shut_up_bf "1", the provider rings at pages that are not write-combining. */
static void with(const char *uar, const char *shut_up_bf)
{
	legacy = !strcmp(uar, "legacy");
	CHECK(!setenv("SOFTHCA_UAR", uar, 1));
	CHECK(!setenv("MLX5_SHUT_UP_BF", shut_up_bf, 1));
	CHECK_EQ(rig_child(one_process, NULL), 0);
}

TEST_WITH(dynamic_pages, with, "dynamic", "0");
TEST_WITH(legacy_pages, with, "legacy", "0");
TEST_WITH(default_pages, with, "", "0");
TEST_WITH(dynamic_without_bf, with, "dynamic", "1");
TEST_WITH(legacy_without_bf, with, "legacy", "1");

FABRIC_MAIN("uar", "SOFTHCA_STRICT=1");
