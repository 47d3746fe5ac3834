/* SPDX-License-Identifier: MIT */
#include "roles.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cm.h"
#include "session.h"
#include "base/clock.h"
#include "base/tcp.h"

static int greet(struct session *e, struct peer *p)
{
	size_t len = wire_put_traffic(e->body, sizeof(e->body), &e->side.t);
	int err = session_of_peer(e, p,
		wire_send(&p->conn, WIRE_HELLO, e->body, len, e->side.timeout_ns));

	if (!err)
		err = session_take_side(e, p, WIRE_WELCOME);
	if (err)
		return err;
	snprintf(e->run, sizeof(e->run), "%s", p->remote.run);
	session_count(e, &e->before); /* after JOIN, the server may send at any time */
	err = session_send_side(e, p, WIRE_JOIN);
	return err || !e->side.t.cm ? err : cm_connect(p, e->why);
}

static int wait_for_go(struct session *e, struct peer *p)
{
	struct wire_buf b;

	return session_of_peer(e, p,
		wire_expect(&p->conn, WIRE_GO, e->side.timeout_ns, &b, e->why));
}

static int set_up_client(struct session *e, const char *host, uint32_t port)
{
	struct side *s = &e->side;
	struct peer *p;
	int err, fd;

	err = side_open(s, &e->o->device, 1, e->why);
	if (err)
		return err;
	err = tcp_connect(host, (uint16_t)port, true, clock_ns() + e->side.timeout_ns, &fd);
	if (err) {
		snprintf(e->why, sizeof(e->why), "%.60s, port %u: %s", host, port,
			err == -EADDRNOTAVAIL ? "no such host" : strerror(-err));
		return err;
	}
	p = session_new_peer(e, fd, host);
	if (!p) {
		close(fd);
		return -ENOMEM;
	}
	session_keep_peer(e, p);
	err = side_add_peer(s, p, e->why);
	if (!err)
		err = greet(e, p);
	if (!err)
		err = session_open_stats(e);
	return err ? err : wait_for_go(e, p);
}

static int one_client(const struct engine_options *o, const char *host, uint32_t port)
{
	struct session *e = session_new(o);
	int status;

	if (!e)
		return 1;
	e->side.sends = true;
	status = session_run(e, set_up_client(e, host, port));
	session_free(e);
	return status;
}

int client_run(const struct engine_options *o, const char *host, uint32_t port)
{
	struct engine_options one = *o;
	int status = 0;

	if (!o->all)
		return one_client(o, host, port);
	for (uint32_t bytes = o->first_size; bytes <= o->last_size && !status; bytes *= 2) {
		engine_options_resize(&one, bytes);
		status = one_client(&one, host, port);
	}
	return status;
}
