/* SPDX-License-Identifier: MIT */
/* Connections of links over TCP, and the initiator's end. */
#include "tcplink.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/tcp.h"

#define RING 128 /* more than LINK_DEPTH + LINK_EXTRA, a power of two */
#define TURN (1u << 20) /* after so many bytes the other connections have their turn */
#define CHECK_S 1 /* seconds between two checks whether the peer's host is silent */

/* ---- bytes ---- */

static const uint8_t zeros[16 << 10]; /* sent in place of bytes that cannot be read */

/*
 * Returns the iovec for a part without memory. To send: zeros. To receive: NULL, for which
 * move_once() discards the bytes in a system call of its own.
 */
static struct iovec nothing(bool out, size_t left)
{
	if (!out)
		return (struct iovec){NULL, left < TURN ? left : TURN};
	return (struct iovec){(void *)(uintptr_t)zeros,
		left < sizeof(zeros) ? left : sizeof(zeros)};
}

/*
 * Fills @iov with the parts of the item after its first @done bytes, as far as one system call can
 * move them. Returns the number of entries.
 */
static size_t parts(const struct item *i, uint64_t done, bool out, struct iovec iov[3])
{
	const struct iovec all[] = {{i->head, i->head_len}, {i->bytes, i->len},
		{i->tail, i->tail_len}};
	bool last = false;
	size_t n = 0;

	for (size_t k = 0; k < ARRAY_SIZE(all) && !last; k++) {
		size_t skip = done < all[k].iov_len ? done : all[k].iov_len;
		size_t left = all[k].iov_len - skip;

		done -= skip;
		if (!left)
			continue;
		if (all[k].iov_base)
			iov[n++] = (struct iovec){(char *)all[k].iov_base + skip, left};
		else if (out || !n)
			iov[n++] = nothing(out, left);
		last = !all[k].iov_base && (!out || iov[n - 1].iov_len < left);
	}
	return n;
}

/* Sends or receives once. Returns the number of bytes, 0 if a signal came first, or -errno. */
static ssize_t move_once(int fd, bool out, struct msghdr *m)
{
	const struct iovec *v = m->msg_iov;
	ssize_t n;

	if (out)
		n = sendmsg(fd, m, MSG_DONTWAIT | MSG_NOSIGNAL);
	else if (v->iov_base)
		n = recvmsg(fd, m, MSG_DONTWAIT);
	else
		n = recv(fd, NULL, v->iov_len, MSG_DONTWAIT | MSG_TRUNC);
	if (n > 0)
		return n;
	if (!n || errno == EPIPE)
		return -ECONNRESET;
	return errno == EINTR ? 0 : -errno;
}

int wire_move(struct wire *w, bool out, const struct item *i, uint64_t *done)
{
	while (*done < i->head_len + i->len + i->tail_len) {
		struct iovec iov[3];
		struct msghdr m = {.msg_iov = iov, .msg_iovlen = parts(i, *done, out, iov)};
		ssize_t n = w->moved < TURN ? move_once(w->fd, out, &m) : -EAGAIN;

		if (n < 0)
			return (int)n;
		*done += (uint64_t)n;
		w->moved += (uint64_t)n;
	}
	return 0;
}

void wire_close(struct wire *w)
{
	if (w->fd >= 0)
		tcp_end(w->fd);
	w->fd = -1;
}

int wire_watch(const struct wire *w, const struct link *l)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};

	return epoll_ctl(l->fds[0], EPOLL_CTL_ADD, w->fd, &e) ? -errno : 0;
}

void tcp_link_disarm(struct link *l)
{
	struct epoll_event events[STREAMS + 1];

	epoll_wait(l->fds[0], events, STREAMS + 1, 0);
}

int tcp_link_init(struct link *l, const struct link_ops *ops)
{
	*l = (struct link){.ops = ops, .fds = {epoll_create1(EPOLL_CLOEXEC), -1}};
	return l->fds[0] < 0 ? -errno : 0;
}

/* ---- the initiator's end ---- */

