/* SPDX-License-Identifier: MIT */
/*
 * Several nodes, which are contexts of one thread, make calls. They form a star, or a mesh in which
 * both ends of each pair dial at once. Meanwhile queue pairs fail, work requests have errors,
 * cables are pulled, addresses are replaced, TCP connections are cut, nodes are restarted, rings
 * grow and calls are canceled. Some calls are large, or their servers pull from or push into memory
 * of the caller. Each call is executed at most once and ends exactly once; it ends with its
 * response unless it was canceled, or one of its two nodes was restarted.
 *
 *	test-copyrpc-squall [CALLS]
 */
#include <inttypes.h>

#include "back.h"
#include "copyrpc_bulk.h"

#if TIMES > 1 /* the long form */
#define DEFAULT_CALLS 100000
#define GUARD_S 3000
#else
#define DEFAULT_CALLS (400 / SCALE)
#define GUARD_S 800
#endif
#define NODES_MOST 8
#define CALM 25 /* maximum number of calls between two faults */
#define LONG 20000 /* bytes of a large message or a transfer, at most */

/* An endpoint that is not connected again within this time fails. The side that has not dialed has
 * no other way to detect that its peer was restarted. Here, a new connection takes much less
 * time. */
#define RETURN_MS 120000

enum kind { PLAIN, LARGE, PULL, PUSH };

/* A request that the server holds. */
struct holder {
	struct copyrpc_req *req; /* NULL: none */
	uint32_t number;
	bool moving; /* a pull or a push is in progress */
	uint8_t bytes[LONG]; /* of the pull or the push */
};

struct member {
	struct copyrpc_ctx *ctx;
	int listener;
	struct copyrpc_ep *to[NODES_MOST];
	bool dials[NODES_MOST];
	struct copyrpc_bulk *bulk; /* of the memory of `held` */
	struct holder held[HELD];
};

struct told { /* begins messages and moved bytes; the number determines the bytes after it */
	uint32_t number;
};

/* The request of a pull or a push. */
struct described {
	uint32_t number;
	uint8_t desc[COPYRPC_BULK_SIZE];
};

/* The caller's memory of a call that is not PLAIN. */
struct memory {
	struct copyrpc_bulk *bulk; /* NULL if LARGE */
	uint8_t sent[LONG], got[LONG];
};

/* IS_EXCUSED: one of the call's two nodes was restarted, so the call may end with an error. */
enum { IS_CANCELED = 1, IS_EXCUSED = 2, HAS_ENDED = 4, WAS_EXECUTED = 8 };

static struct {
	struct member at[NODES_MOST];
	uint32_t n, made, most, ended, answered, excused, canceled;
	uint64_t returns, resent, grown, restarts;
	bool mesh;
	uint8_t *flags, *from, *to; /* of each call */
	struct memory **memory; /* of each call */
} all;

static enum kind kind_of(uint32_t number)
{
	return number % 8 <= PUSH ? number % 8 : PLAIN;
}

static bool is_long(uint32_t number, bool response)
{
	enum kind kind = kind_of(number);

	return kind == LARGE || kind == (response ? PUSH : PULL);
}

static uint32_t size_of(uint32_t number, bool response)
{
	uint32_t salt = number * 2654435761u >> 16;

	uint32_t most = salt & 3 ? 40 : 900;

	if (is_long(number, response))
		most = salt & 1 ? 1200 : LONG - (uint32_t)sizeof(struct told);
	return (uint32_t)sizeof(struct told) + (response ? salt * 7 : salt) % most;
}

static void write_told(uint8_t *bytes, uint32_t number, bool response)
{
	memset(bytes, (int)(number * 7 + response), size_of(number, response));
	memcpy(bytes, &number, sizeof(number));
}

static void check_told(const void *data, uint32_t len, uint32_t number, bool response)
{
	static uint8_t want[LONG];

	write_told(want, number, response);
	CHECK_EQ(len, size_of(number, response));
	CHECK(!memcmp(data, want, len));
}

static void end_call(uint32_t number)
{
	CHECK(!(all.flags[number] & HAS_ENDED));
	all.flags[number] |= HAS_ENDED;
	all.ended++;
	if (all.memory[number])
		copyrpc_bulk_free(all.memory[number]->bulk);
	free(all.memory[number]);
	all.memory[number] = NULL;
}

static void check_response(uint32_t number, const void *data, uint32_t len)
{
	if (kind_of(number) == LARGE)
		CHECK(data == all.memory[number]->got);
	if (kind_of(number) == PUSH)
		check_told(all.memory[number]->sent, size_of(number, true), number, true);
	else
		check_told(data, len, number, true);
}

