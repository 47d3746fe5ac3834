/* SPDX-License-Identifier: MIT */
/*
 * Processes that die at any instruction. A victim is single-stepped by ptrace and killed after a
 * random number of instructions, so that it dies between any two memory operations of call, flush,
 * poll, recv, reply, connect and disconnect; or it runs freely and is killed after a random time.
 *
 *	test-kill [client kills [server kills [events]]]
 *
 * The server takes events unless the last number is 0. Without events it frees a client's place
 * when it has answered the client's requests in loans.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "support/step.h"
#include "common.h"

#define WITNESS_FLIGHT 10 /* enough calls in flight for bursts */
#define VICTIM_FLIGHT 12
#define WITNESS_TOKENS (1u << 20)
#define HELD 8

static struct shmipc_attr attr;
static uint64_t seed;
static uint32_t client_kills, server_kills; /* 0: the test case kills nothing */

/*
 * The tag of a victim's message has the number of the victim in its upper half, and the number of
 * the message below. In other tags the upper half is 0.
 */
#define VICTIM_TAG(victim) ((uint64_t)(victim) << 32)
#define VICTIM_OF(tag) ((uint32_t)((tag) >> 32))
#define VICTIMS_MAX 65536
static uint64_t newest[VICTIMS_MAX]; /* newest tag that the server has received, by victim */

/* Shared by the processes of this test. */
static struct shared {
	_Atomic uint32_t stop; /* makes the witness finish its calls and end */
	_Atomic uint64_t served; /* round trips of the witness */
} * shared;

/* ---- the witness: a client that must not be disturbed ---- */

static void witness_take(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	uint64_t *open = arg; /* bit t: the call with token t is in flight */
	struct msg m = *(const struct msg *)resp;

	CHECK(open[token / 64] >> token % 64 & 1);
	open[token / 64] &= ~(1ull << token % 64);
	msg_check(&m);
	CHECK(m.tag == msg_answer(token));
}

static void witness_main(void)
{
	static uint64_t open[WITNESS_TOKENS / 64];
	struct shmipc_client *c = NULL;
	uint64_t token = 0;
	int n;

	CHECK_EQ(shmipc_client_connect(test_name, &attr, &c), 0);
	while (!atomic_load_explicit(&shared->stop, memory_order_relaxed) ||
		shmipc_client_pending(c)) {
		while (shmipc_client_pending(c) < WITNESS_FLIGHT &&
			!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
			CHECK_EQ(call_tag(c, token), 0);
			open[token / 64] |= 1ull << token % 64;
			token = (token + 1) % WITNESS_TOKENS;
		}
		n = shmipc_client_poll(c, witness_take, open);
		CHECK(n >= 0);
		if (!n)
			CHECK(shmipc_client_wait(c, SHMIPC_FOREVER) >= 0);
		atomic_fetch_add_explicit(&shared->served, (uint64_t)n, memory_order_relaxed);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(open); i++)
		CHECK(!open[i]);
	shmipc_client_disconnect(c);
	_exit(0);
}

/* ---- a server that also holds requests ---- */

struct holder {
	struct shmipc_req req[HELD];
	uint64_t tag[HELD];
	uint32_t n;
	uint64_t events[3]; /* by kind */
	bool here[64];
};

static void hold_reply(struct shmipc_server *s, struct holder *h, uint32_t i)
{
	struct msg a = msg_of(msg_answer(h->tag[i]));
	const struct shmipc_req *r = &h->req[i];
	void *loan;
	int err = shmipc_server_loan(s, r->client, r->id, &loan);

	if (!err) {
		memcpy(loan, &a, sizeof(a));
		err = shmipc_server_commit(s, r->client, r->id, sizeof(a));
	} else {
		err = shmipc_server_reply(s, r->client, r->id, &a, sizeof(a));
	}
	CHECK(err == 0 || err == -EPIPE); /* the client may have died meanwhile */
	h->req[i] = h->req[--h->n];
	h->tag[i] = h->tag[h->n];
}

/* Each client comes once and ends once. */
static void hold_events(struct shmipc_server *s, struct holder *h)
{
	struct shmipc_event e;

	while (attr.events && shmipc_server_event(s, &e, sizeof(e)) > 0) {
		CHECK_EQ(h->here[e.index], e.kind != SHMIPC_EVENT_CAME);
		h->here[e.index] = e.kind == SHMIPC_EVENT_CAME;
		CHECK(!e.pid || e.uid == getuid());
		h->events[e.kind]++;
	}
}

