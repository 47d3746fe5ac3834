/* SPDX-License-Identifier: MIT */
/* Endpoints that are connected again, one case after the other. A hello is the greeting of the side
 * that dials again (docs/reconnect.md). */
#include <poll.h>

#include "back.h"
#include "puppet.h"

static void returns(int side, bool traffic)
{
	NODES n[2];

	open_nodes(n, &returning);
	up(n);
	for (uint32_t i = 1; i <= 3; i++) {
		lose(n, side);
		calls(n, traffic ? 20 : 0);
		while (n[0].backs < i || n[1].backs < i)
			turn_both(n);
		CHECK(n[0].downs >= i && n[1].downs >= i);
	}
	calls(n, 20);
	CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
}

TEST_WITH(dialing_side, returns, 0, true);
TEST_WITH(listening_side, returns, 1, true);
TEST_WITH(idle_dialing_side, returns, 0, false);
TEST_WITH(idle_listening_side, returns, 1, false);

/* Sleeps until one of the nodes has an event, or something to do. */
static void sleep_both(struct node n[2])
{
	struct pollfd fds[2];
	int ms = -1;

	for (int i = 0; i < 2; i++) {
		int due = copyrpc_ctx_timeout(n[i].ctx);

		if (copyrpc_ctx_arm(n[i].ctx))
			return;
		ms = due >= 0 && (ms < 0 || due < ms) ? due : ms;
		fds[i] = (struct pollfd){.fd = copyrpc_ctx_fd(n[i].ctx), .events = POLLIN};
	}
	CHECK(poll(fds, 2, ms) >= 0);
}

/* Nodes that sleep and have no calls notice the loss, and return. */
TEST(sleeping)
{
	NODES n[2];

	open_contexts(n, &returning, true);
	dial_node(n);
	for (uint32_t losses = 0; n[0].backs < 3 || n[1].backs < 3;) {
		if (n[0].ep && n[1].ep && losses < 3 && n[0].backs == losses &&
			n[1].backs == losses) {
			lose(n, 1);
			losses++;
		}
		turn_both(n);
		sleep_both(n);
	}
	calls(n, 10);
}

/* True if the status reports a lost connection. -ETIMEDOUT: the probe was not answered before the
 * HCA reported the loss. */
static bool is_loss(int status)
{
	return status == -ECONNRESET || status == -ETIMEDOUT;
}

static void open_up(struct node n[2])
{
	open_nodes(n, &returning);
	up(n);
	calls(n, 10);
}

/* The peer does not have the endpoint any more, and did not say goodbye, as after a restart. */
TEST(peer_is_gone)
{
	NODES n[2];

	open_up(n);
	lose(n, 1);
	copyrpc_ep_destroy(n[1].ep);
	n[1].ep = NULL;
	n[0].most += 5;
	UNTIL(n[0].ends);
	CHECK(n[0].downs <= 1); /* the peer may be asked before the HCA reports the loss */
	CHECK(n[0].failed && n[0].done == n[0].made);
	CHECK_EQ(n[0].status, -ECONNRESET);
	CHECK_EQ(copyrpc_ep_status(n[0].ep), -ECONNRESET);
}

/* Nobody listens until the time is over. Both ends then fail by themselves. */
TEST(too_late)
{
	NODES n[2];

	open_up(n);
	CHECK_EQ(copyrpc_unlisten(n[1].ctx, n[1].listener), 0);
	close(n[1].listener);
	lose(n, 0);
	n[1].most += 3;
	UNTIL(n[0].downs && n[1].downs);
	CHECK_EQ(copyrpc_ep_status(n[0].ep), 0);
	CHECK(described(n[0].ep, "being connected again"));
	CHECK(copyrpc_ctx_timeout(n[1].ctx) >= 0 && copyrpc_ctx_timeout(n[1].ctx) <= 100);
	CHECK_EQ(n[0].ends + n[1].ends, 0);
	now += returning.reconnect_ms * NSEC_PER_MSEC;
	UNTIL(n[0].ends && n[1].ends);
	CHECK(n[1].failed && n[1].done == n[1].made);
	CHECK(is_loss(n[1].status));
	n[1].listener = dup(0);
}