struct call {
	struct frame frame;
	void *local;
	uint64_t len; /* bytes to move; 0: a probe or a mark */
	int status; /* the result if the link fails before the reply; -EFAULT: local memory is
		       not mapped */
};

struct stream {
	struct wire wire;
	/* From first to sent: frames that were sent; from there to last: frames to send. */
	struct call ring[RING];
	uint32_t first, sent, last; /* never reduced modulo RING */
	uint64_t queued; /* bytes from first to last */
	uint64_t greeted, put, got; /* moved bytes of the greeting, the current frame and reply */
	struct reply reply, end; /* end: the second reply to a read, after its bytes */
};

struct initiator {
	struct link link;
	struct sockaddr_storage to;
	struct greeting greeting;
	bool stopped;
	uint32_t probing; /* number of replies that a probe waits for */
	struct stream streams[STREAMS];
	int timer; /* makes the link's descriptor readable when a check is due */
	uint64_t check_at; /* 0: no call waits, so there are no checks */
};

static struct initiator *to_initiator(struct link *l)
{
	return container_of(l, struct initiator, link);
}

/* With @on, the kernel ends an idle connection if the peer's host does not answer for 3 seconds. */
static void keep_alive(int fd, int on)
{
	const int interval_s = 1, most = 2;

	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &most, sizeof(most));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static void set_timer(struct initiator *l)
{
	const struct itimerspec t = {.it_value.tv_sec = CHECK_S};

	l->check_at = clock_ns() + CHECK_S * NSEC_PER_SEC;
	timerfd_settime(l->timer, 0, &t, NULL); /* set last, because it must not expire before
						   check_at */
}

/* Begins or ends the checks. While no call waits, a silent host does no harm. */
static void set_checks(struct initiator *l, bool on)
{
	for (int i = 0; i < STREAMS; i++)
		keep_alive(l->streams[i].wire.fd, on);
	if (on)
		set_timer(l);
	else
		l->check_at = 0;
}

static int dial(struct initiator *l, struct wire *w)
{
	bool four = l->to.ss_family == AF_INET;
	socklen_t len = four ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	const int on = 1;

	w->fd = socket(l->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (w->fd < 0)
		return -errno;
	setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(w->fd, (struct sockaddr *)&l->to, len) && errno != EINPROGRESS)
		return -errno;
	return wire_watch(w, &l->link);
}

/* Does not wait for the connections: the first bytes are sent when a connection is established. */
static int initiator_connect(struct link *link, const struct link_end *peer)
{
	struct initiator *l = to_initiator(link);
	struct tcp_end end;
	int err = 0;

	memcpy(&end, peer->bytes, sizeof(end));
	if (l->to.ss_family == AF_INET)
		((struct sockaddr_in *)&l->to)->sin_port = htons(end.port);
	else
		((struct sockaddr_in6 *)&l->to)->sin6_port = htons(end.port);
	l->greeting = (struct greeting){.magic = TCP_MAGIC};
	memcpy(l->greeting.token, end.token, sizeof(end.token));
	for (int i = 0; i < STREAMS && !err; i++)
		err = dial(l, &l->streams[i].wire);
	return err;
}

static void append(struct stream *c, const struct call *k)
{
	c->ring[c->last++ % RING] = *k;
	c->queued += k->len;
}

/* The stream with the fewest bytes to move. */
static struct stream *shortest(struct initiator *l)
{
	struct stream *best = &l->streams[0];

	for (int i = 1; i < STREAMS; i++) {
		if (l->streams[i].queued < best->queued)
			best = &l->streams[i];
	}
	return best;
}

static int put(struct link *link, const struct call *k, uint32_t depth)
{
	struct initiator *l = to_initiator(link);

	if (link->posted >= depth)
		return -EAGAIN;
	if (l->stopped)
		return -ENOTCONN;
	append(shortest(l), k);
	link->posted++;
	if (!l->check_at)
		set_checks(l, true);
	return 0;
}

static int initiator_post(struct link *link, const struct link_move *m)
{
	const struct call k = {
		.frame = {.type = m->write ? FRAME_WRITE : FRAME_READ,
			.key = m->rkey,
			.token = m->token,
			.addr = m->remote,
			.len = m->len},
		.local = m->local,
		.len = m->len,
		.status = -ECANCELED,
	};

	return put(link, &k, LINK_DEPTH);
}

