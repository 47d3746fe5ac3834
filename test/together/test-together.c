/* SPDX-License-Identifier: MIT */
/*
 * A daemon's thread sleeps in one epoll on a delegrpc server, a shmipc server, a flux node and a
 * pipe, and serves all of them. Each of the four can wake the thread, whichever
 * of them the thread served last.
 */
#include <pthread.h>
#include <sys/epoll.h>

#include "support/test.h"
#include "delegrpc.h"
#include "flux.h"
#include "shmipc.h"

#define CALLS 2000 /* of each caller */
#define SOURCES 4
#define FOR_EVER (-1) /* the test's time limit ends a wait that hangs */

static struct flux *net;
static int pipes[2];

struct daemon {
	struct delegrpc_server *d;
	struct shmipc_server *s;
	struct flux_node *f;
	uint32_t served[SOURCES];
	uint32_t woken; /* returns of epoll_wait() */
};

static uint32_t serve_delegrpc(struct delegrpc_server *s)
{
	struct delegrpc_req r;
	uint32_t n = 0;

	CHECK(delegrpc_server_poll(s) >= 0);
	for (; delegrpc_server_recv(s, &r); n++)
		CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, r.payload, 8), 0);
	delegrpc_server_advance_tail(s);
	return n;
}

static uint32_t serve_shmipc(struct shmipc_server *s)
{
	struct shmipc_req r;
	uint64_t v;
	uint32_t n = 0;

	shmipc_server_poll(s);
	for (; shmipc_server_recv(s, &r, &v, sizeof(v)) == 1; n++)
		CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &v, sizeof(v)), 0);
	return n;
}

static uint32_t serve_flux(struct flux_node *f)
{
	uint64_t call, v;
	uint32_t from, len, n = 0;

	for (; flux_try_recv_raw(f, &from, &call, &v, sizeof(v), &len) == 1; n++)
		CHECK_EQ(flux_reply(f, call, &v, sizeof(v)), 0);
	return n;
}

/* Serves one source until it has nothing more. */
static void serve(struct daemon *t, uint32_t source)
{
	uint32_t n;
	char c;

	do {
		n = source == 0 ? serve_delegrpc(t->d) :
		    source == 1 ? serve_shmipc(t->s) :
		    source == 2 ? serve_flux(t->f) :
				  0;
		t->served[source] += n;
	} while (n);
	if (source == 3) {
		CHECK_EQ(read(pipes[0], &c, 1), 1);
		t->served[source]++;
	}
}

/* Arms the source that was served. The others have not been served, and are still armed. */
static int arm(struct daemon *t, uint32_t source)
{
	int busy = source == 0 ? delegrpc_server_arm(t->d) :
		   source == 1 ? shmipc_server_arm(t->s) :
		   source == 2 ? flux_arm(t->f) :
				 0;

	CHECK(busy >= 0);
	return busy;
}

static void watch(int set, int fd, uint32_t source)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = source};

	CHECK(fd >= 0);
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev), 0);
}

static bool all_served(const struct daemon *t)
{
	for (uint32_t i = 0; i < SOURCES; i++)
		if (t->served[i] < CALLS)
			return false;
	return true;
}

static void *daemon_main(void *arg)
{
	struct daemon *t = arg;
	struct epoll_event ev[SOURCES];
	int set = epoll_create1(EPOLL_CLOEXEC), n;

	watch(set, delegrpc_server_fd(t->d), 0);
	watch(set, shmipc_server_fd(t->s), 1);
	watch(set, flux_fd(t->f), 2);
	watch(set, pipes[0], 3);
	for (uint32_t i = 0; i < SOURCES - 1; i++)
		do
			serve(t, i);
		while (arm(t, i));
	while (!all_served(t)) {
		do
			n = epoll_wait(set, ev, SOURCES, FOR_EVER);
		while (n < 0);
		t->woken++;
		for (int i = 0; i < n; i++)
			do
				serve(t, ev[i].data.u32);
			while (ev[i].data.u32 != 3 && arm(t, ev[i].data.u32));
	}
	close(set);
	return NULL;
}

/* ---- callers, each in a thread, one call at a time ---- */

#define RPC_CALLER(layer)                                                                          \
	static void *layer##_caller(void *arg)                                                     \
	{                                                                                          \
		struct layer##_client *c;                                                          \
		uint64_t resp;                                                                     \
                                                                                                   \
		CHECK_EQ(layer##_client_connect(test_name, NULL, &c), 0);                          \
		for (uint64_t i = 0; i < CALLS; i++) {                                             \
			CHECK_EQ(layer##_client_call_wait(c, &i, sizeof(i), &resp, sizeof(resp),   \
					 UINT64_MAX, NULL),                                        \
				0);                                                                \
			CHECK_EQ(resp, i);                                                         \
		}                                                                                  \
		layer##_client_disconnect(c);                                                      \
		return NULL;                                                                       \
	}

RPC_CALLER(delegrpc)
RPC_CALLER(shmipc)

static void flux_took(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	CHECK_EQ(*(const uint64_t *)payload, token);
}

static void *flux_caller(void *arg)
{
	struct flux_node *n = flux_get_node(net, 1);

	for (uint64_t i = 0; i < CALLS; i++) {
		CHECK_EQ(flux_call(n, 0, &i, sizeof(i), i), 0);
		while (!flux_poll(n, flux_took, NULL))
			flux_wait(n, UINT64_MAX);
	}
	return NULL;
}

static void *pipe_caller(void *arg)
{
	for (uint32_t i = 0; i < CALLS; i++)
		CHECK_EQ(write(pipes[1], "x", 1), 1);
	return NULL;
}

TEST(one_thread_sleeps_on_all)
{
	static void *(*const callers[])(
		void *) = {delegrpc_caller, shmipc_caller, flux_caller, pipe_caller};
	struct flux_attr attr = {.nodes = 2, .payload_size = 8};
	struct daemon t = {0};
	pthread_t thread[SOURCES], daemon;

	CHECK_EQ(pipe(pipes), 0);
	CHECK_EQ(delegrpc_server_create(test_name, NULL, &t.d), 0);
	CHECK_EQ(shmipc_server_create(test_name, NULL, &t.s), 0);
	CHECK_EQ(flux_create(&attr, &net), 0);
	t.f = flux_get_node(net, 0);
	CHECK_EQ(pthread_create(&daemon, NULL, daemon_main, &t), 0);
	for (size_t i = 0; i < SOURCES; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, callers[i], NULL), 0);
	for (size_t i = 0; i < SOURCES; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	CHECK_EQ(pthread_join(daemon, NULL), 0);
	for (size_t i = 0; i < SOURCES; i++)
		CHECK_EQ(t.served[i], CALLS);
	/* Each call, connect and disconnect wakes at most once, and timers wake at times. */
	CHECK(t.woken <= 2 * SOURCES * CALLS);
	flux_destroy(net);
	shmipc_server_destroy(t.s);
	delegrpc_server_destroy(t.d);
	close(pipes[0]);
	close(pipes[1]);
}

int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
