/* SPDX-License-Identifier: MIT */
/* Protection domains, address handles, memory regions. */
#include <errno.h>
#include <linux/magic.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "hca/config.h"
#include "hca/journal.h"
#include "hca/port.h"
#include "hca/strict.h"
#include "sys/maps.h"
#include "sys/sys.h"
#include "uverbs/cmd.h"
#include "xport/copy.h"
#include "xport/free.h"

/* Flags of REREG_MR, which are in no user-space header. */
#define REREG_TRANS 1u
#define REREG_PD 2u
#define REREG_ACCESS 4u
#define REREG_ALL 7u

#define PAGE 4096u

int cmd_alloc_pd(struct cmd *c)
{
	uint32_t i = obj_alloc(OBJ_PD, c->u->ctx);
	struct ib_uverbs_alloc_pd_resp resp = {.pd_handle = i};
	struct mlx5_ib_alloc_pd_resp drv = {.pdn = i};

	if (i == NO_INDEX)
		return -ENOMEM;
	obj_publish(OBJ_PD, i);
	cmd_put(c->out, &resp, sizeof(resp));
	cmd_put(c->drv_out, &drv, sizeof(drv));
	return 0;
}

int cmd_dealloc_pd(struct cmd *c)
{
	struct ib_uverbs_dealloc_pd req;
	struct pd *pd;

	cmd_get(c->in, &req, sizeof(req));
	pd = obj_of_ctx(OBJ_PD, req.pd_handle, c->u->ctx);
	if (!pd)
		return -EINVAL;
	if (pd->obj.refs)
		return -EBUSY;
	obj_free(OBJ_PD, req.pd_handle);
	return 0;
}

/*
 * A datagram's work request contains its address vector, so the handle is only counted. The
 * peer's MAC in the driver's reply is not used.
 */
int cmd_create_ah(struct cmd *c)
{
	struct ib_uverbs_create_ah req;
	struct ib_uverbs_create_ah_resp resp = {0};
	struct pd *pd;
	struct ah *ah;

	cmd_get(c->in, &req, sizeof(req));
	pd = obj_of_ctx(OBJ_PD, req.pd_handle, c->u->ctx);
	if (!pd || req.attr.port_num != 1 ||
		!port_takes_path(c->u->rail, req.attr.is_global, req.attr.grh.sgid_index))
		return -EINVAL;
	resp.ah_handle = obj_alloc(OBJ_AH, c->u->ctx);
	if (resp.ah_handle == NO_INDEX)
		return -ENOMEM;
	ah = &arena()->ahs[resp.ah_handle];
	ah->pd = req.pd_handle;
	pd->obj.refs++;
	obj_publish(OBJ_AH, resp.ah_handle);
	cmd_put(c->out, &resp, sizeof(resp));
	if (c->drv_out.len)
		memset(c->drv_out.p, 0, c->drv_out.len);
	return 0;
}

int cmd_destroy_ah(struct cmd *c)
{
	struct ib_uverbs_destroy_ah req;
	struct ah *ah;

	cmd_get(c->in, &req, sizeof(req));
	ah = obj_of_ctx(OBJ_AH, req.ah_handle, c->u->ctx);
	if (!ah)
		return -EINVAL;
	arena()->pds[ah->pd].obj.refs--;
	obj_free(OBJ_AH, req.ah_handle);
	return 0;
}

/*
 * The part of a range that was not found among the mappings yet, and the protection that it needs.
 */
struct range {
	uint64_t at, end;
	int prot;
};

/* Returns 1 when the whole range is found. */
static int look_for(const struct mapping *m, void *arg)
{
	struct range *r = arg;

	if (m->end <= r->at)
		return 0;
	if (m->start > r->at || (m->prot & r->prot) != r->prot)
		return -EFAULT;
	r->at = m->end;
	return r->at >= r->end;
}

/*
 * The kernel pins the pages, for writing if the adapter may write. So a range cannot be
 * registered if it has a hole, or pages to which the program has no such access.
 */
static int check_mapped(const struct ib_uverbs_reg_mr *req)
{
	bool writes = req->access_flags & IB_UVERBS_ACCESS_LOCAL_WRITE;
	struct range range = {
		.at = req->start,
		.end = req->start + req->length,
		.prot = writes ? PROT_WRITE : PROT_READ,
	};
	int r;

	if (!req->length)
		return 0;
	r = maps_each(look_for, &range);
	return r == 1 ? 0 : r ? r : -EFAULT;
}

