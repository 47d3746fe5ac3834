/* SPDX-License-Identifier: MIT */
/*
 * Connections to other fabrics: their messages are MADs between the QPs 1 of two adapters with
 * udp=on. A message that needs an answer is repeated until the answer arrives, at most
 * REMOTE_REPEATS times.
 *
 * The caller must hold the fabric's mutex, except for remote_find().
 */
#ifndef SOFTHCA_CM_REMOTE_H
#define SOFTHCA_CM_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/address.h"
#include "cm/mad.h"
#include "packet/frame.h"
#include "packet/packet.h"

#define REMOTE_REPEAT_NS 250000000u
#define REMOTE_REPEATS 256u /* together 64 s */

/* A path to another fabric. */
struct remote_path {
	struct cm_place from;
	struct cm_addr src; /* address of this end, without a port */
	uint8_t gid[16]; /* of the other end */
	uint32_t mtu; /* enum ibv_mtu */
};

/*
 * Finds the path to @dst. @bound: the adapter and GID at which the path must begin; NULL: the
 * host's routes choose them. Returns 0, or -EADDRNOTAVAIL if no adapter with udp=on has a route to
 * @dst, or if the HCA's mode does not allow connections to other hosts. If the reason is that the
 * host's route begins at an address that no adapter has, path_p->src is set to that address.
 */
int remote_find(const struct cm_addr *dst, const struct cm_place *bound,
	struct remote_path *path_p);

static inline bool cm_is_away(const struct cm_id *id)
{
	return id->away.here != 0;
}

/* Returns true if the other end requested the connection. */
static inline bool remote_is_passive(const struct cm_id *id)
{
	return id->listener.serial != 0;
}

/* Sends a message of the process in slot @owner to the GID @to. */
void remote_emit(const struct cm_place *from, uint32_t owner, const uint8_t *to,
	const struct mad *m);

/* Stores the path in the id, so that cm_is_away() is true. */
void remote_begin(struct cm_id *id, const struct remote_path *path);

/* Sends a message. @status: see struct mad. */
void remote_send(struct cm_id *id, enum mad_type type, uint16_t status);

/* Sends a message and repeats it until remote_stop() is called. */
void remote_ask(struct cm_id *id, enum mad_type type);
void remote_stop(struct cm_id *id);

/* Refuses the request of the id. After the id is freed, a repeated request is refused again. */
void remote_refuse(struct cm_id *id, uint16_t status);

/* Tells the other end that nobody waits for its reply any more. */
void remote_withdraw(struct cm_id *id);

/* Handles a packet for QP 1. Returns true if it holds a message for this fabric. */
bool remote_packet(const struct flow *f, const struct packet *p, const uint8_t *payload);

/* Returns true if messages may arrive for the id, so that this process must receive packets. */
bool remote_receives(const struct cm_id *id);

#endif
