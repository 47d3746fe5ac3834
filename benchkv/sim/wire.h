/* SPDX-License-Identifier: MIT */
/*
 * Endpoints and what is between them: messages gathered, WRITEs under way, and the
 * serial servers of the adapter's contexts.
 *
 * A posted WRITE is a parcel, which a thread's mail carries to the thread that simulates the
 * receiver. There it becomes an event of the receiving context, and its messages join those that
 * the endpoint is to receive. WRITEs of an endpoint arrive in order.
 */
#ifndef BENCHKV_SIM_WIRE_H
#define BENCHKV_SIM_WIRE_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "machine.h"
#include "timeline.h"

#define WIRE_MESSAGE_BYTES 64 /* of a message, and of the metadata of a WRITE */
#define WIRE_RESPONSE (1u << 31)

struct message {
	uint32_t slot; /* of the rank that called; with WIRE_RESPONSE: the response */
	uint32_t word; /* of the control, which goes with a call */
};

/* A queue of messages, which grows. */
struct messages {
	struct message *ring;
	uint32_t size, head, tail;
	struct message few[2]; /* the ring, as long as it is large enough */
};

void messages_init(struct messages *q);
void messages_fini(struct messages *q);

/* Twice the room. 0 or -ENOMEM. */
int messages_grow(struct messages *q);

static inline int messages_put(struct messages *q, struct message m)
{
	if (q->tail - q->head == q->size && messages_grow(q))
		return -ENOMEM;
	q->ring[q->tail++ & (q->size - 1)] = m;
	return 0;
}

static inline struct message messages_take(struct messages *q)
{
	return q->ring[q->head++ & (q->size - 1)];
}

struct endpoint {
	struct messages gathered, arriving;
	uint32_t calls, replies; /* gathered */
	uint32_t writes; /* posted, ever */
	uint32_t received; /* WRITEs of the peer that this side has worked on */
	uint32_t consumed; /* this side's WRITEs that the peer is known to have worked on */
	uint32_t pending : 31; /* calls posted and not answered */
	uint32_t dirty : 1;
};

void endpoint_init(struct endpoint *e);
void endpoint_fini(struct endpoint *e);

/* Gathers a message. 0 or -ENOMEM. */
static inline int endpoint_append(struct endpoint *e, struct message m)
{
	if (m.slot & WIRE_RESPONSE)
		e->replies++;
	else
		e->calls++;
	return messages_put(&e->gathered, m);
}

/* The adapter's side of a context. */
struct nic {
	uint64_t send_free, recv_free; /* when the servers will be idle */
	struct timeline
		arrivals; /* WRITEs under way to it, when they are at the receiving server */
};

/* A WRITE on its way. Its messages follow it in the mail. */
struct parcel {
	uint64_t ns; /* when it is at the receiving server */
	uint32_t from; /* the rank that sent it */
	uint32_t to; /* daemon */
	uint32_t messages;
	uint32_t consumed; /* what its metadata says */
};

/* Parcels in the order in which they were posted. In a cache line of its own: each has one writer. */
struct mail {
	_Alignas(64) uint64_t *words;
	size_t size, n;
};

/*
 * Posts a WRITE with up to `most` gathered messages at ns, from a rank to a daemon. 0 or -ENOMEM.
 */
int wire_post(const struct machine *m, struct nic *nic, struct endpoint *e, uint32_t most,
	uint64_t ns, uint32_t from, uint32_t to, struct mail *mail);

/* The parcel at *at, or NULL at the end; *at goes on to the next one. */
const struct parcel *mail_next(const struct mail *mail, size_t *at);

/* What mail_next() gave arrives at the receiver's context and endpoint. 0 or -ENOMEM. */
int wire_deliver(struct nic *nic, struct endpoint *e, const struct parcel *p);

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
