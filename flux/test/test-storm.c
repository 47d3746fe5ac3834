/* SPDX-License-Identifier: MIT */
/*
 * Random schedules (storms) for flux: threads call each other at random, post, keep requests,
 * answer them in any order, poll, sleep on futexes and descriptors, and leave with calls in flight.
 * Each call ends exactly once, with its answer, or without one if its callee or its caller has
 * left. Each request arrives at most once, complete, from the right caller; posts also in order. No
 * node sleeps for ever.
 */
#include <errno.h>
#include <pthread.h>

#include "support/storm.h"
#include "flux.h"

#define NODES 16
#define FEW_NODES 6 /* most networks have at most this many nodes */
#define CALLS 2000 /* maximum per node */
#define HELD 64

enum ends { OPEN = 1, ENDED };

struct storm;

/* A request that was received and not answered. */
struct request {
	uint64_t token, number;
	uint32_t from;
};

struct node {
	struct storm *storm;
	struct flux_node *flux;
	pthread_t thread;
	uint32_t index;
	uint64_t rng;
	/* Drawn from the seed: */
	uint32_t quota, burst, hold;
	bool chains, sleeps_on_fd, never_sleeps, leaves_early, leaves_debts, asks;
	bool takes_turns; /* calls the others in turn, not at random */
	bool posts;
	uint32_t favourite; /* without takes_turns: half of its calls go here, if the node exists */
	/* Counters: */
	uint32_t tried, made, ended, aborted, received, answered, n_held;
	uint32_t posted[NODES], posts_from[NODES]; /* by index of the other node */
	bool left, told[NODES]; /* told: flux_left() has returned that node */
	struct request held[HELD];
	uint8_t state[CALLS];
	uint8_t callee[CALLS];
	unsigned char buf[FLUX_MAX_PAYLOAD + 8];
};

struct storm {
	struct flux *flux;
	struct flux_attr attr;
	struct node node[NODES];
	/* Number of receptions of a request, by caller and call. Only the callee writes it. */
	uint8_t received[NODES][CALLS];
	uint32_t leaving[NODES]; /* set before flux_leave() */
};

static uint64_t number_of(uint32_t caller, uint32_t call)
{
	return (uint64_t)caller << 32 | call;
}

/* Posts are numbered separately for each pair of nodes. */
static uint64_t number_of_post(uint32_t from, uint32_t to, uint32_t n)
{
	return 1ull << 63 | (uint64_t)to << 48 | number_of(from, n);
}

static bool has_left(const struct storm *s, uint32_t node)
{
	/* Pairs with the store in leave(). */
	return __atomic_load_n(&s->leaving[node], __ATOMIC_ACQUIRE);
}

static uint32_t callee(struct node *n)
{
	uint32_t nodes = n->storm->attr.nodes;

	if (n->takes_turns)
		return (n->index + n->tried++) % nodes;
	if (n->favourite < nodes && storm_one_in(&n->rng, 2))
		return n->favourite;
	return storm_draw(&n->rng, 0, nodes - 1);
}

/* Returns the result of flux_call(). */
static int call(struct node *n)
{
	struct storm *s = n->storm;
	uint32_t to = callee(n), id = n->made, len;
	uint64_t number = number_of(n->index, id);
	int err;

	if (storm_one_in(&n->rng, 64)) {
		CHECK_EQ(flux_call(n->flux, s->attr.nodes, n->buf, 8, 0), -EINVAL);
		CHECK(flux_call(n->flux, to, n->buf, s->attr.payload_size + 1, 0) < 0);
	}
	len = storm_length(number, 0, 8, s->attr.payload_size);
	memcpy(n->buf, &number, 8);
	storm_fill(n->buf + 8, len - 8, number, 0);
	n->state[id] = OPEN;
	n->callee[id] = (uint8_t)to;
	err = flux_call(n->flux, to, n->buf, len, number);
	if (err == -EPIPE)
		CHECK(n->left || has_left(s, to));
	else
		CHECK((!err && !n->told[to]) || err == -EAGAIN);
	if (!err)
		n->made++;
	else
		n->state[id] = 0;
	return err;
}

