/* SPDX-License-Identifier: MIT */
#include "base/wakefd.h"

#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/list.h"

#define DRAIN_MAX 32 /* limit per sleep: usually one wake-up, and late ones of earlier sleeps */

/* ---- forked children ---- */

static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	struct wakefd *first;
} opened = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_ONCE_INIT, NULL};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Closes the descriptors of a sleeper. */
static void close_waiting(struct wakefd *w)
{
	if (w->queue != w->fd)
		close_fd(&w->queue);
	w->queue = -1;
	close_fd(&w->fd);
	close_fd(&w->timer);
	w->timed = false;
}

static void close_all(struct wakefd *w)
{
	close_waiting(w);
	close_fd(&w->sender);
	close_fd(&w->door);
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&opened.lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&opened.lock);
}

static void fork_child(void)
{
	for (struct wakefd *w = opened.first; w; w = w->next)
		close_all(w);
	pthread_mutex_unlock(&opened.lock);
}

static void fork_init(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* Delays forks until opened_end(): the fork handler must find each new descriptor in the list. */
static void opened_begin(struct wakefd *w)
{
	pthread_once(&opened.once, fork_init);
	pthread_mutex_lock(&opened.lock);
	if (w->listed)
		return;
	w->listed = true;
	w->next = opened.first;
	opened.first = w;
}

/* Without a descriptor the object is not listed, so that its memory may be freed. */
static void opened_end(struct wakefd *w)
{
	if (w->fd < 0 && w->sender < 0 && w->door < 0) {
		LIST_REMOVE(&opened.first, w);
		w->listed = false;
	}
	pthread_mutex_unlock(&opened.lock);
}

void wakefd_close(struct wakefd *w)
{
	if (!w->listed)
		return;
	opened_begin(w);
	close_all(w);
	opened_end(w);
}

void wakefd_close_waiting(struct wakefd *w)
{
	opened_begin(w);
	close_waiting(w);
	opened_end(w);
}

/* ---- the sleeper ---- */

uint64_t wakefd_netns(void)
{
	struct stat st;

	return stat("/proc/thread-self/ns/net", &st) == 0 ? st.st_ino : 0;
}

/* The fixed prefix restricts a forged name to sockets of this library. */
static socklen_t sockaddr_of(uint64_t name, struct sockaddr_un *sa_p)
{
	memset(sa_p, 0, sizeof(*sa_p));
	sa_p->sun_family = AF_UNIX;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)sprintf(sa_p->sun_path + 1, "wakefd.%016llx",
				   (unsigned long long)name));
}

/*
 * Makes the kernel queue only datagrams that begin with the cookie, cut off after @len bytes.
 * Datagrams that are shorter than the cookie are dropped.
 */
static int filter_attach(int sock, uint64_t cookie, uint32_t len)
{
	uint32_t half[2];
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, len),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog program = {ARRAY_SIZE(code), code};

	memcpy(half, &cookie, sizeof(half));
	code[1].k = be32toh(half[0]); /* loads are in network byte order */
	code[3].k = be32toh(half[1]);
	if (setsockopt(sock, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0)
		return -errno;
	return 0;
}

/*
 * Attaches the filter before bind(2), because any process can write to a socket that has a name.
 */
static int open_queue(int *sock_p, const uint64_t secret[2], uint32_t most)
{
	struct sockaddr_un sa;
	socklen_t len = sockaddr_of(secret[0], &sa);
	int err;

	*sock_p = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*sock_p < 0)
		return -errno;
	err = filter_attach(*sock_p, secret[1], most);
	if (err)
		return err;
	return bind(*sock_p, (struct sockaddr *)&sa, len) ? -errno : 0;
}

/* Chooses a random name and cookie. */
static int draw_secret(uint64_t secret[2])
{
	if (getrandom(secret, 2 * sizeof(*secret), 0) != 2 * sizeof(*secret))
		return -errno;
	secret[0] |= 1; /* 0 means no socket */
	return 0;
}

static void publish_secret(struct wakefd_addr *addr, const uint64_t secret[2])
{
	/*
	 * Relaxed: a later release of the caller, such as that of the sleep word, publishes both
	 * stores. They pair with the loads in wakefd_try() and wakefd_introduce().
	 */
	__atomic_store_n(&addr->cookie, secret[1], __ATOMIC_RELAXED);
	__atomic_store_n(&addr->name, secret[0], __ATOMIC_RELAXED);
}

