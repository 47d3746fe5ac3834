/* SPDX-License-Identifier: MIT */
#include "roles.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm.h"
#include "session.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/tcp.h"

/* Interval at which the server checks the clients that wait for further clients. */
#define LOOK_NS (200 * NSEC_PER_MSEC)
#define SERVED 64 /* clients of --serve at a time; further ones stay in the backlog */
#define CALLERS 256 /* connections that have not sent HELLO yet */

/* A connection that has not sent HELLO yet. */
struct caller {
	struct tcp_guest guest;
	struct peer *peer; /* NULL before the first step */
	struct traffic t;
};

static void caller_close(void *arg, struct tcp_guest *g)
{
	free(container_of(g, struct caller, guest)->peer);
}

/*
 * Refuses a client. The server continues, and does not wait until the client has read the reason.
 */
static void refuse(struct session *e, struct peer *p, int err)
{
	if (err != -EINVAL)
		session_say(e, p->conn.peer, err);
	if (err == -EPROTONOSUPPORT)
		snprintf(e->why, sizeof(e->why),
			"version %u of the protocol, this server speaks version %d",
			wire_version(&p->conn), WIRE_VERSION);
	fprintf(stderr, "%s: refused %s: %s\n", e->o->program, p->conn.peer, e->why);
	wire_refuse(&p->conn, e->why, 0);
}

/*
 * Returns 0 if the client has sent HELLO, -EAGAIN if it has not yet, -EPROTO if it was refused, or
 * -ENOMEM.
 */
static int caller_step(void *arg, struct tcp_guest *g)
{
	struct caller *c = container_of(g, struct caller, guest);
	struct session *e = arg;
	char address[TCP_NAME_MAX] = "unknown";
	struct wire_buf b;
	int kind, err;

	if (!c->peer) {
		tcp_peer(g->fd, address, sizeof(address));
		c->peer = session_new_peer(e, g->fd, address);
		if (!c->peer)
			return -ENOMEM;
	}
	kind = wire_poll(&c->peer->conn, e->side.timeout_ns, &b);
	if (!kind)
		return -EAGAIN;
	err = kind < 0 ? kind : kind == WIRE_HELLO ? 0 : -EBADMSG;
	if (!err)
		err = wire_get_traffic(&b, &c->t, e->why);
	if (err)
		refuse(e, c->peer, err);
	return err ? -EPROTO : 0;
}

static bool same_traffic(struct session *e, const struct traffic *t)
{
	uint8_t theirs[WIRE_BODY_MAX / 8];
	size_t n = wire_put_traffic(theirs, sizeof(theirs), t);

	return n == wire_put_traffic(e->body, sizeof(e->body), &e->side.t) &&
	       !memcmp(theirs, e->body, n);
}

/*
 * Adds a client. The first client (@first) determines the traffic; the others must request the
 * same.
 */
static int welcome(struct session *e, struct peer *p, const struct traffic *t, bool first)
{
	struct side *s = &e->side;
	int err = 0;

	if (first) {
		s->t = *t;
		s->sends = t->bidirectional || t->pingpong;
		err = side_open(s, &e->o->device, e->o->hosts, e->why);
		if (!err && t->cm)
			err = cm_listen(s, e->why);
		if (!err)
			err = session_open_stats(e);
	} else if (!same_traffic(e, t)) {
		snprintf(e->why, sizeof(e->why), "the options differ from the first client's");
		return -EINVAL;
	}
	return err ? err : side_add_peer(s, p, e->why);
}

/* Sends ALIVE to the clients that wait for others. A client that has left ends the run. */
static int reassure(struct session *e)
{
	for (uint32_t i = 0; i < e->side.n_peers; i++) {
		struct wire_conn *c = &e->side.peers[i]->conn;
		struct wire_buf b;
		int err = wire_alive(c, clock_ns(), e->side.timeout_ns);

		c->heard_ns = clock_ns(); /* the client is silent between HELLO and JOIN */
		if (!err && wire_poll(c, e->side.timeout_ns, &b) < 0)
			err = -ECONNRESET;
		if (err)
			return session_say(e, c->peer, err);
	}
	return 0;
}

static int add_client(struct session *e, struct tcp_guest *g)
{
	struct caller *c = container_of(g, struct caller, guest);
	struct peer *p = c->peer;
	int err;

	session_keep_peer(e, p);
	err = welcome(e, p, &c->t, e->side.n_peers == 1);
	free(c);
	if (err)
		wire_refuse(&p->conn, e->why, e->side.timeout_ns);
	return err;
}

/*
 * Does one step of accepting the next client. At most one connection is accepted per step, so that
 * a client of the next run stays in the backlog.
 */
static int next_client(struct session *e, struct tcp_crowd *crowd, int listener)
{
	uint64_t now = clock_ns();
	struct tcp_guest *g;
	int err = tcp_crowd_next(crowd, listener, 1, now, &g);

	if (!err)
		return add_client(e, g);
	if (err == -EAGAIN)
		err = tcp_crowd_wait(crowd, listener, now, now + LOOK_NS);
	return err == -ETIMEDOUT || err == -EPROTO ? 0 : err ? session_say(e, "the port", err) : 0;
}

