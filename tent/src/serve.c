/* SPDX-License-Identifier: MIT */
/* The target's side: peers that have imported a segment of this engine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/sized.h"
#include "engine.h"

#define EVENTS 64
#define HELLO_NS (5000 * NSEC_PER_MSEC) /* the time that a connection has to present the key */

int serve_watch(struct tent *t, int fd, struct conn *c)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};

	return epoll_ctl(t->ctls, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

/*
 * Closes the peer's links and socket, and frees its slots. Its notices and its place stay; so the
 * number of places limits the notices that are kept.
 */
static void conn_close(struct tent *t, struct conn *c)
{
	for (uint32_t i = 0; i < CONN_LINKS; i++)
		loop_close_link(t, &c->links[i]);
	/*
	 * While a forked child has the descriptor, close() does not remove it from the set, and
	 * events would still name the freed connection.
	 */
	epoll_ctl(t->ctls, EPOLL_CTL_DEL, c->ctl.fd, NULL);
	ctl_close(&c->ctl);
	free(c->text);
	c->text = NULL;
	if (c->known) {
		stage_left(t, c);
		revoke_left(t, c);
	}
}

static void forget(struct tent *t, struct conn *c)
{
	t->n_conns--;
	if (c->known)
		slab_put(&t->importer_ids, c->place);
	free(c);
}

void conn_free(struct tent *t, struct conn *c)
{
	conn_close(t, c);
	forget(t, c);
}

/* ---- notices ---- */

static uint32_t notices_room(const struct tent *t)
{
	uint32_t used = t->notice_tail - t->notice_head;

	return used < NOTICES ? NOTICES - used : 0;
}

/*
 * Moves the complete notices, in their order, to the ring from which the program takes them, until
 * the ring contains @max. @gaps: see notice_next(). Returns whether there was room for all.
 */
static bool give_notices(struct conn *c, uint32_t max, bool gaps)
{
	struct tent *t = c->t;
	uint32_t slot;

	while ((slot = notice_next(&c->counter, gaps)) != NOTICE_SLOTS) {
		struct notice_use *u = &c->counter.slots[slot];
		struct tent_note *n = &t->notices[t->notice_tail % NOTICE_RING];
		struct ctl_msg taken = {.type = CTL_TAKEN, .mark = {.lap = u->lap, .slot = slot}};

		if (t->notice_tail - t->notice_head >= max) {
			t->full = true;
			return false;
		}
		*n = (struct tent_note){.peer = c->number, .notify = u->value, .len = u->len};
		memcpy(n->bytes, u->bytes, u->len);
		t->notice_tail++;
		u->over = true;
		if (eventfd_write(t->notice_fd, 1))
			abort(); /* write() fails only on overflow, and NOTICE_RING is far below it */
		conn_send(c, &taken);
	}
	return true;
}

/* Moves the last notices of a connection that ends. Returns whether there was room for all. */
static bool give_last(struct conn *c)
{
	return give_notices(c, NOTICE_RING, true);
}

/*
 * Called if the ring had room before the connected peers used it. The notices of one departed peer
 * always move, and those of others while there is room. So neither kind of peers can use all room.
 */
static void give_departed(struct tent *t)
{
	struct conn *c;
	bool more = true;

	while (more && (c = t->departed) && give_last(c)) {
		t->departed = c->next;
		forget(t, c);
		more = notices_room(t);
	}
}

/* If there is room in the ring again, moves complete notices to it. */
static void give_all(struct tent *t)
{
	if (!t->full || !notices_room(t))
		return;
	t->full = false;
	for (struct conn *c = t->conns; c; c = c->next)
		give_notices(c, NOTICES, false);
}

static void count_mark(void *arg, const struct notice_mark *mark)
{
	struct conn *c = arg;

	if (notice_count(&c->counter, mark))
		give_notices(c, NOTICES, false);
}

/* Handles a message with the bytes of a notice. If links carry no marks, it is also the mark. */
static int on_notice(struct tent *t, struct conn *c, const struct ctl_msg *msg)
{
	if (t->transport->marks && !msg->mark.len)
		return -EPROTO; /* marks must come over links, whose queues limit their number */
	if (notice_note(&c->counter, &msg->mark, msg->note))
		give_notices(c, NOTICES, false);
	if (!t->transport->marks)
		count_mark(c, &msg->mark);
	return 0;
}

static void on_skip(struct conn *c, const struct ctl_msg *msg)
{
	notice_skip(&c->counter, &msg->mark);
	give_notices(c, NOTICES, false);
}

/* Marks beyond @max stay in the queues, so that the peers wait. */
static int poll_marks(struct conn *c, uint32_t pair, uint32_t max)
{
	struct link *l = c->links[pair];

	return l ? l->ops->poll_marks(l, (int)max, count_mark, c) : 0;
}

/*
 * Stops a link that will be destroyed, and counts its last marks: they were acknowledged, so the
 * peer does not send them again. 0: nothing arrives on the link any more; else -errno.
 */
static int last_marks(struct conn *c, uint32_t pair)
{
	int err = c->links[pair] ? c->links[pair]->ops->stop(c->links[pair]) : 0;

	poll_marks(c, pair, NOTICE_RING);
	return err;
}

/* Takes the first notice. -EAGAIN: there is none. */
static int take_notice(struct tent *t, struct tent_note *note_p)
{
	uint64_t count;

	if (t->notice_head == t->notice_tail)
		return -EAGAIN;
	if (eventfd_read(t->notice_fd, &count))
		abort(); /* its counter is the number of notices, which is not 0 */
	*note_p = t->notices[t->notice_head++ % NOTICE_RING];
	return 0;
}

int tent_note_take(struct tent *t, struct tent_note *note_p, size_t size)
{
	struct tent_note note;
	int err;

	pthread_mutex_lock(&t->lock);
	loop_help(t);
	err = take_notice(t, &note);
	pthread_mutex_unlock(&t->lock);
	if (!err)
		sized_out(note_p, size, &note, sizeof(note));
	return err;
}

int tent_notice(struct tent *t, uint16_t *notify_p)
{
	struct tent_note note;
	int err = tent_note_take(t, &note, sizeof(note));

	if (!err)
		*notify_p = note.notify;
	return err;
}

int tent_notice_fd(struct tent *t)
{
	return t->notice_fd;
}

/* ---- messages ---- */

static int on_hello(struct tent *t, struct conn *c, const struct ctl_msg *msg)
{
	struct ctl_msg reply = {.type = CTL_WELCOME, .epoch = t->n_revoked, .rail = t->version};

	if (memcmp(msg->key, t->key, sizeof(t->key)) || !msg->rail || msg->rail > TENT_MAX_RAILS)
		reply.status = EACCES;
	else if (t->ending)
		reply.status = EACCES; /* serve_end() waits only for the peers that it has cut */
	else if (t->importer_ids.used == MAX_IMPORTERS)
		reply.status = EUSERS;
	if (!reply.status) {
		c->known = true;
		c->place = slab_get(&t->importer_ids);
		c->number = ++t->n_peers;
	}
	c->n_pairs = msg->rail;
	ctl_send(&c->ctl, &reply);
	return -(int)reply.status;
}

/* Makes our end of the pair's link, and connects it to the peer's end. */
static int make_end(struct tent *t, struct conn *c, const struct ctl_msg *msg,
	struct link_end *mine_p)
{
	struct port *p = t->ports[msg->rail];
	struct link **l = &c->links[msg->pair];
	int err;

	if (!p->transport->accept)
		return 0;
	err = p->dead ? -ENODEV : p->transport->accept(p, &msg->end, mine_p, l);
	if (!err)
		loop_watch_link(t, *l);
	return err;
}

static int on_connect(struct tent *t, struct conn *c, const struct ctl_msg *msg)
{
	struct ctl_msg reply = {.type = CTL_CONNECTED, .pair = msg->pair, .epoch = msg->epoch};

	if (msg->rail >= t->topo.n_rails)
		return -EPROTO;
	loop_close_link(t, &c->links[msg->pair]);
	reply.status = (uint16_t)-make_end(t, c, msg, &reply.end);
	conn_send(c, &reply);
	return 0;
}

/*
 * Stops the pair's link, so that nothing arrives on it any more, and counts the marks that arrived
 * before. The peer's slices wait for the reply, so the reply is sent before the link is destroyed.
 */
static int on_fence(struct tent *t, struct conn *c, const struct ctl_msg *msg)
{
	struct ctl_msg reply = {.type = CTL_FENCED, .pair = msg->pair, .epoch = msg->epoch};

	if (last_marks(c, msg->pair))
		loop_close_link(t, &c->links[msg->pair]);
	conn_send(c, &reply);
	loop_close_link(t, &c->links[msg->pair]);
	return 0;
}

static int on_message(struct tent *t, struct conn *c, const struct ctl_msg *msg)
{
	/*
	 * A peer that has not noticed the cut may have ended requests without an error, so their
	 * notices count.
	 */
	if (c->cut && msg->type != CTL_NOTICE && msg->type != CTL_SKIP)
		return 0;
	if (!c->known)
		return msg->type == CTL_HELLO ? on_hello(t, c, msg) : -EPROTO;
	/* Numbers of pairs from TENT_MAX_RAILS on are those of the links of blame.c. */
	if (msg->pair >= c->n_pairs && (msg->pair < TENT_MAX_RAILS || msg->pair >= CONN_LINKS))
		return -EPROTO;
	switch (msg->type) {
	case CTL_CONNECT:
		return on_connect(t, c, msg);
	case CTL_FENCE:
		return on_fence(t, c, msg);
	case CTL_NOTICE:
		return on_notice(t, c, msg);
	case CTL_SKIP:
		on_skip(c, msg);
		return 0;
	case CTL_MORE:
		return grow_asked(t, c, msg->epoch);
	case CTL_UNREGISTERED:
		revoke_confirmed(t, c, msg->rail);
		return 0;
	case CTL_STAGE:
		return stage_asked(t, c, msg);
	default:
		return -EPROTO;
	}
}

/* Reads some of the peer's messages. Returns their number, or -errno: the connection ends. */
static int read_messages(struct tent *t, struct conn *c)
{
	struct ctl_msg msg;
	int n = 0, err = 0;

	while (!err && n < READ_MAX) {
		err = ctl_receive(&c->ctl, &msg);
		c->closed |= err == -ECONNRESET;
		if (!err)
			err = on_message(t, c, &msg);
		n += !err;
	}
	return err && err != -EAGAIN ? err : n;
}

/* Reads the connections that have messages, each one at least once. */
static bool read_ready(struct tent *t)
{
	struct epoll_event events[EVENTS];
	uint32_t seen = 0;
	bool some = false;
	int n;

	do {
		n = epoll_wait(t->ctls, events, EVENTS, 0);
		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			int got = c && !c->err ? read_messages(t, c) : 0;

			some |= got != 0;
			if (got < 0) {
				c->err = got;
				t->conns_due = 0;
			}
		}
		seen += EVENTS;
	} while (n == EVENTS && seen <= t->n_conns); /* the listener is in the set, too */
	return some;
}

