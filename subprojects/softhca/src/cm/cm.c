/* SPDX-License-Identifier: MIT */
/*
 * To send a refusal, a reply or a disconnection, a function posts the event to the peer id first,
 * then stores the state of the peer id, then that of its own id. If the process is killed in
 * between, cm_reap() repeats a refusal or a disconnection, and refuses a request that was being
 * answered.
 */
#include "cm/cm.h"

#include <errno.h>
#include <string.h>

#include "cm/ids.h"
#include "cm/remote.h"
#include "hca/event.h"
#include "hca/objects.h"
#include "packet/packet.h"

#define MAX_BACKLOG 1024 /* the kernel's default */

uint32_t cm_peer_slot(const struct cm_id *id)
{
	const struct cm_id *peer = cm_linked(id->peer);

	return peer ? peer->owner : NO_SLOT;
}

static void put_on_rail(struct cm_id *id, const struct cm_place *place)
{
	if (!place)
		return;
	id->rail = place->rail;
	id->gid = place->gid;
}

int cm_bind(struct cm_id *id, const struct cm_addr *addr, const struct cm_place *place)
{
	int r;

	if (id->state != CM_IDLE)
		return -EINVAL;
	r = cm_take_port(id, addr);
	if (r)
		return r;
	put_on_rail(id, place);
	id->state = CM_BOUND;
	return 0;
}

/* Returns true if adapter @rail can reach @place: same kind of link, same partition. */
static bool reachable(uint32_t rail, const struct cm_place *place)
{
	const struct softhca_rail *from = &arena()->topo.rails[rail];
	const struct softhca_rail *to = &arena()->topo.rails[place->rail];

	return from->link == to->link && packet_pkeys_match(from->pkeys[0], to->pkeys[0]);
}

/* Gives @id, which has no adapter yet, the adapter of @place and the address @addr. */
static int take_place(struct cm_id *id, const struct cm_addr *addr, const struct cm_place *place)
{
	struct cm_addr src = *addr;

	put_on_rail(id, place);
	src.port = id->src.port;
	if (id->state == CM_IDLE)
		return cm_take_port(id, &src);
	id->src = src;
	return 0;
}

int cm_resolve_addr(struct cm_id *id, const struct cm_addr *dst, const struct cm_place *place,
	const struct remote_path *path)
{
	int r = 0;

	if (id->state != CM_IDLE && id->state != CM_BOUND)
		return -EINVAL;
	id->dst = *dst;
	if (!path && (!place || (id->rail != NO_INDEX && !reachable(id->rail, place)))) {
		cm_post(id, CM_EV_ADDR_ERROR, -ETIMEDOUT, false);
		return 0;
	}
	if (id->rail == NO_INDEX)
		r = path ? take_place(id, &path->src, &path->from) : take_place(id, dst, place);
	if (r)
		return r;
	if (path) {
		remote_begin(id, path);
	} else {
		id->dst_rail = place->rail;
		id->dst_gid = place->gid;
	}
	id->state = CM_ADDR_RESOLVED;
	cm_post(id, CM_EV_ADDR_RESOLVED, 0, false);
	return 0;
}

int cm_resolve_route(struct cm_id *id)
{
	if (id->state != CM_ADDR_RESOLVED)
		return -EINVAL;
	id->state = CM_ROUTE_RESOLVED;
	cm_post(id, CM_EV_ROUTE_RESOLVED, 0, false);
	return 0;
}

int cm_listen(struct cm_id *id, uint32_t backlog)
{
	if (id->state != CM_BOUND)
		return -EINVAL;
	if (!cm_may_listen(id))
		return -EADDRINUSE;
	id->backlog = backlog && backlog < MAX_BACKLOG ? backlog : MAX_BACKLOG;
	id->state = CM_LISTEN;
	return 0;
}

/* Records the parameters that the id is about to send. */
static void set_local(struct cm_id *id, const struct cm_param *p)
{
	uint32_t psn = id->local.psn;

	id->local = *p;
	id->local.psn = psn;
	id->local.qkey = CM_UDP_QKEY;
}

/* Records in @to the parameters and the @data_len bytes of private data that @from has sent. */
static void receive(struct cm_id *to, const struct cm_id *from, uint8_t data_len)
{
	to->remote = from->local;
	to->remote.data_len = data_len;
}

static void reject_request(struct cm_id *id, int rej, int sidr)
{
	bool ud = cm_is_ud(id);

	id->state = CM_ENDED;
	cm_tell(id, ud ? CM_EV_UNREACHABLE : CM_EV_REJECTED, ud ? sidr : rej, false);
}

/*
 * Makes an id for a request to @listener. The event of the request contains the number of the new
 * id.
 */
static struct cm_id *make_request(const struct cm_id *from, const struct cm_id *listener)
{
	struct cm_id *id = cm_alloc_request(listener);

	if (!id)
		return NULL;
	id->rail = from->dst_rail;
	id->gid = from->dst_gid;
	id->dst_rail = from->rail;
	id->dst_gid = from->gid;
	id->src = from->dst;
	id->dst = from->src;
	id->peer = cm_link_to(from);
	id->state = cm_is_ud(id) ? CM_SIDR_RCVD : CM_REQ_RCVD;
	receive(id, from, cm_is_ud(id) ? CM_SIDR_REQ_DATA : CM_REQ_DATA);
	return id;
}