/* Returns the result of flux_post(). */
static int post(struct node *n, uint32_t to)
{
	struct storm *s = n->storm;
	uint64_t number = number_of_post(n->index, to, n->posted[to]);
	uint32_t len = storm_length(number, 0, 8, s->attr.payload_size);
	int err;

	if (storm_one_in(&n->rng, 64)) {
		CHECK_EQ(flux_post(n->flux, s->attr.nodes, n->buf, 8), -EINVAL);
		CHECK_EQ(flux_post(n->flux, to, n->buf, s->attr.payload_size + 1), -EMSGSIZE);
	}
	memcpy(n->buf, &number, 8);
	storm_fill(n->buf + 8, len - 8, number, 0);
	err = flux_post(n->flux, to, n->buf, len);
	if (err == -EPIPE)
		CHECK(n->left || has_left(s, to));
	else
		CHECK((!err && !n->told[to]) || err == -EAGAIN);
	n->posted[to] += !err;
	CHECK(flux_posts(n->flux, to) <= s->attr.max_inflight);
	return err;
}

static void on_response(void *arg, uint64_t number, const void *payload, uint32_t len)
{
	struct node *n = arg;
	struct storm *s = n->storm;
	uint32_t id = (uint32_t)number;

	CHECK_EQ(number >> 32, n->index);
	CHECK(id < n->made && n->state[id] == OPEN);
	CHECK(!n->told[n->callee[id]]);
	n->state[id] = ENDED;
	n->ended++;
	if (payload) {
		CHECK_EQ(len, storm_length(number, 1, 0, s->attr.reply_size));
		storm_check(payload, len, number, 1);
	} else {
		CHECK(n->left || has_left(s, n->callee[id]));
		n->aborted++;
	}
	if (n->chains && !n->left && n->made < n->quota)
		call(n);
}

static void poll_responses(struct node *n)
{
	uint32_t ended = n->ended, aborted = n->aborted;
	int r = flux_poll(n->flux, on_response, n);

	CHECK(r >= 0);
	if (n->aborted == aborted) /* the calls to a peer that has left end together */
		CHECK(r <= FLUX_POLL_EACH * (int)n->storm->attr.nodes);
	CHECK_EQ((uint32_t)r, n->ended - ended);
	CHECK_EQ(flux_pending(n->flux), n->made - n->ended);
}

static void answer(struct node *n, uint32_t i)
{
	struct storm *s = n->storm;
	struct request r = n->held[i];
	uint32_t len = storm_length(r.number, 1, 0, s->attr.reply_size);
	int err;

	n->held[i] = n->held[--n->n_held];
	storm_fill(n->buf, len, r.number, 1);
	if (storm_one_in(&n->rng, 32))
		CHECK_EQ(flux_reply(n->flux, r.token, n->buf, s->attr.reply_size + 1), -EMSGSIZE);
	err = flux_reply(n->flux, r.token, n->buf, len);
	if (err)
		CHECK(err == -EPIPE && (n->left || has_left(s, r.from)));
	else
		n->answered++;
	if (storm_one_in(&n->rng, 16))
		CHECK_EQ(flux_reply(n->flux, r.token, n->buf, len), -EINVAL);
}

/* Replies with a token that was never received, or whose call has been answered. */
static void answer_nothing(struct node *n)
{
	uint64_t token = test_rand(&n->rng);

	if (n->n_held && storm_one_in(&n->rng, 2))
		token = n->held[0].token ^ 1ull << storm_draw(&n->rng, 0, 63);
	else if (storm_one_in(&n->rng, 2))
		token &= 0x3ff000003ff;
	for (uint32_t i = 0; i < n->n_held; i++)
		if (n->held[i].token == token)
			return;
	CHECK_EQ(flux_reply(n->flux, token, n->buf, 0), -EINVAL);
}

static void answer_all(struct node *n)
{
	while (n->n_held)
		answer(n, storm_draw(&n->rng, 0, n->n_held - 1));
}

