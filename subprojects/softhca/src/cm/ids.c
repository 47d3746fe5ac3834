/* SPDX-License-Identifier: MIT */
#include "cm/ids.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "fabric/reserve.h"
#include "hca/cqe.h"
#include "hca/event.h"
#include "hca/objects.h"
#include "hca/timer.h"
#include "hca/random.h"

#define LOOK_NS 1000000u /* time between two checks whether a program has polled */
#define FIRST_FREE_PORT 32768u /* Linux assigns ports from here on */
#define LAST_FREE_PORT 60999u

static_assert(sizeof(struct cm_event) == 16, "fifo_drop() keeps events of up to 16 bytes");

/* Each connection begins with another PSN, so that a QP drops packets of an old connection. */
static uint32_t first_psn(uint64_t serial)
{
	return random_next(&serial) & 0xffffff;
}

int cm_alloc(uint32_t owner, uint64_t fifo, struct cm_id **id_p)
{
	struct arena *a = arena();
	int r = 0;

	for (uint32_t i = FIRST_CM_ID; i < MAX_CM_IDS; i++) {
		struct cm_id *id = cm_at(i);

		if (i < a->cm_high && id->used)
			continue;
		if (i >= a->cm_high)
			r = reserve_object(id, sizeof(*id));
		if (r)
			return r;
		memset(id, 0, sizeof(*id));
		id->owner = owner;
		id->fifo = fifo;
		id->rail = NO_INDEX;
		id->serial = a->next_cm_serial;
		id->local.psn = first_psn(id->serial);
		/* 0 is not used as a serial number. */
		a->next_cm_serial += a->next_cm_serial == UINT32_MAX ? 2 : 1;
		if (i >= a->cm_high)
			a->cm_high = i + 1;
		*id_p = id;
		return 0;
	}
	return -ENOMEM;
}

struct cm_id *cm_alloc_request(const struct cm_id *listener)
{
	struct cm_id *id;

	if (cm_alloc(listener->owner, listener->fifo, &id))
		return NULL;
	id->ps = listener->ps;
	id->qp_type = listener->qp_type;
	id->listener = cm_link_to(listener);
	id->unread = 1;
	return id;
}

void cm_publish(struct cm_id *id)
{
	id->used = 1;
}

int cm_find(uint32_t index, uint64_t fifo, struct cm_id **id_p)
{
	struct cm_id *id;

	if (index < FIRST_CM_ID || index >= arena()->cm_high)
		return -ENOENT;
	id = cm_at(index);
	if (!id->used || id->owner != fabric_self.slot || id->unread || id->away.gone)
		return -ENOENT;
	if (id->fifo != fifo)
		return -EINVAL;
	*id_p = id;
	return 0;
}

struct cm_id *cm_linked(struct cm_link link)
{
	struct cm_id *id;

	if (!link.serial)
		return NULL;
	id = cm_at(link.index);
	return id->used && id->serial == link.serial ? id : NULL;
}

struct cm_link cm_link_to(const struct cm_id *id)
{
	return (struct cm_link){cm_index(id), id->serial};
}

/* Returns true if @id has the IPv6 wildcard address and accepts IPv4 addresses too. */
static bool any_of_both(const struct cm_id *id)
{
	return id->src.family == AF_INET6 && !id->v6_only && cm_addr_any(&id->src);
}

/* Returns true if the addresses of two ids have an IP address in common. */
static bool overlap(const struct cm_id *a, const struct cm_id *b)
{
	if (a->src.family != b->src.family)
		return any_of_both(a) || any_of_both(b);
	return cm_addr_any(&a->src) || cm_addr_any(&b->src) || cm_addr_same_ip(&a->src, &b->src);
}

static bool port_is_taken(const struct cm_id *id)
{
	for (uint32_t i = FIRST_CM_ID; i < arena()->cm_high; i++) {
		const struct cm_id *o = cm_at(i);

		if (!o->used || o == id || !o->has_port || o->ps != id->ps ||
			o->src.port != id->src.port || !overlap(o, id))
			continue;
		if (!id->reuse_addr || !o->reuse_addr || o->state == CM_LISTEN)
			return true;
	}
	return false;
}

