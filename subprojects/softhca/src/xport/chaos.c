/* SPDX-License-Identifier: MIT */
#include "xport/chaos.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/owed.h"
#include "hca/objects.h"
#include "hca/random.h"
#include "hca/timer.h"
#include "hca/wqe.h"
#include "xport/xport.h"

#define PIECES 4
#define PIECE_UNIT 8u /* an aligned word is never torn */
/*
 * While a QP is neglected, its queues are picked only if no other QP has work. Each step selects
 * another QP to be neglected with probability 1 / NEGLECT. With probability 1 / WAIT, the new QP is
 * not picked for up to TURNS turns (calls of chaos_pump()), even if no other QP has work. During
 * this time the probability of the next change is 1 / SELDOM.
 */
#define NEGLECT 16
#define WAIT 8
#define TURNS 3u
#define SELDOM 128

/* QPs of this process with announced requests. A bit may be set although the QP has none left. */
static uint64_t announced[MAX_QPS / 64];
static uint32_t neglected = NO_INDEX;
static uint32_t patience; /* the neglect lasts for this many turns without other work */
static uint64_t generator;
static bool seeded;

/* A work queue with something to do. */
struct choice {
	struct qp *qp; /* NULL: none */
	enum { EXECUTE, RELEASE_SEND, RELEASE_RECV } what;
};

int chaos_from_env(uint64_t *seed_p)
{
	const char *s = getenv("SOFTHCA_CHAOS");
	char *end;

	*seed_p = 0;
	if (!s || !*s)
		return 0;
	errno = 0;
	*seed_p = strtoull(s, &end, 10);
	return *s < '0' || *s > '9' || *end || errno || !*seed_p ? -EINVAL : 0;
}

static uint64_t draw(void)
{
	if (!seeded)
		generator = arena()->chaos_seed + ((uint64_t)fabric_self.slot << 32);
	seeded = true;
	return random_next(&generator);
}

uint32_t chaos_some(uint32_t most)
{
	return 1 + (uint32_t)(draw() % most);
}

void chaos_announce(struct qp *qp)
{
	uint32_t i = qp_index(qp);

	announced[i / 64] |= 1ull << (i % 64);
	timer_pump(fabric_self.slot);
}

bool chaos_announced(const struct qp *qp)
{
	uint32_t i = qp_index(qp);

	return announced[i / 64] >> (i % 64) & 1;
}

void chaos_forget(void)
{
	memset(announced, 0, sizeof(announced));
	neglected = NO_INDEX;
	patience = 0;
	seeded = false;
}

/*
 * Returns true if QP @i belongs to this process and has announced requests or owed completions.
 * Clears its bit in `announced` if it has no such requests, and in owed_qps if it has no such
 * completions.
 */
static bool any_work(uint32_t i)
{
	struct qp *qp = &arena()->qps[i];
	bool own = qp->obj.used && qp->obj.owner == fabric_self.slot;
	uint64_t bit = 1ull << (i % 64);

	if (!own || !xport_ready(qp))
		announced[i / 64] &= ~bit;
	if (!qp->obj.used || (!owed_any(qp, OWED_SEND) && !owed_any(qp, OWED_RECV)))
		arena()->owed_qps[i / 64] &= ~bit;
	return own && ((announced[i / 64] | arena()->owed_qps[i / 64]) & bit);
}

/*
 * Counts the choices that QP @i offers. If there are more than *@skip, sets @c to choice number
 * *@skip; else lowers *@skip by their number.
 */
static uint32_t choices_of(uint32_t i, uint32_t *skip, struct choice *c)
{
	struct qp *qp = &arena()->qps[i];
	bool has[] = {chaos_announced(qp), owed_any(qp, OWED_SEND), owed_any(qp, OWED_RECV)};
	uint32_t n = 0;

	for (uint32_t what = EXECUTE; what <= RELEASE_RECV; what++) {
		if (!has[what])
			continue;
		n++;
		if ((*skip)-- == 0)
			*c = (struct choice){.qp = qp, .what = what};
	}
	return n;
}

/* Counts the choices of all QPs except @without, and sets @c to choice number @skip. */
static uint32_t look(uint32_t without, uint32_t skip, struct choice *c)
{
	uint32_t words = (arena()->high[OBJ_QP] + 63) / 64, n = 0;

	for (uint32_t w = 0; w < words; w++) {
		for (uint64_t bits = announced[w] | arena()->owed_qps[w]; bits; bits &= bits - 1) {
			uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(bits);

			if (i != without && any_work(i))
				n += choices_of(i, &skip, c);
		}
	}
	return n;
}

/* Returns a random choice of any QP except @without. */
static struct choice any_but(uint32_t without)
{
	struct choice c = {0};
	uint32_t n = look(without, UINT32_MAX, &c);

	if (n)
		look(without, (uint32_t)(draw() % n), &c);
	return c;
}