/* The messages of a victim come in order, and none twice. */
static void received(uint64_t tag)
{
	uint32_t victim = VICTIM_OF(tag);

	CHECK(victim < VICTIMS_MAX);
	if (!victim)
		return;
	CHECK(tag > newest[victim]);
	newest[victim] = tag;
}

/* Polls, and takes requests until HELD of them are held. */
static void hold_more(struct shmipc_server *s, struct holder *h)
{
	const void *q;

	shmipc_server_poll(s);
	hold_events(s, h);
	while (h->n < HELD && shmipc_server_take(s, &h->req[h->n], &q) > 0) {
		uint32_t index = SHMIPC_CLIENT_INDEX(h->req[h->n].client);
		int err = shmipc_server_push(s, index, q, sizeof(struct msg));

		msg_check(q);
		received(((const struct msg *)q)->tag);
		CHECK(err == 0 || err == -EAGAIN);
		if (h->req[h->n].id != SHMIPC_POST)
			h->tag[h->n++] = ((const struct msg *)q)->tag;
	}
}

static void hold_turn(struct shmipc_server *s, struct holder *h)
{
	hold_more(s, h);
	while (h->n && (h->n == HELD || test_rand(&seed) % 4))
		hold_reply(s, h, (uint32_t)(test_rand(&seed) % h->n));
}

/* ---- tracing ---- */

/* The server, which makes progress between the steps of a victim. */
struct turn {
	struct shmipc_server *s;
	struct holder *h;
};

static void serve_turn(void *arg)
{
	struct turn *t = arg;

	hold_turn(t->s, t->h);
}

/*
 * Runs the victim for one instruction, or to the next entry or exit of a system call. Returns false
 * if it has ended.
 */
static bool trace_step(pid_t pid, bool syscalls, struct turn *t)
{
	return step_next(pid, syscalls ? PTRACE_SYSCALL : PTRACE_SINGLESTEP, serve_turn, t) != 0;
}

/* ---- clients that die ---- */

static void tag_check(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct msg m = *(const struct msg *)resp;

	msg_check(&m);
	CHECK(m.tag == msg_answer(token));
}

/* Every third victim makes so many calls together that they are published in bursts. */
static uint32_t victim_calls(uint64_t tag)
{
	return VICTIM_OF(tag) % 3 ? 3 : VICTIM_FLIGHT;
}

static int post_tag(struct shmipc_client *c, uint64_t tag)
{
	struct msg m = msg_of(tag);

	return shmipc_client_post(c, &m, sizeof(m));
}

/* Makes a call, with a loan if the tag is odd. */
static void victim_call(struct shmipc_client *c, uint64_t tag)
{
	struct msg m = msg_of(tag);
	void *loan;

	if (tag % 2 == 0) {
		CHECK_EQ(shmipc_client_call(c, &m, sizeof(m), tag), 0);
		return;
	}
	CHECK_EQ(shmipc_client_loan(c, &loan), 0);
	memcpy(loan, &m, sizeof(m));
	CHECK_EQ(shmipc_client_commit(c, loan, sizeof(m), tag), 0);
}

/*
 * Connects, posts, makes calls and disconnects. Is traced from before connect (1), from after it
 * (2), or never (0).
 */
static void victim_main(int trace, uint64_t tag)
{
	struct shmipc_client *c = NULL;
	int err, n;

	if (trace == 1)
		step_trace_me();
	do
		err = shmipc_client_connect(test_name, &attr, &c);
	while (err == -EAGAIN || err == -EUSERS);
	CHECK_EQ(err, 0);
	if (trace == 2)
		step_trace_me();
	for (int round = 0; round < (trace ? 3 : 1000000); round++) {
		CHECK_EQ(post_tag(c, tag++), 0);
		for (uint32_t i = 0; i < victim_calls(tag); i++)
			victim_call(c, tag++);
		while (shmipc_client_pending(c)) {
			n = shmipc_client_poll(c, tag_check, NULL);
			CHECK(n >= 0);
			if (!n && !trace)
				CHECK_EQ(shmipc_client_wait(c, SHMIPC_FOREVER), 1);
		}
		CHECK_EQ(shmipc_client_posts(c), 0); /* the post was consumed before the calls */
	}
	shmipc_client_disconnect(c);
	_exit(0);
}

