/* SPDX-License-Identifier: MIT */
/*
 * Notices report to a receiver that a request has ended. When all slices have been acknowledged,
 * the sender posts one mark, a message with the record below, on each rail that carried a slice. A
 * rail delivers a mark after the acknowledged slices, so all bytes are in place when the marks of
 * all these rails have arrived. If a rail fails, its mark is sent over another rail, so a mark may
 * arrive twice. The marks of a notice have different positions, and the receiver counts each
 * position once.
 *
 * A sender has at most NOTICE_SLOTS requests under way that notify, one per slot. It uses the slots
 * in turn, in the order in which the bytes of the requests were in place. The sender uses a slot
 * again when the receiver has confirmed that the notice is available to its program, or when the
 * request has failed.
 * Each use has a higher lap than the use before. Laps have 64 bits and are never used twice, so the
 * receiver recognizes a mark of an earlier lap, however late it arrives.
 *
 * The program gets the notices in the order of the uses: a notice waits until each earlier notice
 * is complete, or the request of the earlier notice is known to have failed. A control message
 * reports such a failure; a mark of a higher lap in the same slot shows it, too.
 *
 * If a notice has bytes, they come in a control message, before or after the marks.
 *
 * The functions have no state other than their arguments.
 */
#ifndef TENT_NOTICE_H
#define TENT_NOTICE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NOTICE_SLOTS 16
#define NOTICE_POSITIONS 32
#define NOTICE_LEN 16
#define NOTICE_BYTES 64

/* Little-endian on the wire, like both supported processors. Aligned as in struct ctl_msg. */
struct notice_mark {
	uint64_t lap; /* number of the slot's use, from 1 */
	uint16_t value;
	uint8_t slot;
	uint8_t position, positions;
	uint8_t len; /* number of bytes of the notice, which come in a control message */
	uint8_t zero[2];
} __attribute__((packed, aligned(4)));

static_assert(sizeof(struct notice_mark) == NOTICE_LEN, "as on the wire");

/* The notices of one sender. Must be all zero at first. */
struct notice_counter {
	struct notice_use {
		uint64_t lap;
		uint32_t seen; /* a bit per position */
		bool noted; /* the bytes have come */
		bool complete; /* all marks and bytes have come */
		bool over; /* the program has got the notice, or the request has failed */
		uint8_t len;
		uint16_t value;
		uint8_t bytes[NOTICE_BYTES];
	} slots[NOTICE_SLOTS];
};

/* Checks that the fields of the mark are in range. */
static inline bool notice_valid(const struct notice_mark *m)
{
	return m->slot < NOTICE_SLOTS && m->positions && m->positions <= NOTICE_POSITIONS &&
	       m->position < m->positions && m->len <= NOTICE_BYTES;
}

/* The slot's use with the lap of the mark. NULL: that use is over, or the mark is invalid. */
static inline struct notice_use *notice_use(struct notice_counter *c, const struct notice_mark *m)
{
	struct notice_use *u;

	if (!notice_valid(m) || m->lap < c->slots[m->slot].lap)
		return NULL;
	u = &c->slots[m->slot];
	if (m->lap > u->lap)
		*u = (struct notice_use){.lap = m->lap};
	return u->over ? NULL : u;
}

/* True: the last mark or the bytes have just come, and the notice is complete now. */
static inline bool notice_completes(struct notice_use *u, const struct notice_mark *m)
{
	u->complete =
		u->seen == UINT32_MAX >> (NOTICE_POSITIONS - m->positions) && (u->noted || !m->len);
	return u->complete;
}

/* Counts a mark. True: the notice is complete. */
static inline bool notice_count(struct notice_counter *c, const struct notice_mark *m)
{
	struct notice_use *u = notice_use(c, m);
	uint32_t bit;

	if (!u)
		return false;
	bit = 1u << m->position;
	if (u->seen & bit)
		return false;
	u->seen |= bit;
	u->value = m->value;
	return notice_completes(u, m);
}

/* Stores the bytes of the notice that the mark belongs to. True: the notice is complete. */
static inline bool notice_note(struct notice_counter *c, const struct notice_mark *m,
	const uint8_t *bytes)
{
	struct notice_use *u = notice_use(c, m);

	if (!u || u->noted || !m->len)
		return false;
	u->noted = true;
	u->len = m->len;
	memcpy(u->bytes, bytes, m->len);
	return notice_completes(u, m);
}

/* The request of this mark has failed. */
static inline void notice_skip(struct notice_counter *c, const struct notice_mark *m)
{
	struct notice_use *u = notice_use(c, m);

	if (u)
		u->over = true;
}

/* Returns which notice of the slot may come next, as its number among the notices of all slots. */
static inline uint64_t notice_awaited(const struct notice_counter *c, uint32_t slot)
{
	const struct notice_use *u = &c->slots[slot];
	uint64_t lap = u->lap ? u->lap - !u->over : 0;

	return lap * NOTICE_SLOTS + slot;
}

/*
 * The slot of the next notice for the program; NOTICE_SLOTS: that notice is not complete. With
 * @gaps, skips incomplete notices, because the sender is gone.
 */
static inline uint32_t notice_next(const struct notice_counter *c, bool gaps)
{
	uint32_t next = NOTICE_SLOTS;

	for (uint32_t i = 0; i < NOTICE_SLOTS; i++) {
		const struct notice_use *u = &c->slots[i];

		if (gaps && (!u->complete || u->over))
			continue;
		if (next == NOTICE_SLOTS || notice_awaited(c, i) < notice_awaited(c, next))
			next = i;
	}
	if (next == NOTICE_SLOTS || !c->slots[next].complete || c->slots[next].over)
		return NOTICE_SLOTS;
	return next;
}

#endif
