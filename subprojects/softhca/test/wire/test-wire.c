/* SPDX-License-Identifier: MIT */
/*
 * Two QPs and a channel between them that loses, doubles and reorders packets, in virtual time.
 * Every byte must arrive unchanged, every message must complete once and in order, and each atomic
 * must be executed once, even if any operation is interrupted in the middle, as by a kill.
 */
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

/* A message that a side sends. The other side checks what it receives against it. */
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
	uint8_t read[MESSAGES / 8 + 1];
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

static void post_some(struct node *n)
{
	if (n->posted < MESSAGES)
		n->posted += below(4) == 0;
	if (below(3) == 0)
		n->receives += below(4);
}

static void traffic(uint32_t mtu, uint32_t lose, uint32_t twice, uint32_t late, uint32_t kill)
{
	struct wire_attr attr = attributes(mtu);
	uint64_t steps = 0;

	attr.retry_cnt = lose || kill ? 7 : 0; /* without losses only RNR NAKs cause repetitions */
	if (lose || kill)
		attr.timeout_ns = 0; /* repeats for ever */
	reset(&attr);
	bad.lose = lose;
	bad.twice = twice;
	bad.late = late;
	bad.kill = kill;
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < MESSAGES; k++)
			plans[i][k] = random_plan();
	while (nodes[0].completed < MESSAGES || nodes[1].completed < MESSAGES) {
		post_some(&nodes[0]);
		post_some(&nodes[1]);
		if (!happen())
			now += LATENCY;
		for (int i = 0; i < 2; i++) {
			CHECK_EQ(nodes[i].status, WIRE_OK);
			CHECK(!nodes[i].refused);
			work(&nodes[i]);
		}
		CHECK(++steps < 3000000);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(next_arrival(&nodes[i]), MESSAGES);
	fprintf(stderr, "mtu %u lost %u%% doubled %u%% late %u%% kills %u: %u packets, %.1f ms\n",
		mtu, lose, twice, late, kill, nodes[0].packets + nodes[1].packets,
		(double)now / 1e6);
}

/* Resets both nodes and posts one message of node 0. @lose: its packets are lost. */
static void post_one(const struct wire_attr *attr, struct plan p, bool lose)
{
	reset(attr);
	bad.lose = lose ? 100 : 0;
	plans[0][0] = p;
	nodes[0].posted = 1;
}

/* Runs one message of node 0 until no event is left. */
static void run_one(const struct wire_attr *attr, struct plan p, uint32_t receives)
{
	post_one(attr, p, false);
	nodes[1].receives = receives;
	work(&nodes[0]);
	settle();
}

TEST(failures)
{
	struct wire_attr attr = attributes(1024);
	struct plan send = {.kind = MSG_SEND, .length = 3000};
	struct plan too_long = {.kind = MSG_SEND, .length = LENGTH_MAX + 1};
	struct plan beyond = {.kind = MSG_WRITE, .length = STRIDE + 1};
	struct plan read = {.kind = MSG_READ, .length = 10};

	run_one(&attr, send, 1);
	CHECK_EQ(nodes[0].status, WIRE_OK);
	CHECK_EQ(nodes[0].packets, 3);
	CHECK_EQ(nodes[1].packets, 1); /* one acknowledgement */
	run_one(&attr, too_long, 1);
	CHECK_EQ(nodes[0].status, WIRE_REMOTE_INVALID);
	CHECK_EQ(nodes[1].refused, AETH_NAK_INVALID);
	run_one(&attr, beyond, 0);
	CHECK_EQ(nodes[0].status, WIRE_REMOTE_ACCESS);
	attr.max_dest_reads = 0;
	run_one(&attr, read, 0);
	CHECK_EQ(nodes[0].status, WIRE_REMOTE_INVALID);
	attr.rnr_retry = 2;
	run_one(&attr, (struct plan){.kind = MSG_SEND, .length = 5}, 0);
	CHECK_EQ(nodes[0].status, WIRE_RNR_EXCEEDED);
	CHECK_EQ(nodes[0].packets, 3);
	CHECK_EQ(nodes[0].completed, 1);
}

static uint32_t sent_at_once(const struct wire_attr *attr)
{
	reset(attr);
	nodes[0].posted = 3;
	nodes[1].receives = 3;
	work(&nodes[0]);
	return nodes[0].packets;
}

