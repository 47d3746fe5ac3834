/* SPDX-License-Identifier: MIT */
/* The commands that change an id. */
#include "ucma/commands.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "cm/cm.h"
#include "cm/ids.h"
#include "cm/remote.h"
#include "dma/dma.h"
#include "hca/objects.h"
#include "pump/pump.h"
#include "sys/fds.h"
#include "sys/sys.h"
#include "ucma/watch.h"

#define EVENT_COMM_EST 4 /* IBV_EVENT_COMM_EST */
#define V6_LEN 28 /* of a struct sockaddr_in6 */

/*
 * The type of a QP follows from the port space, except for RDMA_PS_IB, where the program sets it.
 */
static int qp_type_of(const struct rdma_ucm_create_id *req, uint32_t *type_p)
{
	switch (req->ps) {
	case RDMA_PS_TCP:
		*type_p = QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*type_p = QPT_UD;
		return 0;
	case RDMA_PS_IB:
		*type_p = req->qp_type;
		return 0;
	default:
		return -EINVAL;
	}
}

int ucma_create_id(struct ucma_cmd *c)
{
	const struct rdma_ucm_create_id *req = c->in;
	struct rdma_ucm_create_id_resp resp;
	struct cm_id *id;
	sigset_t saved;
	uint32_t type;
	int r;

	if (fabric_enter(&saved))
		return -EIO;
	r = qp_type_of(req, &type);
	if (r)
		return ucma_leave(&saved, r);
	r = cm_alloc(fabric_self.slot, c->fifo, &id);
	if (r)
		return ucma_leave(&saved, r);
	id->uid = req->uid;
	id->ps = req->ps;
	id->qp_type = type;
	cm_publish(id);
	resp.id = cm_index(id);
	r = ucma_answer(c, req->response, &resp, sizeof(resp));
	if (r)
		cm_free(id); /* the program does not get its number */
	return ucma_leave(&saved, r);
}

int ucma_destroy_id(struct ucma_cmd *c, struct cm_id *id)
{
	const struct rdma_ucm_destroy_id *req = c->in;
	struct rdma_ucm_destroy_id_resp resp = {.events_reported = id->events};

	cm_destroy(id);
	return ucma_answer(c, req->response, &resp, sizeof(resp));
}

static int bind_addr(struct ucma_cmd *c, uint32_t index, const void *sockaddr, size_t len)
{
	struct cm_place place;
	struct cm_addr addr;
	struct cm_id *id;
	sigset_t saved;
	bool any;
	int r = cm_addr_decode(sockaddr, len, &addr);

	if (r)
		return r;
	any = cm_addr_any(&addr);
	if (!any)
		r = cm_addr_place(&addr, &place);
	if (!r)
		r = ucma_enter(c, index, &saved, &id);
	if (r)
		return r;
	r = cm_bind(id, &addr, any ? NULL : &place);
	return ucma_leave(&saved, r);
}

int ucma_bind_ip(struct ucma_cmd *c)
{
	const struct rdma_ucm_bind_ip *req = c->in;

	return bind_addr(c, req->id, &req->addr, V6_LEN);
}

/* Checks that the length that the program has passed is that of the address's family. */
static int check_len(const void *sockaddr, uint16_t len)
{
	struct cm_addr addr;

	return len <= sizeof(struct __kernel_sockaddr_storage) ?
		       cm_addr_decode(sockaddr, len, &addr) :
		       -EINVAL;
}

int ucma_bind(struct ucma_cmd *c)
{
	const struct rdma_ucm_bind *req = c->in;
	int r = check_len(&req->addr, req->addr_size);

	if (r || req->reserved)
		return r ? r : -EINVAL;
	return bind_addr(c, req->id, &req->addr, req->addr_size);
}

static void print_ip(const struct cm_addr *addr, char ip[INET6_ADDRSTRLEN])
{
	bool v4 = addr->family == AF_INET;

	inet_ntop(v4 ? AF_INET : AF_INET6, addr->ip + (v4 ? 12 : 0), ip, INET6_ADDRSTRLEN);
}

/* Prints the reason, because the program gets only the event ADDR_ERROR. */
static void say_unknown(const struct cm_addr *addr, const struct cm_addr *source)
{
	char ip[INET6_ADDRSTRLEN], from[INET6_ADDRSTRLEN], why[INET6_ADDRSTRLEN + 80] = "";
	char line[sizeof(ip) + sizeof(why) + 160];
	int n;

	print_ip(addr, ip);
	if (!cm_addr_any(source)) {
		print_ip(source, from);
		snprintf(why, sizeof(why),
			": the route to it begins at %s, which no adapter has; bind the id", from);
	}
	n = snprintf(line, sizeof(line),
		"softhca: rdma_cm: %s is no address of this host or of an adapter of this fabric, and no adapter "
		"with udp=on reaches it%s\n",
		ip, why);
	sys_write(2, line, (size_t)n);
}

