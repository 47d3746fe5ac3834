/* SPDX-License-Identifier: MIT */
#include "ucma/ucma.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>

#include "cm/cm.h"
#include "dma/dma.h"
#include "hca/event.h"
#include "member/member.h"
#include "sched/sched.h"
#include "sys/sys.h"
#include "trap/signals.h"
#include "ucma/commands.h"
#include "ucma/watch.h"

/*
 * @in: size of the ABI's structure; @min_in: smallest size that a program may pass (later ABIs
 * added fields at the end of some structures); @min_out: size of the shortest answer.
 */
static const struct command {
	int (*run)(struct ucma_cmd *c);
	int (*act)(struct ucma_cmd *c, struct cm_id *id); /* used if run is NULL; under the mutex */
	uint16_t id_at; /* with act: offset of the id's number in the command */
	uint16_t in, min_in, min_out;
} commands[] = {
#define RUN(fn, type) fn, NULL, 0, sizeof(type), sizeof(type)
#define ACT(fn, type) NULL, fn, offsetof(type, id), sizeof(type), sizeof(type)
	[RDMA_USER_CM_CMD_CREATE_ID] = {RUN(ucma_create_id, struct rdma_ucm_create_id),
		sizeof(struct rdma_ucm_create_id_resp)},
	[RDMA_USER_CM_CMD_DESTROY_ID] = {ACT(ucma_destroy_id, struct rdma_ucm_destroy_id),
		sizeof(struct rdma_ucm_destroy_id_resp)},
	[RDMA_USER_CM_CMD_BIND_IP] = {RUN(ucma_bind_ip, struct rdma_ucm_bind_ip), 0},
	[RDMA_USER_CM_CMD_BIND] = {RUN(ucma_bind, struct rdma_ucm_bind), 0},
	[RDMA_USER_CM_CMD_RESOLVE_IP] = {RUN(ucma_resolve_ip, struct rdma_ucm_resolve_ip), 0},
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] = {RUN(ucma_resolve_addr, struct rdma_ucm_resolve_addr), 0},
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = {ACT(ucma_resolve_route, struct rdma_ucm_resolve_route),
		0},
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = {RUN(ucma_query_route, struct rdma_ucm_query),
		offsetof(struct rdma_ucm_query_route_resp, ibdev_index)},
	[RDMA_USER_CM_CMD_QUERY] = {RUN(ucma_query, struct rdma_ucm_query),
		sizeof(struct rdma_ucm_query_path_resp)},
	[RDMA_USER_CM_CMD_CONNECT] = {ucma_connect, NULL, 0, sizeof(struct rdma_ucm_connect),
		offsetof(struct rdma_ucm_connect, ece), 0},
	[RDMA_USER_CM_CMD_LISTEN] = {RUN(ucma_listen, struct rdma_ucm_listen), 0},
	[RDMA_USER_CM_CMD_ACCEPT] = {NULL, ucma_accept, offsetof(struct rdma_ucm_accept, id),
		sizeof(struct rdma_ucm_accept), offsetof(struct rdma_ucm_accept, ece), 0},
	[RDMA_USER_CM_CMD_REJECT] = {ACT(ucma_reject, struct rdma_ucm_reject), 0},
	[RDMA_USER_CM_CMD_DISCONNECT] = {ACT(ucma_disconnect, struct rdma_ucm_disconnect), 0},
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = {RUN(ucma_init_qp_attr, struct rdma_ucm_init_qp_attr),
		sizeof(struct ib_uverbs_qp_attr)},
	[RDMA_USER_CM_CMD_GET_EVENT] = {RUN(ucma_get_event, struct rdma_ucm_get_event),
		offsetof(struct rdma_ucm_event_resp, reserved)},
	[RDMA_USER_CM_CMD_SET_OPTION] = {RUN(ucma_set_option, struct rdma_ucm_set_option), 0},
	[RDMA_USER_CM_CMD_NOTIFY] = {ACT(ucma_notify, struct rdma_ucm_notify), 0},
	[RDMA_USER_CM_CMD_MIGRATE_ID] = {RUN(ucma_migrate_id, struct rdma_ucm_migrate_id),
		sizeof(struct rdma_ucm_migrate_resp)},
