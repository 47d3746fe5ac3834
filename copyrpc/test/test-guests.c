/* SPDX-License-Identifier: MIT */
/* Connections that a listener has accepted, and their endpoints before the program gets them. */
#include "puppet.h"
#include "copyrpc_tcp.h"

#define GUARD_MS 60000

/* Much time passes between two readings, so the accepting side soon stops waiting for a
 * connection. */
static uint64_t hurried_clock(void)
{
	static uint64_t now = 1000 * NSEC_PER_SEC;

	return now += 200 * NSEC_PER_MSEC;
}

/* A server and its clients. */
struct server {
	struct copyrpc_ctx *ctx, *clients;
	int listener;
	uint16_t port;
	struct puppet p[12];
	int n; /* clients that have come */
};

static struct server open_returning(uint32_t reconnect_ms)
{
	const struct copyrpc_ctx_attr attr = {.size = sizeof(attr),
		.max_endpoints = 32,
		.ring_size = 4096,
		.reconnect_ms = reconnect_ms};
	struct server s = {.n = 0};

	CHECK_EQ(copyrpc_ctx_create(&attr, &s.ctx), 0);
	CHECK_EQ(copyrpc_ctx_create(&attr, &s.clients), 0);
	s.ctx->clock = hurried_clock;
	s.ctx->look_always = true;
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &s.listener), 0);
	s.port = (uint16_t)copyrpc_tcp_port(s.listener);
	return s;
}

static struct server open_server(void)
{
	return open_returning(0);
}

static void close_server(struct server *s)
{
	while (s->n)
		puppet_close(&s->p[--s->n]);
	copyrpc_ctx_destroy(s->clients);
	copyrpc_ctx_destroy(s->ctx);
	close(s->listener);
}

#define SERVER AT_END(close_server) struct server /* closed at the end of its block */

/* ------------------------------------------------------------------ destroyed before the return */

/* One of two clients is slow. copyrpc_accept() returns the endpoint of the other client. Then the
 * connection of the slow client is completed inside a poll. */
static void accept_one_of(struct server *s, uint32_t flags, uint64_t owner)
{
	struct puppet *p = s->p;
	struct copyrpc_ep *ep;

	while (s->n < 2)
		puppet_come(&p[s->n++], s->clients, s->port, 0);
	puppet_say(&p[0], flags, owner);
	puppet_say(&p[1], 0, 0);
	puppet_result(&p[1]);
	CHECK_EQ(copyrpc_accept(s->ctx, NULL, s->listener, GUARD_MS, &ep), 0);
	puppet_connect(&p[1]);
	puppet_result(&p[0]);
	copyrpc_poll(s->ctx, NULL, NULL);
	puppet_connect(&p[0]);
}

static void accept_one_of_two(struct server *s)
{
	accept_one_of(s, 0, 0);
}

/* The program destroys the slow client's endpoint at its first request. */
static void destroy_with_request(struct server *s)
{
	struct copyrpc_req *req;

	CHECK_EQ(copyrpc_call(s->p[0].ep, "x", 1, 1, 0), 0);
	copyrpc_flush(s->clients);
	copyrpc_poll(s->ctx, NULL, NULL);
	CHECK_EQ(copyrpc_recv(s->ctx, &req), 1);
	copyrpc_ep_destroy(copyrpc_req_ep(req));
	copyrpc_reply(req, NULL, 0);
	copyrpc_poll(s->ctx, NULL, NULL); /* frees the endpoint */
}

TEST(destroyed_before_accept)
{
	struct copyrpc_ep *ep = NULL;
	SERVER s = open_server();

	accept_one_of_two(&s);
	destroy_with_request(&s);
	CHECK_EQ(copyrpc_accept(s.ctx, NULL, s.listener, 0, &ep), -ETIMEDOUT);
	CHECK(!ep);
}

TEST(destroyed_before_unlisten)
{
	SERVER s = open_server();

	accept_one_of_two(&s);
	destroy_with_request(&s);
	CHECK_EQ(copyrpc_unlisten(s.ctx, s.listener), 0);
}

/* An endpoint that was not destroyed is returned, and then works like any other. */
TEST(kept_until_accept)
{
	struct copyrpc_ep *ep;
	SERVER s = open_server();

	accept_one_of_two(&s);
	CHECK_EQ(copyrpc_accept(s.ctx, NULL, s.listener, 0, &ep), 0);
	destroy_with_request(&s);
	CHECK_EQ(copyrpc_accept(s.ctx, NULL, s.listener, 0, &ep), -ETIMEDOUT);
}

#define OWNER 77 /* number of the slow client's endpoint */
#define RETURNS 2u /* flags of the greeting */
#define AGAIN 4u

/* Returns the server's endpoint for the slow client. */
static struct copyrpc_ep *slow_one(const struct server *s)
{
	struct copyrpc_ep *ep = s->ctx->eps;

	while (ep->peer_owner != OWNER)
		ep = ep->next;
	return ep;
}

/* The slow client returns before copyrpc_accept() has returned its endpoint. Then the endpoint is
 * returned all the same. The server's first socket for the client is closed. Its number belongs to
 * another socket of the program, which the library must not touch. */
