/* SPDX-License-Identifier: MIT */
/*
 * cellring: a ring of messages between one producer and one consumer, in memory that both map.
 * Producer and consumer are threads or processes. Messages are published in bursts. Only the
 * producer writes the ring, and there are no shared indexes. flux and shmipc are built on cellring,
 * which is header-only.
 *
 *	struct cellring_plan plan = cellring_plan_for(payload_bytes, in_flight, messages);
 *	struct cellring_cursor out, in;                 // the producer's and the consumer's, private
 *	cellring_cursor_init(&out, memory, &plan);      // cellring_bytes(&plan) bytes of zeros,
 *	cellring_cursor_init(&in, memory, &plan);       // aligned to a cache line
 *
 *	cellring_put(&out, id, data, len);              // the producer: a burst of one message
 *
 *	uint64_t head = cellring_look(&in);             // the consumer
 *	if (head && cellring_arrive(&in, head))
 *		while (in.slot != in.ready) {
 *			uint64_t word = cellring_head(in.slot); // read once
 *			use(CELLRING_ID(word), cellring_payload(in.slot), CELLRING_LENGTH(word));
 *			cellring_next(&in);
 *		}
 *
 * Layout. A message is a 64-bit head and room for the ring's longest payload, together a multiple
 * of 8 bytes. A ring is an array of cells of whole cache lines; a cell holds one burst, that is one
 * to eight messages side by side. The head of the first message of a burst has five fields: the
 * number of the producer's lap round the ring (11 bits), the length of the payload that was sent
 * (21), the number of messages in the burst (4), the number of answers that the producer wants in
 * one burst (4), and an id (24). The heads of the other messages have only the length and the id. A
 * new ring is all zero. The first lap is 1; after lap 2^11 - 1 the numbers begin again with 1.
 *
 * Order. The producer writes a burst and stores its first head last, with release. The consumer's
 * cursor holds the next cell and the lap expected there. The consumer loads the first head of this
 * cell with acquire. If the head has the expected lap, the whole burst is visible. The first word
 * of a cell is always a head, so payload cannot be mistaken for a lap. In each lap every cell is
 * written, so a cell that is not written yet has the number of the previous lap. Therefore laps are
 * compared for equality only, and a few bits are enough.
 *
 * Space is the user's responsibility: a producer may write a cell only after the messages in the
 * cell have been consumed. The user answers each message, for example in a second ring. A message
 * is in flight until the producer has taken its answer. The rule is kept if at most n messages are
 * in flight, each message is consumed before it is answered, and there are more than n cells. The
 * order of the answers does not matter, and neither side reads the other side's position.
 *
 * Bursts. struct cellring_burst collects messages in private memory, and then copies them to their
 * cell together. The store buffer of a core is small. A store to a line that another core holds
 * waits in the store buffer, and so do all later stores, also those to private memory. If all
 * stores of a burst follow each other, the transfers of its lines overlap. The consumer polls only
 * the first head. The line of that head is written after the other lines, and the head last, so the
 * consumer does not take away a line that is half written. Two bursts never share a cache line.
 * Otherwise a line that the consumer has just read would have to be transferred again for the next
 * burst.
 *
 * Trust. A hostile producer may write any bytes. cellring_look() reads the head once, and
 * cellring_arrive() refuses a count that exceeds a cell. An id may be any 24-bit number and a
 * length any 21-bit number; the user must check them. A cursor moves only by whole messages of a
 * burst that has passed this check, or by one cell, so it never leaves its ring.
 *
 * Threads: only one thread at a time may use a cursor or a burst. Before another thread uses it,
 * synchronise the two threads, for example with a mutex.
 */
#ifndef CELLRING_H
#define CELLRING_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * The trace points (USDT) of the inline functions of flux, shmipc and delegrpc. An object file into
 * which these functions are inlined has the trace points if it is compiled with CELLRING_USDT,
 * which requires <sys/sdt.h>. The trace points of the libraries themselves do not depend on this
 * macro.
 */
