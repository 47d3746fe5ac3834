/* SPDX-License-Identifier: MIT */
/*
 * The hot paths of latrec.h. Include latrec.h instead of this header; names that latrec.h does not
 * describe are private to the library, but the layouts of the structs are part of the ABI.
 *
 * The rare cases share one comparison, `value - min > span` in unsigned arithmetic. It is true for
 * a new smallest or largest value; for a negative latency, which wraps to more than 2^63; and for a
 * completion without a post, because a free place of a FIFO has a stamp with which every latency is
 * above 2^63.
 */
#ifndef LATREC_INLINE_H
#define LATREC_INLINE_H

#define LATREC_PRIV_INLINE static inline __attribute__((always_inline))
#define LATREC_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define LATREC_BITS 8 /* values below 2^LATREC_BITS are exact */
#define LATREC_HALF_BITS (LATREC_BITS - 1) /* log2 of the buckets per power of two */
#define LATREC_NO_STAMP (1ull << 63)

struct latrec_windows;

struct latrec {
	uint64_t window_end_ns; /* 0: no window has begun */
	uint64_t intended;
	struct latrec_windows *windows;
	struct latrec_stats stats;
	struct latrec_hist service;
	struct latrec_hist response;
};

struct latrec_stamp {
	uint64_t posted_ns; /* LATREC_NO_STAMP: the place is free */
	uint64_t due_ns;
};

/* The places of the FIFO follow the struct; head and tail are byte offsets from the first place. */
struct latrec_ep {
	struct latrec *rec;
	uint64_t head; /* place of the next post */
	uint64_t tail; /* place of the oldest outstanding post; if there is none, equal to head */
	uint64_t mask; /* bytes of all places - 1 */
};

#define LATREC_PLACE ((uint64_t)sizeof(struct latrec_stamp))

/* Out of line; see the .c files. */
void latrec_hist_widen(struct latrec_hist *h, uint64_t value);
int latrec_unusual(struct latrec *r, struct latrec_ep *ep, uint64_t posted_ns, uint64_t service_ns);
void latrec_window_next(struct latrec *r, uint64_t now_ns);
int latrec_ep_full(struct latrec_ep *ep);
uint64_t latrec_clock_raw(void);

/* ---- histograms ---- */

LATREC_PRIV_INLINE uint64_t latrec_bucket(uint64_t value)
{
	uint64_t top = 63 - (uint64_t)__builtin_clzll(value | ((1u << LATREC_BITS) - 1));
	uint64_t shift = top - LATREC_HALF_BITS;

	return (shift << LATREC_HALF_BITS) + (value >> shift);
}

/* Counts a value. The caller must have included it in min and span. */
LATREC_PRIV_INLINE void latrec_hist_put(struct latrec_hist *h, uint64_t value)
{
	h->bucket[latrec_bucket(value)]++;
	h->count++;
	h->sum_high += __builtin_add_overflow(h->sum_low, value, &h->sum_low);
}

LATREC_PRIV_INLINE bool latrec_hist_outside(const struct latrec_hist *h, uint64_t value)
{
	return LATREC_UNLIKELY(value - h->min > h->span);
}

LATREC_INLINE void latrec_hist_record(struct latrec_hist *h, uint64_t value)
{
	if (latrec_hist_outside(h, value))
		latrec_hist_widen(h, value);
	latrec_hist_put(h, value);
}

LATREC_INLINE uint64_t latrec_hist_min(const struct latrec_hist *h)
{
	return h->min;
}

LATREC_INLINE uint64_t latrec_hist_max(const struct latrec_hist *h)
{
	return h->min + h->span;
}

/* ---- recorders and endpoints ---- */

/* *due_ns is read only if it is needed. */
LATREC_PRIV_INLINE int latrec_take(struct latrec *r, struct latrec_ep *ep, const uint64_t *due_ns,
	uint64_t posted_ns, uint64_t done_ns)
{
	uint64_t service_ns = done_ns - posted_ns;

	if (latrec_hist_outside(&r->service, service_ns)) {
		int err = latrec_unusual(r, ep, posted_ns, service_ns);

		if (err)
			return err;
	}
	if (LATREC_UNLIKELY(done_ns >= r->window_end_ns))
		latrec_window_next(r, done_ns);
	latrec_hist_put(&r->service, service_ns);
	if (r->intended)
		latrec_hist_record(&r->response, done_ns - *due_ns);
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
		return latrec_ep_full(ep);
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

/* Reads the counter after all loads before it, so that a completion is not stamped too early. */
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