static bool poll_links(struct tent *t)
{
	bool some = false;

	for (struct conn *c = t->conns; c && t->transport->accept; c = c->next) {
		for (uint32_t i = 0; i < c->n_pairs && c->known && !c->cut; i++)
			some |= poll_marks(c, i, notices_room(t)) != 0;
	}
	return some;
}

static uint32_t strangers(const struct tent *t)
{
	return t->n_conns - t->importer_ids.used;
}

/* Closes the oldest connection that has not presented the key. False: there is none. */
static bool send_stranger_away(struct tent *t)
{
	struct conn **oldest = NULL, *c;

	for (struct conn **link = &t->conns; *link; link = &(*link)->next)
		oldest = (*link)->known ? oldest : link;
	if (!oldest)
		return false;
	c = *oldest;
	*oldest = c->next;
	conn_free(t, c);
	return true;
}

static void add_conn(struct tent *t, struct ctl *ctl, uint64_t now)
{
	struct conn *c = t->ending ? NULL : calloc(1, sizeof(*c));

	if (!c) {
		ctl_close(ctl);
		return;
	}
	c->t = t;
	c->ctl = *ctl;
	c->until = now + HELLO_NS;
	c->next = t->conns;
	t->conns = c;
	t->n_conns++;
	if (c->until < t->conns_due)
		t->conns_due = c->until;
	serve_watch(t, ctl->fd, c); /* if it fails with -ENOMEM, the peer gets no answer */
}

