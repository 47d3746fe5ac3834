/* SPDX-License-Identifier: MIT */
/*
 * The hot paths of latrec.h. Include latrec.h instead of this header; names that latrec.h does not
 * describe are private to the library, but the layouts of the structs are part of the ABI.
 *
 * One comparison, `value - from >= gate` in unsigned arithmetic, detects these rare cases:
 *	- a new smallest or largest value
 *	- a value out of the histogram's range
 *	- a copy that another thread has requested
 *	- a negative latency, which wraps to more than 2^63
 *	- a completion without a post: the stamp of a free FIFO entry, LATREC_NO_STAMP, makes
 *	  every latency at least 2^63
 */
#ifndef LATREC_INLINE_H
#define LATREC_INLINE_H

#define LATREC_PRIV_INLINE static inline __attribute__((always_inline))
#define LATREC_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define LATREC_NO_STAMP (1ull << 63)
#define LATREC_EXACT ((1ull << 53) - 1) /* integers up to this are exact as a double */

/*
 * The library allocates struct latrec_hist and struct latrec as parts of larger structs, with
 * private fields after or before them.
 *
 * A value from `from` to from + gate - 1 needs no special treatment: it is no new smallest or
 * largest value, it is in the range, and no other thread waits for a copy. The number of a bucket
 * is formed by the high bits of its values, converted to double: the exponent and log2(precision)
 * bits of the mantissa.
 */
struct latrec_hist {
	uint64_t from;
	uint64_t gate; /* a thread that requests a copy sets it to 0 */
	uint64_t shift; /* a double's bits, shifted right by this, are its bucket's number */
	uintptr_t origin; /* the counter of bucket n is at origin + 4 * n */
	uint64_t sum_low, sum_high; /* the sum of all values, 128 bits */
	uint64_t count;
};

struct latrec {
	uint64_t window_end_ns; /* 0: no window has begun */
	uint64_t intended;
	struct latrec_hist *response; /* NULL if intended is 0 */
	struct latrec_hist service;
};

struct latrec_stamp {
	uint64_t posted_ns; /* LATREC_NO_STAMP: the entry is free */
	uint64_t due_ns;
};

/*
 * The entries of the FIFO follow the struct; head and tail are byte offsets from the first entry.
 * Because of the entries, this struct cannot grow at its end: a new private field must come before
 * it, in a larger struct.
 */
struct latrec_ep {
	struct latrec *rec;
	uint64_t head; /* entry for the next post */
	uint64_t tail; /* entry of the oldest outstanding post; if there is none, equal to head */
	uint64_t mask; /* size of all entries in bytes, less 1 */
};

#define LATREC_PLACE ((uint64_t)sizeof(struct latrec_stamp))

/* Functions that are not inlined; see the .c files. */
void latrec_priv_hist_record(struct latrec_hist *h, uint64_t value);
bool latrec_priv_hist_carry(struct latrec_hist *h, uint64_t bucket);
int latrec_priv_take(struct latrec *r, struct latrec_ep *ep, uint64_t due_ns, uint64_t posted_ns,
	uint64_t done_ns);
int latrec_priv_ep_full(struct latrec_ep *ep);
uint64_t latrec_clock_raw(void);

/* ---- histograms ---- */

/* Returns the number of the bucket of a value from 1 to LATREC_EXACT. */
LATREC_PRIV_INLINE uint64_t latrec_bucket(const struct latrec_hist *h, uint64_t value)
{
	double d = (double)(int64_t)value;
	uint64_t bits;

	__builtin_memcpy(&bits, &d, sizeof(bits));
	return bits >> h->shift;
}

/* Adds to the sum, then to the count. A thread that copies reads them in the opposite order. */
LATREC_PRIV_INLINE void latrec_hist_sum(struct latrec_hist *h, uint64_t value)
{
	uint64_t sum;

	if (LATREC_UNLIKELY(__builtin_add_overflow(h->sum_low, value, &sum)))
		__atomic_store_n(&h->sum_high, h->sum_high + 1, __ATOMIC_RELEASE);
	/*
	 * Both pair with head_load() in src/copy.c: a thread that loads a new value then also loads
	 * the new counter of the bucket.
	 */
	__atomic_store_n(&h->sum_low, sum, __ATOMIC_RELEASE);
	__atomic_store_n(&h->count, h->count + 1, __ATOMIC_RELEASE);
}

