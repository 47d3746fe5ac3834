/* SPDX-License-Identifier: MIT */
/*
 * A process is killed, or stopped, after each number of instructions of a step (two completions for
 * a survivor's queues, two stores). The survivor then finds all of it or nothing, and
 * the event that it asked for. A process that was stopped changes nothing when it goes on.
 */
#include <endian.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/wire.h"
#include "check.h"
#include "fabric/fabric.h"
#include "hca/cq.h"
#include "hca/event.h"
#include "hca/journal.h"
#include "hca/objects.h"
#include "member/member.h"

#define LOG_SIZE 4
#define LOST 3 /* exit status of a victim that has lost the mutex */
#define STRIDE 11 /* of the instruction counts that one run tries; the start differs */

struct queue {
	struct cqe64 cqes[1 << LOG_SIZE];
	uint32_t dbrec[2];
	struct cq *cq;
};

static struct queue queues[2];
static struct srq *srq; /* two words of it stand for what a step changes */
static int channel;

static uint32_t make_cq(struct queue *q, uint64_t fifo)
{
	uint32_t i = obj_alloc(OBJ_CQ, 0);

	CHECK(i != NO_INDEX);
	q->cq = cq_at(i);
	q->cq->buf = (uintptr_t)q->cqes;
	q->cq->dbrec = (uintptr_t)q->dbrec;
	q->cq->cqe_size = sizeof(struct cqe64);
	q->cq->log_size = LOG_SIZE;
	q->cq->fifo = fifo;
	q->cq->user_handle = 0x1234;
	memset(q->cqes, 0xff, sizeof(q->cqes));
	obj_publish(OBJ_CQ, i);
	return i;
}

static void make_objects(void)
{
	sigset_t saved;
	uint64_t fifo;

	fabric_enter(&saved);
	channel = fifo_create(&fifo);
	CHECK(channel >= 0);
	CHECK(!fcntl(channel, F_SETFL, O_NONBLOCK));
	make_cq(&queues[0], fifo);
	make_cq(&queues[1], 0);
	srq = &arena()->srqs[obj_alloc(OBJ_SRQ, 0)];
	fabric_leave(&saved);
}

static struct cqe64 completion(uint32_t n)
{
	return (struct cqe64){.byte_cnt = htobe32(n), .op_own = CQE_RESP_SEND << 4};
}

/* Step number @n, as a victim; stops before it and after it. */
static void victim(uint32_t n)
{
	const struct cqe64 cqe = completion(n);
	sigset_t saved;

	member_forget();
	CHECK(!member_attach());
	if (fabric_enter(&saved))
		_exit(LOST);
	journal_begin();
	journal_cqe(cq_index(queues[0].cq), &cqe);
	journal_cqe(cq_index(queues[1].cq), &cqe);
	journal_store(&srq->taken, n);
	journal_store(&srq->head, n);
	CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	raise(SIGSTOP);
	journal_commit();
	raise(SIGSTOP);
	_exit(1);
}

/* Leaves the victim stopped. Returns whether the step had ended before @instructions were executed. */
static bool run_victim(uint32_t n, uint32_t instructions, pid_t *pid_p)
{
	bool ended = false;
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (!pid)
		victim(n);
	*pid_p = pid;
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	for (uint32_t i = 0; i < instructions && !ended; i++) {
		CHECK(!ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL));
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFSTOPPED(status));
		ended = WSTOPSIG(status) == SIGSTOP;
	}
	return ended;
}

static void kill_victim(pid_t pid)
{
	int status;

	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* It finds that it has lost the mutex, before anything else. */
static void continue_victim(pid_t pid)
{
	struct queue before[2] = {queues[0], queues[1]};
	uint32_t producers[2] = {queues[0].cq->producer, queues[1].cq->producer};
	struct journal journal = arena()->journal;
	uint32_t taken = srq->taken, head = srq->head;
	int status;

	CHECK(!ptrace(PTRACE_DETACH, pid, NULL, NULL));
	CHECK(!kill(pid, SIGCONT)); /* it may be about to stop itself */
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == LOST);
	CHECK(!memcmp(before, queues, sizeof(before)));
	CHECK(!memcmp(&journal, &arena()->journal, sizeof(journal)));
	CHECK_EQ(queues[0].cq->producer, producers[0]);
	CHECK_EQ(queues[1].cq->producer, producers[1]);
	CHECK_EQ(srq->taken, taken);
	CHECK_EQ(srq->head, head);
}

static void check_queue(struct queue *q, uint32_t before, bool done, uint32_t n)
{
	uint32_t slot = before % (1 << LOG_SIZE);
	uint8_t owner = before >> LOG_SIZE & 1;

	CHECK_EQ(q->cq->producer, before + done);
	if (!done)
		return;
	CHECK_EQ(be32toh(q->cqes[slot].byte_cnt), n);
	CHECK_EQ(q->cqes[slot].op_own, CQE_RESP_SEND << 4 | owner);
	q->dbrec[0] = htobe32((before + 1) & 0xffffff);
}

/* Returns whether the victim's step was there to the end, with or without help. */
static bool one(uint32_t n, uint32_t instructions, bool kills, bool *ended)
{
	const uint32_t before = queues[0].cq->producer, taken = srq->taken;
	uint64_t event;
	sigset_t saved;
	pid_t pid;
	bool done;

	queues[0].cq->armed = CQ_ARMED_NEXT;
	*ended = run_victim(n, instructions, &pid);
	if (kills)
		kill_victim(pid);
	CHECK(!fabric_enter(&saved));
	done = queues[0].cq->producer != before;
	check_queue(&queues[0], before, done, n);
	check_queue(&queues[1], before, done, n);
	CHECK_EQ(srq->taken, done ? n : taken);
	CHECK_EQ(srq->head, srq->taken);
	CHECK(!arena()->journal.active);
	fabric_leave(&saved);
	CHECK_EQ(read(channel, &event, sizeof(event)) == sizeof(event), done);
	while (read(channel, &event, sizeof(event)) > 0) /* at most one more, of a replay */
		CHECK_EQ(event, 0x1234);
	if (!kills)
		continue_victim(pid);
	return done;
}

/* Returns the number of victims. */
static uint32_t sweep(uint32_t first, bool kills)
{
	uint32_t i = (uint32_t)getpid() % STRIDE, n = first, done = 0, replays = arena()->replays;
	bool ended = false;

	for (; !ended; i += STRIDE, n++)
		done += one(n, i, kills, &ended);
	fprintf(stderr, "%u %s, %u after the step was described, %u replays\n", n - first,
		kills ? "killed" : "stopped", done, arena()->replays - replays);
	CHECK(arena()->replays > replays);
	CHECK(done < n - first);
	return n - first;
}

int main(void)
{
	char name[64];
	uint32_t n;

	alarm(100);
	snprintf(name, sizeof(name), "test-journal-%d", (int)getpid());
	CHECK(!setenv("SOFTHCA_FABRIC", name, 1));
	CHECK(!setenv("SOFTHCA_PATIENCE", "0", 1));
	CHECK(!member_attach());
	atexit(member_detach);
	make_objects();
	n = sweep(1, true);
	CHECK_EQ(arena()->takeovers, 0);
	n = sweep(1 + n, false);
	CHECK_EQ(arena()->takeovers, n);
	return 0;
}
