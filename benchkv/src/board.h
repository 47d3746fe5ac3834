/* SPDX-License-Identifier: MIT */
/*
 * The board is memory that the clients of a rank share. For each of the first keys, by number
 * (workload.h), it holds the newest put that a reply has shown to be in the store, and the put that
 * was the newest one on the board before.
 *
 * A client calls board_look() before it sends a request. When the reply has arrived, the client
 * calls board_post() with its own put that was acknowledged, or the put that it has read. The post
 * has an effect only if no other post was made since board_look(). So if put B follows put A on the
 * board, the store has carried out B after A: a reply had shown A before the request was sent, and
 * the reply to the request shows B. The sequence of puts on the board is therefore a part of the
 * order in which the store has carried out the puts of the key.
 *
 * Any thread may call these functions at any time.
 */
#ifndef BENCHKV_BOARD_H
#define BENCHKV_BOARD_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#define BOARD_NONE UINT64_MAX /* no put has this name: KV_PRELOADER (msg.h) makes no operations */

struct board_slot {
	alignas(32) _Atomic uint64_t turn; /* posts so far, times 2; odd: a post is under way */
	_Atomic uint64_t newest, before; /* names of puts, or BOARD_NONE */
};

struct board {
	struct board_slot *slots;
};

/* A slot as it was at one moment. */
struct board_view {
	uint64_t turn; /* 0: nothing was posted yet; odd: newest and before could not be read */
	uint64_t newest, before; /* BOARD_NONE: not known */
};

/* Initializes a board for this number of keys. 0 or -ENOMEM. */
int board_init(struct board *b, uint32_t keys);
void board_fini(struct board *b);

/* The memory of a board. */
uint64_t board_bytes(uint32_t keys);

static inline struct board_view board_look(struct board *b, uint32_t number)
{
	struct board_slot *s = &b->slots[number];
	struct board_view v;

	/* Acquire: pairs with the last store of board_post(). */
	v.turn = atomic_load_explicit(&s->turn, memory_order_acquire);
	/* Acquire: the turn is loaded again after both. Pairs with their release stores. */
	v.newest = atomic_load_explicit(&s->newest, memory_order_acquire);
	v.before = atomic_load_explicit(&s->before, memory_order_acquire);
	/* Relaxed: if the turn is unchanged, no thread has written in between. */
	if (!v.turn || v.turn % 2 ||
		atomic_load_explicit(&s->turn, memory_order_relaxed) != v.turn) {
		v.newest = v.before = BOARD_NONE;
		v.turn |= v.turn != 0; /* odd: board_post() refuses this view */
	}
	return v;
}

/*
 * Posts that the put of this name was in the store after the puts of the view. Returns the turn of
 * the post, or 0 if another post was made since the view.
 */
static inline uint64_t board_post(struct board *b, uint32_t number, const struct board_view *v,
	uint64_t name)
{
	struct board_slot *s = &b->slots[number];
	uint64_t turn = v->turn;

	/*
	 * Acquire: the stores below come after it. Pairs with the release store of the turn
	 * below.
	 */
	if (turn % 2 || !atomic_compare_exchange_strong_explicit(&s->turn, &turn, turn + 1,
				memory_order_acquire, memory_order_relaxed))
		return 0;
	/* Release: a thread that loads one of these values sees the odd turn. See board_look(). */
	atomic_store_explicit(&s->before, v->newest, memory_order_release);
	atomic_store_explicit(&s->newest, name, memory_order_release);
	/* Release: pairs with the first load of board_look(). */
	atomic_store_explicit(&s->turn, turn + 2, memory_order_release);
	return turn + 2;
}

#endif
