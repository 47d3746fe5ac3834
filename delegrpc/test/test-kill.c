/* SPDX-License-Identifier: MIT */
/*
 * Sends SIGKILL between any two instructions of connect, call, publish, poll, wait and disconnect
 * of a client, and of create, poll, recv, reply, wait and destroy of a server.
 *
 *	test-delegrpc-kill [KILLS]	KILLS * 9 / 10 clients and KILLS / 5 servers; default 1000
 *
 * After a client was killed, the slots that it had filled are served, once and in order. A second
 * client, which is always busy, loses nothing. Every fourth message of both clients is a post. The
 * id and every slot in the ring become free again, even if the server only waits. After a server
 * was killed, its client gets only correct responses, and then -EPIPE; the next server replaces the
 * region.
 */
#include <sys/mman.h>
#include <sched.h>

#include "step.h"
#include "raw.h"
#include "rpc.h"
#include "support/rpcnew.h"

#define VICTIM_ID 1

static uint64_t rng;
static uint32_t kills = 1000;
static uint64_t patience; /* timeout of a victim's wait; 0, or long enough for it to sleep */

static uint32_t pick(uint32_t n)
{
	return (uint32_t)(test_rand(&rng) % n);
}

/*
 * Chooses the piece in which the victim is killed: a function of client_pieces or server_pieces.
 * The long pieces (the first one and the wait) are chosen seldom.
 */
static uint32_t pick_piece(uint32_t n, uint32_t waiting)
{
	for (;;) {
		uint32_t piece = pick(n);

		if ((piece && piece != waiting) || !pick(8))
			return piece;
	}
}

/*
 * Chooses the number of instructions before the kill. The first run through a piece measures its
 * length.
 */
static uint32_t pick_limit(uint32_t length, bool waiting)
{
	if (!length)
		return UINT32_MAX;
	/* In a wait, the interesting code comes after the spinning, near the end. */
	return waiting && pick(4) ? length - pick(600) % length : pick(length + 1);
}

/* Returns a request's payload: its client and its number. The response is the complement. */
static uint64_t request_word(uint32_t who, uint32_t seq)
{
	return (uint64_t)who << 32 | seq;
}

/* Returns true if the message with this number is a post. */
static bool is_post(uint32_t seq)
{
	return seq % 4 == 1;
}

/* Makes a call or a post with the client's next number. Returns true if it was accepted. */
static bool make(struct delegrpc_client *c, uint32_t who, uint32_t seq)
{
	uint64_t word = request_word(who, seq);

	return (is_post(seq) ? delegrpc_client_post(c, &word, sizeof(word)) :
			       delegrpc_client_call(c, &word, sizeof(word), seq)) == 0;
}

/* ---- the surviving client, and the server, in the tester ---- */

static struct delegrpc_server *server;
static struct delegrpc_client *survivor;
static bool takes_events, came[2]; /* came: the client has come and has not ended */
static uint32_t life; /* number of the victim; 0 for the survivor */
static uint32_t victim_seq; /* number of the victim's requests served so far */
static uint32_t made, got; /* of the survivor: messages made; responses, and posts after them */

static void survivor_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	uint64_t word;

	memcpy(&word, resp, sizeof(word));
	CHECK(word == ~request_word(0, (uint32_t)token));
	CHECK_EQ(token, got); /* replies come in order here, so this also finds repeated ones */
	got++;
	got += is_post(got);
}

static void survivor_works(void)
{
	for (uint32_t n = pick(6); n; n--)
		made += make(survivor, 0, made);
	CHECK(delegrpc_client_poll(survivor, survivor_response, NULL) >= 0);
}

/* Takes the events, if the server takes any: each client comes once and ends once. */
static void take_events(void)
{
	struct delegrpc_event e;

	while (delegrpc_server_event(server, &e, sizeof(e)) > 0) {
		CHECK_EQ(came[e.index], e.kind != DELEGRPC_EVENT_CAME);
		came[e.index] = e.kind == DELEGRPC_EVENT_CAME;
		CHECK(!e.pid || e.uid == getuid());
	}
}

