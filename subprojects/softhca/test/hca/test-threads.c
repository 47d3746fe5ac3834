/* SPDX-License-Identifier: MIT */
/*
 * Threads of one process, each with contexts of its own, send to each other, with signals blocked
 * as in daemons; then a child is forked while all objects are open. In another case threads share a
 * context, an SRQ and CQs.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "rig.h"

#define THREADS 4
#define MESSAGES 2000u
#define SLOTS 32u
#define SLOT 64u

struct node {
	struct rig in[THREADS]; /* one end for each other thread */
	pthread_t thread;
	int id;
};

static struct node nodes[THREADS];
static pthread_barrier_t barrier;

static void open_all(struct node *n)
{
	for (int i = 0; i < THREADS; i++) {
		if (i == n->id)
			continue;
		rig_open(&n->in[i], &(struct rig_attr){.srq = i & 1});
		for (uint64_t k = 0; k < SLOTS; k++)
			rig_recv(&n->in[i], k, 0, 0);
	}
}

struct progress {
	struct rig_addr to;
	uint32_t sent, done, got;
};

static void connect_all(struct node *n, struct progress *p)
{
	for (int i = 0; i < THREADS; i++) {
		if (i == n->id)
			continue;
		p[i].to = rig_addr(&nodes[i].in[n->id]);
		rig_connect(&n->in[i], p[i].to, (struct rig_timers){0});
	}
}

static void send_one(struct rig *r, struct rig_addr to, uint32_t n, uint32_t seed)
{
	uint32_t at = n % SLOTS * SLOT;

	rig_fill(r->buf + RIG_BUF / 2 + at, SLOT, seed + n);
	to.addr += at;
	rig_write_imm(r, n, RIG_BUF / 2 + at, SLOT, to);
}

static bool move(struct node *n, int i, struct progress *p)
{
	struct rig *r = &n->in[i];
	struct ibv_wc wc;

	if (p->sent < MESSAGES && p->sent - p->done < 8 && p->sent < p->got + SLOTS / 2)
		send_one(r, p->to, p->sent++, (uint32_t)(n->id * THREADS + i));
	p->done += rig_poll(r->scq, &wc);
	if (rig_poll(r->rcq, &wc)) {
		CHECK_EQ(wc.imm_data, p->got);
		CHECK(rig_same(r->buf + p->got % SLOTS * SLOT, SLOT,
			(uint32_t)(i * THREADS + n->id) + p->got));
		p->got++;
		rig_recv(r, wc.wr_id, 0, 0);
	}
	return p->done == MESSAGES && p->got == MESSAGES;
}

static void *run(void *arg)
{
	struct progress p[THREADS] = {0};
	struct node *n = arg;
	sigset_t all;
	int finished;

	sigfillset(&all);
	CHECK(!pthread_sigmask(SIG_SETMASK, &all, NULL));
	open_all(n);
	pthread_barrier_wait(&barrier);
	connect_all(n, p);
	pthread_barrier_wait(&barrier);
	do {
		finished = 1;
		for (int i = 0; i < THREADS; i++)
			finished += i != n->id && move(n, i, &p[i]);
		sched_yield();
	} while (finished < THREADS);
	return NULL;
}

/* In the child: a child cannot use the parent's adapters; it joins as a process of its own. */
static void child(int fd)
{
	struct rig_addr to;
	struct rig r;

	rig_open(&r, NULL);
	to = rig_meet(&r, fd, NULL, (struct rig_timers){0});
	for (uint32_t n = 0; n < SLOTS; n++) {
		send_one(&r, to, n, 77);
		rig_wait_ok(r.scq);
	}
	rig_close(&r);
	_exit(0);
}

static void forks(void)
{
	RIG r;
	pid_t pid;
	int fd;

	rig_open(&r, NULL);
	for (uint64_t k = 0; k < SLOTS; k++)
		rig_recv(&r, k, 0, 0);
	pid = test_peer(child, &fd);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	for (uint32_t n = 0; n < SLOTS; n++) {
		CHECK_EQ(rig_wait_ok(r.rcq).imm_data, n);
		CHECK(rig_same(r.buf + n * SLOT, SLOT, 77 + n));
	}
	CHECK_EQ(test_reap(pid), 0);
}

