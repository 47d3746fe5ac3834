/* SPDX-License-Identifier: MIT */
/*
 * Sleeping in poll(2) or epoll(7) instead of on a futex: the handshake is that of
 * base/sleep.h, and the word says SLEEP_ON_FD.
 *
 *	sleeper					publisher
 *	wakefd_prepare(w, word)			store what the sleeper looks for
 *	look again; if there:			sleep_fence(), once for a burst
 *		sleep_cancel(word)		wakefd_wake(w, word, addr)
 *	else poll(2) on w->fd
 *
 * Between processes the descriptor is a datagram socket with an abstract name, and the one
 * who wakes sends it eight bytes. Nobody connects, and no descriptor is passed, so there is
 * nothing to accept, to hold for a peer or to take back from one that died. What the waker
 * needs stands in the shared memory (struct wakefd_addr): who can map that may wake. A
 * filter on the socket lets the kernel drop what does not bring the right cookie, before it
 * is queued, so a stranger neither wakes the sleeper nor fills its queue. A full queue is no
 * lost wake-up: then the descriptor is readable.
 *
 * Between threads it is an eventfd.
 *
 * The sleeper empties its descriptor in wakefd_prepare(), before it sets the word: a wake-up
 * that it takes away there belongs to something that its second look sees. Who takes
 * SLEEP_ON_FD away owes the wake-up, so one sleep costs one system call of all wakers
 * together, and a sleeper that something else has woken need not take the word back.
 *
 * Abstract names belong to a network namespace. Each side says in which it is, and where
 * they differ the layers refuse: wakefd_reaches().
 *
 * An object belongs to one thread at a time, but wakefd_post() is called by other threads;
 * it must not move while it is open. Descriptors are closed by exec, and in a forked child:
 * one that stays open there would stay in the parent's epoll set for ever.
 */
#ifndef BASE_WAKEFD_H
#define BASE_WAKEFD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sleep.h"

/* Where a sleeper is found; in shared memory. */
struct wakefd_addr {
	uint64_t name; /* of its socket; 0: it has none */
	uint64_t cookie; /* what a datagram must bring */
	uint64_t netns; /* of wakefd_netns(); 0: not known */
};

struct wakefd {
	int fd; /* for the user to poll; -1: none, as the others */
	int queue; /* where wake-ups come: a socket, or fd itself if that is an eventfd */
	int timer;
	int sender; /* the socket that wakes others */
	bool timed; /* the timer has been set */
	bool listed;
	struct wakefd *next; /* of those that have descriptors */
};

#define WAKEFD_NONE ((struct wakefd){.fd = -1, .queue = -1, .timer = -1, .sender = -1})

/* The network namespace of the calling thread, 0 if /proc does not say. */
uint64_t wakefd_netns(void);

/* Can the ones in these two namespaces wake each other? */
static inline bool wakefd_reaches(uint64_t netns, uint64_t other)
{
	return netns && netns == other;
}

/* Makes w->fd, with a timer in it, and writes where it is found. 0 or -errno. */
int wakefd_open(struct wakefd *w, struct wakefd_addr *addr);

/* Makes w->fd, for wakefd_post(). 0 or -errno. */
int wakefd_open_event(struct wakefd *w);

/* Closes all that is open; what is in shared memory may stay. */
void wakefd_close(struct wakefd *w);

/* Empties w->fd and sets the word, fenced. Then comes the second look. */
void wakefd_prepare(struct wakefd *w, uint32_t *word);

/* Makes w->fd readable after so many nanoseconds, 0: never; what was set before is forgotten. */
void wakefd_timer(struct wakefd *w, uint64_t ns);

/*
 * After a fence: wakes who sleeps on the word, a futex or a descriptor. 1 if somebody slept, 0;
 * or -EAGAIN: no memory or no descriptor to do it with: somebody still sleeps, try again.
 */
int wakefd_wake_cold(struct wakefd *w, uint32_t *word, const struct wakefd_addr *addr);

static inline int wakefd_wake(struct wakefd *w, uint32_t *word, const struct wakefd_addr *addr)
{
	return sleep_is_asleep(word) ? wakefd_wake_cold(w, word, addr) : 0;
}

/* The same where the sleeper is a thread of this process, whose wakefd is w. */
bool wakefd_post_cold(const struct wakefd *w, uint32_t *word);

static inline bool wakefd_post(const struct wakefd *w, uint32_t *word)
{
	return sleep_is_asleep(word) && wakefd_post_cold(w, word);
}

#endif
