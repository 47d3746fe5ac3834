/* SPDX-License-Identifier: MIT */
#include "meet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/tcp.h"

#define TEXT_MAX (1u << 26)
#define CLIENTS 1024 /* maximum number of simultaneous connections */
#define TAKE 16 /* maximum number of connections that are accepted after one poll */

struct meeting {
	const char *text;
	uint32_t len;
};

struct client {
	struct tcp_guest guest;
	size_t len_sent, text_sent;
};

/*
 * 0: the text has been sent, and the client has disconnected or has sent a byte, which is not
 * allowed. -EAGAIN: continue at the next event. -ECONNRESET: the text could not be sent.
 */
static int client_step(void *arg, struct tcp_guest *g)
{
	struct client *c = container_of(g, struct client, guest);
	const struct meeting *m = arg;
	size_t got = 0;
	char byte;
	int err;

	err = tcp_write(g->fd, &m->len, sizeof(m->len), &c->len_sent);
	if (!err)
		err = tcp_write(g->fd, m->text, m->len, &c->text_sent);
	g->events = err == -EAGAIN ? POLLOUT : POLLIN;
	if (err)
		return err == -EAGAIN ? err : -ECONNRESET;
	return tcp_read(g->fd, &byte, 1, &got) == -EAGAIN ? -EAGAIN : 0;
}

int meet_serve(int listener, const char *text, bool once)
{
	struct meeting m = {text, (uint32_t)strlen(text)};
	struct tcp_crowd crowd = {.size = sizeof(struct client),
		.step = client_step,
		.arg = &m,
		.most = CLIENTS};
	bool served = false;
	int err = 0;

	while (!err && !(once && served)) {
		uint64_t now = clock_ns();
		struct tcp_guest *g;

		err = tcp_crowd_next(&crowd, listener, TAKE, now, &g);
		served = !err;
		if (served) {
			close(g->fd);
			free(g);
		} else if (err == -EAGAIN) {
			err = tcp_crowd_wait(&crowd, listener, now, TCP_FOREVER);
		}
		err = err == -ECONNRESET ? 0 : err;
	}
	tcp_crowd_fini(&crowd);
	return err;
}

static int fetch(int fd, uint64_t limit, char **text_p)
{
	char *text = NULL;
	uint32_t len = 0;
	int err = tcp_get(fd, &len, sizeof(len), limit);

	if (!err && len > TEXT_MAX)
		err = -EPROTO;
	if (err)
		return err;
	text = malloc(len + 1);
	err = text ? tcp_get(fd, text, len, limit) : -ENOMEM;
	if (err) {
		free(text);
		return err;
	}
	text[len] = 0;
	*text_p = text;
	return 0;
}

int meet_fetch(const char *host, uint16_t port, int timeout_ms, char **text_p)
{
	uint64_t limit = tcp_limit(timeout_ms);
	int fd, err = tcp_connect(host, port, false, limit, &fd);

	if (err)
		return err;
	err = fetch(fd, limit, text_p);
	if (!err)
		return fd;
	close(fd);
	return err;
}
