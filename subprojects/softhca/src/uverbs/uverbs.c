/* SPDX-License-Identifier: MIT */
#include "uverbs/uverbs.h"

#include <errno.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "dma/pool.h"
#include "hca/config.h"
#include "hca/event.h"
#include "member/member.h"
#include "sched/doors.h"
#include "sys/fds.h"
#include "sys/sys.h"
#include "trap/pages.h"
#include "trap/trap.h"
#include "uverbs/clock_page.h"
#include "uverbs/cmd.h"
#include "uverbs/reads.h"
#include "uverbs/uar.h"

#define MAX_OPEN DOORS
#define UAR_SPAN (UAR_NUMBERS * UAR_PAGE)

static struct uctx uctxs[MAX_OPEN];
static pthread_mutex_t uctxs_lock = PTHREAD_MUTEX_INITIALIZER;

struct uctx *uverbs_of_fd(int fd)
{
	struct fd_entry e = fds_get(fd);

	return e.kind == FD_DEVICE ? &uctxs[e.value] : NULL;
}

static int find_free_uctx(void)
{
	for (int i = 0; i < (int)MAX_OPEN; i++)
		if (!uctxs[i].ino)
			return i;
	return -EMFILE;
}

/* The program may unmap its pages at any time, so the polling thread reads a mapping of its own. */
static int map_pages(struct uctx *u, int fd)
{
	void *p;

	if (config_get()->mode != ENGINE_POLL && config_get()->mode != ENGINE_AUTO)
		return 0;
	p = mmap((void *)(uintptr_t)u->pages, UAR_SPAN, PROT_READ,
		MAP_SHARED | (u->pages ? MAP_FIXED : 0), fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	u->pages = p;
	return 0;
}

static int init_uctx(int i, int fd, uint32_t rail)
{
	struct uctx *u = &uctxs[i];
	struct stat st;
	int r = sys_may_make(UAR_SPAN) ? (int)SYS(SYS_ftruncate, fd, UAR_SPAN) : -EFBIG;

	if (!r)
		r = sys_fstat(fd, &st);
	if (!r)
		r = clock_page_write(fd);
	if (!r)
		r = map_pages(u, fd);
	if (r)
		return r;
	u->rail = rail;
	u->ctx = NO_INDEX;
	u->next_bfreg = 1;
	u->dynamic_uars = false;
	memset(u->uars, 0, sizeof(u->uars));
	u->dev = st.st_dev;
	u->door = u->pages ? (uint32_t)i : DOOR_NONE;
	if (u->pages)
		doors_add(u->door, fd, UAR_DYNAMIC * UAR_PAGE, UAR_SPAN);
	r = fds_set(fd, FD_DEVICE, (uint64_t)i);
	if (!r)
		u->ino = st.st_ino;
	else if (u->pages)
		doors_remove(u->door);
	return r;
}

int uverbs_open(uint32_t rail, int flags)
{
	int fd, i, r;

	r = member_attach();
	if (r)
		return r;
	if (rail >= arena()->topo.nrails)
		return -ENXIO;
	fd = (int)SYS(SYS_memfd_create, "softhca-uar", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
	if (fd < 0)
		return fd;
	pthread_mutex_lock(&uctxs_lock);
	i = find_free_uctx();
	r = i < 0 ? i : init_uctx(i, fd, rail);
	pthread_mutex_unlock(&uctxs_lock);
	if (r) {
		sys_close(fd);
		return r;
	}
	pool_prepare();
	return fd;
}

void uverbs_close(const struct fd_entry *e)
{
	struct uctx *u = e->kind == FD_DEVICE ? &uctxs[e->value] : NULL;
	sigset_t saved;

	if (u)
		trap_drop(u);
	if (u && u->pages)
		doors_remove(u->door);
	/*
	 * If this thread loses the mutex below, fabric_enter() returns again, with an error, and
	 * the loop takes the mutex again. Steps that are repeated do nothing.
	 */
	while (fabric_enter(&saved))
		;
	if (u)
		cmd_free_context(u);
	else
		fifo_remove(e->value);
	fabric_leave(&saved);
	if (!u)
		return;
	pool_leave_all(u);
	u->ino = 0; /* last, because another thread may use the entry after this */
}

void uverbs_forget(void)
{
	pthread_mutex_init(&uctxs_lock, NULL);
	cmd_forget_contexts();
	reads_forget();
	for (int i = 0; i < (int)MAX_OPEN; i++)
		uctxs[i].ino = 0;
}

/* Finds the doorbell pages that the program has mapped, before a QP may send. */
static int find_doorbells(struct cmd *c)
{
	return trap_scan(c->u);
}

static const struct command {
	int (*run)(struct cmd *c);
	uint16_t min_in;
	/*
	 * Called before the command, and after it if it has succeeded, without the fabric's mutex.
	 */
	int (*before)(struct cmd *c);
	int (*after)(struct cmd *c);
} commands[] = {
	[IB_USER_VERBS_CMD_GET_CONTEXT] = {cmd_get_context, 8, prepare_get_context,
		finish_get_context},
	[IB_USER_VERBS_CMD_QUERY_DEVICE] = {cmd_query_device, 8, NULL, NULL},
	[IB_USER_VERBS_CMD_QUERY_PORT] = {cmd_query_port, 16, NULL, NULL},
	[IB_USER_VERBS_CMD_ALLOC_PD] = {cmd_alloc_pd, 8, NULL, NULL},
	[IB_USER_VERBS_CMD_DEALLOC_PD] = {cmd_dealloc_pd, 4, NULL, NULL},
	[IB_USER_VERBS_CMD_CREATE_AH] = {cmd_create_ah, 56, NULL, NULL},
	[IB_USER_VERBS_CMD_DESTROY_AH] = {cmd_destroy_ah, 4, NULL, NULL},
	[IB_USER_VERBS_CMD_REG_MR] = {cmd_reg_mr, 40, check_reg_mr, NULL},
	[IB_USER_VERBS_CMD_REREG_MR] = {cmd_rereg_mr, 48, NULL, NULL},
	[IB_USER_VERBS_CMD_DEREG_MR] = {cmd_dereg_mr, 4, NULL, NULL},
	[IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL] = {cmd_create_comp_channel, 8, NULL, NULL},
	[IB_USER_VERBS_CMD_CREATE_CQ] = {cmd_create_cq, 32, prepare_create_cq, NULL},
	[IB_USER_VERBS_CMD_RESIZE_CQ] = {cmd_resize_cq, 16, prepare_resize_cq, NULL},
	[IB_USER_VERBS_EX_CMD_MODIFY_CQ] = {cmd_modify_cq, 16, NULL, NULL},
	[IB_USER_VERBS_CMD_DESTROY_CQ] = {cmd_destroy_cq, 16, NULL, NULL},
	[IB_USER_VERBS_CMD_CREATE_QP] = {cmd_create_qp, 56, prepare_create_qp, NULL},
	[IB_USER_VERBS_CMD_QUERY_QP] = {cmd_query_qp, 16, NULL, NULL},
	[IB_USER_VERBS_CMD_MODIFY_QP] = {cmd_modify_qp, 112, find_doorbells, finish_modify_qp},
	[IB_USER_VERBS_CMD_DESTROY_QP] = {cmd_destroy_qp, 16, NULL, NULL},
	[IB_USER_VERBS_CMD_CREATE_SRQ] = {cmd_create_srq, 32, prepare_create_srq, NULL},
	[IB_USER_VERBS_CMD_MODIFY_SRQ] = {cmd_modify_srq, 16, NULL, NULL},
	[IB_USER_VERBS_CMD_QUERY_SRQ] = {cmd_query_srq, 16, NULL, NULL},
	[IB_USER_VERBS_CMD_DESTROY_SRQ] = {cmd_destroy_srq, 16, NULL, NULL},
};

static void leave_pool(const struct cmd *c)
{
	pool_leave(c->buf.at, c->buf.shift);
	pool_leave(c->dbrec.at, c->dbrec.shift);
}

static int run_command(struct cmd *c, uint64_t number)
{
	const struct command *k;
	uint64_t n = number & IB_USER_VERBS_CMD_COMMAND_MASK;
	sigset_t saved;
	int r;

	c->extended = number & IB_USER_VERBS_CMD_FLAG_EXTENDED;
	if (n >= sizeof(commands) / sizeof(commands[0]) || !commands[n].run)
		return -EOPNOTSUPP;
	k = &commands[n];
	/* libibverbs probes the interface with an empty command; the kernel returns ENOSPC. */
	if (c->in.len < k->min_in)
		return -ENOSPC;
	if (c->u->ctx == NO_INDEX && n != IB_USER_VERBS_CMD_GET_CONTEXT)
		return -EINVAL;
	r = k->before ? k->before(c) : 0;
	if (r) {
		leave_pool(c);
		return r;
	}
	if (fabric_enter(&saved)) {
		leave_pool(c);
		return -EIO;
	}
	r = k->run(c);
	fabric_leave(&saved);
	leave_pool(c);
	return !r && k->after ? k->after(c) : r;
}

/* An input of up to 8 bytes is in the attribute itself. Outputs are never in the attribute. */
static struct span attr_span(struct ib_uverbs_attr *a, bool output)
{
	struct span s = {(void *)(uintptr_t)a->data, a->len};

	if (!output && a->len <= sizeof(a->data))
		s.p = &a->data;
	return s;
}

static int invoke_write(struct uctx *u, struct ib_uverbs_ioctl_hdr *h)
{
	struct cmd c = {.u = u};
	uint64_t number = UINT64_MAX;

	for (unsigned i = 0; i < h->num_attrs; i++) {
		struct ib_uverbs_attr *a = &h->attrs[i];

		switch (a->attr_id) {
		case UVERBS_ATTR_CORE_IN:
			c.in = attr_span(a, false);
			break;
		case UVERBS_ATTR_CORE_OUT:
			c.out = attr_span(a, true);
			break;
		case UVERBS_ATTR_WRITE_CMD:
			number = a->data;
			break;
		case UVERBS_ATTR_UHW_IN:
			c.drv_in = attr_span(a, false);
			break;
		case UVERBS_ATTR_UHW_OUT:
			c.drv_out = attr_span(a, true);
			break;
		default:
			if (a->flags & UVERBS_ATTR_F_MANDATORY)
				return -EPROTONOSUPPORT;
		}
	}
	return number == UINT64_MAX ? -EINVAL : run_command(&c, number);
}

int uverbs_ioctl(struct uctx *u, unsigned long request, void *arg)
{
	struct ib_uverbs_ioctl_hdr *h = arg;

	if (request != RDMA_VERBS_IOCTL)
		return -ENOTTY;
	if (h->length != sizeof(*h) + h->num_attrs * sizeof(h->attrs[0]))
		return -EINVAL;
	if (h->object_id == UVERBS_OBJECT_DEVICE && h->method_id == UVERBS_METHOD_INVOKE_WRITE)
		return invoke_write(u, h);
	if (h->object_id == UVERBS_OBJECT_MR && h->method_id == UVERBS_METHOD_REG_DMABUF_MR)
		return cmd_reg_dmabuf_mr(u, h);
	if (h->object_id == MLX5_IB_OBJECT_UAR)
		return uar_ioctl(u, h);
	return -EPROTONOSUPPORT;
}