static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	uint32_t number = (uint32_t)token;
	uint8_t flags = all.flags[number];

	CHECK(arg == &all.at[all.from[number]]);
	if (!status)
		check_response(number, data, len);
	end_call(number);
	if (!status) {
		CHECK(flags & WAS_EXECUTED);
		all.answered++;
		return;
	}
	CHECK(flags & (IS_CANCELED | IS_EXCUSED));
	CHECK(flags & IS_EXCUSED || status == -ECANCELED);
}

/* ------------------------------------------------------------------ nodes */

static uint32_t number_of_member(const struct member *m)
{
	return (uint32_t)(m - all.at);
}

static void open_member(struct member *m)
{
	static const struct copyrpc_large_attr large = {.message_max = LONG};
	const struct copyrpc_ctx_attr attr = {.size = sizeof(attr),
		.device = number_of_member(m) & 1 ? "mlx5_1" : "mlx5_0",
		.ring_size = 1 << 16,
		.max_endpoints = 32,
		.sq_depth = 16,
		.reconnect_ms = RETURN_MS,
		.probe_ms = 20000,
		.path = &quick};
	int rc;

	memset(m->to, 0, sizeof(m->to));
	memset(m->dials, 0, sizeof(m->dials));
	memset(m->held, 0, sizeof(m->held));
	do /* while the cable is out */
		rc = copyrpc_ctx_create(&attr, &m->ctx);
	while (rc == -ENETDOWN && !HCA(softhca_link_set)(attr.device, true));
	CHECK_EQ(rc, 0);
	stop_clock(m->ctx);
	CHECK_EQ(copyrpc_large_accept(m->ctx, &large), 0);
	CHECK_EQ(copyrpc_bulk_create(m->ctx, m->held, sizeof(m->held), 0, &m->bulk), 0);
	CHECK_EQ(copyrpc_listen(m->ctx, NULL, m->listener, NODES_MOST), 0);
}

static void close_member(struct member *m)
{
	struct copyrpc_stats st = ctx_stats_of(m->ctx);

	all.returns += st.returns;
	all.resent += st.resent;
	all.grown += st.grown;
	copyrpc_ctx_destroy(m->ctx);
}

/* Replaces a node's context by a new one, as if its process had been restarted. */
static void restart(struct member *m)
{
	uint32_t self = number_of_member(m);

	close_member(m); /* the memory of its calls is in use until then */
	for (uint32_t k = 0; k < all.made; k++) {
		if (all.flags[k] & HAS_ENDED || (all.from[k] != self && all.to[k] != self))
			continue;
		all.flags[k] |= IS_EXCUSED;
		all.excused++;
		if (all.from[k] != self)
			continue;
		if (all.memory[k])
			all.memory[k]->bulk = NULL; /* freed with the context */
		end_call(k);
	}
	all.restarts++;
	open_member(m);
}

/* True if node @from dials node @to. In a star all dial the first node; in a mesh both ends
 * dial. */
static bool dials(uint32_t from, uint32_t to)
{
	return from != to && (all.mesh || !to);
}

static void dial_all(struct member *m)
{
	const struct copyrpc_dial_attr attr = {.single = true};

	for (uint32_t i = 0; i < all.n; i++) {
		if (!dials(number_of_member(m), i) || m->to[i] || m->dials[i])
			continue;
		CHECK_EQ(copyrpc_dial(m->ctx, &attr, "127.0.0.1",
				 (uint16_t)copyrpc_tcp_port(all.at[i].listener), FAR_MS, i),
			0);
		m->dials[i] = true;
	}
}

static void answer_held(struct holder *h)
{
	static uint8_t bytes[LONG];
	uint32_t len = kind_of(h->number) == PUSH ? 0 : size_of(h->number, true);

	write_told(bytes, h->number, true);
	copyrpc_reply(h->req, bytes, len);
	h->req = NULL;
}

static void on_moved(void *arg, struct copyrpc_ep *ep, int status)
{
	struct holder *h = arg;

	h->moving = false;
	/* @status may be 0 although the endpoint has failed: the last byte and then the peer's
	 * goodbye may have arrived in the same poll. */
	CHECK(!status || status == copyrpc_ep_status(ep) || status == -ECANCELED);
	if (!status && kind_of(h->number) == PULL)
		check_told(h->bytes, size_of(h->number, false), h->number, false);
}

