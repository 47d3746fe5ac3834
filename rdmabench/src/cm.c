/* SPDX-License-Identifier: MIT */
#include "cm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

#ifdef HAVE_RDMACM
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/tcp.h"

#define MAGIC 0x434d4452u /* "RDMC" */

/* The private data of a request, little-endian. */
struct wish {
	uint32_t magic;
	uint32_t qpn; /* of the server's QP */
};

struct cm_side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener; /* NULL: client */
	struct rdma_cm_id **ids; /* of the QPs, in the order of their connections */
	uint32_t n, established;
	uint64_t limit_ns;
};

static int said(char *why, const char *what, int err)
{
	return fail(why, WIRE_TEXT_MAX, err, "rdma_cm: %s: %s", what, strerror(-err));
}

static int open_channel(struct side *s, uint32_t qps, char *why)
{
	struct cm_side *c = s->cm.state = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->ids = calloc(qps, sizeof(struct rdma_cm_id *));
	c->channel = rdma_create_event_channel();
	if (!c->ids || !c->channel || fcntl(c->channel->fd, F_SETFL, O_NONBLOCK))
		return said(why, "no channel of events", c->ids ? -errno : -ENOMEM);
	return 0;
}

/* Waits for the next event. The caller acknowledges it. */
static int next_event(struct cm_side *c, struct rdma_cm_event **event_p)
{
	while (rdma_get_cm_event(c->channel, event_p)) {
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (tcp_wait(c->channel->fd, POLLIN, c->limit_ns))
			return -ETIMEDOUT;
	}
	return 0;
}

/* Waits for an event of this kind; another one is an error. */
static int expect(struct cm_side *c, enum rdma_cm_event_type kind, char *why)
{
	struct rdma_cm_event *event;
	int err = next_event(c, &event);
	enum rdma_cm_event_type got;

	if (err)
		return said(why, "no answer", err);
	got = event->event;
	err = event->status < 0 ? event->status : -ECONNREFUSED;
	rdma_ack_cm_event(event);
	return got == kind ? 0 : said(why, rdma_event_str(got), err);
}

/* Connects the QP along the path that rdma_cm has found. */
static int connect_qp(struct flow *f, struct rdma_cm_id *id, const struct mlx5dvl_qp_info *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct mlx5dvl_qp_info theirs = *peer;
	int mask;

	if (rdma_init_qp_attr(id, &attr, &mask))
		return -errno;
	theirs.lid = attr.ah_attr.dlid;
	if (attr.ah_attr.is_global)
		memcpy(theirs.gid, &attr.ah_attr.grh.dgid, sizeof(theirs.gid));
	return mlx5dvl_qp_connect(f->qp, &theirs, sizeof(theirs));
}

static struct rdma_conn_param param_of(const struct flow *f, const struct wish *wish)
{
	uint8_t reads = f->peer->side->t.reads ? f->peer->side->t.reads : 4;

	return (struct rdma_conn_param){.private_data = wish,
		.private_data_len = wish ? sizeof(*wish) : 0,
		.responder_resources = reads,
		.initiator_depth = reads,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = mlx5dvl_qp_qpn(f->qp)};
}

/* ---- server ---- */

int cm_listen(struct side *s, char why[WIRE_TEXT_MAX])
{
	uint32_t qps = SIDE_PEERS_MAX * s->t.qps;
	struct sockaddr_in6 any = {.sin6_family = AF_INET6};
	int err = open_channel(s, qps, why);

	if (err)
		return err;
	if (rdma_create_id(s->cm.state->channel, &s->cm.state->listener, NULL, RDMA_PS_TCP) ||
		rdma_bind_addr(s->cm.state->listener, (struct sockaddr *)&any) ||
		rdma_listen(s->cm.state->listener, (int)qps))
		return said(why, "it cannot listen", -errno);
	s->cm.port = be16toh(rdma_get_src_port(s->cm.state->listener));
	return 0;
}

/* Returns the QP that a request names, if it comes from the QP that JOIN names, or NULL. */
static struct flow *wanted(const struct side *s, const struct rdma_conn_param *param)
{
	struct wish wish;

	if (!param->private_data || param->private_data_len < sizeof(wish))
		return NULL;
	memcpy(&wish, param->private_data, sizeof(wish));
	for (uint32_t i = 0; i < s->n_peers * s->t.qps; i++) {
		struct flow *f = &s->peers[i / s->t.qps]->flows[i % s->t.qps];

		if (le32toh(wish.magic) == MAGIC && le32toh(wish.qpn) == mlx5dvl_qp_qpn(f->qp) &&
			param->qp_num == f->remote_qpn)
			return mlx5dvl_qp_status(f->qp) == -ENOTCONN ? f : NULL;
	}
	return NULL;
}

/* Takes over the id of a request, or rejects it. */
static int on_request(struct side *s, struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
	struct flow *f = wanted(s, param);
	struct rdma_conn_param answer;
	int err;

	if (!f || s->cm.state->n == s->n_peers * s->t.qps) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return 0;
	}
	s->cm.state->ids[s->cm.state->n++] = id;
	answer = param_of(f, NULL);
	err = connect_qp(f, id, &f->peer->remote.qp[f->index]);
	return err ? err : rdma_accept(id, &answer) ? -errno : 0;
}