static void client_dies_traced(struct shmipc_server *s, struct holder *h, uint64_t tag)
{
	int where = test_rand(&seed) % 4 ? 2 : 1;
	uint32_t syscalls = where == 1 ? (uint32_t)(test_rand(&seed) % 40) : 0;
	uint32_t steps =
		(uint32_t)(test_rand(&seed) % (where == 1 ? 100 : 300 * victim_calls(tag)));
	struct turn turn = {s, h};
	pid_t pid = test_fork();
	bool alive;

	if (pid == 0)
		victim_main(where, tag);
	alive = step_wait(pid, serve_turn, &turn) != 0;
	for (uint32_t i = 0; alive && i < syscalls; i++)
		alive = trace_step(pid, true, &turn);
	for (uint32_t i = 0; alive && i < steps; i++)
		alive = trace_step(pid, false, &turn);
	if (alive)
		step_kill(pid);
}

static void client_dies_by_clock(struct shmipc_server *s, struct holder *h, uint64_t tag)
{
	uint64_t end = clock_ns() + test_rand(&seed) % (2 * NSEC_PER_MSEC);
	pid_t pid = test_fork();

	if (pid == 0)
		victim_main(0, tag);
	while (clock_ns() < end)
		hold_turn(s, h);
	step_kill(pid);
}

/* Holds requests, without answers, until the server has noticed the death of the last victim. */
static void answer_late(struct shmipc_server *s, struct holder *h)
{
	do {
		hold_more(s, h);
	} while (server_stats_of(s).clients > 1);
}

static void take_all_places(void)
{
	struct shmipc_client *c[16];

	for (uint32_t i = 1; i < attr.max_clients; i++)
		CHECK_EQ(shmipc_client_connect(test_name, &attr, &c[i]), 0);
	for (uint32_t i = 1; i < attr.max_clients; i++)
		shmipc_client_disconnect(c[i]);
}

/*
 * Checks that every place has been given back: all but the witness's can be taken at the same time.
 * The server must serve meanwhile, because a victim that died in connect may have left a place that
 * is not clean yet.
 */
static void places_are_back(struct shmipc_server *s, struct holder *h)
{
	struct shmipc_server_stats st;
	int status;
	pid_t pid;

	do {
		shmipc_server_wait(s, NSEC_PER_MSEC);
		serve_once(s);
		hold_events(s, h);
		shmipc_server_get_stats(s, &st, sizeof(st));
	} while (st.clients > 1);
	hold_events(s, h);
	CHECK_EQ(h->events[SHMIPC_EVENT_CAME], attr.events ? st.connects : 0);
	CHECK_EQ(h->events[SHMIPC_EVENT_LEFT], attr.events ? st.departures : 0);
	CHECK_EQ(h->events[SHMIPC_EVENT_DIED], attr.events ? st.reclaimed : 0);
	CHECK_EQ(st.connects, 1 + st.departures + st.reclaimed);
	printf("%llu connected, %llu left, %llu reclaimed\n", (unsigned long long)st.connects,
		(unsigned long long)st.departures, (unsigned long long)st.reclaimed);
	CHECK(st.reclaimed > 0);
	pid = test_fork();
	if (pid == 0) {
		take_all_places();
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0) {
		shmipc_server_wait(s, NSEC_PER_MSEC);
		serve_once(s);
		hold_events(s, h);
	}
	CHECK_EQ(status, 0);
}

TEST(clients_die)
{
	struct shmipc_server *s;
	struct holder h = {.n = 0};
	uint64_t before;
	pid_t witness;
	int status;

	if (!client_kills)
		return;
	alarm(3400);
	s = server_with(&attr);
	witness = test_fork();
	if (witness == 0)
		witness_main();
	while (!shmipc_server_poll(s))
		sched_yield();
	hold_events(s, &h);
	for (uint32_t i = 0; i < client_kills; i++) {
		before = atomic_load_explicit(&shared->served, memory_order_relaxed);
		if (i % 10)
			client_dies_traced(s, &h, VICTIM_TAG(i + 1));
		else
			client_dies_by_clock(s, &h, VICTIM_TAG(i + 1));
		if (test_rand(&seed) % 4 == 0)
			answer_late(s, &h);
		/* The witness must have made progress since the victim started. */
		while (atomic_load_explicit(&shared->served, memory_order_relaxed) == before)
			hold_turn(s, &h);
	}
	while (h.n)
		hold_reply(s, &h, 0);
	places_are_back(s, &h);
	atomic_store_explicit(&shared->stop, 1, memory_order_relaxed);
	while (waitpid(witness, &status, WNOHANG) == 0)
		serve_once(s);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	printf("%u client deaths, the witness made %llu calls\n", client_kills,
		(unsigned long long)atomic_load_explicit(&shared->served, memory_order_relaxed));
	shmipc_server_destroy(s);
}

/* ---- servers that die ---- */

