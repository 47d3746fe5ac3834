/* SPDX-License-Identifier: MIT */
/*
 * The layout of a ring, which is also the format on the wire. All fields are little-endian. The
 * numbers below are lengths in bytes; batches, metadata and messages take a multiple of a block,
 * which has WIRE_BLOCK bytes.
 *
 *	batch    = metadata, message, message, ...
 *	metadata = consumer position 8 | credit 8 | message count 4 | key 4 | ring 8
 *	message  = call id 4 | limit 4 | length 4 | payload, padded to a block
 *
 * A batch is one RDMA WRITE. Its immediate is its length in blocks; the padding of the last message
 * is not sent. A marker is a batch of metadata only, with the count WIRE_WRAP. Its immediate is the
 * number of blocks up to the ring's end, but the WRITE has only the metadata. No batch crosses the
 * ring's end; after a batch that ends exactly there no marker is needed.
 *
 * A WRITE of 0 bytes with the immediate WIRE_GOODBYE: the sender's endpoint has ended, and all
 * batches that it had posted have arrived.
 *
 * Rings grow. WIRE_NOTE in the count: the sender has other memory for its receive ring, which the
 * field `ring` describes, or asks for a larger ring at the peer, or both. WIRE_MOVE: the batches
 * after this one are in the memory that the receiver has offered last. Without WIRE_NOTE the
 * receiver ignores the key and the ring.
 */
#ifndef COPYRPC_WIRE_H
#define COPYRPC_WIRE_H

#include <assert.h>
#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WIRE_BLOCK 32u /* alignment of every message and every position */
#define WIRE_BLOCK_SHIFT 5
#define WIRE_RESPONSE 0x80000000u /* bit in a call id: the message is a response */
#define WIRE_WRAP UINT32_MAX /* message count of a marker */
#define WIRE_GOODBYE UINT32_MAX /* immediate; no ring has so many blocks */
#define WIRE_LARGE 0x80000000u /* bit in the limit of a request: the payload is a large request */
#define WIRE_MOVE 0x80000000u /* bits of the count of a batch that is no marker */
#define WIRE_NOTE 0x40000000u
#define WIRE_FLAGS (WIRE_MOVE | WIRE_NOTE)

/* The field `ring`: rings begin at multiples of WIRE_RING_ALIGN, so the low bits of the address are
 * free for the binary logarithm of the size in bytes (0: no memory), and for that of the size asked
 * for (0: none). */
#define WIRE_RING_ALIGN 4096u
#define WIRE_SIZE_BITS 5
#define WIRE_SIZE_MASK ((1u << WIRE_SIZE_BITS) - 1)

struct wire_meta {
	uint64_t consumer; /* consumer position of the sender in its receive ring, bytes */
	uint64_t credit; /* more bytes for responses that the receiver may ask for: credit.h */
	uint32_t count;
	uint32_t key; /* to write the ring */
	uint64_t ring;
};
static_assert(sizeof(struct wire_meta) == WIRE_BLOCK, "metadata is one block");
static_assert(offsetof(struct wire_meta, credit) == 8, "");
static_assert(offsetof(struct wire_meta, count) == 16, "");
static_assert(offsetof(struct wire_meta, ring) == 24, "");

struct wire_header {
	uint32_t id;
	uint32_t limit; /* in a request: largest payload of the response, and WIRE_LARGE; in a
			   response: that largest payload again */
	uint32_t len;
};
static_assert(sizeof(struct wire_header) == 12, "the payload follows at 12");

/*
 * The payload of a large request (copyrpc_call_large()) is a struct wire_large. If the request has
 * at most WIRE_COPIED_MAX bytes and they fit into the message, they follow; otherwise none of them
 * follow, and the server pulls them. The payload of the response is a struct wire_large_response. If
 * the limit in the header permits it, the bytes of the response follow; otherwise the server has
 * pushed them.
 */
struct wire_large {
	uint64_t from, to; /* addresses of the request and of the memory for the response */
	uint32_t from_rkey, to_rkey;
	uint32_t len; /* of the request */
	uint32_t resp_max;
};
static_assert(sizeof(struct wire_large) == 32, "no holes");

