/* SPDX-License-Identifier: MIT */
/*
 * TCP connections that are cut at any byte of a handshake. A proxy in the test carries the bytes, and
 * closes one connection after it has carried a number of them in one direction.
 */
#include <endian.h>

#include "support/stranger.h"
#include "back.h"
#include "lobby.h"
#include "meet.h"

#define FIRST 144 /* bytes that each side says in a first meeting, and in a later one */
#define LATER 176

#define LATE 100 /* turns after which the other side learns of a cut */

static struct {
	int listener, to; /* to: the port of node 1 */
	int fd[2]; /* of the present connection, to each node; -1: none */
	int stale; /* the rest of one that was cut; -1: none */
	int side, learns; /* who says the bytes that count; who learns of the cut first */
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

/* Carries what the node @from has said. */
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

static void open_behind_proxy(struct node n[2], uint32_t endpoints,
	const struct copyrpc_listen_attr *listen)
{
	const struct copyrpc_ctx_attr attr = {.size = sizeof(attr),
		.ring_size = 4096,
		.max_endpoints = endpoints,
		.sq_depth = 16,
		.reconnect_ms = 1000000000,
		.probe_ms = 5000,
		.path = &quick};

	open_contexts(n, &attr, false);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &n[1].listener), 0);
	CHECK_EQ(copyrpc_listen(n[1].ctx, listen, n[1].listener, 1), 0);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &proxy.listener), 0);
	proxy.to = copyrpc_tcp_port(n[1].listener);
	proxy.fd[0] = proxy.fd[1] = proxy.stale = -1;
	proxy.armed = false;
	tend = proxy_turn;
}

static void close_proxy(void)
{
	close_end(&proxy.fd[0]);
	close_end(&proxy.fd[1]);
	close_end(&proxy.stale);
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

/* Polls both until the condition holds. It must hold soon. */
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

/* Both programs destroy their endpoints. */
static void part(struct node n[2])
{
	for (int i = 0; i < 2; i++) {
		copyrpc_ep_destroy(n[i].ep);
		n[i].ep = NULL;
	}
	SOON(!n[0].ctx->eps && !n[1].ctx->eps);
}

/* The dial is not disturbed by the cut: each side has one endpoint, and no call is lost. */
static void cut_first(int side, int learns)
{
	NODES n[2];

	open_behind_proxy(n, 1, NULL);
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

/* An endpoint that returns is not disturbed either. */
static void cut_later(int side, int learns)
{
	NODES n[2];

	open_behind_proxy(n, 1, NULL);
	dial(n);
	SOON(n[0].ep && n[1].ep);
	for (uint32_t at = 0; at <= LATER; at++) {
		uint32_t backs[2] = {n[0].backs, n[1].backs};

		arm_cut(side, at, learns);
		ep_fail(n[0].ep, -ECONNRESET);
		call_once(n);
		SOON(n[0].backs > backs[0] && n[1].backs > backs[1]);
	}
	CHECK(proxy.cuts > LATER);
	CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
	close_proxy();
}

TEST_WITH(again_dialer_says_and_learns, cut_later, 0, 0);
TEST_WITH(again_listener_says, cut_later, 1, 0);

/* ------------------------------------------------------------------ who does not return */

/* The dialing side is up, and the listening side will not get the rest of its result. */
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

static void leave(struct node n[2])
{
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

/* The endpoint is kept while the peer may return, and no longer. The program hears nothing. */
TEST(time_is_over)
{
	NODES n[2];

	open_behind_proxy(n, 1, NULL);
	up_alone(n);
	leave(n);
	SOON(kept(&n[1]));
	for (int i = 0; i < 1000; i++)
		turn_both(n);
	CHECK_EQ(kept(&n[1]), 1);
	now += returning.reconnect_ms * NSEC_PER_MSEC;
	SOON(!n[1].ctx->eps);
	CHECK(!n[1].ep && !n[1].ends);
	close_proxy();
}

/* Not more endpoints are kept than there may be guests. The oldest one is given up. */
TEST(too_many)
{
	const struct copyrpc_listen_attr two = {.max_guests = 2};
	NODES n[2];

	open_behind_proxy(n, 3, &two);
	for (uint32_t i = 1; i <= 3; i++) {
		uint32_t cuts = proxy.cuts;

		up_alone(n);
		leave(n);
		SOON(proxy.cuts > cuts && kept(&n[1]) == (i < 2 ? i : 2) && !n[0].ctx->eps);
		for (int k = 0; k < 200; k++)
			turn_both(n);
	}
	CHECK_EQ(kept(&n[1]), 2);
	CHECK(!n[1].ep);
	close_proxy();
}

/* A request has shown that the peer is up. The program gets the endpoint, and its end. */
TEST(request_came)
{
	NODES n[2];

	open_behind_proxy(n, 1, NULL);
	up_alone(n);
	call_unhandled(n);
	leave(n);
	SOON(n[1].ep);
	CHECK(n[1].executed[0]);
	SOON(n[1].downs);
	now += returning.reconnect_ms * NSEC_PER_MSEC;
	SOON(n[1].ends);
	close_proxy();
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

	open_behind_proxy(n, 1, NULL);
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

	open_behind_proxy(n, 1, NULL);
	up_alone(n);
	SOON(kept(&n[1]));
	destroy_all(n[1].ctx);
	SOON(n[0].ends);
	CHECK(!n[1].ep && !n[1].ctx->eps);
	close_proxy();
}

/* ------------------------------------------------------------------ late greetings */

/* Greets as a dial whose owner has that number. */
static void greet(int fd, const struct copyrpc_ep *ep)
{
	struct greeting g = {.magic = "CPRPCTC",
		.version = htole16(2),
		.len = htole16(sizeof(g)),
		.flags = htole32(2),
		.owner = htole64(7),
		.node = htole64(1)};

	g.magic[7] = 'P';
	copyrpc_ep_info(ep, g.blob);
	stranger_say(fd, &g, sizeof(g));
}

static uint32_t result_on(struct node n[2], int fd)
{
	uint8_t bytes[FIRST];
	struct result r;

	SOON(recv(fd, bytes, FIRST, MSG_PEEK | MSG_DONTWAIT) == FIRST);
	memcpy(&r, bytes + sizeof(struct greeting), sizeof(r));
	return le32toh(r.error);
}

/* The greeting of a dial's first attempt is read after that of its second one: it ends nothing. */
TEST(late_greeting)
{
	struct copyrpc_ep *ep;
	int fd[2];
	NODES n[2];

	open_behind_proxy(n, 3, NULL);
	CHECK_EQ(copyrpc_ep_create(n[0].ctx, NULL, &ep), 0);
	for (int i = 0; i < 2; i++)
		fd[i] = stranger_connect((uint16_t)proxy.to);
	for (int i = 0; i < 50; i++)
		turn_both(n);
	greet(fd[1], ep);
	CHECK_EQ(result_on(n, fd[1]), 0);
	greet(fd[0], ep);
	CHECK_EQ(result_on(n, fd[0]), EALREADY);
	CHECK(n[1].ctx->eps && !n[1].ctx->eps->ch.status && !n[1].ctx->eps->next);
	for (int i = 0; i < 2; i++)
		close(fd[i]);
	close_proxy();
}
