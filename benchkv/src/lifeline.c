/* SPDX-License-Identifier: MIT */
#include "lifeline.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/tcp.h"
#include "stop.h"

#define KEY_ADDRESS "lifeline"
#define MAGIC 0x62656e63686c6c31ull
#define ADDRESSES 8
#define CONNECT_NS (300 * NSEC_PER_MSEC) /* for each address */
#define GREETING_NS (10 * NSEC_PER_SEC) /* time limit for a connection to send the secret */
#define SEND_NS (500 * NSEC_PER_MSEC) /* time limit for a message, because the peer may hang */
#define LOOK_NS NSEC_PER_MSEC /* time between two reads of all peers */
#define TAKE 64 /* maximum number of connections that are accepted at a time */
#define RESULT_MAX (64u << 20) /* bytes */

/* The addresses at which rank 0 listens, as text for getaddrinfo(3). */
struct address {
	uint64_t magic;
	uint8_t secret[16];
	uint32_t port, n;
	char host[ADDRESSES][INET6_ADDRSTRLEN];
};

/* The first message of a rank. All ranks run the same program on machines of one architecture. */
struct greeting {
	uint64_t magic;
	uint8_t secret[16];
	uint32_t rank, reserved;
};

enum kind {
	WELCOME = 1, /* rank 0 confirms the greeting */
	STOP, /* arg: a number of stop.h */
	RESULT, /* arg: the run; followed by len bytes */
	LEAVE, /* the last message: the rank ends normally */
};

struct message {
	uint32_t kind, arg;
	uint64_t len;
};

struct peer {
	int fd; /* -1: no connection, or it has ended */
	bool up; /* greeting and welcome were exchanged */
	bool left;
	struct message msg; /* the message that is being read */
	size_t done; /* number of its bytes that have been read */
	void *result; /* the data of a RESULT while it is being read */
	size_t result_done;
};

struct lifeline {
	struct launch *l;
	struct address address;
	int listener; /* of rank 0; else -1 */
	struct tcp_crowd crowd;
	uint32_t tried; /* number of rank 0's addresses that were tried */
	int64_t lost;
	bool told;
	uint32_t n_peers;
	struct peer peers[]; /* at rank 0: by rank; at other ranks: only rank 0 */
};

/* ---- connections to rank 0 ---- */

struct visitor {
	struct tcp_guest guest;
	struct greeting said;
	size_t done;
};

static bool greets(const struct lifeline *line, const struct greeting *g)
{
	return g->magic == MAGIC && !memcmp(g->secret, line->address.secret, sizeof(g->secret)) &&
	       g->rank && g->rank < line->n_peers && line->peers[g->rank].fd < 0;
}

static int step_visitor(void *arg, struct tcp_guest *g)
{
	struct visitor *v = (struct visitor *)g;
	int err = tcp_read(g->fd, &v->said, sizeof(v->said), &v->done);

	g->events = POLLIN;
	return err ? err : greets(arg, &v->said) ? 0 : -EBADMSG;
}

/* ---- messages ---- */

static int say(struct peer *p, enum kind kind, uint32_t arg, const void *data, size_t len)
{
	const struct message msg = {.kind = kind, .arg = arg, .len = len};
	uint64_t limit = clock_ns() + SEND_NS;
	int err = tcp_put(p->fd, &msg, sizeof(msg), limit);

	return err || !len ? err : tcp_put(p->fd, data, len, limit);
}

static void hang_up(struct peer *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	free(p->result);
	p->result = NULL;
}

static void welcome(struct lifeline *line, struct tcp_guest *g)
{
	struct visitor *v = (struct visitor *)g;
	struct peer *p = &line->peers[v->said.rank];

	*p = (struct peer){.fd = g->fd, .up = true};
	tcp_keep_alive(p->fd);
	if (say(p, WELCOME, 0, NULL, 0))
		hang_up(p);
	free(v);
}

/* Rank 0: accepts the ranks whose greeting has arrived. */
static void open_door(struct lifeline *line)
{
	for (uint32_t i = 0; i < TAKE; i++) {
		struct tcp_guest *g;
		int err = tcp_crowd_next(&line->crowd, line->listener, TAKE, clock_ns(), &g);

		if (err == -EAGAIN)
			return;
		if (!err)
			welcome(line, g);
	}
}

/* ---- connecting to rank 0 ---- */

static int greet(struct lifeline *line, const char *host)
{
	struct greeting hello = {.magic = MAGIC, .rank = line->l->rank};
	struct peer *p = line->peers;
	int err = tcp_connect(host, (uint16_t)line->address.port, false, clock_ns() + CONNECT_NS,
		&p->fd);

	if (err) {
		p->fd = -1;
		return err;
	}
	tcp_keep_alive(p->fd);
	p->done = 0;
	memcpy(hello.secret, line->address.secret, sizeof(hello.secret));
	err = tcp_put(p->fd, &hello, sizeof(hello), clock_ns() + SEND_NS);
	if (err)
		hang_up(p);
	return err;
}

