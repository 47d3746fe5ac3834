/* SPDX-License-Identifier: MIT */
/*
 * The connection manager: what happens to two ids when one of them is told to resolve, connect,
 * accept, reject or disconnect. Both ends are in this fabric: the process that sends a message
 * changes the other end's id at once, and the thread of the other one posts the event when the
 * message has arrived (cm_tell()).
 *
 * The fabric's mutex is held. The functions return 0 or -errno; -EINVAL: the id is in another
 * state, or there are more private data than the message holds.
 */
#ifndef SOFTHCA_CM_CM_H
#define SOFTHCA_CM_CM_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/address.h"
#include "fabric/cm_ids.h"

/* Bytes of private data. Programs are given so many always, as from a MAD, with zeros behind. */
#define CM_REQ_DATA 56 /* 92, less the IP header of the RDMA CM */
#define CM_REP_DATA 196
#define CM_REJ_DATA 148
#define CM_SIDR_REQ_DATA 180 /* 216, less the same header */
#define CM_SIDR_REP_DATA 136

/* Status of a rejection: the reasons of InfiniBand's REJ. */
#define CM_REJ_NO_SERVICE 8
#define CM_REJ_CONSUMER 28
#define CM_REJ_VENDOR_OPTION 35
/* For datagrams: the status of SIDR_REP. */
#define CM_SIDR_UNSUPPORTED 1
#define CM_SIDR_REJECT 2

#define CM_UDP_QKEY 0x01234567u /* of the port space UDP */

bool cm_is_ud(const struct cm_id *id);

/* @place: the adapter that has @addr; NULL for the wildcard. -EADDRINUSE. */
int cm_bind(struct cm_id *id, const struct cm_addr *addr, const struct cm_place *place);

/*
 * Resolves @dst, which @place has; NULL: nobody has it. An id that is not bound gets the adapter and
 * the address of the other end, as a connection of the host to itself.
 */
int cm_resolve_addr(struct cm_id *id, const struct cm_addr *dst, const struct cm_place *place);
int cm_resolve_route(struct cm_id *id);

/* @backlog: requests that may be unread; 0: the greatest number. */
int cm_listen(struct cm_id *id, uint32_t backlog);

int cm_connect(struct cm_id *id, const struct cm_param *p);

/* @p: the reply to a request, with @uid; NULL: the answer to a reply. */
int cm_accept(struct cm_id *id, const struct cm_param *p, uint64_t uid);
int cm_reject(struct cm_id *id, const void *data, uint8_t len, uint8_t reason);
int cm_disconnect(struct cm_id *id);

/* The first message has arrived on the QP of an id that still waits for the end of the handshake. */
int cm_established(struct cm_id *id);

/* Destroys the id and tells the other end, as far as it still matters to it. */
void cm_destroy(struct cm_id *id);

/* Destroys the ids of an event channel of this process, of a process. */
void cm_close_channel(uint64_t fifo);
void cm_reap(uint32_t slot);

/* The slot of the process at the other end, else NO_SLOT. */
uint32_t cm_peer_slot(const struct cm_id *id);

#endif
