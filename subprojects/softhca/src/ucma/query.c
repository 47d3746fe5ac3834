/* SPDX-License-Identifier: MIT */
/* The commands that return data of an id: addresses, paths, QP attributes, events. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cm/cm.h"
#include "cm/ids.h"
#include "cm/path.h"
#include "sys/fds.h"
#include "sys/sys.h"
#include "ucma/commands.h"
#include "ucma/watch.h"

#define PORT 1

static uint64_t node_guid(const struct cm_id *id)
{
	return htobe64(arena()->topo.rails[id->rail].guid);
}

static void fill_route(const struct cm_id *id, struct rdma_ucm_query_route_resp *resp)
{
	cm_addr_encode(&id->src, &resp->src_addr);
	cm_addr_encode(&id->dst, &resp->dst_addr);
	if (id->rail == NO_INDEX)
		return;
	resp->node_guid = node_guid(id);
	resp->port_num = PORT;
	resp->ibdev_index = id->rail;
	if (cm_has_path(id)) {
		cm_path_unpacked(id, &resp->ib_route[0]);
		/*
		 * As in the kernel, there is no path until the route is resolved, even if both ends
		 * are known.
		 */
		resp->num_paths = id->state == CM_ADDR_RESOLVED ? 0 : 1;
	} else {
		memcpy(resp->ib_route[0].sgid, cm_src_gid(id), 16);
		resp->ib_route[0].pkey = htobe16(cm_pkey(id));
	}
}

int ucma_query_route(struct ucma_cmd *c)
{
	const struct rdma_ucm_query *req = c->in;
	struct rdma_ucm_query_route_resp resp = {0};
	struct cm_id *id;
	sigset_t saved;
	int r = ucma_enter(c, req->id, &saved, &id);

	if (r)
		return r;
	fill_route(id, &resp);
	ucma_leave(&saved, 0);
	return ucma_answer(c, req->response, &resp, sizeof(resp));
}

static void fill_device(const struct cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	if (id->rail == NO_INDEX)
		return;
	resp->node_guid = node_guid(id);
	resp->port_num = PORT;
	resp->pkey = htobe16(cm_pkey(id));
	resp->ibdev_index = id->rail;
}

static void fill_addr(const struct cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	fill_device(id, resp);
	resp->src_size = (uint16_t)cm_addr_encode(&id->src, &resp->src_addr);
	resp->dst_size = (uint16_t)cm_addr_encode(&id->dst, &resp->dst_addr);
}

static struct cm_sockaddr_ib ib_addr(const struct cm_id *id, const uint8_t *gid, uint16_t port)
{
	struct cm_sockaddr_ib sa = {.family = CM_AF_IB,
		.pkey = htobe16(cm_pkey(id)),
		.service_id = htobe64((uint64_t)id->ps << 16 | port),
		.service_mask = UINT64_MAX};

	if (gid)
		memcpy(sa.addr, gid, sizeof(sa.addr));
	return sa;
}

static void fill_gid(const struct cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	struct cm_sockaddr_ib src = ib_addr(id, cm_src_gid(id), id->src.port);
	struct cm_sockaddr_ib dst = ib_addr(id, cm_dst_gid(id), id->dst.port);

	fill_device(id, resp);
	resp->src_size = sizeof(src);
	resp->dst_size = sizeof(dst);
	memcpy(&resp->src_addr, &src, sizeof(src));
	memcpy(&resp->dst_addr, &dst, sizeof(dst));
}

/*
 * The answer with one path. A path that does not exist, or for which the program has no room, is
 * left out.
 */
union one_path {
	struct rdma_ucm_query_path_resp head;
	char bytes[sizeof(struct rdma_ucm_query_path_resp) + sizeof(struct ib_path_rec_data)];
};

static size_t fill_path(const struct cm_id *id, uint32_t room, union one_path *resp)
{
	if (!cm_has_path(id) || id->state == CM_ADDR_RESOLVED || room < sizeof(*resp))
		return sizeof(resp->head);
	resp->head.num_paths = 1;
	cm_path_packed(id, &resp->head.path_data[0]);
	return sizeof(*resp);
}

