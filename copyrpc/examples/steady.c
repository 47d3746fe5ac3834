/* SPDX-License-Identifier: MIT */
/*
 * A client and a server whose connection survives a cable that is unplugged for a while:
 *
 *	copyrpc-steady serve		prints its port
 *	copyrpc-steady call PORT [HOST]	makes calls until the end of its standard input
 *
 * Both print when the connection is lost and when it is back. The server answers with the number of
 * requests that it has executed, so the client sees whether a request was lost or executed twice.
 * Try it on the software HCA:
 *
 *	softhca-run copyrpc-steady serve		# in three shells
 *	softhca-run copyrpc-steady call PORT		# until Ctrl-D
 *	softhcactl link mlx5_0 down; sleep 3; softhcactl link mlx5_0 up
 */
#include <poll.h>

#include "echo.h"

#define DEPTH 8
#define AWAY_MS 60000 /* after this time without a connection both sides give up */

struct state {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep; /* used by the client; NULL: not yet connected */
	uint64_t made, ended, executed;
};

static void say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

/* Both sides set reconnect_ms, so that a lost connection is made again. The time-outs of the
 * transport are short here: the adapter reports an unplugged cable after about 0.3 s. */
static struct copyrpc_ctx *open_steady(void)
{
	static const struct copyrpc_path quick = {.timeout = 14, .retry_cnt = 3};
	const struct copyrpc_ctx_attr attr = {.size = sizeof(attr),
		.reconnect_ms = AWAY_MS,
		.path = &quick};
	struct copyrpc_ctx *ctx;

	check(copyrpc_ctx_create(&attr, &ctx), "context (see softhca-run)");
	return ctx;
}

/* Prints the events. The program need not repeat calls: the library repeats those that were lost
 * with the connection. */
static void handle_events(struct state *s)
{
	struct copyrpc_event e;

	while (copyrpc_event_recv(s->ctx, &e, sizeof(e))) {
		if (e.kind == COPYRPC_UP) {
			s->ep = e.ep;
			say("connected");
		} else if (e.kind == COPYRPC_DOWN && e.status == -EAGAIN) {
			say("lost");
		} else if (e.kind == COPYRPC_BACK) {
			say("back");
		} else {
			say("ended");
			check(e.kind == COPYRPC_GONE ? e.status : 0, "dial");
			copyrpc_ep_destroy(e.ep);
			s->ep = NULL;
		}
	}
}

/* Sleeps until there is something to poll for, or @fd is readable. */
static void sleep_until_work(struct state *s, int fd)
{
	struct pollfd p[] = {{.fd = copyrpc_ctx_fd(s->ctx), .events = POLLIN},
		{.fd = fd, .events = POLLIN}};

	if (!copyrpc_ctx_arm(s->ctx))
		poll(p, 2, copyrpc_ctx_timeout(s->ctx));
}

/* ------------------------------------------------------------------ the server */

static _Noreturn void serve(struct state *s)
{
	struct copyrpc_req *req;
	int listener;

	check(copyrpc_tcp_listen(NULL, 0, &listener), "listen");
	check(copyrpc_listen(s->ctx, NULL, listener, 0), "listen");
	printf("%d\n", copyrpc_tcp_port(listener));
	fflush(stdout);
	for (;;) {
		int found = copyrpc_poll(s->ctx, NULL, NULL);

		while (copyrpc_recv(s->ctx, &req)) {
			s->executed++;
			copyrpc_reply(req, &s->executed, sizeof(s->executed));
			found = 1;
		}
		handle_events(s);
		if (!found)
			sleep_until_work(s, -1);
	}
}

/* ------------------------------------------------------------------ the client */

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct state *s = arg;
	uint64_t executed;

	check(status, "call");
	check(len == sizeof(executed) ? 0 : -EPROTO, "response");
	memcpy(&executed, data, sizeof(executed));
	if (executed != ++s->ended || token != s->ended) {
		fprintf(stderr, "call %llu was execution %llu\n", (unsigned long long)token,
			(unsigned long long)executed);
		exit(1);
	}
}

static void make_calls(struct state *s)
{
	while (s->ep && s->made - s->ended < DEPTH) {
		int rc = copyrpc_call(s->ep, NULL, 0, sizeof(s->executed), s->made + 1);

		if (rc == -EAGAIN || rc == -ENOBUFS)
			return;
		check(rc, "call");
		s->made++;
	}
}

static int input_ended(void)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};
	char byte;

	return poll(&p, 1, 0) > 0 && read(0, &byte, 1) <= 0;
}

static int call(struct state *s, const char *port, const char *host)
{
	int ending = 0;

	check(copyrpc_dial(s->ctx, NULL, host, (uint16_t)atoi(port), 10000, 0), "dial");
	while (!ending || s->ended < s->made) {
		int found = copyrpc_poll(s->ctx, on_response, s);

		handle_events(s);
		if (!ending)
			ending = input_ended();
		if (!ending)
			make_calls(s);
		if (!found)
			sleep_until_work(s, ending ? -1 : 0);
	}
	printf("%llu calls, each executed once\n", (unsigned long long)s->ended);
	return 0;
}

int main(int argc, char **argv)
{
	struct state s = {0};
	int rc;

	if (argc < 2 || (strcmp(argv[1], "serve") != 0 && argc < 3)) {
		fprintf(stderr, "usage: copyrpc-steady serve | call PORT [HOST]\n");
		return 2;
	}
	s.ctx = open_steady();
	if (strcmp(argv[1], "serve") == 0)
		serve(&s);
	rc = call(&s, argv[2], argc > 3 ? argv[3] : "127.0.0.1");
	copyrpc_ctx_destroy(s.ctx);
	return rc;
}