int cm_accept(struct side *s, char why[WIRE_TEXT_MAX])
{
	struct cm_side *c = s->cm.state;
	int err = 0;

	c->limit_ns = clock_ns() + s->timeout_ns;
	while (c->established < s->n_peers * s->t.qps && !err) {
		struct rdma_cm_event *event;
		struct rdma_cm_id *id;
		enum rdma_cm_event_type kind;

		err = next_event(c, &event);
		if (err)
			break;
		kind = event->event;
		id = event->id;
		if (kind == RDMA_CM_EVENT_CONNECT_REQUEST)
			err = on_request(s, id, &event->param.conn);
		else if (kind == RDMA_CM_EVENT_ESTABLISHED)
			c->established++;
		else
			err = -ECONNRESET;
		rdma_ack_cm_event(event);
	}
	return err ? said(why, "the client's QPs are not connected", err) : 0;
}

/* ---- client ---- */

/* The address of the peer's TCP connection, with the port of rdma_cm. */
static int address_of(const struct peer *p, struct sockaddr_storage *a_p)
{
	socklen_t len = sizeof(*a_p);

	if (getpeername(p->conn.fd, (struct sockaddr *)a_p, &len))
		return -errno;
	if (a_p->ss_family == AF_INET)
		((struct sockaddr_in *)a_p)->sin_port = htobe16(p->remote.cm_port);
	else
		((struct sockaddr_in6 *)a_p)->sin6_port = htobe16(p->remote.cm_port);
	return 0;
}

/* Finds the way to the server. It must begin at the device of the QPs. */
static int find_path(struct peer *p, struct rdma_cm_id *id, char *why)
{
	struct side *s = p->side;
	int timeout_ms = (int)(s->timeout_ns / NSEC_PER_MSEC);
	const char *device = mlx5dvl_ctx_device(s->ctx);
	struct sockaddr_storage to;
	int err = address_of(p, &to);

	if (!err && rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, timeout_ms))
		err = -errno;
	if (err)
		return said(why, p->conn.peer, err);
	err = expect(s->cm.state, RDMA_CM_EVENT_ADDR_RESOLVED, why);
	if (err)
		return err;
	if (!id->verbs || strcmp(id->verbs->device->name, device) != 0)
		return fail(why, WIRE_TEXT_MAX, -ENODEV,
			"rdma_cm: the way to %.60s does not begin at %.40s: give another address or "
			"--ib-dev",
			p->conn.peer, device);
	if (rdma_resolve_route(id, timeout_ms))
		return said(why, "no route", -errno);
	return expect(s->cm.state, RDMA_CM_EVENT_ROUTE_RESOLVED, why);
}

static int connect_flow(struct peer *p, struct flow *f, char *why)
{
	struct cm_side *c = p->side->cm.state;
	struct wish wish = {htole32(MAGIC), htole32(f->remote_qpn)};
	struct rdma_conn_param param = param_of(f, &wish);
	struct rdma_cm_id *id;
	int err;

	if (rdma_create_id(c->channel, &id, NULL, RDMA_PS_TCP))
		return said(why, "no id", -errno);
	c->ids[c->n++] = id;
	err = find_path(p, id, why);
	if (err)
		return err;
	if (rdma_connect(id, &param))
		return said(why, "no request", -errno);
	err = expect(c, RDMA_CM_EVENT_CONNECT_RESPONSE, why);
	if (err)
		return err;
	err = connect_qp(f, id, &p->remote.qp[f->index]);
	if (!err && rdma_establish(id))
		err = -errno;
	return err ? said(why, "a QP cannot be connected", err) : 0;
}

int cm_connect(struct peer *p, char why[WIRE_TEXT_MAX])
{
	struct side *s = p->side;
	int err = open_channel(s, s->t.qps, why);

	for (uint32_t i = 0; i < s->t.qps && !err; i++) {
		s->cm.state->limit_ns = clock_ns() + s->timeout_ns;
		err = connect_flow(p, &p->flows[i], why);
	}
	return err;
}

void cm_close(struct side *s)
{
	struct cm_side *c = s->cm.state;

	if (!c)
		return;
	for (uint32_t i = 0; i < c->n; i++)
		rdma_destroy_id(c->ids[i]);
	if (c->listener)
		rdma_destroy_id(c->listener);
	if (c->channel)
		rdma_destroy_event_channel(c->channel);
	free(c->ids);
	free(c);
	s->cm.state = NULL;
}

#else

static int missing(char *why)
{
	return fail(why, WIRE_TEXT_MAX, -EOPNOTSUPP,
		"this rdmabench was built without librdmacm: leave out -R");
}

int cm_listen(struct side *s, char why[WIRE_TEXT_MAX])
{
	return missing(why);
}

int cm_accept(struct side *s, char why[WIRE_TEXT_MAX])
{
	return missing(why);
}

int cm_connect(struct peer *p, char why[WIRE_TEXT_MAX])
{
	return missing(why);
}

void cm_close(struct side *s)
{
}

#endif
