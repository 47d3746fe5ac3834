/* SPDX-License-Identifier: MIT */
/*
 * Notices report to a receiver that a request has ended. When all slices have been acknowledged,
 * the sender posts one mark, a SEND of the record below, on each rail that carried a slice. A queue
 * pair keeps its order, so all bytes are in place when the marks of all these rails have arrived.
 * If a rail fails, its mark is sent over another rail, so a mark may arrive twice; the receiver
 * counts each position once.
 *
 * A sender has at most NOTICE_SLOTS requests under way that notify, one per slot. It uses a
 * slot again when the receiver has confirmed that it counted all marks of the slot, or when the
 * request has failed. Each use has a higher lap than the use before. Laps have 64 bits and are
 * never used twice, so the receiver recognizes a mark of an earlier lap, however late it arrives.
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

/* Little-endian on the wire, as both processors that are supported are. Aligned as in ctl_msg. */
struct notice_mark {
	uint64_t lap; /* number of the slot's use, from 1 */
	uint16_t value;
	uint8_t slot;
	uint8_t position, positions;
	uint8_t zero[3];
} __attribute__((packed, aligned(4)));

static_assert(sizeof(struct notice_mark) == NOTICE_LEN, "as on the wire");

/* The marks of one sender that the receiver has counted. Must be all zero at first. */
struct notice_counter {
	struct {
		uint64_t lap;
		uint32_t seen; /* a bit per position */
	} slots[NOTICE_SLOTS];
};

/* Checks that the fields of the mark are in range. */
static inline bool notice_valid(const struct notice_mark *m)
{
	return m->slot < NOTICE_SLOTS && m->positions && m->positions <= NOTICE_POSITIONS &&
	       m->position < m->positions;
}

/* Counts a mark. True: it is the last one of its notice, so the request has ended. */
static inline bool notice_count(struct notice_counter *c, const struct notice_mark *m)
{
	uint32_t all, bit;

	if (!notice_valid(m) || m->lap < c->slots[m->slot].lap)
		return false;
	all = UINT32_MAX >> (NOTICE_POSITIONS - m->positions);
	bit = 1u << m->position;
	if (m->lap > c->slots[m->slot].lap) {
		c->slots[m->slot].lap = m->lap;
		c->slots[m->slot].seen = 0;
	}
	if (c->slots[m->slot].seen & bit)
		return false;
	c->slots[m->slot].seen |= bit;
	return c->slots[m->slot].seen == all;
}

#endif