#ifdef CELLRING_USDT
#ifdef __cplusplus
extern "C++" { /* sdt.h has templates, and the layers' headers include this one in extern "C" */
#endif
#include <sys/sdt.h>
#ifdef __cplusplus
}
#endif
#define CELLRING_PROBE2(layer, name, a, b) DTRACE_PROBE2(layer, name, a, b)
#define CELLRING_PROBE3(layer, name, a, b, c) DTRACE_PROBE3(layer, name, a, b, c)
#define CELLRING_PROBE4(layer, name, a, b, c, d) DTRACE_PROBE4(layer, name, a, b, c, d)
#else
#define CELLRING_PROBE2(layer, name, a, b) ((void)0)
#define CELLRING_PROBE3(layer, name, a, b, c) ((void)0)
#define CELLRING_PROBE4(layer, name, a, b, c, d) ((void)0)
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CELLRING_ABI 3 /* increased when the layout of the ring or a struct changes */

#define CELLRING_LINE 64u
#define CELLRING_BURST 8u /* maximum number of messages in a burst */
#define CELLRING_FEW 8u /* with fewer messages in flight, each is a burst of its own */
#define CELLRING_STAGED 128u /* maximum bytes of a message in a burst of several */
#define CELLRING_LONG 192 /* a burst of at least this many bytes, or of 8 messages, is prefetched */
#define CELLRING_FETCHED (CELLRING_BURST * CELLRING_STAGED) /* maximum prefetched bytes of a cell */

#define CELLRING_ID_BITS 24
#define CELLRING_ID_MASK ((1u << CELLRING_ID_BITS) - 1)
#define CELLRING_ID(head) ((uint32_t)(head)&CELLRING_ID_MASK)
#define CELLRING_TOGETHER(head) ((uint32_t)(head) >> CELLRING_ID_BITS & 15)
#define CELLRING_COUNT(head) ((uint32_t)(head) >> (CELLRING_ID_BITS + 4))
#define CELLRING_LAP_BITS 11
#define CELLRING_LAP_LAST ((1u << CELLRING_LAP_BITS) - 1)
#define CELLRING_LAP(head) ((uint32_t)((head) >> 32) & CELLRING_LAP_LAST)
#define CELLRING_LENGTH_MAX (1u << 20) /* maximum bytes of a payload */
#define CELLRING_LENGTH_SHIFT (32 + CELLRING_LAP_BITS)
#define CELLRING_LENGTH(head) ((uint32_t)((head) >> CELLRING_LENGTH_SHIFT))
#define CELLRING_HEAD(lap, count, together)                                                        \
	((uint64_t)(lap) << 32 | (uint32_t)(count) << (CELLRING_ID_BITS + 4) |                     \
		(uint32_t)(together) << CELLRING_ID_BITS)
#define CELLRING_MESSAGE(id, length) ((uint64_t)(length) << CELLRING_LENGTH_SHIFT | (id))

#define CELLRING_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CELLRING_INLINE static inline __attribute__((always_inline))

/* The head of a message. Its payload follows. */
struct cellring_message {
	uint64_t head;
};

/* The dimensions of a ring. */
struct cellring_plan {
	uint32_t stride; /* bytes in a message, head included */
	uint32_t most; /* maximum number of messages in a cell */
	uint32_t cell; /* bytes in a cell */
	uint32_t cells;
};

/* The position of the producer or the consumer in a ring. */
struct cellring_cursor {
	unsigned char *slot; /* the next message; for a producer: start of the next cell */
	unsigned char *ready; /* consumer: end of the messages that have arrived */
	unsigned char *next; /* consumer: start of the next cell */
	unsigned char *begin, *end; /* of the ring */
	uint32_t lap; /* lap of the cell */
	uint32_t stride, cell, most; /* as in struct cellring_plan */
};

/*
 * Collects messages for one ring, to publish them together.
 *
 *	closed		`to` is NULL. cellring_burst_open() opens it.
 *	empty		open for the ring `to`; next == stage.
 *			cellring_burst_close() closes it.
 *	collecting	stage < next < full: messages have been collected, fewer than limit.
 *			cellring_burst_add() adds one.
 *	full		next == full. The caller must publish the burst before it adds a message.
 *
 * cellring_burst_write_full() and cellring_burst_write_part() publish the messages; the burst is
 * then empty and stays open. `head` is precomputed for a full burst and is valid for one lap of the
 * ring. After a call of either function the user must therefore call cellring_burst_stale(), and
 * open the burst again if it returns true.
 */
