/* SPDX-License-Identifier: MIT */
/*
 * TCP connections that are cut at any byte of a handshake. A proxy in the test carries the bytes,
 * and closes one connection after it has carried a number of them in one direction.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "back.h"
#include "puppet.h"

#define FIRST 144 /* bytes that each side sends in a first meeting, and in a later one */
#define LATER 176

#define LATE 100 /* turns after which the other side learns of a cut */
#define SLICE_MS 30 /* the longest time of a copyrpc_accept() */

static struct {
	int listener, to; /* to: the port of node 1 */
	int fd[2]; /* of the present connection, to each node; -1: none */
	int stale; /* the open end of a connection that was cut; -1: none */
	int side, learns; /* the node whose bytes are counted; the node that learns of the cut
			     first */
	uint32_t left, late; /* bytes until the cut; turns until the other side learns of it */
	bool armed;
	uint32_t cuts;
} proxy;

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void cut(void)
{
	proxy.armed = false;
	proxy.cuts++;
	close_end(&proxy.fd[proxy.learns]);
	close_end(&proxy.stale);
	proxy.stale = proxy.fd[!proxy.learns];
	proxy.fd[!proxy.learns] = -1;
	proxy.late = LATE;
}

/* Carries the bytes that the node @from has sent. */
static void carry(int from)
{
	bool counts = proxy.armed && from == proxy.side;
	uint8_t bytes[256];
	size_t most = counts && proxy.left < sizeof(bytes) ? proxy.left : sizeof(bytes);
	ssize_t n;

	if (proxy.fd[from] < 0)
		return;
	if (counts && !proxy.left) {
		cut();
		return;
	}
	n = recv(proxy.fd[from], bytes, most, MSG_DONTWAIT);
	if (n > 0)
		send(proxy.fd[!from], bytes, (size_t)n, MSG_NOSIGNAL);
	if (n > 0 && counts) {
		proxy.left -= (uint32_t)n;
		if (!proxy.left)
			cut();
	}
	if (n)
		return;
	close_end(&proxy.fd[0]);
	close_end(&proxy.fd[1]);
}

static void proxy_turn(struct node *n)
{
	int fd;

	if (!tcp_take(proxy.listener, &fd)) {
		close_end(&proxy.fd[0]);
		close_end(&proxy.fd[1]);
		proxy.fd[0] = fd;
		proxy.fd[1] = stranger_connect((uint16_t)proxy.to);
	}
	carry(0);
	carry(1);
	if (proxy.late && !--proxy.late)
		close_end(&proxy.stale);
}

static void open_proxy(struct node n[2])
{
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &n[1].listener), 0);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &proxy.listener), 0);
	proxy.to = copyrpc_tcp_port(n[1].listener);
	proxy.fd[0] = proxy.fd[1] = proxy.stale = -1;
	proxy.armed = false;
}

/* The clock of the test does not wait for the kernel's TCP, so the listener's patience is very
 * long. */
static void open_behind_proxy(struct node n[2], uint32_t endpoints, uint32_t max_guests)
{
	const struct copyrpc_ctx_attr attr = {.size = sizeof(attr),
		.ring_size = 4096,
		.max_endpoints = endpoints,
		.sq_depth = 16,
		.reconnect_ms = 1000000000,
		.probe_ms = 5000,
		.path = &quick};
	const struct copyrpc_listen_attr patient = {.patience_ms = UINT32_MAX,
		.max_guests = max_guests};

	open_contexts(n, &attr, false);
	open_proxy(n);
	CHECK_EQ(copyrpc_listen(n[1].ctx, &patient, n[1].listener, 1), 0);
	tend = proxy_turn;
}

static void close_connections(void)
{
	close_end(&proxy.fd[0]);
	close_end(&proxy.fd[1]);
	close_end(&proxy.stale);
}

static void close_proxy(void)
{
	close_connections();
	close(proxy.listener);
}

static void dial(struct node n[2])
{
	CHECK_EQ(copyrpc_dial(n[0].ctx, NULL, "127.0.0.1",
			 (uint16_t)copyrpc_tcp_port(proxy.listener), FAR_MS, 7),
		0);
}

static void arm_cut(int side, uint32_t at, int learns)
{
	proxy.side = side;
	proxy.left = at;
	proxy.learns = learns;
	proxy.armed = true;
}

