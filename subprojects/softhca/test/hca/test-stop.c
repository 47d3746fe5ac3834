/* SPDX-License-Identifier: MIT */
/*
 * A process is stopped in the middle of a message: after some number of instructions since its
 * doorbell, or at the entry of a system call. The receiver deregisters the target memory of the
 * message. It does not wait for the stopped process: it takes the process's locks away
 * (docs/locks.md). Then the stopped process is continued. It must not change a byte of that memory
 * or make a completion; if it was stopped inside the code of the HCA, its QP has failed.
 *
 * test-stop [number of points for each kind of message [seed]]
 */
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "softhca.h"
#include "trace.h"

#define SHORT 64u
#define LONG (32 * 1024u)
#define TARGET LONG
#define UNTOUCHED 0xee

/*
 * A kind of message. A long message is copied without the fabric's mutex or a lane (docs/locks.md),
 * each of its two segments by a system call.
 */
struct kind {
	const char *name;
	enum ibv_wr_opcode op;
	uint32_t len;
};

enum { WRITE, SEND, LONG_WRITE, ATOMIC };

static const struct kind kinds[] = {
	[WRITE] = {"write", IBV_WR_RDMA_WRITE, SHORT},
	[SEND] = {"send", IBV_WR_SEND, SHORT},
	[LONG_WRITE] = {"long write", IBV_WR_RDMA_WRITE, LONG},
	[ATOMIC] = {"atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, 8},
};
static uint32_t points; /* at which a message of each kind is stopped */
static unsigned seed; /* determines the points */

/* Shared by tester and victim. */
static struct shared {
	uint32_t posted; /* the doorbell has been rung */
	uint32_t done; /* the message's completion was seen */
} * shared;

/* A victim's report at its end. */
struct report {
	enum ibv_wc_status status;
	enum ibv_qp_state state;
};

static struct rig r;
static unsigned before; /* number of recoveries when the victim posts */
static uint8_t *target;
static const struct kind *kind; /* of the next victim's message */
static struct ibv_mr *target_mr;

/* The message has two segments, but an atomic has one. */
static void post_message(struct rig *v, const struct kind *k, const struct rig_addr *to)
{
	struct ibv_sge sge[2] = {{(uintptr_t)v->buf, k->len / 2, v->mr->lkey},
		{(uintptr_t)v->buf + k->len / 2, k->len / 2, v->mr->lkey}};
	struct ibv_send_wr wr = {
		.sg_list = sge,
		.num_sge = 2,
		.opcode = k->op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {to->addr, to->rkey},
	};
	struct ibv_send_wr *bad;

	if (k->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge[0].length = k->len;
		wr.num_sge = 1;
		wr.wr.atomic.remote_addr = to->addr;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = to->rkey;
	}
	CHECK(!ibv_post_send(v->qp, &wr, &bad));
}

static void victim(int fd)
{
	const struct kind *k = kind;
	struct rig_addr to;
	struct report report;
	RIG v;

	rig_open(&v, NULL);
	rig_fill(v.buf, k->len, 1);
	to = rig_meet(&v, fd, NULL, (struct rig_timers){0});
	rig_request(&v, IBV_WR_RDMA_WRITE, 0, to); /* opens the thread's lane */
	rig_wait_ok(v.scq);
	test_meet(fd);
	post_message(&v, k, &to);
	test_store(&shared->posted, 1);
	report.status = rig_wait(v.scq).status;
	test_store(&shared->done, 1);
	report.state = rig_state(&v);
	test_put(fd, &report, sizeof(report));
	test_get(fd, &(char){0}, 1);
}

struct process {
	pid_t pid, tid; /* tid: the thread that executes its messages */
	int fd;
	struct rig_addr at;
};

static void post_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)target, SHORT, target_mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(r.qp, &wr, &bad));
}

/* Starts a victim that is connected to r, and ready to post. */
static struct process start(const struct kind *k)
{
	struct process p;
	char ready;

