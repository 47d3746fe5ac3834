/* SPDX-License-Identifier: MIT */
/*
 * kill -9 at random points. A survivor serves two peers from one SRQ and one receive CQ: a steady
 * one, and one that is killed and replaced, over and over, while both directions are busy. The
 * messages of each victim arrive in order, the survivor's own messages to it end in "retry
 * exceeded", and the steady peer is not affected. At the end no receive is lost.
 *
 * test-kill [number of kills]
 */
#include <sched.h>
#include <signal.h>

#include "rig.h"
#include "softhca.h"
#include "trace.h"

#define SLOT 512u
#define SLOTS 32u
#define FROM_STEADY 0u
#define FROM_VICTIM (SLOTS * SLOT)
#define OUT (2 * SLOTS * SLOT)
#define STEADY_WINDOW 8u
#define VICTIM_QUIET 0xffffffffu /* immediate data that ends the steady peer's loop */

static struct rig r;
static struct ibv_qp *steady_qp, *victim_qp;
static unsigned kills;

static uint32_t length_of(uint32_t n)
{
	return 4 + n * 29 % (SLOT - 4);
}

static void post(uint32_t n, struct rig_addr to, uint32_t area)
{
	uint32_t len = length_of(n), at = n % SLOTS * SLOT;

	rig_fill(r.buf + OUT + at, len, n);
	to.addr += area + at;
	rig_write_imm(&r, n, OUT + at, len, to);
}

static struct rig_addr open_peer(int fd)
{
	rig_open(&r, &(struct rig_attr){.srq = true});
	for (uint64_t i = 0; i < RIG_DEPTH - 1; i++)
		rig_recv(&r, i, 0, 0);
	return rig_meet(&r, fd, NULL, (struct rig_timers){0});
}

/* Sends as fast as completions allow, until killed. */
static void victim(int fd)
{
	struct rig_addr to = open_peer(fd);
	struct ibv_wc wc;
	uint32_t sent = 0, done = 0;

	for (;;) {
		if (sent - done < 4)
			post(sent++, to, FROM_VICTIM);
		done += rig_poll(r.scq, &wc);
		if (ibv_poll_cq(r.rcq, 1, &wc) == 1)
			rig_recv(&r, wc.wr_id, 0, 0);
	}
}

/* Forks a victim for each byte that arrives on @fd. The process itself opens no device. */
static void nursery(int fd)
{
	char c;

	alarm(2400);
	while (recv(fd, &c, 1, 0) == 1) {
		pid_t pid = test_fork();

		if (!pid) {
			test_put(fd, &(pid_t){getpid()}, sizeof(pid_t));
			victim(fd);
		}
		CHECK_EQ(test_reap(pid), 128 + SIGKILL);
		test_put(fd, "x", 1);
	}
}

/* Sends STEADY_WINDOW messages, and one for each that it receives, until VICTIM_QUIET arrives. */
static void steady(int fd)
{
	struct rig_addr to = open_peer(fd);
	struct ibv_wc wc;
	uint32_t sent = 0, got = 0, extra;

	alarm(2400);
	while (sent < STEADY_WINDOW)
		post(sent++, to, FROM_STEADY);
	for (;;) {
		rig_poll(r.scq, &wc);
		if (!rig_poll(r.rcq, &wc)) {
			sched_yield();
			continue;
		}
		if (wc.imm_data == VICTIM_QUIET)
			break;
		CHECK_EQ(wc.imm_data, got++);
		rig_recv(&r, wc.wr_id, 0, 0);
		post(sent++, to, FROM_STEADY);
	}
	test_get(fd, &extra, sizeof(extra));
	for (uint32_t i = 0; i < extra; i++) {
		post(sent++, to, FROM_STEADY);
		while (rig_poll(r.scq, &wc))
			;
	}
	test_get(fd, &extra, 1);
}

static struct ibv_qp *connect_peer(int fd, struct rig_addr *to)
{
	r.qp = rig_qp(&r);
	*to = rig_meet(&r, fd, NULL, (struct rig_timers){.timeout = 8, .retry = 2});
	return r.qp;
}

struct tally {
	uint32_t from_steady, to_steady;
	uint32_t from_victim, to_victim, to_victim_done;
	bool victim_failed;
	bool burst; /* more messages than slots are in flight */
	uint32_t posted, taken; /* receives */
	bool outstanding[RIG_DEPTH]; /* receives, by wr_id */
};

static void post_receive(struct tally *t, uint64_t id)
{
	rig_recv(&r, id, 0, 0);
	t->outstanding[id] = true;
	t->posted++;
}

static void on_recv(const struct ibv_wc *wc, struct tally *t)
{
	bool v = wc->qp_num != steady_qp->qp_num;
	uint32_t n = v ? t->from_victim++ : t->from_steady++;

	CHECK_EQ(wc->status, IBV_WC_SUCCESS);
	CHECK_EQ(wc->imm_data, n);
	CHECK_EQ(wc->byte_len, length_of(n));
	if (!v && !t->burst) /* else other messages may have overwritten the slot */
		CHECK(rig_same(r.buf + FROM_STEADY + n % SLOTS * SLOT, wc->byte_len, n));
	CHECK(t->outstanding[wc->wr_id]); /* no receive is consumed twice */
	t->outstanding[wc->wr_id] = false;
	t->taken++;
}