/* Starts the pull or the push of a request, unless the endpoint has failed. */
static void move(struct member *m, struct holder *h)
{
	const struct described *r = copyrpc_req_data(h->req);
	struct copyrpc_ep *ep = copyrpc_req_ep(h->req);
	uint32_t number = h->number, off = (uint32_t)(h->bytes - (uint8_t *)m->held);
	struct copyrpc_remote remote;
	int rc;

	CHECK_EQ(copyrpc_req_len(h->req), sizeof(*r));
	CHECK_EQ(copyrpc_bulk_import(ep, r->desc, sizeof(r->desc), &remote), 0);
	write_told(h->bytes, number, true);
	if (kind_of(number) == PULL)
		rc = copyrpc_bulk_pull(ep, &remote, 0, m->bulk, off, size_of(number, false),
			on_moved, h);
	else
		rc = copyrpc_bulk_push(ep, m->bulk, off, &remote, 0, size_of(number, true),
			on_moved, h);
	h->moving = !rc;
	CHECK(!rc || rc == copyrpc_ep_status(ep));
}

static void forget(struct member *m, struct copyrpc_ep *ep)
{
	for (uint32_t i = 0; i < all.n; i++)
		if (m->to[i] == ep)
			m->to[i] = NULL;
	for (int i = 0; i < HELD; i++) {
		struct holder *h = &m->held[i];

		if (h->req && !h->moving && copyrpc_req_ep(h->req) == ep)
			answer_held(h);
	}
	copyrpc_ep_destroy(ep);
}

static void take_all_events(struct member *m)
{
	struct copyrpc_event e;

	while (copyrpc_event_recv(m->ctx, &e, sizeof(e))) {
		if (e.kind == COPYRPC_DOWN && e.status != -EAGAIN)
			forget(m, e.ep);
		if (e.token == NODES_MOST)
			continue;
		if (e.kind == COPYRPC_UP)
			m->to[e.token] = e.ep;
		if (e.kind == COPYRPC_UP || e.kind == COPYRPC_GONE)
			m->dials[e.token] = false;
	}
}

static void take_request(struct member *m, struct holder *h, struct copyrpc_req *req)
{
	uint32_t number;

	memcpy(&number, copyrpc_req_data(req), sizeof(number));
	CHECK(number < all.made && all.to[number] == number_of_member(m));
	CHECK(!(all.flags[number] & WAS_EXECUTED));
	all.flags[number] |= WAS_EXECUTED;
	if (!all.mesh) /* the first node calls those that have called it */
		m->to[all.from[number]] = copyrpc_req_ep(req);
	h->req = req;
	h->number = number;
	if (kind_of(number) == PULL || kind_of(number) == PUSH)
		move(m, h);
	else
		check_told(copyrpc_req_data(req), copyrpc_req_len(req), number, false);
}

static void serve_all(struct member *m)
{
	for (int i = 0; i < HELD; i++) {
		struct holder *h = &m->held[i];
		struct copyrpc_req *req;

		if (h->req && !h->moving && pick(3) == 0)
			answer_held(h);
		if (!h->req && copyrpc_recv(m->ctx, &req))
			take_request(m, h, req);
	}
}

static int call_described(struct copyrpc_ep *ep, struct memory *y, uint32_t number)
{
	uint32_t max = kind_of(number) == PUSH ? 0 : size_of(number, true);
	struct described r = {.number = number};

	CHECK_EQ(copyrpc_bulk_create(copyrpc_ep_ctx(ep), y->sent, LONG,
			 COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE, &y->bulk),
		0);
	CHECK_EQ(copyrpc_bulk_export(y->bulk, ep, 0, LONG, r.desc), 0);
	return copyrpc_call(ep, &r, sizeof(r), max, number);
}

static int call_long(struct copyrpc_ep *ep, uint32_t number)
{
	struct memory *y = malloc(sizeof(*y));
	int rc;

	y->bulk = NULL;
	write_told(y->sent, number, false);
	if (kind_of(number) == LARGE)
		rc = copyrpc_call_large(ep, y->sent, size_of(number, false), y->got,
			size_of(number, true), number);
	else
		rc = call_described(ep, y, number);
	if (!rc) {
		all.memory[number] = y;
		return 0;
	}
	copyrpc_bulk_free(y->bulk);
	free(y);
	return rc;
}

static int call_plain(struct copyrpc_ep *ep, uint32_t number)
{
	uint8_t bytes[1024];

	write_told(bytes, number, false);
	return copyrpc_call(ep, bytes, size_of(number, false), size_of(number, true), number);
}

