/* SPDX-License-Identifier: MIT */
#include "fabric/latch.h"

#include "fabric/rest.h"

__thread struct latches latches __attribute__((tls_model("initial-exec")));

/* Takes the latch if it is free. */
static bool try_latch(struct latch *l)
{
	/* Relaxed: the swap succeeds only if the word is unchanged. */
	uint64_t seen = __atomic_load_n(&l->word, __ATOMIC_RELAXED);

	return latch_is_free(seen) && latch_replace(l, seen);
}

/* There is no deadlock: the latch's owner waits for no locks but latches at higher addresses. */
__attribute__((cold, noinline)) bool latch_wait(struct latch *l)
{
	for (uint32_t n = 0; n < REST_ENOUGH; n++) {
		if (try_latch(l))
			return true;
		rest(n, REST_YIELDS);
	}
	return false;
}

/*
 * Changes `use` of all lanes, because it is not known which lanes were taken from their owners: a
 * process may have taken some, and died before it changed their `use`. Relaxed: a thread that
 * takes a lane later sees the new value; see try_lane().
 */
void latches_renew(void)
{
	assert(fabric_whole());
	for (uint32_t i = 0; i < arena()->lanes_high; i++)
		__atomic_fetch_add(&arena()->lanes[i].use, LATCH_USE, __ATOMIC_RELAXED);
}
