/* SPDX-License-Identifier: MIT */
/*
 * What lies in a ring, and what crosses the wire. Everything is little-endian and in
 * units of one block.
 *
 *	batch    = metadata, message, message, ...
 *	metadata = consumer position 8 | credit 8 | message count 4 | zero 12
 *	message  = call id 4 | limit 4 | length 4 | payload, padded to a block
 *
 * A batch is one RDMA WRITE; its immediate is its length in blocks, of which the padding of
 * the last message is not sent. A marker is a batch
 * of metadata alone, with count WIRE_WRAP; its immediate counts the rest of the ring,
 * of which only the metadata is written. No batch crosses the ring's end; one that ends
 * exactly there is followed by no marker.
 */
#ifndef COPYRPC_WIRE_H
#define COPYRPC_WIRE_H

#include <assert.h>
#include <endian.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_BLOCK 32u /* alignment of every message and every position */
#define WIRE_BLOCK_SHIFT 5
#define WIRE_RESPONSE 0x80000000u /* in a call id: this is the response */
#define WIRE_WRAP UINT32_MAX /* message count of a marker */

struct wire_meta {
	uint64_t consumer; /* bytes: all before is consumed, in the ring the peer writes to */
	uint64_t credit; /* bytes of responses that the receiver may ask for in addition */
	uint32_t count;
	uint8_t zero[12];
};
static_assert(sizeof(struct wire_meta) == WIRE_BLOCK, "metadata is one block");
static_assert(offsetof(struct wire_meta, credit) == 8, "");
static_assert(offsetof(struct wire_meta, count) == 16, "");

struct wire_header {
	uint32_t id;
	uint32_t limit; /* bytes that the response may have; a response repeats it */
	uint32_t len;
};
static_assert(sizeof(struct wire_header) == 12, "the payload follows at 12");

/* Blocks of a message with len bytes of payload; len <= 2^32 - 44. */
static inline uint32_t wire_blocks(uint32_t len)
{
	return (len + (uint32_t)sizeof(struct wire_header) + WIRE_BLOCK - 1) >> WIRE_BLOCK_SHIFT;
}

/* Bytes behind a payload up to the end of its message's last block. */
static inline uint32_t wire_padding(uint32_t len)
{
	return -(len + (uint32_t)sizeof(struct wire_header)) % WIRE_BLOCK;
}

/* The largest payload that a message of that many blocks, at least one, can have. */
static inline uint32_t wire_payload(uint32_t blocks)
{
	return blocks * WIRE_BLOCK - (uint32_t)sizeof(struct wire_header);
}

static inline void wire_put_meta(void *at, uint64_t consumer, uint64_t credit, uint32_t count)
{
	struct wire_meta *m = at;

	*m = (struct wire_meta){htole64(consumer), htole64(credit), htole32(count), {0}};
}

static inline void *wire_put_header(void *at, uint32_t id, uint32_t limit, uint32_t len)
{
	struct wire_header *h = at;

	*h = (struct wire_header){htole32(id), htole32(limit), htole32(len)};
	return h + 1;
}

/*
 * Reading a ring: the peer can write at any time, so that each field is loaded once,
 * and only the copy is looked at. The loads are atomic to keep the compiler from
 * loading again; what they pair with is the HCA's write, ordered by the completion.
 */
static inline struct wire_meta wire_get_meta(const void *at)
{
	const struct wire_meta *m = at;
	struct wire_meta copy = {
		.consumer = le64toh(__atomic_load_n(&m->consumer, __ATOMIC_RELAXED)),
		.credit = le64toh(__atomic_load_n(&m->credit, __ATOMIC_RELAXED)),
		.count = le32toh(__atomic_load_n(&m->count, __ATOMIC_RELAXED)),
	};

	return copy;
}

static inline struct wire_header wire_get_header(const void *at)
{
	const struct wire_header *h = at;
	struct wire_header copy = {
		.id = le32toh(__atomic_load_n(&h->id, __ATOMIC_RELAXED)),
		.limit = le32toh(__atomic_load_n(&h->limit, __ATOMIC_RELAXED)),
		.len = le32toh(__atomic_load_n(&h->len, __ATOMIC_RELAXED)),
	};

	return copy;
}

#endif
