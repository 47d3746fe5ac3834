/* SPDX-License-Identifier: MIT */
/*
 * eventloop-libevent NAME...: does the same as eventloop.c, with libevent. The callbacks of the
 * handles do nothing: their events end event_base_loop(), and each turn serves all handles. Do not
 * call event_base_dispatch(), or event_base_loop() without EVLOOP_ONCE: they do not return when a
 * handle becomes readable, and they sleep again without arming.
 *
 *	cc eventloop-libevent.c $(pkg-config --cflags --libs copyrpc shmipc libevent) -o eventloop
 */
#include <event2/event.h>
#include <signal.h>

#include "gateway.h"

static void on_handle(evutil_socket_t fd, short what, void *arg)
{
}

static void on_second(evutil_socket_t fd, short what, void *arg)
{
	gateway_print(arg);
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	((struct gateway *)arg)->stopping = true;
}

static struct event *watch(struct event_base *base, int fd, short what, event_callback_fn fn,
	struct gateway *g, const struct timeval *interval)
{
	struct event *e = event_new(base, fd, what | EV_PERSIST, fn, g);

	check(e && !event_add(e, interval) ? 0 : -ENOMEM, "event");
	return e;
}

/* @fd: the descriptor of a handle, or an error. libevent would ignore any negative number. */
static struct event *watch_handle(struct event_base *base, int fd, struct gateway *g)
{
	check(fd, "descriptor");
	return watch(base, fd, EV_READ, on_handle, g, NULL);
}

/* Sleeps until an event comes, at most @ms milliseconds if @ms is not negative. */
static void turn(struct event_base *base, struct event *limit, int ms)
{
	struct timeval at_most = {ms / 1000, ms % 1000 * 1000};

	if (ms > 0)
		event_add(limit, &at_most);
	event_base_loop(base, EVLOOP_ONCE | (ms ? 0 : EVLOOP_NONBLOCK));
}

int main(int argc, char **argv)
{
	struct event_base *base = event_base_new();
	const struct timeval second = {1, 0};
	struct event *events[LOCALS + 5], *limit;
	struct gateway g;
	int n = 0;

	gateway_open(&g, argc, argv);
	check(base ? 0 : -ENOMEM, "event_base_new");
	events[n++] = limit = event_new(base, -1, 0, on_handle, NULL);
	events[n++] = watch(base, -1, 0, on_second, &g, &second);
	events[n++] = watch(base, SIGINT, EV_SIGNAL, on_signal, &g, NULL);
	events[n++] = watch(base, SIGTERM, EV_SIGNAL, on_signal, &g, NULL);
	events[n++] = watch_handle(base, copyrpc_ctx_fd(g.ctx), &g);
	for (uint32_t i = 0; i < g.n_locals; i++)
		events[n++] = watch_handle(base, shmipc_client_fd(g.local[i]), &g);

	for (;;) {
		bool more = gateway_serve(&g);

		if (gateway_is_done(&g))
			break;
		turn(base, limit, more || gateway_arm(&g) ? 0 : gateway_timeout(&g));
	}
	while (n)
		event_free(events[--n]);
	event_base_free(base);
	return gateway_close(&g);
}
