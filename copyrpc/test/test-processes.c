/* SPDX-License-Identifier: MIT */
/*
 * A server and several clients, each a process, whose connections are lost again and again: errors
 * of work requests of all kinds, links that go down, addresses that are replaced. The calls have
 * side effects, which the server counts in memory that all share: each call must be executed once
 * and answered once, and all bytes must be right. There are small calls, large calls, and calls for
 * which the server pulls from and pushes into the client's memory.
 *
 *	test-copyrpc-processes [CALLS [FAULTS [CASE]]]
 *
 * CALLS: number of calls of each client; FAULTS: approximate number of faults.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "copyrpc_bulk.h"
#include "copyrpc_tcp.h"
#include "faults.h"
#include "pair.h"
#include "process.h"

#if TIMES > 1 /* the long form */
#define CALLS 340000
#define FAULTS 5000
#else
#define CALLS (1500 / SCALE)
#define FAULTS (60 / SCALE)
#endif

enum {
	CLIENTS = 3,
	WINDOW = 16, /* pending calls of a client */
	HELD = 8, /* requests that the server holds */
	LONG = 100000, /* bytes of a large call or a transfer, at most */
	SMALL = 200,
	MOST = 1 << 20, /* calls of a client, at most */
	GUARD_S = 3000,
};

enum kind { PLAIN, LARGE, PULL, PUSH, KINDS };

/* A request. @client and @number determine @bytes. */
struct request {
	uint32_t client, number, kind, len;
	uint8_t desc[COPYRPC_BULK_SIZE];
	uint8_t bytes[SMALL];
};

#define HEAD offsetof(struct request, bytes)

struct shared {
	_Atomic uint8_t executed[CLIENTS][MOST], answered[CLIENTS][MOST];
	_Atomic uint64_t done; /* calls that were answered */
	_Atomic uint32_t ready, leaving; /* numbers of clients */
	_Atomic uint64_t returns[CLIENTS + 1], resent[CLIENTS + 1];
	int listener;
	uint32_t calls, faults;
	uint64_t seed;
};

static struct shared *shared;

static void fill(void *at, uint32_t len, uint32_t client, uint32_t number, uint32_t salt)
{
	uint64_t word =
		((uint64_t)client << 40 | (uint64_t)number << 8 | salt) * 0x9e3779b97f4a7c15;
	uint8_t *to = at;

	for (uint32_t i = 0; i < len; i += sizeof(word), word += 0x100000001b3)
		memcpy(to + i, &word, len - i < sizeof(word) ? len - i : sizeof(word));
}

static void check(const void *at, uint32_t len, uint32_t client, uint32_t number, uint32_t salt)
{
	static uint8_t want[LONG];

	fill(want, len, client, number, salt);
	CHECK(!memcmp(at, want, len));
}

static struct copyrpc_ctx *open_ctx(const char *device)
{
	const struct copyrpc_ctx_attr attr = {.size = sizeof(attr),
		.device = device,
		.ring_size = 65536,
		.max_endpoints = 2 * CLIENTS,
		.reconnect_ms = 1000000,
		.probe_ms = 300,
		.path = &quick};
	struct copyrpc_ctx *ctx;

	CHECK_EQ(copyrpc_ctx_create(&attr, &ctx), 0);
	return ctx;
}

static void report(const struct copyrpc_ctx *ctx, uint32_t who)
{
	struct copyrpc_stats s = ctx_stats_of(ctx);

	shared->returns[who] = s.returns;
	shared->resent[who] = s.resent;
}

/* Sleeps until there is something to do, at most 5 ms. */
static void rest(struct copyrpc_ctx *ctx)
{
	int ms = copyrpc_ctx_timeout(ctx);

	if (!copyrpc_ctx_arm(ctx))
		readable(ctx, ms < 0 || ms > 5 ? 5 : ms);
}

static void take_events(struct copyrpc_ctx *ctx, struct copyrpc_ep **ep_p)
{
	struct copyrpc_event e;

	while (copyrpc_event_recv(ctx, &e, sizeof(e))) {
		CHECK(e.kind == COPYRPC_UP || e.kind == COPYRPC_BACK || e.status == -EAGAIN ||
			shared->leaving);
		if (e.kind == COPYRPC_UP && ep_p)
			*ep_p = e.ep;
	}
}