static void check_post(struct node *n, uint32_t from, uint64_t number, uint32_t len)
{
	CHECK_EQ(number, number_of_post(from, n->index, n->posts_from[from]));
	CHECK_EQ(len, storm_length(number, 0, 8, n->storm->attr.payload_size));
	storm_check(n->buf + 8, len - 8, number, 0);
	CHECK(!n->told[from]);
	n->posts_from[from]++;
}

/* Receives one request or post. Returns false if there is none. */
static bool receive(struct node *n)
{
	struct storm *s = n->storm;
	struct request r;
	uint32_t len = 0, caller, id;
	int got = flux_try_recv_raw(n->flux, &r.from, &r.token, n->buf, sizeof(n->buf), &len);

	CHECK(got == 0 || got == 1);
	if (!got)
		return false;
	CHECK(len >= 8);
	memcpy(&r.number, n->buf, 8);
	if (r.token == FLUX_POST) {
		check_post(n, r.from, r.number, len);
		return true;
	}
	caller = (uint32_t)(r.number >> 32);
	id = (uint32_t)r.number;
	CHECK_EQ(caller, r.from);
	CHECK(!n->told[caller]);
	CHECK(caller < s->attr.nodes && id < CALLS);
	CHECK_EQ(len, storm_length(r.number, 0, 8, s->attr.payload_size));
	storm_check(n->buf + 8, len - 8, r.number, 0);
	/* Relaxed: check_all() reads the counts after the threads have been joined. */
	CHECK_EQ(__atomic_fetch_add(&s->received[caller][id], 1, __ATOMIC_RELAXED), 0);
	n->received++;
	if (n->n_held == HELD)
		answer(n, storm_draw(&n->rng, 0, HELD - 1));
	n->held[n->n_held++] = r;
	while (n->n_held > n->hold)
		answer(n, storm_draw(&n->rng, 0, n->n_held - 1));
	return true;
}

/*
 * Sleeps until there is something to do, or for a limited time. Before a sleep without limit the
 * node answers all calls.
 */
static void nap(struct node *n)
{
	struct pollfd p = {.fd = -1, .events = POLLIN};
	uint64_t ns = storm_one_in(&n->rng, 2) ? FLUX_FOREVER : storm_draw(&n->rng, 0, 200000);
	int r;

	if (ns == FLUX_FOREVER) {
		answer_all(n);
		if (!flux_pending(n->flux)) /* perhaps no other node will call this node again */
			return;
	}
	if (!n->sleeps_on_fd) {
		r = flux_wait(n->flux, ns);
		CHECK(r == 1 || (r == 0 && ns != FLUX_FOREVER));
		return;
	}
	p.fd = flux_fd(n->flux);
	CHECK(p.fd >= 0);
	r = flux_arm(n->flux);
	CHECK(r == 0 || r == 1);
	CHECK(poll(&p, 1, r ? 0 : ns == FLUX_FOREVER ? -1 : (int)(ns / 100000)) >= 0);
}

/* Posts until there is no room, and waits for room. The peer makes room, or leaves. */
static void wait_for_room(struct node *n)
{
	uint32_t to = callee(n);
	int err;

	answer_all(n);
	while (!(err = post(n, to)))
		;
	if (err == -EAGAIN)
		CHECK_EQ(flux_wait(n->flux, FLUX_FOREVER), 1);
}

static void leave(struct node *n)
{
	if (!n->leaves_debts)
		answer_all(n);
	/* Pairs with the load in has_left(). */
	__atomic_store_n(&n->storm->leaving[n->index], 1, __ATOMIC_RELEASE);
	n->left = true;
	flux_leave(n->flux);
	if (storm_one_in(&n->rng, 2))
		flux_leave(n->flux);
}

/* Checks that flux_left() returns each node once, after which nothing comes from that node. */
static void take_left(struct node *n)
{
	uint32_t left;

	while (flux_left(n->flux, &left)) {
		CHECK(left != n->index && !n->told[left] && has_left(n->storm, left));
		n->told[left] = true;
	}
}

