/* SPDX-License-Identifier: MIT */
/* The counters of a histogram: how a value is mapped to its counter, and how counters grow. */
#include "internal.h"

#include <stdlib.h>

#include "base/sized.h"

typedef uint64_t __attribute__((may_alias)) word;

#define COUNT_LOW ((1u << CARRY_BITS) - 1)

#define MANTISSA 52 /* bits of a double's mantissa */
#define BIAS 1023 /* bias of a double's exponent */

/* Like latrec_bucket(), but for every value from 1 on. @half: see struct hist. */
static uint64_t number_of(uint32_t half, uint64_t value)
{
	uint32_t top = 63 - (uint32_t)__builtin_clzll(value);
	uint64_t begin = top > half ? value >> (top - half) : value << (half - top);

	return ((uint64_t)(BIAS + top - 1) << half) + begin;
}

/*
 * Returns the smallest value of a bucket. Below 2^half a bucket has one value or none; for a bucket
 * without a value, returns the next smaller value.
 */
static uint64_t number_low(uint32_t half, uint64_t number)
{
	uint32_t top = (uint32_t)(number >> half) - BIAS;
	uint64_t begin = (number & ((1ull << half) - 1)) | 1ull << half;

	return top > half ? begin << (top - half) : begin >> (half - top);
}

static uint64_t number_high(uint32_t half, uint64_t number)
{
	uint32_t top = (uint32_t)(number >> half) - BIAS;

	return number_low(half, number) + (top > half ? (1ull << (top - half)) - 1 : 0);
}

uint64_t hist_place(const struct hist *f, uint64_t value)
{
	if (value < f->low)
		return 0;
	return value > f->high ? f->places - 1 : number_of(f->half, value) - f->first;
}

uint64_t place_low(const struct hist *f, uint64_t at)
{
	if (!at)
		return 0;
	return at == f->places - 1 ? f->high + 1 : number_low(f->half, f->first + at);
}

uint64_t place_high(const struct hist *f, uint64_t at)
{
	if (!at)
		return f->low - 1;
	return at == f->places - 1 ? UINT64_MAX : number_high(f->half, f->first + at);
}

/* ---- creation ---- */

/* Returns log2 of the precision, or -EINVAL if the precision is not allowed. */
static int half_of(uint32_t precision)
{
	if (!precision)
		precision = LATREC_PRECISION;
	if (precision < 2 || precision > LATREC_MAX_PRECISION || precision & (precision - 1))
		return -EINVAL;
	return __builtin_ctz(precision);
}

int hist_init(struct hist *f, const struct latrec_hist_attr *attr)
{
	struct latrec_hist_attr a;
	int err = SIZED_ATTR(&a, attr, precision), half;
	uint64_t first, places;

	if (err)
		return err;
	half = half_of(a.precision);
	if (!a.low)
		a.low = 1; /* 0 is counted below the range */
	if (!a.high)
		a.high = UINT64_MAX;
	if (half < 0 || a.low > a.high)
		return -EINVAL;
	first = number_of((uint32_t)half, a.low);
	places = number_of((uint32_t)half, a.high) - first + 3;
	*f = (struct hist){.low = number_low((uint32_t)half, first),
		.high = number_high((uint32_t)half, first + places - 3),
		.first = first - 1,
		.half = (uint32_t)half,
		.places = (uint32_t)places,
		.bucket = calloc(places, sizeof(*f->bucket))};
	f->hot.shift = MANTISSA - f->half;
	f->hot.origin = (uintptr_t)f->bucket - (uintptr_t)f->first * sizeof(*f->bucket);
	return f->bucket ? 0 : -ENOMEM;
}

void hist_free(struct hist *f)
{
	free(f->bucket);
	free(f->carry);
}

int latrec_hist_create(const struct latrec_hist_attr *attr, struct latrec_hist **h_p)
{
	struct hist *f = malloc(sizeof(*f));
	int err = f ? hist_init(f, attr) : -ENOMEM;

	if (err)
		free(f);
	else
		*h_p = &f->hot;
	return err;
}

void latrec_hist_destroy(struct latrec_hist *h)
{
	if (h)
		hist_free(hist_own(h));
	free(h);
}

