/* SPDX-License-Identifier: MIT */
/*
 * Copies for a second thread. The recording thread never waits, and makes an atomic
 * read-modify-write only to accept a request for a copy.
 *
 * A record adds to a bucket first, then to min, max, sum and count. The copy reads them in the
 * opposite order: count first and the buckets last. If a bucket has got a value that is not counted
 * in count, the sum of the buckets is larger than count. So if the two are equal, no record has
 * changed a bucket since count was read, and all fields are of the same moment. Counts become
 * smaller, or move between bucket[] and carry[], only while `changes` is odd.
 *
 * If values come faster than a copy takes, no copy succeeds. So after a failure the second thread
 * leaves a wish, that is a request for a copy, and closes the gate (latrec_hist.gate = 0). The next
 * record then makes the copy before it adds its value.
 */
#include "internal.h"

#include <sched.h>

#define SPINS 20000 /* turns to wait for an answer: much longer than a copy takes */
#define SPINS_GATE 1000 /* turns after which the gate is checked again */

/* Reads the fields in the order opposite to that in which latrec_priv_hist_record() writes them. */
static void head_load(struct hist *t, const struct hist *f)
{
	words_copy(&t->hot.count, &f->hot.count, sizeof(uint64_t));
	words_copy(&t->hot.sum_low, &f->hot.sum_low, sizeof(uint64_t));
	words_copy(&t->hot.sum_high, &f->hot.sum_high, sizeof(uint64_t));
	words_copy(&t->max, &f->max, sizeof(uint64_t));
	words_copy(&t->min, &f->min, sizeof(uint64_t));
	words_copy(&t->lost, &f->lost, sizeof(uint64_t));
}

/* Copies the places from min to max, and returns the sum of their counts. */
static uint64_t places_load(struct hist *t, const struct hist *f, const uint32_t *carry)
{
	uint64_t sum = 0, last = hist_place(t, t->max);

	for (uint64_t at = hist_place(t, t->min); at <= last; at++) {
		/* Both pair with the stores of put_count() and latrec_hist_put(). */
		uint32_t low = __atomic_load_n(&f->bucket[at], __ATOMIC_ACQUIRE);
		uint32_t high = carry ? __atomic_load_n(&carry[at], __ATOMIC_ACQUIRE) : 0;

		/* Release, as in put_count(): another thread may be copying *t at the same time. */
		__atomic_store_n(&t->bucket[at], low, __ATOMIC_RELEASE);
		if (t->carry)
			__atomic_store_n(&t->carry[at], high, __ATOMIC_RELEASE);
		sum += low + ((uint64_t)high << CARRY_BITS);
	}
	return sum;
}

int hist_copy(struct latrec_hist *to, const struct latrec_hist *from)
{
	struct hist *t = hist_own(to);
	const struct hist *f = hist_of(from);
	uint32_t changes = change_seen(&f->changes);
	/* Pairs with the store of hist_reserve(). */
	const uint32_t *carry = __atomic_load_n(&f->carry, __ATOMIC_ACQUIRE);
	uint64_t sum = 0;

	if (carry && !t->carry)
		return -EAGAIN;
	latrec_hist_clear(to);
	change_begin(&t->changes);
	head_load(t, f);
	if (to->count)
		sum = places_load(t, f, carry);
	else
		hist_clear_head(t);
	hist_gate(t);
	change_end(&t->changes);
	return sum == to->count && !(changes & 1) && change_seen(&f->changes) == changes ? 0 :
											   -EAGAIN;
}

int hist_copy_room(struct latrec_hist *to, const struct latrec_hist *from)
{
	/* Pairs with the store of hist_reserve(). */
	return __atomic_load_n(&hist_of(from)->carry, __ATOMIC_ACQUIRE) ? hist_reserve(to) : 0;
}

/* ---- wishes ---- */

struct wish *wish_take(struct wish **slot)
{
	/*
	 * Relaxed: a wish that is missed now is found later. The exchange that follows takes the
	 * wish; it pairs with the exchanges of wish_ask().
	 */
	if (!__atomic_load_n(slot, __ATOMIC_RELAXED))
		return NULL;
	return __atomic_exchange_n(slot, NULL, __ATOMIC_ACQ_REL);
}

void wish_answer(struct wish *w, int err)
{
	w->err = err;
	/* Pairs with the load of answered(). */
	__atomic_store_n(&w->done, 1, __ATOMIC_RELEASE);
}

static bool answered(const struct wish *w)
{
	/* Pairs with the store of wish_answer(). */
	return __atomic_load_n(&w->done, __ATOMIC_ACQUIRE);
}

/* The caller repeats this, because a record that was in progress may have opened the gate again. */
static void close_gate(uint64_t *gate)
{
	/* Both pair with the accesses of hist_gate() and latrec_hist_outside(). */
	if (__atomic_load_n(gate, __ATOMIC_RELAXED))
		__atomic_store_n(gate, 0, __ATOMIC_RELAXED);
}

int wish_ask(struct wish **slot, uint64_t *gate, void *to)
{
	struct wish wish = {.to = to}, *none = NULL, *own = &wish;

	/*
	 * Pairs with the exchange of wish_take(). If another thread has left a wish, the caller
	 * tries again later.
	 */
	if (!__atomic_compare_exchange_n(slot, &none, own, false, __ATOMIC_ACQ_REL,
		    __ATOMIC_RELAXED)) {
		sched_yield();
		return -EAGAIN;
	}
	for (int i = 0; i < SPINS && !answered(&wish); i++) {
		if (i % SPINS_GATE == 0) {
			close_gate(gate);
			sched_yield();
		}
		cpu_relax();
	}
	/* Takes the wish back, unless the recording thread has taken it: see wish_take(). */
	if (__atomic_compare_exchange_n(slot, &own, NULL, false, __ATOMIC_ACQ_REL,
		    __ATOMIC_ACQUIRE))
		return -EAGAIN;
	while (!answered(&wish))
		sched_yield();
	return wish.err;
}

int latrec_hist_snapshot(struct latrec_hist *h, struct latrec_hist *to)
{
	int err;

	if (!hist_alike(h, to))
		return -EINVAL;
	do {
		err = hist_copy_room(to, h);
		if (!err)
			err = hist_copy(to, h);
		if (err == -EAGAIN)
			err = wish_ask(&hist_own(h)->wanted, &h->gate, to);
	} while (err == -EAGAIN);
	return err;
}
