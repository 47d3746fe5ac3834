/* SPDX-License-Identifier: MIT */
/*
 * The transport between two processes of one host. A link is a thread that copies. If the memory of
 * both sides is from tent_alloc(), the thread copies it directly, because the peer's memory is
 * mapped here. It copies other memory with process_vm_readv(2) and process_vm_writev(2). Both ways
 * need the process id of the peer, and the permission to ptrace(2) the peer. The target has no end
 * of a link.
 *
 * The engine's thread and the copying thread share rings under a mutex. No thread copies while it
 * holds the mutex or the engine's lock. The thread that submits a small request copies it, and
 * threads that wait for a batch copy as well. If a request is too short for two threads, and a
 * thread waits for it, it is best if only the waiting thread copies: waking another thread takes a
 * system call, and moves the memory to another core's cache. So while threads wait, the copying
 * thread is not woken, but naps: it sleeps for NAP_NS at a time. It performs the moves that are
 * older than a nap, or whose end a thread polls for.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "sched.h"
#include "transport.h"
#include "why.h"

#define RING 128 /* more than LINK_DEPTH + LINK_EXTRA, a power of two */
#define SMALL (64u << 10) /* bytes that are copied in less time than a thread needs to wake up */
#define WAKES 32 /* times that a wake-up is measured */
#define HELP_MAX (4u << 20) /* bytes of the longest move that a waiting thread performs */
#define NAP_NS (4 * NSEC_PER_MSEC)

struct shm_link {
	struct link link;
	pid_t pid;
	uint64_t proof;
	uint8_t key[DESC_KEY_LEN];
	pthread_t thread;

	pthread_mutex_t mutex; /* protects the members that follow */
	pthread_cond_t work, left;
	struct link_move moves[RING]; /* from taken to tail: moves that no thread performs yet */
	uint32_t taken, tail; /* never reduced modulo RING */
	/* From reported to ended: moves that have ended, in any order. */
	struct {
		uint64_t token;
		int status;
	} done[RING];
	uint32_t reported, ended;
	uint32_t helpers; /* threads in shm_help() */
	bool alone; /* the last move may be left to a thread that waits */
	bool asleep; /* the copying thread sleeps until it is woken */
	bool napping; /* the copying thread performs only moves that are older than a nap */
	bool idle; /* no move has come during a nap */
	bool stopped, ending;
	bool told; /* fds[0] is readable */
};

/* ---- links ---- */

static struct shm_link *to_shm(struct link *l)
{
	return container_of(l, struct shm_link, link);
}