struct cm_id *cm_live_listener(uint32_t ps, const struct cm_addr *dst)
{
	struct cm_id *l = cm_listener(ps, dst);

	if (l && !fabric_alive(l->owner)) {
		fabric_reap();
		l = cm_listener(ps, dst);
	}
	return l;
}

int cm_connect(struct cm_id *id, const struct cm_param *p)
{
	struct cm_id *listener, *request;

	if (id->state != CM_ROUTE_RESOLVED)
		return -EINVAL;
	if (p->data_len > (cm_is_ud(id) ? CM_SIDR_REQ_DATA : CM_REQ_DATA))
		return -EINVAL;
	set_local(id, p);
	id->state = cm_is_ud(id) ? CM_SIDR_SENT : CM_REQ_SENT;
	if (cm_is_away(id)) {
		remote_ask(id, cm_is_ud(id) ? MAD_SIDR_REQ : MAD_REQ);
		return 0;
	}
	listener = cm_live_listener(id->ps, &id->dst);
	if (!listener) {
		reject_request(id, CM_REJ_NO_SERVICE, CM_SIDR_UNSUPPORTED);
		return 0;
	}
	request = cm_unread(listener) < listener->backlog ? make_request(id, listener) : NULL;
	if (!request) {
		reject_request(id, CM_REJ_CONSUMER, CM_SIDR_REJECT);
		return 0;
	}
	/* In this order: if this process is killed here, no request without an event is left. */
	cm_tell(request, CM_EV_CONNECT_REQUEST, 0, true);
	cm_publish(request);
	id->peer = cm_link_to(request);
	return 0;
}

static void reply_away(struct cm_id *id)
{
	id->state = cm_is_ud(id) ? CM_SIDR_DONE : CM_REP_SENT;
	if (cm_is_ud(id))
		remote_send(id, MAD_SIDR_REP, 0);
	else
		remote_ask(id, MAD_REP);
}

static int reply(struct cm_id *id, const struct cm_param *p, uint64_t uid)
{
	struct cm_id *peer = cm_linked(id->peer);
	uint8_t len = cm_is_ud(id) ? CM_SIDR_REP_DATA : CM_REP_DATA;

	if ((!peer && !cm_is_away(id)) || p->data_len > len)
		return -EINVAL;
	set_local(id, p);
	id->uid = uid;
	if (cm_is_away(id)) {
		reply_away(id);
		return 0;
	}
	receive(peer, id, len);
	if (cm_is_ud(id)) {
		cm_tell(peer, CM_EV_ESTABLISHED, 0, true);
		peer->state = CM_SIDR_DONE;
		id->state = CM_SIDR_DONE;
		return 0;
	}
	cm_tell(peer, CM_EV_CONNECT_RESPONSE, 0, true);
	peer->state = CM_REP_RCVD;
	id->state = CM_REP_SENT;
	return 0;
}

int cm_established(struct cm_id *id)
{
	if (id->state != CM_REP_SENT)
		return -EINVAL;
	remote_stop(id);
	id->state = CM_ESTABLISHED;
	cm_post(id, CM_EV_ESTABLISHED, 0, false);
	return 0;
}

void cm_answered(struct cm_id *id)
{
	if (id->state != CM_REP_SENT)
		return;
	cm_tell(id, CM_EV_ESTABLISHED, 0, false);
	remote_stop(id);
	id->state = CM_ESTABLISHED;
}

int cm_accept(struct cm_id *id, const struct cm_param *p, uint64_t uid)
{
	struct cm_id *peer = cm_linked(id->peer);

	if (p && (id->state == CM_REQ_RCVD || id->state == CM_SIDR_RCVD))
		return reply(id, p, uid);
	if (p || id->state != CM_REP_RCVD)
		return -EINVAL;
	id->state = CM_ESTABLISHED;
	if (peer)
		cm_answered(peer);
	if (cm_is_away(id))
		remote_send(id, MAD_RTU, 0);
	return 0;
}

/* Ends the handshake. The other end gets an event with @status. */
static void refuse(struct cm_id *id, int status, bool has_data)
{
	struct cm_id *peer = cm_linked(id->peer);

	if (cm_is_away(id))
		remote_refuse(id, (uint16_t)status);
	if (peer) {
		cm_tell(peer, cm_is_ud(id) ? CM_EV_UNREACHABLE : CM_EV_REJECTED, status, has_data);
		peer->state = CM_ENDED;
	}
	id->state = CM_ENDED;
}