/*
 * Finds the path to an address outside this fabric. *away_p: set to true if there is such a path.
 */
static int find_path(struct ucma_cmd *c, uint32_t index, const struct cm_addr *to,
	struct remote_path *path, bool *away_p)
{
	struct cm_place bound;
	struct cm_id *id;
	sigset_t saved;
	int r = ucma_enter(c, index, &saved, &id);

	if (r)
		return r;
	bound = (struct cm_place){id->rail, id->gid};
	ucma_leave(&saved, 0);
	*away_p = !remote_find(to, bound.rail == NO_INDEX ? NULL : &bound, path);
	return 0;
}

/* As on Linux, an id that is bound already keeps its address, whatever the command says. */
static int bind_source(struct ucma_cmd *c, uint32_t index, const void *sockaddr, size_t len)
{
	struct cm_id *id;
	sigset_t saved;
	bool idle;
	int r = ucma_enter(c, index, &saved, &id);

	if (r)
		return r;
	idle = id->state == CM_IDLE;
	ucma_leave(&saved, 0);
	return idle ? bind_addr(c, index, sockaddr, len) : 0;
}

/* @src: if there is no source address, its length or family is 0. */
static int resolve(struct ucma_cmd *c, uint32_t index, const void *src, size_t src_len,
	const void *dst, size_t dst_len)
{
	struct remote_path path = {.src = {.family = AF_UNSPEC}};
	struct cm_place place;
	struct cm_addr to;
	struct cm_id *id;
	sigset_t saved;
	bool here, away = false;
	int r = cm_addr_decode(dst, dst_len, &to);

	if (!r && cm_addr_any(&to))
		r = -EINVAL;
	if (!r && src_len && *(const uint16_t *)src)
		r = bind_source(c, index, src, src_len);
	if (r)
		return r;
	here = !cm_addr_place(&to, &place);
	if (!here)
		r = find_path(c, index, &to, &path, &away);
	if (!r)
		r = ucma_enter(c, index, &saved, &id);
	if (r)
		return r;
	r = ucma_leave(&saved, cm_resolve_addr(id, &to, here ? &place : NULL, away ? &path : NULL));
	if (!r && !here && !away)
		say_unknown(&to, &path.src);
	return r;
}

int ucma_resolve_ip(struct ucma_cmd *c)
{
	const struct rdma_ucm_resolve_ip *req = c->in;

	return resolve(c, req->id, &req->src_addr, V6_LEN, &req->dst_addr, V6_LEN);
}

int ucma_resolve_addr(struct ucma_cmd *c)
{
	const struct rdma_ucm_resolve_addr *req = c->in;
	int r = check_len(&req->dst_addr, req->dst_size);

	if (!r && req->src_size)
		r = check_len(&req->src_addr, req->src_size);
	if (r || req->reserved)
		return r ? r : -EINVAL;
	return resolve(c, req->id, &req->src_addr, req->src_size, &req->dst_addr, req->dst_size);
}

int ucma_resolve_route(struct ucma_cmd *c, struct cm_id *id)
{
	return cm_resolve_route(id);
}

static uint8_t min7(uint8_t n)
{
	return n < 7 ? n : 7;
}

static void get_param(const struct rdma_ucm_conn_param *from, const struct rdma_ucm_ece *ece,
	struct cm_param *p)
{
	*p = (struct cm_param){
		.qpn = from->qp_num & 0xffffff,
		.ece_vendor = ece->vendor_id,
		.ece_options = ece->attr_mod,
		.srq = from->srq,
		.responder_resources = from->responder_resources,
		.initiator_depth = from->initiator_depth,
		.flow_control = from->flow_control,
		.retry_count = min7(from->retry_count),
		.rnr_retry_count = min7(from->rnr_retry_count),
		.data_len = from->private_data_len,
	};
	memcpy(p->data, from->private_data, from->private_data_len);
}

/*
 * Makes this process receive messages of other fabrics, if the id may get any. Must be called
 * before the first message is sent.
 */
static int receive_from_others(const struct ucma_cmd *c, uint32_t index)
{
	struct cm_id *id;
	sigset_t saved;
	bool receives;
	int r = ucma_enter(c, index, &saved, &id);

	if (r)
		return r;
	receives = remote_receives(id);
	ucma_leave(&saved, 0);
	return receives ? pump_start() : 0;
}

