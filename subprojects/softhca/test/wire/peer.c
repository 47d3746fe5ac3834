/* SPDX-License-Identifier: MIT */
/*
 * peer [-q QPS] [-n MESSAGES] [-t TIMEOUT] [-m MTU] [-p PORT] [-g GID[,GIDS]] [-f] [-s] [-e]
 * [HOST]: a server, or with HOST its client. Each side sends random messages of all kinds on each
 * QP. Both sides compute all messages from the same numbers, so every byte, every completion and
 * their order are checked.
 *
 * -t and -m are the codes of the QP attributes timeout and path_mtu; with timeout 0, the default,
 * the HCA repeats a request every 10 ms for ever. -g is the index of this side's GID; with GIDS the
 * QPs use that many GIDs in turn. -f: no request is fenced. -s: receives come from an SRQ. -e:
 * sends for ever; prints what ended it, which must be one error and then flushed requests.
 */
#include <getopt.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "meet.h"

#define QPS_MAX 8
#define MESSAGES_MAX 400
#define STRIDE 20480u
#define WINDOW 16
#define RECVS 8 /* few, so that some messages find none */
#define YIELDS 50 /* turns without a completion before a sleep */
#define PATTERN (STRIDE + 4096)
#define STARTS 4096u
#define RECV_ID (UINT64_C(1) << 32)

enum kind { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, FETCH_ADD, COMPARE_SWAP, KINDS };

struct plan {
	enum kind kind;
	uint32_t length;
	bool fence, solicited;
};

/* The data that the other side needs for each QP. */
struct address {
	union ibv_gid gid;
	uint32_t qpn, rkey;
	uint64_t landing, pattern, counters;
};

struct end {
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct address peer;
	uint8_t *memory, *landing, *pattern, *source, *receives;
	uint64_t *counters;
	uint32_t posted, done; /* messages of this side */
	uint32_t expected; /* the peer's message that the next receive is for */
	uint32_t fetched, swapped; /* atomics that have completed */
	bool failed;
};

static struct {
	uint32_t qps, messages, timeout, mtu, gid, gids;
	const char *port, *host;
	bool unfenced, srq, endless;
} opt = {.qps = 1, .messages = 300, .timeout = 0, .mtu = 3, .gids = 1, .port = "4444"};

static struct end ends[QPS_MAX];
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static int side; /* 0: server */
static uint32_t received, flushed;

/*
 * The bytes of each message are a part of this table, so a sanitizer sees a message as one access.
 */
static uint8_t table[STARTS + PATTERN];

static uint32_t hash(uint32_t a, uint32_t b)
{
	uint64_t x = (UINT64_C(0x9e3779b97f4a7c15) * (a + 1)) ^ ((uint64_t)b << 17);

	x = (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 29) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)(x >> 32);
}

static struct plan plan_of(int from, uint32_t q, uint32_t n)
{
	uint32_t h = hash((uint32_t)from * 64 + q, n);
	struct plan p = {.kind = h % KINDS,
		.fence = (h >> 8 & 1) && !opt.unfenced,
		.solicited = h >> 9 & 1};

	p.length = (h >> 10) % 3 ? (h >> 12) % 300 : (h >> 12) % STRIDE;
	if (p.kind >= FETCH_ADD)
		p.length = 8;
	return p;
}

static bool takes_receive(enum kind k)
{
	return k == SEND || k == SEND_IMM || k == WRITE_IMM;
}

static void make_table(void)
{
	for (uint32_t i = 0; i < sizeof(table); i += sizeof(uint32_t)) {
		uint32_t word = hash(i, 0) | 0x01010101; /* no byte is 0, unlike unwritten memory */

		memcpy(table + i, &word, sizeof(word));
	}
}

/* Returns where the bytes of a message begin; at least PATTERN bytes are there. */
static const uint8_t *bytes_of(int from, uint32_t q, uint32_t n)
{
	return table + hash((uint32_t)from * 64 + q, ~n) % STARTS;
}

static void fill(uint8_t *out, int from, uint32_t q, uint32_t n, uint32_t len)
{
	memcpy(out, bytes_of(from, q, n), len);
}

static void same(const uint8_t *bytes, int from, uint32_t q, uint32_t n, uint32_t len)
{
	CHECK(!memcmp(bytes, bytes_of(from, q, n), len));
}

/* Returns the first of the peer's messages from @n on that takes a receive. */
static uint32_t next_arrival(uint32_t q, uint32_t n)
{
	while (n < opt.messages && !takes_receive(plan_of(!side, q, n).kind))
		n++;
	return n;
}

