/* SPDX-License-Identifier: MIT */
/*
 * For tests that each message arrives with the length that it was sent with. The length and the
 * contents of message n depend on n. Bytes that follow the message in the sender's buffer must not
 * arrive.
 */
#ifndef SUPPORT_LENGTHTEST_H
#define SUPPORT_LENGTHTEST_H

#include "support/test.h"

#define LENGTHTEST_SIZE 100
#define LENGTHTEST_BEHIND 0xee /* in senders' buffers, after the message; no message contains it */

static inline uint32_t lengthtest_length(uint64_t n)
{
	return (uint32_t)(n * 2654435761u >> 7) % (LENGTHTEST_SIZE + 1);
}

/* Writes message n to the buffer and fills the rest with LENGTHTEST_BEHIND. */
static inline const unsigned char *lengthtest_message(unsigned char *buf, uint64_t n)
{
	memset(buf, LENGTHTEST_BEHIND, LENGTHTEST_SIZE);
	memset(buf, (int)(n & 63), lengthtest_length(n));
	return buf;
}

/*
 * Checks that message n is complete, and that no byte that follows it in the sender's buffer has
 * arrived.
 */
static inline void lengthtest_check(const void *payload, uint32_t len, uint64_t n)
{
	CHECK_EQ(len, lengthtest_length(n));
	test_filled(payload, len, n & 63);
	for (uint32_t i = len; i < LENGTHTEST_SIZE; i++)
		CHECK(((const unsigned char *)payload)[i] != LENGTHTEST_BEHIND);
}

/* Checks message n, received into a buffer full of LENGTHTEST_BEHIND with room for `room` bytes. */
static inline void lengthtest_copied(const unsigned char *buf, uint32_t room, uint32_t len,
	uint64_t n)
{
	CHECK_EQ(len, lengthtest_length(n));
	test_filled(buf, len < room ? len : room, n & 63);
	for (uint32_t i = room; i < LENGTHTEST_SIZE; i++)
		CHECK_EQ(buf[i], LENGTHTEST_BEHIND);
}

/* A response function; *arg counts the calls. The answer to request n is message n + 1. */
static inline void lengthtest_answer(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	uint64_t *n = arg;

	CHECK_EQ(token, (*n)++);
	lengthtest_check(resp, len, token + 1);
}

#endif
