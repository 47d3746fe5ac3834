/* SPDX-License-Identifier: MIT */
#include "series.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_BITS 40
#define BUCKET_BITS 12
#define COUNT_MAX ((1ull << COUNT_BITS) - 1)

static_assert(SERIES_BUCKETS <= 1u << BUCKET_BITS &&
		      SERIES_MAX <= 1u << (64 - COUNT_BITS - BUCKET_BITS),
	"an interval, a bucket and a count fill a word");

/* ---- a client ---- */

uint32_t series_most(uint64_t duration_ns, uint64_t every_ns)
{
	uint64_t n = duration_ns && every_ns ? (duration_ns - 1) / every_ns + 1 : 0;

	if (!every_ns)
		return 0;
	return duration_ns && n < SERIES_MAX ? (uint32_t)n : SERIES_MAX;
}

int series_recorder_init(struct series_recorder *r, uint64_t every_ns, uint32_t most)
{
	/* calloc(): pages that are not used take no memory. */
	*r = (struct series_recorder){.every_ns = every_ns,
		.most = most,
		.all = calloc((size_t)most * SERIES_BUCKETS, sizeof(*r->all))};
	return r->all ? 0 : -ENOMEM;
}

void series_recorder_fini(struct series_recorder *r)
{
	free(r->all);
}

void series_restart(struct series_recorder *r, uint64_t start_ns)
{
	if (!r->all)
		return;
	memset(r->all, 0, (size_t)r->n * SERIES_BUCKETS * sizeof(*r->all));
	r->start_ns = start_ns;
	series_advance(r, start_ns);
}

COLD void series_advance(struct series_recorder *r, uint64_t now_ns)
{
	uint64_t i = (now_ns - r->start_ns) / r->every_ns;

	if (i >= r->most)
		i = r->most - 1;
	r->n = (uint32_t)i + 1;
	r->now = r->all + i * SERIES_BUCKETS;
	r->end_ns = r->n == r->most ? UINT64_MAX : r->start_ns + r->n * r->every_ns;
}

/* ---- words ---- */

static uint64_t word_key(uint64_t word)
{
	return word >> COUNT_BITS;
}

static uint32_t word_interval(uint64_t word)
{
	return (uint32_t)(word >> (COUNT_BITS + BUCKET_BITS));
}

static uint32_t word_bucket(uint64_t word)
{
	return (uint32_t)word_key(word) & ((1u << BUCKET_BITS) - 1);
}

static uint64_t make_word(uint64_t key, uint64_t count)
{
	return key << COUNT_BITS | (count > COUNT_MAX ? COUNT_MAX : count);
}

static uint64_t word_sum(uint64_t a, uint64_t b)
{
	return make_word(word_key(a), (a & COUNT_MAX) + (b & COUNT_MAX));
}

int series_add(struct series *to, const struct series *s)
{
	uint64_t *sum = calloc(to->n + s->n + 1, sizeof(*sum));
	size_t i = 0, j = 0, k = 0;

	if (!sum)
		return -ENOMEM;
	while (i < to->n && j < s->n) {
		uint64_t a = word_key(to->words[i]), b = word_key(s->words[j]);

		if (a == b)
			sum[k++] = word_sum(to->words[i++], s->words[j++]);
		else
			sum[k++] = a < b ? to->words[i++] : s->words[j++];
	}
	while (i < to->n)
		sum[k++] = to->words[i++];
	while (j < s->n)
		sum[k++] = s->words[j++];
	free(to->words);
	*to = (struct series){.words = sum, .n = k};
	return 0;
}

int series_add_recorder(struct series *to, const struct series_recorder *r)
{
	size_t buckets = (size_t)r->n * SERIES_BUCKETS, n = 0;
	struct series s = {.n = 0};
	int err;

	for (size_t i = 0; i < buckets; i++)
		n += r->all[i] != 0;
	s.words = calloc(n + 1, sizeof(*s.words));
	if (!s.words)
		return -ENOMEM;
	for (size_t i = 0; i < buckets; i++) {
		uint64_t key = i / SERIES_BUCKETS << BUCKET_BITS | i % SERIES_BUCKETS;

		if (r->all[i])
			s.words[s.n++] = make_word(key, r->all[i]);
	}
	err = series_add(to, &s);
	series_fini(&s);
	return err;
}

void series_write(const struct series *s, FILE *out)
{
	const uint64_t n = s->n;

	fwrite(&n, sizeof(n), 1, out);
	if (n)
		fwrite(s->words, sizeof(*s->words), n, out);
}

int64_t series_unpack(const void *data, size_t len, uint32_t most, struct series *s_p)
{
	const uint64_t *from = data, *words = from + 1;
	size_t room = len / sizeof(*from);

	if (!room || from[0] > room - 1)
		return -EBADMSG;
	for (uint64_t i = 0; i < from[0]; i++) {
		if (word_interval(words[i]) >= most || word_bucket(words[i]) >= SERIES_BUCKETS ||
			!(words[i] & COUNT_MAX))
			return -EBADMSG;
		if (i && word_key(words[i]) <= word_key(words[i - 1]))
			return -EBADMSG;
	}
	*s_p = (struct series){.words = (uint64_t *)(uintptr_t)words, .n = from[0]};
	return (int64_t)((1 + s_p->n) * sizeof(*from));
}

void series_fini(struct series *s)
{
	free(s->words);
	*s = (struct series){.n = 0};
}

/* ---- rows ---- */

/* The largest value of a bucket. */
static uint64_t bucket_high(uint32_t bucket)
{
	uint32_t half = 1u << (SERIES_BITS - 1), shift = bucket / half;

	if (shift < 2)
		return bucket;
	shift--;
	return ((bucket - shift * half + 1ull) << shift) - 1;
}

/* The value with this rank among the words of an interval; rank 1 is the smallest value. */
static uint64_t value_of(const uint64_t *words, size_t n, uint64_t rank)
{
	size_t i = 0;

	for (uint64_t seen = words[0] & COUNT_MAX; seen < rank && i + 1 < n;)
		seen += words[++i] & COUNT_MAX;
	return bucket_high(word_bucket(words[i]));
}

uint32_t series_count(const struct series *s, uint64_t elapsed_ns, uint64_t every_ns, uint32_t most)
{
	uint64_t n = elapsed_ns / every_ns + (elapsed_ns % every_ns != 0);
	uint32_t seen = s->n ? word_interval(s->words[s->n - 1]) + 1 : 0;

	n = n < most ? n : most;
	return n < seen ? seen : (uint32_t)n;
}

void series_row(const struct series *s, uint32_t interval, size_t *at, struct series_row *row_p)
{
	const uint64_t *words = s->words + *at;
	uint64_t ops = 0;
	size_t n = 0;

	while (*at + n < s->n && word_interval(words[n]) == interval)
		ops += words[n++] & COUNT_MAX;
	*at += n;
	*row_p = (struct series_row){.ops = ops};
	if (!n)
		return;
	row_p->p50 = value_of(words, n, ops - ops / 2);
	row_p->p99 = value_of(words, n, ops - ops / 100);
	row_p->p999 = value_of(words, n, ops - ops / 1000);
	row_p->max = value_of(words, n, ops);
}