/* ------------------------------------------------------------------ set up */

static void post_receive(struct end *e, uint32_t i)
{
	struct ibv_sge sge = {(uintptr_t)(e->receives + (size_t)i * STRIDE), STRIDE, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = RECV_ID | i, .sg_list = &sge, .num_sge = 1}, *bad;

	if (opt.srq)
		wr.wr_id |= (uint64_t)(e - ends) << 16;
	CHECK(!(opt.srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad)));
}

static void make_memory(struct end *e)
{
	size_t landing = (size_t)opt.messages * STRIDE, others = (WINDOW + RECVS) * (size_t)STRIDE;
	size_t len = landing + others + PATTERN + 64;

	e->memory = aligned_alloc(64, (len + 63) / 64 * 64);
	CHECK(e->memory);
	memset(e->memory, 0, len);
	e->landing = e->memory;
	e->source = e->landing + landing;
	e->receives = e->source + WINDOW * (size_t)STRIDE;
	e->pattern = e->receives + RECVS * (size_t)STRIDE;
	e->counters = (uint64_t *)(e->pattern + PATTERN);
	fill(e->pattern, side, (uint32_t)(e - ends), opt.messages, PATTERN);
	e->mr = ibv_reg_mr(pd, e->memory, len,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(e->mr);
}

static void make_end(struct end *e)
{
	struct ibv_qp_init_attr init = {.send_cq = cq,
		.recv_cq = cq,
		.srq = opt.srq ? srq : NULL,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = WINDOW,
			.max_recv_wr = RECVS,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = 64}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC};

	make_memory(e);
	e->qp = ibv_create_qp(pd, &init);
	CHECK(e->qp);
	CHECK(!ibv_modify_qp(e->qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	for (uint32_t i = 0; i < RECVS; i++)
		post_receive(e, i);
	e->expected = next_arrival((uint32_t)(e - ends), 0);
}

static uint8_t gid_of(const struct end *e)
{
	return (uint8_t)(opt.gid + (uint32_t)(e - ends) % opt.gids);
}

static void connect_end(struct end *e)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
		.path_mtu = opt.mtu,
		.dest_qp_num = e->peer.qpn,
		.rq_psn = 0xfffff0, /* wraps soon */
		.sq_psn = 0xfffff0,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = (uint8_t)opt.timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = e->peer.gid, .sgid_index = gid_of(e), .hop_limit = 64}}};

	CHECK(!ibv_modify_qp(e->qp, &attr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(e->qp, &attr,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void set_up(struct ibv_context *ctx)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = QPS_MAX * RECVS, .max_sge = 1}};

	pd = ibv_alloc_pd(ctx);
	channel = ibv_create_comp_channel(ctx);
	CHECK(channel);
	cq = ibv_create_cq(ctx, (int)(opt.qps * (WINDOW + RECVS)), NULL, channel, 0);
	srq = ibv_create_srq(pd, &init);
	CHECK(pd && cq && srq);
	for (uint32_t i = 0; i < opt.qps; i++)
		make_end(&ends[i]);
}

static void connect_all(struct ibv_context *ctx, int fd)
{
	for (uint32_t i = 0; i < opt.qps; i++) {
		struct end *e = &ends[i];
		struct address own = {.qpn = e->qp->qp_num,
			.rkey = e->mr->rkey,
			.landing = (uintptr_t)e->landing,
			.pattern = (uintptr_t)e->pattern,
			.counters = (uintptr_t)e->counters};

		CHECK(!ibv_query_gid(ctx, 1, gid_of(e), &own.gid));
		meet_exchange(fd, &own, &e->peer, sizeof(own));
		connect_end(e);
	}
}

/* ----------------------------------------------------------------- traffic */

static uint64_t remote_of(const struct end *e, uint32_t n, enum kind k)
{
	switch (k) {
	case READ:
		return e->peer.pattern + n % 4096;
	case FETCH_ADD:
		return e->peer.counters;
	case COMPARE_SWAP:
		return e->peer.counters + 8;
	default:
		return e->peer.landing + (uint64_t)(n % opt.messages) * STRIDE;
	}
}

static uint32_t compare_swaps_before(uint32_t q, uint32_t n)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		count += plan_of(side, q, i % opt.messages).kind == COMPARE_SWAP;
	return count;
}