static int accept_clients(struct session *e, int listener)
{
	struct tcp_crowd crowd = {.size = sizeof(struct caller),
		.step = caller_step,
		.close = caller_close,
		.arg = e,
		.most = CALLERS};
	int err = 0;

	while (e->side.n_peers < e->o->hosts && !err) {
		err = next_client(e, &crowd, listener);
		if (!err)
			err = reassure(e);
		if (!err && e->deadline_ns && !e->side.n_peers && clock_ns() > e->deadline_ns)
			err = session_say(e, e->o->more ? "the next run" : "the first client",
				-ETIMEDOUT);
	}
	tcp_crowd_fini(&crowd);
	return err;
}

/* Sends WELCOME to all, waits for JOIN from all, then sends GO to all. */
static int start_clients(struct session *e)
{
	struct side *s = &e->side;
	int err = 0;

	for (uint32_t i = 0; i < s->n_peers && !err; i++) {
		s->peers[i]->conn.heard_ns = clock_ns();
		err = session_send_side(e, s->peers[i], WIRE_WELCOME);
	}
	for (uint32_t i = 0; i < s->n_peers && !err; i++)
		err = session_take_side(e, s->peers[i], WIRE_JOIN);
	if (!err && s->t.cm)
		err = cm_accept(s, e->why);
	session_count(e, &e->before);
	for (uint32_t i = 0; i < s->n_peers && !err; i++)
		err = session_of_peer(e, s->peers[i],
			wire_send(&s->peers[i]->conn, WIRE_GO, NULL, 0, e->side.timeout_ns));
	for (uint32_t i = 0; i < s->n_peers && err; i++)
		wire_refuse(&s->peers[i]->conn, e->why, NSEC_PER_SEC);
	return err;
}

static int server(struct session *e, int listener)
{
	int err;

	e->side.is_server = true;
	err = accept_clients(e, listener);
	if (!err)
		err = start_clients(e);
	return session_run(e, err);
}

int server_run(const struct engine_options *o, int listener)
{
	struct engine_options next = *o;
	bool again = true;
	int status = 0;

	while (again && !status) {
		struct session *e = session_new(&next);

		if (!e)
			return 1;
		e->deadline_ns = next.more ? clock_ns() + e->side.timeout_ns :
				 o->wait_s ? clock_ns() + o->wait_s * NSEC_PER_SEC :
					     0;
		status = server(e, listener);
		again = e->side.t.again;
		next.more = true;
		session_free(e);
	}
	close(listener);
	return status;
}

/* Serves one run of the client at this connection. */
static int serve_one(const struct engine_options *o, int fd)
{
	struct session *e = session_new(o);
	char address[TCP_NAME_MAX] = "unknown";
	struct peer *p = NULL;
	struct traffic t;
	struct wire_buf b;
	int err, status = 1;

	tcp_peer(fd, address, sizeof(address));
	if (e)
		p = session_new_peer(e, fd, address);
	if (!p)
		return 1;
	e->side.is_server = true;
	session_keep_peer(e, p);
	err = wire_expect(&p->conn, WIRE_HELLO, e->side.timeout_ns, &b, e->why);
	if (!err)
		err = wire_get_traffic(&b, &t, e->why);
	if (err) {
		refuse(e, p, err);
		side_close(&e->side);
	} else {
		err = welcome(e, p, &t, true);
		if (err)
			wire_refuse(&p->conn, e->why, e->side.timeout_ns);
		status = session_run(e, err ? err : start_clients(e));
	}
	session_free(e);
	return status;
}

/*
 * Refuses a client for which there is no process. Waits a second for its HELLO: the answer to a
 * client that has not been read can be lost.
 */
static void turn_away(const struct engine_options *o, int fd, int err)
{
	static struct wire_conn c; /* too large for the stack */
	char address[TCP_NAME_MAX] = "unknown", why[WIRE_TEXT_MAX];
	struct wire_buf b;

	tcp_peer(fd, address, sizeof(address));
	wire_open(&c, fd, address);
	wire_expect(&c, WIRE_HELLO, NSEC_PER_SEC, &b, why);
	snprintf(why, sizeof(why), "the server cannot start a process for this client: %s",
		strerror(err));
	fprintf(stderr, "%s: refused %s: %s\n", o->program, address, why);
	wire_refuse(&c, why, 0);
	wire_close(&c);
}

int server_run_all(const struct engine_options *o, int listener)
{
	uint32_t running = 0;
	pid_t parent = getpid();

	for (;;) {
		int fd;
		pid_t child;

		while (running && waitpid(-1, NULL, running < SERVED ? WNOHANG : 0) > 0)
			running--;
		if (tcp_accept(listener, clock_ns() + LOOK_NS, &fd))
			continue;
		fflush(stdout);
		child = fork();
		if (!child) {
			close(listener);
			exit(child_ends_with(parent) ? serve_one(o, fd) : 1);
		}
		if (child < 0) {
			turn_away(o, fd, errno);
			continue;
		}
		running++;
		close(fd);
	}
}