static void turn(struct node *n)
{
	switch (storm_draw(&n->rng, 0, 7)) {
	case 0:
		for (uint32_t i = 0; i < n->burst && n->made < n->quota; i++)
			if (n->posts && storm_one_in(&n->rng, 3) ? post(n, callee(n)) : call(n))
				break;
		break;
	case 1:
		poll_responses(n);
		break;
	case 2:
		for (uint32_t i = storm_draw(&n->rng, 1, 40); i && receive(n); i--)
			;
		break;
	case 3:
		if (n->n_held)
			answer(n, storm_draw(&n->rng, 0, n->n_held - 1));
		break;
	case 4:
		if (storm_one_in(&n->rng, 8))
			answer_nothing(n);
		if (!n->never_sleeps)
			flux_flush(n->flux);
		break;
	case 5:
		if (n->posts && !n->never_sleeps && storm_one_in(&n->rng, 8))
			wait_for_room(n);
		else if (n->never_sleeps)
			sched_yield();
		else
			nap(n);
		break;
	case 6:
		if (n->asks)
			take_left(n);
		break;
	default:
		poll_responses(n);
		receive(n);
	}
}

static void *node_main(void *arg)
{
	struct node *n = arg;
	uint32_t leaves_at = n->leaves_early ? storm_draw(&n->rng, 0, n->quota) : n->quota;

	while (n->made < leaves_at || (!n->leaves_early && n->made != n->ended))
		turn(n);
	leave(n);
	/* The calls of this node end, too. */
	while (flux_pending(n->flux)) {
		poll_responses(n);
		if (storm_one_in(&n->rng, 4))
			receive(n);
	}
	CHECK_EQ(n->made, n->ended);
	CHECK_EQ(flux_call(n->flux, 0, n->buf, 8, 0), -EPIPE);
	while (receive(n))
		;
	answer_all(n);
	return NULL;
}

static void node_draw(struct storm *s, uint32_t i, uint64_t *rng)
{
	struct node *n = &s->node[i];

	*n = (struct node){.storm = s, .flux = flux_get_node(s->flux, i), .index = i};
	n->rng = test_rand(rng);
	n->quota = storm_draw(rng, 1, CALLS);
	n->burst = storm_size(rng, 64);
	n->hold = storm_one_in(rng, 2) ? 0 : storm_size(rng, HELD - 1);
	n->chains = storm_one_in(rng, 2);
	n->sleeps_on_fd = storm_one_in(rng, 2);
	n->never_sleeps = storm_one_in(rng, 4);
	n->leaves_early = storm_one_in(rng, 4);
	n->leaves_debts = storm_one_in(rng, 2);
	n->asks = storm_one_in(rng, 2);
	n->takes_turns = storm_one_in(rng, 2);
	n->favourite = storm_draw(rng, 0, NODES - 1);
	n->posts = storm_one_in(rng, 2);
}

static void check_stats(const struct node *n)
{
	struct flux_stats st;
	uint64_t posted = 0, received = 0;

	for (uint32_t i = 0; i < NODES; i++) {
		CHECK(n->posts_from[i] <= n->storm->node[i].posted[n->index]);
		posted += n->posted[i];
		received += n->posts_from[i];
	}
	flux_node_get_stats(n->flux, &st, sizeof(st));
	CHECK_EQ(st.posts, posted);
	CHECK_EQ(st.received_posts, received);
	CHECK_EQ(st.calls, n->made);
	CHECK_EQ(st.responses + st.aborted, n->ended);
	CHECK_EQ(st.aborted, n->aborted);
	CHECK_EQ(st.requests, n->received);
	CHECK_EQ(st.replies, n->answered);
}

/* Checks that each call that was made has ended, and that no other call was received. */
static void check_all(const struct storm *s)
{
	for (uint32_t i = 0; i < s->attr.nodes; i++) {
		const struct node *n = &s->node[i];

		check_stats(n);
		for (uint32_t id = 0; id < n->made; id++)
			CHECK_EQ(n->state[id], ENDED);
		for (uint32_t id = n->made; id < CALLS; id++)
			CHECK_EQ(s->received[i][id], 0);
	}
}