static void post(struct end *e)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
	uint32_t q = (uint32_t)(e - ends), n = e->posted, i = n % opt.messages;
	struct plan p = plan_of(side, q, i);
	uint8_t *at = e->source + (size_t)(n % WINDOW) * STRIDE;
	struct ibv_sge sge[2] = {{(uintptr_t)at, p.length / 3, e->mr->lkey},
		{(uintptr_t)at + p.length / 3, p.length - p.length / 3, e->mr->lkey}};
	struct ibv_send_wr wr = {.wr_id = n,
				   .sg_list = p.kind >= FETCH_ADD ? &sge[1] : sge,
				   .num_sge = p.kind >= FETCH_ADD ? 1 : 2,
				   .opcode = opcodes[p.kind],
				   .imm_data = htobe32(i),
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (p.kind < READ)
		fill(at, side, q, i, p.length);
	if (p.kind >= FETCH_ADD)
		sge[1] = (struct ibv_sge){(uintptr_t)at, 8, e->mr->lkey};
	if (p.kind < READ && p.length <= 64)
		wr.send_flags |= IBV_SEND_INLINE;
	if (p.fence)
		wr.send_flags |= IBV_SEND_FENCE;
	if (p.solicited)
		wr.send_flags |= IBV_SEND_SOLICITED;
	wr.wr.rdma.remote_addr = remote_of(e, n, p.kind);
	wr.wr.rdma.rkey = e->peer.rkey;
	if (p.kind >= FETCH_ADD) {
		uint64_t k = p.kind == FETCH_ADD ? 1 : compare_swaps_before(q, n);

		wr.wr.atomic.remote_addr = remote_of(e, n, p.kind);
		wr.wr.atomic.rkey = e->peer.rkey;
		wr.wr.atomic.compare_add = k;
		wr.wr.atomic.swap = k + 1;
	}
	CHECK(!ibv_post_send(e->qp, &wr, &bad));
	e->posted++;
}

static void sent(struct end *e, const struct ibv_wc *wc)
{
	uint32_t q = (uint32_t)(e - ends), n = (uint32_t)wc->wr_id, i = n % opt.messages;
	const uint8_t *at = e->source + (size_t)(n % WINDOW) * STRIDE;
	struct plan p = plan_of(side, q, i);
	uint64_t original;

	CHECK_EQ(n, e->done);
	e->done++;
	if (p.kind == READ)
		CHECK(!memcmp(at, bytes_of(!side, q, opt.messages) + n % 4096, p.length));
	memcpy(&original, at, sizeof(original));
	if (p.kind == FETCH_ADD)
		CHECK_EQ(original, e->fetched++);
	if (p.kind == COMPARE_SWAP)
		CHECK_EQ(original, e->swapped++);
}

