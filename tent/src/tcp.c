/* SPDX-License-Identifier: MIT */
/*
 * The transport over TCP: ports, registrations, and the target's end of links. tcplink.h describes
 * the protocol.
 *
 * Each registration has a random key. The target looks the key up again whenever it moves bytes, so
 * that nothing accesses a registration that has ended. The holder of the description is trusted
 * with the memory. Keys, tokens and data are not encrypted: an attacker who can read or change the
 * packets between the hosts can read and change the memory.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/tcp.h"
#include "sched.h"
#include "tcplink.h"
#include "why.h"

#define MARKS 128 /* maximum number of marks that the engine has not taken yet; a power of two */
#define GUESTS 256 /* maximum number of connections without a token */
#define GUEST_NS (5000 * NSEC_PER_MSEC) /* the time that a connection has to send its token */
#define BUCKETS 1024 /* of the table of registrations */
#define GBPS 20 /* a guess, until the scheduler has measured the rate */

struct tcp_region {
	struct tcp_rail *port;
	struct tcp_region *next; /* in the bucket */
	uint32_t key;
	uint64_t addr, len;
};

struct tcp_rail {
	struct port port;
	int listener;
	uint16_t number; /* TCP port of the listener */
	struct tcp_crowd crowd; /* connections without a token */
	struct target *targets;
	pthread_mutex_t mutex; /* protects the table */
	struct tcp_region *regions[BUCKETS];
};

/* ---- regions ---- */

static struct tcp_rail *to_rail(struct port *p)
{
	return container_of(p, struct tcp_rail, port);
}

static struct tcp_region *with_key(struct tcp_rail *p, uint32_t key)
{
	struct tcp_region *r = p->regions[key % BUCKETS];

	while (r && r->key != key)
		r = r->next;
	return r;
}

/* The memory of a frame; NULL: no registration with the frame's key contains all of its bytes. */
static void *memory_of(struct tcp_rail *p, const struct frame *f)
{
	const struct tcp_region *r = with_key(p, f->key);
	uint64_t at = r ? f->addr - r->addr : 0; /* wraps if the address is too low */

	if (!r || at > r->len || f->len > r->len - at)
		return NULL;
	return (void *)(uintptr_t)f->addr;
}

static int tcp_add(struct port *port, uint64_t addr, uint64_t len, struct region *r_p)
{
	struct tcp_rail *p = to_rail(port);
	struct tcp_region *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	*r = (struct tcp_region){.port = p, .addr = addr, .len = len};
	pthread_mutex_lock(&p->mutex);
	do {
		if (getrandom(&r->key, sizeof(r->key), 0) != sizeof(r->key))
			abort(); /* so few bytes are always available */
	} while (with_key(p, r->key));
	r->next = p->regions[r->key % BUCKETS];
	p->regions[r->key % BUCKETS] = r;
	pthread_mutex_unlock(&p->mutex);
	*r_p = (struct region){.rkey = r->key, .own = r};
	return 0;
}

/* Waits until no bytes are being moved: move_memory() holds the mutex meanwhile. */
static void tcp_remove(struct region *region)
{
	struct tcp_region *r = region->own;

	pthread_mutex_lock(&r->port->mutex);
	LIST_REMOVE(&r->port->regions[r->key % BUCKETS], r);
	pthread_mutex_unlock(&r->port->mutex);
	free(r);
}

/* ---- the target's end ---- */

enum serving {
	SERVING_HEAD, /* the frame is being received */
	SERVING_BYTES, /* the bytes of a write are being received */
	SERVING_REPLY,
};

struct served {
	struct wire wire;
	enum serving serving;
	uint64_t done; /* bytes of the current item that have been moved */
	struct frame frame;
	struct reply reply, end; /* end: the second reply to a read, after its bytes */
};

struct target {
	struct link link;
	struct tcp_rail *port;
	struct target *next;
	uint8_t token[TOKEN_LEN];
	bool stopped;
	int n; /* connections */
	struct served served[STREAMS];
	struct notice_mark marks[MARKS];
	uint32_t head, tail; /* never reduced modulo MARKS */
};

static struct target *to_target(struct link *l)
{
	return container_of(l, struct target, link);
}

/*
 * Calls wire_move() with an item whose bytes are the memory of the frame. If there is no such
 * memory, sets *status to an error, and moves the item without memory. After -EFAULT the caller
 * must call the function again.
 */
static int move_memory(struct target *l, struct served *c, bool out, struct item *i,
	uint32_t *status)
{
	int err;

	pthread_mutex_lock(&l->port->mutex);
	i->bytes = *status ? NULL : memory_of(l->port, &c->frame);
	if (!i->bytes && !*status && c->done < i->head_len + i->len)
		*status = EACCES;
	err = wire_move(&c->wire, out, i, &c->done);
	pthread_mutex_unlock(&l->port->mutex);
	if (err == -EFAULT)
		*status = EFAULT;
	return err;
}