/* ------------------------------------------------------------------ the server */

struct moved {
	struct copyrpc_req *req; /* NULL: free */
	struct copyrpc_bulk *bulk;
	uint8_t bytes[LONG];
};

struct server {
	struct copyrpc_ctx *ctx;
	struct moved moved[HELD];
	struct copyrpc_req *held[HELD];
	uint64_t seed;
};

static uint32_t pick(uint64_t *seed, uint32_t n)
{
	return (uint32_t)(test_rand(seed) % n);
}

static void reply(struct copyrpc_req *req, const struct request *r)
{
	static uint8_t bytes[LONG];
	uint32_t len = r->kind == LARGE ? r->len : r->len % SMALL;

	fill(bytes, len, r->client, r->number, 2);
	CHECK_EQ(copyrpc_reply(req, bytes, len), 0);
}

static void on_moved(void *arg, struct copyrpc_ep *ep, int status)
{
	struct moved *m = arg;
	struct request r;

	CHECK_EQ(status, 0);
	memcpy(&r, copyrpc_req_data(m->req), HEAD);
	if (r.kind == PULL)
		check(m->bytes, r.len, r.client, r.number, 1);
	reply(m->req, &r);
	m->req = NULL;
}

/* Moves the bytes of a request. */
static void move(struct server *s, struct copyrpc_req *req, const struct request *r)
{
	struct copyrpc_ep *ep = copyrpc_req_ep(req);
	struct copyrpc_remote there;
	struct moved *m = s->moved;

	while (m->req)
		m++;
	m->req = req;
	CHECK_EQ(copyrpc_bulk_import(ep, r->desc, sizeof(r->desc), &there), 0);
	if (r->kind == PULL) {
		CHECK_EQ(copyrpc_bulk_pull(ep, &there, 0, m->bulk, 0, r->len, on_moved, m), 0);
		return;
	}
	fill(m->bytes, r->len, r->client, r->number, 1);
	CHECK_EQ(copyrpc_bulk_push(ep, m->bulk, 0, &there, 0, r->len, on_moved, m), 0);
}

static uint32_t moving(const struct server *s)
{
	uint32_t n = 0;

	for (int i = 0; i < HELD; i++)
		n += !!s->moved[i].req;
	return n;
}

/* Counts and checks a call. Then answers it, holds it, or starts its transfer. */
static void execute(struct server *s, struct copyrpc_req *req)
{
	struct request r;

	memcpy(&r, copyrpc_req_data(req), HEAD);
	CHECK(r.client < CLIENTS && r.number < MOST && r.kind < KINDS && r.len <= LONG);
	CHECK_EQ(atomic_fetch_add(&shared->executed[r.client][r.number], 1), 0);
	check((const uint8_t *)copyrpc_req_data(req) + HEAD, copyrpc_req_len(req) - (uint32_t)HEAD,
		r.client, r.number, 0);
	if (r.kind == PULL || r.kind == PUSH) {
		move(s, req, &r);
		return;
	}
	for (int i = 0; i < HELD && r.kind == PLAIN; i++) {
		if (s->held[i])
			continue;
		s->held[i] = req;
		return;
	}
	reply(req, &r);
}

static void answer_held(struct server *s, uint32_t odds)
{
	for (int i = 0; i < HELD; i++) {
		struct request r;

		if (!s->held[i] || pick(&s->seed, odds))
			continue;
		memcpy(&r, copyrpc_req_data(s->held[i]), HEAD);
		reply(s->held[i], &r);
		s->held[i] = NULL;
	}
}

