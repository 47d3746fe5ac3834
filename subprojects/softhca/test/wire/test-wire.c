/* SPDX-License-Identifier: MIT */
/*
 * Two QPs and a channel between them that loses, doubles and reorders packets, in virtual time.
 * Every byte must arrive unchanged, every message must complete once and in order, and each atomic
 * must be executed once, even if any operation is interrupted in the middle, as by a kill.
 */
#include "channel.h"

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

/* Each request is counted once, and the attempts that failed, too. */
TEST(counts)
{
	const struct wire_counts *out = &nodes[0].q.counts, *in = &nodes[1].q.counts;
	struct wire_attr attr = attributes(1024);

	post_one(&attr, (struct plan){.kind = MSG_WRITE, .length = 3000}, false);
	bad.twice = 100;
	work(&nodes[0]);
	settle();
	CHECK_EQ(in->writes, 1);
	run_one(&attr, (struct plan){.kind = MSG_WRITE, .imm = true, .length = 3000}, 1);
	CHECK_EQ(in->writes, 1);
	run_one(&attr, (struct plan){.kind = MSG_READ, .length = 3000}, 0);
	CHECK_EQ(in->reads, 1);
	CHECK_EQ(in->writes, 0);
	run_one(&attr, (struct plan){.kind = MSG_FETCH_ADD, .length = 8}, 0);
	CHECK_EQ(in->atomics, 1);
	attr.rnr_retry = attr.retry_cnt = 2;
	run_one(&attr, (struct plan){.kind = MSG_SEND, .length = 5}, 0);
	CHECK_EQ(in->no_receives, 3);
	CHECK_EQ(out->rnr_naks, 3);
	CHECK_EQ(out->rnr_retries, 2);
	post_one(&attr, (struct plan){.kind = MSG_WRITE, .length = 5}, true);
	work(&nodes[0]);
	settle();
	CHECK_EQ(out->timeouts, 3);
	CHECK_EQ(out->timeout_retries, 2);
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

/* Passes a packet to node 1. Returns the last packet of the node's answer, or NULL. */
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

static struct packet last_sent;

static void count(void *arg, const struct packet *p, const void *payload)
{
	((struct node *)arg)->packets++;
	last_sent = *p;
}

/* The rest of a READ that exceeds WIRE_READ_BURST packets is read by a repeated request. */
TEST(long_reads_come_in_parts)
{
	struct wire_attr attr = attributes(256);
	struct wire_ops all = ops;
	struct packet read = read_of(0xffffe0, RKEY, 0, (WIRE_READ_BURST + 100) * 256);

	all.access = grant;
	all.fetch = fetch_nothing;
	all.send = count;
	reset(&attr);
	wire_receive(&nodes[1].q, &all, &nodes[1], now, &read, NULL);
	CHECK_EQ(nodes[1].packets, WIRE_READ_BURST);
	CHECK_EQ(last_sent.opcode, PO_READ_RESPONSE_MIDDLE);
	read = read_of((last_sent.psn + 1) & PSN_MASK, RKEY, WIRE_READ_BURST * 256, 100 * 256);
	wire_receive(&nodes[1].q, &all, &nodes[1], now, &read, NULL);
	CHECK_EQ(nodes[1].packets, WIRE_READ_BURST + 100);
	CHECK_EQ(last_sent.opcode, PO_READ_RESPONSE_LAST);
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
 * A late READ or atomic comes again in one batch with a newer WRITE. Its answer does not
 * acknowledge the WRITE.
 */
static void late_again(struct packet late)
{
	struct wire_attr attr = attributes(1024);
	struct packet write = {.opcode = PO_WRITE_ONLY, .psn = 0xffffe1, .ack_requested = true};
	const struct packet *a;

	reset(&attr);
	late.psn = 0xffffe0;
	CHECK(answer_to(late));
	wire_receive(&nodes[1].q, &ops, &nodes[1], now, &write, NULL);
	a = answer_to(late);
	CHECK(a && a->opcode == PO_ACK && a->psn == 0xffffe1);
	CHECK_EQ(nodes[1].packets, 3);
	/* The WRITE comes again before a new READ, whose answer acknowledges both. */
	wire_receive(&nodes[1].q, &ops, &nodes[1], now, &write, NULL);
	late.psn = 0xffffe2;
	a = answer_to(late);
	CHECK(a && a->opcode != PO_ACK && a->psn == 0xffffe2);
}

TEST_WITH(late_read, late_again, (struct packet){.opcode = PO_READ_REQUEST});
TEST_WITH(late_atomic, late_again, (struct packet){.opcode = PO_FETCH_ADD});

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