int cm_take_port(struct cm_id *id, const struct cm_addr *addr)
{
	uint64_t seed = id->serial;
	uint32_t n = LAST_FREE_PORT - FIRST_FREE_PORT + 1, start;

	id->src = *addr;
	id->has_port = !addr->port || !port_is_taken(id);
	if (!id->has_port)
		return -EADDRINUSE;
	if (addr->port)
		return 0;
	start = (uint32_t)(random_next(&seed) % n);
	for (uint32_t i = 0; i < n; i++) {
		id->src.port = (uint16_t)(FIRST_FREE_PORT + (start + i) % n);
		if (!port_is_taken(id))
			return 0;
	}
	id->has_port = 0;
	return -EADDRINUSE;
}

bool cm_may_listen(const struct cm_id *id)
{
	for (uint32_t i = FIRST_CM_ID; i < arena()->cm_high; i++) {
		const struct cm_id *o = cm_at(i);

		if (o->used && o != id && o->state == CM_LISTEN && o->ps == id->ps &&
			o->src.port == id->src.port && overlap(o, id))
			return false;
	}
	return true;
}

/*
 * Returns 2 if @l listens at the address @addr itself, 1 if at the wildcard, 0 if it does not
 * listen for requests to @addr.
 */
static int match(const struct cm_id *l, uint32_t ps, const struct cm_addr *addr)
{
	if (!l->used || l->state != CM_LISTEN || l->ps != ps || l->src.port != addr->port)
		return 0;
	if (cm_addr_same_ip(&l->src, addr))
		return 2;
	if (!cm_addr_any(&l->src))
		return 0;
	return l->src.family == addr->family || any_of_both(l);
}

struct cm_id *cm_listener(uint32_t ps, const struct cm_addr *addr)
{
	struct cm_id *best = NULL;
	int best_match = 0;

	for (uint32_t i = FIRST_CM_ID; i < arena()->cm_high; i++) {
		int m = match(cm_at(i), ps, addr);

		if (m > best_match) {
			best = cm_at(i);
			best_match = m;
		}
	}
	return best;
}

uint32_t cm_unread(const struct cm_id *listener)
{
	uint32_t n = 0;

	for (uint32_t i = FIRST_CM_ID; i < arena()->cm_high; i++) {
		const struct cm_id *c = cm_at(i);

		n += c->used && c->unread && cm_linked(c->listener) == listener;
	}
	return n;
}

static bool is_coming(const struct cm_id *id)
{
	return id->first_coming != id->last_coming;
}

static struct cm_coming *coming(struct cm_id *id, uint32_t number)
{
	return &id->coming[number % CM_COMING];
}

void cm_wake(const struct cm_id *id, uint64_t due)
{
	struct proc *p = &arena()->procs[id->owner];

	if (!due)
		return;
	if (!p->cm_due || due < p->cm_due)
		p->cm_due = due;
	timer_ring(id->owner);
}

/*
 * Returns the time at which an event that fifo_post() refused with @r is tried again; 0:
 * cm_refill() posts it, because the channel is full (or gone).
 */
static uint64_t next_try(const struct cm_id *id, int r)
{
	if (r == -EAGAIN)
		return timer_now() + LOOK_NS;
	arena()->procs[id->owner].cm_full = 1;
	return 0;
}

/*
 * Posts an event of the id. Returns false if that is not possible now. Then c->due is the time at
 * which it is tried again.
 */
static bool post(const struct cm_id *id, struct cm_coming *c)
{
	struct cm_event e = {.id = cm_index(id),
		.type = c->type,
		.has_param = c->has_param,
		.status = c->status};
	int r = fifo_post(id->fifo, &e, sizeof(e));

	if (r)
		c->due = next_try(id, r);
	return !r;
}

