/* SPDX-License-Identifier: MIT */
/*
 * The table of rdma_cm ids, their ports, and the events that they get. The caller of each function
 * must hold the fabric's mutex.
 *
 * An event is a record in the FIFO of the id's event channel: an id, a type, and a status. The
 * other fields of the program's event are taken from the id when the program reads the event.
 */
#ifndef SOFTHCA_CM_IDS_H
#define SOFTHCA_CM_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/address.h"
#include "fabric/fabric.h"

/* The values of RDMA_CM_EVENT_*. */
enum cm_event_type {
	CM_EV_ADDR_RESOLVED = 0,
	CM_EV_ADDR_ERROR = 1,
	CM_EV_ROUTE_RESOLVED = 2,
	CM_EV_CONNECT_REQUEST = 4,
	CM_EV_CONNECT_RESPONSE = 5,
	CM_EV_UNREACHABLE = 7,
	CM_EV_REJECTED = 8,
	CM_EV_ESTABLISHED = 9,
	CM_EV_DISCONNECTED = 10,
	CM_EV_TIMEWAIT_EXIT = 15,
};

struct cm_event {
	uint64_t id; /* must be first: fifo_drop() compares it */
	uint16_t type; /* enum cm_event_type */
	uint16_t has_param; /* the event reports the parameters in `remote` of the id */
	int32_t status;
};

static inline struct cm_id *cm_at(uint32_t index)
{
	return &arena()->cm_ids[index];
}

static inline uint32_t cm_index(const struct cm_id *id)
{
	return (uint32_t)(id - arena()->cm_ids);
}

/*
 * Makes an id of the process of slot @owner, whose events are posted to @fifo. cm_publish() makes
 * the id visible. Returns 0; -ENOMEM: the table or /dev/shm is full; or another error of
 * reserve_object().
 */
int cm_alloc(uint32_t owner, uint64_t fifo, struct cm_id **id_p);
/*
 * Makes an id for a request to @listener that the program has not read, as cm_alloc() does. Returns
 * NULL if that is not possible.
 */
struct cm_id *cm_alloc_request(const struct cm_id *listener);
void cm_publish(struct cm_id *id);

/*
 * Frees the id and its unread events. The other end is not notified. Unless the id is gone (struct
 * cm_away), it must belong to this process or to a dead one, see fifo_drop().
 */
void cm_free(struct cm_id *id);
/* Frees only the events. Needs no descriptor, because the process has the channel open. */
void cm_forget_events(struct cm_id *id);

/*
 * Finds an id by number. Returns 0; -ENOENT if this process has no such id; -EINVAL if the id
 * belongs to another event channel than @fifo.
 */
int cm_find(uint32_t index, uint64_t fifo, struct cm_id **id_p);

/* Returns the id that @link names, or NULL. */
struct cm_id *cm_linked(struct cm_link link);
struct cm_link cm_link_to(const struct cm_id *id);

/*
 * Sets the address of the id to @addr. Port 0: any free port. Returns 0, or -EADDRINUSE if another
 * id of the port space has the same port at this address, unless both have reuse_addr and the other
 * id does not listen.
 */
int cm_take_port(struct cm_id *id, const struct cm_addr *addr);

/* Returns true if no other id listens at the address and port of @id. */
bool cm_may_listen(const struct cm_id *id);

/* Returns the id that listens for requests to @addr, or NULL. */
struct cm_id *cm_listener(uint32_t ps, const struct cm_addr *addr);

/* Returns the number of requests to a listening id that its program has not read. */
uint32_t cm_unread(const struct cm_id *listener);

/* Moves the id, with its events, to the event channel of @fifo. */
void cm_move(struct cm_id *id, uint64_t fifo);

/* Time of a message from one end to the other; the real link model adds the adapter's latency. */
#define CM_MESSAGE_NS 100000u

/*
 * The event that a connection has ended is posted when the program has polled the completions that
 * the QP had when the message arrived, but at the latest this long after the message's arrival.
 */
#define CM_PATIENCE_NS 500000000u

/* Makes the thread of the id's process run cm_serve() at @due; 0: never. */
void cm_wake(const struct cm_id *id, uint64_t due);

/*
 * Posts an event of @id about an action of its own program, after the events of earlier messages.
 */
void cm_post(struct cm_id *id, enum cm_event_type type, int32_t status, bool has_param);

/*
 * Posts an event of @id about a message from the other end when the message has arrived:
 * immediately in virtual time, or if the process of @id has no thread (step mode).
 */
void cm_tell(struct cm_id *id, enum cm_event_type type, int32_t status, bool has_param);

/*
 * Posts the events of this process's ids for which the channel had no room. Must be called when the
 * program has read the last event of the channel, and when it finds the channel empty, because the
 * thread that has read the last event may have lost the mutex since.
 */
void cm_refill(uint64_t fifo);

/*
 * Returns the time at which the next event of the id is posted; 0: there is none, or it waits for
 * room in the channel.
 */
uint64_t cm_due(const struct cm_id *id);

/* Posts the next event of the id, unless the program has to poll first (CM_PATIENCE_NS). */
void cm_deliver(struct cm_id *id, uint64_t now);

/*
 * Must be called after a process was killed while it sent a message: makes the threads of all
 * processes run cm_serve().
 */
void cm_recover(void);

#endif