/* The limit of READs in flight, and a fenced message after a READ. */
TEST(limits)
{
	struct wire_attr attr = attributes(1024);

	for (int i = 0; i < 3; i++)
		plans[0][i] = (struct plan){.kind = MSG_READ, .length = 10};
	CHECK_EQ(sent_at_once(&attr), 3);
	attr.max_reads = 2;
	CHECK_EQ(sent_at_once(&attr), 2);
	plans[0][1] = (struct plan){.kind = MSG_SEND, .length = 10};
	CHECK_EQ(sent_at_once(&attr), 3);
	plans[0][1].fence = true;
	CHECK_EQ(sent_at_once(&attr), 1);
	settle();
	CHECK_EQ(nodes[0].completed, 3);
}

/* A process was killed after it had sent, and before it had set the timer. */
TEST(no_timer)
{
	struct wire_attr attr = attributes(1024);

	post_one(&attr, (struct plan){.kind = MSG_WRITE, .length = 5}, true);
	work(&nodes[0]);
	nodes[0].q.rq.due = 0;
	bad.lose = 0;
	while (work(&nodes[0]), happen())
		;
	CHECK_EQ(nodes[0].completed, 1);
	CHECK_EQ(nodes[0].packets, 2);
}

/* A peer that does not answer. */
TEST(silence)
{
	struct wire_attr attr = attributes(1024);

	attr.retry_cnt = 2;
	post_one(&attr, (struct plan){.kind = MSG_WRITE, .length = 5}, true);
	work(&nodes[0]);
	settle();
	CHECK_EQ(nodes[0].status, WIRE_RETRY_EXCEEDED);
	CHECK_EQ(nodes[0].packets, 3);
	CHECK_EQ(now, 1 + 3 * attr.timeout_ns);
}

/*
 * Sending packets again takes longer than timeout_ns. The timeout begins when all are sent
 * (wire_sent()).
 */
TEST(slow_sender)
{
	struct wire_attr attr = attributes(1024);

	post_one(&attr, (struct plan){.kind = MSG_WRITE, .length = 5}, true);
	work(&nodes[0]);
	now = wire_deadline(&nodes[0].q);
	bad.lose = 0;
	wire_tick(&nodes[0].q, &ops, &nodes[0], now);
	now += 3 * attr.timeout_ns;
	wire_sent(&nodes[0].q, now);
	CHECK_EQ(wire_deadline(&nodes[0].q), now + attr.timeout_ns);
	settle();
	CHECK_EQ(nodes[0].completed, 1);
	CHECK_EQ(nodes[0].packets, 2);
	wire_sent(&nodes[0].q, now);
	CHECK_EQ(wire_deadline(&nodes[0].q), 0);
}

/* Passes a packet to node 1. Returns the answer of the node, or NULL. */
static const struct packet *answer_to(struct packet p)
{
	static const uint8_t zeros[PACKET_PAYLOAD_MAX];
	uint32_t before = nframes;

	wire_receive(&nodes[1].q, &ops, &nodes[1], now, &p, zeros);
	wire_acknowledge(&nodes[1].q, &ops, &nodes[1]);
	return nframes == before ? NULL : &frames[nframes - 1].p;
}

static struct packet read_of(uint32_t psn, uint32_t rkey, uint64_t raddr, uint32_t len)
{
	return (struct packet){.opcode = PO_READ_REQUEST,
		.psn = psn,
		.rkey = rkey,
		.raddr = raddr,
		.length = len};
}

/* A hostile peer's packets, which this HCA's requester never sends. */
TEST(hostile)
{
	struct wire_attr attr = attributes(1024);
	const struct packet *a;

	reset(&attr);
	plans[0][0] = (struct plan){.kind = MSG_READ, .length = 3000};
	a = answer_to((struct packet){.opcode = PO_WRITE_MIDDLE, .psn = 0xffffe1, .payload = 1024});
	CHECK(a && a->syndrome == AETH_NAK_SEQUENCE && a->psn == 0xffffe0);
	/* Only the first packet after a gap gets a NAK. */
	CHECK(!answer_to((struct packet){.opcode = PO_WRITE_MIDDLE, .psn = 0xffffe2}));
	a = answer_to(read_of(0xffffe0, RKEY, 0, 2048));
	CHECK(a && a->opcode == PO_READ_RESPONSE_LAST && a->psn == 0xffffe1);
	/* A repeated request that extends beyond the original one has no answer. */
	CHECK(!answer_to(read_of(0xffffe1, RKEY, 0, 2048)));
	a = answer_to(read_of(0xffffe1, RKEY, 1024, 1024));
	CHECK(a && a->opcode == PO_READ_RESPONSE_ONLY && a->psn == 0xffffe1);
	CHECK(!answer_to(read_of(0xffffe0, 1, 0, 8))); /* a repeated READ is checked again */
	for (int i = 0; i < 2; i++) {
		a = answer_to((struct packet){.opcode = PO_FETCH_ADD, .psn = 0xffffe2, .raddr = 8});
		CHECK(a && a->opcode == PO_ATOMIC_ACK && a->original == 0 && nodes[1].counter == 1);
	}
	a = answer_to((struct packet){.opcode = PO_WRITE_FIRST,
		.psn = 0xffffe3,
		.rkey = RKEY,
		.length = 1500,
		.payload = 1000});
	CHECK(a && a->syndrome == AETH_NAK_INVALID); /* not a whole MTU */
	CHECK(!answer_to((struct packet){.opcode = PO_SEND_ONLY, .psn = 0xffffe3}));
}