/* Tries the remaining addresses of rank 0 until there is a connection. */
static void try_next(struct lifeline *line)
{
	while (line->tried < line->address.n) {
		if (!greet(line, line->address.host[line->tried++]))
			return;
	}
	fprintf(stderr,
		"benchkv: rank %u: rank 0 cannot be reached by TCP: the death of a rank is noticed "
		"only after --timeout\n",
		line->l->rank);
}

/* ---- receiving ---- */

static void on_end(struct lifeline *line, struct peer *p)
{
	hang_up(p);
	if (p->up && !p->left) {
		if (line->lost < 0)
			line->lost = p - line->peers;
		stop_raise(STOP_FAILED);
	} else if (!p->up) {
		try_next(line);
	}
}

/* Handles the message that has arrived. True: the next message can be read. */
static bool act(struct lifeline *line, struct peer *p)
{
	switch (p->msg.kind) {
	case WELCOME:
		p->up = true;
		break;
	case STOP:
		line->told = true;
		stop_raise(p->msg.arg && p->msg.arg < STOP_FAILED ? (int)p->msg.arg : STOP_FAILED);
		break;
	case LEAVE:
		p->left = true;
		break;
	case RESULT:
		return false; /* the result is read later, see lifeline_gather() */
	default:
		hang_up(p);
		return false;
	}
	p->done = 0;
	return true;
}

/* Reads the messages of a peer, up to a result. */
static void hear(struct lifeline *line, struct peer *p)
{
	while (p->fd >= 0 && (p->done < sizeof(p->msg) || act(line, p))) {
		int err = tcp_read(p->fd, &p->msg, sizeof(p->msg), &p->done);

		if (err == -EAGAIN)
			return;
		if (err)
			on_end(line, p);
	}
}

void lifeline_look(struct lifeline *line)
{
	if (!line)
		return;
	if (line->listener >= 0)
		open_door(line);
	for (uint32_t i = 0; i < line->n_peers; i++)
		hear(line, &line->peers[i]);
}

void lifeline_wait(struct lifeline *line, uint64_t timeout_ns)
{
	uint64_t end = clock_ns() + timeout_ns;

	if (!line)
		return;
	lifeline_look(line);
	while (line->lost < 0 && !line->told && !stop_told() && clock_ns() < end) {
		clock_nap(LOOK_NS);
		lifeline_look(line);
	}
}

int64_t lifeline_lost(const struct lifeline *line)
{
	return line ? line->lost : -1;
}

bool lifeline_told(const struct lifeline *line)
{
	return line && line->told;
}

/* ---- sending ---- */

void lifeline_stop(struct lifeline *line, int stop)
{
	for (uint32_t i = 0; line && i < line->n_peers; i++) {
		struct peer *p = &line->peers[i];

		if (p->fd >= 0 && p->up && !p->left && say(p, STOP, (uint32_t)stop, NULL, 0))
			hang_up(p);
	}
}

int lifeline_send(struct lifeline *line, uint32_t run, const void *data, size_t len)
{
	struct peer *p = line->peers;

	return p->fd < 0 || !p->up ? -ENOTCONN : say(p, RESULT, run, data, len);
}

/* ---- gathering ---- */

/*
 * Continues to read a result. 0: passed it to @fn, which returned 0; -EAGAIN: it is not complete
 * yet; another -errno, also of @fn: the caller must read no more.
 */
static int take_result(struct peer *p, uint32_t rank, lifeline_result_fn *fn, void *arg)
{
	int err;

	if (!p->result) {
		p->result_done = 0;
		p->result = p->msg.len && p->msg.len <= RESULT_MAX ? malloc(p->msg.len) : NULL;
	}
	err = p->result ? tcp_read(p->fd, p->result, p->msg.len, &p->result_done) : -EBADMSG;
	if (err)
		return err;
	err = fn(arg, rank, p->msg.arg, p->result, p->msg.len);
	free(p->result);
	p->result = NULL;
	p->done = 0;
	return err;
}

/* Reads the data that a rank has sent so far. True: more can come. */
static bool gather_peer(struct lifeline *line, uint32_t rank, lifeline_result_fn *fn, void *arg)
{
	struct peer *p = &line->peers[rank];
	int err = 0;

	while (!err && p->fd >= 0) {
		hear(line, p);
		if (p->fd < 0 || p->left || p->done < sizeof(p->msg))
			break;
		err = take_result(p, rank, fn, arg);
	}
	if (err && err != -EAGAIN)
		hang_up(p);
	return p->fd >= 0 && !p->left;
}

void lifeline_gather(struct lifeline *line, uint64_t timeout_ns, lifeline_result_fn *fn, void *arg)
{
	uint64_t limit = clock_ns() + timeout_ns;
	bool more = line;

	while (more) {
		more = false;
		for (uint32_t rank = 1; rank < line->n_peers; rank++)
			more |= gather_peer(line, rank, fn, arg);
		if (clock_ns() >= limit)
			return;
		if (more)
			clock_nap(LOOK_NS);
	}
}