static bool waits_for_room(const struct cm_id *id)
{
	return is_coming(id) && !cm_due(id);
}

/*
 * Posts the id's oldest event. Returns false if it has to wait. If the process is killed between
 * the event and its removal, the event is delivered twice.
 */
static bool arrive(struct cm_id *id)
{
	struct cm_coming *c = coming(id, id->first_coming);

	if (!post(id, c)) {
		cm_wake(id, c->due);
		return false;
	}
	id->first_coming++;
	/* The next event may have been left behind when cm_refill() set a time for the posted one. */
	arena()->procs[id->owner].cm_full |= waits_for_room(id);
	return true;
}

void cm_refill(uint64_t fifo)
{
	uint32_t *full = &arena()->procs[fabric_self.slot].cm_full;
	bool others = false;

	if (!*full)
		return;
	for (uint32_t i = FIRST_CM_ID; i < arena()->cm_high; i++) {
		struct cm_id *id = cm_at(i);

		if (!id->used || id->owner != fabric_self.slot || !waits_for_room(id))
			continue;
		while (id->fifo == fifo && waits_for_room(id))
			if (!arrive(id) && !cm_due(id))
				return;
		others |= waits_for_room(id);
		cm_wake(id, cm_due(id));
	}
	*full = others;
}

void cm_forget_events(struct cm_id *id)
{
	id->first_coming = id->last_coming;
	if (fifo_drop(id->fifo, cm_index(id), sizeof(struct cm_event)) > 0)
		cm_refill(id->fifo);
}

void cm_free(struct cm_id *id)
{
	/* An id that is gone has no events, and may be freed by another process than its own. */
	if (!id->away.gone)
		cm_forget_events(id);
	id->used = 0;
}

/* The next event is tried when the lost one would have been. */
static void lose_oldest(struct cm_id *id)
{
	uint64_t due = cm_due(id);

	id->first_coming++;
	if (waits_for_room(id))
		coming(id, id->first_coming)->due = due;
}

/*
 * If there is no room, the oldest event is lost. A connection has fewer than CM_COMING events, so
 * only a program that gives commands without reading their events loses one.
 */
static void on_its_way(struct cm_id *id, const struct cm_coming *c)
{
	if (id->last_coming - id->first_coming == CM_COMING && !arrive(id))
		lose_oldest(id);
	*coming(id, id->last_coming) = *c;
	id->last_coming++;
	cm_wake(id, c->due);
}

void cm_post(struct cm_id *id, enum cm_event_type type, int32_t status, bool has_param)
{
	struct cm_coming c = {.type = (uint16_t)type, .has_param = has_param, .status = status};

	if (is_coming(id))
		c.due = coming(id, id->last_coming - 1)->due;
	else if (post(id, &c))
		return;
	on_its_way(id, &c);
}

/* Returns the time at which a message that is sent now arrives; 0: immediately. */
static uint64_t arrival(const struct cm_id *id)
{
	bool models = arena()->link_mode == LINK_REAL && id->rail != NO_INDEX;

	if (arena()->link_mode == LINK_VIRTUAL || !arena()->procs[id->owner].has_thread)
		return 0;
	return timer_now() + CM_MESSAGE_NS +
	       (models ? arena()->topo.rails[id->rail].latency_ns : 0);
}

void cm_tell(struct cm_id *id, enum cm_event_type type, int32_t status, bool has_param)
{
	struct cm_coming c = {.due = arrival(id),
		.type = (uint16_t)type,
		.has_param = has_param,
		.status = status};

	if (c.due)
		on_its_way(id, &c);
	else
		cm_post(id, type, status, has_param);
}

static bool is_polled(uint32_t cq_index, uint32_t producer)
{
	struct cq *cq = cq_at(cq_index);

	if (cq->overrun || cq->ignore_overrun)
		return true;
	cq_read_consumer(cq);
	return (int32_t)(producer - cq->consumer) <= 0;
}

