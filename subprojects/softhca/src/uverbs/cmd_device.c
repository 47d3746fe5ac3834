/* SPDX-License-Identifier: MIT */
/* GET_CONTEXT, QUERY_DEVICE, QUERY_PORT: attributes of the adapter. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dma/view.h"
#include "dma/window.h"
#include "fabric/tally.h"
#include "hca/config.h"
#include "hca/event.h"
#include "hca/port.h"
#include "sched/doors.h"
#include "sched/sched.h"
#include "sys/fds.h"
#include "sys/sys.h"
#include "uverbs/cmd.h"
#include "xport/copy.h"
#include "xport/free.h"

#define BF_REG_SIZE 512
#define MAX_WR 32768
#define MAX_SGE 30
#define MAX_RD_ATOMIC 16
#define MAX_MSG (1u << 30)
/* port active events, RNR NAK generation, current QP state in modify */
#define DEVICE_CAPS (1u << 7 | 1u << 10 | 1u << 12)

static uint32_t contexts; /* number of this process's contexts; changes under the mutex */

static int make_context(struct cmd *c, int *async_fd)
{
	int r = obj_alloc(OBJ_CTX, NO_INDEX);
	uint32_t i = (uint32_t)r;
	struct ctx *x;

	if (r < 0)
		return r;
	x = ctx_at(i);
	x->obj.ctx = i; /* the context itself is freed with its objects */
	x->rail = c->u->rail;
	*async_fd = fifo_create(&x->fifo);
	if (*async_fd < 0)
		return *async_fd;
	fds_set(*async_fd, FD_ASYNC, x->fifo); /* else fifo_drop() needs a free one */
	obj_publish(OBJ_CTX, i);
	c->u->ctx = i;
	contexts++;
	return 0;
}

/* When its last device is closed, the process unmaps the memory of other processes. */
void cmd_free_context(struct uctx *u)
{
	if (u->ctx == NO_INDEX)
		return;
	copy_stop(u->ctx);
	cmd_unmap_dmabufs(u->ctx);
	objects_free_ctx(u->ctx);
	u->ctx = NO_INDEX;
	if (--contexts)
		return;
	view_close_all();
	window_close_all();
}

void cmd_forget_contexts(void)
{
	contexts = 0;
}

int prepare_get_context(struct cmd *c)
{
	return sched_start();
}

int cmd_get_context(struct cmd *c)
{
	struct mlx5_ib_alloc_ucontext_req_v2 req;
	struct mlx5_ib_alloc_ucontext_resp drv = {
		.qp_tab_size = MAX_QPS,
		/* Without BlueFlame every doorbell is one store of 8 bytes and one trap. */
		.bf_reg_size = config_get()->blueflame ? BF_REG_SIZE : 0,
		.cache_line_size = 64,
		.max_sq_desc_sz = 1024,
		.max_rq_desc_sz = 512,
		.max_send_wqebb = MAX_WR,
		.max_recv_wr = MAX_WR,
		.max_srq_recv_wr = MAX_WR,
		.num_ports = 1,
		.response_length = sizeof(drv),
		.cqe_version = 1,
		.cmds_supp_uhw =
			MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		.eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
		.clock_info_versions = 1 << MLX5_IB_CLOCK_INFO_V1,
		.log_uar_size = 12,
		.num_uars_per_page = 1,
	};
	struct ib_uverbs_get_context_resp resp = {.num_comp_vectors = COMP_VECTORS};
	int async_fd, r;

	if (c->u->ctx != NO_INDEX)
		return -EINVAL;
	cmd_get(c->drv_in, &req, sizeof(req));
	/* DEVX, which would need further ioctls, is refused; the provider retries without it. */
	if (req.flags & MLX5_IB_ALLOC_UCTX_DEVX)
		return -EPERM;
	r = make_context(c, &async_fd);
	if (r)
		return r;
	resp.async_fd = (uint32_t)async_fd;
	c->u->dynamic_uars = req.lib_caps & MLX5_LIB_CAP_DYN_UAR && !config_get()->legacy_uars;
	if (!c->u->dynamic_uars) {
		drv.tot_bfregs = req.total_num_bfregs;
		drv.num_dyn_bfregs = LEGACY_DYNAMIC_BFREGS;
	}
	cmd_put(c->out, &resp, sizeof(resp));
	cmd_put(c->drv_out, &drv, sizeof(drv));
	return 0;
}

int finish_get_context(struct cmd *c)
{
	if (!c->u->dynamic_uars && c->u->door != DOOR_NONE)
		doors_fix(c->u->door);
	return 0;
}