static void make_calls(struct member *m)
{
	for (uint32_t k = pick(4); k && all.made < all.most; k--) {
		uint32_t to = pick(all.n), number = all.made;

		if (!m->to[to])
			continue;
		all.from[number] = (uint8_t)number_of_member(m);
		all.to[number] = (uint8_t)to;
		if (kind_of(number) == PLAIN ? call_plain(m->to[to], number) :
					       call_long(m->to[to], number))
			continue;
		all.made++;
		if (m->to[to]->single != all.at[to].ctx->node) { /* the peer was restarted */
			all.flags[number] |= IS_EXCUSED;
			all.excused++;
		}
		/* Pulls and pushes are not canceled, because the server would go on to use the
		 * caller's memory. */
		if (kind_of(number) < PULL && pick(50) == 0 && !copyrpc_cancel(m->to[to], number)) {
			all.flags[number] |= IS_CANCELED;
			all.canceled++;
		}
	}
}

static void turn_member(struct member *m)
{
	now += NSEC_PER_MSEC / 2;
	dial_all(m);
	make_calls(m);
	copyrpc_poll(m->ctx, on_end, m);
	take_all_events(m);
	serve_all(m);
}

/* ------------------------------------------------------------------ faults */

static void squall_fault(void)
{
	static int rules[2];
	struct member *m = &all.at[pick(all.n)];
	uint32_t to = pick(all.n);

	switch (pick(12)) {
	case 0:
	case 1:
		cut_tcp(m->ctx, m->listener);
		break;
	case 2:
		HCA(softhca_link_set)(pick(2) ? "mlx5_0" : "mlx5_1", false);
		break;
	case 3:
		replace_address(pick(2) ? "mlx5_0" : "mlx5_1");
		break;
	case 4:
		if (pick(4) == 0)
			restart(m);
		break;
	case 5:
	case 6:
		if (m->to[to] && !copyrpc_ep_status(m->to[to]))
			ep_fail(m->to[to], -ECONNRESET);
		break;
	default:
		rule_replace(&rules[pick(2)], fault_rules[pick(ARRAY_SIZE(fault_rules))],
			1 + pick(8));
	}
}

/* ------------------------------------------------------------------ storms */

static uint32_t n_calls;

static void open_all(bool mesh, uint32_t n)
{
	free(all.flags);
	free(all.memory);
	memset(&all, 0, sizeof(all));
	all.mesh = mesh;
	all.n = n;
	all.most = n_calls;
	all.flags = calloc(3, n_calls);
	all.from = all.flags + n_calls;
	all.to = all.from + n_calls;
	all.memory = calloc(n_calls, sizeof(*all.memory));
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &all.at[i].listener), 0);
	for (uint32_t i = 0; i < n; i++)
		open_member(&all.at[i]);
}

/* @most: the seed determines the number of nodes, which is at most this. */
static void squall(bool mesh, uint32_t most)
{
	uint32_t n, next = 0;

	seed = test_seed();
	n = 2 + pick(most - 1);
	alarm(GUARD_S);
	open_all(mesh, n);
	while (all.ended < all.most) {
		if (all.ended >= next || pick(3000) == 0) {
			squall_fault();
			next = all.ended + 1 + pick(CALM);
		}
		if (pick(200) == 0) {
			HCA(softhca_link_set)("mlx5_0", true);
			HCA(softhca_link_set)("mlx5_1", true);
		}
		turn_member(&all.at[pick(n)]);
	}
	HCA(softhca_link_set)("mlx5_0", true);
	HCA(softhca_link_set)("mlx5_1", true);
	for (uint32_t i = 0; i < n; i++) {
		close_member(&all.at[i]);
		close(all.at[i].listener);
	}
	printf("  %u nodes, %u calls: %u answered, %u canceled, %u of restarted nodes; %" PRIu64
	       " restarts, %" PRIu64 " returns, %" PRIu64 " batches again, %" PRIu64
	       " larger rings\n",
		n, all.most, all.answered, all.canceled, all.excused, all.restarts, all.returns,
		all.resent, all.grown);
	CHECK(all.answered + all.canceled + all.excused >= all.most);
	CHECK(SCALE > 1 || all.returns);
}

TEST_WITH(pair, squall, true, 2);
TEST_WITH(star, squall, false, NODES_MOST);
TEST_WITH(mesh, squall, true, NODES_MOST);

int main(int argc, char **argv)
{
	n_calls = (uint32_t)test_number(&argc, argv, DEFAULT_CALLS);
	return test_main(argc, argv);
}
