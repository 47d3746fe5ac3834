/* SPDX-License-Identifier: MIT */
/*
 * The events of a server of delegrpc or shmipc: clients that came, left or died. Events are queued
 * until the server takes them with members_take(). A client has at most two events in the queue, so
 * the memory is limited. The layer must not give an index to another client before the server has
 * taken the event of the former client's end.
 */
#ifndef BASE_MEMBERS_H
#define BASE_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/waiter.h"

#define MEMBER_BYTE(index) (1u + (index)) /* the byte of the region's file that a client locks */

/* The event structs of both layers begin with the fields of member_event, and use these kinds. */
enum member_kind { MEMBER_CAME, MEMBER_LEFT, MEMBER_DIED };

struct member_event {
	uint32_t kind, index;
	uint32_t pid, uid, gid;
};

struct member {
	uint32_t pid, uid, gid; /* 0, UINT32_MAX and UINT32_MAX: not known */
	bool here; /* has come, and the event of its end has not been taken */
	bool untold; /* MEMBER_CAME is queued */
	bool ended; /* `end` is queued */
	uint8_t end; /* MEMBER_LEFT or MEMBER_DIED */
};

struct members {
	struct member *of; /* by index; NULL: the server takes no events */
	uint32_t *queue; /* the indices with events, from `first` on, circular */
	uint32_t n, first, count;
	uint32_t here; /* the number of members that are here */
};

/*
 * Resets the entry of an index. Must be called if a client ended before the server noticed that it
 * came.
 */
static inline void members_forget(struct members *m, uint32_t index)
{
	if (m->of)
		m->of[index] = (struct member){.uid = UINT32_MAX, .gid = UINT32_MAX};
}

/* Returns false if there is no memory. */
static inline bool members_init(struct members *m, uint32_t n)
{
	m->of = (struct member *)calloc(n, sizeof(*m->of));
	m->queue = (uint32_t *)calloc(n, sizeof(*m->queue));
	m->n = n;
	if (!m->of || !m->queue)
		return false;
	for (uint32_t i = 0; i < n; i++)
		members_forget(m, i);
	return true;
}

static inline void members_free(struct members *m)
{
	free(m->of);
	free(m->queue);
}

static inline void members_queue(struct members *m, uint32_t index)
{
	m->queue[(m->first + m->count++) % m->n] = index;
}

/*
 * Queues the event of a client that has come. The server must have taken the event of the end of
 * the index's previous client.
 */
static inline void members_came(struct members *m, uint32_t index)
{
	if (!m->of)
		return;
	m->of[index].here = m->of[index].untold = true;
	m->here++;
	members_queue(m, index);
}

/* Queues the event of the end of a client that is here. */
static inline void members_ended(struct members *m, uint32_t index, enum member_kind end)
{
	if (!m->of)
		return;
	m->of[index].ended = true;
	m->of[index].end = (uint8_t)end;
	if (!m->of[index].untold)
		members_queue(m, index);
}

/* Returns true if the index must not be reused, because the end of its client is still queued. */
static inline bool members_kept(const struct members *m, uint32_t index)
{
	return m->of && m->of[index].ended;
}

/* Stores the ids of the process that has this index, unless an event has reported them already. */
static inline void members_know(struct members *m, uint32_t index, uint32_t pid, uint32_t uid,
	uint32_t gid)
{
	struct member *of = &m->of[index];

	if (of->here && !of->untold)
		return;
	of->pid = pid;
	of->uid = uid;
	of->gid = gid;
}

/*
 * Takes the next event. Returns false if there is none. After MEMBER_LEFT or MEMBER_DIED the index
 * may be reused.
 */
static inline bool members_take(struct members *m, struct member_event *event_p)
{
	uint32_t index;
	struct member *of;

	if (!m->count)
		return false;
	index = m->queue[m->first];
	of = &m->of[index];
	*event_p = (struct member_event){of->untold ? MEMBER_CAME : of->end, index, of->pid,
		of->uid, of->gid};
	if (!of->untold) {
		members_forget(m, index);
		m->here--;
	}
	of->untold = false;
	if (of->ended) /* the next call takes the event of the end */
		return true;
	m->first = (m->first + 1) % m->n;
	m->count--;
	return true;
}

struct members_at_door {
	struct members *m;
	const struct shm_region *region;
};

static inline void members_meet_one(void *arg, const struct wakefd_intro *in)
{
	const struct members_at_door *d = (const struct members_at_door *)arg;

	if (in->index < d->m->n && shm_holds(d->region, in->fd, MEMBER_BYTE(in->index)))
		members_know(d->m, in->index, in->pid, in->uid, in->gid);
}

/*
 * Reads the introductions of clients (base/wakefd.h). Must be called when a client reports that
 * the queue of the socket for introductions is full, and before the server tests the locks of
 * clients: as long as an introduction is not read, its descriptor keeps the client's byte locked,
 * even if the client has ended.
 */
static inline void members_meet(struct members *m, struct waiter *w)
{
	struct members_at_door d = {m, &w->region};

	if (m->of)
		wakefd_meet(&w->wake, members_meet_one, &d);
}

/*
 * Admits a client. A client calls waiter_introduce() before it becomes visible to the server. So
 * its introduction is in the socket's queue or was read before, unless it could not be sent.
 */
static inline void members_admit(struct members *m, struct waiter *w, uint32_t index)
{
	members_meet(m, w);
	members_came(m, index);
}

#endif
