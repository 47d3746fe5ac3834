/* SPDX-License-Identifier: MIT */
/*
 * Chaos mode finds each of the planted mistakes with some seed, finds none in the same programs
 * without the mistake, and repeats a run exactly in step mode.
 */
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rig.h"
#include "softhca.h"

#define SEEDS 3 /* of programs without a mistake */
#define ROUNDS 8 /* of a program with one seed */
#define ROUNDS_PLANTED 40
#define ENOUGH 200 /* a mistake must be found within this many seeds; about one in ten finds it */
#define LEN 4096
#define MESSAGES 40
#define PAIRS 3
#define SEEN 3 /* exit status: the data is not what the program expects */

static struct rig a, b, c, d;
static struct rig a2, b2; /* second QPs of a and b, with the same CQs */
static bool stepping;
static bool planted; /* the program has its mistake */

static void turn(void)
{
	if (stepping)
		CHECK(softhca_step() >= 0);
	else
		sched_yield();
}

static struct ibv_wc wait_ok(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (!rig_poll(cq, &wc))
		turn();
	return wc;
}

static void open_all(void)
{
	rig_open_pair(&a, NULL, &b, NULL);
	rig_open_pair(&c, NULL, &d, &(struct rig_attr){.srq = true});
	a2 = rig_with(&a, rig_qp(&a));
	b2 = rig_with(&b, rig_qp(&b));
	rig_connect_pair(&a2, &b2);
	rig_fill(a.buf, LEN, 1);
}

static void post(struct rig *from, const struct rig *to, enum ibv_wr_opcode op)
{
	rig_request(from, op, LEN, rig_addr(to));
}

/* The mistake: the source is used again before the completion. */
static bool reuse(void)
{
	post(&a, &b, IBV_WR_RDMA_WRITE);
	if (!planted)
		wait_ok(a.scq);
	rig_fill(a.buf, LEN, 2);
	if (planted)
		wait_ok(a.scq);
	return rig_same(b.buf, LEN, 1);
}

/* The mistake: the payload is read as soon as its last byte is there, without a completion. */
static bool early_read(void)
{
	const uint8_t *last = b.buf + LEN - 1;
	uint8_t arrived = a.buf[LEN - 1];

	rig_recv(&b, 0, 0, 0);
	post(&a, &b, IBV_WR_RDMA_WRITE_WITH_IMM);
	if (!planted)
		wait_ok(b.rcq);
	/* Relaxed: the missing order between this load and the payload is the mistake. */
	while (__atomic_load_n(last, __ATOMIC_RELAXED) != arrived)
		turn();
	return rig_same(b.buf, LEN, 1);
}

/* The mistake: a message on another QP is expected to arrive later. */
static bool two_queues(void)
{
	rig_recv(&d, 0, LEN, LEN);
	post(&a, &b, IBV_WR_RDMA_WRITE);
	if (!planted)
		wait_ok(a.scq);
	post(&c, &d, IBV_WR_SEND);
	wait_ok(d.rcq);
	return rig_same(b.buf, LEN, 1);
}

/* The mistake: the effect is expected when the doorbell returns. */
static bool at_once(void)
{
	post(&a, &b, IBV_WR_RDMA_WRITE);
	if (!planted)
		wait_ok(a.scq);
	return rig_same(b.buf, LEN, 1);
}

/*
 * Two QPs share a CQ. The first QP's message has had an effect before the second QP posts its first
 * message; the second QP's messages are posted one by one. The mistake: the program expects the
 * completion of @first before the last one of the second QP, and does not wait for it.
 */
static bool overtake(struct ibv_cq *cq, const struct ibv_qp *first, enum ibv_wr_opcode op)
{
	/*
	 * A program that does not step posts only one message: before a second one, the completion
	 * that it tries to overtake may come.
	 */
	uint32_t most = stepping ? 3 : 1, n;
	bool seen = false;

	for (n = 0; n < most && !seen; n++) {
		if (op == IBV_WR_SEND)
			rig_recv(&b2, 0, LEN, LEN);
		post(&a2, &b2, op);
		seen = wait_ok(cq).qp_num == first->qp_num;
	}
	wait_ok(cq);
	while (op == IBV_WR_SEND && n--)
		wait_ok(a.scq);
	return seen || !planted;
}