struct wire_large_response {
	uint32_t error; /* enum wire_error */
	uint32_t len;
};
static_assert(sizeof(struct wire_large_response) == 8, "no holes");

/* The most bytes of a large request or response that are part of the message. Such a message fits
 * into rings of RING_START bytes (grow.h) if the context has no nested calls (copyrpc(7)). */
#define WIRE_COPIED_MAX 960u

enum wire_error {
	WIRE_OK,
	WIRE_TOO_LARGE, /* request or resp_max exceeds the server's limit, or it takes no large ones */
	WIRE_NO_MEMORY,
};

/* Blocks of a message with @len bytes of payload; @len must be at most 2^32 - 44. */
static inline uint32_t wire_blocks(uint32_t len)
{
	return (len + (uint32_t)sizeof(struct wire_header) + WIRE_BLOCK - 1) >> WIRE_BLOCK_SHIFT;
}

/* Does the same for any length that a peer may claim. */
static inline uint64_t wire_blocks64(uint32_t len)
{
	return ((uint64_t)len + sizeof(struct wire_header) + WIRE_BLOCK - 1) / WIRE_BLOCK;
}

/* Returns the length of a batch of @bytes bytes after a message with @len bytes of payload has been
 * added. Both lengths leave out the padding of the last block. */
static inline uint32_t wire_append(uint32_t bytes, uint32_t len)
{
	return (bytes + WIRE_BLOCK - 1) / WIRE_BLOCK * WIRE_BLOCK +
	       (uint32_t)sizeof(struct wire_header) + len;
}

/* The largest payload of a message with @blocks blocks, which must be at least 1. */
static inline uint32_t wire_payload(uint32_t blocks)
{
	return blocks * WIRE_BLOCK - (uint32_t)sizeof(struct wire_header);
}

/* Metadata is written word by word. Otherwise the compiler would build it on the stack and copy
 * it. */
static inline void wire_put_word(void *at, size_t i, uint64_t value)
{
	value = htole64(value);
	memcpy((uint8_t *)at + i * sizeof(value), &value, sizeof(value));
}

static inline void wire_put_meta(void *at, uint64_t consumer, uint64_t credit, uint32_t count)
{
	static_assert(sizeof(struct wire_meta) == 4 * sizeof(uint64_t), "metadata is four words");
	wire_put_word(at, 0, consumer);
	wire_put_word(at, 1, credit);
	wire_put_word(at, 2, count);
	wire_put_word(at, 3, 0);
}

/* Writes only the credit and the count, to the batch in the ring: from there they are read if the
 * batch is sent again. */
static inline void wire_keep_meta(void *at, uint64_t credit, uint32_t count)
{
	wire_put_word(at, 1, credit);
	wire_put_word(at, 2, count);
}

/* Writes the key and the ring of a note to metadata, and @count with its flags. */
static inline void wire_put_note(void *at, uint32_t count, uint32_t key, uint64_t ring)
{
	wire_put_word(at, 2, count | (uint64_t)key << 32);
	wire_put_word(at, 3, ring);
}

static inline void *wire_put_header(void *at, uint32_t id, uint32_t limit, uint32_t len)
{
	struct wire_header *h = at;

	*h = (struct wire_header){htole32(id), htole32(limit), htole32(len)};
	return h + 1;
}

/* Marks the request that begins here as a large one. */
static inline void wire_set_large(void *at)
{
	struct wire_header *h = at;

	h->limit |= htole32(WIRE_LARGE);
}

/*
 * Reads from a ring. The peer can write at any time, so each field is loaded once, and only the
 * copy is checked and used. The loads are atomic, so that the compiler does not repeat them. They
 * pair with the HCA's write, which the completion orders before them.
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

/* Reads what wire_put_note() has written. */
static inline uint64_t wire_get_note(const void *at, uint32_t *key_p)
{
	const struct wire_meta *m = at;

	*key_p = le32toh(__atomic_load_n(&m->key, __ATOMIC_RELAXED));
	return le64toh(__atomic_load_n(&m->ring, __ATOMIC_RELAXED));
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
