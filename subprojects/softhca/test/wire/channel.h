/* SPDX-License-Identifier: MIT */
/* The two QPs of test-wire.c, what each of them sends, and the channel between them. */
#ifndef SOFTHCA_TEST_WIRE_CHANNEL_H
#define SOFTHCA_TEST_WIRE_CHANNEL_H

#include <errno.h>
#include <setjmp.h>
#include <unistd.h>

#include "check.h"
#include "wire/wire.h"

#define MESSAGES 300
#define LENGTH_MAX 20000
#define STRIDE 32768u
#define RKEY 0x1234
#define IN_FLIGHT 4096
#define LATENCY 5000

/* A message that a side sends. The other side compares what arrives with this plan. */
struct plan {
	enum message_kind kind;
	bool imm, fence, solicited;
	uint32_t length;
};

struct wire_frame {
	uint64_t when;
	int to;
	struct packet p;
	uint8_t payload[PACKET_PAYLOAD_MAX];
};

struct node {
	int id;
	struct wire_qp q;
	uint32_t posted, completed;
	uint32_t unstored; /* completions for an owner that has ended */
	uint32_t receives, taken; /* posted, consumed */
	uint32_t arriving; /* number of the peer's message at which next_arrival() begins */
	uint64_t counter; /* of atomics */
	enum wire_status status;
	enum aeth_syndrome refused;
	uint32_t packets;
};

static struct node nodes[2];
static struct wire_frame frames[IN_FLIGHT];
static uint32_t nframes;
static uint64_t now, seed;
static uint32_t rounds; /* of random traffic */
static struct {
	uint32_t lose, twice, late; /* percent */
	uint32_t kill; /* deaths in 10,000 calls of may_die() */
} bad;
static struct plan plans[2][MESSAGES];
static jmp_buf killed;
static bool gone; /* the owner of the memory has ended */

static uint32_t below(uint32_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33) % n;
}

static uint8_t byte_of(int from, uint32_t n, uint32_t at)
{
	return (uint8_t)((uint32_t)from * 101 + n * 31 + at * 7 + (at >> 8));
}

/* The bytes of message @n from @offset on. */
static void fill(uint8_t *out, int from, uint32_t n, uint32_t offset, uint32_t len)
{
	CHECK(offset + len <= plans[from][n].length);
	for (uint32_t k = 0; k < len; k++)
		out[k] = byte_of(from, n, offset + k);
}

static void same(const uint8_t *bytes, int from, uint32_t n, uint32_t offset, uint32_t len)
{
	for (uint32_t k = 0; k < len; k++)
		CHECK_EQ(bytes[k], byte_of(from, n, offset + k));
}

/* A process may be killed here. */
static void may_die(void)
{
	if (bad.kill && below(10000) < bad.kill)
		longjmp(killed, 1);
}

static void put_frame(int to, const struct packet *p, const void *payload, uint64_t delay)
{
	struct wire_frame *f = &frames[nframes++];
	uint8_t bytes[PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX] = {0};
	size_t head = packet_encode(p, bytes);

	CHECK(nframes < IN_FLIGHT);
	f->when = now + delay;
	f->to = to;
	/* As on a wire, the fields for which the opcode has no header are left out. */
	CHECK_EQ(packet_decode(bytes, head + p->payload + packet_padding(p->payload), &f->p), head);
	if (p->payload)
		memcpy(f->payload, payload, p->payload);
}

static void op_send(void *arg, const struct packet *p, const void *payload)
{
	struct node *n = arg;

	may_die();
	n->packets++;
	if (below(100) < bad.lose)
		return;
	put_frame(!n->id, p, payload, LATENCY + (below(100) < bad.late ? below(20 * LATENCY) : 0));
	if (below(100) < bad.twice)
		put_frame(!n->id, p, payload, LATENCY + below(LATENCY));
	may_die();
}

static int op_message(void *arg, uint32_t i, struct wire_message *m)
{
	struct node *n = arg;
	const struct plan *plan = &plans[n->id][i];

	if (i >= n->posted)
		return -EAGAIN;
	*m = (struct wire_message){.fence = plan->fence,
		.m = {.kind = plan->kind,
			.has_imm = plan->imm,
			.imm = i,
			.solicited = plan->solicited,
			.length = plan->length,
			.raddr = (uint64_t)i * STRIDE,
			.rkey = RKEY,
			.swap_add = 1}};
	return 0;
}