struct cellring_burst {
	struct cellring_cursor *to;
	unsigned char *next; /* end of the collected messages in the stage */
	unsigned char *own; /* value of next at which cellring_burst_add() prefetches the cell */
	unsigned char *full; /* value of next in a full burst */
	uint64_t head; /* head of the first message of a full burst, without its id */
	uint32_t stride;
	uint32_t limit; /* number of messages in a full burst */
	uint32_t lap; /* lap for which head was computed */
	__attribute__((aligned(64))) unsigned char stage[CELLRING_BURST * CELLRING_STAGED];
};

/* ---- plans ---- */

/*
 * Returns the number of messages in a burst, if at most @in_flight messages are in flight: 1 for
 * fewer than CELLRING_FEW, otherwise a quarter of them, at most CELLRING_BURST.
 */
static inline uint32_t cellring_limit(uint32_t in_flight)
{
	return in_flight >= 4 * CELLRING_BURST ? CELLRING_BURST :
	       in_flight < CELLRING_FEW        ? 1 :
						 in_flight / 4;
}

/*
 * Returns the number of messages in a burst of calls. in_flight: see cellring_limit(). in_a_row:
 * the number of calls that the user of a layer such as flux makes without a poll in between. The
 * user takes none of their answers before the next poll, and this poll publishes the calls in any
 * case. So up to eight of them are published together, unless in_flight is below CELLRING_FEW.
 */
static inline uint32_t cellring_call_limit(uint32_t in_flight, uint32_t in_a_row)
{
	uint32_t limit = cellring_limit(in_flight);

	if (limit == 1 || in_a_row <= limit)
		return limit;
	return in_a_row < CELLRING_BURST ? in_a_row : CELLRING_BURST;
}

/*
 * Returns the plan of a ring. payload: bytes of the longest payload, at most CELLRING_LENGTH_MAX.
 * in_flight: maximum number of messages in flight, 1 to 2^24 - 1. messages: the ring has room for
 * this number of messages in full bursts, rounded down to whole cells, and always has more than
 * in_flight cells.
 */
static inline struct cellring_plan cellring_plan_for(uint32_t payload, uint32_t in_flight,
	uint32_t messages)
{
	struct cellring_plan p;

	p.stride = ((uint32_t)sizeof(struct cellring_message) + payload + 7) & ~7u;
	p.most = p.stride > CELLRING_STAGED || in_flight < CELLRING_FEW ? 1 : CELLRING_BURST;
	p.cell = (p.most * p.stride + CELLRING_LINE - 1) & ~(CELLRING_LINE - 1);
	p.cells = messages / p.most > in_flight ? messages / p.most : in_flight + 1;
	return p;
}

/* Returns the size of a ring's memory in bytes. */
static inline size_t cellring_bytes(const struct cellring_plan *p)
{
	return (size_t)p->cells * p->cell;
}

/* Initialises the cursor of one side of a new ring. The ring's memory must be all zero. */
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
 * Copies to and from a message like memcpy(). If the length is a constant of at most 64, the copy
 * is made in scalar words: the user has often just written the message word by word, and the store
 * buffer could not forward these words to a wider load. ThreadSanitizer sees a call of memcpy(),
 * but not a copy that GCC has expanded, so this function is not inlined in a build with
 * ThreadSanitizer.
 */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
__attribute__((noipa, unused)) static void cellring_copy(void *to, const void *from, uint32_t len)
{
	if (len) /* if len is 0, from may be NULL */
		memcpy(to, from, len);
}
#else
CELLRING_INLINE void cellring_copy(void *to, const void *from, uint32_t len)
{
	uint32_t i = 0;

	if (!__builtin_constant_p(len) || len > 64) {
		if (len) /* if len is 0, from may be NULL */
			memcpy(to, from, len);
		return;
	}
#pragma GCC unroll 8
	for (; i + 8 <= len; i += 8) {
		uint64_t word;

		memcpy(&word, (const char *)from + i, 8);
		__asm__("" : "+r"(word)); /* prevents wide loads */
		memcpy((char *)to + i, &word, 8);
	}
	if (i < len)
		memcpy((char *)to + i, (const char *)from + i, len - i);
}
#endif

/* Stores two words; on x86-64 by one instruction, which fills one store buffer entry, not two. */
static inline void cellring_copy_pair(uint64_t *to, const uint64_t *from)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	/*
	 * Each word is loaded alone, because the store buffer could not forward both to one wide
	 * load. The loads are in assembler, because the compiler would combine them.
	 */
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
 * Copies the words from index @at to @end - 1 of a message or burst. The caller ensures that
 * &to[at] is aligned to 16 bytes; then no pair of words crosses a cache line.
 */