static void serve(void)
{
	struct delegrpc_req r;

	CHECK(delegrpc_server_poll(server) >= 0);
	take_events();
	while (delegrpc_server_recv(server, &r)) {
		uint64_t word;
		int err;

		CHECK_EQ(r.len, sizeof(word));
		memcpy(&word, r.payload, sizeof(word));
		CHECK(came[r.client] || !takes_events);
		if (r.client == VICTIM_ID) /* in order, each once, none missing */
			CHECK(word == request_word(life, victim_seq++));
		CHECK_EQ(r.id == DELEGRPC_POST, is_post((uint32_t)word));
		word = ~word;
		err = delegrpc_server_reply(server, r.client, r.id, &word, sizeof(word));
		CHECK_EQ(err, r.id == DELEGRPC_POST ? -EINVAL : 0);
	}
	delegrpc_server_advance_tail(server);
}

static void between_client_pieces(uint32_t piece)
{
	survivor_works();
	if (pick(2))
		serve();
}

static void meanwhile_client(void)
{
	if (pick(2))
		survivor_works();
	else
		serve();
}

/* ---- the victim, a client ---- */

static struct {
	struct delegrpc_client *c;
	uint32_t made, got;
} victim;

static void victim_call(void)
{
	victim.made += make(victim.c, life, victim.made);
}

static void victim_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	uint64_t word;

	memcpy(&word, resp, sizeof(word));
	if (word != ~request_word(life, (uint32_t)token) || token != victim.got++)
		_exit(91);
	victim.got += is_post(victim.got);
	if (arg)
		victim_call();
}

static void c_connect(void)
{
	if (delegrpc_client_connect(test_name, NULL, &victim.c) ||
		delegrpc_client_index(victim.c) != VICTIM_ID)
		_exit(92);
}

static void c_calls(void)
{
	for (int i = 0; i < 3; i++)
		victim_call();
	delegrpc_client_flush(victim.c);
}

static void c_batch(void)
{
	for (int i = 0; i < 9; i++)
		victim_call();
}

static void c_poll(void)
{
	if (delegrpc_client_poll(victim.c, victim_response, NULL) < 0)
		_exit(93);
}

static void c_poll_and_call(void)
{
	if (delegrpc_client_poll(victim.c, victim_response, &victim) < 0)
		_exit(93);
}

static void c_wait(void)
{
	victim_call();
	delegrpc_client_wait(victim.c, patience);
}

static void c_disconnect(void)
{
	delegrpc_client_disconnect(victim.c);
}

static step_piece_fn *const client_pieces[] = {c_connect, c_calls, c_batch, c_poll, c_poll_and_call,
	c_batch, c_wait, c_poll, c_disconnect};
#define C_WAIT 6

/* After a death: checks that all published requests are served, and no process waits for ever. */
static void recover(struct raw *raw)
{
	for (uint32_t i = 0; i < 100 * DELEGRPC_STUCK_POLLS; i++) {
		serve();
		CHECK(delegrpc_client_poll(survivor, survivor_response, NULL) >= 0);
		if (got >= made && server->cursor == raw->control->head)
			break;
	}
	/* If the next message is a post, survivor_response() has counted it before it is made. */
	CHECK(got == made || (got == made + 1 && is_post(made)));
	CHECK_EQ(delegrpc_client_pending(survivor), 0);
	CHECK_EQ(delegrpc_client_posts(survivor), 0);
	CHECK(raw->control->tail == raw->control->head);
	while (takes_events && raw->lines[VICTIM_ID].taken)
		serve(); /* takes the introduction and the event of the victim's end */
	CHECK_EQ(shm_locked(&raw->region, 1 + VICTIM_ID), 0);
}

static void kill_clients(uint32_t ring_depth, uint32_t n)
{
	struct delegrpc_attr attr = {.size = sizeof(attr),
		.max_clients = 2,
		.resp_depth = 32,
		.ring_depth = ring_depth,
		.events = ring_depth != 0};
	struct step_plan plan = {client_pieces, ARRAY_SIZE(client_pieces), between_client_pieces,
		meanwhile_client};
	uint32_t length[ARRAY_SIZE(client_pieces)] = {0};
	struct raw *raw;

	made = got = life = 0;
	takes_events = attr.events;
	memset(came, 0, sizeof(came));
	server = server_with(&attr);
	survivor = client_new();
	raw = raw_open(test_name);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t piece = pick_piece(ARRAY_SIZE(client_pieces), C_WAIT);
		uint32_t limit = pick_limit(length[piece], piece == C_WAIT);

		life++;
		victim_seq = 0;
		patience = piece == C_WAIT ? 120 * NSEC_PER_MSEC : 0;
		limit = step_run(&plan, piece, limit);
		if (limit > length[piece])
			length[piece] = limit;
		recover(raw);
	}
	CHECK_EQ(server_stats_of(server).bad_requests, 0);
	printf("  ring of %u: %u kills, %u calls of the survivor, %u holes\n",
		raw->header->ring_depth, n, made, (unsigned)server_stats_of(server).holes);
	raw_close(raw);
	delegrpc_client_disconnect(survivor);
	delegrpc_server_destroy(server);
}

