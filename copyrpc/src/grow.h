/* SPDX-License-Identifier: MIT */
/*
 * Rings that become larger: a part of the interface of chan.h. docs/memory.md describes the
 * protocol.
 *
 * The owner of a receive ring offers larger memory (chan_offer()), because its own calls need more
 * credit or larger responses, or because the peer has asked. The peer maps a send ring of the same
 * size (chan_accept_offer()), marks a batch as the last one in the old memory, and continues in the
 * new one: it moves. Offers and requests for larger rings are notes in the metadata of batches.
 * Each ring grows on its own, so the two may differ in size.
 *
 * The old send ring remains until the peer has released all batches in it, and the old receive ring
 * until all requests in it are released. A ring grows again only when its old memory was freed.
 */
#ifndef COPYRPC_GROW_H
#define COPYRPC_GROW_H

#include "chan.h"

/* Size of a new endpoint's rings in bytes, if the attributes permit that size. */
#define RING_START 8192u

/* A call that finds no room makes the send ring, and one that finds no credit the receive ring,
 * RING_FACTOR times as large. Traffic makes the send ring larger by the same factor if it fills the
 * ring RING_LAPS times, at a rate of more than one byte per RING_NS_PER_BYTE nanoseconds. */
#define RING_FACTOR 4
#define RING_LAPS 4
#define RING_NS_PER_BYTE 256

/* Returns the first size of rings that may grow to @size bytes. */
static inline uint32_t first_ring(uint32_t size)
{
	return size < RING_START ? size : RING_START;
}

/* The ring that contains the batch at a position. */
struct sent_ring {
	uint8_t *at;
	uint32_t mask;
	bool old;
};

static inline struct sent_ring chan_ring_of(const struct chan *ch, uint64_t pos)
{
	if (ch->grow.old_send && pos < ch->grow.moved)
		return (struct sent_ring){ch->grow.old_send, ch->grow.old_mask, true};
	return (struct sent_ring){ch->send_ring, ch->mask, false};
}

static inline uint32_t chan_larger(uint32_t blocks)
{
	return blocks * RING_FACTOR;
}

/* Counts a lap of the send ring if the position @p is at the start of the ring. */
static inline void chan_count_lap(struct chan *ch, uint64_t p)
{
	ch->grow.laps += !(p & ch->mask);
}

/* Requests a send ring of @send blocks and a receive ring of @recv blocks, each limited to
 * ch->most; 0: no change of this ring. */
void chan_want(struct chan *ch, uint32_t send, uint32_t recv);

/* True if the present rings are too small for a call. Then it also requests larger ones. */
bool chan_outgrows(struct chan *ch, uint32_t len, uint32_t resp_max);

/* True if the receive ring should become larger, and memory of grow.need blocks can be offered. */
bool chan_offer_due(const struct chan *ch);

/* Offers memory of grow.need blocks, which the peer can write with @key. It must begin at a
 * multiple of WIRE_RING_ALIGN. Returns 0 or -ENOMEM. */
int chan_offer(struct chan *ch, uint8_t *memory, uint32_t key);

/* True if the peer has offered memory of grow.offered.blocks blocks, and chan_accept_offer() may be
 * called. */
bool chan_accept_due(const struct chan *ch);

/* Stores @memory, of the same size as the offered memory, as the next send ring. Returns 0 or
 * -ENOMEM. */
int chan_accept_offer(struct chan *ch, uint8_t *memory);

/* chan_left_recv(): true if all requests in the old receive ring are released. chan_left_send():
 * true if the peer has released all batches in the old send ring; before it is freed, the HCA must
 * have completed the last of them, too. The rings must not be freed during a callback. */
bool chan_left_recv(const struct chan *ch);
bool chan_left_send(const struct chan *ch);

/* Updates ch->growing. */
void chan_set_growing(struct chan *ch);

/* True if the next batch carries a note, or moves to the next send ring if no other batch waits. */
bool chan_growth_due(const struct chan *ch);

/* Opens a batch without messages for a note or a move if there is no other batch. Returns false if
 * there is no need or no room for it. */
bool chan_growth_batch(struct chan *ch);

/* Opens a batch without messages if one is needed. */
static inline bool chan_flow_batch(struct chan *ch)
{
	return (ch->growing && chan_growth_batch(ch)) || chan_credit_batch(ch);
}

/* Part of chan_seal(): adds the note, if there is one, to the metadata @at, and moves to the new
 * send ring if no batch waits. */
void chan_seal_growth(struct chan *ch, void *at, uint32_t count);

/* Handles the flags in the count of a received batch. Returns 0 or -EPROTO. */
int chan_take_growth(struct chan *ch, const void *meta, uint32_t count);

#endif
