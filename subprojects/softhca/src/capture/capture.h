/* SPDX-License-Identifier: MIT */
/*
 * The capture of a fabric: packets are written to a pcapng file by the process that executes
 * a message. The packets between capture_begin() and capture_commit() are a group. A group is in
 * the file as a whole or not at all, even if the process is killed: capture_commit() changes `end`
 * (arena.h), the valid length of the file, and the counts in one step of the journal
 * (hca/journal.h). The caller of each function but capture_create() and capture_resolve() must hold
 * the fabric's mutex.
 */
#ifndef SOFTHCA_CAPTURE_CAPTURE_H
#define SOFTHCA_CAPTURE_CAPTURE_H

#include <stdbool.h>

#include "fabric/arena.h"
#include "packet/frame.h"
#include "packet/packet.h"

/*
 * Creates, or empties, the file of a capture that is to be started. Returns 0 with *c filled, or
 * -errno; -ESPIPE if @path is a symbolic link, or can be opened but is not a regular file,
 * -ENAMETOOLONG if its absolute name is too long.
 */
int capture_create(const char *path, const struct softhca_topology *t, struct capture *c);

/*
 * Writes the absolute name of a capture's file, because other members have other working
 * directories. The file need not exist. Returns 0 or -errno.
 */
int capture_resolve(const char *path, char absolute[CAPTURE_PATH]);

/*
 * Starts the capture @c. @owner: slot of the process with which the capture ends, or
 * NO_SLOT. @qpn: the only QP that is captured, or 0. Returns 0, or -EBUSY if
 * another capture is running.
 */
int capture_start(struct arena *a, const struct capture *c, uint32_t owner, uint32_t qpn);

/* Ends the capture that is running. Its counts stay readable. */
void capture_stop(struct arena *a);

/*
 * Ends the capture if its owner is the process of @slot, which is dead or is leaving. Otherwise
 * only trims the file of a running capture.
 */
void capture_leave(uint32_t slot);

/* Begins a group. If the file cannot be opened, ends the capture and returns false. */
bool capture_begin(void);

/*
 * Adds a packet of the adapter @rail. @frame consists of room for headers (frame_head_bytes()), the
 * packet of @len bytes from BTH to padding, and room for the ICRC.
 */
void capture_add(uint32_t rail, uint64_t ns, const struct flow *f, uint8_t *frame, size_t len,
	const char *comment);

/*
 * Ends a group and makes it a part of the file. Adds @messages and @bytes to the capture's
 * counts. If the file could not be written, ends the capture instead.
 */
void capture_commit(uint32_t messages, uint64_t bytes);

/* Discards the group. */
void capture_cancel(void);

#endif