/* The peer listens at another port, which the program sets by copyrpc_redial(). */
TEST(another_port)
{
	NODES n[2];
	int listener;

	open_up(n);
	CHECK_EQ(copyrpc_unlisten(n[1].ctx, n[1].listener), 0);
	CHECK_EQ(copyrpc_redial(n[1].ep, "127.0.0.1", 1), -EOPNOTSUPP);
	listener = n[1].listener;
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &n[1].listener), 0);
	close(listener);
	CHECK_EQ(copyrpc_listen(n[1].ctx, NULL, n[1].listener, 1), 0);
	lose(n, 0);
	UNTIL(described(n[0].ep, "last attempt: Connection refused"));
	CHECK_EQ(copyrpc_redial(n[0].ep, "192.0.2.1.2", 1), -EADDRNOTAVAIL);
	CHECK_EQ(copyrpc_redial(n[0].ep, "127.0.0.1", (uint16_t)copyrpc_tcp_port(n[1].listener)),
		0);
	UNTIL(n[0].backs && n[1].backs);
	calls(n, 10);
	CHECK(described(n[0].ep, ": connected"));
	lose(n, 1);
	calls(n, 10);
	CHECK_EQ(n[0].failed + n[1].failed, 0);
}

/* The library ends raw operations, which it cannot repeat. */
TEST(raw_operations)
{
	static uint64_t there = 1, here[2] = {2, 3};
	struct copyrpc_raw_done done;
	struct copyrpc_ctx_attr attr = returning;
	struct copyrpc_mr remote, local;
	NODES n[2];

	attr.sq_depth = 256; /* there is always room */
	open_nodes(n, &attr);
	up(n);
	CHECK_EQ(copyrpc_mr_reg(n[1].ctx, &there, 8, COPYRPC_REMOTE_WRITE, &remote), 0);
	CHECK_EQ(copyrpc_mr_reg(n[0].ctx, here, 16, 0, &local), 0);
	lose(n, 1);
	CHECK_EQ(copyrpc_write(n[0].ep, here, local.lkey, (uintptr_t)&there, remote.rkey, 8, 5), 0);
	UNTIL(n[0].downs);
	CHECK_EQ(copyrpc_write(n[0].ep, here, local.lkey, (uintptr_t)&there, remote.rkey, 8, 6),
		-EAGAIN);
	UNTIL(n[0].backs && n[1].backs);
	CHECK_EQ(copyrpc_raw_recv(n[0].ctx, &done), 1);
	CHECK_EQ(done.token, 5);
	CHECK(is_loss(done.status));
	CHECK_EQ(copyrpc_write(n[0].ep, here + 1, local.lkey, (uintptr_t)&there, remote.rkey, 8, 7),
		0);
	while (!copyrpc_raw_recv(n[0].ctx, &done))
		turn_both(n);
	CHECK(done.token == 7 && !done.status && there == 3);
	CHECK_EQ(copyrpc_raw_pending(n[0].ep), 0);
	copyrpc_mr_dereg(&local);
	copyrpc_mr_dereg(&remote);
}

static void on_limit(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	*(int *)arg = status;
}

/* A time limit continues to run; the response arrives later, and is dropped. */
TEST(time_limit)
{
	struct request r;
	NODES n[2];
	int ended = 0;

	open_up(n);
	lose(n, 0);
	UNTIL(n[0].downs);
	fill(&r, MOST - 1, 1);
	CHECK_EQ(copyrpc_call_timed(n[0].ep, &r, length(1), 500, 0, 10), 0);
	now += 20 * NSEC_PER_MSEC;
	copyrpc_poll(n[0].ctx, on_limit, &ended);
	CHECK_EQ(ended, -ETIMEDOUT);
	UNTIL(n[0].backs && n[1].backs && n[1].executed[MOST - 1]);
	calls(n, 50);
	CHECK_EQ(n[0].failed, 0);
}

/* If the context of `side` has no reconnect_ms, neither side returns. */
static void one_side(int side)
{
	NODES n[2];

	open_nodes(n, &returning);
	n[side].ctx->attr.reconnect_ms = 0;
	up(n);
	calls(n, 10);
	lose(n, 0);
	n[1].most += 1;
	UNTIL(n[1].ends);
	CHECK_EQ(n[1].failed, 1);
	CHECK_EQ(n[0].downs + n[1].downs, 0);
}

TEST_WITH(only_dialing_side, one_side, 1);
TEST_WITH(only_listening_side, one_side, 0);

