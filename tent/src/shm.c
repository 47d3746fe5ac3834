/* SPDX-License-Identifier: MIT */
/*
 * The transport between two processes of one host. A link is a thread that copies with
 * process_vm_readv(2) and process_vm_writev(2). These need the process id of the peer, and the
 * permission to ptrace(2) the peer. The target has no end of a link.
 *
 * The engine's thread and the copying thread share a ring under a mutex. The copying thread
 * copies without holding the mutex.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/compiler.h"
#include "sched.h"
#include "transport.h"
#include "why.h"

#define RING 128 /* more than LINK_DEPTH + LINK_EXTRA, a power of two */

struct shm_link {
	struct link link;
	pid_t pid;
	uint64_t proof;
	uint8_t key[DESC_KEY_LEN];
	pthread_t thread;

	pthread_mutex_t mutex; /* protects the members that follow */
	pthread_cond_t work;
	/* From reported to ended: moves that have ended; from there to tail: moves to perform. */
	struct {
		struct link_move move;
		int status;
	} ring[RING];
	uint32_t reported, ended, tail; /* never reduced modulo RING */
	bool stopped, ending;
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

/* Moves a slice, or if its length is 0, probes the peer. */
static int perform(const struct shm_link *l, const struct link_move *m)
{
	return m->len ? copy(l->pid, m->write, m->local, m->remote, m->len) : ask(l);
}

/* Ends the next move of the ring. Wakes the engine if no earlier move waits to be reported. */
static void end(struct shm_link *l, int status)
{
	const uint64_t one = 1;

	l->ring[l->ended++ % RING].status = status;
	if (l->ended - l->reported == 1 && write(l->link.fds[0], &one, sizeof(one)) < 0)
		abort(); /* write() fails only on overflow, and this counter is 0 */
}

static void *copier(void *arg)
{
	struct shm_link *l = arg;

	pthread_mutex_lock(&l->mutex);
	while (!l->ending) {
		struct link_move m;
		int status = -ECANCELED;

		if (l->ended == l->tail) {
			pthread_cond_wait(&l->work, &l->mutex);
			continue;
		}
		m = l->ring[l->ended % RING].move;
		if (!l->stopped) {
			pthread_mutex_unlock(&l->mutex);
			status = perform(l, &m);
			pthread_mutex_lock(&l->mutex);
		}
		/* The link is not stopped by a move whose memory was not mapped. */
		l->stopped |= status && status != -EFAULT;
		end(l, status);
	}
	pthread_mutex_unlock(&l->mutex);
	return NULL;
}

static int put(struct shm_link *l, const struct link_move *m, uint32_t depth)
{
	int err = 0;

	if (l->link.posted >= depth)
		return -EAGAIN;
	pthread_mutex_lock(&l->mutex);
	if (l->stopped)
		err = -ENOTCONN;
	else
		l->ring[l->tail++ % RING].move = *m;
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&l->mutex);
	if (!err)
		l->link.posted++;
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

static int shm_poll(struct link *link, link_done_fn *fn, void *arg)
{
	struct shm_link *l = to_shm(link);
	uint32_t from, to;
	uint64_t count;

	if (!l->link.posted)
		return 0;
	pthread_mutex_lock(&l->mutex);
	from = l->reported;
	to = l->reported = l->ended;
	if (from != to && read(l->link.fds[0], &count, sizeof(count)) < 0)
		abort(); /* it was written under the same lock */
	pthread_mutex_unlock(&l->mutex);
	for (uint32_t i = from; i != to; i++) {
		/* put() reuses the place only when posted has been reduced. */
		fn(arg, l->ring[i % RING].move.token, l->ring[i % RING].status);
		l->link.posted--;
	}
	return (int)(to - from);
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
	pthread_mutex_unlock(&l->mutex);
	pthread_join(l->thread, NULL);
	pthread_cond_destroy(&l->work);
	pthread_mutex_destroy(&l->mutex);
	close(l->link.fds[0]);
	free(l);
}

static const struct link_ops shm_ops = {
	.post = shm_post,
	.post_probe = shm_post_probe,
	.poll = shm_poll,
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
	l->link.fds[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->link.fds[0] < 0) {
		err = -errno;
		free(l);
		return err;
	}
	pthread_mutex_init(&l->mutex, NULL);
	pthread_cond_init(&l->work, NULL);
	err = -pthread_create(&l->thread, NULL, copier, l);
	if (err) {
		close(l->link.fds[0]);
		free(l);
		return err;
	}
	*l_p = &l->link;
	return 0;
}

static int shm_reach(const struct desc *peer, struct tent_why *why)
{
	char boot[sizeof(peer->boot)];

	boot_id(boot);
	return strcmp(boot, peer->boot) ?
		       why_say(why, -EREMOTE,
			       "segment: of another host, which shared-memory rails do not reach") :
		       0;
}

/* ---- memory ---- */

/*
 * Checks that the first and the last byte are mapped and readable: the kernel copies them to this
 * process's stack.
 */
static int touch(uint64_t addr, uint64_t len)
{
	const uint64_t ends[] = {addr, addr + len - 1};
	char byte;

	for (int i = 0; i < 2; i++) {
		struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)ends[i], 1};