/* Picks a choice of any QP except the neglected one. Sometimes neglects another QP first. */
static struct choice pick(void)
{
	struct choice other;

	if (draw() % (patience ? SELDOM : NEGLECT) == 0) {
		other = any_but(NO_INDEX);
		neglected = other.qp ? qp_index(other.qp) : NO_INDEX;
		patience = draw() % WAIT == 0 ? chaos_some(TURNS) : 0;
	}
	return any_but(neglected);
}

/*
 * Picks the next choice, if any. Sets *@wait_p if only the neglected QP has work and the turn must
 * end without serving it. The program then continues, and completions that it causes on other QPs
 * come first.
 */
static struct choice next(bool *wait_p)
{
	struct choice c = pick();

	*wait_p = false;
	if (c.qp || neglected == NO_INDEX)
		return c;
	c = any_but(NO_INDEX);
	if (c.qp && patience) {
		patience--;
		*wait_p = true;
	} else {
		neglected = NO_INDEX;
		patience = 0;
	}
	return c;
}

uint32_t chaos_pump(uint32_t most)
{
	uint32_t n;
	bool wait;

	for (n = 0; n < most; n++) {
		struct choice c = next(&wait);

		if (!c.qp)
			break;
		if (wait)
			return n + 1;
		if (c.what == EXECUTE)
			xport_step(c.qp);
		else
			owed_release(c.qp, c.what == RELEASE_SEND ? OWED_SEND : OWED_RECV);
	}
	return n;
}

void chaos_finish(struct qp *qp)
{
	uint32_t n = 0;

	if (!arena()->chaos)
		return;
	while (qp->piece_of == qp_message(qp) && xport_ready(qp) && n++ < PIECES)
		xport_step(qp);
}

/*
 * Returns the offset at which piece @n begins (@n = PIECES: the end of the payload). The payload is
 * cut at aligned words.
 */
static uint64_t cut(const struct qp *qp, uint32_t n, const struct copy *c)
{
	uint64_t state = qp->piece_seed, at[PIECES - 1], words = c->length / PIECE_UNIT + 1;
	uint64_t shift = c->aligned % PIECE_UNIT;

	if (n == 0 || n == PIECES)
		return n ? c->length : 0;
	for (uint32_t i = 0; i < PIECES - 1; i++) {
		at[i] = random_next(&state) % words * PIECE_UNIT;
		at[i] = at[i] > shift ? at[i] - shift : 0;
	}
	for (uint32_t i = 0; i < PIECES - 1; i++) { /* sorted */
		for (uint32_t k = i + 1; k < PIECES - 1; k++) {
			uint64_t low = at[i] < at[k] ? at[i] : at[k];

			at[k] = at[i] < at[k] ? at[k] : at[i];
			at[i] = low;
		}
	}
	return at[n - 1] < c->length ? at[n - 1] : c->length;
}

/* Stores in @out the segments of the bytes @from to @to - 1. Returns the number of segments. */
static size_t part(const struct dma_seg *segs, size_t n, uint64_t from, uint64_t to,
	struct dma_seg *out)
{
	uint64_t at = 0;
	size_t k = 0;

	for (size_t i = 0; i < n && at < to; at += segs[i++].len) {
		uint64_t end = at + segs[i].len, low = at > from ? at : from;
		uint64_t high = end < to ? end : to;

		if (low < high)
			out[k++] = (struct dma_seg){segs[i].slot, segs[i].region,
				segs[i].addr + (low - at), high - low};
	}
	return k;
}

int chaos_copy(const struct copy *c, bool *fault_to)
{
	static const uint8_t orders[][PIECES] = {
		{3, 0, 1, 2},
		{0, 1, 2, 3},
		{3, 2, 1, 0},
		{1, 3, 0, 2},
		{2, 0, 3, 1},
		{0, 3, 2, 1},
		{3, 1, 2, 0},
		{1, 2, 3, 0},
	};
	struct dma_seg to[WQE_MAX_UNITS], from[WQE_MAX_UNITS];
	struct qp *qp = c->qp;
	struct copy piece = *c;
	uint64_t low, high;
	uint32_t n;
	int r = 0;

	if (qp->piece_of != qp_message(qp)) {
		qp->piece_of = qp_message(qp);
		qp->pieces_done = 0;
		qp->piece_seed = draw();
	}
	n = orders[qp->piece_seed >> 32 & 7][qp->pieces_done];
	low = cut(qp, n, c);
	high = cut(qp, n + 1, c);
	if (low < high) {
		piece.length = high - low;
		piece.nto = part(c->to, c->nto, low, high, to);
		piece.nfrom = part(c->from, c->nfrom, low, high, from);
		piece.to = to;
		piece.from = from;
		r = copy_whole(&piece, fault_to);
	}
	if (r)
		return r;
	if (++qp->pieces_done < PIECES)
		return -EINPROGRESS;
	qp->piece_of = 0;
	return 0;
}