static void on_sent(const struct ibv_wc *wc, struct tally *t)
{
	if (wc->qp_num == steady_qp->qp_num) {
		CHECK_EQ(wc->status, IBV_WC_SUCCESS);
		return;
	}
	if (wc->status == IBV_WC_SUCCESS)
		CHECK(!t->victim_failed);
	else if (!t->victim_failed)
		CHECK_EQ(wc->status, IBV_WC_RETRY_EXC_ERR);
	else
		CHECK_EQ(wc->status, IBV_WC_WR_FLUSH_ERR);
	t->victim_failed |= wc->status != IBV_WC_SUCCESS;
	CHECK_EQ(wc->wr_id, t->to_victim_done++);
}

/*
 * One turn of the survivor's loop: answers the steady peer, and keeps up to four messages to the
 * victim in flight. Returns true if nothing arrived.
 */
static bool turn(struct tally *t, const struct rig_addr *steady_to,
	const struct rig_addr *victim_to)
{
	struct ibv_wc wc;
	bool idle = false;

	while (ibv_poll_cq(r.scq, 1, &wc) == 1)
		on_sent(&wc, t);
	if (ibv_poll_cq(r.rcq, 1, &wc) == 1) {
		on_recv(&wc, t);
		post_receive(t, wc.wr_id);
		r.qp = steady_qp;
		if (wc.qp_num == steady_qp->qp_num)
			post(t->to_steady++, *steady_to, FROM_STEADY);
	} else {
		idle = true;
		sched_yield();
	}
	if (victim_to && !t->victim_failed && t->to_victim - t->to_victim_done < 4) {
		r.qp = victim_qp;
		post(t->to_victim++, *victim_to, FROM_VICTIM);
	}
	return idle;
}

/* Stops the process and has it execute @n instructions before it is killed. */
static void kill_after(pid_t pid, unsigned n)
{
	int status, sig = 0;

	CHECK(!ptrace(PTRACE_SEIZE, pid, NULL, NULL));
	CHECK(!ptrace(PTRACE_INTERRUPT, pid, NULL, NULL));
	test_stopped(pid);
	while (n--) {
		CHECK(!ptrace(PTRACE_SINGLESTEP, pid, NULL, (void *)(intptr_t)sig));
		sig = trace_signal(test_stopped(pid));
	}
	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, &status, __WALL), pid);
}

static void one_kill(int fd, struct tally *t, const struct rig_addr *steady_to, unsigned *seed)
{
	uint64_t until;
	struct rig_addr to;
	pid_t pid;
	char c;

	t->from_victim = t->to_victim = t->to_victim_done = 0;
	t->victim_failed = false;
	test_put(fd, "x", 1);
	test_get(fd, &pid, sizeof(pid));
	victim_qp = connect_peer(fd, &to);
	until = test_now_ns() + (uint64_t)(rand_r(seed) % 3000) * 1000;
	do
		turn(t, steady_to, &to);
	while (test_now_ns() < until || !t->from_victim);
	if (rand_r(seed) & 7)
		CHECK(!kill(pid, SIGKILL));
	else
		kill_after(pid, (unsigned)rand_r(seed) % 300);
	while (!t->victim_failed || t->to_victim != t->to_victim_done)
		turn(t, steady_to, &to);
	test_get(fd, &c, 1); /* the process is reaped */
	while (!turn(t, steady_to, NULL)) /* before the QP's completions are removed with it */
		;
	CHECK(!ibv_destroy_qp(victim_qp));
}

/* The steady peer sends as many messages as there are receives: each of them must find one. */
static void count_receives(int fd, struct tally *t, const struct rig_addr *to)
{
	uint32_t left, limit = t->to_steady + STEADY_WINDOW;
	struct ibv_wc wc;

	r.qp = steady_qp;
	rig_write_imm(&r, VICTIM_QUIET, 0, 0, *to);
	while (t->from_steady < limit) {
		wc = rig_wait_ok(r.rcq);
		on_recv(&wc, t);
	}
	left = t->posted - t->taken;
	t->burst = true;
	test_put(fd, &left, sizeof(left));
	for (uint32_t i = 0; i < left; i++) {
		wc = rig_wait_ok(r.rcq);
		on_recv(&wc, t);
	}
	CHECK_EQ(t->posted, t->taken);
	test_put(fd, "x", 1);
}

TEST(killed_at_random)
{
	struct tally t = {0};
	struct rig_addr steady_to;
	int steady_fd, nursery_fd;
	unsigned seed = (unsigned)test_now_ns();
	struct softhca_fabric_info info;
	pid_t pid[2];

	alarm(600 + kills);
	fprintf(stderr, "seed %u\n", seed);
	pid[0] = test_peer(steady, &steady_fd);
	pid[1] = test_peer(nursery, &nursery_fd);
	rig_open(&r, &(struct rig_attr){.srq = true});
	for (uint64_t i = 0; i < RIG_DEPTH - 1; i++)
		post_receive(&t, i);
	CHECK(!ibv_destroy_qp(r.qp));
	steady_qp = connect_peer(steady_fd, &steady_to);
	for (unsigned i = 0; i < kills; i++)
		one_kill(nursery_fd, &t, &steady_to, &seed);
	count_receives(steady_fd, &t, &steady_to);
	info = rig_info();
	fprintf(stderr, "%u died inside the adapter, %u of them in the middle of a step\n",
		info.recoveries, info.replays);
	close(nursery_fd);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(test_reap(pid[i]), 0);
	r.qp = steady_qp;
}

int main(int argc, char **argv)
{
	test_fabric("kill");
	kills = (unsigned)test_number(&argc, argv, 100);
	return test_main(argc, argv);
}