static void arrived(struct end *e, const struct ibv_wc *wc)
{
	uint32_t q = (uint32_t)(e - ends), n = e->expected, i = (uint32_t)wc->wr_id & 0xffff;
	struct end *owner = opt.srq ? &ends[wc->wr_id >> 16 & 0xffff] : e;
	struct plan p = plan_of(!side, q, n);

	CHECK(n < opt.messages);
	CHECK_EQ(wc->byte_len, p.length);
	CHECK_EQ(wc->opcode, p.kind == WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	CHECK_EQ(!!(wc->wc_flags & IBV_WC_WITH_IMM), p.kind != SEND);
	if (p.kind != SEND)
		CHECK_EQ(be32toh(wc->imm_data), n);
	if (p.kind == WRITE_IMM && !opt.endless)
		same(e->landing + (size_t)n * STRIDE, !side, q, n, p.length);
	else if (p.kind != WRITE_IMM)
		same(owner->receives + (size_t)i * STRIDE, !side, q, n, p.length);
	e->expected = next_arrival(q, n + 1);
	if (opt.endless && e->expected == opt.messages)
		e->expected = next_arrival(q, 0);
	received++;
	post_receive(owner, i);
}

/* Handles an error, which is expected only in an endless run whose peer has ended. */
static void broken(struct end *e, const struct ibv_wc *wc)
{
	if (!opt.endless || (e->failed && wc->status != IBV_WC_WR_FLUSH_ERR)) {
		fprintf(stderr, "wr_id %#llx: %s\n", (unsigned long long)wc->wr_id,
			ibv_wc_status_str(wc->status));
		exit(1);
	}
	if (!e->failed && wc->wr_id < RECV_ID) {
		printf("QP %u: %s\n", (unsigned)(e - ends), ibv_wc_status_str(wc->status));
		CHECK_EQ(wc->wr_id, e->done);
		e->failed = true;
	}
	flushed++;
	if (wc->wr_id < RECV_ID)
		e->done++;
}

/* Sleeps until the other host or a timer causes a completion. */
static void wait_for_event(void)
{
	struct ibv_cq *rung;
	void *of;

	CHECK(!ibv_get_cq_event(channel, &rung, &of));
	ibv_ack_cq_events(rung, 1);
}

static void poll_cq(void)
{
	static unsigned empty; /* turns without a completion */
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(cq, 16, wc);

	CHECK(n >= 0);
	for (int i = 0; i < n; i++) {
		struct end *e = ends;

		while (e->qp->qp_num != wc[i].qp_num)
			e++;
		if (wc[i].status)
			broken(e, &wc[i]);
		else if (wc[i].wr_id >= RECV_ID)
			arrived(e, &wc[i]);
		else
			sent(e, &wc[i]);
	}
	empty = n ? 0 : empty + 1;
	if (empty > YIELDS) { /* no completion has come since the CQ was armed */
		wait_for_event();
		empty = 0;
	} else if (empty == YIELDS) {
		CHECK(!ibv_req_notify_cq(cq, 0));
	} else if (empty) {
		sched_yield();
	}
}

/* Returns true if something is still to come. */
static bool busy(const struct end *e)
{
	if (opt.endless)
		return !e->failed || e->done != e->posted;
	return e->done < opt.messages || e->expected < opt.messages;
}

static void traffic(void)
{
	bool any = true;

	while (any) {
		any = false;
		for (uint32_t i = 0; i < opt.qps; i++) {
			struct end *e = &ends[i];

			while (!e->failed && e->posted - e->done < WINDOW &&
				(opt.endless || e->posted < opt.messages))
				post(e);
			any |= busy(e);
		}
		poll_cq();
	}
}

/* Checks the WRITEs without a completion, and the memory that must not have been written. */
static void check_landing(struct end *e)
{
	static const uint8_t untouched[STRIDE];
	uint32_t q = (uint32_t)(e - ends);

	for (uint32_t n = 0; n < opt.messages; n++) {
		struct plan p = plan_of(!side, q, n);
		const uint8_t *at = e->landing + (size_t)n * STRIDE;
		uint32_t len = p.kind == WRITE || p.kind == WRITE_IMM ? p.length : 0;

		same(at, !side, q, n, len);
		CHECK(!memcmp(at + len, untouched, STRIDE - len));
	}
}

/* A test that is ended because it takes too long prints its progress. */
static void stop(int sig)
{
	for (uint32_t i = 0; i < opt.qps; i++)
		dprintf(STDOUT_FILENO, "QP %u: %u posted, %u done; the next to arrive is %u\n", i,
			ends[i].posted, ends[i].done, ends[i].expected);
	_exit(1);
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "q:n:t:m:p:g:fse")) != -1) {
		uint32_t v = optarg ? (uint32_t)atoi(optarg) : 0;

		if (c == 'q')
			opt.qps = v;
		else if (c == 'n')
			opt.messages = v;
		else if (c == 't')
			opt.timeout = v;
		else if (c == 'm')
			opt.mtu = v;
		else if (c == 'g')
			CHECK(sscanf(optarg, "%u,%u", &opt.gid, &opt.gids) >= 1 && opt.gids);
		else if (c == 'p')
			opt.port = optarg;
		else if (c == 'f')
			opt.unfenced = true;
		else if (c == 's')
			opt.srq = true;
		else if (c == 'e')
			opt.endless = true;
		else
			exit(2);
	}
	CHECK(opt.qps >= 1 && opt.qps <= QPS_MAX && opt.messages <= MESSAGES_MAX);
	opt.host = argv[optind];
	side = opt.host != NULL;
}

int main(int argc, char **argv)
{
	struct ibv_device **list;
	struct ibv_context *ctx;
	char byte = 0;
	int fd;

	alarm(2400);
	signal(SIGALRM, stop);
	signal(SIGTERM, stop);
	parse(argc, argv);
	make_table();
	list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	ctx = ibv_open_device(list[0]);
	CHECK(ctx);
	set_up(ctx);
	fd = meet_at(opt.host, opt.port);
	connect_all(ctx, fd);
	meet_exchange(fd, &byte, &byte, 1); /* both can receive */
	printf("running\n");
	fflush(stdout);
	traffic();
	if (opt.endless) {
		meet_part(fd); /* this side receives as long as the peer sends packets */
	} else {
		meet_exchange(fd, &byte, &byte, 1); /* both have got all */
		for (uint32_t i = 0; i < opt.qps; i++)
			check_landing(&ends[i]);
		printf("%u messages arrived, and all is right\n", received);
	}
	return 0;
}
