/* SPDX-License-Identifier: MIT */
/*
 * cellring: a ring of messages between one producer and one consumer, threads or processes,
 * in memory that both map. Messages are published in bursts; nobody writes what the other one
 * writes, and there is no index to read. It is the ring under flux and shmipc, header-only:
 * all of it is inlined into its users.
 *
 *	struct cellring_plan plan = cellring_plan(payload_bytes, in_flight, messages);
 *	struct cellring_cursor out, in;                 // one of each side, private to it
 *	cellring_cursor_init(&out, memory, &plan);      // cellring_bytes(&plan) bytes of zeros,
 *	cellring_cursor_init(&in, memory, &plan);       // aligned to a cache line
 *
 *	cellring_put(&out, id, data, len);              // the producer: a message that travels alone
 *
 *	uint64_t head = cellring_look(&in);             // the consumer
 *	if (head && cellring_arrive(&in, head))
 *		while (in.slot != in.ready) {
 *			use(cellring_id(in.slot), cellring_payload(in.slot));
 *			cellring_next(&in);
 *		}
 *
 * Layout. A message is a 64-bit head and its payload, a multiple of 8 bytes. A ring is an array
 * of cells of whole cache lines; a cell holds one burst, one to eight messages side by side. The
 * head of the first message of a burst has the number of the producer's lap round the ring, 32
 * bits, how many messages there are, 4, how many answers are best sent together, 4, and an id, 24;
 * the heads of the others have the id alone. A ring that has never been written is all zero; the
 * first lap is 1, and 1 follows on the last.
 *
 * Order. The producer fills in the burst and stores the first head last, with release. The
 * consumer's own cursor says which lap it expects in which cell; it loads the first head there
 * with acquire. When the lap is the one that it expects, all of the burst is there. Where a
 * cell begins nothing but heads ever stands, so no payload can be taken for a lap. Laps are
 * compared for equality only.
 *
 * Space is the user's rule: a producer may write a cell when all that it held has been consumed.
 * With at most n messages in flight, each of which is consumed before it is answered, and
 * more than n cells, that is always so, in whatever order the answers come: neither side reads
 * what the other one has consumed.
 *
 * Bursts. struct cellring_burst collects messages in private memory, which are then copied to their
 * cell in one go. A core can have only so many stores waiting for lines that are elsewhere, and
 * the private stores of the work between two messages count; written together, the lines of
 * a burst travel at the same time, and the consumer, which looks at the first head only, takes
 * none away half written. A burst has cache lines of its own, so that the line that the consumer
 * waits for is not the one that it has just read.
 *
 * Trust. The consumer may be given any bytes by a hostile producer. cellring_look() reads the head
 * once; cellring_arrive() refuses a count that a cell cannot hold; an id is any number of 24
 * bits, which the user checks. cellring_arrive() with a checked head is the only thing that moves
 * `ready`, so a cursor never leaves its ring.
 *
 * Threads: a cursor and a burst belong to one thread. Handing one over needs the ordering of,
 * for example, pthread_create().
 */
#ifndef CELLRING_H
#define CELLRING_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CELLRING_ABI 1 /* of the layout and the structs; rises when one of them changes */

#define CELLRING_LINE 64u
#define CELLRING_BURST 8u /* most messages of a burst */
#define CELLRING_FEW 8u /* with fewer in flight each message travels alone */
#define CELLRING_STAGED 128u /* bytes in a message; longer ones travel alone */
#define CELLRING_LONG 192 /* bytes in a burst whose lines are fetched when it arrives */

#define CELLRING_ID_BITS 24
#define CELLRING_ID_MASK ((1u << CELLRING_ID_BITS) - 1)
#define CELLRING_ID(head) ((uint32_t)(head)&CELLRING_ID_MASK)
#define CELLRING_TOGETHER(head) ((uint32_t)(head) >> CELLRING_ID_BITS & 15)
#define CELLRING_COUNT(head) ((uint32_t)(head) >> (CELLRING_ID_BITS + 4))
#define CELLRING_HEAD(lap, count, together)                                                        \
	((uint64_t)(lap) << 32 | (uint32_t)(count) << (CELLRING_ID_BITS + 4) |                     \
		(uint32_t)(together) << CELLRING_ID_BITS)

#define CELLRING_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CELLRING_INLINE static inline __attribute__((always_inline))

/* What precedes the payload. */
struct cellring_message {
	uint64_t head;
};