static void serve(uint32_t unused)
{
	static struct server s;
	const struct copyrpc_large_attr large = {.message_max = LONG};
	struct copyrpc_req *req;
	uint32_t holds = 0;

	s.ctx = open_ctx("mlx5_1");
	s.seed = shared->seed;
	for (int i = 0; i < HELD; i++)
		CHECK_EQ(copyrpc_bulk_create(s.ctx, s.moved[i].bytes, LONG, 0, &s.moved[i].bulk),
			0);
	CHECK_EQ(copyrpc_large_accept(s.ctx, &large), 0);
	CHECK_EQ(copyrpc_listen(s.ctx, NULL, shared->listener, 0), 0);
	while (atomic_load(&shared->leaving) < CLIENTS) {
		int n = copyrpc_poll(s.ctx, NULL, NULL);

		take_events(s.ctx, NULL);
		while (moving(&s) < HELD && copyrpc_recv(s.ctx, &req)) {
			execute(&s, req);
			holds = 0;
		}
		answer_held(&s, holds++ < 4 ? 3 : 1);
		if (!n && holds > 4)
			rest(s.ctx);
	}
	report(s.ctx, CLIENTS);
	copyrpc_ctx_destroy(s.ctx);
}

/* ------------------------------------------------------------------ a client */

/* Room for a pending call. */
struct slot {
	bool busy;
	enum kind kind;
	uint32_t number, len;
	struct copyrpc_bulk *bulk;
	uint8_t request[LONG], bytes[LONG]; /* request: of a large call; bytes: of a large
					       response, or moved */
};

struct client {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;
	uint32_t me, made, ended;
	uint64_t seed;
	struct slot slot[WINDOW];
};

static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	struct client *c = arg;
	struct slot *s = &c->slot[token];

	CHECK_EQ(status, 0);
	CHECK(s->busy);
	CHECK_EQ(len, s->kind == LARGE ? s->len : s->len % SMALL);
	CHECK_EQ(shared->executed[c->me][s->number], 1);
	CHECK_EQ(atomic_fetch_add(&shared->answered[c->me][s->number], 1), 0);
	check(data, len, c->me, s->number, 2);
	if (s->kind == PUSH)
		check(s->bytes, s->len, c->me, s->number, 1);
	s->busy = false;
	c->ended++;
	atomic_fetch_add(&shared->done, 1);
}

/* Makes a call if there is room. Returns true if it was made. */
static bool make_call(struct client *c, struct slot *s)
{
	struct request r = {.client = c->me, .number = c->made};
	uint32_t token = (uint32_t)(s - c->slot), extra;
	int rc;

	s->kind = pick(&c->seed, 8) ? PLAIN : (enum kind)pick(&c->seed, KINDS);
	s->number = c->made;
	s->len = 1 + pick(&c->seed, s->kind == PLAIN ? 1000 : LONG);
	r.kind = s->kind;
	r.len = s->len;
	if (s->kind == LARGE) {
		if (s->len < HEAD)
			s->len = r.len = HEAD;
		memcpy(s->request, &r, HEAD);
		fill(s->request + HEAD, s->len - (uint32_t)HEAD, c->me, c->made, 0);
		rc = copyrpc_call_large(c->ep, s->request, s->len, s->bytes, s->len, token);
	} else {
		if (s->kind != PLAIN)
			CHECK_EQ(copyrpc_bulk_export(s->bulk, c->ep, 0, s->len, r.desc), 0);
		if (s->kind == PULL)
			fill(s->bytes, s->len, c->me, c->made, 1);
		extra = s->len % SMALL;
		fill(r.bytes, extra, c->me, c->made, 0);
		rc = copyrpc_call(c->ep, &r, (uint32_t)HEAD + extra, SMALL, token);
	}
	CHECK(!rc || rc == -EAGAIN || rc == -ENOBUFS);
	s->busy = !rc;
	c->made += !rc;
	return !rc;
}

static void make_calls(struct client *c)
{
	for (uint32_t n = 1 + pick(&c->seed, WINDOW), i = 0; n && i < WINDOW; i++) {
		if (c->slot[i].busy || c->made == shared->calls)
			continue;
		if (!make_call(c, &c->slot[i]))
			return;
		n--;
	}
}