TEST_WITH(clients_in_an_ample_ring, kill_clients, 0, kills * 2 / 5);
TEST_WITH(clients_in_a_tight_ring, kill_clients, 32, kills * 2 / 5);

/* ---- a server that only waits, and clients that replace each other ---- */

/* The progress of the server, shared with the tester. */
static struct waiting_server {
	uint32_t ready;
	uint64_t holes;
} * waiting;

/* Serves, and gives slots back only after it has received something. */
static void wait_for_ever(void)
{
	struct delegrpc_attr attr = {.max_clients = 2, .resp_depth = 32, .resp_size = 8};
	struct delegrpc_req r;

	alarm(1200);
	if (delegrpc_server_create(test_name, &attr, &server))
		_exit(96);
	for (;;) {
		uint32_t n = 0;

		__atomic_store_n(&waiting->ready, 1, __ATOMIC_RELEASE);
		if (delegrpc_server_wait(server, UINT64_MAX) < 0)
			_exit(97);
		for (; delegrpc_server_recv(server, &r); n++)
			delegrpc_server_reply(server, r.client, r.id, r.payload, 8);
		__atomic_store_n(&waiting->holes, server_stats_of(server).holes, __ATOMIC_RELEASE);
		if (n)
			delegrpc_server_advance_tail(server);
	}
}

static void replaced_connect(void)
{
	if (delegrpc_client_connect(test_name, NULL, &victim.c))
		_exit(98);
}

static void nothing(void)
{
}

static void nothing_between(uint32_t piece)
{
}

static step_piece_fn *const replaced_pieces[] = {replaced_connect, c_batch};