		if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
			return errno == EFAULT ? -EFAULT : -errno;
	}
	return 0;
}

/*
 * @line: a line of /proc/self/maps. If the mapping that it describes contains @at and is readable
 * and writable, returns the end of the mapping, else @at.
 */
static uint64_t mapped_to(const char *line, uint64_t at)
{
	uint64_t low, high;
	char r, w;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %c%c", &low, &high, &r, &w) != 4 || at < low ||
		at >= high)
		return at;
	return r == 'r' && w == 'w' ? high : at;
}

/*
 * Returns -EFAULT, as an adapter does when it pins the memory, if a part is not mapped, readable
 * and writable. Another -errno: the memory could not be checked. Reads /proc/self/maps, and of the
 * memory the first and the last byte only.
 */
static int shm_check(uint64_t addr, uint64_t len)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t at = addr;
	char *line = NULL;
	size_t size = 0;

	if (!maps)
		return -errno;
	while (at < addr + len && getline(&line, &size, maps) > 0)
		at = mapped_to(line, at);
	free(line);
	fclose(maps);
	return at < addr + len ? -EFAULT : touch(addr, len);
}

/* ---- ports ---- */

static bool shm_wanted(const struct tent_attr *attr)
{
	return attr->shm_rails;
}

static int shm_find(const struct tent_attr *attr, char names[TENT_MAX_RAILS][TENT_NAME_LEN],
	struct tent_why *why)
{
	if (attr->shm_rails > TENT_MAX_RAILS)
		return why_say(why, -EINVAL, "shm_rails: give up to %d", TENT_MAX_RAILS);
	for (uint32_t i = 0; i < attr->shm_rails; i++)
		snprintf(names[i], TENT_NAME_LEN, "shm%u", i);
	return (int)attr->shm_rails;
}

static int shm_open(const char *name, bool named, struct port **p_p, struct tent_why *why)
{
	if (named)
		return why_say(why, -EINVAL,
			"configuration: a topology file describes adapters, so leave it out with "
			"shared-memory rails");
	return port_new("shm", name, p_p);
}

static const char *const kinds[] = {"shm", NULL};

extern const struct transport shm_transport;
const struct transport shm_transport = {
	.rails = "shared memory",
	.kinds = kinds,
	.spares = true,
	.stall_ns = SCHED_NEVER, /* a copy always ends, but on a busy host it may take long */
	.wanted = shm_wanted,
	.find = shm_find,
	.open = shm_open,
	.close = port_free,
	.check = shm_check,
	.reach = shm_reach,
	.link = shm_new,
};
