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

/* The private data of a connection request, little-endian. */
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
		return said(why, "no event channel", c->ids ? -errno : -ENOMEM);
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

static bool is_ud(const struct side *s)
{
	return s->t.type == MLX5DVL_UD;
}

static int create_id(struct side *s, struct rdma_cm_id **id_p)
{
	enum rdma_port_space ports = is_ud(s) ? RDMA_PS_UDP : RDMA_PS_TCP;

	return rdma_create_id(s->cm.state->channel, id_p, NULL, ports) ? -errno : 0;
}

/* Waits for the next event and writes its parameters to *param_p. Fails if it has another kind. */
static int expect_param(struct cm_side *c, enum rdma_cm_event_type kind,
	struct rdma_ud_param *param_p, char *why)
{
	struct rdma_cm_event *event;
	int err = next_event(c, &event);
	enum rdma_cm_event_type got;

	if (err)
		return said(why, "no answer", err);
	got = event->event;
	*param_p = event->param.ud;
	err = event->status < 0 ? event->status : -ECONNREFUSED;
	rdma_ack_cm_event(event);
	return got == kind ? 0 : said(why, rdma_event_str(got), err);
}

static int expect(struct cm_side *c, enum rdma_cm_event_type kind, char *why)
{
	struct rdma_ud_param param;

	return expect_param(c, kind, &param, why);
}

/* Connects the QP along the path that rdma_cm has found. */
static int connect_along(struct flow *f, const struct ibv_ah_attr *path)
{
	struct mlx5dvl_qp_info theirs = f->peer->remote.qp[f->index];

	theirs.lid = path->dlid;
	if (path->is_global)
		memcpy(theirs.gid, &path->grh.dgid, sizeof(theirs.gid));
	return flow_connect(f, &theirs);
}

static int connect_qp(struct flow *f, struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask;

	return rdma_init_qp_attr(id, &attr, &mask) ? -errno : connect_along(f, &attr.ah_attr);
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
	err = create_id(s, &s->cm.state->listener);
	if (err)
		return said(why, "no id", err);
	if (rdma_bind_addr(s->cm.state->listener, (struct sockaddr *)&any) ||
		rdma_listen(s->cm.state->listener, (int)qps))
		return said(why, "it cannot listen", -errno);
	s->cm.port = be16toh(rdma_get_src_port(s->cm.state->listener));
	return 0;
}

/*
 * Returns the flow whose QP a request names. Returns NULL if there is none, if the request comes
 * from another QP than remote_qpn, or if the QP is already connected.
 */
static struct flow *wanted(const struct side *s, const struct rdma_cm_event *request)
{
	const struct rdma_conn_param *param = &request->param.conn;
	struct wish wish;

	if (!param->private_data || param->private_data_len < sizeof(wish))
		return NULL;
	memcpy(&wish, param->private_data, sizeof(wish));
	for (uint32_t i = 0; i < s->n_peers * s->t.qps; i++) {
		struct flow *f = &s->peers[i / s->t.qps]->flows[i % s->t.qps];

		if (le32toh(wish.magic) == MAGIC && le32toh(wish.qpn) == mlx5dvl_qp_qpn(f->qp) &&
			(is_ud(s) || param->qp_num == f->remote_qpn))
			return mlx5dvl_qp_status(f->qp) == -ENOTCONN ? f : NULL;
	}
	return NULL;
}

/*
 * Accepts or rejects a request. With UD, the client does not confirm the answer, so the connection
 * counts as established at once.
 */
static int on_request(struct side *s, const struct rdma_cm_event *request)
{
	struct flow *f = wanted(s, request);
	struct rdma_cm_id *id = request->id;
	struct rdma_conn_param answer;
	int err;

	if (!f || s->cm.state->n == s->n_peers * s->t.qps) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return 0;
	}
	s->cm.state->ids[s->cm.state->n++] = id;
	answer = param_of(f, NULL);
	err = is_ud(s) ? flow_connect(f, &f->peer->remote.qp[f->index]) : connect_qp(f, id);
	if (!err && rdma_accept(id, &answer))
		err = -errno;
	s->cm.state->established += is_ud(s) && !err;
	return err;
}

int cm_accept(struct side *s, char why[WIRE_TEXT_MAX])
{
	struct cm_side *c = s->cm.state;
	int err = 0;

	c->limit_ns = clock_ns() + s->timeout_ns;
	while (c->established < s->n_peers * s->t.qps && !err) {
		struct rdma_cm_event *event;

		err = next_event(c, &event);
		if (err)
			break;
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			err = on_request(s, event);
		else if (event->event == RDMA_CM_EVENT_ESTABLISHED)
			c->established++;
		else
			err = -ECONNRESET;
		rdma_ack_cm_event(event);
	}
	return err ? said(why, "the client's QPs are not connected", err) : 0;
}

/* ---- client ---- */

/* Writes the peer's address from its TCP connection, with the port at which rdma_cm listens. */
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

/* Finds the path to the server. It must begin at the device of the QPs. */
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
			"rdma_cm: the path to %.60s does not begin at %.40s: give another address or "
			"--ib-dev",
			p->conn.peer, device);
	if (rdma_resolve_route(id, timeout_ms))
		return said(why, "no route", -errno);
	return expect(s->cm.state, RDMA_CM_EVENT_ROUTE_RESOLVED, why);
}

/* Completes the connection that was requested. */
static int conclude(struct flow *f, struct rdma_cm_id *id, char *why)
{
	struct side *s = f->peer->side;
	struct rdma_ud_param param;
	int err = expect_param(s->cm.state,
		is_ud(s) ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE, &param, why);

	if (err)
		return err;
	err = is_ud(s) ? connect_along(f, &param.ah_attr) : connect_qp(f, id);
	if (!err && !is_ud(s) && rdma_establish(id))
		err = -errno;
	return err ? said(why, "a QP cannot be connected", err) : 0;
}

static int connect_flow(struct peer *p, struct flow *f, char *why)
{
	struct cm_side *c = p->side->cm.state;
	struct wish wish = {htole32(MAGIC), htole32(f->remote_qpn)};
	struct rdma_conn_param param = param_of(f, &wish);
	struct rdma_cm_id *id;
	int err = create_id(p->side, &id);

	if (err)
		return said(why, "no id", err);
	c->ids[c->n++] = id;
	err = find_path(p, id, why);
	if (err)
		return err;
	if (rdma_connect(id, &param))
		return said(why, "no request", -errno);
	return conclude(f, id, why);
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