static bool shared_send_cq(void)
{
	rig_recv(&b, 0, 0, LEN);
	post(&a, &b, IBV_WR_SEND);
	wait_ok(b.rcq);
	return overtake(a.scq, a.qp, IBV_WR_RDMA_WRITE);
}

static bool shared_recv_cq(void)
{
	rig_recv(&b, 0, 0, LEN);
	post(&a, &b, IBV_WR_SEND);
	wait_ok(a.scq);
	return overtake(b.rcq, b.qp, IBV_WR_SEND);
}

/* No mistake: an aligned word of the payload is the old one or the new one. */
static bool words(void)
{
	static uint8_t n;
	const uint64_t *at = (const uint64_t *)(void *)b.buf;
	bool whole = true;
	struct ibv_wc wc;

	memset(a.buf, ++n, LEN);
	post(&a, &b, IBV_WR_RDMA_WRITE);
	while (!ibv_poll_cq(a.scq, 1, &wc)) {
		turn();
		for (size_t i = 0; i < LEN / 8; i++) {
			uint64_t word = __atomic_load_n(&at[i], __ATOMIC_RELAXED);

			whole = whole && (!word || word == n * UINT64_C(0x0101010101010101));
		}
	}
	return whole && wc.status == IBV_WC_SUCCESS;
}

static bool (*program)(void);

static void run_program(void)
{
	open_all();
	for (int i = 0; i < (planted ? ROUNDS_PLANTED : ROUNDS); i++) {
		struct ibv_wc wc;

		memset(b.buf, 0, LEN);
		rig_fill(a.buf, LEN, 1);
		if (!program())
			exit(SEEN);
		for (int n = 0; n < 100; n++) /* completions that the program did not wait for */
			turn();
		while (rig_poll(a.scq, &wc) || rig_poll(b.rcq, &wc) || rig_poll(c.scq, &wc))
			;
	}
	exit(0);
}

/* Returns true if with one of the seeds the program's data is not what it expects. */
static bool is_seen(bool (*fn)(void), bool with_mistake)
{
	int status = 0;

	program = fn;
	planted = with_mistake;
	for (int seed = 1; !status && seed <= (with_mistake ? ENOUGH : SEEDS); seed++) {
		char text[16];

		snprintf(text, sizeof(text), "%d", seed);
		CHECK(!setenv("SOFTHCA_CHAOS", text, 1));
		status = rig_child(run_program, NULL);
		CHECK(status == 0 || status == SEEN);
	}
	return status == SEEN;
}

/* The mistake is detected, and nothing is detected without it. */
static void mistake(bool (*fn)(void))
{
	CHECK(!is_seen(fn, false));
	CHECK(is_seen(fn, true));
}

TEST_WITH(source_reused, mistake, reuse);
TEST_WITH(target_read_early, mistake, early_read);
TEST_WITH(two_queues_ordered, mistake, two_queues);
TEST_WITH(effect_at_once, mistake, at_once);
TEST_WITH(send_cq_ordered, mistake, shared_send_cq);
TEST_WITH(recv_cq_ordered, mistake, shared_recv_cq);

TEST(whole_words)
{
	CHECK(!is_seen(words, false));
}

/*
 * Correct traffic on three pairs: SENDs, WRITEs with immediate data, READs and atomics. The hash
 * depends on the order in which completions come, and on the turns between them.
 */
static struct rig from[PAIRS], to[PAIRS];
static uint32_t next_send[PAIRS], next_recv[PAIRS];
static uint64_t *hash; /* shared with the parent */
static uint64_t *first_sent, *first_received; /* messages that complete first at this end */

static void note(uint64_t v)
{
	*hash = (*hash ^ v) * 1099511628211u;
}