static int op_gather(void *arg, uint32_t i, uint32_t offset, void *out, uint32_t len)
{
	struct node *n = arg;

	fill(out, n->id, i, offset, len);
	return 0;
}

static int op_scatter(void *arg, uint32_t i, uint32_t offset, const void *bytes, uint32_t len)
{
	struct node *n = arg;
	uint64_t original;

	may_die();
	CHECK_EQ(i, n->completed);
	if (plans[n->id][i].kind == MSG_READ) {
		CHECK(offset + len <= plans[n->id][i].length);
		same(bytes, !n->id, i, offset, len);
	} else {
		uint32_t before = 0;

		memcpy(&original, bytes, sizeof(original));
		for (uint32_t k = 0; k < i; k++)
			before += plans[n->id][k].kind == MSG_FETCH_ADD;
		CHECK_EQ(original, before); /* executed once each, in order */
	}
	may_die();
	return 0;
}

static void op_commit(void *arg, const struct wire_step *s)
{
	may_die();
	for (uint32_t i = 0; i < s->n; i++)
		*s->stores[i].at = s->stores[i].value;
}

static int op_complete(void *arg, uint32_t i, enum wire_status status, const struct wire_step *s)
{
	struct node *n = arg;

	if (gone) {
		n->unstored++;
		return -ESRCH;
	}
	op_commit(arg, s);
	CHECK_EQ(i, n->completed);
	n->completed++;
	n->status = status;
	may_die();
	return 0;
}

static int op_access(void *arg, enum packet_operation op, uint64_t raddr, uint32_t rkey,
	uint32_t len)
{
	if (gone)
		return -ESRCH;
	return rkey == RKEY && raddr % STRIDE + len <= STRIDE ? 0 : -EACCES;
}

static int op_place(void *arg, uint64_t raddr, uint32_t rkey, const void *bytes, uint32_t len)
{
	struct node *n = arg;
	uint32_t i = (uint32_t)(raddr / STRIDE), offset = (uint32_t)(raddr % STRIDE);

	may_die();
	CHECK(rkey == RKEY && offset + len <= plans[!n->id][i].length);
	same(bytes, !n->id, i, offset, len);
	may_die();
	return 0;
}

static int op_fetch(void *arg, uint64_t raddr, uint32_t rkey, void *out, uint32_t len)
{
	struct node *n = arg;
	uint32_t i = (uint32_t)(raddr / STRIDE), offset = (uint32_t)(raddr % STRIDE);

	CHECK(rkey == RKEY && offset + len <= plans[!n->id][i].length);
	for (uint32_t k = 0; k < len; k++)
		((uint8_t *)out)[k] = byte_of(n->id, i, offset + k);
	return 0;
}

static int op_recv_ready(void *arg)
{
	struct node *n = arg;

	return n->taken < n->receives ? 0 : -EAGAIN;
}

static bool takes_receive(const struct plan *p)
{
	return p->kind == MSG_SEND || (p->kind == MSG_WRITE && p->imm);
}

/* The peer's message that takes the next receive. */
static uint32_t next_arrival(const struct node *n)
{
	uint32_t i = n->arriving;

	while (i < MESSAGES && !takes_receive(&plans[!n->id][i]))
		i++;
	return i;
}

static int op_recv_place(void *arg, uint32_t offset, const void *bytes, uint32_t len)
{
	struct node *n = arg;
	uint32_t i = next_arrival(n);

	may_die();
	if (offset + len > LENGTH_MAX)
		return -EMSGSIZE;
	CHECK(i < MESSAGES && plans[!n->id][i].kind == MSG_SEND);
	same(bytes, !n->id, i, offset, len);
	may_die();
	return 0;
}

