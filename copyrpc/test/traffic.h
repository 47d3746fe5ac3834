/* SPDX-License-Identifier: MIT */
/*
 * Random traffic over real endpoints. A node is a context with some endpoints, each of which makes
 * a number of calls and serves as many. A request's first 8 bytes are the call's token: its number,
 * its endpoint, and the largest length of the response. A response begins with REPLY_TO(token).
 * These 8 bytes determine the other ones, a part of a random table; all are compared. With the
 * table, memcpy() and memcmp() suffice, and a sanitizer checks one access for each payload, not one
 * for each byte.
 */
#ifndef COPYRPC_TEST_TRAFFIC_H
#define COPYRPC_TEST_TRAFFIC_H

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>

#include "pair.h"

#define NODE_EPS 16
#define NODE_CALLS 262144
#define NODE_HELD 256
#define PAYLOAD_MAX (1 << 17)

struct node {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep[NODE_EPS];
	int eps;
	uint64_t seed;
	uint32_t max; /* largest payload in both directions; at least 8 */
	uint32_t calls; /* number of calls that each endpoint makes, and serves */
	uint32_t sent[NODE_EPS], got[NODE_EPS], served[NODE_EPS];
	struct copyrpc_req *held[NODE_HELD];
	uint32_t nheld;
	uint8_t ended[NODE_EPS][NODE_CALLS]; /* node_open() clears the part that is used */
};

#define TOKEN(resp, ep, seq) ((uint64_t)(resp) << 40 | (uint64_t)(ep) << 32 | (seq))
#define TOKEN_RESP(token) ((uint32_t)((token) >> 40))
#define TOKEN_EP(token) ((int)((token) >> 32 & 0xff))
#define REPLY_TO(token) ((token) ^ 0x5555555555555555ull)

#define TRAFFIC_STARTS 4096u

static uint8_t traffic_table[TRAFFIC_STARTS + PAYLOAD_MAX];

/* Fills the table with the same bytes in each process. */
__attribute__((constructor)) static void traffic_table_make(void)
{
	uint64_t rand = 0;

	for (size_t i = 0; i < sizeof(traffic_table); i += sizeof(uint64_t)) {
		uint64_t word = test_rand(&rand);

		memcpy(traffic_table + i, &word, sizeof(word));
	}
}

static inline const uint8_t *traffic_bytes(uint64_t token)
{
	return traffic_table + test_rand(&token) % TRAFFIC_STARTS;
}

static inline uint32_t traffic_fill(uint8_t *buf, uint32_t len, uint64_t token)
{
	memcpy(buf, traffic_bytes(token), len);
	if (len >= 8)
		memcpy(buf, &token, 8);
	return len;
}

static inline void traffic_check(const uint8_t *buf, uint32_t len, uint64_t token)
{
	CHECK(len >= 8 && memcmp(buf, &token, 8) == 0);
	CHECK(memcmp(buf + 8, traffic_bytes(token) + 8, len - 8) == 0);
}

static inline uint32_t traffic_below(struct node *n, uint32_t limit)
{
	return (uint32_t)(test_rand(&n->seed) % limit);
}

static inline void node_open(struct node *n, const struct copyrpc_ctx_attr *attr, int eps,
	uint32_t max, uint32_t calls, uint64_t seed)
{
	struct copyrpc_ctx_attr patient = attr ? *attr : (struct copyrpc_ctx_attr){0};

	patient.probe_ms = 120000; /* so that a peer on a slow machine does not count as dead */
	CHECK(eps <= NODE_EPS && calls <= NODE_CALLS);
	memset(n, 0, offsetof(struct node, ended));
	for (int i = 0; i < eps; i++)
		memset(n->ended[i], 0, calls);
	n->eps = eps;
	n->seed = seed;
	n->max = max;
	n->calls = calls;
	CHECK_EQ(copyrpc_ctx_create(&patient, &n->ctx), 0);
	for (intptr_t i = 0; i < eps; i++) {
		struct copyrpc_ep_attr ep = {.user = (void *)i};

		CHECK_EQ(copyrpc_ep_create(n->ctx, &ep, &n->ep[i]), 0);
	}
}

static inline void node_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct node *n = arg;
	intptr_t i = (intptr_t)copyrpc_ep_user(ep);
	uint32_t seq = (uint32_t)token;

	CHECK_EQ(status, 0);
	CHECK(ep == n->ep[i] && TOKEN_EP(token) == i && len <= TOKEN_RESP(token));
	CHECK(seq < n->sent[i] && !n->ended[i][seq]);
	n->ended[i][seq] = 1;
	n->got[i]++;
	traffic_check(data, len, REPLY_TO(token));
}

static inline void node_call(struct node *n, int i)
{
	static __thread uint8_t buf[PAYLOAD_MAX];
	uint32_t len = 8 + traffic_below(n, n->max - 7), resp = 8 + traffic_below(n, n->max - 7);
	uint64_t token = TOKEN(resp, i, n->sent[i]);
	int rc = copyrpc_call(n->ep[i], buf, traffic_fill(buf, len, token), resp, token);

	CHECK(rc == 0 || rc == -EAGAIN || rc == -ENOBUFS);
	if (!rc)
		n->sent[i]++;
}

/* Answers the i-th held request with as many bytes as its caller allows, or fewer. First checks
 * that a reply that is one byte too long is refused. */