int ucma_connect(struct ucma_cmd *c)
{
	const struct rdma_ucm_connect *req = c->in;
	struct cm_param p;
	struct cm_id *id;
	sigset_t saved;
	uint32_t peer;
	int r;

	if (!req->conn_param.valid)
		return -EINVAL;
	get_param(&req->conn_param, &req->ece, &p);
	r = receive_from_others(c, req->id);
	if (!r)
		r = ucma_enter(c, req->id, &saved, &id);
	if (r)
		return r;
	r = cm_connect(id, &p);
	peer = cm_peer_slot(id);
	ucma_leave(&saved, r);
	if (!r)
		watch(peer);
	return r;
}

static int listen_with(struct cm_id *id, int32_t backlog)
{
	static const struct cm_addr any = {.family = AF_INET, .ip = {[10] = 0xff, [11] = 0xff}};
	int r = id->state == CM_IDLE ? cm_bind(id, &any, NULL) : 0;

	return r ? r : cm_listen(id, backlog > 0 ? (uint32_t)backlog : 0);
}

int ucma_listen(struct ucma_cmd *c)
{
	const struct rdma_ucm_listen *req = c->in;
	struct cm_id *id;
	sigset_t saved;
	int r = ucma_enter(c, req->id, &saved, &id);

	if (!r)
		r = ucma_leave(&saved, listen_with(id, (int32_t)req->backlog));
	return r ? r : receive_from_others(c, req->id);
}

int ucma_accept(struct ucma_cmd *c, struct cm_id *id)
{
	const struct rdma_ucm_accept *req = c->in;
	struct cm_param p;

	get_param(&req->conn_param, &req->ece, &p);
	return cm_accept(id, req->conn_param.valid ? &p : NULL, req->uid);
}

int ucma_reject(struct ucma_cmd *c, struct cm_id *id)
{
	const struct rdma_ucm_reject *req = c->in;

	return cm_reject(id, req->private_data, req->private_data_len, req->reason);
}

int ucma_disconnect(struct ucma_cmd *c, struct cm_id *id)
{
	return cm_disconnect(id);
}

int ucma_notify(struct ucma_cmd *c, struct cm_id *id)
{
	const struct rdma_ucm_notify *req = c->in;

	return req->event == EVENT_COMM_EST ? cm_established(id) : -EINVAL;
}

static int set_id_option(struct cm_id *id, uint32_t name, const uint8_t *value, uint32_t len)
{
	uint32_t flag = 0;

	if (len == sizeof(flag))
		memcpy(&flag, value, sizeof(flag));
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		if (len != 1)
			return -EINVAL;
		id->tos = value[0];
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (len != 1 || value[0] > 31)
			return -EINVAL;
		id->ack_timeout = value[0];
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		if (len != sizeof(flag))
			return -EINVAL;
		id->reuse_addr = flag != 0;
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		if (len != sizeof(flag) || id->state != CM_IDLE)
			return -EINVAL;
		id->v6_only = flag != 0;
		return 0;
	default:
		return -ENOSYS;
	}
}

/* The level RDMA_OPTION_IB is not supported: its only option sets a path. */
int ucma_set_option(struct ucma_cmd *c)
{
	const struct rdma_ucm_set_option *req = c->in;
	uint8_t value[4] = {0};
	struct cm_id *id;
	sigset_t saved;
	int r;

	if (req->level != RDMA_OPTION_ID)
		return -ENOSYS;
	if (!req->optlen || req->optlen > sizeof(value))
		return -EINVAL;
	r = dma_read(fabric_self.slot, req->optval, value, req->optlen);
	if (!r)
		r = ucma_enter(c, req->id, &saved, &id);
	if (r)
		return r;
	r = set_id_option(id, req->optname, value, req->optlen);
	return ucma_leave(&saved, r);
}

/* The command contains the descriptor of the id's present event channel. */
int ucma_migrate_id(struct ucma_cmd *c)
{
	const struct rdma_ucm_migrate_id *req = c->in;
	struct fd_entry from = fds_get((int)req->fd);
	struct rdma_ucm_migrate_resp resp;
	struct cm_id *id;
	sigset_t saved;
	int r;

	if (from.kind != FD_CM)
		return -EINVAL;
	if (fabric_enter(&saved))
		return -EIO;
	r = cm_find(req->id, from.value, &id);
	if (r)
		return ucma_leave(&saved, r);
	cm_move(id, c->fifo);
	resp.events_reported = id->events;
	r = ucma_answer(c, req->response, &resp, sizeof(resp));
	return ucma_leave(&saved, r);
}
