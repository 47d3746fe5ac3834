/* SPDX-License-Identifier: MIT */
/*
 * Measures the delays of a busy client's calls while others connect:
 *
 *	delays PROCESSES SECONDS LATE_MS [rt]
 *
 * A client calls a server, one call at a time. PROCESSES other processes connect to the server and
 * to each other, destroy their contexts when all connections are up, and begin again. For each call
 * that takes LATE_MS or longer, a line shows how both sides spent that time. The time of polls has
 * three parts: the thread's CPU time, its time in the run queue of the scheduler, and the rest, in
 * which it was blocked, for example by a lock of the software HCA. With "rt" the client and the
 * server have a real-time priority, so they spend hardly any time in the run queue, and the other
 * processes do not preempt them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "copyrpc_tcp.h"

#define MOST 256 /* processes */
#define HOUR_MS 3600000
#define MS(ns) ((double)(ns) / NSEC_PER_MSEC)

/* Time of a thread, in nanoseconds. */
struct spent {
	uint64_t wall, cpu, queued; /* queued: in the scheduler's run queue */
};

/*
 * The times of one process: the client, or, in shared memory, the server. Only that process writes
 * them.
 */
struct side {
	struct spent in_polls, longest; /* longest: the poll with the most CPU time */
	uint64_t queued; /* also outside of polls */
};

static struct shared {
	uint16_t port[MOST + 1]; /* of the processes; port[processes] is the server's */
	atomic_bool stop; /* relaxed: it orders no other data */
	atomic_uint rounds; /* times that a process has connected to all others; relaxed, too */
	struct side server;
} * shared;

static uint32_t processes;
static int schedstat;

