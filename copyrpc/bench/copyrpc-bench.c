/* SPDX-License-Identifier: MIT */
/* copyrpc-bench: calls per second and their latency; see `usage` in bench.c. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/tcp.h"
#include "base/wait.h"
#include "bench.h"
#include "copyrpc_tcp.h"
#include "latrec.h"

_Noreturn void fail(const char *what, int err)
{
	fprintf(stderr, "copyrpc-bench: %s: %s\n", what, strerror(err < 0 ? -err : err));
	exit(1);
}

uint8_t payload[PAYLOAD_MAX];

#define CONNECT_MS 3000 /* the server may be started at the same time as the client */
#define GUESTS 64 /* connections that have not sent their hello */
#define END UINT32_MAX /* sent in place of an implementation's number: the client has finished */

/* ------------------------------------------------------------ the control connection */

void put(int fd, const void *data, size_t len)
{
	int err = tcp_put(fd, data, len, TCP_FOREVER);

	if (err)
		fail("the other side", err);
}

void get(int fd, void *data, size_t len)
{
	int err = tcp_get(fd, data, len, TCP_FOREVER);

	if (err)
		fail("the other side", err);
}

/* The first bytes of a client; a connection without them is closed. */
struct hello {
	char magic[8];
	uint32_t version, zero;
};

#define HELLO_VERSION 2

static const struct hello hello = {"CPRBENCH", HELLO_VERSION, 0};

struct guest {
	struct tcp_guest tcp;
	struct hello hello;
	size_t got;
};

static int guest_step(void *arg, struct tcp_guest *tcp)
{
	struct guest *g = container_of(tcp, struct guest, tcp);
	int err = tcp_read(tcp->fd, &g->hello, sizeof(g->hello), &g->got);

	if (err)
		return err;
	if (memcmp(g->hello.magic, hello.magic, sizeof(hello.magic)))
		return -EPROTO;
	if (!memcmp(&g->hello, &hello, sizeof(hello)))
		return 0;
	fprintf(stderr,
		"copyrpc-bench: refused a client of version %u, this server has version %u\n",
		g->hello.version, hello.version);
	return -EPROTONOSUPPORT;
}

/* Waits for the first client. Other connections neither delay it nor end the program. */
static int accept_client(int listener)
{
	struct tcp_crowd crowd = {.size = sizeof(struct guest), .step = guest_step, .most = GUESTS};
	struct tcp_guest *g;
	int fd, err;

	for (;;) {
		err = tcp_crowd_next(&crowd, listener, GUESTS, clock_ns(), &g);
		if (!err)
			break;
		if (err == -EAGAIN)
			err = tcp_crowd_wait(&crowd, listener, clock_ns(), TCP_FOREVER);
		if (err == -ENOMEM || err == -EBADF)
			fail("listen", err);
	}
	fd = g->fd;
	free(g);
	tcp_crowd_fini(&crowd);
	return fd;
}

static int dial(const struct options *o)
{
	int listener, fd, rc;

	if (o->host) {
		rc = copyrpc_tcp_connect(o->host, (uint16_t)o->port, CONNECT_MS, &fd);
		if (rc)
			fail(o->host, rc);
		put(fd, &hello, sizeof(hello));
		return fd;
	}
	rc = copyrpc_tcp_listen(NULL, (uint16_t)o->port, &listener);
	if (rc)
		fail("port", rc);
	fd = accept_client(listener);
	close(listener);
	return fd;
}

/* ---------------------------------------------------------------------- server */

/* Ends the server after the client has left. With --fork only the client prints the reason. */
static _Noreturn void client_left(const struct options *o)
{
	if (o->both)
		exit(1);
	fail("the client ended early, see its error message", ECONNRESET);
}

/* On the control connection the client sends 's' to get the counts, and 'n' to continue with the
 * next implementation. */
static void serve_one(const struct options *o, const struct impl *impl, const struct plan *p,
	int fd)
{
	void *self = impl->open(o, p, fd, true);
	bool sleeps = p->events && impl->sleep;
	struct wait w = WAIT_INIT;
	struct counts counts;
	uint64_t polls = 0, wakes = 0;
	char c = 0;

	while (c != 'n') {
		if (impl->poll(self, NULL)) {
			wait_reset(&w);
		} else if (sleeps) {
			impl->sleep(self, fd, -1);
			wakes++;
		} else if (wait_step(&w)) {
			sched_yield();
		}
		if (++polls % (sleeps ? 1 : 64))
			continue;
		if (!recv(fd, &c, 1, MSG_DONTWAIT))
			client_left(o);
		if (c == 's') {
			counts = impl->counts(self);
			counts.cpu_ns = clock_cpu_ns();
			counts.wakes = wakes;
			put(fd, &counts, sizeof(counts));
			c = 0;
		}
	}
	impl->close(self);
	put(fd, "n", 1);
}

static const struct impl *const impls[] = {
	&copyrpc_impl,
#ifdef HAVE_UCX
	&ucx_impl,
#endif
};

static uint32_t next_impl(const struct options *o, int fd)
{
	uint32_t which;

	if (tcp_get(fd, &which, sizeof(which), TCP_FOREVER))
		client_left(o);
	return which;
}

static void serve(const struct options *o, int fd)
{
	struct plan p;
	uint32_t which;

	while ((which = next_impl(o, fd)) != END) {
		get(fd, &p, sizeof(p));
		if (p.allowance > PAYLOAD_MAX || p.endpoints > ENDPOINTS_MAX ||
			which >= ARRAY_SIZE(impls) || !rings_fit(p.endpoints, p.ring_size, 1))
			fail("the client's options are out of range, or its --peer is unknown here",
				EINVAL);
		serve_one(o, impls[which], &p, fd);
	}
}

