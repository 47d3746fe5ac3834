/* SPDX-License-Identifier: MIT */
/*
 * Endpoints and what is between them: messages gathered, WRITEs under way, and the
 * serial servers of the adapter's contexts.
 *
 * A message is a word: a slot of the rank that called, and whether it is the response.
 * The messages of an endpoint stand in one ring, from the oldest that its peer has not
 * taken to the newest that is gathered; WRITEs of an endpoint arrive in order.
 */
#ifndef BENCHKV_SIM_WIRE_H
#define BENCHKV_SIM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "machine.h"

#define WIRE_RESPONSE (1u << 31)
#define WIRE_MESSAGE_BYTES 64 /* of a message, and of the metadata of a WRITE */

struct endpoint {
	uint32_t *msgs; /* ring; grows */
	uint32_t size, head, posted, tail; /* taken, posted, gathered up to here */
	uint32_t calls, replies; /* gathered */
	uint32_t writes; /* posted, ever */
	uint32_t received; /* WRITEs of the peer that this side has worked on */
	uint32_t consumed; /* this side's WRITEs that the peer is known to have worked on */
	uint32_t pending; /* calls posted and not answered */
	bool dirty;
};

/* A WRITE under way. */
struct arrival {
	uint64_t ns; /* at the receiving server */
	uint32_t from; /* rank */
	uint32_t messages;
	uint32_t consumed; /* what its metadata says */
};

/* The adapter's side of a context. */
struct nic {
	uint64_t send_free, recv_free; /* when the servers will be idle */
	struct arrival *heap; /* by time */
	uint32_t n, size;
};

/* Gathers a message. 0 or -ENOMEM. */
int endpoint_append(struct endpoint *e, uint32_t message);

/* Takes the next message that has arrived from the endpoint at the other side. */
static inline uint32_t endpoint_take(struct endpoint *e)
{
	return e->msgs[e->head++ & (e->size - 1)];
}

/*
 * Posts a WRITE with up to `most` gathered messages at ns, through the sender's context to
 * the receiver's. 0 or -ENOMEM.
 */
int wire_post(const struct machine *m, struct nic *from, uint32_t rank, struct endpoint *e,
	struct nic *to, uint32_t most, uint64_t ns);

/* The next WRITE whose completion is there at ns: takes it, else returns false. */
bool wire_receive(const struct machine *m, struct nic *nic, uint64_t ns, struct arrival *a_p);

/* When the next completion will be there, as far as is known; UINT64_MAX: none. */
uint64_t wire_next(const struct machine *m, const struct nic *nic);

#endif