/* Lets both nodes poll until the condition holds. It must hold soon. */
#define SOON(condition)                                                                            \
	for (int left = 20000; !(condition); left--) {                                             \
		CHECK(left);                                                                       \
		turn_both(n);                                                                      \
	}

static void call_once(struct node n[2])
{
	n[0].most++;
	n[1].most++;
	SOON(idle(&n[0]) && idle(&n[1]));
}

static void part(struct node n[2])
{
	for (int i = 0; i < 2; i++) {
		copyrpc_ep_destroy(n[i].ep);
		n[i].ep = NULL;
	}
	SOON(!n[0].ctx->eps && !n[1].ctx->eps);
}

/* The cut does not disturb the dial: each side has one endpoint, and no call is lost. */
static void cut_first(int side, int learns)
{
	NODES n[2];

	open_behind_proxy(n, 1, 0);
	for (uint32_t at = 0; at <= FIRST; at++) {
		uint32_t cuts = proxy.cuts;

		arm_cut(side, at, learns);
		dial(n);
		SOON(n[0].ep && n[1].ep);
		call_once(n);
		CHECK_EQ(proxy.cuts, cuts + 1);
		CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
		part(n);
	}
	close_proxy();
}

TEST_WITH(dialer_says_and_learns, cut_first, 0, 0);
TEST_WITH(dialer_says, cut_first, 0, 1);
TEST_WITH(listener_says, cut_first, 1, 0);
TEST_WITH(listener_says_and_learns, cut_first, 1, 1);

/* A cut while an endpoint is being connected again does not end the endpoint either. */
static void cut_later(int side, int learns)
{
	NODES n[2];

	open_behind_proxy(n, 1, 0);
	dial(n);
	SOON(n[0].ep && n[1].ep);
	for (uint32_t at = 0; at <= LATER; at++) {
		uint32_t backs[2] = {n[0].backs, n[1].backs}, cuts = proxy.cuts;

		arm_cut(side, at, learns);
		ep_fail(n[0].ep, -ECONNRESET);
		call_once(n);
		SOON(n[0].backs > backs[0] && n[1].backs > backs[1]);
		CHECK_EQ(proxy.cuts, cuts + 1);
	}
	CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
	close_proxy();
}

TEST_WITH(again_dialer_says_and_learns, cut_later, 0, 0);
TEST_WITH(again_listener_says, cut_later, 1, 0);

/* ------------------------------------------------------------------ a peer that does not return */

/* Brings only the dialing side up: the listening side does not get the last byte of the dialing
 * side's result. */
static void up_alone(struct node n[2])
{
	arm_cut(0, FIRST - 1, 1);
	dial(n);
	for (int left = 20000; !n[0].ep; left--) {
		CHECK(left);
		turn(&n[0]);
		if (!n[0].ep)
			turn(&n[1]);
	}
	CHECK(!n[1].ep);
}

/* Destroys the endpoint of side 0 without a goodbye, as if its process was killed. */
static void leave(struct node n[2])
{
	lose(n, 0);
	copyrpc_ep_destroy(n[0].ep);
	n[0].ep = NULL;
}

static uint32_t kept(const struct node *n)
{
	uint32_t count = 0;

	for (const struct copyrpc_ep *ep = n->ctx->eps; ep; ep = ep->next)
		count += ep->parked && !ep->ch.status;
	return count;
}

/* The endpoint is kept while the peer may return, and no longer. The program gets no event. */
TEST(time_is_over)
{
	NODES n[2];

	open_behind_proxy(n, 1, 0);
	up_alone(n);
	leave(n);
	SOON(kept(&n[1]));
	turns(n, 1000);
	CHECK_EQ(kept(&n[1]), 1);
	now += returning.reconnect_ms * NSEC_PER_MSEC;
	SOON(!n[1].ctx->eps);
	CHECK(!n[1].ep && !n[1].ends);
	close_proxy();
}

/* At most max_guests endpoints are kept. If there is one more, the oldest is given up. */
TEST(too_many)
{
	uint64_t oldest = 0;
	NODES n[2];

	open_behind_proxy(n, 3, 2);
	for (uint32_t i = 1; i <= 3; i++) {
		uint32_t cuts = proxy.cuts;

		up_alone(n);
		oldest = oldest ? oldest : n[0].ep->owner;
		leave(n);
		SOON(proxy.cuts > cuts && kept(&n[1]) == (i < 2 ? i : 2) && !n[0].ctx->eps);
		turns(n, 200);
	}
	CHECK_EQ(kept(&n[1]), 2);
	for (const struct copyrpc_ep *ep = n[1].ctx->eps; ep; ep = ep->next)
		CHECK(ep->ch.status || ep->peer_owner != oldest);
	CHECK(!n[1].ep);
	close_proxy();
}

