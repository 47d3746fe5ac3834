/* SPDX-License-Identifier: MIT */
/*
 * Payloads that can be checked: the sender's QPN, the kind of the request and its number determine
 * the bytes. A SEND of at least 8 bytes also carries its number in the first 8 bytes.
 */
#ifndef RDMABENCH_PAYLOAD_H
#define RDMABENCH_PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/rand.h"

enum payload_kind { PAYLOAD_SEND, PAYLOAD_WRITE, PAYLOAD_READ };

#define PAYLOAD_NUMBER 8 /* bytes */

static inline uint64_t payload_seed(uint32_t qpn, enum payload_kind kind, uint64_t number)
{
	uint64_t state = (uint64_t)qpn << 2 | kind;

	return rand_next(&state) ^ number * 0xd6e8feb86659fd93ull;
}

static inline void payload_fill(void *to, uint32_t len, uint64_t seed)
{
	uint8_t *p = to;

	for (; len >= 8; p += 8, len -= 8) {
		uint64_t word = rand_next(&seed);

		memcpy(p, &word, 8);
	}
	if (len) {
		uint64_t word = rand_next(&seed);

		memcpy(p, &word, len);
	}
}

static inline bool payload_is(const void *from, uint32_t len, uint64_t seed)
{
	const uint8_t *p = from;
	uint64_t wrong = 0;

	for (; len >= 8; p += 8, len -= 8) {
		uint64_t word;

		memcpy(&word, p, 8);
		wrong |= word ^ rand_next(&seed);
	}
	if (len) {
		uint64_t want = rand_next(&seed);

		wrong |= (uint64_t)memcmp(&want, p, len);
	}
	return !wrong;
}

#endif
