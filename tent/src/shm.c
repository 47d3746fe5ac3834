/* SPDX-License-Identifier: MIT */
/*
 * Links between two processes of one host: a thread that copies with process_vm_readv(2) and
 * process_vm_writev(2). Neither needs anything of the peer but its process id, and the
 * permission that the kernel asks for (ptrace(2)).
 *
 * The engine's thread and the copying thread share two rings under a mutex; copies are made
 * without it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/compiler.h"
#include "link.h"

#define RING 128 /* more than LINK_DEPTH + LINK_EXTRA, a power of two */
#define KEY_LEN 16

struct ended {
	uint64_t token;
	int status;
};

struct shm_link {
	struct link link;
	pid_t pid;
	uint64_t proof;
	uint8_t key[KEY_LEN];
	pthread_t thread;

	pthread_mutex_t mutex; /* of all that follows */
	pthread_cond_t work;
	struct link_move todo[RING];
	struct ended ended[RING];
	uint32_t todo_head, todo_tail, ended_head, ended_tail;
	bool stopped, ending;
};

static struct shm_link *to_shm(struct link *l)
{
	return container_of(l, struct shm_link, link);
}

/* A move of any length; the kernel may do less than it is asked for. */
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

/* Is it still the process that exported the segment? */
static int ask(const struct shm_link *l)
{
	uint8_t key[KEY_LEN];
	int err = copy(l->pid, false, key, l->proof, sizeof(key));

	if (err)
		return err;
	return memcmp(key, l->key, sizeof(key)) ? -ESRCH : 0;
}

/* len 0: a probe. */
static int perform(const struct shm_link *l, const struct link_move *m)
{
	return m->len ? copy(l->pid, m->write, m->local, m->remote, m->len) : ask(l);
}

/* Reports a move; the first one wakes the engine. */
static void report(struct shm_link *l, uint64_t token, int status)
{
	const uint64_t one = 1;

	l->ended[l->ended_tail++ % RING] = (struct ended){token, status};
	if (l->ended_tail - l->ended_head == 1 && write(l->link.fds[0], &one, sizeof(one)) < 0)
		abort(); /* only a counter at its end is refused, and this one is at 0 */
}

static void *copier(void *arg)
{
	struct shm_link *l = arg;

	pthread_mutex_lock(&l->mutex);
	while (!l->ending) {
		struct link_move m;
		int status = -ECANCELED;

		if (l->todo_head == l->todo_tail) {
			pthread_cond_wait(&l->work, &l->mutex);
			continue;
		}
		m = l->todo[l->todo_head++ % RING];
		if (!l->stopped) {
			pthread_mutex_unlock(&l->mutex);
			status = perform(l, &m);
			pthread_mutex_lock(&l->mutex);
		}
		/* Memory that is not there is no fault of the link. */
		l->stopped |= status && status != -EFAULT;
		report(l, m.token, status);
	}
	pthread_mutex_unlock(&l->mutex);
	return NULL;
}

static void shm_info(const struct link *link, struct mlx5dvl_qp_info *info_p)
{
	*info_p = (struct mlx5dvl_qp_info){0};
}

static int shm_connect(struct link *link, const struct mlx5dvl_qp_info *peer)
{
	return 0;
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
		l->todo[l->todo_tail++ % RING] = *m;
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

static void shm_flush(struct link *link)
{
}

static int shm_poll(struct link *link, link_done_fn *fn, void *arg)
{
	struct shm_link *l = to_shm(link);
	struct ended ended[RING];
	uint64_t count;
	int n = 0;

	if (!l->link.posted)
		return 0;
	pthread_mutex_lock(&l->mutex);
	while (l->ended_head != l->ended_tail)
		ended[n++] = l->ended[l->ended_head++ % RING];
	if (n && read(l->link.fds[0], &count, sizeof(count)) < 0)
		abort(); /* it was written under the same lock */
	pthread_mutex_unlock(&l->mutex);
	l->link.posted -= (uint32_t)n;
	for (int i = 0; i < n; i++)
		fn(arg, ended[i].token, ended[i].status);
	return n;
}

static int shm_poll_marks(struct link *link, int max, link_mark_fn *fn, void *arg)
{
	return 0;
}

static int shm_stop(struct link *link)
{
	struct shm_link *l = to_shm(link);

	pthread_mutex_lock(&l->mutex);
	l->stopped = true;
	pthread_mutex_unlock(&l->mutex);
	return 0;
}

static void shm_arm(struct link *link)
{
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
	.info = shm_info,
	.connect = shm_connect,
	.post = shm_post,
	.post_probe = shm_post_probe,
	.flush = shm_flush,
	.poll = shm_poll,
	.poll_marks = shm_poll_marks,
	.stop = shm_stop,
	.arm = shm_arm,
	.disarm = shm_arm,
	.destroy = shm_destroy,
};

int shm_link_create(int32_t pid, uint64_t proof, const uint8_t key[16], struct link **l_p)
{
	struct shm_link *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	l->link.ops = &shm_ops;
	l->link.fds[1] = -1;
	l->pid = pid;
	l->proof = proof;
	memcpy(l->key, key, KEY_LEN);
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
