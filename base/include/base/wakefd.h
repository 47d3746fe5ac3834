/* SPDX-License-Identifier: MIT */
/*
 * Sleeping in poll(2) or epoll(7) instead of on a futex. The handshake is that of
 * base/sleep.h, with SLEEP_ON_FD in the word.
 *
 *	sleeper					publisher
 *	wakefd_prepare(w, word)			store what the sleeper waits for
 *	check again; if found:			sleep_fence(), once for a burst
 *		sleep_cancel(word)		wakefd_wake(w, word, addr)
 *	else poll(2) on w->fd
 *
 * Between processes the sleeper has a datagram socket with an abstract name, and a waker sends
 * eight bytes to it. A wake-up needs no connection and passes no descriptor, so there is no state
 * per peer, and nothing to clean up when a peer dies. The address is in the shared memory (struct
 * wakefd_addr), so every process that maps it can wake the sleeper. A filter on the socket makes
 * the kernel drop datagrams without the right cookie before they are queued, so a process that does
 * not know the cookie can neither wake the sleeper nor fill its queue. If the queue is full, the
 * descriptor is readable, so no wake-up is lost.
 *
 * Between threads the descriptor is an eventfd.
 *
 * wakefd_prepare() reads old wake-ups, and then sets the word. So the second check sees everything
 * that was stored before those wake-ups were sent. The waker that resets SLEEP_ON_FD must send the
 * wake-up, so all wakers together make one system call per sleep. A sleeper whose poll(2) returns
 * for another reason, such as the timer, need not reset the word: then the next waker sends a
 * wake-up that is not needed.
 *
 * Abstract names belong to a network namespace. Each side publishes its namespace. If the two
 * differ (wakefd_reaches()), the layers open no sleeper's descriptor, and do not connect a client
 * to a server that has one.
 *
 * A struct wakefd belongs to one thread at a time, except that other threads may call
 * wakefd_post(). It must not move while it is open. Descriptors are closed by exec and in a forked
 * child. Otherwise a descriptor would stay in an epoll set of the parent even after the parent has
 * closed it, because the child would keep it open.
 */
#ifndef BASE_WAKEFD_H
#define BASE_WAKEFD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sleep.h"

/*
 * The most introductions that one wakefd_meet() reads. The socket's queue holds fewer datagrams:
 * net.unix.max_dgram_qlen is 10, or 512 where systemd has set it.
 */
#define WAKEFD_MEET_MAX 1024

/* The address of a sleeper, in shared memory. */
struct wakefd_addr {
	uint64_t name; /* of its socket; 0: no socket */
	uint64_t cookie; /* must be in each datagram */
	uint64_t netns; /* wakefd_netns() of the sleeper; 0: not known */
};

struct wakefd {
	int fd; /* for the user to poll; -1 here and in the other descriptors: closed */
	int queue; /* receives the wake-ups: a socket, or fd itself if that is an eventfd */
	int timer;
	int sender; /* the socket that wakes others */
	uint64_t secret[2]; /* name and cookie of the sleeper's socket */
	int door; /* receives the introductions of peers; see wakefd_door() */
	bool timed; /* the timer has been set */
	bool listed; /* in the list of open objects */
	struct wakefd *next; /* in that list */
};

#define WAKEFD_NONE ((struct wakefd){.fd = -1, .queue = -1, .timer = -1, .sender = -1, .door = -1})

/* Returns the network namespace of the calling thread, or 0 if /proc cannot be read. */
uint64_t wakefd_netns(void);

/* Returns true if processes in these two namespaces can wake each other. */
static inline bool wakefd_reaches(uint64_t netns, uint64_t other)
{
	return netns && netns == other;
}

/*
 * Opens w->fd, which includes a timer, and writes the socket's name and cookie to *addr. The caller
 * stores addr->netns. Returns 0 or -errno.
 */
int wakefd_open(struct wakefd *w, struct wakefd_addr *addr);

