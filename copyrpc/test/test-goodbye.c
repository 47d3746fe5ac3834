/* SPDX-License-Identifier: MIT */
/*
 * An endpoint that ends says goodbye. Where only the goodbye may inform the peer, the clock stands
 * still, so that no probe is made.
 */
#include "dial.h"
#include "lobby.h"
#include "meet.h"
#include "support/hcacall.h"

static void check_told(struct pair *p, struct heard *h, uint32_t failed)
{
	while (!copyrpc_ep_status(p->ep[0]))
		copyrpc_poll(p->ctx[0], hear, h);
	CHECK_EQ(copyrpc_ep_status(p->ep[0]), -ECONNRESET);
	CHECK_EQ(h->failed, failed);
	CHECK_EQ(h->status, failed ? -ECONNRESET : 0);
	CHECK_EQ(ep_stats_of(p->ep[0]).reads, 0);
	CHECK_EQ(copyrpc_call(p->ep[0], "x", 1, 1, 0), -ECONNRESET);
}

/* One call is in progress; the reply to another one is sent just before the end. */
TEST(a_peer_that_destroys_its_endpoint)
{
	struct heard h = {0};
	PAIR p = open_timed(NULL);
	struct copyrpc_req *req;

	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
	copyrpc_poll(p.ctx[0], hear, &h);
	copyrpc_poll(p.ctx[1], hear, &h);
	CHECK_EQ(copyrpc_recv(p.ctx[1], &req), 1);
	CHECK_EQ(copyrpc_reply(req, "y", 1), 0);
	copyrpc_poll(p.ctx[1], hear, &h);
	copyrpc_ep_destroy(p.ep[1]);
	check_told(&p, &h, 1);
	CHECK_EQ(h.ok, 1);
}

/* The other side has nothing to do, so it makes no probe. */
TEST(a_peer_that_destroys_its_context)
{
	struct heard h = {0};
	PAIR p = open_timed(NULL);

	copyrpc_ctx_destroy(p.ctx[1]);
	p.ctx[1] = NULL;
	check_told(&p, &h, 0);
}

TEST(a_peer_that_has_failed)
{
	struct heard h = {0};
	PAIR p = open_timed(NULL);

	CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
	copyrpc_poll(p.ctx[0], hear, &h);
	ep_fail(p.ep[1], -EPROTO);
	CHECK_EQ(copyrpc_ep_status(p.ep[1]), -EPROTO);
	check_told(&p, &h, 1);
	CHECK_EQ(ep_stats_of(p.ep[1]).wqes, 1);
	CHECK_EQ(ep_stats_of(p.ep[1]).doorbells, 1);
}

TEST(a_goodbye_is_not_answered)
{
	struct heard h = {0};
	PAIR p = open_timed(NULL);

	copyrpc_ep_destroy(p.ep[1]);
	check_told(&p, &h, 0);
	copyrpc_ep_destroy(p.ep[0]);
	CHECK_EQ(ctx_stats_of(p.ctx[0]).wqes, 0);
}

/* There is no room for the goodbye: a probe detects the end, as after any loss. */
TEST(a_goodbye_that_is_not_sent)
{
	static const struct copyrpc_ctx_attr attr = {.path = &impatient, .sq_depth = 16};
	struct heard h = {0};
	PAIR p = open_timed(&attr);

	CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
	copyrpc_poll(p.ctx[0], hear, &h);
	while (!mlx5dvl_post_write(p.ep[1]->qp, NULL, 0, 0, 0, 0, 0, 0))
		;
	copyrpc_ep_destroy(p.ep[1]);
	for (int i = 0; i < 1000; i++)
		copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(h.failed, 0);
	while (!h.failed) {
		now += 10 * NSEC_PER_MSEC;
		copyrpc_poll(p.ctx[0], hear, &h);
	}
	CHECK(h.status == -ECONNRESET || h.status == -ETIMEDOUT);
}

/* ------------------------------------------------------------------ endpoints that return */

static void open_returning(struct node n[2])
{
	open_nodes(n);
	for (int i = 0; i < 2; i++) {
		n[i].ctx->attr.reconnect_ms = FAR_MS;
		n[i].ctx->path.timeout = 16; /* 0.27 s, seven times */
	}
	dial(&n[0], n[1].port, false, 7);
	while (!n[0].ups || !n[1].ups)
		turn_both(n);
}

/* Checks that the endpoint has ended: the side that has dialed does not dial again, the other side
 * does not wait. */
static void check_over(struct node *n)
{
	uint64_t start = now;

	while (!n->downs)
		turn(n);
	CHECK(now - start < SECOND);
	CHECK_EQ(n->last.kind, COPYRPC_DOWN);
	CHECK_EQ(n->last.status, -ECONNRESET);
	CHECK_EQ(n->ctx->n_away, 0);
}

TEST(an_endpoint_that_could_return)
{
	for (int side = 0; side < 2; side++) {
		NODES n[2];

		open_returning(n);
		copyrpc_ep_destroy(n[side].up.ep);
		check_over(&n[!side]);
		CHECK_EQ(alive(&n[!side]), 0);
	}
}

/* The goodbye has arrived, but this side notices the loss of the connection before it handles the
 * goodbye. */
TEST(an_endpoint_that_is_away)
{
	NODES n[2];

	open_returning(n);
	copyrpc_ep_destroy(n[0].up.ep);
	while (!mlx5dvl_cq_ready(n[1].ctx->recv_cq))
		;
	ep_leave(n[1].up.ep, -ECONNRESET);
	check_over(&n[1]);
}

/* A goodbye over the former connection does not end the present one: the queue pair of the former
 * one does not exist any more. */