CELLRING_INLINE void cellring_copy_words(uint64_t *to, const uint64_t *from, size_t at, size_t end)
{
#pragma GCC unroll 1
	for (size_t last = end - 1; at < last; at += 2) {
		__asm__("" : "+r"(at)); /* one index is incremented, not two addresses */
		cellring_copy_pair(&to[at], &from[at]);
	}
	if (at < end)
		__atomic_store_n(&to[at], from[at], __ATOMIC_RELAXED);
}

/*
 * Copies @bytes bytes, a multiple of 8, from @stage to @ring, both aligned to 8. The first word,
 * which the reader polls, is stored last, with release, so a reader that sees it sees all bytes.
 * There are no other stores between those of the copy. The cache line of the first word is written
 * after the other lines, because the polling reader takes this line back as soon as it can. The
 * stores are atomic, because a reader may load a word before it is valid.
 */
static inline void cellring_publish(void *ring, const void *stage, size_t bytes)
{
	const uint64_t *from = (const uint64_t *)stage;
	uint64_t *to = (uint64_t *)ring;
	size_t words = bytes / sizeof(*to), at = 1;
	size_t line = (CELLRING_LINE - (uintptr_t)ring % CELLRING_LINE) / sizeof(*to);

	if (words > line) {
		cellring_copy_words(to, from, line, words);
		words = line;
	}
	if ((uintptr_t)&to[at] % 16 && at < words) {
		__atomic_store_n(&to[at], from[at], __ATOMIC_RELAXED);
		at++;
	}
	cellring_copy_words(to, from, at, words);
	/* Pairs with the acquire in cellring_look(), or in the user's own reader. */
	__atomic_store_n(to, *from, __ATOMIC_RELEASE);
}

/* Prefetches the lines of @bytes bytes for writing. */
CELLRING_INLINE void cellring_own(const unsigned char *at, ptrdiff_t bytes)
{
	for (ptrdiff_t i = 0; i < bytes; i += CELLRING_LINE) {
#ifdef __x86_64__
		/* The builtin may prefetch for reading, depending on compiler options. */
		__asm__ volatile("prefetchw %0" : : "m"(at[i]));
#else
		__builtin_prefetch(at + i, 1);
#endif
	}
}

/* ---- both sides ---- */

/* Returns the start of the cell after the one that begins at @cell. */
CELLRING_INLINE unsigned char *cellring_cell_after(const struct cellring_cursor *c,
	unsigned char *cell)
{
	return cell + c->cell == c->end ? c->begin : cell + c->cell;
}

/* Begins the next lap. */
CELLRING_INLINE void cellring_lap_next(struct cellring_cursor *c)
{
	c->lap = c->lap == CELLRING_LAP_LAST ? 1 : c->lap + 1;
}

/* Moves to the cell that begins at @next. */
CELLRING_INLINE void cellring_step(struct cellring_cursor *c, unsigned char *next)
{
	/*
	 * If the caller passes c->next, the statement below prevents the compiler from loading
	 * c->next and its neighbour with one wide load. c->next was stored alone, so the store
	 * buffer could not forward it to a wide load. That load would wait until the store, and all
	 * stores before it, have left the store buffer.
	 */
	__asm__("" : "+r"(next));
	c->slot = c->ready = next;
	if (CELLRING_UNLIKELY(next == c->begin))
		cellring_lap_next(c);
}

/* ---- the consumer ---- */

/*
 * Returns the first head of the next burst, or 0 if the burst has not arrived. The head is read
 * once, because a hostile producer may change it at any time.
 */
CELLRING_INLINE uint64_t cellring_look(const struct cellring_cursor *c)
{
	const struct cellring_message *m = (const struct cellring_message *)(const void *)c->slot;
	/* Acquire: pairs with the release in cellring_put() and cellring_publish(). */
	uint64_t head = __atomic_load_n(&m->head, __ATOMIC_ACQUIRE);

	if (CELLRING_LAP(head) != c->lap)
		return 0;
	if (!head) /* no lap is 0 */
		__builtin_unreachable();
	return head;
}

/*
 * Prefetches all lines of the cell but the first, up to byte CELLRING_FETCHED. A consumer that
 * waits for this ring calls this function each time cellring_look() has returned 0. When the
 * producer writes the burst, the lines move to its core. The prefetch fetches them back at the same
 * time as the polls fetch the line of the first head; without it they would be fetched only after
 * that line has come. While the lines are still in the consumer's cache, the prefetch takes little
 * time.
 */
