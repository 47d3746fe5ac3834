/* SPDX-License-Identifier: MIT */
#include "sizes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/rand.h"

#define WEIGHT_MOST 1000000u

/* ---- the distribution ---- */

/* Reads a decimal number from @low to @high, and moves *text_p past it. */
static bool read_number(const char **text_p, uint32_t low, uint32_t high, uint32_t *n_p)
{
	const char *at = *text_p;
	uint64_t n = 0;

	for (; *at >= '0' && *at <= '9' && n <= high; at++)
		n = n * 10 + (uint64_t)(*at - '0');
	if (at == *text_p || n < low || n > high)
		return false;
	*text_p = at;
	*n_p = (uint32_t)n;
	return true;
}

static bool read_part(const char **text_p, struct size_part *p)
{
	if (!read_number(text_p, SIZES_LEAST, SIZES_MOST, &p->low))
		return false;
	p->high = p->low;
	p->weight = 1;
	if (**text_p != '-')
		return true;
	++*text_p;
	return read_number(text_p, p->low, SIZES_MOST, &p->high);
}

int sizes_parse(const char *text, struct sizes *s_p)
{
	struct sizes s = {.parts = 0};
	bool weighed = strchr(text, ':');

	for (bool more = true; more; more = weighed && *text == ',', text += more) {
		struct size_part *p = &s.part[s.parts];

		if (s.parts++ == SIZES_PARTS || !read_part(&text, p))
			return -EINVAL;
		if (weighed && (*text++ != ':' || !read_number(&text, 1, WEIGHT_MOST, &p->weight)))
			return -EINVAL;
		s.weight += p->weight;
	}
	if (*text)
		return -EINVAL;
	if (sizes_most(&s) == SIZES_LEAST)
		s = (struct sizes){.parts = 0};
	*s_p = s;
	return 0;
}

void sizes_name(const struct sizes *s, char name[SIZES_NAME_MAX])
{
	size_t n = 0;

	if (!s->parts)
		snprintf(name, SIZES_NAME_MAX, "%u", SIZES_LEAST);
	for (uint32_t i = 0; i < s->parts && n < SIZES_NAME_MAX; i++) {
		const struct size_part *p = &s->part[i];

		n += (size_t)snprintf(name + n, SIZES_NAME_MAX - n, "%s%u", i ? "," : "", p->low);
		if (p->high > p->low && n < SIZES_NAME_MAX)
			n += (size_t)snprintf(name + n, SIZES_NAME_MAX - n, "-%u", p->high);
		if (s->parts > 1 && n < SIZES_NAME_MAX)
			n += (size_t)snprintf(name + n, SIZES_NAME_MAX - n, ":%u", p->weight);
	}
}

uint32_t sizes_most(const struct sizes *s)
{
	uint32_t most = SIZES_LEAST;

	for (uint32_t i = 0; i < s->parts; i++)
		most = s->part[i].high > most ? s->part[i].high : most;
	return most;
}

double sizes_mean(const struct sizes *s)
{
	double sum = 0;

	for (uint32_t i = 0; i < s->parts; i++)
		sum += ((double)s->part[i].low + s->part[i].high) / 2 * s->part[i].weight;
	return s->parts ? sum / s->weight : SIZES_LEAST;
}

uint64_t sizes_mark(const struct sizes *s)
{
	uint64_t mark = s->parts;

	for (uint32_t i = 0; i < s->parts; i++) {
		mark = mix64(mark ^ ((uint64_t)s->part[i].low << 32 | s->part[i].high)) + i;
		mark = mix64(mark ^ s->part[i].weight);
	}
	return mark;
}

uint32_t sizes_rest(const struct sizes *s, uint64_t value)
{
	uint64_t drawn = mix64(value ^ 0x2545f4914f6cdd1dull);
	uint32_t at = s->parts ? (uint32_t)((drawn >> 32) * s->weight >> 32) : 0, i = 0;

	if (!s->parts)
		return 0;
	while (at >= s->part[i].weight)
		at -= s->part[i++].weight;
	return s->part[i].low - SIZES_LEAST +
	       (uint32_t)((drawn & UINT32_MAX) * (s->part[i].high - s->part[i].low + 1ull) >> 32);
}

/* ---- the bytes ---- */

/*
 * The bytes of a stored value after its first 8 are words of 8 bytes; this is word i of them. A change of
 * only the value or only i changes the word.
 */
static inline uint64_t word(uint64_t value, uint32_t i)
{
	return (value ^ (i + 1) * 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;
}

void sizes_fill(uint64_t value, void *to, uint32_t rest)
{
	uint8_t *at = to;

	for (uint32_t i = 0; rest; i++) {
		uint64_t w = word(value, i);
		uint32_t n = rest < sizeof(w) ? rest : (uint32_t)sizeof(w);

		memcpy(at, &w, n);
		at += n;
		rest -= n;
	}
}

bool sizes_right(uint64_t value, const void *at, uint32_t rest)
{
	const uint8_t *from = at;
	uint64_t wrong = 0;

	for (uint32_t i = 0; i < rest / sizeof(wrong); i++, from += sizeof(wrong)) {
		uint64_t w;

		memcpy(&w, from, sizeof(w));
		wrong |= w ^ word(value, i);
	}
	if (rest % sizeof(wrong)) {
		uint64_t w = word(value, rest / sizeof(wrong));

		wrong |= (uint64_t)memcmp(from, &w, rest % sizeof(wrong));
	}
	return !wrong;
}