/* What a ring is made of. */
struct cellring_plan {
	uint32_t stride; /* bytes in a message */
	uint32_t most; /* messages in a cell */
	uint32_t cell; /* bytes */
	uint32_t cells;
};

/* One side's place in a ring. */
struct cellring_cursor {
	unsigned char *slot; /* the next message; of a producer: begins a cell */
	unsigned char *ready; /* consumer: what stands before this has arrived */
	unsigned char *next; /* consumer: where the cell after these begins */
	unsigned char *begin, *end; /* of the ring */
	uint32_t lap; /* of the cell */
	uint32_t stride, cell, most; /* as in the plan */
};

/*
 * Messages that are made and published together, all to one ring. Closed: `to` is NULL. Open:
 * `to` is the ring, where it stays from burst to burst until it is closed; between stage and
 * next are the messages that have been collected, fewer than limit.
 */
struct cellring_burst {
	struct cellring_cursor *to;
	unsigned char *next; /* in the stage */
	unsigned char *own; /* where next is when its lines are asked for */
	unsigned char *full; /* where next is when the burst is published */
	uint64_t head; /* of the first of a full burst, without its id */
	uint32_t stride;
	uint32_t limit; /* messages that travel together */
	uint32_t lap; /* of the ring, when head was made */
	__attribute__((aligned(64))) unsigned char stage[CELLRING_BURST * CELLRING_STAGED];
};

/* ---- plans ---- */

/* How many messages travel together when so many are in flight: a quarter, at most eight. */
static inline uint32_t cellring_limit(uint32_t in_flight)
{
	return in_flight >= 4 * CELLRING_BURST ? CELLRING_BURST :
	       in_flight < CELLRING_FEW        ? 1 :
						 in_flight / 4;
}

/*
 * A ring for payloads of so many bytes with so many messages in flight, 1 to 2^24 - 1. There is
 * room for `messages` in full bursts, and for all that are in flight, each alone, and one more.
 */
static inline struct cellring_plan cellring_plan(uint32_t payload, uint32_t in_flight,
	uint32_t messages)
{
	struct cellring_plan p;

	p.stride = ((uint32_t)sizeof(struct cellring_message) + payload + 7) & ~7u;
	p.most = p.stride > CELLRING_STAGED ? 1 : cellring_limit(in_flight);
	p.cell = (p.most * p.stride + CELLRING_LINE - 1) & ~(CELLRING_LINE - 1);
	p.cells = messages / p.most > in_flight ? messages / p.most : in_flight + 1;
	return p;
}

static inline size_t cellring_bytes(const struct cellring_plan *p)
{
	return (size_t)p->cells * p->cell;
}

/* A side of a ring that is all zero. */
static inline void cellring_cursor_init(struct cellring_cursor *c, void *ring,
	const struct cellring_plan *p)
{
	c->slot = c->ready = c->next = c->begin = (unsigned char *)ring;
	c->end = c->begin + cellring_bytes(p);
	c->lap = 1;
	c->stride = p->stride;
	c->cell = p->cell;
	c->most = p->most;
}

/* ---- copies ---- */

/*
 * memcpy() to and from a message. In scalar words on purpose where the length is known: a message
 * is often written word by word just before, and a wider load would wait until these stores
 * have left the core, behind all that wait for a line. GCC leaves copies that it expands out
 * of ThreadSanitizer's sight; a call it intercepts.
 */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
__attribute__((noipa, unused)) static void cellring_copy(void *to, const void *from, uint32_t len)
{
	if (len) /* from may be NULL otherwise */
		memcpy(to, from, len);
}
#else
CELLRING_INLINE void cellring_copy(void *to, const void *from, uint32_t len)
{
	uint32_t i = 0;

	if (!__builtin_constant_p(len) || len > 64) {
		if (len) /* from may be NULL otherwise */
			memcpy(to, from, len);
		return;
	}
#pragma GCC unroll 8
	for (; i + 8 <= len; i += 8) {
		uint64_t word;

		memcpy(&word, (const char *)from + i, 8);
		__asm__("" : "+r"(word)); /* or the compiler makes wide loads of them */
		memcpy((char *)to + i, &word, 8);
	}
	if (i < len)
		memcpy((char *)to + i, (const char *)from + i, len - i);
}
#endif

/* Two words in one store: it takes one of the places in which stores wait for a line. */
static inline void cellring_copy_pair(uint64_t *to, const uint64_t *from)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	/* From two loads on purpose, see cellring_copy(); the compiler would make one of them. */
	__asm__ volatile("movq %2, %%xmm0\n\tmovhps %3, %%xmm0\n\tmovups %%xmm0, %0"
			 : "=m"(*to), "=m"(to[1])
			 : "m"(*from), "m"(from[1])
			 : "xmm0");