CELLRING_INLINE void cellring_await(const struct cellring_cursor *c)
{
	for (uint32_t i = CELLRING_LINE; i < c->cell && i < CELLRING_FETCHED; i += CELLRING_LINE)
		__builtin_prefetch(c->slot + i);
}

/* Returns true if the next message has arrived. */
CELLRING_INLINE int cellring_ready(const struct cellring_cursor *c)
{
	return c->slot != c->ready || cellring_look(c);
}

/*
 * Accepts the burst with the first head @head; all messages of the previous burst must have been
 * consumed. Returns the number of its messages; or 0, with nothing changed, if the head's number of
 * messages is 0 or more than a cell can hold. The function prefetches
 *	- the first line of the next burst, which may have arrived, too
 *	- the other lines of this burst, if it has CELLRING_LONG or more bytes, or eight messages
 *	- the other lines of the next burst, if this burst has eight messages: the next one has
 *	  often arrived, too, and a consumer that takes all requests before it answers one would
 *	  otherwise wait for these lines
 * At most the first CELLRING_FETCHED bytes of a burst are prefetched.
 */
CELLRING_INLINE uint32_t cellring_arrive(struct cellring_cursor *c, uint64_t head)
{
	uint32_t count = CELLRING_COUNT(head), bytes = count * c->stride;

	if (CELLRING_UNLIKELY(count - 1 >= c->most))
		return 0;
	c->ready = c->slot + bytes;
	c->next = cellring_cell_after(c, c->slot);
	__builtin_prefetch(c->next);
	if (count == CELLRING_BURST) {
		for (uint32_t at = CELLRING_LINE; at < c->cell; at += CELLRING_LINE) {
			__builtin_prefetch(c->slot + at);
			__builtin_prefetch(c->next + at);
		}
	} else if (bytes >= CELLRING_LONG) {
		for (uint32_t at = CELLRING_LINE; at < bytes && at < CELLRING_FETCHED;
			at += CELLRING_LINE)
			__builtin_prefetch(c->slot + at);
	}
	return count;
}

/* Returns the number of messages that cellring_arrive() has accepted and that are not consumed. */
CELLRING_INLINE uint32_t cellring_left(const struct cellring_cursor *c)
{
	return (uint32_t)(c->ready - c->slot) / c->stride;
}

/*
 * Returns the head of a message that has arrived, for CELLRING_ID() and CELLRING_LENGTH(). Call it
 * once, because a hostile producer may change the head. Relaxed: the acquire of cellring_look()
 * orders this load, too.
 */
CELLRING_INLINE uint64_t cellring_head(const unsigned char *slot)
{
	const struct cellring_message *m = (const struct cellring_message *)(const void *)slot;

	return __atomic_load_n(&m->head, __ATOMIC_RELAXED);
}

/* Returns the payload of a message. */
CELLRING_INLINE const void *cellring_payload(const unsigned char *slot)
{
	return slot + sizeof(struct cellring_message);
}

/*
 * Copies a payload to a buffer of @capacity bytes. @len is the length of the payload, which the
 * caller has checked; @room is the largest payload of the slot. If @capacity is a small constant
 * and at most @room, the function copies @capacity bytes, inline: the bytes after @len have no
 * meaning, but they are in the cache already. Otherwise it copies @len bytes, at most @capacity.
 */
CELLRING_INLINE void cellring_take(void *to, const void *payload, uint32_t len, uint32_t capacity,
	uint32_t room)
{
	if (__builtin_constant_p(capacity) && capacity <= CELLRING_LINE && capacity <= room) {
		cellring_copy(to, payload, capacity);
		return;
	}
	/* Prevents warnings about an uninitialised buffer in a user that reads all of it. */
	__asm__("" : : "r"(to) : "memory");
	if (len < capacity)
		cellring_copy(to, payload, len);
	else
		cellring_copy(to, payload, capacity);
}

/* Consumes one message. */
CELLRING_INLINE void cellring_next(struct cellring_cursor *c)
{
	c->slot += c->stride;
	if (c->slot == c->ready)
		cellring_step(c, c->next);
}