TEST(each_to_each_and_a_child)
{
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		nodes[i].id = i;
		CHECK(!pthread_create(&nodes[i].thread, NULL, run, &nodes[i]));
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(nodes[i].thread, NULL));
	forks();
}

static struct rig hub;

/* A thread's two QPs, which use the hub's queues. The thread sends from one QP to the other. */
struct sender {
	struct rig from, to;
	pthread_t thread;
	uint32_t id;
	_Atomic uint32_t got; /* relaxed: it only limits how far the thread is ahead */
	uint32_t done;
};

/* Every second thread sends with the hub's receive CQ, and receives with its send CQ. */
static void open_sender(struct sender *s, uint32_t id)
{
	struct rig queues = hub;

	if (id % 2) {
		queues.scq = hub.rcq;
		queues.rcq = hub.scq;
	}
	s->id = id;
	s->from = rig_with(&queues, rig_qp(&queues));
	s->to = rig_with(&queues, rig_qp(&queues));
	rig_connect_pair(&s->from, &s->to);
}

static void *send_all(void *arg)
{
	struct sender *s = arg;
	struct rig_addr to = rig_addr(&s->to);

	for (uint32_t n = 0; n < MESSAGES; n++) {
		while (n - atomic_load_explicit(&s->got, memory_order_relaxed) >= SLOTS / THREADS)
			sched_yield();
		rig_write_imm(&s->from, n, s->id * SLOT, SLOT, to);
	}
	return NULL;
}

/* Polls a completion of either kind. Returns the number of completions. */
static int poll_shared(struct ibv_cq *cq, struct sender *senders)
{
	struct sender *s = senders;
	struct ibv_wc wc;

	if (!rig_poll(cq, &wc))
		return 0;
	while (wc.qp_num != s->from.qp->qp_num && wc.qp_num != s->to.qp->qp_num)
		CHECK(++s < senders + THREADS);
	if (wc.qp_num == s->from.qp->qp_num) {
		CHECK_EQ(wc.wr_id, s->done++);
		return 1;
	}
	rig_recv(&hub, wc.wr_id, 0, 0);
	CHECK_EQ(wc.imm_data, s->got);
	atomic_store_explicit(&s->got, wc.imm_data + 1, memory_order_relaxed);
	return 1;
}

/* Each message is completed once, in order at both ends, and counted once. */
TEST(shared_queues)
{
	const uint32_t all = THREADS * MESSAGES;
	struct sender senders[THREADS] = {0};
	struct softhca_counters before, after;
	uint64_t writes;
	uint32_t n = 0;

	rig_open(&hub, &(struct rig_attr){.srq = true});
	for (uint64_t k = 0; k < SLOTS; k++)
		rig_recv(&hub, k, 0, 0);
	for (uint32_t i = 0; i < THREADS; i++)
		open_sender(&senders[i], i);
	before = rig_counters();
	writes = rig_counter(0, "hw_counters/rx_write_requests");
	for (uint32_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&senders[i].thread, NULL, send_all, &senders[i]));
	while (n < 2 * all) {
		n += (uint32_t)poll_shared(hub.scq, senders);
		n += (uint32_t)poll_shared(hub.rcq, senders);
		sched_yield();
	}
	for (uint32_t i = 0; i < THREADS; i++)
		CHECK(!pthread_join(senders[i].thread, NULL));
	after = rig_counters();
	CHECK_EQ(after.cqes - before.cqes, 2 * all);
	CHECK_EQ(after.recvs - before.recvs, all);
	CHECK_EQ(after.wqes[MLX5_OPCODE_RDMA_WRITE_IMM] - before.wqes[MLX5_OPCODE_RDMA_WRITE_IMM],
		all);
	CHECK_EQ(rig_counter(0, "hw_counters/rx_write_requests") - writes, all);
	for (uint32_t i = 0; i < THREADS; i++)
		CHECK(!ibv_destroy_qp(senders[i].from.qp) && !ibv_destroy_qp(senders[i].to.qp));
	before = rig_counters();
	CHECK_EQ(before.recvs, after.recvs);
	rig_close(&hub);
	before = rig_counters();
	CHECK_EQ(before.cqes, after.cqes);
	CHECK_EQ(before.recvs, after.recvs);
}

FABRIC_MAIN("threads");