/*
 * While there is no descriptor for the next connection, the listener is readable all the time, so
 * the engine's thread does not watch it, and tries again after a short time.
 */
static void set_starved(struct tent *t, bool starved)
{
	if (starved == t->starved)
		return;
	if (starved)
		epoll_ctl(t->ctls, EPOLL_CTL_DEL, t->listener, NULL);
	t->starved = starved || serve_watch(t, t->listener, NULL);
}

/*
 * Accepts connections. If MAX_STRANGERS connections have not presented the key, or there is no free
 * descriptor, closes the oldest of these connections. That is done at most once, before another one
 * is accepted: the caller then reads each connection that has messages, so none that has sent the
 * key is closed.
 */
static bool accept_some(struct tent *t, uint64_t now)
{
	bool some = false;
	int err = 0;

	while (!some || strangers(t) < MAX_STRANGERS) {
		struct ctl ctl;

		err = ctl_accept(t->listener, &ctl);
		if (err == -EAGAIN || (err && (some || !send_stranger_away(t))))
			break;
		some = true;
		if (err)
			continue;
		if (strangers(t) >= MAX_STRANGERS)
			send_stranger_away(t);
		add_conn(t, &ctl, now);
	}
	set_starved(t, err && err != -EAGAIN && !some);
	return some;
}

