/* SPDX-License-Identifier: MIT */
/* copyrpc-bench: calls per second and their latency, see usage(). */
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/hist.h"
#include "base/wait.h"
#include "bench.h"

static _Noreturn void fail(const char *what, int err)
{
	fprintf(stderr, "copyrpc-bench: %s: %s\n", what, strerror(err < 0 ? -err : err));
	exit(1);
}

static void check(int rc, const char *what)
{
	if (rc < 0)
		fail(what, rc);
}

/* ------------------------------------------------------------ the control line */

static void put(int fd, const void *data, size_t len)
{
	if (send(fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		fail("the other side", errno);
}

static void get(int fd, void *data, size_t len)
{
	if (recv(fd, data, len, MSG_WAITALL) != (ssize_t)len)
		fail("the other side", errno ? errno : ECONNRESET);
}

static int dial(const struct options *o)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list, *a;
	char port[16];
	int fd = -1, one = 1;

	if (!o->host)
		hints.ai_flags = AI_PASSIVE;
	snprintf(port, sizeof(port), "%u", o->port);
	if (getaddrinfo(o->host, port, &hints, &list))
		fail(o->host ? o->host : "port", EHOSTUNREACH);
	for (a = list; a; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype, 0);
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (!(o->host ? connect : bind)(fd, a->ai_addr, a->ai_addrlen))
			break;
		close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	if (fd < 0)
		fail(o->host ? o->host : "port", errno);
	if (!o->host) {
		int peer;

		if (listen(fd, 1) || (peer = accept(fd, NULL, NULL)) < 0)
			fail("listen", errno);
		close(fd);
		fd = peer;
	}
	return fd;
}

/* ------------------------------------------------------------------ both sides */

static struct copyrpc_ctx *open_ctx(const struct options *o, const struct plan *p)
{
	struct copyrpc_ctx_attr attr = {
		.device = o->device,
		.ring_size = p->ring_size,
		.max_endpoints = p->endpoints,
	};
	struct copyrpc_ctx *ctx;

	check(copyrpc_ctx_create(&attr, &ctx), o->device ? o->device : "device");
	return ctx;
}

static struct copyrpc_ep *open_ep(struct copyrpc_ctx *ctx, int fd)
{
	uint8_t mine[COPYRPC_INFO_SIZE], theirs[COPYRPC_INFO_SIZE];
	struct copyrpc_ep *ep;

	check(copyrpc_ep_create(ctx, NULL, &ep), "endpoint");
	copyrpc_ep_info(ep, mine);
	put(fd, mine, sizeof(mine));
	get(fd, theirs, sizeof(theirs));
	check(copyrpc_ep_connect(ep, theirs, sizeof(theirs)), "connect");
	return ep;
}

static struct counts counts_of(const struct copyrpc_ctx *ctx)
{
	struct copyrpc_stats s;

	copyrpc_ctx_stats(ctx, &s);
	return (struct counts){s.wqes, s.doorbells, s.batches, s.calls + s.replies};
}

/* Answers with as many bytes as are allowed; 's' on the control line asks for the counts. */
static void serve(const struct options *o, int fd)
{
	static const uint8_t answer[COPYRPC_PAYLOAD_MAX(COPYRPC_RING_MAX) / 64];
	struct wait w = WAIT_INIT;
	struct copyrpc_ctx *ctx;
	struct copyrpc_req *req;
	uint32_t idle = 0;
	struct plan p;
	char c;

	get(fd, &p, sizeof(p));
	if (p.allowance > sizeof(answer) || p.endpoints > ENDPOINTS_MAX)
		fail("the client's options", EINVAL);
	ctx = open_ctx(o, &p);
	for (uint32_t i = 0; i < p.endpoints; i++)
		open_ep(ctx, fd);
	for (;;) {
		while (copyrpc_recv(ctx, &req))
			check(copyrpc_reply(req, answer, p.allowance), "reply");
		if (copyrpc_poll(ctx, NULL, NULL)) {
			wait_reset(&w);
		} else if (wait_step(&w)) {
			sched_yield();
		}
		if (++idle % 256)
			continue;
		switch (recv(fd, &c, 1, MSG_DONTWAIT)) {
		case 0:
			copyrpc_ctx_destroy(ctx);
			return;
		case 1:
			put(fd, &(struct counts[]){counts_of(ctx)}, sizeof(struct counts));
		}
	}
}

/* ---------------------------------------------------------------------- client */

struct client {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep **ep;
	uint64_t *started; /* by slot; a slot is a call that may be under way */
	uint32_t *spare;   /* slots that are not */
	uint32_t nspare, slots, depth;
	uint64_t ended;
	uint32_t allowance;
	struct hist hist;
};

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct client *c = arg;

	check(status, "call");
	if (len != c->allowance)
		fail("response", EPROTO);
	hist_add(&c->hist, clock_ns() - c->started[token]);
	c->spare[c->nspare++] = (uint32_t)token;
	c->ended++;
}