static int check_access(uint32_t access)
{
	const uint32_t known = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
			       IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC |
			       IB_UVERBS_ACCESS_HUGETLB | IB_UVERBS_ACCESS_OPTIONAL_RANGE;

	if (access & ~known)
		return -EOPNOTSUPP;
	if ((access & (IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC)) &&
		!(access & IB_UVERBS_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

static int check_region(const struct ib_uverbs_reg_mr *req)
{
	int r = check_access(req->access_flags);

	if (r)
		return r;
	if ((req->start & (PAGE - 1)) != (req->hca_va & (PAGE - 1)))
		return -EINVAL;
	if (req->start + req->length < req->start || req->hca_va + req->length < req->hca_va)
		return -EINVAL;
	return check_mapped(req);
}

int check_reg_mr(struct cmd *c)
{
	struct ib_uverbs_reg_mr req;

	cmd_get(c->in, &req, sizeof(req));
	return check_region(&req);
}

int cmd_reg_mr(struct cmd *c)
{
	struct ib_uverbs_reg_mr req;
	struct ib_uverbs_reg_mr_resp resp;
	struct pd *pd;
	struct mr *mr;
	uint32_t i;

	cmd_get(c->in, &req, sizeof(req));
	pd = obj_of_ctx(OBJ_PD, req.pd_handle, c->u->ctx);
	if (!pd)
		return -EINVAL;
	if (config_get()->strict && !strict_memlock(req.start, req.length))
		return -ENOMEM;
	i = obj_alloc(OBJ_MR, c->u->ctx);
	if (i == NO_INDEX)
		return -ENOMEM;
	mr = &arena()->mrs[i];
	mr->key = i << 8 | arena()->mr_gen[i];
	mr->pd = req.pd_handle;
	mr->access = req.access_flags;
	mr->start = req.start;
	mr->length = req.length;
	mr->hca_va = req.hca_va;
	pd->obj.refs++;
	arena()->procs[fabric_self.slot].locked += mr_locks(req.start, req.length);
	obj_publish(OBJ_MR, i);
	resp = (struct ib_uverbs_reg_mr_resp){.mr_handle = i, .lkey = mr->key, .rkey = mr->key};
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}

/* Gets the new attributes of the region: those whose flags are set change, the others stay. */
static void rereg_target(const struct mr *mr, const struct ib_uverbs_rereg_mr *req,
	struct ib_uverbs_reg_mr *to_p)
{
	bool moves = req->flags & REREG_TRANS;

	*to_p = (struct ib_uverbs_reg_mr){
		.start = moves ? req->start : mr->start,
		.length = moves ? req->length : mr->length,
		.hca_va = moves ? req->hca_va : mr->hca_va,
		.pd_handle = req->flags & REREG_PD ? req->pd_handle : mr->pd,
		.access_flags = req->flags & REREG_ACCESS ? req->access_flags : mr->access,
	};
}

/* The keys stay the same, with the new attributes. */
int cmd_rereg_mr(struct cmd *c)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ib_uverbs_rereg_mr req;
	struct ib_uverbs_reg_mr to;
	uint64_t *locked = &arena()->procs[fabric_self.slot].locked;
	struct pd *pd;
	struct mr *mr;
	int r;

	cmd_get(c->in, &req, sizeof(req));
	mr = obj_of_ctx(OBJ_MR, req.mr_handle, c->u->ctx);
	if (!mr || !req.flags || (req.flags & ~(uint32_t)REREG_ALL))
		return -EINVAL;
	if ((req.flags & REREG_TRANS) && (!req.start || !req.length))
		return -EINVAL;
	rereg_target(mr, &req, &to);
	pd = obj_of_ctx(OBJ_PD, to.pd_handle, c->u->ctx);
	if (!pd)
		return -EINVAL;
	r = check_region(&to);
	if (r)
		return r;
	arena()->pds[mr->pd].obj.refs--;
	pd->obj.refs++;
	*locked += mr_locks(to.start, to.length) - mr_locks(mr->start, mr->length);
	/* In one step, so that the region is intact if the process is stopped here. */
	journal_begin();
	journal_store(&mr->pd, to.pd_handle);
	journal_store(&mr->access, to.access_flags);
	journal_store64(&mr->start, to.start);
	journal_store64(&mr->length, to.length);
	journal_store64(&mr->hca_va, to.hca_va);
	journal_commit();
	copy_drain(); /* no copy uses the old attributes any more */
	resp = (struct ib_uverbs_rereg_mr_resp){.lkey = mr->key, .rkey = mr->key};
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}

int cmd_dereg_mr(struct cmd *c)
{
	struct ib_uverbs_dereg_mr req;
	struct mr *mr;

	cmd_get(c->in, &req, sizeof(req));
	mr = obj_of_ctx(OBJ_MR, req.mr_handle, c->u->ctx);
	if (!mr)
		return -EINVAL;
	arena()->pds[mr->pd].obj.refs--;
	obj_free(OBJ_MR, req.mr_handle);
	copy_drain(); /* no copy uses the region any more */
	return 0;
}

/*
 * Returns the error that the kernel has for a descriptor that is no dma-buf. For a dma-buf it is the
 * error of a kernel without on-demand paging.
 */
int cmd_reg_dmabuf_mr(struct ib_uverbs_ioctl_hdr *h)
{
	const uint32_t known = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
			       IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC |
			       IB_UVERBS_ACCESS_RELAXED_ORDERING;
	struct ib_uverbs_attr *offset = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8);
	struct ib_uverbs_attr *length = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8);
	struct ib_uverbs_attr *iova = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8);
	struct ib_uverbs_attr *fd = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_FD, 4);
	struct ib_uverbs_attr *access = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4);
	struct statfs fs;
	int r;

	if (!offset || !length || !iova || !fd || !access || (access->data & ~(uint64_t)known) ||
		((offset->data ^ iova->data) & (PAGE - 1)))
		return -EINVAL;
	r = check_access((uint32_t)access->data);
	if (!r && offset->data + length->data < offset->data)
		r = -EINVAL;
	if (!r)
		r = (int)SYS(SYS_fstatfs, (uint32_t)fd->data, &fs);
	return r ? r : fs.f_type == DMA_BUF_MAGIC ? -EOPNOTSUPP : -EINVAL;
}
