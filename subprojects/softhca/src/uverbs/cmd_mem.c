/* SPDX-License-Identifier: MIT */
/* Protection domains, address handles, memory regions. */
#include <errno.h>
#include <fcntl.h>
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

/* Flags of REREG_MR, as in enum ibv_rereg_mr_flags; the kernel's headers do not define them. */
#define REREG_TRANS 1u
#define REREG_PD 2u
#define REREG_ACCESS 4u
#define REREG_ALL 7u

#define PAGE 4096u

int cmd_alloc_pd(struct cmd *c)
{
	int r = obj_alloc(OBJ_PD, c->u->ctx);
	uint32_t i = (uint32_t)r;
	struct ib_uverbs_alloc_pd_resp resp = {.pd_handle = i};
	struct mlx5_ib_alloc_pd_resp drv = {.pdn = i};

	if (r < 0)
		return r;
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
 * A datagram's work request contains its address vector. So only the PD of an address handle is
 * stored, which cannot be deallocated while the handle exists. The driver's reply has zeros instead
 * of the peer's MAC, which is not used.
 */
int cmd_create_ah(struct cmd *c)
{
	struct ib_uverbs_create_ah req;
	struct ib_uverbs_create_ah_resp resp = {0};
	struct pd *pd;
	struct ah *ah;
	int r;

	cmd_get(c->in, &req, sizeof(req));
	pd = obj_of_ctx(OBJ_PD, req.pd_handle, c->u->ctx);
	if (!pd || req.attr.port_num != 1 ||
		!port_takes_path(c->u->rail, req.attr.is_global, req.attr.grh.sgid_index))
		return -EINVAL;
	r = obj_alloc(OBJ_AH, c->u->ctx);
	if (r < 0)
		return r;
	resp.ah_handle = (uint32_t)r;
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
 * The part of a range that look_for() has not checked yet, and the protection that it needs.
 */
struct range {
	uint64_t at, end;
	int prot;
	struct region_file *file_p; /* filled in if one mapping has the whole range; may be NULL */
};

/* Returns 1 when the whole range is known to be mapped with the protection. */
static int look_for(const struct mapping *m, void *arg)
{
	struct range *r = arg;

	if (m->end <= r->at)
		return 0;
	if (m->start > r->at || (m->prot & r->prot) != r->prot)
		return -EFAULT;
	if (m->end >= r->end && r->file_p)
		*r->file_p = window_describe(m, r->at);
	r->file_p = NULL;
	r->at = m->end;
	return r->at >= r->end;
}

/*
 * The kernel pins the pages, for writing if the adapter may write. So a range cannot be
 * registered if it has a hole, or pages to which the program has no such access.
 */
static int check_mapped(const struct ib_uverbs_reg_mr *req, struct region_file *file_p)
{
	bool writes = req->access_flags & IB_UVERBS_ACCESS_LOCAL_WRITE;
	struct range range = {
		.at = req->start,
		.end = req->start + req->length,
		.prot = writes ? PROT_WRITE : PROT_READ,
		.file_p = file_p,
	};
	int r;

	if (!req->length)
		return 0;
	r = maps_each(req->start, look_for, &range);
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

static int check_region(const struct ib_uverbs_reg_mr *req, struct region_file *file_p)
{
	int r = check_access(req->access_flags);

	if (r)
		return r;
	if ((req->start & (PAGE - 1)) != (req->hca_va & (PAGE - 1)))
		return -EINVAL;
	if (req->start + req->length < req->start || req->hca_va + req->length < req->hca_va)
		return -EINVAL;
	return check_mapped(req, file_p);
}

int check_reg_mr(struct cmd *c)
{
	struct ib_uverbs_reg_mr req;

	cmd_get(c->in, &req, sizeof(req));
	return check_region(&req, &c->file);
}

/* Makes a region. Returns its index or -errno. */
static int add_mr(uint32_t ctx, const struct ib_uverbs_reg_mr *req, const struct region_file *file,
	bool mapped)
{
	struct pd *pd = obj_of_ctx(OBJ_PD, req->pd_handle, ctx);
	struct mr *mr;
	uint32_t i;
	int r;

	if (!pd)
		return -EINVAL;
	r = obj_alloc(OBJ_MR, ctx);
	if (r < 0)
		return r;
	i = (uint32_t)r;
	mr = &arena()->mrs[i];
	mr->key = i << 8 | arena()->mr_gen[i];
	mr->pd = req->pd_handle;
	mr->access = req->access_flags;
	mr->start = req->start;
	mr->length = req->length;
	mr->hca_va = req->hca_va;
	mr->mapped = mapped;
	mr->serial = file->ino ? arena()->next_region++ : 0;
	mr->file_ino = file->ino;
	mr->file_offset = file->offset;
	mr->file_fd = file->fd;
	pd->obj.refs++;
	arena()->procs[fabric_self.slot].locked += mr_locked(mr);
	obj_publish(OBJ_MR, i);
	return (int)i;
}

int cmd_reg_mr(struct cmd *c)
{
	struct ib_uverbs_reg_mr req;
	struct ib_uverbs_reg_mr_resp resp;
	int i;

	cmd_get(c->in, &req, sizeof(req));
	if (!obj_of_ctx(OBJ_PD, req.pd_handle, c->u->ctx))
		return -EINVAL;
	if (config_get()->strict && !strict_memlock(req.start, req.length))
		return -ENOMEM;
	i = add_mr(c->u->ctx, &req, &c->file, false);
	if (i < 0)
		return i;
	resp = (struct ib_uverbs_reg_mr_resp){.mr_handle = (uint32_t)i};
	resp.lkey = resp.rkey = arena()->mrs[i].key;
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}

/* The mapping that the HCA has made for a region; NULL: none. */
struct dmabuf {
	void *at;
	size_t length;
};

static struct dmabuf mapping_of(uint64_t start, uint64_t length)
{
	uint64_t within = start & (PAGE - 1);

	return (struct dmabuf){(void *)(uintptr_t)(start - within), within + length};
}

/*
 * Makes a region that the HCA has mapped empty, and marks it as not mapped. If this process is
 * stopped, another one takes the mutex over, and uverbs_close() repeats its steps: it must not unmap
 * memory that has been mapped at the same address since.
 */
static struct dmabuf take_dmabuf(struct mr *mr)
{
	struct dmabuf map = mapping_of(mr->start, mr->length);

	if (!mr->mapped)
		return (struct dmabuf){NULL, 0};
	mr->start = mr->length = 0;
	mr->mapped = 0;
	return map;
}

static void unmap_dmabuf(struct dmabuf map)
{
	if (map.at)
		SYS(SYS_munmap, map.at, map.length);
}

void cmd_unmap_dmabufs(uint32_t ctx)
{
	for (uint32_t i = FIRST_MR_INDEX; i < arena()->high[OBJ_MR]; i++) {
		struct mr *mr = obj_of_ctx(OBJ_MR, i, ctx);

		if (mr)
			unmap_dmabuf(take_dmabuf(mr));
	}
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

/* The keys stay the same and get the new attributes. */
int cmd_rereg_mr(struct cmd *c)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ib_uverbs_rereg_mr req;
	struct ib_uverbs_reg_mr to;
	uint64_t *locked = &arena()->procs[fabric_self.slot].locked;
	struct dmabuf map = {NULL, 0};
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
	r = check_region(&to, NULL);
	if (r)
		return r;
	arena()->pds[mr->pd].obj.refs--;
	pd->obj.refs++;
	*locked -= mr_locked(mr);
	if (req.flags & REREG_TRANS)
		map = take_dmabuf(mr);
	*locked += mr->mapped ? 0 : mr_locks(to.start, to.length);
	mr->serial = 0;
	/* Changed in one step: a process that is stopped here leaves all old or all new values. */
	journal_begin();
	journal_store(&mr->pd, to.pd_handle);
	journal_store(&mr->access, to.access_flags);
	journal_store64(&mr->start, to.start);
	journal_store64(&mr->length, to.length);
	journal_store64(&mr->hca_va, to.hca_va);
	journal_commit();
	copy_drain(); /* no copy uses the old attributes any more */
	unmap_dmabuf(map);
	resp = (struct ib_uverbs_rereg_mr_resp){.lkey = mr->key, .rkey = mr->key};
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}

int cmd_dereg_mr(struct cmd *c)
{
	struct ib_uverbs_dereg_mr req;
	struct dmabuf map;
	struct mr *mr;

	cmd_get(c->in, &req, sizeof(req));
	mr = obj_of_ctx(OBJ_MR, req.mr_handle, c->u->ctx);
	if (!mr)
		return -EINVAL;
	arena()->pds[mr->pd].obj.refs--;
	map = take_dmabuf(mr);
	obj_free(OBJ_MR, req.mr_handle);
	copy_drain(); /* no copy uses the region any more */
	unmap_dmabuf(map);
	return 0;
}

/* The kernel refuses a descriptor that was opened with O_PATH; fstatfs() accepts it. */
static int check_dmabuf(int fd, uint64_t offset, uint64_t length)
{
	struct statfs fs;
	int flags = (int)SYS(SYS_fcntl, fd, F_GETFL);
	int r = flags < 0 ? flags : flags & O_PATH ? -EBADF : (int)SYS(SYS_fstatfs, fd, &fs);
	long size;

	if (r)
		return r;
	if (fs.f_type != DMA_BUF_MAGIC)
		return -EINVAL;
	size = SYS(SYS_lseek, fd, 0, SEEK_END);
	return size < 0 || !length || offset + length > (uint64_t)size ? -EINVAL : 0;
}

/* Returns false if other processes, which execute messages, cannot access the address. */
static bool is_accessible(uint64_t addr)
{
	char byte;
	struct iovec local = {&byte, 1}, remote = {(void *)(uintptr_t)addr, 1};

	return SYS(SYS_process_vm_readv, fabric_self.pid, &local, 1, &remote, 1, 0) != -EFAULT;
}

/*
 * Maps a part of a dma-buf: a udmabuf, or memory of another driver that the processor can access.
 * For other memory, such as a GPU's, the error is that of a kernel without on-demand paging.
 */
static int map_dmabuf(int fd, uint64_t offset, struct ib_uverbs_reg_mr *req)
{
	uint64_t within = offset & (PAGE - 1);
	bool writes = req->access_flags & IB_UVERBS_ACCESS_LOCAL_WRITE;
	int r = check_dmabuf(fd, offset, req->length);
	long at;

	if (r)
		return r;
	at = SYS(SYS_mmap, NULL, within + req->length, PROT_READ | (writes ? PROT_WRITE : 0),
		MAP_SHARED, fd, offset - within);
	if (at < 0 && at > -(long)PAGE)
		return at == -ENOMEM ? -ENOMEM : -EOPNOTSUPP;
	req->start = (uint64_t)at + within;
	if (is_accessible(req->start))
		return 0;
	SYS(SYS_munmap, at, within + req->length);
	return -EOPNOTSUPP;
}

/*
 * If another process takes the mutex over, fabric_enter() returns again, with -EIO. The mapping is
 * not undone then, because the region may exist already.
 */
static int add_dmabuf_mr(uint32_t ctx, const struct ib_uverbs_reg_mr *req)
{
	sigset_t saved;
	int i;

	if (fabric_enter(&saved))
		return -EIO;
	i = add_mr(ctx, req, &(struct region_file){0}, true);
	fabric_leave(&saved);
	if (i < 0)
		unmap_dmabuf(mapping_of(req->start, req->length));
	return i;
}

static int check_dmabuf_access(uint64_t access)
{
	const uint32_t known = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
			       IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC |
			       IB_UVERBS_ACCESS_RELAXED_ORDERING;

	return access & ~(uint64_t)known ? -EINVAL : check_access((uint32_t)access);
}

/* The errors are checked in the order in which the kernel checks them; only the PD is the last. */
int cmd_reg_dmabuf_mr(struct uctx *u, struct ib_uverbs_ioctl_hdr *h)
{
	struct ib_uverbs_attr *handle = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0);
	struct ib_uverbs_attr *pd = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0);
	struct ib_uverbs_attr *offset = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8);
	struct ib_uverbs_attr *length = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8);
	struct ib_uverbs_attr *iova = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8);
	struct ib_uverbs_attr *fd = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_FD, 4);
	struct ib_uverbs_attr *access = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4);
	struct ib_uverbs_attr *lkey = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4);
	struct ib_uverbs_attr *rkey = cmd_attr(h, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4);
	struct ib_uverbs_reg_mr req;
	int r;

	if (!handle || !pd || !offset || !length || !iova || !fd || !access || !lkey || !rkey ||
		((offset->data ^ iova->data) & (PAGE - 1)))
		return -EINVAL;
	r = check_dmabuf_access(access->data);
	if (!r && (offset->data + length->data < offset->data || u->ctx == NO_INDEX))
		r = -EINVAL;
	if (r)
		return r;
	req = (struct ib_uverbs_reg_mr){.length = length->data,
		.hca_va = iova->data,
		.pd_handle = (uint32_t)pd->data,
		.access_flags = (uint32_t)access->data};
	r = map_dmabuf((int)fd->data, offset->data, &req);
	if (!r)
		r = add_dmabuf_mr(u->ctx, &req);
	if (r < 0)
		return r;
	handle->data = (uint32_t)r;
	*(uint32_t *)(uintptr_t)lkey->data = *(uint32_t *)(uintptr_t)rkey->data =
		arena()->mrs[r].key;
	return 0;
}