static _Noreturn void fail(const char *what, int err)
{
	fprintf(stderr, "delays: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void must(const char *what, int rc)
{
	if (rc < 0)
		fail(what, rc);
}

/* ------------------------------------------------------------------ measuring */

static struct spent now(void)
{
	struct spent s = {.wall = clock_ns()};
	struct timespec cpu;
	char text[64] = "", *end;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	s.cpu = (uint64_t)cpu.tv_sec * NSEC_PER_SEC + (uint64_t)cpu.tv_nsec;
	if (pread(schedstat, text, sizeof(text) - 1, 0) < 0)
		fail("/proc/self/schedstat", -errno);
	strtoull(text, &end, 10);
	s.queued = strtoull(end, NULL, 10);
	return s;
}

static struct spent between(struct spent from, struct spent to)
{
	return (struct spent){to.wall - from.wall, to.cpu - from.cpu, to.queued - from.queued};
}

/* The client may read the server's numbers during an update, and so mix those of two polls. */
static void add(uint64_t *to, uint64_t n)
{
	__atomic_store_n(to, *to + n, __ATOMIC_RELAXED);
}

static struct side look(const struct side *s)
{
	return (struct side){.in_polls = {__atomic_load_n(&s->in_polls.wall, __ATOMIC_RELAXED),
				     __atomic_load_n(&s->in_polls.cpu, __ATOMIC_RELAXED),
				     __atomic_load_n(&s->in_polls.queued, __ATOMIC_RELAXED)},
		.queued = __atomic_load_n(&s->queued, __ATOMIC_RELAXED)};
}

static int poll_timed(struct side *s, struct copyrpc_ctx *ctx, copyrpc_response_fn *fn, void *arg)
{
	struct spent before = now(), took;
	int n = copyrpc_poll(ctx, fn, arg);
	struct spent after = now();

	took = between(before, after);
	add(&s->in_polls.wall, took.wall);
	add(&s->in_polls.cpu, took.cpu);
	add(&s->in_polls.queued, took.queued);
	add(&s->queued, after.queued - s->queued);
	if (took.cpu > s->longest.cpu)
		s->longest = took;
	return n;
}

static void say_spent(const char *who, struct spent s)
{
	uint64_t known = s.cpu + s.queued;

	printf("%s %.1f ms (CPU %.1f, run queue %.1f, blocked %.1f)", who, MS(s.wall), MS(s.cpu),
		MS(s.queued), s.wall > known ? MS(s.wall - known) : 0);
}

static void say_late(const char *who, struct side from, struct side to)
{
	struct spent in = between(from.in_polls, to.in_polls);
	uint64_t queued = to.queued - from.queued;

	printf("; %s: ", who);
	say_spent("polls", in);
	printf(", run queue outside of polls %.1f",
		queued > in.queued ? MS(queued - in.queued) : 0);
}

/* ------------------------------------------------------------------ contexts */

static struct copyrpc_ctx *open_ctx(uint32_t endpoints)
{
	const struct copyrpc_ctx_attr attr = {.max_endpoints = endpoints,
		.ring_size = 4096,
		.sq_depth = 16,
		.srq_depth = 1024};
	struct copyrpc_ctx *ctx;

	must("context", copyrpc_ctx_create(&attr, &ctx));
	return ctx;
}

static void sleep_briefly(struct copyrpc_ctx *ctx)
{
	struct pollfd p = {.fd = copyrpc_ctx_fd(ctx), .events = POLLIN};
	int ms = copyrpc_ctx_timeout(ctx);

	if (!copyrpc_ctx_arm(ctx))
		poll(&p, 1, ms >= 0 && ms < 50 ? ms : 50); /* `stop` has no event */
}

static bool stopped(void)
{
	return atomic_load_explicit(&shared->stop, memory_order_relaxed);
}

/* Handles the events. Returns the number of dials that have ended. */
static uint32_t take_events(struct copyrpc_ctx *ctx, uint64_t listener)
{
	struct copyrpc_event e;
	uint32_t ended = 0;

	while (copyrpc_event_recv(ctx, &e, sizeof(e))) {
		if (e.kind == COPYRPC_DOWN)
			copyrpc_ep_destroy(e.ep);
		ended += e.token != listener && (e.kind == COPYRPC_UP || e.kind == COPYRPC_GONE);
	}
	return ended;
}

static void serve(int listener)
{
	struct copyrpc_ctx *ctx = open_ctx(4 * MOST);
	const struct copyrpc_listen_attr attr = {.max_guests = 2 * MOST};
	struct copyrpc_req *req;

	must("listen", copyrpc_listen(ctx, &attr, listener, 0));
	while (!stopped()) {
		int found = poll_timed(&shared->server, ctx, NULL, NULL);

		for (; copyrpc_recv(ctx, &req); found = 1)
			copyrpc_reply(req, NULL, 0);
		take_events(ctx, 0);
		if (!found)
			sleep_briefly(ctx);
	}
	copyrpc_ctx_destroy(ctx);
}

/* Connects to the server and to all other processes, again and again. */
static void connect_others(uint32_t rank, int listener)
{
	const struct copyrpc_listen_attr la = {.max_guests = 2 * MOST};
	const struct copyrpc_dial_attr single = {.single = true};

	while (!stopped()) {
		struct copyrpc_ctx *ctx = open_ctx(4 * (processes + 1));
		uint32_t ended = 0;

		must("listen", copyrpc_listen(ctx, &la, listener, rank));
		for (uint32_t i = 0; i <= processes; i++)
			if (i != rank)
				must("dial", copyrpc_dial(ctx, &single, "127.0.0.1",
						     shared->port[i], HOUR_MS, i));
		while (ended < processes && !stopped()) {
			copyrpc_poll(ctx, NULL, NULL);
			ended += take_events(ctx, rank);
			sleep_briefly(ctx);
		}
		atomic_fetch_add_explicit(&shared->rounds, 1, memory_order_relaxed);
		copyrpc_ctx_destroy(ctx);
	}
}

/* ------------------------------------------------------------------ the client */

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	must("call", status);
	*(bool *)arg = true;
}

/* Makes one call. Returns its time. */
static uint64_t call(struct side *own, struct copyrpc_ep *ep, uint64_t late_ns)
{
	struct side from[2] = {*own, look(&shared->server)};
	struct spent start = now(), took;
	bool answered = false;

	must("call", copyrpc_call(ep, "x", 1, 1, 0));
	while (!answered)
		if (!poll_timed(own, copyrpc_ep_ctx(ep), on_response, &answered))
			sleep_briefly(copyrpc_ep_ctx(ep));
	took = between(start, now());
	if (took.wall >= late_ns) {
		printf("late: %.1f ms", MS(took.wall));
		say_late("client", from[0], *own);
		say_late("server", from[1], look(&shared->server));
		printf("\n");
	}
	return took.wall;
}

static void measure(uint32_t seconds, uint64_t late_ns)
{
	uint64_t until, most = 0, calls = 0, late = 0;
	struct copyrpc_ctx *ctx = open_ctx(4);
	struct side own = {.queued = now().queued};
	struct copyrpc_ep *ep;

	must("connect",
		copyrpc_connect(ctx, NULL, "127.0.0.1", shared->port[processes], HOUR_MS, &ep));
	until = clock_ns() + seconds * NSEC_PER_SEC;
	for (; clock_ns() < until; calls++) {
		uint64_t ns = call(&own, ep, late_ns);

		late += ns >= late_ns;
		most = ns > most ? ns : most;
	}
	printf("%llu calls, %llu late, the longest %.1f ms; "
	       "other processes: %u rounds of %u connections each\n",
		(unsigned long long)calls, (unsigned long long)late, MS(most),
		atomic_load_explicit(&shared->rounds, memory_order_relaxed), processes);
	say_spent("the poll with the most CPU time: client", own.longest);
	say_spent("; server", shared->server.longest);
	printf("\n");
	copyrpc_ctx_destroy(ctx);
}

static void take_priority(bool rt)
{
	const struct sched_param p = {.sched_priority = 1};

	schedstat = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
	must("/proc/self/schedstat", schedstat < 0 ? -errno : 0);
	if (rt && sched_setscheduler(0, SCHED_RR, &p))
		fail("real-time priority", -errno);
}

int main(int argc, char **argv)
{
	bool rt = argc == 5 && !strcmp(argv[4], "rt");
	pid_t parent = getpid();
	int listener[MOST + 1];

	processes = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
	if ((argc != 4 && !rt) || !processes || processes > MOST) {
		fprintf(stderr, "delays: give PROCESSES (1 to %d) SECONDS LATE_MS [rt]\n", MOST);
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		0);
	if (shared == MAP_FAILED)
		fail("memory", -errno);
	for (uint32_t i = 0; i <= processes; i++) {
		must("listen", copyrpc_tcp_listen("127.0.0.1", 0, &listener[i]));
		shared->port[i] = (uint16_t)copyrpc_tcp_port(listener[i]);
	}
	for (uint32_t i = 0; i <= processes; i++) {
		pid_t child = fork();

		must("fork", child < 0 ? -errno : 0);
		if (child)
			continue;
		if (!child_ends_with(parent))
			return 1;
		if (i == processes) {
			take_priority(rt);
			serve(listener[i]);
		} else {
			connect_others(i, listener[i]);
		}
		exit(0);
	}
	take_priority(rt);
	measure((uint32_t)atoi(argv[2]), (uint64_t)atoi(argv[3]) * NSEC_PER_MSEC);
	atomic_store_explicit(&shared->stop, true, memory_order_relaxed);
	while (wait(NULL) > 0)
		;
	return 0;
}