TEST(a_goodbye_to_the_former_connection)
{
	NODES n[2];

	open_returning(n);
	ep_leave(n[1].up.ep, -ECONNRESET);
	mlx5dvl_post_write_imm(n[0].up.ep->qp, NULL, 0, 0, 0, 0, WIRE_GOODBYE, 0, 0);
	mlx5dvl_ring(n[0].up.ep->qp);
	ep_leave(n[0].up.ep, -ECONNRESET);
	while (!returns(&n[0]))
		turn_both(n);
	call_both(n);
}

/* A process that was restarted dials. The peer's former endpoint has failed. */
TEST(a_peer_that_is_restarted)
{
	for (int side = 0; side < 2; side++) {
		NODES n[2];
		struct node *peer = &n[side], *other = &n[!side];
		uint16_t port;

		open_returning(n);
		port = other->port;
		close_node(peer);
		check_over(other);
		open_node(peer, 16, NULL);
		dial(peer, port, false, 8);
		while (!peer->ups || other->ups < 2)
			turn_both(n);
		CHECK_EQ(alive(other), 1);
		call_both(n);
	}
}

/* ------------------------------------------------------------------ without a goodbye */

/* Replaces the node by another one, which listens at the same port. */
static void open_again(struct node *n)
{
	int listener = dup(n->listener);

	close_node(n);
	open_node(n, 16, NULL);
	CHECK_EQ(copyrpc_unlisten(n->ctx, n->listener), 0);
	close(n->listener);
	n->listener = listener;
	CHECK_EQ(copyrpc_listen(n->ctx, NULL, n->listener, 1), 0);
}

/* A process that was killed has no queue pair any more, and says no goodbye. No call is pending.
 * The HCA would give up after seconds, the probe after probe_ms. This side must detect the end
 * earlier: it asks over TCP. */
TEST(a_peer_that_was_killed)
{
	uint64_t start = now;
	NODES n[2];

	open_returning(n);
	CHECK_EQ(mlx5dvl_qp_to_error(n[1].up.ep->qp), 0);
	open_again(&n[1]);
	while (!n[0].downs)
		turn_both(n);
	CHECK(now - start < SECOND);
	CHECK_EQ(n[0].last.status, -ECONNRESET);
	CHECK_EQ(alive(&n[0]), 0);
}

static uint64_t asked(const struct node *n)
{
	return container_of(n->ctx->side, struct lobby, side)->came;
}

/* The HCA of a peer that lives answers late. The peer is asked over TCP, once a second, and both
 * continue. */
TEST(a_peer_that_is_silent)
{
	NODES n[2];
	uint64_t came;
	int rule;

	open_returning(n);
	came = asked(&n[1]);
	rule = hca_fault("action=no_answer opcode=read");
	for (int i = 0; i < 2000; i++) /* four seconds */
		turn_both(n);
	CHECK(asked(&n[1]) > came && asked(&n[1]) - came <= 4);
	HCA(softhca_fault_remove)(rule);
	CHECK_EQ(n[0].downs + n[1].downs, 0);
	call_both(n);
	CHECK_EQ(alive(&n[0]) + alive(&n[1]), 2);
}

enum answer { RETURN, REFUSAL, VERSION };

/* Answers the question whether the peer has the endpoint. RETURN: as if the endpoint returned.
 * REFUSAL: with a refusal without a reason, which no correct peer sends. VERSION: as a process of
 * another version, which cannot have the endpoint. */
static void answer_as(int how)
{
	struct {
		struct greeting greeting;
		struct place place;
		struct result result;
	} bytes = {.result.magic = "CPRPCRES"};
	const size_t len = sizeof(bytes.greeting) + sizeof(bytes.place);
	AT_END(end_close_fd) int fd = -1, listener;
	uint64_t whom;
	NODES n[2];

	open_returning(n);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	CHECK_EQ(copyrpc_redial(n[0].up.ep, "127.0.0.1", (uint16_t)copyrpc_tcp_port(listener)), 0);
	CHECK_EQ(mlx5dvl_qp_to_error(n[1].up.ep->qp), 0);
	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) < 0)
		turn(&n[0]);
	while (recv(fd, &bytes, len, MSG_PEEK) < (ssize_t)len)
		turn(&n[0]);
	CHECK_EQ(bytes.place.attempt, 0);
	CHECK_EQ(le64toh(bytes.place.whom), n[1].up.ep->owner);
	whom = bytes.greeting.owner;
	bytes.greeting.owner = bytes.place.whom;
	bytes.place.whom = whom;
	bytes.greeting.version =
		htole16((uint16_t)(le16toh(bytes.greeting.version) + (how == VERSION)));
	if (how == RETURN) {
		CHECK_EQ(send(fd, &bytes, sizeof(bytes), 0), sizeof(bytes));
	} else {
		memset(bytes.greeting.blob, 0, sizeof(bytes.greeting.blob));
		CHECK_EQ(send(fd, &bytes.greeting, sizeof(bytes.greeting), 0),
			sizeof(bytes.greeting));
		CHECK_EQ(send(fd, &bytes.result, sizeof(bytes.result), 0), sizeof(bytes.result));
	}
	for (int i = 0; i < 50; i++)
		turn(&n[0]);
	CHECK_EQ(returns(&n[0]), 0);
	CHECK_EQ(n[0].downs, how == VERSION);
	CHECK(how == VERSION || !mlx5dvl_qp_status(n[0].up.ep->qp));
	CHECK_EQ(n[0].ctx->n_away, 0);
}

TEST_WITH(asked_and_returns, answer_as, RETURN);
TEST_WITH(asked_and_refuses_without_a_reason, answer_as, REFUSAL);
TEST_WITH(asked_and_has_another_version, answer_as, VERSION);