/* A successor is served, at whatever instruction its predecessor died. */
TEST(clients_of_a_waiting_server)
{
	struct step_plan plan = {replaced_pieces, ARRAY_SIZE(replaced_pieces), nothing_between,
		nothing};
	uint32_t length = 0, n = kills / 10;
	struct delegrpc_client *c;
	pid_t pid;

	waiting = mmap(NULL, sizeof(*waiting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	CHECK(waiting != MAP_FAILED);
	pid = test_fork();
	if (!pid)
		wait_for_ever();
	while (!__atomic_load_n(&waiting->ready, __ATOMIC_ACQUIRE))
		sched_yield();
	for (uint32_t i = 0; i < n; i++) {
		uint32_t steps = step_run(&plan, 1, pick_limit(length, false));
		uint64_t word = i, answer = 0;

		length = steps > length ? steps : length;
		c = client_new();
		/* The timeout is much longer than a sleep of the server. */
		CHECK_EQ(delegrpc_client_call_wait(c, &word, 8, &answer, 8, 60 * NSEC_PER_SEC,
				 NULL),
			0);
		CHECK(answer == word);
		delegrpc_client_disconnect(c);
	}
	printf("  %u kills, %u holes\n", n,
		(unsigned)__atomic_load_n(&waiting->holes, __ATOMIC_ACQUIRE));
	CHECK(n < 100 || __atomic_load_n(&waiting->holes, __ATOMIC_ACQUIRE));
	step_kill(pid);
	munmap(waiting, sizeof(*waiting));
}

/* ---- the victim, a server ---- */

static struct delegrpc_req held[64];
static uint32_t nheld;
static unsigned char answered[1024];

static void s_create(void)
{
	struct delegrpc_attr attr = {.max_clients = 2, .resp_depth = 32};

	if (delegrpc_server_create(test_name, &attr, &server))
		_exit(94);
}

static void s_serve(void)
{
	serve();
}

static void s_take(void)
{
	delegrpc_server_poll(server);
	while (nheld < ARRAY_SIZE(held) && delegrpc_server_recv(server, &held[nheld]))
		nheld++;
	delegrpc_server_advance_tail(server);
}

/* Replies out of order. The payloads are still in the ring, to which no client writes meanwhile. */
static void s_reply(void)
{
	while (nheld--) {
		uint64_t word;

		memcpy(&word, held[nheld].payload, sizeof(word));
		word = ~word;
		if (delegrpc_server_reply(server, held[nheld].client, held[nheld].id, &word,
			    sizeof(word)) != (is_post((uint32_t)~word) ? -EINVAL : 0))
			_exit(95);
	}
	nheld = 0;
	delegrpc_server_flush(server);
}

static void s_wait(void)
{
	delegrpc_server_wait(server, patience);
}

static void s_destroy(void)
{
	delegrpc_server_destroy(server);
}

static step_piece_fn *const server_pieces[] = {s_create, s_serve, s_take, s_reply, s_serve, s_wait,
	s_destroy};
#define S_WAIT 5

static void orphan_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	uint64_t word;

	memcpy(&word, resp, sizeof(word));
	CHECK(word == ~request_word(0, (uint32_t)token));
	CHECK(token < ARRAY_SIZE(answered));
	CHECK_EQ(answered[token]++, 0);
}

static void orphan_calls(uint32_t n)
{
	for (; n; n--)
		made += make(survivor, 0, made);
	CHECK(delegrpc_client_poll(survivor, orphan_response, NULL) >= 0);
}

static void between_server_pieces(uint32_t piece)
{
	if (piece == 1)
		survivor = client_new();
	/* New calls may overwrite held requests, so none are made before s_reply(). */
	if (piece == 1 || piece == 2 || piece == 4)
		orphan_calls(1 + pick(30)); /* enough for replies in bursts */
}

static void meanwhile_server(void)
{
	int n = survivor ? delegrpc_client_poll(survivor, orphan_response, NULL) : 0;

	CHECK(n >= 0 || n == -EPIPE); /* -EPIPE: the victim may have destroyed the server */
}

/* Polls until the library reports that the server is dead. */
static void hear_of_death(void)
{
	uint64_t start = clock_ns();
	bool open;
	int n;

	do {
		n = delegrpc_client_poll(survivor, orphan_response, NULL);
		if (!n)
			sched_yield();
	} while (n >= 0);
	CHECK_EQ(n, -EPIPE);
	printf("  -EPIPE %u ms after the kill\n", (unsigned)((clock_ns() - start) / NSEC_PER_MSEC));
	CHECK_EQ(delegrpc_client_call(survivor, &start, sizeof(start), 0), -EPIPE);
	open = delegrpc_client_posts(survivor) || delegrpc_client_pending(survivor);
	CHECK_EQ(delegrpc_client_wait(survivor, UINT64_MAX), open ? -EPIPE : 0);
}

TEST(servers)
{
	struct step_plan plan = {server_pieces, ARRAY_SIZE(server_pieces), between_server_pieces,
		meanwhile_server};
	uint32_t length[ARRAY_SIZE(server_pieces)] = {0}, n = kills / 5, i;
	struct delegrpc_client *c;
	int rc;

	for (i = 0; i < n; i++) {
		uint32_t piece = pick_piece(ARRAY_SIZE(server_pieces), S_WAIT);
		uint32_t limit = pick_limit(length[piece], piece == S_WAIT);

		patience = piece == S_WAIT ? 120 * NSEC_PER_MSEC : 0;
		survivor = NULL;
		made = 0;
		memset(answered, 0, sizeof(answered));
		limit = step_run(&plan, piece, limit);
		if (limit > length[piece])
			length[piece] = limit;
		if (survivor && i % (n / 4 + 1) == 1)
			hear_of_death();
		delegrpc_client_disconnect(survivor);
		rc = delegrpc_client_connect(test_name, NULL, &c);
		/* Within s_create() and s_destroy() there may be no region, or no complete one. */
		CHECK(rc == -ECONNREFUSED ||
			((rc == -ENOENT || rc == -EAGAIN) &&
				(piece == 0 || piece == ARRAY_SIZE(server_pieces) - 1)));
	}
	s_create(); /* replaces the region of the last server */
	s_destroy();
	CHECK_EQ(delegrpc_client_connect(test_name, NULL, &c), -ENOENT);
	printf("  %u kills of servers\n", n);
}

int main(int argc, char **argv)
{
	cpu_set_t here;

	if (argc > 1)
		kills = (uint32_t)strtoul(argv[1], NULL, 10);
	CHECK(kills >= 20);
	rng = test_seed();
	/*
	 * A single step takes two context switches, which take less time if both processes are on
	 * one core.
	 */
	CPU_ZERO(&here);
	CPU_SET((unsigned)sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
	return test_main(1, argv);
}
