/* SPDX-License-Identifier: MIT */
/*
 * When a program connects, accepts, rejects or disconnects an id, the connection manager changes
 * this id and the id at the other end. If both ends are in this fabric, the process that sends a
 * message changes the other end's id immediately; the receiver's thread posts the event when the
 * message has arrived (cm_tell()). For ends in other fabrics see remote.h.
 *
 * The caller must hold the fabric's mutex. The functions return 0 or -errno. -EINVAL means that the
 * state of the id does not allow the operation, or that there is more private data than the message
 * can hold.
 */
#ifndef SOFTHCA_CM_CM_H
#define SOFTHCA_CM_CM_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/address.h"
#include "fabric/arena.h"

/*
 * The maximum of private data of each message, in bytes. The receiving program always gets this
 * number of bytes, as from a MAD, padded with zeros.
 */
#define CM_REQ_DATA 56 /* 92, less the IP header of the RDMA CM */
#define CM_REP_DATA 196
#define CM_REJ_DATA 148
#define CM_SIDR_REQ_DATA 180 /* 216, less the same header */
#define CM_SIDR_REP_DATA 136

/* Status of a rejection: the reasons of InfiniBand's REJ. */
#define CM_REJ_TIMEOUT 4
#define CM_REJ_INVALID_ID 6
#define CM_REJ_NO_SERVICE 8
#define CM_REJ_STALE 10
#define CM_REJ_MTU 26
#define CM_REJ_CONSUMER 28
#define CM_REJ_VENDOR_OPTION 35
/* For datagrams: the status of SIDR_REP. */
#define CM_SIDR_UNSUPPORTED 1
#define CM_SIDR_REJECT 2

#define CM_UDP_QKEY 0x01234567u /* the Q_Key of QPs of the port space UDP */

static inline bool cm_is_ud(const struct cm_id *id)
{
	return id->qp_type == QPT_UD;
}

/* @place: the adapter that has @addr; NULL for the wildcard. May also return -EADDRINUSE. */
int cm_bind(struct cm_id *id, const struct cm_addr *addr, const struct cm_place *place);

/*
 * Resolves @dst. @place: the adapter that has @dst; NULL: no adapter has it. @path: the path to
 * @dst in another fabric; NULL: none. An id without an adapter gets the adapter and the address at
 * which @path begins. Without @path it gets those of the other end, as if the host connected to
 * itself.
 */
struct remote_path;
int cm_resolve_addr(struct cm_id *id, const struct cm_addr *dst, const struct cm_place *place,
	const struct remote_path *path);
int cm_resolve_route(struct cm_id *id);

/* @backlog: the number of requests that may be unread; 0: the maximum. */
int cm_listen(struct cm_id *id, uint32_t backlog);

int cm_connect(struct cm_id *id, const struct cm_param *p);

/*
 * Replies to a request with the parameters @p, and sets `uid` of the id to @uid. If @p is NULL,
 * acknowledges a reply.
 */
int cm_accept(struct cm_id *id, const struct cm_param *p, uint64_t uid);
int cm_reject(struct cm_id *id, const void *data, uint8_t len, uint8_t reason);
int cm_disconnect(struct cm_id *id);

/* Completes the handshake of an id because the first message has arrived on its QP. */
int cm_established(struct cm_id *id);

/* Destroys the id. Notifies the other end, if that end is still connected or connecting. */
void cm_destroy(struct cm_id *id);

/* Destroys the ids of an event channel of this process. */
void cm_close_channel(uint64_t fifo);
/* Destroys the ids of a dead process. */
void cm_reap(uint32_t slot);

/*
 * Posts the events of this process's ids that are due at @now, and repeats the messages to other
 * fabrics that are due. Returns the time at which the next event or message is due, or 0.
 */
uint64_t cm_serve(uint64_t now);

/*
 * Returns the listening id to which a request to @dst belongs, or NULL if none belongs to a live
 * process.
 */
struct cm_id *cm_live_listener(uint32_t ps, const struct cm_addr *dst);
/* Handles the other end's acknowledgement of this end's reply. */
void cm_answered(struct cm_id *id);
/*
 * Ends the connection, because the other end has agreed to disconnect or does not exist any
 * more.
 */
void cm_end_connection(struct cm_id *id);

/* Returns the slot of the process at the other end, or NO_SLOT if there is none. */
uint32_t cm_peer_slot(const struct cm_id *id);

#endif