void lifeline_await(struct lifeline *line, uint64_t timeout_ns)
{
	uint64_t limit = clock_ns() + timeout_ns;

	while (line && line->peers->up && line->peers->fd >= 0 && !line->peers->left &&
		clock_ns() < limit) {
		clock_nap(LOOK_NS);
		lifeline_look(line);
	}
}

/* ---- the beginning and the end ---- */

static bool is_of_use(const struct ifaddrs *a)
{
	if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) || (a->ifa_flags & IFF_LOOPBACK))
		return false;
	if (a->ifa_addr->sa_family == AF_INET6)
		return !IN6_IS_ADDR_LINKLOCAL(
			&((const struct sockaddr_in6 *)a->ifa_addr)->sin6_addr);
	return a->ifa_addr->sa_family == AF_INET;
}

/*
 * Lists the numeric addresses of this host. The last one is loopback, for ranks on the same host.
 */
static void list_addresses(struct address *a)
{
	struct ifaddrs *all = NULL;

	if (!getifaddrs(&all)) {
		for (const struct ifaddrs *i = all; i && a->n < ADDRESSES - 1; i = i->ifa_next) {
			if (is_of_use(i) && !getnameinfo(i->ifa_addr,
						    i->ifa_addr->sa_family == AF_INET ?
							    sizeof(struct sockaddr_in) :
							    sizeof(struct sockaddr_in6),
						    a->host[a->n], sizeof(a->host[a->n]), NULL, 0,
						    NI_NUMERICHOST))
				a->n++;
		}
		freeifaddrs(all);
	}
	snprintf(a->host[a->n++], sizeof(a->host[0]), "127.0.0.1");
}

static int listen_somewhere(struct lifeline *line)
{
	struct address *a = &line->address;
	int err = tcp_listen(NULL, 0, &line->listener), port;

	if (err) {
		line->listener = -1;
		return err;
	}
	port = tcp_port(line->listener);
	if (port < 0)
		return port;
	a->port = (uint32_t)port;
	list_addresses(a);
	return getrandom(a->secret, sizeof(a->secret), 0) == sizeof(a->secret) ? 0 : -EIO;
}

/* Listens for the other ranks. Without a port the job continues, after a message. */
static int begin_to_listen(struct lifeline *line)
{
	int err = listen_somewhere(line);

	line->address.magic = MAGIC;
	if (err) {
		line->address.n = 0;
		fprintf(stderr,
			"benchkv: no TCP port (%s): the death of a rank is noticed only after --timeout\n",
			strerror(-err));
	}
	line->crowd = (struct tcp_crowd){.size = sizeof(struct visitor),
		.step = step_visitor,
		.arg = line,
		.most = line->n_peers + TAKE,
		.patience_ns = GREETING_NS};
	return launch_put(line->l, KEY_ADDRESS, 0, &line->address, sizeof(line->address));
}

int lifeline_open(struct launch *l, struct lifeline **line_p)
{
	uint32_t n = l->rank ? 1 : l->size;
	struct lifeline *line;
	int err;

	*line_p = NULL;
	if (l->size == 1)
		return 0;
	line = calloc(1, sizeof(*line) + n * sizeof(line->peers[0]));
	if (!line)
		return -ENOMEM;
	*line = (struct lifeline){.l = l, .listener = -1, .lost = -1, .n_peers = n};
	for (uint32_t i = 0; i < n; i++)
		line->peers[i].fd = -1;
	err = l->rank ? 0 : begin_to_listen(line);
	if (err)
		lifeline_close(line);
	else
		*line_p = line;
	return err;
}

void lifeline_connect(struct lifeline *line)
{
	if (!line || !line->l->rank)
		return;
	if (launch_get_struct(line->l, 0, KEY_ADDRESS, 0, NSEC_PER_SEC, &line->address,
		    sizeof(line->address)) ||
		line->address.magic != MAGIC || line->address.n > ADDRESSES)
		line->address.n = 0;
	for (uint32_t i = 0; i < line->address.n; i++)
		line->address.host[i][sizeof(line->address.host[i]) - 1] = 0;
	if (line->address.n)
		try_next(line);
}

void lifeline_leave(struct lifeline *line)
{
	for (uint32_t i = 0; line && i < line->n_peers; i++) {
		struct peer *p = &line->peers[i];

		if (p->fd >= 0 && !p->left)
			say(p, LEAVE, 0, NULL, 0);
		hang_up(p);
	}
}

void lifeline_close(struct lifeline *line)
{
	if (!line)
		return;
	for (uint32_t i = 0; i < line->n_peers; i++)
		hang_up(&line->peers[i]);
	if (line->crowd.step)
		tcp_crowd_fini(&line->crowd);
	if (line->listener >= 0)
		close(line->listener);
	free(line);
}