#else
	__atomic_store_n(to, *from, __ATOMIC_RELAXED);
	__atomic_store_n(to + 1, from[1], __ATOMIC_RELAXED);
#endif
}

/*
 * Copies so many bytes, a multiple of 8, both sides aligned to 8. The first word, which the
 * reader looks at, is stored last, with release: when it is there, all is. Nothing but stores
 * to the ring stands between. Relaxed, because a reader may look at a word that it does not
 * believe yet.
 */
static inline void cellring_publish(void *ring, const void *stage, size_t bytes)
{
	const uint64_t *from = (const uint64_t *)stage;
	uint64_t *to = (uint64_t *)ring;
	size_t n = bytes / sizeof(*to), i = 1;

	if ((uintptr_t)&to[i] % 16 && i < n) { /* so that no pair lies on two lines */
		__atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
		i++;
	}
#pragma GCC unroll 1
	for (; i + 1 < n; i += 2)
		cellring_copy_pair(&to[i], &from[i]);
	if (i < n)
		__atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
	/* Pairs with the acquire in cellring_look(), or in a reader of the user's own. */
	__atomic_store_n(to, *from, __ATOMIC_RELEASE);
}

/* Asks for so many bytes of lines that are about to be written. */
CELLRING_INLINE void cellring_own(const unsigned char *at, ptrdiff_t bytes)
{
	for (ptrdiff_t i = 0; i < bytes; i += CELLRING_LINE) {
#ifdef __x86_64__
		/* The builtin asks for a shared line where the compiler may not use this. */
		__asm__ volatile("prefetchw %0" : : "m"(at[i]));
#else
		__builtin_prefetch(at + i, 1);
#endif
	}
}

/* ---- both sides ---- */

CELLRING_INLINE unsigned char *cellring_cell_after(const struct cellring_cursor *c,
	unsigned char *cell)
{
	return cell + c->cell == c->end ? c->begin : cell + c->cell;
}

/* To the cell that begins at next. */
CELLRING_INLINE void cellring_step(struct cellring_cursor *c, unsigned char *next)
{
	c->slot = c->ready = next;
	if (CELLRING_UNLIKELY(next == c->begin) && !++c->lap)
		c->lap = 1;
}

/* ---- the consumer ---- */

/*
 * The first head of the burst that is expected next, or 0: it has not arrived. Read once: a
 * hostile producer can change it at any time.
 */
CELLRING_INLINE uint64_t cellring_look(const struct cellring_cursor *c)
{
	const struct cellring_message *m = (const struct cellring_message *)(const void *)c->slot;
	/* Acquire: pairs with the release in cellring_put() and cellring_publish(). */
	uint64_t head = __atomic_load_n(&m->head, __ATOMIC_ACQUIRE);

	return head >> 32 == c->lap ? head : 0;
}

/* Is there a message? */
CELLRING_INLINE int cellring_ready(const struct cellring_cursor *c)
{
	return c->slot != c->ready || cellring_look(c);
}

/*
 * The burst with this head has arrived, and none of the one before is left: returns how many
 * messages it has, or 0: more than a cell holds, or none, and nothing has changed. The next
 * burst may have arrived as well, so its first line is fetched; and all lines of a long one,
 * which come together then. The lines of a short one are touched at once anyway.
 */
CELLRING_INLINE uint32_t cellring_arrive(struct cellring_cursor *c, uint64_t head)
{
	uint32_t count = CELLRING_COUNT(head);

	if (CELLRING_UNLIKELY(count - 1 >= c->most))
		return 0;
	c->ready = c->slot + count * c->stride;
	c->next = cellring_cell_after(c, c->slot);
	__builtin_prefetch(c->next);
	if (c->ready - c->slot >= CELLRING_LONG)
		for (const unsigned char *line = c->slot + CELLRING_LINE; line < c->ready;
			line += CELLRING_LINE)
			__builtin_prefetch(line);
	return count;
}

/* Messages that have arrived and are not taken. */
CELLRING_INLINE uint32_t cellring_left(const struct cellring_cursor *c)
{
	return (uint32_t)(c->ready - c->slot) / c->stride;
}