#undef RUN
#undef ACT
};

union input {
	struct rdma_ucm_resolve_addr resolve;
	struct rdma_ucm_connect connect;
	struct rdma_ucm_accept accept;
	struct rdma_ucm_reject reject;
};

/* The FIFO itself is the program's descriptor, so that poll() and O_NONBLOCK work as usual. */
static int make_channel(int flags)
{
	uint64_t fifo;
	int fd = fifo_create(&fifo), r = 0;

	if (fd < 0)
		return fd;
	if (!(flags & O_CLOEXEC))
		r = sys_fcntl(fd, F_SETFD, NULL);
	if (!r && flags & O_NONBLOCK)
		r = sys_fcntl(fd, F_SETFL, (void *)(uintptr_t)(O_RDWR | O_NONBLOCK));
	if (!r)
		r = fds_set(fd, FD_CM, fifo);
	if (!r)
		return fd;
	fifo_remove(fifo);
	sys_close(fd);
	return r;
}

int ucma_open(int flags)
{
	int fd, r = member_attach();
	sigset_t saved;

	if (r)
		return r;
	/*
	 * With these handlers, a wrong address is an error of the command and does not end the
	 * program.
	 */
	signals_install();
	r = sched_start(); /* the thread posts the event of a message when the message arrives */
	if (r)
		return r;
	if (fabric_enter(&saved))
		return -EIO;
	fd = make_channel(flags);
	fabric_leave(&saved);
	return fd;
}

bool ucma_is_channel(int fd)
{
	return fds_get(fd).kind == FD_CM;
}

void ucma_close(const struct fd_entry *e)
{
	sigset_t saved;

	/*
	 * If this thread loses the mutex below, fabric_enter() returns again, with an error, and
	 * the loop takes the mutex again. Steps that are repeated do nothing.
	 */
	while (fabric_enter(&saved))
		;
	cm_close_channel(e->value);
	fabric_leave(&saved);
}

void ucma_forget(void)
{
	watch_forget();
}

static int act(const struct command *k, struct ucma_cmd *c)
{
	struct cm_id *id;
	sigset_t saved;
	uint32_t number;
	int r;

	memcpy(&number, (const char *)c->in + k->id_at, sizeof(number));
	r = ucma_enter(c, number, &saved, &id);
	return r ? r : ucma_leave(&saved, k->act(c, id));
}

static int run(struct ucma_cmd *c, uint64_t buf, size_t len)
{
	const struct command *k;
	struct rdma_ucm_cmd_hdr h;
	union input in = {0};
	int r;

	/* A channel without a FIFO belongs to the parent of this process. */
	if (len < sizeof(h) || !c->fifo)
		return -EINVAL;
	r = dma_read(fabric_self.slot, buf, &h, sizeof(h));
	if (r)
		return r;
	if (h.in > len - sizeof(h) || h.cmd >= sizeof(commands) / sizeof(commands[0]))
		return -EINVAL;
	k = &commands[h.cmd];
	if (!k->run && !k->act)
		return -ENOSYS;
	if (h.in < k->min_in)
		return -EINVAL;
	if (h.out < k->min_out)
		return -ENOSPC;
	r = dma_read(fabric_self.slot, buf + sizeof(h), &in, h.in < k->in ? h.in : k->in);
	if (r)
		return r;
	c->in = &in;
	c->out_len = h.out;
	return k->act ? act(k, c) : k->run(c);
}

ssize_t ucma_write(int fd, const void *buf, size_t len)
{
	struct ucma_cmd c = {.fd = fd, .fifo = fds_get(fd).value};
	int r = run(&c, (uint64_t)(uintptr_t)buf, len);

	return r ? r : (ssize_t)len;
}