	memset(shared, 0, sizeof(*shared));
	kind = k;
	p.pid = test_peer(victim, &p.fd);
	rig_open(&r, NULL);
	target_mr = ibv_reg_mr(r.pd, target, TARGET,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(target_mr);
	post_receive();
	p.at = rig_meet(&r, p.fd, target_mr, (struct rig_timers){.timeout = 1, .retry = 1});
	test_get(p.fd, &ready, 1);
	before = rig_info().recoveries;
	p.tid = rig_mode("poll") ? rig_thread(p.pid) : p.pid;
	return p;
}

static int wait_for_stop(const struct process *p)
{
	return test_stopped(p->tid);
}

static void post_it(const struct process *p)
{
	test_put(p->fd, "g", 1);
}

/*
 * Stops the thread of a polling adapter before it executes the message. Returns false if the thread
 * held the mutex there, and this process has taken the mutex over.
 */
static bool stop_polling(const struct process *p)
{
	CHECK(!ptrace(PTRACE_INTERRUPT, p->tid, NULL, NULL));
	wait_for_stop(p);
	if (rig_info().recoveries != before)
		return false;
	post_it(p);
	while (!test_load(&shared->posted))
		sched_yield();
	return true;
}

/*
 * Starts a victim and makes it post the message, with ptrace on the thread that executes it. The
 * thread is then stopped: in trap mode where the doorbell has trapped, in poll mode before it
 * executes the message. Returns the signal that the thread must get.
 */
static int begin(const struct kind *k, struct process *p)
{
	for (;;) {
		*p = start(k);
		CHECK(!ptrace(PTRACE_SEIZE, p->tid, NULL, (void *)PTRACE_O_TRACESYSGOOD));
		if (!rig_mode("poll")) {
			post_it(p);
			CHECK_EQ(wait_for_stop(p), SIGSEGV);
			return SIGSEGV;
		}
		if (stop_polling(p))
			return 0;
		trace_kill(p->pid, p->tid);
		close(p->fd);
		CHECK(!ibv_dereg_mr(target_mr));
	}
}

/*
 * Lets the thread execute @instructions. Returns the signal that it gets next; *ended_p: the
 * message is completed.
 */
static int step(const struct process *p, int sig, uint32_t instructions, bool *ended_p)
{
	for (uint32_t i = 0; i < instructions && !test_load(&shared->done); i++) {
		CHECK(!ptrace(PTRACE_SINGLESTEP, p->tid, NULL, (void *)(intptr_t)sig));
		sig = trace_signal(wait_for_stop(p));
	}
	*ended_p = test_load(&shared->done);
	return sig;
}

static int drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = 0;

	while (ibv_poll_cq(cq, 1, &wc) == 1)
		n++;
	return n;
}

static bool untouched(void)
{
	for (uint32_t i = 0; i < TARGET; i++)
		if (target[i] != UNTOUCHED)
			return false;
	return true;
}

/* Sends a message from here to the stopped process, which gets no answer. */
static void write_to(const struct process *p)
{
	rig_request(&r, IBV_WR_RDMA_WRITE, 8, p->at);
	CHECK_EQ(rig_wait(r.scq).status, IBV_WC_RETRY_EXC_ERR);
}

/*
 * Deregisters the target memory of the message of a stopped process, which may hold the mutex or be
 * in the middle of a copy. Returns true if a lock or the copy was taken away from the process.
 */
static bool go_on_without(const struct process *p)
{
	bool taken;

	CHECK(!ibv_dereg_mr(target_mr));
	memset(target, UNTOUCHED, TARGET);
	taken = rig_info().recoveries != before;
	if (taken) {
		write_to(p);
		rig_wait(r.rcq); /* the receive completes, by the message or flushed */
	}
	return taken;
}

/* Ends a test after the process was continued. */
static void end(struct process *p, bool taken)
{
	struct report report;

	test_get(p->fd, &report, sizeof(report));
	CHECK(untouched());
	if (taken) {
		CHECK(report.status == IBV_WC_SUCCESS || report.status == IBV_WC_WR_FLUSH_ERR);
		CHECK_EQ(report.state, IBV_QPS_ERR);
		CHECK_EQ(drain(r.rcq), 0);
	}
	test_put(p->fd, "e", 1);
	test_peer_ends(p->pid, p->fd);
}

/* Stops a victim after @instructions. */
static void at_instruction(const struct kind *k, uint32_t instructions, uint32_t *taken_p)
{
	struct process p;
	bool ended, taken;
	int sig = step(&p, begin(k, &p), instructions, &ended);

	taken = go_on_without(&p);
	*taken_p += taken;
	CHECK(!ptrace(PTRACE_DETACH, p.tid, NULL, (void *)(intptr_t)sig));
	end(&p, taken);
}

/* Returns the number of instructions until the message is completed. */
static uint32_t length_of(const struct kind *k)
{
	struct process p;
	uint32_t n = 0;
	bool ended = false;
	int sig = begin(k, &p);

	for (; !ended; n++)
		sig = step(&p, sig, 1, &ended);
	CHECK(!ptrace(PTRACE_DETACH, p.tid, NULL, (void *)(intptr_t)sig));
	CHECK(!ibv_dereg_mr(target_mr));
	memset(target, UNTOUCHED, TARGET);
	end(&p, false);
	return n;
}

static void at_instructions(const struct kind *k)
{
	uint32_t n = length_of(k), taken = 0;
	unsigned state = seed;

	for (uint32_t i = 0; i < points; i++)
		at_instruction(k, n / points * i + (uint32_t)rand_r(&state) % (n / points), &taken);
	fprintf(stderr, "%s: %u instructions, stopped at %u points, %u times taken over\n", k->name,
		n, points, taken);
	CHECK(taken > 0);
}

