/* SPDX-License-Identifier: MIT */
/*
 * Cases of delegrpc and shmipc: clients are killed at random instructions of client_reconnect(),
 * and servers at random instructions of server_serve(). A program first includes the layer's
 * test/rpc.h. Only one file of a program may include this header, because it defines main().
 */
#ifndef SUPPORT_RPCSTEPS_H
#define SUPPORT_RPCSTEPS_H

#include "support/rpctokens.h"
#include "support/step.h"

#define rpc_event RPC(event)
#define STEPS_KILLS 25
#define STEPS_CLIENTS 2

static uint64_t steps_rng;

/*
 * Returns the number of instructions after which a victim is killed, at random below @length. In
 * the first run @length is 0: the victim executes all its instructions, which are counted.
 */
static inline uint32_t steps_limit(uint32_t length)
{
	return length ? (uint32_t)(test_rand(&steps_rng) % length) : UINT32_MAX;
}

static inline void steps_answer(void *arg, const struct RPC(req) * req, const void *payload)
{
	CHECK_EQ(RPC(server_reply)((struct rpc_server *)arg, req->client, req->id, payload, 8), 0);
}

/* ---- a client that dies ---- */

static inline struct rpc_server *steps_server(void)
{
	const struct rpc_attr attr = {.size = sizeof(attr),
		.max_clients = STEPS_CLIENTS,
		.events = 1};

	return server_with(&attr);
}

struct steps_turn {
	struct rpc_server *s;
	bool here[STEPS_CLIENTS];
};

/* Each client must come once and end once. Its events must have a pid and this user's uid. */
static inline void steps_serve(void *arg)
{
	struct steps_turn *t = (struct steps_turn *)arg;
	struct rpc_event e;

	while (RPC(server_event)(t->s, &e, sizeof(e)) > 0) {
		CHECK_EQ(t->here[e.index], e.kind != RPC_EVENT(CAME));
		CHECK(e.pid && e.uid == getuid());
		t->here[e.index] = e.kind == RPC_EVENT(CAME);
	}
	CHECK(RPC(server_serve)(t->s, steps_answer, t->s, 64) >= 0);
}

/*
 * A client's place is free once the server has noticed that the client left. New clients wait until
 * then.
 */
static const struct rpc_attr steps_patient = {.size = sizeof(steps_patient), .connect_ms = 60000};

static inline void steps_reconnect(void)
{
	struct again_tokens t = {0};
	struct rpc_client *c;
	int open;

	CHECK_EQ(RPC(client_connect)(test_name, &steps_patient, &c), 0);
	again_call(c, &t, 3);
	step_trace_me();
	again_bereave(c, &t);
	open = __builtin_popcountll(t.open); /* the server may have answered some */
	CHECK_EQ(RPC(client_abort)(c, again_take, &t), open);
	raise(SIGSTOP);
	CHECK_EQ(RPC(client_reconnect)(c, UINT64_MAX), 0);
	raise(SIGSTOP);
	_exit(0);
}

/* Connects as many clients as there are places: the victim's place must be free again. */
static inline void steps_take_places(struct steps_turn *t)
{
	struct rpc_client *c[STEPS_CLIENTS];
	pid_t pid = test_fork();
	int status;

	if (!pid) {
		for (int i = 0; i < STEPS_CLIENTS; i++)
			CHECK_EQ(RPC(client_connect)(test_name, &steps_patient, &c[i]), 0);
		for (int i = 0; i < STEPS_CLIENTS; i++)
			RPC(client_disconnect)(c[i]);
		_exit(0);
	}
	while (!waitpid(pid, &status, WNOHANG))
		steps_serve(t);
	CHECK_EQ(status, 0);
}

TEST(clients_die_in_reconnect)
{
	struct steps_turn t = {.s = steps_server()};
	uint32_t length = 0, n;

	for (int i = 0; i < STEPS_KILLS; i++) {
		uint32_t limit = steps_limit(length);
		pid_t pid = test_fork();

		if (!pid)
			steps_reconnect();
		CHECK_EQ(step_wait(pid, steps_serve, &t), SIGSTOP);
		RPC(server_destroy)(t.s);
		t = (struct steps_turn){.s = steps_server()};
		CHECK_EQ(step_next(pid, PTRACE_CONT, steps_serve, &t), SIGSTOP);
		for (n = 0; n < limit; n++)
			if (step_next(pid, PTRACE_SINGLESTEP, steps_serve, &t) == SIGSTOP)
				break;
		step_kill(pid);
		length = n > length ? n : length;
		steps_take_places(&t);
	}
	printf("  %u instructions\n", length);
	RPC(server_destroy)(t.s);
}

/* ---- a server that dies ---- */

static inline void steps_serve_for_ever(void)
{
	struct rpc_server *s = again_server(1, 8);

	step_trace_me();
	for (;;)
		CHECK(RPC(server_serve)(s, steps_answer, s, 5) >= 0);
}

static inline void steps_client_turn(struct rpc_client *c, struct again_tokens *t, uint32_t *made)
{
	uint64_t word = *made;

	if (*made < 64 && !RPC(client_call)(c, &word, sizeof(word), word)) {
		t->open |= 1ull << word;
		++*made;
	}
	CHECK(RPC(client_poll)(c, again_take, t) >= 0);
}

/* Each call ends once, and the same client continues with the next server. */
TEST(servers_die_in_serve)
{
	struct rpc_client *c = NULL;

	for (int i = 0; i < STEPS_KILLS; i++) {
		uint32_t steps = (uint32_t)(test_rand(&steps_rng) % 3000), made = 0;
		struct again_tokens t = {0};
		pid_t pid = test_fork();
		int open;

		if (!pid)
			steps_serve_for_ever();
		CHECK_EQ(step_wait(pid, NULL, NULL), SIGSTOP);
		if (c)
			CHECK_EQ(RPC(client_reconnect)(c, UINT64_MAX), 0);
		else
			c = client_new();
		for (uint32_t n = 0; n < steps; n++) {
			if (n % 32 == 0)
				steps_client_turn(c, &t, &made);
			CHECK_EQ(step_next(pid, PTRACE_SINGLESTEP, NULL, NULL), SIGTRAP);
		}
		step_kill(pid);
		while (RPC(client_wait)(c, UINT64_MAX) == 1) /* -EPIPE, or 0 if no call is open */
			CHECK(RPC(client_poll)(c, again_take, &t) >= 0);
		again_bereave(c, &t);
		open = __builtin_popcountll(t.open);
		CHECK_EQ(RPC(client_abort)(c, again_take, &t), open);
		CHECK_EQ(t.answered + t.ended, made);
	}
	RPC(client_disconnect)(c);
	RPC(server_destroy)(again_server(1, 8)); /* replaces the region of the last server */
}

int main(int argc, char **argv)
{
	steps_rng = test_seed();
	return test_main(argc, argv);
}

#endif