/* Writes the same name and cookie to a further *addr, for example in another region. */
void wakefd_publish(const struct wakefd *w, struct wakefd_addr *addr);

/* Opens w->fd for wakefd_post(). Returns 0 or -errno. */
int wakefd_open_event(struct wakefd *w);

/*
 * Closes all descriptors. The address in shared memory need not be reset: wakefd_try() returns 0.
 */
void wakefd_close(struct wakefd *w);

/* Closes what wakefd_open() opened. The object still wakes others and receives introductions. */
void wakefd_close_waiting(struct wakefd *w);

/*
 * Reads the wake-ups that have arrived, sets the word and executes a fence. The caller must then
 * check a second time.
 */
void wakefd_prepare(struct wakefd *w, uint32_t *word);

/* Makes w->fd readable after @ns nanoseconds; 0: never. Replaces the previous setting. */
void wakefd_timer(struct wakefd *w, uint64_t ns);

/*
 * Wakes the sleeper on the word, by futex or descriptor. The caller must call sleep_fence() before.
 * Returns 1 if a sleeper was woken, 0 if there was none, or an error. After an error the sleeper
 * still sleeps, and another waker, or a later call, may wake it. The errors:
 *	-EMFILE, -ENFILE, -ENOMEM, -ENOBUFS	no descriptor or no memory
 *	-ENETUNREACH	its socket is in another network namespace than this thread
 *	-EPERM, -EACCES, ...	the kernel does not let this process send to it (a sandbox)
 */
int wakefd_wake_cold(struct wakefd *w, uint32_t *word, const struct wakefd_addr *addr);

static inline int wakefd_wake(struct wakefd *w, uint32_t *word, const struct wakefd_addr *addr)
{
	return sleep_is_asleep(word) ? wakefd_wake_cold(w, word, addr) : 0;
}

/*
 * Sends a wake-up to that address, whatever the sleep word of the receiver says. Returns 1 if this
 * process can wake the receiver, 0 if no socket has the address, or an error of wakefd_wake_cold().
 */
int wakefd_try(struct wakefd *w, const struct wakefd_addr *addr);

/* ---- introductions: the kernel identifies a peer ---- */

/*
 * An introduction is a datagram in which a client sends its index to a server. The kernel adds the
 * ids of the client's process. The datagram contains a descriptor whose lock proves the index: see
 * shm_holds().
 */

/* The sender of an introduction. The kernel translates the ids to the receiver's namespaces. */
struct wakefd_intro {
	uint32_t index; /* the index that the sender claims */
	uint32_t pid, uid, gid; /* pid 0: outside of the receiver's pid namespace */
	int fd; /* a copy of the sender's descriptor; closed when wakefd_intro_fn returns */
};

typedef void wakefd_intro_fn(void *arg, const struct wakefd_intro *intro);

/*
 * Opens a socket for introductions, and writes its name and cookie to *addr. As for wake-ups, the
 * kernel drops datagrams without the cookie. Returns 0 or -errno.
 */
int wakefd_door(struct wakefd *w, struct wakefd_addr *addr);

/*
 * Sends an introduction, with a descriptor. Returns 0, -EAGAIN if the receiver's queue is full, or
 * another error, after which the receiver does not get the ids of this process.
 */
int wakefd_introduce(const struct wakefd_addr *addr, uint32_t index, int fd);

/*
 * Calls fn for each introduction that has arrived, at most WAKEFD_MEET_MAX times. A fork() of
 * another thread waits meanwhile, because the child would inherit the copies of descriptors, and so
 * does another thread that opens or closes a descriptor of a struct wakefd. A hostile sender can
 * make the close of its descriptor, and so these waits, last as long as it wants.
 */
void wakefd_meet(struct wakefd *w, wakefd_intro_fn *fn, void *arg);

/*
 * Wakes a thread of this process if it sleeps on the word, by futex or eventfd. @w belongs to that
 * thread, not to the caller. Returns true if the thread was woken.
 */
bool wakefd_post(const struct wakefd *w, uint32_t *word);

#endif