static int watch(int set, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int open_timed(struct wakefd *w, const uint64_t secret[2])
{
	int err = open_queue(&w->queue, secret, sizeof(*secret));

	if (err)
		return err;
	w->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (w->timer < 0)
		return -errno;
	w->fd = epoll_create1(EPOLL_CLOEXEC);
	if (w->fd < 0)
		return -errno;
	err = watch(w->fd, w->queue);
	return err ? err : watch(w->fd, w->timer);
}

void wakefd_publish(const struct wakefd *w, struct wakefd_addr *addr)
{
	publish_secret(addr, w->secret);
}

int wakefd_open(struct wakefd *w, struct wakefd_addr *addr)
{
	int err = draw_secret(w->secret);

	if (err)
		return err;
	opened_begin(w);
	err = open_timed(w, w->secret);
	if (err)
		close_waiting(w);
	else
		wakefd_publish(w, addr);
	opened_end(w);
	return err;
}

int wakefd_open_event(struct wakefd *w)
{
	int err = 0;

	opened_begin(w);
	w->fd = w->queue = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0)
		err = -errno;
	opened_end(w);
	return err;
}

void wakefd_prepare(struct wakefd *w, uint32_t *word)
{
	uint64_t taken;

	for (int i = 0; i < DRAIN_MAX; i++)
		if (read(w->queue, &taken, sizeof(taken)) < 0 || w->queue == w->fd)
			break;
	sleep_prepare_as(word, SLEEP_ON_FD);
}

void wakefd_timer(struct wakefd *w, uint64_t ns)
{
	const struct itimerspec when = {.it_value = clock_timespec(ns)};

	if (!ns && !w->timed)
		return;
	w->timed = ns != 0;
	timerfd_settime(w->timer, 0, &when, NULL); /* also clears an earlier expiry */
}

/* ---- the waker ---- */

/*
 * Delays forks, because the child of a fork between the close and the end of this function would
 * close the number, which may be that of another file by then.
 */
static void close_sender(struct wakefd *w)
{
	opened_begin(w);
	close_fd(&w->sender);
	opened_end(w);
}

/* Sends a datagram. Returns 0 or -errno. */
static int send_once(struct wakefd *w, uint64_t name, uint64_t cookie)
{
	struct sockaddr_un sa;
	socklen_t len = sockaddr_of(name, &sa);

	if (w->sender < 0) {
		opened_begin(w);
		w->sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		opened_end(w);
	}
	if (w->sender < 0)
		return -errno;
	if (sendto(w->sender, &cookie, sizeof(cookie), MSG_DONTWAIT | MSG_NOSIGNAL,
		    (struct sockaddr *)&sa, len) < 0)
		return -errno;
	return 0;
}

int wakefd_try(struct wakefd *w, const struct wakefd_addr *addr)
{
	/* Each field is read once. No value of a peer is harmful: sockaddr_of() adds our prefix. */
	uint64_t name = __atomic_load_n(&addr->name, __ATOMIC_RELAXED);
	uint64_t cookie = __atomic_load_n(&addr->cookie, __ATOMIC_RELAXED);
	uint64_t netns = __atomic_load_n(&addr->netns, __ATOMIC_RELAXED);
	int err = send_once(w, name, cookie);

	/*
	 * EAGAIN: either the sleeper's queue is full, or datagrams that other sleepers have not
	 * read fill our send buffer. Closing our socket frees the buffer and keeps those datagrams.
	 * ECONNREFUSED: the name does not exist in the network namespace in which our socket was
	 * made; this thread may have left that namespace.
	 */
	if (err == -EAGAIN || err == -ECONNREFUSED) {
		close_sender(w);
		err = send_once(w, name, cookie);
	}
	switch (err) {
	case 0:
	case -EAGAIN: /* the sleeper's queue is full, so its descriptor is readable */
		return 1;
	case -ECONNREFUSED:
		/*
		 * If this thread is in the sleeper's namespace, the sleeper has closed its socket.
		 */
		return wakefd_reaches(wakefd_netns(), netns) ? 0 : -ENETUNREACH;
	case -ECONNRESET:
	case -EPIPE:
	case -EPROTOTYPE: /* a socket of another type has the name: a peer has forged the address */
		return 0;
	default:
		return err; /* not sent, and the sleeper still sleeps */
	}
}

