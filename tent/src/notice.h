/* SPDX-License-Identifier: MIT */
/*
 * Notices: how a receiver learns that a request has ended. When all slices have been
 * acknowledged the sender posts one immediate without data on each rail that carried one of
 * them; a queue pair keeps its order, so once the immediates of all these rails have come, all
 * bytes are in place. An immediate of a rail that fails goes over another one, so it may
 * come twice; the receiver counts each position once.
 *
 *	bits 0-15 value, 16-19 slot, 20 lap of the slot, 21-25 position, 26-30 positions - 1
 *
 * A sender has at most NOTICE_SLOTS requests under way that notify, one per slot. It uses a
 * slot again when all immediates of it have been acknowledged, those that were sent twice
 * included, and the receiver has said that it has counted them: an acknowledged immediate may
 * still lie in a queue while those of a later request are taken out of another one.
 * Pure functions.
 */
#ifndef TENT_NOTICE_H
#define TENT_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

#define NOTICE_SLOTS 16

struct notice_imm {
	uint16_t value;
	uint8_t slot, lap, position, positions;
};

static inline uint32_t notice_encode(const struct notice_imm *i)
{
	return i->value | (uint32_t)i->slot << 16 | (uint32_t)i->lap << 20 |
	       (uint32_t)i->position << 21 | (uint32_t)(i->positions - 1) << 26;
}

static inline struct notice_imm notice_decode(uint32_t imm)
{
	return (struct notice_imm){
		.value = (uint16_t)imm,
		.slot = imm >> 16 & 15,
		.lap = imm >> 20 & 1,
		.position = imm >> 21 & 31,
		.positions = (uint8_t)((imm >> 26 & 31) + 1),
	};
}

/* What a receiver knows of one sender; all zero at first, when laps begin with 1. */
struct notice_counter {
	struct {
		uint32_t seen; /* a bit per position */
		uint8_t lap;
	} slots[NOTICE_SLOTS];
};

/* Counts an immediate. True: the request has ended; its value is notice_decode(imm).value. */
static inline bool notice_count(struct notice_counter *c, uint32_t imm)
{
	struct notice_imm i = notice_decode(imm);
	uint32_t all = UINT32_MAX >> (32 - i.positions), bit = 1u << i.position;

	if (i.position >= i.positions)
		return false;
	if (c->slots[i.slot].lap != i.lap) {
		c->slots[i.slot].lap = i.lap;
		c->slots[i.slot].seen = 0;
	}
	if (c->slots[i.slot].seen & bit)
		return false;
	c->slots[i.slot].seen |= bit;
	return c->slots[i.slot].seen == all;
}

#endif