/* ---------------------------------------------------------------------- client */

struct client {
	const struct impl *impl;
	void *self;
	uint64_t *started; /* by slot */
	uint32_t *spare; /* free slots */
	uint32_t nspare, slots, depth;
	uint64_t ended;
	uint64_t gap, next; /* ns between calls, 0: none; when the next one is due */
	bool sleeps;
	struct latrec_hist *hist;
};

void slot_ended(struct client *c, uint32_t slot)
{
	if (slot >= c->slots || c->nspare == c->slots)
		fail("response", EPROTO);
	latrec_hist_record(c->hist, clock_ns() - c->started[slot]);
	c->spare[c->nspare++] = slot;
	c->ended++;
}

static void sleep_or_spin(struct client *c, bool more, struct wait *w)
{
	uint64_t now = clock_ns();
	int ms = -1;

	if (!c->sleeps) {
		if (wait_step(w))
			sched_yield();
		return;
	}
	if (c->gap && more)
		ms = c->next <= now ? 0 : (int)((c->next - now) / NSEC_PER_MSEC + 1);
	c->impl->sleep(c->self, -1, ms);
}

/* Makes a call with every free slot if calls are due, then polls. */
static void round_of_calls(struct client *c, bool more, struct wait *w)
{
	uint64_t now = clock_ns();

	while (more && c->nspare && (!c->gap || now >= c->next)) {
		uint32_t slot = c->spare[c->nspare - 1];

		c->started[slot] = now;
		c->nspare--;
		if (!c->impl->call(c->self, slot / c->depth, slot)) {
			c->nspare++;
			break;
		}
		c->next += c->gap;
	}
	if (c->impl->poll(c->self, c))
		wait_reset(w);
	else
		sleep_or_spin(c, more, w);
}

/* Sums the counts of both sides. */
static struct counts both_counts(struct client *c, int fd)
{
	struct counts mine, theirs;

	put(fd, "s", 1);
	get(fd, &theirs, sizeof(theirs));
	mine = c->impl->counts(c->self);
	theirs.wqes += mine.wqes;
	theirs.doorbells += mine.doorbells;
	theirs.batches += mine.batches;
	theirs.messages += mine.messages;
	return theirs;
}

static void run_until(struct client *c, uint64_t end)
{
	struct wait w = WAIT_INIT;

	while (clock_ns() < end)
		round_of_calls(c, true, &w);
}

/* Measures one queue depth: the first tenth of the time is a warm-up. */
static struct result measure(const struct options *o, struct client *c, const struct plan *p,
	int fd)
{
	uint64_t duration = (uint64_t)(o->duration * NSEC_PER_SEC), start, warm;
	struct result r = {.impl = c->impl->name, .plan = *p, .depth = c->depth};
	struct wait w = WAIT_INIT;
	struct counts before, after;

	c->nspare = c->slots = c->depth * p->endpoints;
	for (uint32_t i = 0; i < c->slots; i++)
		c->spare[i] = i;
	c->next = clock_ns();
	run_until(c, c->next + duration / 10);
	before = both_counts(c, fd);
	latrec_hist_clear(c->hist);
	warm = c->ended;
	start = clock_ns();
	run_until(c, start + duration);
	r.ns = clock_ns() - start;
	r.calls = c->ended - warm;
	r.p50 = latrec_hist_quantile(c->hist, 0.5);
	r.p99 = latrec_hist_quantile(c->hist, 0.99);
	after = both_counts(c, fd);
	r.counts = (struct counts){after.wqes - before.wqes, after.doorbells - before.doorbells,
		after.batches - before.batches, after.messages - before.messages,
		after.cpu_ns - before.cpu_ns, after.wakes - before.wakes};
	while (c->nspare < c->slots)
		round_of_calls(c, false, &w);
	return r;
}

static void run_impl(const struct options *o, uint32_t which, int fd)
{
	const struct plan p = {o->size, o->allowance, o->endpoints, o->ring_size, o->max_depth,
		o->events};
	struct client c = {
		.impl = impls[which],
		.gap = o->rate ? NSEC_PER_SEC / o->rate : 0,
		.sleeps = o->events && impls[which]->sleep,
	};
	size_t slots = (size_t)o->max_depth * o->endpoints;
	char done;

	c.started = calloc(slots, sizeof(*c.started));
	c.spare = calloc(slots, sizeof(*c.spare));
	if (!c.started || !c.spare || latrec_hist_create(NULL, &c.hist))
		fail("memory", ENOMEM);
	put(fd, &which, sizeof(which));
	put(fd, &p, sizeof(p));
	c.self = c.impl->open(o, &p, fd, false);
	for (uint32_t i = 0; i < o->depths.n; i++) {
		struct result r;

		c.depth = (uint32_t)o->depths.at[i];
		r = measure(o, &c, &p, fd);
		report(o, &r);
	}
	put(fd, "n", 1);
	get(fd, &done, 1);
	c.impl->close(c.self);
	latrec_hist_destroy(c.hist);
	free(c.started);
	free(c.spare);
}

static void run_client(const struct options *o, int fd)
{
	const uint32_t end = END;

	report_begin(o);
	for (uint32_t i = 0; i < (o->ucx ? ARRAY_SIZE(impls) : 1); i++)
		run_impl(o, i, fd);
	put(fd, &end, sizeof(end));
	report_end(o);
}

/* Runs both sides on this machine; neither opens the device before the fork. */
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
	hca_check(o.device, argv); /* before the fork, so that an error is printed once */
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