static int initiator_post_mark(struct link *link, const struct notice_mark *mark, uint64_t token)
{
	const struct call k = {.frame = {.type = FRAME_MARK, .token = token, .mark = *mark},
		.status = -ECANCELED};

	return put(link, &k, LINK_DEPTH + LINK_EXTRA - 1);
}

/* A probe ends when it has reached the peer on all connections. */
static int initiator_post_probe(struct link *link, uint64_t token)
{
	struct initiator *l = to_initiator(link);
	const struct call k = {.frame = {.type = FRAME_PROBE, .token = token},
		.status = -EREMOTEIO};

	if (l->stopped || l->probing)
		return -ENOTCONN;
	for (int i = 0; i < STREAMS; i++)
		append(&l->streams[i], &k);
	l->probing = STREAMS;
	link->posted++;
	if (!l->check_at)
		set_checks(l, true);
	return 0;
}

struct reporting {
	link_done_fn *fn;
	void *arg;
};

/* Reports the end of the first call of a stream. */
static void report(struct initiator *l, struct stream *c, int status, const struct reporting *r)
{
	const struct call *k = &c->ring[c->first++ % RING];

	c->queued -= k->len;
	if (k->frame.type == FRAME_PROBE && --l->probing)
		return;
	l->link.posted--;
	r->fn(r->arg, k->frame.token, status);
}

/* Moves more of an item with the call's bytes. If these are not mapped, continues without them. */
static int move_call(struct stream *c, struct call *k, bool out, struct item *i, uint64_t *done)
{
	int err;

	i->bytes = k->local;
	err = wire_move(&c->wire, out, i, done);
	if (err != -EFAULT)
		return err;
	k->status = err;
	k->local = i->bytes = NULL;
	return wire_move(&c->wire, out, i, done);
}

static int send_frames(struct initiator *l, struct stream *c)
{
	const struct item greeting = {.head = &l->greeting, .head_len = sizeof(l->greeting)};
	int err = wire_move(&c->wire, true, &greeting, &c->greeted);

	while (!err && c->sent != c->last) {
		struct call *k = &c->ring[c->sent % RING];
		struct item frame = {.head = &k->frame,
			.head_len = sizeof(k->frame),
			.len = k->frame.type == FRAME_WRITE ? k->len : 0};

		err = move_call(c, k, true, &frame, &c->put);
		if (err)
			break;
		c->put = 0;
		c->sent++;
	}
	return err == -EAGAIN ? 0 : err;
}

static bool answers(const struct reply *r, const struct call *k)
{
	return r->magic == TCP_MAGIC && r->token == k->frame.token;
}

/*
 * Receives the reply to a call and, for a read, the bytes and the second reply. Returns -EPROTO if
 * a reply does not belong to the call, else the same as wire_move().
 */
static int receive_reply(struct stream *c, struct call *k)
{
	struct item i = {.head = &c->reply, .head_len = sizeof(c->reply)};
	int err = c->got < sizeof(c->reply) ? wire_move(&c->wire, false, &i, &c->got) : 0;

	if (err)
		return err;
	if (!answers(&c->reply, k))
		return -EPROTO;
	if (k->frame.type != FRAME_READ || c->reply.status)
		return 0;
	i.len = k->len;
	i.tail = &c->end;
	i.tail_len = sizeof(c->end);
	err = move_call(c, k, false, &i, &c->got);
	if (err)
		return err;
	if (!answers(&c->end, k))
		return -EPROTO;
	c->reply.status = c->end.status;
	return 0;
}

/* The status of a call that has been answered. */
static int result(const struct call *k, const struct reply *r)
{
	if (k->status == -EFAULT || r->status == EFAULT)
		return -EFAULT;
	return r->status ? -EACCES : 0;
}