static void server_main(bool trace)
{
	struct shmipc_server *s = server_with(&attr);
	struct holder h = {.n = 0};

	raise(SIGSTOP); /* while the client connects */
	if (trace)
		CHECK_EQ(ptrace(PTRACE_TRACEME, 0, NULL, NULL), 0);
	shmipc_server_poll(s);
	if (trace)
		raise(SIGSTOP);
	for (;;)
		hold_turn(s, &h);
}

static struct shmipc_client *server_start(bool trace, pid_t *pid_p)
{
	struct shmipc_client *c = NULL;
	pid_t pid = test_fork();

	if (pid == 0)
		server_main(trace);
	test_stopped(pid); /* the server has made its region, which replaces the last one */
	CHECK_EQ(shmipc_client_connect(test_name, &attr, &c), 0);
	kill(pid, SIGCONT);
	*pid_p = pid;
	return c;
}

struct books {
	uint64_t sent, answered, ended, posted;
	uint8_t open[4096];
};

static void books_take(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct books *b = arg;

	CHECK(token < sizeof(b->open) && b->open[token]);
	b->open[token] = 0;
	if (resp) {
		tag_check(NULL, token, resp, len);
		b->answered++;
	} else {
		b->ended++;
	}
}

static void client_turn(struct shmipc_client *c, struct books *b, uint32_t flight)
{
	int n;

	while (b->sent < sizeof(b->open) && shmipc_client_pending(c) < flight) {
		b->open[b->sent] = 1;
		victim_call(c, b->sent);
		b->sent++;
	}
	if (shmipc_client_posts(c) < 8) {
		CHECK_EQ(post_tag(c, b->posted), 0);
		b->posted++;
	}
	n = shmipc_client_poll(c, books_take, b);
	CHECK(n >= 0);
}

/* Every call ends exactly once: by its response, or, after -EPIPE, by shmipc_client_abort(). */
static void server_is_gone(struct shmipc_client *c, struct books *b)
{
	uint32_t pending;
	void *loan;
	int n;

	while ((n = shmipc_client_poll(c, books_take, b)) >= 0)
		if (!n)
			shmipc_client_wait(c, NSEC_PER_MSEC);
	CHECK_EQ(n, -EPIPE);
	CHECK(shmipc_client_posts(c) <= (b->posted < 8 ? b->posted : 8));
	pending = shmipc_client_pending(c);
	CHECK_EQ(shmipc_client_abort(c, books_take, b), pending);
	CHECK_EQ(b->ended, pending);
	CHECK_EQ(b->answered + b->ended, b->sent);
	for (uint32_t i = 0; i < attr.loans; i++) /* every chunk has come back */
		CHECK_EQ(shmipc_client_loan(c, &loan), 0);
	shmipc_client_disconnect(c);
}

static void server_dies(bool trace)
{
	struct books b = {.sent = 0};
	uint32_t flight = test_rand(&seed) % 3 ? 5 : 16; /* 16: in bursts */
	uint32_t steps = (uint32_t)(test_rand(&seed) % (400 * flight));
	uint64_t end;
	struct shmipc_client *c;
	bool alive = true;
	pid_t pid;

	c = server_start(trace, &pid);
	if (trace) {
		alive = step_wait(pid, NULL, NULL) != 0;
		for (uint32_t i = 0; alive && i < steps; i++) {
			client_turn(c, &b, flight);
			alive = step_next(pid, PTRACE_SINGLESTEP, NULL, NULL) != 0;
		}
	} else {
		end = clock_ns() + test_rand(&seed) % NSEC_PER_MSEC;
		while (clock_ns() < end)
			client_turn(c, &b, flight);
	}
	CHECK(alive);
	step_kill(pid);
	server_is_gone(c, &b);
}

TEST(servers_die)
{
	alarm(3400);
	for (uint32_t i = 0; i < server_kills; i++)
		server_dies(i % 10 != 0);
	/* Replaces the region that the last server left, so that it is removed. */
	shmipc_server_destroy(server_with(&attr));
	printf("%u server deaths\n", server_kills);
}

int main(int argc, char **argv)
{
	client_kills = (uint32_t)test_number(&argc, argv, 800);
	server_kills = (uint32_t)test_number(&argc, argv, 200);
	seed = test_seed();
	attr = msg_attr;
	attr.size = sizeof(attr);
	attr.events = test_number(&argc, argv, 1) != 0;
	attr.connect_ms = 60000; /* it may take long until the server is scheduled */
	attr.pushes = 4;
	attr.loans = VICTIM_FLIGHT;
	attr.loan_req_size = attr.loan_resp_size = sizeof(struct msg);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		0);
	CHECK(shared != MAP_FAILED);
	return test_main(argc, argv);
}