static bool has_memory(struct target *l, const struct frame *f)
{
	bool has;

	pthread_mutex_lock(&l->port->mutex);
	has = memory_of(l->port, f) != NULL;
	pthread_mutex_unlock(&l->port->mutex);
	return has;
}

static void serve_next(struct served *c, enum serving next)
{
	c->serving = next;
	c->done = 0;
}

/*
 * The functions of the states. 0: the state may have changed, and serve() must call its function;
 * -EAGAIN: the connection has to wait; another -errno: the connection has failed.
 */

static int serve_head(struct target *l, struct served *c)
{
	const struct item i = {.head = &c->frame, .head_len = sizeof(c->frame)};
	int err = wire_move(&c->wire, false, &i, &c->done);

	if (err)
		return err;
	c->reply = (struct reply){.magic = TCP_MAGIC, .token = c->frame.token};
	switch (c->frame.type) {
	case FRAME_WRITE:
		serve_next(c, SERVING_BYTES);
		return 0;
	case FRAME_READ:
		c->reply.status = has_memory(l, &c->frame) ? 0 : EACCES;
		break;
	case FRAME_MARK:
		if (l->tail - l->head == MARKS)
			return -EAGAIN; /* the connection waits until the engine has taken marks */
		l->marks[l->tail++ % MARKS] = c->frame.mark;
		break;
	case FRAME_PROBE:
		break;
	default:
		return -EPROTO;
	}
	c->end = c->reply;
	serve_next(c, SERVING_REPLY);
	return 0;
}

/* Receives the bytes of a refused write as well, because the next frame follows them. */
static int serve_bytes(struct target *l, struct served *c)
{
	struct item i = {.len = c->frame.len};
	int err = move_memory(l, c, false, &i, &c->reply.status);

	if (!err)
		serve_next(c, SERVING_REPLY);
	return err == -EFAULT ? 0 : err;
}

static int serve_reply(struct target *l, struct served *c)
{
	struct item i = {.head = &c->reply, .head_len = sizeof(c->reply)};
	int err;

	if (c->frame.type == FRAME_READ && !c->reply.status) {
		i.len = c->frame.len;
		i.tail = &c->end;
		i.tail_len = sizeof(c->end);
		err = move_memory(l, c, true, &i, &c->end.status);
	} else {
		err = wire_move(&c->wire, true, &i, &c->done);
	}
	if (!err)
		serve_next(c, SERVING_HEAD);
	return err == -EFAULT ? 0 : err;
}

static int serve(struct target *l, struct served *c)
{
	static int (*const states[])(struct target * l, struct served * c) = {
		[SERVING_HEAD] = serve_head,
		[SERVING_BYTES] = serve_bytes,
		[SERVING_REPLY] = serve_reply,
	};
	int err = 0;

	c->wire.moved = 0;
	while (!err)
		err = states[c->serving](l, c);
	return err == -EAGAIN ? 0 : err;
}

static int target_stop(struct link *link)
{
	struct target *l = to_target(link);

	l->stopped = true;
	for (int i = 0; i < l->n; i++)
		wire_close(&l->served[i].wire);
	return 0;
}

static void take_guests(struct tcp_rail *p);

/* Serves the initiator, and calls @fn for up to @max marks. Returns 0 if there was no work. */
static int target_poll(struct link *link, int max, link_mark_fn *fn, void *arg)
{
	struct target *l = to_target(link);
	int n = 0;

	if (!l->stopped && l->n < STREAMS)
		take_guests(l->port);
	for (int i = 0; i < l->n && !l->stopped; i++) {
		if (serve(l, &l->served[i]))
			target_stop(link);
		n |= l->served[i].wire.moved != 0;
	}
	for (int taken = 0; taken < max && l->head != l->tail; taken++) {
		fn(arg, &l->marks[l->head++ % MARKS]);
		n++;
	}
	return n;
}

static void target_destroy(struct link *link)
{
	struct target *l = to_target(link);

	LIST_REMOVE(&l->port->targets, l);
	target_stop(link);
	close(link->fds[0]);
	free(l);
}

static const struct link_ops target_ops = {
	.poll_marks = target_poll,
	.stop = target_stop,
	.disarm = tcp_link_disarm,
	.destroy = target_destroy,
};

static int target_accept(struct port *port, const struct link_end *theirs, struct link_end *mine_p,
	struct link **l_p)
{
	struct tcp_rail *p = to_rail(port);
	struct target *l = calloc(1, sizeof(*l));
	struct tcp_end end = {.port = p->number};
	int err = l ? tcp_link_init(&l->link, &target_ops) : -ENOMEM;

	if (err) {
		free(l);
		return err;
	}
	if (getrandom(l->token, sizeof(l->token), 0) != sizeof(l->token))
		abort(); /* so few bytes are always available */
	l->port = p;
	l->next = p->targets;
	p->targets = l;
	memcpy(end.token, l->token, sizeof(end.token));
	*mine_p = (struct link_end){0};
	memcpy(mine_p->bytes, &end, sizeof(end));
	*l_p = &l->link;
	return 0;
}

/* ---- ports ---- */