static int wake_by_fd(struct wakefd *w, uint32_t *word, const struct wakefd_addr *addr)
{
	uint32_t running = SLEEP_RUNNING;
	int woken = wakefd_try(w, addr);

	if (woken < 0)
		/*
		 * Restores the word, so that a later wakefd_wake() tries again. Relaxed: as a
		 * read-modify-write it continues the release sequence of sleep_prepare_as().
		 */
		__atomic_compare_exchange_n(word, &running, SLEEP_ON_FD, false, __ATOMIC_RELAXED,
			__ATOMIC_RELAXED);
	return woken;
}

int wakefd_wake_cold(struct wakefd *w, uint32_t *word, const struct wakefd_addr *addr)
{
	switch (sleep_take(word)) {
	case SLEEP_ASLEEP:
		futex_wake(word, 1);
		return 1;
	case SLEEP_ON_FD:
		return wake_by_fd(w, word, addr);
	default:
		return 0;
	}
}

bool wakefd_post(const struct wakefd *w, uint32_t *word)
{
	switch (sleep_take(word)) {
	case SLEEP_ASLEEP:
		futex_wake(word, 1);
		return true;
	case SLEEP_ON_FD:
		return eventfd_write(w->fd, 1) == 0;
	default:
		return false;
	}
}

/* ---- introductions ---- */

struct intro_bytes {
	uint64_t cookie;
	uint32_t index, zero;
};

int wakefd_door(struct wakefd *w, struct wakefd_addr *addr)
{
	const int on = 1;
	uint64_t secret[2];
	int err = draw_secret(secret);

	if (err)
		return err;
	opened_begin(w);
	err = open_queue(&w->door, secret, sizeof(struct intro_bytes));
	if (!err && setsockopt(w->door, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0)
		err = -errno;
	if (err)
		close_fd(&w->door);
	else
		publish_secret(addr, secret);
	opened_end(w);
	return err;
}

int wakefd_introduce(const struct wakefd_addr *addr, uint32_t index, int fd)
{
	const struct intro_bytes bytes = {
		.cookie = __atomic_load_n(&addr->cookie, __ATOMIC_RELAXED),
		.index = index,
	};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fd))] = {0};
	struct iovec iov = {(void *)&bytes, sizeof(bytes)};
	struct sockaddr_un sa;
	struct msghdr m = {.msg_name = &sa,
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	/* A new socket, because its send buffer is empty. */
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (sock < 0)
		return -errno;
	m.msg_namelen = sockaddr_of(__atomic_load_n(&addr->name, __ATOMIC_RELAXED), &sa);
	*c = (struct cmsghdr){CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		err = -errno;
	close(sock);
	return err;
}

/* Keeps the first descriptor of a message, and closes the others. */
static void keep_first(const struct cmsghdr *c, int *fd_p)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int fd;

	for (size_t i = 0; i < n; i++) {
		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (*fd_p < 0)
			*fd_p = fd;
		else
			close(fd);
	}
}

/* Returns 1; 0 if the datagram is no introduction; -EAGAIN if there is no datagram. */
static int receive_intro(int door, struct wakefd_intro *in)
{
	_Alignas(struct cmsghdr) char
		control[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
	struct intro_bytes bytes;
	struct iovec iov = {&bytes, sizeof(bytes)};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct ucred who = {.uid = (uid_t)-1, .gid = (gid_t)-1};
	ssize_t n = recvmsg(door, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*in = (struct wakefd_intro){.fd = -1};
	if (n < 0)
		return -EAGAIN;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_RIGHTS)
			keep_first(c, &in->fd);
		else if (c->cmsg_type == SCM_CREDENTIALS)
			memcpy(&who, CMSG_DATA(c), sizeof(who));
	}
	in->index = bytes.index;
	in->pid = (uint32_t)who.pid;
	in->uid = who.uid;
	in->gid = who.gid;
	return n == sizeof(bytes) && in->fd >= 0;
}

void wakefd_meet(struct wakefd *w, wakefd_intro_fn *fn, void *arg)
{
	struct wakefd_intro in;
	int r;

	opened_begin(w);
	for (int i = 0; i < WAKEFD_MEET_MAX; i++) {
		r = receive_intro(w->door, &in);
		if (r < 0)
			break;
		if (r)
			fn(arg, &in);
		close_fd(&in.fd);
	}
	opened_end(w);
}