TEST(returned_before_accept)
{
	struct place place = {.magic = "CPRPCPOS", .attempt = htole64(1)};
	struct copyrpc_ep *ep;
	int other[8][2];
	char byte;
	SERVER s = open_returning(60000);

	accept_one_of(&s, RETURNS, OWNER);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, other[i]), 0);
	close(s.p[0].fd);
	s.p[0].fd = stranger_connect(s.port);
	puppet_say(&s.p[0], RETURNS | AGAIN, OWNER);
	place.whom = htole64(slow_one(&s)->owner);
	stranger_say(s.p[0].fd, &place, sizeof(place));
	CHECK_EQ(copyrpc_accept(s.ctx, NULL, s.listener, 0, &ep), 0);
	CHECK(ep == slow_one(&s) && !copyrpc_ep_status(ep));
	CHECK_EQ(ep->attempt, 1);
	for (int i = 0; i < 8; i++) {
		CHECK_EQ(send(other[i][0], "x", 1, MSG_NOSIGNAL), 1);
		CHECK_EQ(recv(other[i][1], &byte, 1, MSG_DONTWAIT), 1);
		close(other[i][0]);
		close(other[i][1]);
	}
}

/* A connection that has not sent its greeting gets an endpoint with the attributes of the last
 * copyrpc_accept() that did not refuse them. */
TEST(refused_attributes)
{
	const struct copyrpc_ep_attr bad = {.size = sizeof(bad), .ring_size = 3};
	struct copyrpc_ep *ep;
	SERVER s = open_server();

	while (s.n < 2)
		puppet_come(&s.p[s.n++], s.clients, s.port, 0);
	puppet_say(&s.p[1], 0, 0);
	puppet_result(&s.p[1]);
	CHECK_EQ(copyrpc_accept(s.ctx, NULL, s.listener, GUARD_MS, &ep), 0);
	CHECK_EQ(copyrpc_accept(s.ctx, &bad, s.listener, 0, &ep), -EINVAL);
	puppet_say(&s.p[0], 0, 0);
	puppet_result(&s.p[0]);
	copyrpc_poll(s.ctx, NULL, NULL);
	puppet_connect(&s.p[0]);
	CHECK_EQ(copyrpc_accept(s.ctx, NULL, s.listener, GUARD_MS, &ep), 0);
}

/* ------------------------------------------------------------------ work of a poll */

/* Greetings and results wait in the backlog. A poll creates at most two endpoints, or one if the
 * context was not armed, whether or not they can be connected. */
static void fill_backlog(bool armed, uint32_t ring_size)
{
	struct copyrpc_event e;
	SERVER s = open_server();
	uint32_t first, ups = 0;

	while (s.n < (int)ARRAY_SIZE(s.p)) {
		puppet_greet(&s.p[s.n], s.clients, s.port, ring_size);
		puppet_result(&s.p[s.n++]);
	}
	first = s.ctx->set_ups;
	CHECK_EQ(copyrpc_listen(s.ctx, NULL, s.listener, 0), 0);
	while (s.ctx->set_ups - first < (ring_size ? 1 : 2) * ARRAY_SIZE(s.p)) {
		uint32_t made = s.ctx->set_ups;

		if (armed)
			copyrpc_ctx_arm(s.ctx);
		copyrpc_poll(s.ctx, NULL, NULL);
		CHECK(s.ctx->set_ups - made <= (ring_size ? 1u : 2u) * (armed ? 2 : 1));
		for (; copyrpc_event_recv(s.ctx, &e, sizeof(e)); ups++)
			CHECK_EQ(e.kind, COPYRPC_UP);
	}
	CHECK_EQ(ups, ring_size ? 0 : ARRAY_SIZE(s.p));
}

TEST(a_full_backlog)
{
	fill_backlog(false, 0);
	fill_backlog(true, 0);
}

TEST(a_backlog_that_fails)
{
	fill_backlog(false, 8192);
	fill_backlog(true, 8192);
}

/* The milliseconds until the end of the patience do not fit into an int. */
TEST(a_long_patience)
{
	const struct copyrpc_listen_attr attr = {.size = sizeof(attr), .patience_ms = UINT32_MAX};
	SERVER s = open_server();

	CHECK_EQ(copyrpc_listen(s.ctx, &attr, s.listener, 0), 0);
	puppet_come(&s.p[s.n++], s.clients, s.port, 0);
	while (!s.ctx->side->due || s.ctx->side->due == UINT64_MAX)
		copyrpc_poll(s.ctx, NULL, NULL);
	CHECK_EQ(copyrpc_ctx_timeout(s.ctx), INT32_MAX);
}

/* ------------------------------------------------------------------ numbers of sockets */

/* A program closes its listener, and another socket gets the descriptor's number: the connections
 * in progress of the former listener do not belong to the new one. */
TEST(a_number_is_used_again)
{
	struct copyrpc_ep *ep;
	SERVER s = open_server();

	accept_one_of_two(&s);
	close(s.listener);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &s.listener), 0); /* the smallest free number */
	CHECK_EQ(copyrpc_accept(s.ctx, NULL, s.listener, 0, &ep), -ETIMEDOUT);
	close(s.listener);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &s.listener), 0);
	CHECK_EQ(copyrpc_unlisten(s.ctx, s.listener), -ENOENT);
	CHECK_EQ(copyrpc_accept(s.ctx, NULL, s.listener, 0, &ep), -ETIMEDOUT);
	CHECK_EQ(copyrpc_listen(s.ctx, NULL, s.listener, 0), -EBUSY); /* the same socket */
	close(s.listener);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &s.listener), 0);
	CHECK_EQ(copyrpc_listen(s.ctx, NULL, s.listener, 0), 0);
}