static void op_recv_complete(void *arg, const struct wire_arrival *a, const struct wire_step *s)
{
	struct node *n = arg;
	uint32_t i = next_arrival(n);
	const struct plan *plan = &plans[!n->id][i];

	op_commit(arg, s);
	CHECK(i < MESSAGES);
	CHECK_EQ(a->write, plan->kind == MSG_WRITE);
	CHECK_EQ(a->has_imm, plan->imm);
	CHECK_EQ(a->imm, plan->imm ? i : 0);
	CHECK_EQ(a->solicited, plan->solicited);
	CHECK_EQ(a->length, plan->length);
	n->taken++;
	n->arriving = i + 1;
	may_die();
}

static int op_atomic(void *arg, const struct packet *request, uint64_t *original,
	const struct wire_step *s)
{
	struct node *n = arg;

	op_commit(arg, s);
	*original = n->counter++;
	may_die();
	return 0;
}

static void op_refused(void *arg, enum aeth_syndrome nak)
{
	((struct node *)arg)->refused = nak;
}

static const struct wire_ops ops = {.send = op_send,
	.message = op_message,
	.gather = op_gather,
	.scatter = op_scatter,
	.complete = op_complete,
	.commit = op_commit,
	.access = op_access,
	.place = op_place,
	.fetch = op_fetch,
	.recv_ready = op_recv_ready,
	.recv_place = op_recv_place,
	.recv_complete = op_recv_complete,
	.atomic = op_atomic,
	.refused = op_refused};

static struct wire_attr attributes(uint32_t mtu)
{
	return (struct wire_attr){.dest_qpn = 0x111,
		.mtu = mtu,
		.sq_psn = 0xffffe0, /* wraps soon */
		.rq_psn = 0xffffe0,
		.timeout_ns = 400000,
		.retry_cnt = 7,
		.rnr_retry = WIRE_RNR_FOR_EVER,
		.rnr_timer = 5,
		.max_reads = 4,
		.max_dest_reads = 4};
}

static void reset(const struct wire_attr *attr)
{
	memset(nodes, 0, sizeof(nodes));
	memset(&bad, 0, sizeof(bad));
	nframes = 0;
	now = 1;
	for (int i = 0; i < 2; i++) {
		nodes[i].id = i;
		wire_init(&nodes[i].q, attr);
	}
}

static struct plan random_plan(void)
{
	struct plan p = {.kind = below(MSG_NOP + 1), .solicited = false, .fence = below(4) == 0};

	p.imm = p.kind <= MSG_WRITE && below(2);
	p.solicited = takes_receive(&p) && below(2);
	p.length = below(3) ? below(300) : below(LENGTH_MAX);
	if (p.kind == MSG_NOP) {
		p.length = 0;
	} else if (p.kind >= MSG_COMPARE_SWAP) {
		p.kind = MSG_FETCH_ADD;
		p.length = 8;
	}
	return p;
}

static void deliver(struct node *n, const struct wire_frame *f)
{
	if (setjmp(killed))
		return;
	wire_receive(&n->q, &ops, n, now, &f->p, f->payload);
	if (below(4) || bad.lose == 0)
		wire_acknowledge(&n->q, &ops, n);
}

static void work(struct node *n)
{
	if (setjmp(killed))
		return;
	wire_tick(&n->q, &ops, n, now);
	wire_send(&n->q, &ops, n, now);
	wire_acknowledge(&n->q, &ops, n);
}

/* Executes the next event. Returns false if there is none. */
static bool happen(void)
{
	static struct wire_frame f;
	uint32_t first = nframes;
	uint64_t when = UINT64_MAX;

	for (uint32_t i = 0; i < nframes; i++)
		if (frames[i].when < when) {
			when = frames[i].when;
			first = i;
		}
	for (int i = 0; i < 2; i++) {
		uint64_t t = wire_deadline(&nodes[i].q);

		if (t && !nodes[i].q.rq.failed && t < when) {
			when = t;
			first = nframes;
		}
	}
	if (when == UINT64_MAX)
		return false;
	now = when > now ? when : now;
	if (first < nframes) {
		f = frames[first];
		memmove(&frames[first], &frames[first + 1],
			(nframes - first - 1) * sizeof(frames[0]));
		nframes--;
		deliver(&nodes[f.to], &f);
	}
	for (int i = 0; i < 2; i++)
		work(&nodes[i]);
	return true;
}

static void settle(void)
{
	while (happen())
		;
}

#endif