static void fill_device(const struct softhca_rail *rail, struct ib_uverbs_query_device_resp *d)
{
	*d = (struct ib_uverbs_query_device_resp){
		.fw_ver = 20ull << 32 | 31 << 16 | 1014,
		.node_guid = htobe64(rail->guid),
		.sys_image_guid = htobe64(rail->guid),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffff000,
		.vendor_id = 0x02c9,
		.vendor_part_id = 4123,
		.max_qp = MAX_QPS - FIRST_QP_INDEX,
		.max_qp_wr = MAX_WR,
		.device_cap_flags = DEVICE_CAPS,
		.max_sge = MAX_SGE,
		.max_sge_rd = MAX_SGE,
		.max_cq = MAX_CQS - 1,
		.max_cqe = (1 << 22) - 1,
		.max_mr = MAX_MRS - FIRST_MR_INDEX,
		.max_pd = MAX_PDS - 1,
		.max_qp_rd_atom = MAX_RD_ATOMIC,
		.max_res_rd_atom = MAX_RD_ATOMIC * (MAX_QPS - FIRST_QP_INDEX),
		.max_qp_init_rd_atom = MAX_RD_ATOMIC,
		.atomic_cap = !rail->no_atomics, /* 1: atomic only among adapters of the fabric */
		.max_ah = MAX_AHS - 1,
		.max_srq = MAX_SRQS - 1,
		.max_srq_wr = MAX_WR - 1,
		.max_srq_sge = MAX_SGE + 1,
		.max_pkeys = SOFTHCA_PKEYS_MAX,
		.local_ca_ack_delay = 16,
		.phys_port_cnt = 1,
	};
}

int cmd_query_device(struct cmd *c)
{
	struct ib_uverbs_ex_query_device_resp resp = {
		.response_length = sizeof(resp),
		.timestamp_mask = UINT64_MAX, /* time stamps of completions: nanoseconds */
		.hca_core_clock = 1000000,
		.cq_moderation_caps = {.max_cq_moderation_count = UINT16_MAX,
			.max_cq_moderation_period = MODERATION_PERIOD_MAX},
	};
	struct mlx5_ib_query_device_resp drv = {
		.response_length = sizeof(drv),
		.cqe_comp_caps = {.max_num = COMP_MAX,
			.supported_format = MLX5_IB_CQE_RES_FORMAT_HASH},
		.flags = MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP,
	};

	fill_device(&arena()->topo.rails[c->u->rail], &resp.base);
	if (!c->extended) {
		cmd_put(c->out, &resp.base, sizeof(resp.base));
		return 0;
	}
	if (resp.response_length > c->out.len)
		resp.response_length = c->out.len;
	if (drv.response_length > c->drv_out.len)
		drv.response_length = c->drv_out.len;
	cmd_put(c->out, &resp, sizeof(resp));
	cmd_put(c->drv_out, &drv, sizeof(drv));
	return 0;
}

int cmd_query_port(struct cmd *c)
{
	const struct softhca_rail *rail = &arena()->topo.rails[c->u->rail];
	bool up = !arena()->rails[c->u->rail].link_down;
	bool roce = rail->link == SOFTHCA_LINK_ROCE;
	struct ib_uverbs_query_port req;
	struct ib_uverbs_query_port_resp resp = {
		.port_cap_flags = roce ? 1 << 16 : 1 << 9 | 1 << 11 | 1 << 14,
		.max_msg_sz = MAX_MSG,
		.gid_tbl_len = rail->ngids,
		.pkey_tbl_len = (uint16_t)rail->npkeys,
		.flags = rail->grh_required ? IB_UVERBS_QPF_GRH_REQUIRED : 0,
		.lid = rail->lid,
		.sm_lid = roce ? 0 : 1,
		.state = up ? 4 : 1,
		.max_mtu = 5,
		.active_mtu = port_mtu_code(rail->mtu),
		.max_vl_num = 4,
		.subnet_timeout = 18,
		.active_width = 2,
		.active_speed =
			softhca_rate_speed(rail->rate_mbps, &(uint32_t){0}, &(const char *){NULL}),
		.phys_state = up ? 5 : 3,
		.link_layer = roce ? 2 : 1,
	};
	struct port_counts counts;

	cmd_get(c->in, &req, sizeof(req));
	if (req.port_num != 1)
		return -EINVAL;
	tally_port(c->u->rail, &counts);
	resp.bad_pkey_cntr =
		counts.bad_pkeys < UINT16_MAX ? (uint32_t)counts.bad_pkeys : UINT16_MAX;
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}