/* True: the peer may still copy, and revoke_cut() has not been called for it. */
static bool may_copy(const struct tent *t, const struct conn *c)
{
	return !t->transport->bars && c->known && !c->closed && !c->cut;
}

/* Keeps a connection, whose peer has gone, until the ring has room for the last notices. */
static void keep_notices(struct tent *t, struct conn *c)
{
	struct conn **link = &t->departed;

	conn_close(t, c);
	while (*link)
		link = &(*link)->next;
	c->next = NULL;
	*link = c;
}

/* Ends a connection, which the caller has removed from the list. */
static void end_conn(struct tent *t, struct conn *c)
{
	for (uint32_t i = 0; i < c->n_pairs && c->known; i++)
		last_marks(c, i);
	if (give_last(c) || t->ending)
		conn_free(t, c);
	else
		keep_notices(t, c);
}

/* Ends the connections that have failed, or whose time is over. */
static void end_conns(struct tent *t, uint64_t now)
{
	struct conn **link = &t->conns, *c;

	t->conns_due = SCHED_NEVER;
	while ((c = *link)) {
		bool limited = !c->known || c->cut;

		if (limited && now >= c->until)
			c->err = -ETIMEDOUT;
		if (c->err && !may_copy(t, c)) {
			*link = c->next;
			end_conn(t, c);
			continue;
		}
		if (c->err)
			revoke_cut(c);
		if (c->until < t->conns_due && (limited || c->cut))
			t->conns_due = c->until;
		link = &c->next;
	}
}

bool serve_progress(struct tent *t, uint64_t now)
{
	bool some = accept_some(t, now), room = notices_room(t);

	give_all(t);
	some |= read_ready(t);
	some |= poll_links(t);
	if (room)
		give_departed(t);
	if (now >= t->conns_due)
		end_conns(t, now);
	return some;
}

void serve_port(struct tent *t, uint32_t rail, bool up)
{
	for (struct conn *c = t->conns; c; c = c->next) {
		struct ctl_msg msg = {.type = up ? CTL_RAIL_UP : CTL_RAIL_DOWN, .rail = rail};

		if (c->known)
			conn_send(c, &msg);
	}
}

void serve_end(struct tent *t)
{
	struct conn *c;

	t->ending = true;
	while ((c = t->departed)) { /* nobody takes their notices any more */
		t->departed = c->next;
		forget(t, c);
	}
	for (c = t->conns; c; c = c->next) {
		if (c->known && !t->transport->bars)
			revoke_cut(c);
	}
	loop_wake(t, 0);
	while (!t->transport->bars && t->importer_ids.used)
		pthread_cond_wait(&t->ended, &t->lock);
}