static int receive_replies(struct initiator *l, struct stream *c, const struct reporting *r)
{
	int err = 0;

	while (c->first != c->sent) {
		struct call *k = &c->ring[c->first % RING];

		err = receive_reply(c, k);
		if (err)
			break;
		c->got = 0;
		report(l, c, result(k, &c->reply), r);
	}
	return err == -EAGAIN ? 0 : err;
}

static int initiator_stop(struct link *link)
{
	struct initiator *l = to_initiator(link);

	l->stopped = true;
	for (int i = 0; i < STREAMS; i++)
		wire_close(&l->streams[i].wire);
	return 0;
}

/*
 * One connection has failed, and with it the link. The first call of the connection ends with
 * -EREMOTEIO instead of -ECANCELED, all other calls of the link with their call.status.
 */
static void fail(struct initiator *l, struct stream *c)
{
	if (c->first != c->last && c->ring[c->first % RING].status == -ECANCELED)
		c->ring[c->first % RING].status = -EREMOTEIO;
	initiator_stop(&l->link);
}

/* Ends the calls of a stream that is closed. */
static void flush_calls(struct initiator *l, struct stream *c, const struct reporting *r)
{
	while (c->first != c->last)
		report(l, c, c->ring[c->first % RING].status, r);
	c->sent = c->last;
}

static bool is_silent(const struct stream *c)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	return c->first != c->last && !getsockopt(c->wire.fd, IPPROTO_TCP, TCP_INFO, &info, &len) &&
	       wire_silent(&info);
}

static void check(struct initiator *l)
{
	if (!l->link.posted) {
		set_checks(l, false);
		return;
	}
	set_timer(l);
	for (int i = 0; i < STREAMS && !l->stopped; i++) {
		if (is_silent(&l->streams[i]))
			fail(l, &l->streams[i]);
	}
}

/* Returns the number of calls that have ended; if there are none, 1 if bytes were moved, else 0. */
static int initiator_poll(struct link *link, link_done_fn *fn, void *arg)
{
	const struct reporting r = {fn, arg};
	struct initiator *l = to_initiator(link);
	uint32_t before = link->posted;
	bool moved = false;

	if (l->check_at && clock_ns() >= l->check_at)
		check(l);
	if (!before)
		return 0;
	for (int i = 0; i < STREAMS && !l->stopped; i++) {
		struct stream *c = &l->streams[i];

		c->wire.moved = 0;
		if (send_frames(l, c) || receive_replies(l, c, &r))
			fail(l, c);
		moved |= c->wire.moved != 0;
	}
	for (int i = 0; i < STREAMS && l->stopped; i++)
		flush_calls(l, &l->streams[i], &r);
	return before != link->posted ? (int)(before - link->posted) : moved;
}

static void initiator_destroy(struct link *link)
{
	struct initiator *l = to_initiator(link);

	initiator_stop(link);
	close(l->timer);
	close(link->fds[0]);
	free(l);
}

static const struct link_ops initiator_ops = {
	.connect = initiator_connect,
	.post = initiator_post,
	.post_probe = initiator_post_probe,
	.post_mark = initiator_post_mark,
	.poll = initiator_poll,
	.stop = initiator_stop,
	.disarm = tcp_link_disarm,
	.destroy = initiator_destroy,
};

static int open_timer(struct initiator *l)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLET}; /* edge-triggered, so that no
							         thread need read the timer */

	l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (l->timer < 0)
		return -errno;
	if (!epoll_ctl(l->link.fds[0], EPOLL_CTL_ADD, l->timer, &e))
		return 0;
	close(l->timer);
	return -ENOMEM;
}

int tcp_link_new(struct port *p, const struct desc *peer, struct link **l_p)
{
	struct initiator *l = calloc(1, sizeof(*l));
	int err = l ? tcp_link_init(&l->link, &initiator_ops) : -ENOMEM;

	if (err) {
		free(l);
		return err;
	}
	err = open_timer(l);
	if (err) {
		close(l->link.fds[0]);
		free(l);
		return err;
	}
	l->to = peer->at;
	for (int i = 0; i < STREAMS; i++)
		l->streams[i].wire.fd = -1;
	*l_p = &l->link;
	return 0;
}