int ucma_query(struct ucma_cmd *c)
{
	const struct rdma_ucm_query *req = c->in;
	union {
		struct rdma_ucm_query_addr_resp addr;
		union one_path path;
	} resp = {0};
	size_t len;
	struct cm_id *id;
	sigset_t saved;
	int r;

	if (req->option != RDMA_USER_CM_QUERY_PATH &&
		c->out_len < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
		return -ENOSPC;
	r = ucma_enter(c, req->id, &saved, &id);
	if (r)
		return r;
	len = sizeof(resp.addr);
	if (req->option == RDMA_USER_CM_QUERY_ADDR)
		fill_addr(id, &resp.addr);
	else if (req->option == RDMA_USER_CM_QUERY_GID)
		fill_gid(id, &resp.addr);
	else if (req->option == RDMA_USER_CM_QUERY_PATH)
		len = fill_path(id, c->out_len, &resp.path);
	else
		r = -ENOSYS;
	ucma_leave(&saved, r);
	return r ? r : ucma_answer(c, req->response, &resp, len);
}

int ucma_init_qp_attr(struct ucma_cmd *c)
{
	const struct rdma_ucm_init_qp_attr *req = c->in;
	struct ib_uverbs_qp_attr resp;
	struct cm_id *id;
	sigset_t saved;
	int r = ucma_enter(c, req->id, &saved, &id);

	if (!r)
		r = ucma_leave(&saved, cm_qp_attr(id, req->qp_state, &resp));
	return r ? r : ucma_answer(c, req->response, &resp, sizeof(resp));
}

static void put_conn(const struct cm_param *p, struct rdma_ucm_conn_param *to)
{
	to->qp_num = p->qpn;
	to->private_data_len = p->data_len;
	memcpy(to->private_data, p->data, p->data_len);
	to->srq = p->srq;
	/* The resources of one end limit the requests of the other. */
	to->responder_resources = p->initiator_depth;
	to->initiator_depth = p->responder_resources;
	to->flow_control = p->flow_control;
	to->retry_count = p->retry_count;
	to->rnr_retry_count = p->rnr_retry_count;
}

static void put_ud(const struct cm_id *id, bool with_qp, struct rdma_ucm_ud_param *to)
{
	const struct cm_param *p = &id->remote;

	to->private_data_len = p->data_len;
	memcpy(to->private_data, p->data, p->data_len);
	if (!with_qp)
		return;
	to->qp_num = p->qpn;
	to->qkey = p->qkey;
	cm_ah_attr(id, &to->ah_attr);
}

/*
 * Fills in the event for the program. A request is an event of the listening id; the event contains
 * the new id of the request.
 */
static void fill_event(struct cm_id *id, const struct cm_event *e, struct rdma_ucm_event_resp *resp)
{
	bool request = e->type == CM_EV_CONNECT_REQUEST;
	struct cm_id *told = request ? cm_linked(id->listener) : id;

	resp->uid = told->uid;
	resp->id = cm_index(id);
	resp->event = e->type;
	resp->status = (uint32_t)e->status;
	told->events++;
	if (!e->has_param)
		return;
	if (cm_is_ud(id))
		put_ud(id, !request, &resp->param.ud);
	else
		put_conn(&id->remote, &resp->param.conn);
	resp->ece.vendor_id = id->remote.ece_vendor;
	resp->ece.attr_mod = id->remote.ece_options;
}

/*
 * All readers of the FIFO hold the mutex, so a read does not block if this function has found an
 * event.
 */
static bool is_event_there(int fd)
{
	int bytes = 0;

	SYS(SYS_ioctl, fd, FIONREAD, &bytes);
	return bytes >= (int)sizeof(struct cm_event);
}

/* Fills the channel if it is empty. Returns true if it has an event then. */
static bool fill_up(const struct ucma_cmd *c)
{
	if (is_event_there(c->fd))
		return true;
	cm_refill(c->fifo);
	return is_event_there(c->fd);
}

/*
 * Returns the id of an event that is to be reported to the program, or NULL. Events of a request
 * that the program has not accepted are not reported, because librdmacm has not set the id's `uid`
 * yet. Programs can write to the FIFO without this library's write(), so @e is checked.
 */
static struct cm_id *id_to_tell(const struct cm_event *e, uint64_t fifo)
{
	struct cm_id *id;

	if (e->id < FIRST_CM_ID || e->id >= arena()->cm_high)
		return NULL;
	id = cm_at((uint32_t)e->id);
	if (!id->used || id->owner != fabric_self.slot || id->fifo != fifo)
		return NULL;
	if (e->type == CM_EV_CONNECT_REQUEST)
		return id->unread && cm_linked(id->listener) ? id : NULL;
	return id->uid && !id->unread ? id : NULL;
}

/*
 * Reads an event. *@peer_p: slot of the id's peer. Returns 0; -EAGAIN: there is no event; -EBADF:
 * the channel is closed, and the descriptor may belong to another file.
 */
static int take(const struct ucma_cmd *c, struct rdma_ucm_event_resp *resp, uint32_t *peer_p)
{
	struct cm_event e;
	struct cm_id *id;

	/* close() drops the entry of sys/fds.h before it takes the mutex and closes the channel. */
	if (fds_get(c->fd).value != c->fifo)
		return -EBADF;
	do {
		if (!fill_up(c) || sys_read(c->fd, &e, sizeof(e)) != sizeof(e))
			return -EAGAIN;
		fill_up(c); /* for programs that call poll() */
		id = id_to_tell(&e, c->fifo);
	} while (!id);
	fill_event(id, &e, resp);
	id->unread = 0;
	*peer_p = cm_peer_slot(id);
	return 0;
}

/*
 * Waits for an event, with libc's functions, because they are cancellation points: programs cancel
 * threads that wait. As in the kernel, the wait does not end if another thread closes the channel:
 * no event arrives any more, and only a signal ends the wait.
 */
static int wait_for_event(int fd, bool closed)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if ((closed ? pause() : poll(&p, 1, -1)) < 0)
		return -errno;
	return 0;
}

int ucma_get_event(struct ucma_cmd *c)
{
	const struct rdma_ucm_get_event *req = c->in;
	struct rdma_ucm_event_resp resp = {0};
	bool waits = !(sys_fcntl(c->fd, F_GETFL, NULL) & O_NONBLOCK);
	uint32_t peer;
	sigset_t saved;
	int r;

	for (;;) {
		if (fabric_enter(&saved))
			return -EIO;
		r = take(c, &resp, &peer);
		fabric_leave(&saved);
		if (!r)
			watch(peer);
		if (!r)
			return ucma_answer(c, req->response, &resp, sizeof(resp));
		if (waits)
			r = wait_for_event(c->fd, r == -EBADF);
		if (r)
			return r;
	}
}