size_t latrec_hist_bytes(const struct latrec_hist *h)
{
	const struct hist *f = hist_of(h);
	size_t counts = f->places * sizeof(*f->bucket);

	return sizeof(*f) + counts + (f->carry ? counts : 0);
}

bool hist_alike(const struct latrec_hist *a, const struct latrec_hist *b)
{
	const struct hist *f = hist_of(a), *g = hist_of(b);

	return f->half == g->half && f->first == g->first && f->places == g->places;
}

/* ---- counting ---- */

int hist_reserve(struct latrec_hist *h)
{
	struct hist *f = hist_own(h);
	uint32_t *carry;

	if (f->carry)
		return 0;
	carry = calloc(f->places, sizeof(*carry));
	if (!carry)
		return -ENOMEM;
	/* Pairs with the loads of hist_copy() and hist_copy_room(). */
	__atomic_store_n(&f->carry, carry, __ATOMIC_RELEASE);
	return 0;
}

/* Both stores pair with the loads of places_load(). */
static void put_count(struct hist *f, uint64_t at, uint32_t low, uint32_t high)
{
	__atomic_store_n(&f->bucket[at], low, __ATOMIC_RELEASE);
	if (f->carry)
		__atomic_store_n(&f->carry[at], high, __ATOMIC_RELEASE);
}

int hist_add(struct hist *f, uint64_t at, uint64_t n)
{
	uint64_t total = hist_at(f, at) + n, high = total >> CARRY_BITS;

	if (!high) {
		put_count(f, at, (uint32_t)total, 0);
		return 0;
	}
	if (high <= UINT32_MAX && !hist_reserve(&f->hot)) {
		change_begin(&f->changes);
		put_count(f, at, (uint32_t)total & COUNT_LOW, (uint32_t)high);
		change_end(&f->changes);
		return 0;
	}
	/* Without memory for carries, bucket[] also uses its bit 31, for 2^31 more values. */
	if (n >= UINT32_MAX || f->bucket[at] + n >= UINT32_MAX)
		return -ENOMEM;
	put_count(f, at, f->bucket[at] + (uint32_t)n, f->carry ? f->carry[at] : 0);
	return 0;
}

COLD bool latrec_priv_hist_carry(struct latrec_hist *h, uint64_t bucket)
{
	struct hist *f = hist_own(h);
	uint64_t at = bucket - f->first;

	if (!hist_add(f, at, 0))
		return true;
	put_count(f, at, f->bucket[at] - 1, f->carry ? f->carry[at] : 0);
	count_one(&f->lost);
	return false;
}

void hist_gate(struct hist *f)
{
	uint64_t from = f->min > f->low ? f->min : f->low;
	uint64_t high = f->high < LATREC_EXACT ? f->high : LATREC_EXACT;
	uint64_t to = f->max < high ? f->max : high;
	bool shut = !f->hot.count || from > to;

	f->hot.from = from;
	/* Pairs with the accesses of close_gate(), which closes the gate again after this store. */
	__atomic_store_n(&f->hot.gate, shut ? 0 : to - from + 1, __ATOMIC_RELAXED);
}

void words_copy(void *to, const void *from, size_t bytes)
{
	word *t = (word *)to;
	const word *f = (const word *)from;

	/* The release and the acquire pair with those of the other thread's words_copy(). */
	for (size_t i = 0; i < bytes / sizeof(*t); i++)
		__atomic_store_n(&t[i], __atomic_load_n(&f[i], __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

void hist_clear_head(struct hist *f)
{
	const uint64_t none = 0;

	words_copy(&f->min, &none, sizeof(none));
	words_copy(&f->max, &none, sizeof(none));
	words_copy(&f->hot.sum_low, &none, sizeof(none));
	words_copy(&f->hot.sum_high, &none, sizeof(none));
	words_copy(&f->hot.count, &none, sizeof(none));
	words_copy(&f->lost, &none, sizeof(none));
}

void latrec_hist_clear(struct latrec_hist *h)
{
	struct hist *f = hist_own(h);
	uint64_t last = hist_place(f, f->max);

	change_begin(&f->changes);
	for (uint64_t at = hist_place(f, f->min); at <= last; at++)
		put_count(f, at, 0, 0);
	hist_clear_head(f);
	hist_gate(f);
	change_end(&f->changes);
}