static int grant(void *arg, enum packet_operation op, uint64_t raddr, uint32_t rkey, uint32_t len)
{
	return 0;
}

static int fetch_nothing(void *arg, uint64_t raddr, uint32_t rkey, void *out, uint32_t len)
{
	return 0;
}

/*
 * READs with more packets than a peer may request, even if all memory may be read. The PSN of the
 * first one is before the expected PSN, so it counts as repeated. The distance from its end to the
 * expected PSN wraps.
 */
TEST(hostile_long_reads)
{
	struct wire_attr attr = attributes(256);
	struct wire_ops all = ops;
	struct packet read = read_of(0xffffdf, RKEY, 0, 0x80000200);

	all.access = grant;
	all.fetch = fetch_nothing;
	reset(&attr);
	wire_receive(&nodes[1].q, &all, &nodes[1], now, &read, NULL);
	CHECK_EQ(nodes[1].packets, 0);
	read.psn = 0xffffe0;
	wire_receive(&nodes[1].q, &all, &nodes[1], now, &read, NULL);
	CHECK_EQ(nodes[1].packets, 1);
	CHECK_EQ(nodes[1].refused, AETH_NAK_INVALID);
}

/*
 * The ACK of a repeated WRITE has the PSN of the WRITE, not of the READ that was executed after it:
 * rxe would take an ACK with the READ's PSN for the end of the READ, without its data.
 */
TEST(repeated_write)
{
	struct wire_attr attr = attributes(1024);
	struct packet write = {.opcode = PO_WRITE_ONLY, .psn = 0xffffe0, .ack_requested = true};
	const struct packet *a;

	reset(&attr);
	plans[0][0] = (struct plan){.kind = MSG_WRITE};
	a = answer_to(write);
	CHECK(a && a->opcode == PO_ACK && a->psn == 0xffffe0);
	a = answer_to((struct packet){.opcode = PO_READ_REQUEST, .psn = 0xffffe1});
	CHECK(a && a->opcode == PO_READ_RESPONSE_ONLY && a->psn == 0xffffe1);
	a = answer_to(write);
	CHECK(a && a->opcode == PO_ACK && a->psn == 0xffffe0);
	/* One ACK for a batch; it has the batch's highest PSN, which need not have come last. */
	write.psn = 0xffffe2;
	wire_receive(&nodes[1].q, &ops, &nodes[1], now, &write, NULL);
	write.psn = 0xffffe0;
	a = answer_to(write);
	CHECK(a && a->opcode == PO_ACK && a->psn == 0xffffe2);
}

/*
 * Requests to a dead process get no answer, not even a NAK.
 */
TEST(dead_owner)
{
	struct wire_attr attr = attributes(1024);
	struct packet read = read_of(0xffffe0, RKEY, 0, 8), write = read;
	const struct packet *a;

	write.opcode = PO_WRITE_ONLY;
	write.payload = 8;
	write.ack_requested = true;
	reset(&attr);
	plans[0][0] = (struct plan){.kind = MSG_READ, .length = 3000};
	gone = true;
	CHECK(!answer_to(write));
	CHECK(!answer_to(read));
	gone = false;
	a = answer_to(read);
	CHECK(a && a->opcode == PO_READ_RESPONSE_ONLY && !nodes[1].refused);
}

/*
 * If the owner of the send queue has died, its messages do not complete, and nothing more is sent.
 */