/* The listening side loses the connection before it has received the peer's result. */
TEST(lost_before_up)
{
	struct copyrpc_ep *ep;
	NODES n[2];

	open_nodes(n, &returning);
	do {
		turn(&n[0]);
		turn(&n[1]);
		ep = n[1].ctx->eps;
	} while (!ep || ep->ch.status);
	CHECK(!ep->is_up);
	ep_fail(ep, -ECONNRESET);
	up(n);
	CHECK(n[1].ep == ep);
	calls(n, 10);
	UNTIL(n[0].backs && n[1].backs);
	CHECK_EQ(n[1].downs, 1);
	CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
}

/* The program destroys an endpoint, or its context, at several moments of its return. */
TEST(destroyed_while_away)
{
	for (int i = 0; i < 16; i++) {
		NODES n[2];

		open_nodes(n, &returning);
		up(n);
		lose(n, i & 1);
		UNTIL(n[0].ctx->n_away + n[1].ctx->n_away);
		for (int k = 0; k < i / 4; k++)
			turn(&n[k & 1]);
		if (i & 2)
			copyrpc_ep_destroy(n[i & 1].ep);
		turns(n, 3);
	}
}

/* A queue pair is drained when the device reports it, or after a second. */
TEST(drained)
{
	NODES n[2];

	open_up(n);
	for (int i = 0; i < 2; i++) {
		ep_leave(n[0].ep, -ECONNRESET);
		CHECK(!ep_is_drained(n[0].ep));
		if (i)
			now += NSEC_PER_SEC;
		else
			ctx_device_events(n[0].ctx);
		CHECK(ep_is_drained(n[0].ep));
		UNTIL(n[0].backs > (uint32_t)i && n[1].backs > (uint32_t)i);
	}
}

/* A side with a completion that it has not handled does not answer a hello. */
TEST(completions_come_first)
{
	NODES n[2];

	slow_path = true;
	open_up(n);
	CHECK(call_unhandled(n));
	ep_leave(n[0].ep, -ECONNRESET);
	for (int i = 0; i < 3000; i++) {
		turn(&n[0]);
		n[1].ctx->side->step(n[1].ctx);
	}
	CHECK_EQ(n[0].backs, 0);
	CHECK_EQ(n[1].ctx->n_away, 1); /* it has received the hello */
	UNTIL(n[0].backs && n[1].backs && idle(&n[0]));
	calls(n, 10);
}

/* ------------------------------------------------------------------ strangers */

struct hello {
	struct greeting greeting;
	struct place place;
};

/* Returns the hello that the dialing side would send in its next attempt. */
static struct hello hello_of(const struct node n[2])
{
	return (struct hello){greeting_of(n[0].ep, 6, n[0].ep->owner, n[0].ctx->node),
		{.magic = "CPRPCPOS",
			.whom = htole64(n[1].ep->owner),
			.attempt = htole64(n[0].ep->attempt + 1),
			.received = htole64(n[0].ep->ch.live.pos * WIRE_BLOCK)}};
}

static int send_hello(const struct node n[2], const struct hello *h)
{
	int fd = stranger_connect((uint16_t)copyrpc_tcp_port(n[1].listener));

	stranger_say(fd, h, sizeof(*h));
	return fd;
}

/* Sends a hello. Returns the error in the listener's result, before which the listener sends
 * `ahead` bytes. */
static uint32_t say_hello(struct node n[2], const struct hello *h, size_t ahead)
{
	uint8_t bytes[sizeof(*h) + sizeof(struct result)];
	int fd = send_hello(n, h);
	struct result r;

	while (recv(fd, bytes, ahead + sizeof(r), MSG_PEEK | MSG_DONTWAIT) <
		(ssize_t)(ahead + sizeof(r)))
		turn(&n[1]);
	CHECK_EQ(recv(fd, bytes, ahead, 0), ahead);
	CHECK_EQ(recv(fd, &r, sizeof(r), 0), sizeof(r));
	close(fd);
	return le32toh(r.error);
}

/* Sends bytes that are no hello: the listener closes the connection without an answer. */
static void say_nonsense(struct node n[2], const struct hello *h)
{
	int fd = send_hello(n, h);
	ssize_t got;
	uint8_t c;

	while ((got = recv(fd, &c, 1, MSG_DONTWAIT)) < 0)
		turn(&n[1]);
	CHECK_EQ(got, 0);
	close(fd);
}