/* Copies @len bytes, with several system calls if one copies less. 0 or -errno. */
static int copy(pid_t pid, bool write, void *local, uint64_t remote, uint64_t len)
{
	while (len) {
		struct iovec here = {local, len}, there = {(void *)(uintptr_t)remote, len};
		ssize_t n = write ? process_vm_writev(pid, &here, 1, &there, 1, 0) :
				    process_vm_readv(pid, &here, 1, &there, 1, 0);

		if (n <= 0)
			return n ? -errno : -EFAULT;
		local = (char *)local + n;
		remote += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

/* Checks that the process with this pid is the one that exported the segment. */
static int ask(const struct shm_link *l)
{
	uint8_t key[DESC_KEY_LEN];
	int err = copy(l->pid, false, key, l->proof, sizeof(key));

	if (err)
		return err;
	return memcmp(key, l->key, sizeof(key)) ? -ESRCH : 0;
}

static int move(pid_t pid, const struct link_move *m)
{
	if (!m->mapped)
		return copy(pid, m->write, m->local, m->remote, m->len);
	memcpy(m->write ? m->mapped : m->local, m->write ? m->local : m->mapped, m->len);
	return 0;
}

/* Moves a slice, or probes the peer if the length is 0. */
static int perform(const struct shm_link *l, const struct link_move *m)
{
	return m->len ? move(l->pid, m) : ask(l);
}

static void end(struct shm_link *l, uint64_t token, int status)
{
	l->done[l->ended % RING].token = token;
	l->done[l->ended++ % RING].status = status;
	/* The link is not stopped by a move whose memory was not mapped. */
	l->stopped |= status && status != -EFAULT;
}

/* Performs the next move; releases the mutex meanwhile. */
static void perform_next(struct shm_link *l)
{
	const struct link_move m = l->moves[l->taken++ % RING];
	int status = -ECANCELED;

	if (!l->stopped) {
		pthread_mutex_unlock(&l->mutex);
		status = perform(l, &m);
		pthread_mutex_lock(&l->mutex);
	}
	end(l, m.token, status);
}

/*
 * Wakes the engine, unless that was done already, or a helper is at work, which polls after its
 * move.
 */
static void tell(struct shm_link *l)
{
	if (l->told || l->helpers)
		return;
	l->told = true;
	if (eventfd_write(l->link.fds[0], 1))
		abort(); /* write() fails only on overflow, and this counter is 0 */
}

/* Sleeps until there may be moves for the copying thread. Decides whether it goes on napping. */
static void rest(struct shm_link *l)
{
	const struct timespec until = clock_timespec(clock_ns() + NAP_NS);
	uint32_t seen = l->tail;

	if (l->taken == l->tail && (!l->napping || l->idle)) {
		l->asleep = true;
		pthread_cond_wait(&l->work, &l->mutex);
		l->asleep = l->idle = false;
		return;
	}
	pthread_cond_timedwait(&l->work, &l->mutex, &until);
	l->idle = l->tail == seen;
	/*
	 * Go on napping if a helper will return, or if helpers have taken all moves from before the
	 * nap.
	 */
	l->napping &= l->helpers || (int32_t)(l->taken - seen) >= 0;
}

static void *copier(void *arg)
{
	struct shm_link *l = arg;

	pthread_mutex_lock(&l->mutex);
	while (!l->ending) {
		if (l->taken == l->tail || l->napping) {
			rest(l);
			continue;
		}
		perform_next(l);
		tell(l);
	}
	pthread_mutex_unlock(&l->mutex);
	return NULL;
}

/*
 * The link may be destroyed while this function waits for the engine's lock, so the function does
 * not use the link after that.
 */
static bool shm_help(struct link *link, pthread_mutex_t *lock)
{
	struct shm_link *l = to_shm(link);

	pthread_mutex_lock(&l->mutex);
	l->napping |= l->alone;
	if (l->taken == l->tail || l->moves[l->taken % RING].len > HELP_MAX) {
		pthread_mutex_unlock(&l->mutex);
		return false;
	}
	l->helpers++;
	pthread_mutex_unlock(lock);
	perform_next(l);
	l->helpers--;
	pthread_cond_signal(&l->left);
	pthread_mutex_unlock(&l->mutex);
	pthread_mutex_lock(lock);
	return true;
}

static void shm_urge(struct link *link)
{
	struct shm_link *l = to_shm(link);

	pthread_mutex_lock(&l->mutex);
	if (l->napping && l->taken != l->tail) {
		l->napping = false;
		pthread_cond_signal(&l->work);
	}
	pthread_mutex_unlock(&l->mutex);
}

static int put(struct shm_link *l, const struct link_move *m, uint32_t depth)
{
	int err = 0;

	if (l->link.posted >= depth)
		return -EAGAIN;
	pthread_mutex_lock(&l->mutex);
	if (l->stopped) {
		err = -ENOTCONN;
	} else {
		l->moves[l->tail++ % RING] = *m;
		l->alone = m->alone && m->len <= HELP_MAX;
		l->napping &= l->alone;
		if (l->asleep || !l->napping)
			pthread_cond_signal(&l->work);
	}
	pthread_mutex_unlock(&l->mutex);
	if (!err)
		l->link.posted++;
	return err;
}

/*
 * Nothing is posted, so the copying thread does not write l->stopped, and the mutex is not needed.
 */
static int shm_now(struct link *link, const struct link_move *m, pthread_mutex_t *lock)
{
	const struct shm_link *l = to_shm(link);
	pid_t pid = l->pid;
	int err;

	if (l->stopped)
		return -ENOTCONN;
	pthread_mutex_unlock(lock);
	err = move(pid, m);
	pthread_mutex_lock(lock);
	return err;
}

static int shm_post(struct link *link, const struct link_move *m)
{
	return put(to_shm(link), m, LINK_DEPTH);
}

static int shm_post_probe(struct link *link, uint64_t token)
{
	return put(to_shm(link), &(struct link_move){.token = token}, LINK_DEPTH + LINK_EXTRA);
}

/* Is not inlined, so that polling an idle link takes few instructions. */
static NOINLINE int take_ended(struct shm_link *l, link_done_fn *fn, void *arg)
{
	uint32_t from, to;
	uint64_t count;

	pthread_mutex_lock(&l->mutex);
	from = l->reported;
	to = l->reported = l->ended;
	if (l->told && eventfd_read(l->link.fds[0], &count))
		abort(); /* it was written under the same lock */
	l->told = false;
	pthread_mutex_unlock(&l->mutex);
	for (uint32_t i = from; i != to; i++) {
		/* The entry is not overwritten before posted has been reduced. */
		fn(arg, l->done[i % RING].token, l->done[i % RING].status);
		l->link.posted--;
	}
	return (int)(to - from);
}

static int shm_poll(struct link *link, link_done_fn *fn, void *arg)
{
	return link->posted ? take_ended(to_shm(link), fn, arg) : 0;
}

static int shm_stop(struct link *link)
{
	struct shm_link *l = to_shm(link);

	pthread_mutex_lock(&l->mutex);
	l->stopped = true;
	pthread_mutex_unlock(&l->mutex);
	return 0;
}

static void shm_destroy(struct link *link)
{
	struct shm_link *l = to_shm(link);

	pthread_mutex_lock(&l->mutex);
	l->ending = true;
	pthread_cond_signal(&l->work);
	while (l->helpers)
		pthread_cond_wait(&l->left, &l->mutex);
	pthread_mutex_unlock(&l->mutex);
	pthread_join(l->thread, NULL);
	pthread_cond_destroy(&l->left);
	pthread_cond_destroy(&l->work);
	pthread_mutex_destroy(&l->mutex);
	close(l->link.fds[0]);
	free(l);
}

static const struct link_ops shm_ops = {
	.post = shm_post,
	.now = shm_now,
	.post_probe = shm_post_probe,
	.poll = shm_poll,
	.help = shm_help,
	.urge = shm_urge,
	.stop = shm_stop,
	.destroy = shm_destroy,
};

static int shm_new(struct port *p, const struct desc *peer, struct link **l_p)
{
	struct shm_link *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	l->link.ops = &shm_ops;
	l->link.fds[1] = -1;
	l->pid = peer->pid;
	l->proof = peer->proof;
	memcpy(l->key, peer->key, sizeof(l->key));
	pthread_mutex_init(&l->mutex, NULL);
	cond_init(&l->work);
	cond_init(&l->left);
	l->link.fds[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = l->link.fds[0] < 0 ? -errno : -pthread_create(&l->thread, NULL, copier, l);
	if (err) {
		if (l->link.fds[0] >= 0)
			close(l->link.fds[0]);
		free(l);
		return err;
	}
	*l_p = &l->link;
	return 0;
}

/* ---- ports ---- */

/* Two threads wake each other in turn. */
struct bell {
	pthread_mutex_t mutex;
	pthread_cond_t rung;
	uint32_t turns; /* even: the thread that measures has the turn */
};

/* Waits until @turns is odd (@odd is 1) or even (0), increments it, and wakes the other thread. */
static void ring(struct bell *b, uint32_t odd)
{
	pthread_mutex_lock(&b->mutex);
	while (b->turns % 2 != odd)
		pthread_cond_wait(&b->rung, &b->mutex);
	b->turns++;
	pthread_cond_signal(&b->rung);
	pthread_mutex_unlock(&b->mutex);
}

static void *answer(void *arg)
{
	for (int i = 0; i < WAKES; i++)
		ring(arg, 1);
	return NULL;
}

static uint64_t wake_ns; /* the time to wake a thread */

/* Uses the shortest of several times, because the others include work of other programs. */
static void measure_wake(void)
{
	struct bell b = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
	uint64_t least = UINT64_MAX, last, now;
	pthread_t thread;

	wake_ns = 1;
	if (pthread_create(&thread, NULL, answer, &b))
		return;
	last = clock_ns();
	for (int i = 0; i < WAKES; i++) {
		ring(&b, 0);
		now = clock_ns();
		if (i && now - last < least)
			least = now - last;
		last = now;
	}
	pthread_join(thread, NULL);
	wake_ns = least / 2 + 1; /* each time contains two wakes */
}

static int open_copier(const struct tent_attr *attr, const char *name, bool named,
	struct port **p_p, struct tent_why *why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int err = port_new("shm", name, p_p);

	pthread_once(&once, measure_wake);
	if (!err)
		(*p_p)->wake_ns = wake_ns;
	return err;
}

static const char *const kinds[] = {"shm", NULL};

extern const struct transport shm_transport;
const struct transport shm_transport = {
	.rails = "shared memory",
	.kinds = kinds,
	.spares = true,
	.at_once = SMALL,
	.stall_ns = SCHED_NEVER, /* a copy always ends, but on a busy host it may take long */
	.asked = offsetof(struct tent_attr, shm_rails),
	.open = open_copier,
	.close = port_free,
	.check = memory_check,
	.map = memory_map,
	.unmap = memory_unmap,
	.reach = host_reach,
	.link = shm_new,
};
