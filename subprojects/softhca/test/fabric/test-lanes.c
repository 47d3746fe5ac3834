/* SPDX-License-Identifier: MIT */
/*
 * A lane excludes others as it should. In one_at_a_time, one process takes the mutex again and
 * again, and joins and parts the lanes of two contexts. Two others take the lane of one context
 * each. A process that is alone, with the mutex or with the lane of both, changes two words, one
 * after the other.
 *
 * In other cases a process is interrupted after each instruction until it has the lane. Meanwhile
 * the mutex is taken, or the context gets another lane.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "hca/objects.h"
#include "member/member.h"

#define CHANGES 2000u /* by each process that takes lanes */
#define PAUSES 40 /* between the two words */
#define CONTEXTS 2
#define LOOKS 2000 /* at a process that must wait */
#define STEPS 250u /* more instructions than a free lane takes */

/* Relaxed accesses: lanes and mutex have to order those of all processes. */
#define GET(field) atomic_load_explicit(&shared->field, memory_order_relaxed)
#define SET(field, value) atomic_store_explicit(&shared->field, value, memory_order_relaxed)

static struct shared {
	_Atomic uint32_t a, b;
	_Atomic uint32_t changes[CONTEXTS + 1]; /* by each process */
	const struct lane *_Atomic held; /* by the process that is interrupted */
	atomic_bool has_mutex; /* the process that waits for the owner of a lane */
} * shared;

static void pauses(void)
{
	for (int i = 0; i < PAUSES; i++)
		__builtin_ia32_pause();
}

static void change(uint32_t self)
{
	uint32_t n = GET(a);

	CHECK_EQ(GET(b), n);
	SET(a, n + 1);
	pauses();
	CHECK_EQ(GET(b), n);
	SET(b, n + 1);
	SET(changes[self], GET(changes[self]) + 1);
}

static void with_mutex(uint32_t self)
{
	sigset_t saved;

	while (GET(changes[0]) < CHANGES || GET(changes[1]) < CHANGES) {
		CHECK(!fabric_enter(&saved));
		CHECK(fabric_whole());
		change(self);
		if (GET(changes[self]) % 2)
			lanes_part(0);
		else
			lanes_join(GET(a) % 2, 1 - GET(a) % 2);
		fabric_leave(&saved);
		pauses();
	}
}

static void with_lane(uint32_t ctx)
{
	sigset_t saved;

	while (GET(changes[ctx]) < CHANGES) {
		fabric_block(&saved);
		CHECK(!fabric_lock_lane(ctx));
		if (fabric_whole() || ctx_at(0)->lane == ctx_at(1)->lane)
			change(ctx);
		fabric_leave(&saved);
	}
}

static void make_contexts(void)
{
	sigset_t saved;

	CHECK(!fabric_enter(&saved));
	for (uint32_t i = 0; i < CONTEXTS; i++) {
		CHECK_EQ(obj_alloc(OBJ_CTX, i), i);
		ctx_at(i)->lane = i;
		obj_publish(OBJ_CTX, i);
	}
	fabric_leave(&saved);
}

/* Takes the lane of @ctx, which opens it. Returns true if it was open. */
static bool open_lane_of(uint32_t ctx)
{
	sigset_t saved;
	bool open;

	fabric_block(&saved);
	CHECK(!fabric_lock_lane(ctx));
	open = !fabric_whole();
	fabric_leave(&saved);
	return open;
}

/* Gives each context a lane of its own, which is open. */
static void part(void)
{
	sigset_t saved;

	CHECK(!fabric_enter(&saved));
	lanes_part(0);
	fabric_leave(&saved);
	for (uint32_t i = 0; i < CONTEXTS; i++)
		open_lane_of(i);
}

static pid_t start(void (*fn)(uint32_t), uint32_t self)
{
	pid_t pid = test_fork();

	if (pid)
		return pid;
	member_forget();
	CHECK(!member_attach());
	fn(self);
	member_detach();
	_exit(0);
}

/* Takes the lane of context @ctx again and again. It stops itself before and after. */
static void take_lane(uint32_t ctx)
{
	sigset_t saved;

	CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	for (;;) {
		fabric_block(&saved);
		raise(SIGSTOP);
		CHECK(!fabric_lock_lane(ctx));
		SET(held, fabric_lane());
		raise(SIGSTOP);
		SET(held, NULL);
		fabric_leave(&saved);
	}
}