TEST(hellos_are_checked)
{
	const size_t refusal = sizeof(struct greeting), whole = refusal + sizeof(struct place);
	NODES n[2];
	struct hello h;

	open_up(n);
	lose(n, 0);
	UNTIL(n[0].backs && n[1].backs);
	h = hello_of(n);
	h.place.whom ^= 1; /* the number of another process */
	CHECK_EQ(say_hello(n, &h, refusal), ENOENT);
	h = hello_of(n);
	h.greeting.owner ^= 1; /* the number of another endpoint */
	CHECK_EQ(say_hello(n, &h, refusal), ENOENT);
	h = hello_of(n);
	h.place.attempt = htole64(n[0].ep->attempt); /* an old attempt */
	CHECK_EQ(say_hello(n, &h, refusal), EALREADY);
	h = hello_of(n);
	h.place.magic[7] ^= 1;
	say_nonsense(n, &h);
	CHECK_EQ(n[1].downs, 1);
	calls(n, 10);
	h = hello_of(n);
	h.place.received = htole64((n[1].ep->ch.sent + 1) * WIRE_BLOCK);
	CHECK_EQ(say_hello(n, &h, whole), EPROTO);
	UNTIL(n[1].ends);
	CHECK_EQ(copyrpc_ep_status(n[1].ep), -EPROTO);
}

/* A side that cannot connect now reports that in its result, and its endpoint does not fail. */
TEST(not_now)
{
	NODES n[2];
	struct hello h;

	open_up(n);
	h = hello_of(n);
	h.greeting.blob[40] = 1; /* a GID, but the port is addressed by LID */
	CHECK_EQ(say_hello(n, &h, sizeof(h)), EMFILE);
	CHECK_EQ(copyrpc_ep_status(n[1].ep), 0);
	UNTIL(n[0].backs && n[1].backs);
	calls(n, 10);
}

/* Hellos with a wrong position, ring or key, each of which fails the endpoint. */
TEST(positions_are_checked)
{
	for (int i = 0; i < 5; i++) {
		NODES n[2];
		struct hello h;

		open_up(n);
		h = hello_of(n);
		switch (i) {
		case 0:
			h.place.received = htole64(n[1].ep->ch.cr.rc * WIRE_BLOCK - WIRE_BLOCK);
			break;
		case 1:
			h.place.received = htole64(n[1].ep->ch.sent * WIRE_BLOCK + 1);
			break;
		case 2:
			h.greeting.blob[56] ^= 64; /* another ring */
			break;
		default: /* another key */
			h.greeting.blob[i == 3 ? 72 : 76] ^= 1;
		}
		CHECK_EQ(say_hello(n, &h, sizeof(h)), EPROTO);
		UNTIL(n[1].ends);
		CHECK_EQ(copyrpc_ep_status(n[1].ep), -EPROTO);
	}
}

/* The peer of a dial must not connect the dial's endpoint again by a hello: the event of the dial
 * would be GONE, and the endpoint would stay. */
TEST(a_dial_is_not_taken_up)
{
	AT_END(end_close_fd) int listener = -1;
	uint8_t answer[sizeof(struct greeting) + sizeof(struct result)];
	struct puppet p;
	struct hello h;
	NODES n[2];

	open_contexts(n, &returning, false);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &n[1].listener), 0);
	CHECK_EQ(copyrpc_listen(n[1].ctx, NULL, n[1].listener, 1), 0);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	CHECK_EQ(copyrpc_dial(n[1].ctx, NULL, "127.0.0.1", (uint16_t)copyrpc_tcp_port(listener),
			 FAR_MS, 7),
		0);
	p.fd = accept(listener, NULL, NULL);
	CHECK_EQ(copyrpc_ep_create(n[0].ctx, NULL, &p.ep), 0);
	p.ep->owner = 5;
	puppet_say(&p, 2, p.ep->owner);
	while (recv(p.fd, answer, sizeof(answer), MSG_PEEK | MSG_DONTWAIT) <
		(ssize_t)sizeof(answer))
		turn(&n[1]);
	n[0].ep = p.ep;
	n[1].ep = n[1].ctx->eps;
	h = hello_of(n);
	h.greeting.node = htole64(1);
	n[1].ep = NULL;
	CHECK_EQ(say_hello(n, &h, sizeof(struct greeting)), ENOENT);
	puppet_connect(&p);
	puppet_result(&p);
	while (!n[1].ep)
		turn(&n[1]);
	CHECK_EQ(copyrpc_ep_status(n[1].ep), 0);
	close(p.fd);
}