static void call(uint32_t me)
{
	static struct client c;

	c.me = me;
	c.seed = shared->seed + 100 + me;
	c.ctx = open_ctx("mlx5_0");
	for (int i = 0; i < WINDOW; i++)
		CHECK_EQ(copyrpc_bulk_create(c.ctx, c.slot[i].bytes, LONG,
				 COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE, &c.slot[i].bulk),
			0);
	CHECK_EQ(copyrpc_dial(c.ctx, NULL, "127.0.0.1",
			 (uint16_t)copyrpc_tcp_port(shared->listener), GUARD_S * 1000, me),
		0);
	while (c.ended < shared->calls) {
		int n = copyrpc_poll(c.ctx, on_end, &c);

		take_events(c.ctx, &c.ep);
		if (c.ep)
			make_calls(&c);
		if (!n)
			rest(c.ctx);
	}
	report(c.ctx, me);
	atomic_fetch_add(&shared->leaving, 1);
	while (atomic_load(&shared->leaving) < CLIENTS)
		poll(NULL, 0, 1);
	copyrpc_ctx_destroy(c.ctx);
}

/* ------------------------------------------------------------------ the director */

/* Makes one fault. A rule hits one message: the n-th from now on, where @turn determines n (1 to
 * 48). */
static void trouble(uint64_t *seed, uint32_t turn)
{
	static int rules[2];
	uint32_t which = pick(seed, ARRAY_SIZE(fault_rules) + 2), nth = 1 + turn % 48;
	int *rule = &rules[turn % 2];

	if (which < ARRAY_SIZE(fault_rules))
		rule_replace(rule, fault_rules[which], nth);
	else if (which == ARRAY_SIZE(fault_rules))
		replace_address(pick(seed, 2) ? "mlx5_0" : "mlx5_1");
	else
		rule_replace(rule,
			pick(seed, 2) ? "action=link_down device=mlx5_0" :
					"action=link_down device=mlx5_1",
			nth);
}

static void direct(uint32_t unused)
{
	struct copyrpc_ctx *ctx = open_ctx("mlx5_0"); /* joins the fabric, to add fault rules */
	uint64_t total = (uint64_t)CLIENTS * shared->calls, seed = shared->seed + 1;

	for (uint32_t turn = 0; atomic_load(&shared->leaving) < CLIENTS; turn++) {
		uint64_t next = total / (shared->faults + 1) * (turn + 1);

		/* Calls wait while there is no connection. Faults continue meanwhile. */
		for (int ms = 0; ms < 20 && shared->done < next; ms++)
			poll(NULL, 0, 1);
		CHECK_EQ(HCA(softhca_link_set)("mlx5_0", true), 0);
		CHECK_EQ(HCA(softhca_link_set)("mlx5_1", true), 0);
		if (shared->done < total - total / 10)
			trouble(&seed, turn);
	}
	copyrpc_ctx_destroy(ctx);
}

static uint32_t n_calls, n_faults;

TEST(storm)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		0);
	CHECK(shared != MAP_FAILED);
	shared->seed = test_seed();
	shared->calls = n_calls;
	shared->faults = n_faults;
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &shared->listener), 0);
	start_process(serve, 0, GUARD_S);
	for (uint32_t i = 0; i < CLIENTS; i++)
		start_process(call, i, GUARD_S);
	start_process(direct, 0, GUARD_S);
	reap_processes(CLIENTS + 2);
	for (uint32_t c = 0; c < CLIENTS; c++)
		for (uint32_t k = 0; k < MOST; k++) {
			CHECK_EQ(shared->executed[c][k], k < n_calls);
			CHECK_EQ(shared->answered[c][k], k < n_calls);
		}
	for (uint32_t i = 0; i <= CLIENTS; i++)
		printf("  %s: %" PRIu64 " endpoints returned, %" PRIu64
		       " batches were sent again\n",
			i < CLIENTS ? "client" : "server", shared->returns[i], shared->resent[i]);
	CHECK(SCALE > 1 || shared->returns[CLIENTS] >= n_faults / 6);
	munmap(shared, sizeof(*shared));
}

int main(int argc, char **argv)
{
	n_calls = (uint32_t)test_number(&argc, argv, CALLS);
	n_faults = (uint32_t)test_number(&argc, argv, FAULTS);
	CHECK(n_calls <= MOST);
	return test_main(argc, argv);
}