/* Returns false if the connection was lost before the request arrived. On a busy machine TCP may be
 * so slow that the listening side handles the cut first. */
static bool request_comes(void)
{
	NODES n[2];
	bool comes;

	slow_path = true;
	open_behind_proxy(n, 1, 0);
	up_alone(n);
	comes = call_unhandled(n);
	leave(n);
	if (comes) {
		SOON(n[1].ep);
		CHECK(n[1].executed[0]);
		SOON(n[1].downs);
		now += returning.reconnect_ms * NSEC_PER_MSEC;
		SOON(n[1].ends);
	}
	close_proxy();
	return comes;
}

/* A request has shown that the peer is up. The program gets the endpoint, and later the event of
 * its end. */
TEST(request_came)
{
	for (int left = 20; !request_comes(); left--)
		CHECK(left);
}

static void destroy_all(struct copyrpc_ctx *ctx)
{
	for (struct copyrpc_ep *ep = ctx->eps; ep; ep = ep->next)
		copyrpc_ep_destroy(ep);
}

/* The listening side does not have the endpoint any more, so the dial gets another one. */
TEST(refused)
{
	NODES n[2];

	open_behind_proxy(n, 1, 0);
	arm_cut(1, FIRST - 1, 0);
	dial(n);
	SOON(n[0].ctx->n_away);
	destroy_all(n[1].ctx);
	n[1].ep = NULL;
	SOON(n[0].ep && n[1].ep);
	call_once(n);
	CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
	close_proxy();
}

/* The listening side destroys the endpoint before it is up. */
TEST(destroyed)
{
	NODES n[2];

	open_behind_proxy(n, 1, 0);
	up_alone(n);
	SOON(kept(&n[1]));
	destroy_all(n[1].ctx);
	SOON(n[0].ends);
	CHECK(!n[1].ep && !n[1].ctx->eps);
	close_proxy();
}

/* ------------------------------------------------------------------ late greetings */

static uint32_t result_on(struct node n[2], int fd)
{
	uint8_t bytes[FIRST];
	struct result r;

	SOON(recv(fd, bytes, FIRST, MSG_PEEK | MSG_DONTWAIT) == FIRST);
	memcpy(&r, bytes + sizeof(struct greeting), sizeof(r));
	return le32toh(r.error);
}

/* The greeting of a dial's first attempt is read after that of its second one: it ends no
 * endpoint. */
TEST(late_greeting)
{
	struct copyrpc_ep *ep;
	struct greeting g;
	int fd[2];
	NODES n[2];

	open_behind_proxy(n, 3, 0);
	CHECK_EQ(copyrpc_ep_create(n[0].ctx, NULL, &ep), 0);
	g = greeting_of(ep, 2, 7, 1);
	for (int i = 0; i < 2; i++)
		fd[i] = stranger_connect((uint16_t)proxy.to);
	turns(n, 50);
	stranger_say(fd[1], &g, sizeof(g));
	CHECK_EQ(result_on(n, fd[1]), 0);
	stranger_say(fd[0], &g, sizeof(g));
	CHECK_EQ(result_on(n, fd[0]), EALREADY);
	CHECK(n[1].ctx->eps && !n[1].ctx->eps->ch.status && !n[1].ctx->eps->next);
	for (int i = 0; i < 2; i++)
		close(fd[i]);
	close_proxy();
}

/* ------------------------------------------------------------------ functions that wait */