/* Checks that impossible attributes are refused. */
static void check_attr(uint64_t *rng, struct flux_attr *attr)
{
	struct flux_attr bad = *attr;
	struct flux *f;

	switch (storm_draw(rng, 0, 4)) {
	case 0:
		bad.nodes = storm_one_in(rng, 2) ? 0 : FLUX_MAX_NODES + 1;
		break;
	case 1:
		bad.capacity = FLUX_MAX_CAPACITY + 1;
		break;
	case 2:
		bad.capacity = storm_size(rng, 64);
		bad.max_inflight = bad.capacity + storm_draw(rng, 0, 1);
		break;
	case 3:
		bad.payload_size = FLUX_MAX_PAYLOAD + 1;
		break;
	default:
		bad.reply_size = FLUX_MAX_PAYLOAD + 1;
	}
	CHECK_EQ(flux_create(&bad, &f), -EINVAL);
}

/* Checks that defaults are as flux.h says. */
static void check_defaults(const struct flux_attr *given, const struct flux_attr *used)
{
	uint32_t inflight = given->max_inflight ? given->max_inflight :
			    given->capacity     ? given->capacity - 1 :
						  256;
	uint32_t capacity = 4 * inflight > 64 ? 4 * inflight : 64;

	if (!given->max_inflight && inflight > 256)
		inflight = 256;
	CHECK_EQ(used->max_inflight, inflight);
	CHECK_EQ(used->capacity, given->capacity ? given->capacity : capacity);
	CHECK_EQ(used->payload_size, given->payload_size);
	CHECK_EQ(used->reply_size, given->reply_size);
}

static void network(uint64_t rng)
{
	static struct storm s;
	struct flux_attr given;
	int open = fdtest_open();

	memset(&s, 0, sizeof(s));
	s.attr = (struct flux_attr){.nodes = storm_draw(&rng, 1, FEW_NODES)};
	if (storm_one_in(&rng, 4))
		s.attr.nodes = storm_draw(&rng, 2, NODES);
	if (storm_one_in(&rng, 2))
		s.attr.max_inflight = storm_size(&rng, 300);
	if (storm_one_in(&rng, 2))
		s.attr.capacity =
			(s.attr.max_inflight ? s.attr.max_inflight : 256) + storm_size(&rng, 300);
	s.attr.payload_size = storm_one_in(&rng, 24) ? FLUX_MAX_PAYLOAD : 8 + storm_size(&rng, 400);
	s.attr.reply_size = storm_one_in(&rng, 24) ? FLUX_MAX_PAYLOAD : storm_size(&rng, 400);
	if (s.attr.payload_size + s.attr.reply_size > FLUX_MAX_PAYLOAD)
		s.attr.nodes = storm_draw(&rng, 1, 2);
	given = s.attr;
	check_attr(&rng, &given);
	CHECK_EQ(flux_create(&given, &s.flux), 0);
	flux_get_attr(s.flux, &s.attr, sizeof(s.attr));
	check_defaults(&given, &s.attr);
	for (uint32_t i = 0; i < s.attr.nodes; i++)
		node_draw(&s, i, &rng);
	if (s.attr.payload_size + s.attr.reply_size > FLUX_MAX_PAYLOAD)
		for (uint32_t i = 0; i < s.attr.nodes; i++)
			s.node[i].quota = 1 + s.node[i].quota / 20;
	for (uint32_t i = 0; i < s.attr.nodes; i++)
		CHECK_EQ(pthread_create(&s.node[i].thread, NULL, node_main, &s.node[i]), 0);
	for (uint32_t i = 0; i < s.attr.nodes; i++)
		CHECK_EQ(pthread_join(s.node[i].thread, NULL), 0);
	check_all(&s);
	flux_destroy(s.flux);
	CHECK_EQ(fdtest_open(), open);
}

/* Runs several networks, one after the other. */
static void one_seed(uint64_t seed)
{
	for (int i = 0; i < 8; i++)
		network(test_rand(&seed));
}

int main(int argc, char **argv)
{
	return storm_main(argc, argv, one_seed);
}