/* Counts a value for which latrec_hist_outside() is false. */
LATREC_PRIV_INLINE void latrec_hist_put(struct latrec_hist *h, uint64_t value)
{
	uint64_t bucket = latrec_bucket(h, value);
	uint32_t *counter = (uint32_t *)(h->origin + sizeof(*counter) * bucket), n = *counter + 1;

	/* Pairs with the loads of hist_copy(), which compares the counters' sum with count. */
	__atomic_store_n(counter, n, __ATOMIC_RELAXED);
	if (LATREC_UNLIKELY((int32_t)n < 0) && !latrec_priv_hist_carry(h, bucket))
		return;
	latrec_hist_sum(h, value);
}

LATREC_PRIV_INLINE bool latrec_hist_outside(const struct latrec_hist *h, uint64_t value)
{
	/* Pairs with close_gate(), whose thread repeats its store until the copy is made. */
	return LATREC_UNLIKELY(value - h->from >= __atomic_load_n(&h->gate, __ATOMIC_RELAXED));
}

LATREC_INLINE void latrec_hist_record(struct latrec_hist *h, uint64_t value)
{
	if (latrec_hist_outside(h, value))
		latrec_priv_hist_record(h, value);
	else
		latrec_hist_put(h, value);
}

/* ---- recorders and endpoints ---- */

/* Records a sample. @due_ns is a pointer, so that the due time is loaded only if it is needed. */
LATREC_PRIV_INLINE int latrec_take(struct latrec *r, struct latrec_ep *ep, const uint64_t *due_ns,
	uint64_t posted_ns, uint64_t done_ns)
{
	uint64_t service_ns = done_ns - posted_ns;

	if (latrec_hist_outside(&r->service, service_ns) ||
		LATREC_UNLIKELY(done_ns >= r->window_end_ns))
		return latrec_priv_take(r, ep, *due_ns, posted_ns, done_ns);
	latrec_hist_put(&r->service, service_ns);
	if (r->intended)
		latrec_hist_record(r->response, done_ns - *due_ns);
	return 0;
}

LATREC_INLINE int latrec_record(struct latrec *r, uint64_t due_ns, uint64_t posted_ns,
	uint64_t done_ns)
{
	uint64_t begun_ns = due_ns < posted_ns ? due_ns : posted_ns;

	return latrec_take(r, NULL, &begun_ns, posted_ns, done_ns);
}

LATREC_PRIV_INLINE struct latrec_stamp *latrec_ep_stamp(struct latrec_ep *ep, uint64_t place)
{
	return (struct latrec_stamp *)(void *)((char *)(ep + 1) + place);
}

LATREC_INLINE int latrec_ep_post(struct latrec_ep *ep, uint64_t due_ns, uint64_t now_ns)
{
	struct latrec_stamp *s = latrec_ep_stamp(ep, ep->head);

	if (LATREC_UNLIKELY((int64_t)s->posted_ns >= 0))
		return latrec_priv_ep_full(ep);
	s->posted_ns = now_ns;
	s->due_ns = due_ns < now_ns ? due_ns : now_ns;
	ep->head = (ep->head + LATREC_PLACE) & ep->mask;
	return 0;
}

LATREC_INLINE int latrec_ep_complete(struct latrec_ep *ep, uint64_t now_ns)
{
	struct latrec_stamp *s = latrec_ep_stamp(ep, ep->tail);
	uint64_t posted_ns = s->posted_ns;

	s->posted_ns = LATREC_NO_STAMP;
	ep->tail = (ep->tail + LATREC_PLACE) & ep->mask;
	return latrec_take(ep->rec, ep, &s->due_ns, posted_ns, now_ns);
}

/* ---- clocks ---- */

/* Reads the counter after all earlier loads: no completion is stamped before it was found. */
LATREC_PRIV_INLINE uint64_t latrec_counter(void)
{
#if defined(__x86_64__)
	unsigned int cpu;

	return __builtin_ia32_rdtscp(&cpu);
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks)::"memory");
	return ticks;
#else
	return 0;
#endif
}

/* Returns ticks * mult / 2^32, without overflow. */
LATREC_PRIV_INLINE uint64_t latrec_ticks_ns(uint64_t ticks, uint64_t mult)
{
	__extension__ typedef unsigned __int128 wide;

	return (uint64_t)((wide)ticks * mult >> 32);
}

LATREC_INLINE uint64_t latrec_clock_now(const struct latrec_clock *clock)
{
	if (!clock->mult)
		return latrec_clock_raw();
	return clock->base_ns + latrec_ticks_ns(latrec_counter() - clock->base_ticks, clock->mult);
}

#endif
