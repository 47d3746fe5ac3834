/* SPDX-License-Identifier: MIT */
#include "grow.h"

static uint32_t at_most(uint32_t blocks, uint32_t most)
{
	return blocks < most ? blocks : most;
}

void chan_want(struct chan *ch, uint32_t send, uint32_t recv)
{
	struct growth *g = &ch->grow;

	send = at_most(send, ch->most);
	recv = at_most(recv, ch->most);
	if (send > ch->cr.c && send > g->asked && send > g->ask)
		g->ask = send;
	if (recv > ch->recv_mask + 1 && recv > g->need)
		g->need = recv;
	chan_set_growing(ch);
}

/* Returns the size of the smallest ring in which a message may have @len bytes, in blocks. */
static uint32_t ring_for(const struct chan *ch, uint32_t len)
{
	return (uint32_t)pow2_ceil((uint64_t)wire_blocks(len) * (ch->nested ? 16 : 8));
}

bool chan_outgrows(struct chan *ch, uint32_t len, uint32_t resp_max)
{
	if (len <= ch->len_max && resp_max <= ch->resp_max)
		return false;
	chan_want(ch, ring_for(ch, len), ring_for(ch, resp_max));
	return true;
}

/* ------------------------------------------------------------- the receive ring */

bool chan_offer_due(const struct chan *ch)
{
	const struct growth *g = &ch->grow;

	return g->need > ch->recv_mask + 1 && !g->offer.blocks && !g->old_recv;
}

int chan_offer(struct chan *ch, uint8_t *memory, uint32_t key)
{
	struct growth *g = &ch->grow;

	assert((uintptr_t)memory % WIRE_RING_ALIGN == 0);
	if (chan_add_calls(ch, g->need))
		return -ENOMEM;
	g->offer = (struct ring_offer){(uintptr_t)memory, key, g->need};
	g->next_recv = memory;
	g->tell = true;
	return 0;
}

bool chan_left_recv(const struct chan *ch)
{
	return ch->grow.old_recv && chan_consumer(ch) >= ch->grow.left;
}

/* Handles the peer's move: the next batches are in the memory that this side has offered. */
static int take_move(struct chan *ch)
{
	struct growth *g = &ch->grow;

	if (!g->offer.blocks || g->tell)
		return -EPROTO;
	g->old_recv = ch->recv_ring;
	g->left = ch->live.pos;
	ch->recv_ring = g->next_recv;
	ch->recv_mask = g->offer.blocks - 1;
	ch->recv_last = ch->live.pos - 1;
	credit_peer_grows(&ch->cr, g->offer.blocks);
	g->offer.blocks = 0;
	chan_set_limits(ch);
	return 0;
}

/* ---------------------------------------------------------------- the send ring */

bool chan_accept_due(const struct chan *ch)
{
	return ch->grow.offered.blocks && !ch->grow.next_send && !ch->grow.old_send;
}

int chan_accept_offer(struct chan *ch, uint8_t *memory)
{
	if (chan_add_reqs(ch, ch->grow.offered.blocks))
		return -ENOMEM;
	ch->grow.next_send = memory;
	return 0;
}

bool chan_left_send(const struct chan *ch)
{
	return ch->grow.old_send && ch->cr.rc >= ch->grow.moved;
}

/* Continues in the new send ring. All batches must be sealed. */
static void move(struct chan *ch)
{
	struct growth *g = &ch->grow;

	g->old_send = ch->send_ring;
	g->old_mask = ch->mask;
	g->moved = ch->sent;
	ch->send_ring = g->next_send;
	ch->mask = g->offered.blocks - 1;
	credit_grow(&ch->cr, g->offered.blocks);
	g->offered.blocks = 0;
	g->next_send = NULL;
	g->laps = 0;
	ch->stats.grown++;
	chan_set_limits(ch);
	chan_advance(ch);
}

/* ------------------------------------------------------------------------ notes */

static uint32_t size_log(uint32_t blocks)
{
	return blocks ? (uint32_t)__builtin_ctz(blocks) + WIRE_BLOCK_SHIFT : 0;
}

static bool has_note(const struct chan *ch)
{
	return ch->grow.ask || ch->grow.tell;
}

static void put_note(struct chan *ch, void *at, uint32_t count)
{
	struct growth *g = &ch->grow;
	uint64_t ring = size_log(g->ask) << WIRE_SIZE_BITS;

	if (g->tell)
		ring |= g->offer.addr | size_log(g->offer.blocks);
	wire_put_note(at, count, g->tell ? g->offer.key : 0, ring);
	if (g->ask)
		g->asked = g->ask;
	g->ask = 0;
	g->tell = false;
}

/* Converts a size in a note to blocks. Returns UINT32_MAX if a ring cannot have it. */
static uint32_t size_in(const struct chan *ch, uint64_t ring, unsigned shift)
{
	uint32_t log = (uint32_t)(ring >> shift) & WIRE_SIZE_MASK;
	uint32_t blocks = log >= WIRE_BLOCK_SHIFT ? 1u << (log - WIRE_BLOCK_SHIFT) : UINT32_MAX;

	if (!log)
		return 0;
	return blocks <= ch->most ? blocks : UINT32_MAX;
}

static int take_note(struct chan *ch, const void *meta)
{
	struct growth *g = &ch->grow;
	struct ring_offer offer;
	uint64_t ring = wire_get_note(meta, &offer.key);
	uint32_t asked = size_in(ch, ring, WIRE_SIZE_BITS);

	offer.blocks = size_in(ch, ring, 0);
	offer.addr = ring & ~(uint64_t)(WIRE_RING_ALIGN - 1);
	if (asked == UINT32_MAX || offer.blocks == UINT32_MAX)
		return -EPROTO;
	if (offer.blocks) {
		if (g->offered.blocks || offer.blocks <= ch->cr.c)
			return -EPROTO;
		g->offered = offer;
	} else if (!asked) {
		return -EPROTO;
	}
	chan_want(ch, 0, asked);
	return 0;
}

COLD int chan_take_growth(struct chan *ch, const void *meta, uint32_t count)
{
	if (count & WIRE_NOTE && take_note(ch, meta))
		return -EPROTO;
	if (count & WIRE_MOVE && take_move(ch))
		return -EPROTO;
	chan_set_growing(ch);
	return 0;
}

COLD void chan_seal_growth(struct chan *ch, void *at, uint32_t count)
{
	bool moves = ch->grow.next_send && !chan_waits(ch);

	count |= moves ? WIRE_MOVE : 0;
	if (has_note(ch))
		put_note(ch, at, count | WIRE_NOTE);
	else
		wire_put_note(at, count, 0, 0);
	if (moves)
		move(ch);
}

bool chan_growth_due(const struct chan *ch)
{
	return has_note(ch) || ch->grow.next_send;
}

bool chan_growth_batch(struct chan *ch)
{
	if (chan_waits(ch) || !chan_growth_due(ch))
		return false;
	if (!credit_batch_fits(&ch->cr)) {
		ch->stalled = true; /* the peer's position is needed */
		return false;
	}
	chan_new_batch(ch, 0);
	ch->bare = true;
	return true;
}

void chan_set_growing(struct chan *ch)
{
	const struct growth *g = &ch->grow;

	ch->growing = has_note(ch) || g->next_send || g->old_send || g->old_recv ||
		      chan_offer_due(ch) || chan_accept_due(ch);
}