static inline void node_serve(struct node *n, uint32_t i)
{
	static __thread uint8_t buf[PAYLOAD_MAX];
	struct copyrpc_req *req = n->held[i];
	uint32_t max = copyrpc_req_allowance(req);
	uint32_t len;
	uint64_t token;

	memcpy(&token, copyrpc_req_data(req), 8);
	traffic_check(copyrpc_req_data(req), copyrpc_req_len(req), token);
	n->served[(intptr_t)copyrpc_ep_user(copyrpc_req_ep(req))]++;
	CHECK_EQ(max, TOKEN_RESP(token));
	CHECK_EQ(copyrpc_reply(req, buf, max + 1), -EMSGSIZE);
	len = traffic_below(n, 4) ? 8 + traffic_below(n, max - 7) : max;
	CHECK_EQ(copyrpc_reply(req, buf, traffic_fill(buf, len, REPLY_TO(token))), 0);
	n->held[i] = n->held[--n->nheld];
}

static inline void node_step(struct node *n)
{
	int moved;

	for (int i = 0; i < n->eps; i++)
		for (uint32_t k = traffic_below(n, 40); k && n->sent[i] < n->calls; k--)
			node_call(n, i);
	moved = copyrpc_poll(n->ctx, node_response, n);
	while (n->nheld < NODE_HELD && copyrpc_recv(n->ctx, &n->held[n->nheld])) {
		if (traffic_below(n, 8) == 0)
			CHECK_EQ(copyrpc_req_detach(n->held[n->nheld]), 0);
		n->nheld++;
	}
	for (uint32_t k = traffic_below(n, 64); k && n->nheld; k--)
		node_serve(n, traffic_below(n, n->nheld));
	if (!moved)
		sched_yield();
}

/* True if all calls have ended and all calls of the peer were answered. */
static inline bool node_done(const struct node *n)
{
	for (int i = 0; i < n->eps; i++)
		if (n->got[i] < n->calls || n->served[i] < n->calls)
			return false;
	return true;
}

/* Connects the endpoints of two nodes to each other, and runs the nodes until both are done. */
static inline void nodes_run(struct node nodes[2], uint64_t seed)
{
	for (int i = 0; i < nodes[0].eps; i++)
		connect_eps((struct copyrpc_ep *[]){nodes[0].ep[i], nodes[1].ep[i]});
	while (!node_done(&nodes[0]) || !node_done(&nodes[1]))
		node_step(&nodes[test_rand(&seed) % 2]);
}

/* Checks that the context's counters agree with the test's operations. */
static inline struct copyrpc_stats node_balance(const struct node *n)
{
	struct copyrpc_stats s = ctx_stats_of(n->ctx);

	CHECK_EQ(s.calls, (uint64_t)n->calls * (uint64_t)n->eps);
	CHECK_EQ(s.replies, s.calls);
	CHECK_EQ(s.requests, s.calls);
	CHECK_EQ(s.responses, s.calls);
	CHECK_EQ(s.failed_calls, 0);
	return s;
}

static inline void node_report(const struct node *n)
{
	struct copyrpc_stats s = node_balance(n);

	printf("  %.1f messages a batch; %" PRIu64 " wraps, %" PRIu64 " READs, %" PRIu64
	       " credit batches, stalls for room %" PRIu64 ", credit %" PRIu64 ", queue %" PRIu64
	       "\n",
		(double)(s.calls + s.replies) / (double)s.batches, s.wraps, s.reads, s.credit_only,
		s.ring_stalls, s.credit_stalls, s.sq_stalls);
}

static inline void node_exchange(int fd, const void *mine, void *theirs)
{
	CHECK_EQ(send(fd, mine, COPYRPC_INFO_SIZE, MSG_NOSIGNAL), COPYRPC_INFO_SIZE);
	CHECK_EQ(recv(fd, theirs, COPYRPC_INFO_SIZE, MSG_WAITALL), COPYRPC_INFO_SIZE);
}

/* True if the peer reports that it has finished. */
static inline bool node_heard(int fd)
{
	char c;
	ssize_t got = recv(fd, &c, 1, MSG_DONTWAIT);

	CHECK(got == 1 || (got < 0 && errno == EAGAIN)); /* else the other process has ended */
	return got == 1;
}

/*
 * Runs a node whose peer is in another process, at the other end of the socket @fd. Serves until
 * the peer reports that it has finished, too.
 */
static inline void node_with_peer(struct node *n, int fd, const struct copyrpc_ctx_attr *attr,
	int eps, uint32_t max, uint32_t calls, uint64_t seed)
{
	uint8_t mine[COPYRPC_INFO_SIZE], theirs[COPYRPC_INFO_SIZE];
	bool told = false, heard = false;

	node_open(n, attr, eps, max, calls, seed);
	for (int i = 0; i < eps; i++) {
		copyrpc_ep_info(n->ep[i], mine);
		node_exchange(fd, mine, theirs);
		CHECK_EQ(copyrpc_ep_connect(n->ep[i], theirs, sizeof(theirs)), 0);
	}
	while (!told || !heard) {
		node_step(n);
		heard = heard || node_heard(fd);
		if (!told && node_done(n)) {
			told = true;
			CHECK_EQ(send(fd, "x", 1, MSG_NOSIGNAL), 1);
		}
	}
	node_report(n);
	copyrpc_ctx_destroy(n->ctx);
}

#endif