/*
 * Returns the start of the next cell, and prefetches the first line of the next burst, which may
 * have arrived, too. For a burst of one message the consumer need not call cellring_arrive() and
 * cellring_next(): it calls cellring_ahead(), handles the message, and passes the result of
 * cellring_ahead() to cellring_step().
 */
CELLRING_INLINE unsigned char *cellring_ahead(const struct cellring_cursor *c)
{
	unsigned char *next = cellring_cell_after(c, c->slot);

	__builtin_prefetch(next);
	return next;
}

/* ---- the producer ---- */

/* Moves to the next cell. A producer uses only the position `slot`. */
CELLRING_INLINE void cellring_written(struct cellring_cursor *c)
{
	unsigned char *next = c->slot + c->cell;

	if (CELLRING_UNLIKELY(next == c->end)) {
		next = c->begin;
		cellring_lap_next(c);
	}
	c->slot = next;
}

/*
 * Writes one message into its cell as a burst of its own, and publishes it. len is at most the
 * plan's payload, id is less than 2^24. The cursor moves before the copy, because the compiler must
 * assume that the copy overwrites the cursor, and would load the cursor's members again after the
 * copy.
 */
CELLRING_INLINE void cellring_put(struct cellring_cursor *c, uint32_t id, const void *data,
	uint32_t len)
{
	struct cellring_message *m = (struct cellring_message *)(void *)c->slot;
	uint64_t head = CELLRING_HEAD(c->lap, 1, 1) | CELLRING_MESSAGE(id, len);

	cellring_written(c);
	cellring_copy(m + 1, data, len);
	/* Release: pairs with the acquire in cellring_look(). */
	__atomic_store_n(&m->head, head, __ATOMIC_RELEASE);
}

/* Closes the burst. Collected messages are dropped. */
static inline void cellring_burst_close(struct cellring_burst *b)
{
	b->to = NULL;
	b->next = b->stage;
}

/*
 * Opens an empty burst of up to @limit messages for the ring @to. Returns 1; or 0, with the burst
 * closed, if @limit, or the number of messages in a cell, is at most 1: use cellring_put() then.
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

/* Returns the number of collected messages. */
static inline uint32_t cellring_burst_held(const struct cellring_burst *b)
{
	return b->to ? (uint32_t)(b->next - b->stage) / b->stride : 0;
}

/*
 * Adds a message to an open burst that is not full. Returns 1 if the burst is full now, otherwise
 * 0. The lines of the burst's cell are prefetched when half of the messages have been added. An
 * earlier prefetch would be useless, because the consumer polls the first line, and so fetches it
 * back before the burst is written.
 */
CELLRING_INLINE int cellring_burst_add(struct cellring_burst *b, uint32_t id, const void *data,
	uint32_t len)
{
	struct cellring_message *m = (struct cellring_message *)(void *)b->next;

	if ((unsigned char *)m == b->own)
		cellring_own(b->to->slot, b->full - b->stage);
	b->next += b->stride;
	m->head = CELLRING_MESSAGE(id, len);
	cellring_copy(m + 1, data, len);
	return b->next == b->full;
}

/* Publishes the collected messages: copies them to their cell. */
CELLRING_INLINE void cellring_burst_write(struct cellring_burst *b, uint64_t head, size_t bytes)
{
	((struct cellring_message *)(void *)b->stage)->head |= head;
	/* A cell is aligned to a cache line, so the compiler knows where its second line starts. */
	cellring_publish(__builtin_assume_aligned(b->to->slot, CELLRING_LINE), b->stage, bytes);
	cellring_written(b->to);
	b->next = b->stage;
}

/* Publishes a full burst, which is empty afterwards. */
static inline void cellring_burst_write_full(struct cellring_burst *b)
{
	cellring_burst_write(b, b->head, (size_t)(b->full - b->stage));
}

/* Publishes a burst with at least one message, which is empty afterwards. */
static inline void cellring_burst_write_part(struct cellring_burst *b)
{
	size_t bytes = (size_t)(b->next - b->stage);
	uint32_t count = (uint32_t)bytes / b->stride;

	cellring_burst_write(b, CELLRING_HEAD(b->to->lap, count, b->limit), bytes);
}

/*
 * Returns true if the ring has begun another lap since the burst was opened. The user must then
 * open the burst again.
 */
CELLRING_INLINE int cellring_burst_stale(const struct cellring_burst *b)
{
	return b->to->lap != b->lap;
}

#ifdef __cplusplus
}
#endif

#endif