struct guest {
	struct tcp_guest guest;
	bool watched;
	struct greeting greeting;
	size_t got;
};

static int read_greeting(void *arg, struct tcp_guest *guest)
{
	struct guest *g = (struct guest *)guest;
	struct epoll_event e = {.events = EPOLLIN};
	struct tcp_rail *p = arg;
	int err;

	if (!g->watched && epoll_ctl(p->port.fd, EPOLL_CTL_ADD, guest->fd, &e))
		return -errno;
	g->watched = true;
	err = tcp_read(guest->fd, &g->greeting, sizeof(g->greeting), &g->got);
	return !err && g->greeting.magic != TCP_MAGIC ? -EPROTO : err;
}

/* While a forked child has the guest's socket, close() alone does not remove it from the set. */
static void unwatch(void *arg, struct tcp_guest *guest)
{
	struct tcp_rail *p = arg;

	epoll_ctl(p->port.fd, EPOLL_CTL_DEL, guest->fd, NULL);
}

/* The link with the guest's token. NULL: there is none that needs another connection. */
static struct target *link_of(struct tcp_rail *p, const struct guest *g)
{
	struct target *l = p->targets;

	while (l && memcmp(l->token, g->greeting.token, TOKEN_LEN))
		l = l->next;
	return l && l->n < STREAMS && !l->stopped ? l : NULL;
}

static void adopt(struct tcp_rail *p, struct guest *g)
{
	struct target *l = link_of(p, g);
	struct wire w = {.fd = g->guest.fd};

	unwatch(p, &g->guest);
	if (l && !wire_watch(&w, &l->link))
		l->served[l->n++] = (struct served){.wire = w};
	else
		wire_close(&w);
	free(g);
}

static int watch_listener(struct tcp_rail *p)
{
	struct epoll_event e = {.events = EPOLLIN};

	return epoll_ctl(p->port.fd, EPOLL_CTL_ADD, p->listener, &e) ? -errno : 0;
}

/* While there is no descriptor for a connection, the listener is readable all the time. */
static void set_starved(struct tcp_rail *p, bool starved)
{
	if (starved == p->port.starved)
		return;
	if (starved)
		epoll_ctl(p->port.fd, EPOLL_CTL_DEL, p->listener, NULL);
	p->port.starved = starved || watch_listener(p);
}

static void take_guests(struct tcp_rail *p)
{
	struct tcp_guest *g;
	int err = 0;

	for (int i = 0; i < GUESTS && err != -EAGAIN; i++) {
		err = tcp_crowd_next(&p->crowd, p->listener, STREAMS, clock_ns(), &g);
		if (!err)
			adopt(p, (struct guest *)g);
	}
	set_starved(p, p->crowd.starved);
}

static bool tcp_event(struct port *p, bool *up_p)
{
	take_guests(to_rail(p));
	return false;
}

static void tcp_close(struct port *port)
{
	struct tcp_rail *p = to_rail(port);

	tcp_crowd_fini(&p->crowd);
	if (p->listener >= 0)
		close(p->listener);
	if (port->fd >= 0)
		close(port->fd);
	pthread_mutex_destroy(&p->mutex);
	free(p);
}

static int listen_at(struct tcp_rail *p, const char *address)
{
	int err = tcp_listen(address, 0, &p->listener);

	if (err)
		return err;
	p->number = (uint16_t)tcp_port(p->listener);
	p->port.fd = epoll_create1(EPOLL_CLOEXEC);
	return p->port.fd < 0 ? -errno : watch_listener(p);
}

static int tcp_open(const struct tent_attr *attr, const char *name, bool named, struct port **p_p,
	struct tent_why *why)
{
	struct tcp_rail *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->port = (struct port){.id.kind = "tcp", .gbps = GBPS, .max_region = UINT64_MAX, .fd = -1};
	strcpy(p->port.id.name, name);
	p->listener = -1;
	p->crowd = (struct tcp_crowd){.size = sizeof(struct guest),
		.step = read_greeting,
		.close = unwatch,
		.arg = p,
		.most = GUESTS,
		.patience_ns = GUEST_NS};
	pthread_mutex_init(&p->mutex, NULL);
	err = listen_at(p, attr->address);
	if (err) {
		tcp_close(&p->port);
		return why_say(why, err, "rail %s at %s: %s", name, attr->address, strerror(-err));
	}
	*p_p = &p->port;
	return 0;
}

static const char *const kinds[] = {"tcp", NULL};

extern const struct transport tcp_transport;
const struct transport tcp_transport = {
	.rails = "TCP",
	.kinds = kinds,
	.regions = true,
	.marks = true,
	.bars = true,
	.beside = true,
	.spares = true,
	.stall_ns = SCHED_NEVER, /* a silent peer may be a stopped process; links detect a dead
				    host */
	.asked = offsetof(struct tent_attr, tcp_rails),
	.open = tcp_open,
	.close = tcp_close,
	.event = tcp_event,
	.check = memory_check,
	.add = tcp_add,
	.remove = tcp_remove,
	.link = tcp_link_new,
	.accept = target_accept,
};