/*
 * Returns true if the event must wait. A program that learns of the end of a connection drops the
 * completions that it has not polled. On a network the completions arrive some time before the
 * event, however busy the program's core is. So the event waits until the completions are polled,
 * but at most CM_PATIENCE_NS.
 */
static bool waits_for_program(const struct cm_id *id, struct cm_coming *c, uint64_t now)
{
	const struct qp *qp = qp_by_number(id->local.qpn);

	if (c->type != CM_EV_DISCONNECTED || !qp || qp->obj.owner != fabric_self.slot)
		return false;
	if (!c->patience) {
		c->patience = now + CM_PATIENCE_NS;
		c->sends = cq_at(qp->send_cq)->producer;
		c->receives = cq_at(qp->recv_cq)->producer;
	}
	if (now >= c->patience ||
		(is_polled(qp->send_cq, c->sends) && is_polled(qp->recv_cq, c->receives)))
		return false;
	c->due = now + LOOK_NS;
	return true;
}

uint64_t cm_due(const struct cm_id *id)
{
	return is_coming(id) ? id->coming[id->first_coming % CM_COMING].due : 0;
}

void cm_deliver(struct cm_id *id, uint64_t now)
{
	if (!waits_for_program(id, coming(id, id->first_coming), now))
		arrive(id);
}

void cm_recover(void)
{
	for (uint32_t slot = 0; slot < arena()->procs_high; slot++) {
		struct proc *p = &arena()->procs[slot];

		if (!p->used)
			continue;
		p->cm_due = 1; /* cm_serve() finds the right time */
		p->cm_full = 1; /* cm_refill() finds out whether events wait */
		timer_ring(slot);
	}
}

struct move {
	struct cm_id *id;
	uint32_t kept; /* number of its events for which its new channel has no room */
};

/* Inserts an event of the id after its @n oldest events. */
static void insert(struct cm_id *id, uint32_t n, const struct cm_coming *c)
{
	if (id->last_coming - id->first_coming == CM_COMING)
		return; /* as in on_its_way() */
	id->first_coming--;
	for (uint32_t i = id->first_coming; i != id->first_coming + n; i++)
		*coming(id, i) = *coming(id, i + 1);
	*coming(id, id->first_coming + n) = *c;
	cm_wake(id, c->due);
}

/* Posts an event of @id, or keeps it if earlier ones are kept or if there is no room for it. */
static void move_to(struct cm_id *id, const struct cm_event *e, struct move *m)
{
	uint32_t n = id == m->id ? m->kept : 0;
	struct cm_coming c = {.type = e->type, .has_param = e->has_param, .status = e->status};

	if (!n && post(id, &c))
		return;
	if (n)
		c.due = coming(id, id->first_coming)->due;
	insert(id, n, &c);
	m->kept += id == m->id;
}

/* Moves an event of the id in @arg, or of a request to it, to the FIFO of this id. */
static bool move_event(const void *event, void *arg)
{
	struct move *m = arg;
	struct cm_event e;
	struct cm_id *id;

	memcpy(&e, event, sizeof(e));
	if (e.id >= arena()->cm_high)
		return false;
	id = cm_at((uint32_t)e.id);
	if (id != m->id && (!id->unread || cm_linked(id->listener) != m->id))
		return false;
	id->fifo = m->id->fifo;
	move_to(id, &e, m);
	return true;
}

void cm_move(struct cm_id *id, uint64_t fifo)
{
	struct move m = {.id = id};
	uint64_t from = id->fifo;

	if (from == fifo)
		return;
	id->fifo = fifo;
	fifo_drop_if(from, sizeof(struct cm_event), move_event, &m);
	cm_refill(from);
	/* Requests that have not arrived yet are in no FIFO. */
	for (uint32_t i = FIRST_CM_ID; i < arena()->cm_high; i++)
		if (cm_at(i)->used && cm_at(i)->unread && cm_linked(cm_at(i)->listener) == id)
			cm_at(i)->fifo = fifo;
	cm_refill(fifo);
}
