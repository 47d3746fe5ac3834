/* SPDX-License-Identifier: MIT */
/*
 * The capture of a fabric: packets are written to a pcapng file by the process that executes
 * a message. A group of packets is in the file as a whole or not at all, whenever the process
 * is killed: `end` (arena.h) and the counts move in one step when all of it is written. The fabric's mutex is held in
 * every call, but for capture_create().
 */
#ifndef SOFTHCA_CAPTURE_CAPTURE_H
#define SOFTHCA_CAPTURE_CAPTURE_H

#include <stdbool.h>

#include "fabric/arena.h"
#include "packet/frame.h"
#include "packet/packet.h"

/*
 * Makes, or empties, the file of a capture that is to be started. Returns 0 with *c filled, or
 * -errno; -ESPIPE if it is not a regular file, or a link to one, -ENAMETOOLONG if its absolute name
 * is too long.
 */
int capture_create(const char *path, const struct softhca_topology *t, struct capture *c);

/*
 * The absolute name of a capture's file, which need not be there: members have other working
 * directories. Returns 0 or -errno.
 */
int capture_resolve(const char *path, char absolute[CAPTURE_PATH]);

/*
 * Starts the capture @c. @owner: it ends with the process of this slot, or NO_SLOT. @qpn: the
 * only QP, or 0. Returns 0, or -EBUSY if another one is running.
 */
int capture_start(struct arena *a, const struct capture *c, uint32_t owner, uint32_t qpn);

/* Ends the capture that is running. Its counts stay readable. */
void capture_stop(struct arena *a);

/* The process of @slot is dead or leaves; the fabric's capture may be its own. */
void capture_leave(uint32_t slot);

/* Begins a group. Returns false if the capture cannot go on. */
bool capture_begin(void);

/*
 * Adds a packet of the adapter @rail. @frame has room for headers (frame_head_bytes()), then the
 * packet of @len bytes from BTH to padding, then room for the ICRC.
 */
void capture_add(uint32_t rail, uint64_t ns, const struct flow *f, uint8_t *frame, size_t len,
	const char *comment);

/* Ends a group: it is in the file. With it @messages have been executed, of @bytes in all. */
void capture_commit(uint32_t messages, uint64_t bytes);

/* Ends a group: nothing of it is. */
void capture_cancel(void);

#endif