int cm_reject(struct cm_id *id, const void *data, uint8_t len, uint8_t reason)
{
	struct cm_id *peer = cm_linked(id->peer);

	if (id->state != CM_REQ_RCVD && id->state != CM_REP_RCVD && id->state != CM_SIDR_RCVD)
		return -EINVAL;
	if (len > (cm_is_ud(id) ? CM_SIDR_REP_DATA : CM_REJ_DATA))
		return -EINVAL;
	if (reason && reason != CM_REJ_CONSUMER && reason != CM_REJ_VENDOR_OPTION)
		return -EINVAL;
	id->local = (struct cm_param){.data_len = len};
	memcpy(id->local.data, data, len);
	if (peer && cm_is_ud(id))
		peer->remote = (struct cm_param){0};
	else if (peer)
		receive(peer, id, CM_REJ_DATA);
	refuse(id, cm_is_ud(id) ? CM_SIDR_REJECT : reason ? reason : CM_REJ_CONSUMER, true);
	return 0;
}

void cm_end_connection(struct cm_id *id)
{
	cm_tell(id, CM_EV_DISCONNECTED, 0, false);
	cm_post(id, CM_EV_TIMEWAIT_EXIT, 0, false);
	remote_stop(id);
	id->state = CM_ENDED;
}

/* Agrees to the end of the connection, which the other end has requested. */
static void answer_disconnect(struct cm_id *id)
{
	struct cm_id *peer = cm_linked(id->peer);

	cm_post(id, CM_EV_TIMEWAIT_EXIT, 0, false);
	if (cm_is_away(id))
		remote_send(id, MAD_DREP, 0);
	if (peer && peer->state == CM_DREQ_SENT)
		cm_end_connection(peer);
	id->state = CM_ENDED;
}

static void ask_disconnect(struct cm_id *id)
{
	struct cm_id *peer = cm_linked(id->peer);

	if (cm_is_away(id)) {
		id->state = CM_DREQ_SENT;
		remote_ask(id, MAD_DREQ);
		return;
	}
	if (!peer) {
		cm_end_connection(id);
		return;
	}
	cm_tell(peer, CM_EV_DISCONNECTED, 0, false);
	peer->state = CM_DREQ_RCVD;
	id->state = CM_DREQ_SENT;
}

int cm_disconnect(struct cm_id *id)
{
	if (id->state < CM_REQ_SENT)
		return -EINVAL;
	if (id->state == CM_ESTABLISHED)
		ask_disconnect(id);
	else if (id->state == CM_DREQ_RCVD)
		answer_disconnect(id);
	return 0;
}

/*
 * Refuses the requests that the program of a listening id has not read, except those that their
 * senders have withdrawn.
 */
static void drop_requests(const struct cm_id *listener)
{
	for (uint32_t i = FIRST_CM_ID; i < arena()->cm_high; i++) {
		struct cm_id *id = cm_at(i);

		if (!id->used || !id->unread || cm_linked(id->listener) != listener)
			continue;
		if (id->state != CM_ENDED)
			refuse(id, cm_is_ud(id) ? CM_SIDR_REJECT : CM_REJ_CONSUMER, false);
		cm_free(id);
	}
}

/*
 * Withdraws the request of an id that is being destroyed. As in the kernel, a program that has not
 * read the request still gets it, and finds out when it accepts.
 */
static void withdraw(struct cm_id *id)
{
	struct cm_id *peer = cm_linked(id->peer);

	if (cm_is_away(id) && !cm_is_ud(id))
		remote_withdraw(id);
	if (peer)
		peer->state = CM_ENDED; /* not freed: only its own process may, see cm_free() */
}

/* Keeps an id that the program has destroyed until its DREQ is answered. */
static void linger(struct cm_id *id)
{
	id->uid = 0;
	id->has_port = 0;
	id->away.gone = 1;
	cm_forget_events(id);
}

void cm_destroy(struct cm_id *id)
{
	switch (id->state) {
	case CM_LISTEN:
		drop_requests(id);
		break;
	case CM_REQ_SENT:
	case CM_SIDR_SENT:
		withdraw(id);
		break;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
		refuse(id, CM_REJ_CONSUMER, false);
		break;
	case CM_SIDR_RCVD:
		refuse(id, CM_SIDR_REJECT, false);
		break;
	case CM_ESTABLISHED:
		ask_disconnect(id);
		break;
	case CM_DREQ_RCVD:
		answer_disconnect(id);
		break;
	default:
		break;
	}
	if (cm_is_away(id) && id->state == CM_DREQ_SENT)
		linger(id);
	else
		cm_free(id);
}

void cm_close_channel(uint64_t fifo)
{
	fifo_remove(fifo); /* first: otherwise cm_free() reads all unread events for each id */
	for (uint32_t i = FIRST_CM_ID; i < arena()->cm_high; i++)
		if (cm_at(i)->used && cm_at(i)->fifo == fifo)
			cm_destroy(cm_at(i));
}

/*
 * If this process is killed in this function, another process starts again: an event may then be
 * delivered twice, but none is lost.
 */
void cm_reap(uint32_t slot)
{
	for (uint32_t i = FIRST_CM_ID; i < arena()->cm_high; i++) {
		struct cm_id *id = cm_at(i);

		if (!id->used || id->owner != slot)
			continue;
		fifo_remove(id->fifo); /* first, as in cm_close_channel() */
		cm_destroy(id);
		if (id->used)
			cm_free(id); /* linger() kept it */
	}
}