static void send_one(uint32_t pair, uint32_t n)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD};
	enum ibv_wr_opcode op = ops[n % 5];
	uint32_t len = op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 1 + n * 37 % 2000;

	rig_fill(from[pair].buf, 2048, op == IBV_WR_RDMA_READ ? 0 : n);
	if (op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM)
		rig_recv(&to[pair], n, 0, 2048);
	else if (op == IBV_WR_RDMA_WRITE_WITH_IMM)
		rig_recv(&to[pair], n, 0, 0);
	else if (op == IBV_WR_RDMA_READ)
		rig_fill(to[pair].buf, 2048, n);
	else
		memcpy(to[pair].buf, &(uint64_t){n}, 8);
	rig_post(&from[pair], &(struct rig_wr){.id = n,
				      .op = op,
				      .flags = IBV_SEND_SIGNALED,
				      .len = len,
				      .raddr = (uintptr_t)to[pair].buf,
				      .rkey = to[pair].mr->rkey,
				      .compare_add = 5});
}

static void check_sent(uint32_t pair, const struct ibv_wc *wc)
{
	uint64_t old, now;

	CHECK_EQ(wc->status, IBV_WC_SUCCESS);
	CHECK_EQ(wc->wr_id, next_send[pair]);
	if (wc->opcode == IBV_WC_RDMA_READ)
		CHECK(rig_same(from[pair].buf, wc->byte_len, next_send[pair]));
	if (wc->opcode == IBV_WC_FETCH_ADD) {
		memcpy(&old, from[pair].buf, 8);
		memcpy(&now, to[pair].buf, 8);
		CHECK(old == next_send[pair] && now == old + 5);
	}
	next_send[pair]++;
}

static void check_received(uint32_t pair, const struct ibv_wc *wc)
{
	CHECK_EQ(wc->status, IBV_WC_SUCCESS);
	CHECK_EQ(wc->wr_id, next_recv[pair]);
	CHECK(rig_same(to[pair].buf, wc->byte_len, next_recv[pair]));
	next_recv[pair]++;
}

static bool receives(uint32_t n)
{
	return n % 5 != 2 && n % 5 != 4;
}

/* Polls both ends. A READ or an atomic counts as received when its sender has the completion. */
static void poll_pair(uint32_t pair)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(from[pair].scq, 1, &wc)) {
		note(pair << 8 | 1);
		*first_sent += receives(next_send[pair]) && next_send[pair] == next_recv[pair];
		check_sent(pair, &wc);
	}
	if (ibv_poll_cq(to[pair].rcq, 1, &wc)) {
		note(pair << 8 | 2);
		*first_received += next_send[pair] == next_recv[pair];
		check_received(pair, &wc);
	}
	while (next_recv[pair] < next_send[pair] && !receives(next_recv[pair]))
		next_recv[pair]++;
}

static void run_traffic(void)
{
	uint32_t posted[PAIRS] = {0}, done = 0;

	*hash = 14695981039346656037u;
	for (uint32_t i = 0; i < PAIRS; i++)
		rig_open_pair(&from[i], NULL, &to[i], &(struct rig_attr){.srq = i == 1});
	while (done < PAIRS * MESSAGES) {
		done = 0;
		for (uint32_t i = 0; i < PAIRS; i++) {
			poll_pair(i);
			done += next_send[i] < next_recv[i] ? next_send[i] : next_recv[i];
			if (next_send[i] == posted[i] && next_recv[i] == posted[i] &&
				posted[i] < MESSAGES)
				send_one(i, posted[i]++);
		}
		turn();
		note(3);
	}
	for (uint32_t i = 0; i < PAIRS; i++) {
		rig_idle(from[i].scq);
		rig_close_pair(&from[i], &to[i]);
	}
	exit(0);
}

static uint64_t traffic(const char *seed)
{
	CHECK(!setenv("SOFTHCA_CHAOS", seed, 1));
	CHECK_EQ(rig_child(run_traffic, NULL), 0);
	return *hash;
}

TEST(correct_traffic)
{
	uint64_t first = traffic("1");

	traffic("3");
	if (stepping) {
		/* Either end of a message may complete first. */
		CHECK(*first_sent && *first_received);
		CHECK_EQ(traffic("1"), first);
		CHECK(traffic("2") != first);
	}
}

int main(int argc, char **argv)
{
	test_fabric("chaos");
	stepping = rig_mode("step");
	hash = test_map(4096, PROT_READ | PROT_WRITE, MAP_SHARED);
	first_sent = hash + 1;
	first_received = hash + 2;
	return test_main(argc, argv);
}