/* Continues the process, by one instruction or until it stops itself. */
static void go(pid_t pid, enum __ptrace_request how)
{
	int status;

	CHECK(!ptrace(how, pid, NULL, NULL));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSTOPPED(status));
	CHECK(how == PTRACE_SINGLESTEP || WSTOPSIG(status) == SIGSTOP);
}

/* Interrupts the process after @steps instructions. Returns false if it had the lane by then. */
static bool interrupt(pid_t pid, uint32_t steps, bool mutex)
{
	sigset_t saved;

	for (uint32_t i = 0; i < steps; i++)
		go(pid, PTRACE_SINGLESTEP);
	if (arena()->lanes[0].claim.word & CLAIM_OWNER_MASK)
		return false;
	CHECK(!fabric_enter(&saved));
	for (uint32_t i = 0; mutex && i < STEPS; i++)
		go(pid, PTRACE_SINGLESTEP);
	CHECK(!GET(held));
	if (!mutex)
		lanes_join(1, 0);
	fabric_leave(&saved);
	return true;
}

static void interrupt_everywhere(bool mutex)
{
	bool early = true;
	uint32_t n = 0;
	int status;
	pid_t pid;

	part();
	pid = start(take_lane, 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	for (; early; n++) {
		early = interrupt(pid, n, mutex);
		go(pid, PTRACE_CONT);
		CHECK(GET(held) == &arena()->lanes[ctx_at(0)->lane]);
		go(pid, PTRACE_CONT);
		part();
	}
	fprintf(stderr, "%u instructions before the lane is taken\n", n);
	CHECK(n > 10 && n < STEPS);
	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(test_reap(pid), 128 + SIGKILL);
}

TEST(one_at_a_time)
{
	pid_t pids[CONTEXTS + 1];
	uint32_t changes = 0;

	for (uint32_t i = 0; i < CONTEXTS; i++)
		pids[i] = start(with_lane, i);
	pids[CONTEXTS] = start(with_mutex, CONTEXTS);
	for (uint32_t i = 0; i <= CONTEXTS; i++) {
		CHECK_EQ(test_reap(pids[i]), 0);
		changes += GET(changes[i]);
		fprintf(stderr, "%u: %u changes\n", i, GET(changes[i]));
	}
	CHECK_EQ(GET(a), changes);
	CHECK_EQ(GET(b), changes);
}

/* A lane is shut after the mutex was taken for a while and the lane was not. */
TEST(shut_when_idle)
{
	sigset_t saved;
	int n = 0;

	part();
	CHECK(open_lane_of(0));
	CHECK(arena()->open_lanes[0] == 3 && arena()->open_words == 1);
	for (; arena()->open_words; n++) {
		CHECK(n < 2000);
		CHECK(!fabric_enter(&saved));
		fabric_leave(&saved);
		CHECK(n >= 1000 || open_lane_of(0));
		CHECK(n != 999 || arena()->open_lanes[0] == 1);
	}
	CHECK(n > 1010);
	CHECK(!arena()->lanes[0].open && !arena()->open_lanes[0]);
	CHECK(!open_lane_of(0));
	CHECK(open_lane_of(0));
}

static void take_mutex(uint32_t self)
{
	sigset_t saved;

	CHECK(!fabric_enter(&saved));
	SET(has_mutex, true);
	fabric_leave(&saved);
}

/* A process that takes the mutex waits for the owner of a lane. */
TEST(mutex_waits)
{
	sigset_t saved;
	pid_t pid;

	part();
	fabric_block(&saved);
	CHECK(!fabric_lock_lane(0) && !fabric_whole());
	pid = start(take_mutex, 0);
	while (!(arena()->whole.claim.word & CLAIM_OWNER_MASK))
		sched_yield();
	for (int i = 0; i < LOOKS; i++, sched_yield())
		CHECK(!GET(has_mutex));
	fabric_leave(&saved);
	CHECK_EQ(test_reap(pid), 0);
	CHECK(GET(has_mutex));
}

TEST(interrupted_by_mutex)
{
	interrupt_everywhere(true);
}

TEST(interrupted_by_join)
{
	interrupt_everywhere(false);
}

int main(int argc, char **argv)
{
	int status;

	test_fabric("lanes");
	shared = test_map(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED);
	CHECK(!member_attach());
	make_contexts();
	status = test_main(argc, argv);
	member_detach();
	return status;
}
