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

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "machine.h"
#include "timeline.h"

#define WIRE_RESPONSE (1u << 31)
#define WIRE_MESSAGE_BYTES 64 /* of a message, and of the metadata of a WRITE */

#define ENDPOINT_FEW 4

struct endpoint {
	uint32_t *msgs; /* ring; grows */
	uint32_t size, head, posted, tail; /* taken, posted, gathered up to here */
	uint32_t calls, replies; /* gathered */
	uint32_t writes; /* posted, ever */
	uint32_t received; /* WRITEs of the peer that this side has worked on */
	uint32_t consumed; /* this side's WRITEs that the peer is known to have worked on */
	uint32_t pending : 31; /* calls posted and not answered */
	uint32_t dirty : 1;
	uint32_t few[ENDPOINT_FEW]; /* msgs, as long as these are enough: in the same cache line */
};

static_assert(sizeof(struct endpoint) == 64, "a cache line");

void endpoint_init(struct endpoint *e);
void endpoint_fini(struct endpoint *e);

/* The adapter's side of a context. */
struct nic {
	uint64_t send_free, recv_free; /* when the servers will be idle */
	struct timeline
		arrivals; /* WRITEs under way to it, when they are at the receiving server */
};

/* Room for more messages. 0 or -ENOMEM. */
int endpoint_grow(struct endpoint *e);

/* Gathers a message. 0 or -ENOMEM. */
static inline int endpoint_append(struct endpoint *e, uint32_t message)
{
	if (e->tail - e->head == e->size && endpoint_grow(e))
		return -ENOMEM;
	e->msgs[e->tail++ & (e->size - 1)] = message;
	if (message & WIRE_RESPONSE)
		e->replies++;
	else
		e->calls++;
	return 0;
}

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

/* When the next completion will be there, as far as is known; UINT64_MAX: none. */
static inline uint64_t wire_next(const struct machine *m, struct nic *nic)
{
	const struct event *e = timeline_first(&nic->arrivals);

	if (!e)
		return UINT64_MAX;
	return (e->ns > nic->recv_free ? e->ns : nic->recv_free) + (uint64_t)m->recv_ns;
}

/* The next WRITE whose completion is there at ns: takes it, else returns false. */
static inline bool wire_receive(const struct machine *m, struct nic *nic, uint64_t ns,
	struct event *e_p)
{
	uint64_t done = wire_next(m, nic);

	if (!nic->arrivals.n || done > ns)
		return false;
	*e_p = timeline_take(&nic->arrivals);
	nic->recv_free = done;
	return true;
}

#endif