/* The dialing side, the proxy and the accepting side are threads. */
static struct {
	struct node n[2];
	pthread_mutex_t lock; /* protects `proxy` */
	/* Odd: the sides connect; even: the accepting side destroys its endpoints, and then stores
	 * the number in `cleared`; 0: the end. */
	_Atomic uint32_t round, cleared;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t round_now(void)
{
	return atomic_load(&waiting.round); /* pairs with the store in set_round() */
}

static void set_round(uint32_t round)
{
	atomic_store(&waiting.round, round); /* pairs with the load in round_now() */
}

static void *run_proxy(void *arg)
{
	while (round_now()) {
		pthread_mutex_lock(&waiting.lock);
		proxy_turn(NULL);
		pthread_mutex_unlock(&waiting.lock);
		poll(NULL, 0, 1);
	}
	return NULL;
}

static void clear(struct copyrpc_ctx *ctx)
{
	destroy_all(ctx);
	while (ctx->eps)
		copyrpc_poll(ctx, NULL, NULL);
}

static void *run_server(void *arg)
{
	struct copyrpc_ctx *ctx = waiting.n[1].ctx;
	struct copyrpc_req *req;
	struct copyrpc_ep *ep;
	uint32_t round;

	while ((round = round_now())) {
		if (round % 2 == 0) {
			clear(ctx);
			atomic_store(&waiting.cleared,
				round); /* pairs with the load in part_waiting() */
			poll(NULL, 0, 1);
			continue;
		}
		copyrpc_accept(ctx, NULL, waiting.n[1].listener, SLICE_MS, &ep);
		copyrpc_poll(ctx, NULL, NULL);
		while (copyrpc_recv(ctx, &req))
			copyrpc_reply(req, NULL, 0);
	}
	clear(ctx);
	return NULL;
}

static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	*(int *)arg = status;
}

static int call_waiting(struct copyrpc_ctx *ctx, struct copyrpc_ep *ep)
{
	int status = copyrpc_call(ep, NULL, 0, 0, 0);

	if (status)
		return status;
	status = 1;
	while (status == 1)
		copyrpc_poll(ctx, on_end, &status);
	return status;
}

/* Without reconnect_ms, one side may have an endpoint whose peer does not exist. Then the call
 * fails, and this side connects again. */
static void connect_waiting(struct copyrpc_ctx *ctx, bool returns)
{
	uint16_t port = (uint16_t)copyrpc_tcp_port(proxy.listener);
	struct copyrpc_ep *ep;
	int rc;

	do {
		rc = copyrpc_connect(ctx, NULL, "127.0.0.1", port, 60000, &ep);
		if (!rc)
			rc = call_waiting(ctx, ep);
		CHECK(!rc || (!returns && rc == -ECONNRESET));
		clear(ctx);
	} while (rc);
}

static void part_waiting(uint32_t round)
{
	set_round(round);
	while (atomic_load(&waiting.cleared) != round) /* pairs with the store in run_server() */
		poll(NULL, 0, 1);
}

/* Both sides use functions that wait. In the end they are connected, and nothing of the other
 * attempts is left. */
static void cut_waiting(int side, int learns, bool returns)
{
	static const uint32_t at[] = {0, 64, 128, 143, 144};
	const struct copyrpc_ctx_attr attr = {.size = sizeof(attr),
		.ring_size = 4096,
		.max_endpoints = 3,
		.sq_depth = 16,
		.reconnect_ms = returns ? FAR_MS : 0,
		.path = &quick};
	struct node *n = waiting.n;
	pthread_t thread[2];

	open_contexts(n, &attr, true);
	open_proxy(n);
	set_round(1);
	CHECK_EQ(pthread_create(&thread[0], NULL, run_proxy, NULL), 0);
	CHECK_EQ(pthread_create(&thread[1], NULL, run_server, NULL), 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(at); i++) {
		uint32_t cuts;

		pthread_mutex_lock(&waiting.lock);
		arm_cut(side, at[i], learns);
		cuts = proxy.cuts;
		pthread_mutex_unlock(&waiting.lock);
		set_round(2 * i + 1);
		connect_waiting(n[0].ctx, returns);
		part_waiting(2 * i + 2);
		pthread_mutex_lock(&waiting.lock);
		CHECK_EQ(proxy.cuts, cuts + 1);
		close_connections();
		pthread_mutex_unlock(&waiting.lock);
	}
	set_round(0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	close_nodes(&waiting.n);
	close_proxy();
}

TEST_WITH(waiting_dialer_says, cut_waiting, 0, 1, false);
TEST_WITH(waiting_dialer_says_and_learns, cut_waiting, 0, 0, false);
TEST_WITH(waiting_listener_says, cut_waiting, 1, 0, false);
TEST_WITH(waiting_listener_says_and_learns, cut_waiting, 1, 1, false);
TEST_WITH(waiting_dialer_says_returns, cut_waiting, 0, 1, true);
TEST_WITH(waiting_listener_says_returns, cut_waiting, 1, 0, true);