static void dead_requester(enum message_kind second)
{
	struct wire_attr attr = attributes(1024);
	struct packet ack = {.opcode = PO_ACK, .syndrome = AETH_ACK, .psn = 0xffffe0};
	uint32_t packets;

	plans[0][0] = (struct plan){.kind = MSG_WRITE, .length = 10};
	plans[0][1] = (struct plan){.kind = second, .length = second == MSG_NOP ? 0 : 10};
	plans[0][2] = plans[0][0];
	if (second == MSG_WRITE)
		ack.psn++;
	reset(&attr);
	nodes[0].posted = 2;
	work(&nodes[0]);
	gone = true;
	packets = nodes[0].packets;
	wire_receive(&nodes[0].q, &ops, &nodes[0], now, &ack, NULL);
	nodes[0].posted = 3;
	now += 1000 * attr.timeout_ns;
	work(&nodes[0]);
	gone = false;
	CHECK_EQ(nodes[0].unstored, 1);
	CHECK_EQ(nodes[0].completed, 0);
	CHECK_EQ(nodes[0].packets, packets);
}

TEST_WITH(dead_writer, dead_requester, MSG_WRITE);
TEST_WITH(dead_writer_of_nop, dead_requester, MSG_NOP);

/*
 * The second packet of a WRITE makes it longer or shorter than the first has announced, or belongs
 * to another operation.
 */
TEST(hostile_lengths)
{
	static const struct {
		uint32_t length;
		uint8_t second;
		uint32_t payload;
	} cases[] = {{1500, PO_WRITE_LAST, 477}, {1500, PO_WRITE_LAST, 475},
		{1500, PO_WRITE_LAST, 0}, {2048, PO_WRITE_MIDDLE, 1024}, {1500, PO_SEND_LAST, 476},
		{1500, PO_WRITE_ONLY, 476}, {1500, PO_READ_REQUEST, 0}, {1500, PO_FETCH_ADD, 0}};
	struct wire_attr attr = attributes(1024);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct packet first = {.opcode = PO_WRITE_FIRST,
			.psn = 0xffffe0,
			.payload = 1024,
			.rkey = RKEY,
			.length = cases[i].length};
		const struct packet *a;

		reset(&attr);
		plans[0][0].length = LENGTH_MAX;
		memset(&nodes[1].q.rs, 0, sizeof(nodes[1].q.rs));
		nodes[1].q.rs.expected = 0xffffe1;
		nodes[1].q.rs.operation = 1 + MSG_WRITE;
		nodes[1].q.rs.offset = 1024;
		nodes[1].q.rs.length = first.length;
		nodes[1].q.rs.rkey = RKEY;
		a = answer_to((struct packet){.opcode = cases[i].second,
			.psn = 0xffffe1,
			.payload = cases[i].payload,
			.length = cases[i].payload});
		CHECK(a && a->syndrome == AETH_NAK_INVALID);
	}
}

/* Answers that this responder never sends change nothing, or fail the QP. */
TEST(hostile_answers)
{
	struct wire_attr attr = attributes(1024);
	static const uint8_t zeros[1024];
	struct packet p = {.opcode = PO_ACK, .syndrome = AETH_ACK, .psn = 0xffffe5};

	post_one(&attr, (struct plan){.kind = MSG_WRITE, .length = 10}, false);
	work(&nodes[0]);
	wire_receive(&nodes[0].q, &ops, &nodes[0], now, &p, NULL); /* for a PSN that was not sent */
	CHECK_EQ(nodes[0].completed, 0);
	post_one(&attr, (struct plan){.kind = MSG_READ, .length = 3000}, false);
	work(&nodes[0]);
	p.psn = 0xffffe2; /* a READ is not acknowledged without its data */
	wire_receive(&nodes[0].q, &ops, &nodes[0], now, &p, NULL);
	CHECK_EQ(nodes[0].completed, 0);
	p = (struct packet){.opcode = PO_READ_RESPONSE_FIRST, .psn = 0xffffe0, .payload = 1000};
	wire_receive(&nodes[0].q, &ops, &nodes[0], now, &p, zeros);
	CHECK_EQ(nodes[0].completed, 1);
	CHECK_EQ(nodes[0].status, WIRE_BAD_RESPONSE);
}

TEST(random_traffic)
{
	static const uint32_t mtus[] = {256, 1024, 4096};

	for (uint32_t i = 0; i < rounds; i++)
		for (size_t k = 0; k < 3; k++) {
			traffic(mtus[k], 0, 0, 0, 0);
			traffic(mtus[k], 1, 1, 1, 0);
			traffic(mtus[k], 10, 10, 10, 0);
			traffic(mtus[k], 1, 1, 1, 20);
			traffic(mtus[k], 0, 10, 10, 300);
		}
}

/* Arguments: rounds of random traffic, seed. */
int main(int argc, char **argv)
{
	rounds = (uint32_t)test_number(&argc, argv, 1);
	seed = test_number(&argc, argv, 1);
	return test_main(argc, argv);
}