/* Relaxed, and once: cellring_look() was the acquire, and a hostile producer may change it. */
CELLRING_INLINE uint32_t cellring_id(const unsigned char *slot)
{
	const struct cellring_message *m = (const struct cellring_message *)(const void *)slot;

	return CELLRING_ID(__atomic_load_n(&m->head, __ATOMIC_RELAXED));
}

CELLRING_INLINE const void *cellring_payload(const unsigned char *slot)
{
	return slot + sizeof(struct cellring_message);
}

/* One message is taken. */
CELLRING_INLINE void cellring_next(struct cellring_cursor *c)
{
	c->slot += c->stride;
	if (c->slot == c->ready)
		cellring_step(c, c->next);
}

/* ---- the producer ---- */

/*
 * Writes one message in place, which travels alone, and publishes it; len is at most the plan's
 * payload, id below 2^24. The cursor moves first: a compiler cannot know that the payload is not
 * the cursor, and would read all of it again.
 */
CELLRING_INLINE void cellring_put(struct cellring_cursor *c, uint32_t id, const void *data,
	uint32_t len)
{
	struct cellring_message *m = (struct cellring_message *)(void *)c->slot;
	uint64_t head = CELLRING_HEAD(c->lap, 1, 1) | id;

	cellring_step(c, cellring_cell_after(c, c->slot));
	cellring_copy(m + 1, data, len);
	/* Release: pairs with the acquire in cellring_look(). */
	__atomic_store_n(&m->head, head, __ATOMIC_RELEASE);
}

/* Closed; what is collected is dropped. */
static inline void cellring_burst_close(struct cellring_burst *b)
{
	b->to = NULL;
	b->next = b->stage;
}

/*
 * Opens an empty burst: so many of the next messages go to this ring together. 1; or 0, and it is
 * closed: each travels alone, because limit or what a cell holds is 1 or less.
 */
static inline int cellring_burst_open(struct cellring_burst *b, struct cellring_cursor *to,
	uint32_t limit)
{
	b->next = b->stage;
	b->to = to;
	limit = limit < to->most ? limit : to->most;
	if (limit <= 1) {
		b->to = NULL;
		return 0;
	}
	b->own = b->stage + (size_t)(limit / 2) * to->stride;
	b->full = b->stage + (size_t)limit * to->stride;
	b->head = CELLRING_HEAD(to->lap, limit, limit);
	b->stride = to->stride;
	b->limit = limit;
	b->lap = to->lap;
	return 1;
}

/* Messages that are collected. */
static inline uint32_t cellring_burst_held(const struct cellring_burst *b)
{
	return b->to ? (uint32_t)(b->next - b->stage) / b->stride : 0;
}

/*
 * Collects one more message in an open burst; 1: the burst is full now. The lines that it will be
 * copied to are asked for when half of it is there: earlier, the consumer, which waits for the
 * first of them, takes that one back before the burst is written.
 */
CELLRING_INLINE int cellring_burst_add(struct cellring_burst *b, uint32_t id, const void *data,
	uint32_t len)
{
	struct cellring_message *m = (struct cellring_message *)(void *)b->next;

	if ((unsigned char *)m == b->own)
		cellring_own(b->to->slot, b->full - b->stage);
	b->next += b->stride;
	m->head = id;
	cellring_copy(m + 1, data, len);
	return b->next == b->full;
}

/* Copies what is collected to its cell. */
CELLRING_INLINE void cellring_burst_write(struct cellring_burst *b, uint64_t head, size_t bytes)
{
	((struct cellring_message *)(void *)b->stage)->head |= head;
	cellring_publish(b->to->slot, b->stage, bytes);
	cellring_step(b->to, cellring_cell_after(b->to, b->to->slot));
	b->next = b->stage;
}

/* Publishes a full burst; it stays open, and empty. */
static inline void cellring_burst_write_full(struct cellring_burst *b)
{
	cellring_burst_write(b, b->head, (size_t)(b->full - b->stage));
}

/* Publishes what there is, at least one message. */
static inline void cellring_burst_write_part(struct cellring_burst *b)
{
	size_t bytes = (size_t)(b->next - b->stage);
	uint32_t count = (uint32_t)bytes / b->stride;

	cellring_burst_write(b, CELLRING_HEAD(b->to->lap, count, b->limit), bytes);
}

/* Has the ring begun another lap since the burst was opened? Then it must be opened again. */
CELLRING_INLINE int cellring_burst_stale(const struct cellring_burst *b)
{
	return b->to->lap != b->lap;
}

#ifdef __cplusplus
}
#endif

#endif