/* Calls with every slot that is free, then a poll. */
static void round_of_calls(struct client *c, const struct plan *p, bool more, struct wait *w)
{
	static const uint8_t request[COPYRPC_PAYLOAD_MAX(COPYRPC_RING_MAX) / 64];
	uint64_t now = clock_ns();

	while (more && c->nspare) {
		uint32_t slot = c->spare[c->nspare - 1];
		int rc = copyrpc_call(c->ep[slot / c->depth], request, p->size, p->allowance, slot);

		if (rc == -EAGAIN || rc == -ENOBUFS)
			break;
		check(rc, "call");
		c->started[slot] = now;
		c->nspare--;
	}
	if (copyrpc_poll(c->ctx, on_response, c))
		wait_reset(w);
	else if (wait_step(w))
		sched_yield();
}

static struct counts both_counts(const struct client *c, int fd)
{
	struct counts mine = counts_of(c->ctx), theirs;

	put(fd, "s", 1);
	get(fd, &theirs, sizeof(theirs));
	return (struct counts){mine.wqes + theirs.wqes, mine.doorbells + theirs.doorbells,
		mine.batches + theirs.batches, mine.messages + theirs.messages};
}

static void run_until(struct client *c, const struct plan *p, uint64_t end)
{
	struct wait w = WAIT_INIT;

	while (clock_ns() < end)
		round_of_calls(c, p, true, &w);
}

/* One queue depth: a tenth of the time to warm up, then the measured part. */
static struct result measure(
	const struct options *o, struct client *c, const struct plan *p, int fd)
{
	uint64_t duration = (uint64_t)(o->duration * NSEC_PER_SEC), start, warm;
	struct wait w = WAIT_INIT;
	struct result r = {.impl = "copyrpc", .plan = *p, .depth = c->depth};
	struct counts before, after;

	c->nspare = c->slots = c->depth * p->endpoints;
	for (uint32_t i = 0; i < c->slots; i++)
		c->spare[i] = i;
	run_until(c, p, clock_ns() + duration / 10);
	before = both_counts(c, fd);
	hist_init(&c->hist);
	warm = c->ended;
	start = clock_ns();
	run_until(c, p, start + duration);
	r.ns = clock_ns() - start;
	r.calls = c->ended - warm;
	r.p50 = hist_quantile(&c->hist, 0.5);
	r.p99 = hist_quantile(&c->hist, 0.99);
	after = both_counts(c, fd);
	r.counts = (struct counts){after.wqes - before.wqes, after.doorbells - before.doorbells,
		after.batches - before.batches, after.messages - before.messages};
	while (c->nspare < c->slots)
		round_of_calls(c, p, false, &w);
	return r;
}

static void run_client(const struct options *o, int fd)
{
	const struct plan p = {o->size, o->allowance, o->endpoints, o->ring_size};
	struct client c = {.allowance = o->allowance};
	size_t slots = (size_t)o->max_depth * o->endpoints;

	c.ep = calloc(p.endpoints, sizeof(*c.ep));
	c.started = calloc(slots, sizeof(*c.started));
	c.spare = calloc(slots, sizeof(*c.spare));
	if (!c.ep || !c.started || !c.spare)
		fail("memory", ENOMEM);
	put(fd, &p, sizeof(p));
	c.ctx = open_ctx(o, &p);
	for (uint32_t i = 0; i < p.endpoints; i++)
		c.ep[i] = open_ep(c.ctx, fd);
	report_begin(o);
	for (uint32_t i = 0; i < o->ndepths; i++) {
		struct result r;

		c.depth = o->depths[i];
		r = measure(o, &c, &p, fd);
		report(o, &r);
	}
	report_end(o);
	copyrpc_ctx_destroy(c.ctx);
	free(c.ep);
	free(c.started);
	free(c.spare);
}

/* Both sides on this machine; no side opens the device before the fork. */
static int run_both(const struct options *o)
{
	int fd[2], status;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		fail("socketpair", errno);
	child = fork();
	if (child < 0)
		fail("fork", errno);
	close(fd[!child]);
	if (!child) {
		serve(o, fd[0]);
		exit(0);
	}
	run_client(o, fd[1]);
	close(fd[1]);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status))
		return 1;
	return 0;
}

int main(int argc, char **argv)
{
	struct options o;
	int fd;

	options_parse(&o, argc, argv);
	if (o.both)
		return run_both(&o);
	fd = dial(&o);
	if (o.host)
		run_client(&o, fd);
	else
		serve(&o, fd);
	close(fd);
	return 0;
}