/*
 * Stops a victim at the entry of a system call, which is executed when the process is continued.
 * With @drop this process does not pass on the signal that reports the lost lock to the victim.
 */
static void at_entry(const struct kind *k, long nr, bool drop)
{
	struct process p;
	siginfo_t si;
	int sig = begin(k, &p);

	trace_to_entry(p.tid, sig, nr);
	CHECK(go_on_without(&p));
	if (drop) {
		CHECK(!ptrace(PTRACE_CONT, p.tid, NULL, NULL));
		sig = wait_for_stop(&p);
		CHECK_EQ(sig, SIGSEGV);
		CHECK(!ptrace(PTRACE_GETSIGINFO, p.tid, NULL, &si));
		CHECK(si.si_code < 0);
	}
	CHECK(!ptrace(PTRACE_DETACH, p.tid, NULL, NULL));
	end(&p, true);
}

TEST_WITH(write_at_instructions, at_instructions, &kinds[WRITE]);
TEST_WITH(write_in_writev, at_entry, &kinds[WRITE], SYS_process_vm_writev, false);
TEST_WITH(send_at_instructions, at_instructions, &kinds[SEND]);
TEST_WITH(send_in_writev, at_entry, &kinds[SEND], SYS_process_vm_writev, false);
TEST_WITH(long_write_at_instructions, at_instructions, &kinds[LONG_WRITE]);
TEST_WITH(long_write_in_writev, at_entry, &kinds[LONG_WRITE], SYS_process_vm_writev, false);
TEST_WITH(atomic_in_readv_untold, at_entry, &kinds[ATOMIC], SYS_process_vm_readv, true);

/* Runs the thread until it wakes a thread of the HCA. @sig: as for trace_to_entry(). */
static void to_wake(const struct process *p, int sig)
{
	struct __ptrace_syscall_info info;

	do {
		trace_to_entry(p->tid, sig, SYS_futex);
		sig = 0;
		CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, p->tid, sizeof(info), &info) > 0);
	} while (info.entry.args[1] != FUTEX_WAKE);
}

/*
 * A victim is killed while it tells the receiver's thread of the event that the receiver's QP has
 * failed. The QP fails nevertheless.
 */
static void killed_in_error(bool mapped)
{
	struct process p;
	int sig = begin(&kinds[WRITE], &p);

	if (mapped)
		CHECK(!ibv_dereg_mr(target_mr));
	else
		CHECK(!mprotect(target, TARGET, PROT_NONE));
	to_wake(&p, sig);
	trace_kill(p.pid, p.tid);
	close(p.fd);
	CHECK_EQ(rig_state(&r), IBV_QPS_ERR);
	CHECK_EQ(rig_wait(r.rcq).status, IBV_WC_WR_FLUSH_ERR);
	if (mapped)
		return;
	CHECK(!ibv_dereg_mr(target_mr));
	CHECK(!mprotect(target, TARGET, PROT_READ | PROT_WRITE));
}

TEST_WITH(killed_in_refusal, killed_in_error, true);
TEST_WITH(killed_in_fatal_error, killed_in_error, false);

static void opener(int fd)
{
	RIG v;

	test_get(fd, &(char){0}, 1);
	rig_open(&v, NULL);
}

/*
 * A process is stopped while the HCA starts a thread in it. It must not hold the mutex there: while
 * pthread_create() blocks all signals, others would wait for the process, and elsewhere the process
 * would jump out of pthread_create() and leave locks of libc taken.
 */
TEST(starting_a_thread)
{
	pid_t pid;
	int fd;

	rig_open(&r, NULL);
	before = rig_info().recoveries;
	pid = test_peer(opener, &fd);
	CHECK(!ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD));
	CHECK(!ptrace(PTRACE_INTERRUPT, pid, NULL, NULL));
	test_stopped(pid);
	test_put(fd, "g", 1);
	trace_to_entry(pid, 0, SYS_clone3);
	CHECK_EQ(rig_info().recoveries, before);
	CHECK(!ptrace(PTRACE_DETACH, pid, NULL, NULL));
	test_peer_ends(pid, fd);
}

int main(int argc, char **argv)
{
	points = (uint32_t)test_number(&argc, argv, rig_mode("poll") ? 10 : 30);
	seed = (unsigned)test_number(&argc, argv, (uint64_t)getpid());
	fprintf(stderr, "seed %u\n", seed);
	test_fabric("stop");
	CHECK(!setenv("SOFTHCA_PATIENCE", "1", 1));
	shared = test_map(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED);
	target = test_map(TARGET, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	return test_main(argc, argv);
}
