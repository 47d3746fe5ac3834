/* SPDX-License-Identifier: MIT */
/*
 * Lanes, latches and the mutex (docs/locks.md) exclude each other. In one_at_a_time, one process
 * takes the mutex again and again, and two others take their lanes and the latches of two CQs. The
 * process that holds its locks changes two words, one after the other.
 *
 * In other cases a process is interrupted after each instruction until it has its lane, while the
 * mutex is taken; or it is killed while it has the mutex or latches.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "fabric/latch.h"
#include "hca/objects.h"
#include "member/member.h"

#define CHANGES 2000u /* by each process that takes lanes */
#define PAUSES 40 /* between the two words */
#define LANES 2
#define LOST 3 /* exit status of a process that has lost its latches */
#define LOOKS 2000 /* checks that a process still waits */
#define STEPS 250u /* more instructions than it takes to get a free lane */

/* Relaxed accesses: lanes and mutex have to order the accesses of all processes. */
#define GET(field) atomic_load_explicit(&shared->field, memory_order_relaxed)
#define SET(field, value) atomic_store_explicit(&shared->field, value, memory_order_relaxed)

static struct shared {
	_Atomic uint32_t a, b;
	_Atomic uint32_t changes[LANES + 1]; /* by each process */
	_Atomic uint32_t lane; /* index of the lane of the process that is interrupted */
	atomic_bool held; /* that process has its lane */
	atomic_bool has_mutex; /* set by the process that waits for a lane's owner */
} * shared;

static struct cq *cqs[2];

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
		fabric_leave(&saved);
		pauses();
	}
}

static void take_both(void)
{
	while (!latch_take(&cqs[0]->latch) || !latch_take(&cqs[1]->latch))
		fabric_widen();
}

static void with_lane(uint32_t self)
{
	sigset_t saved;

	while (GET(changes[self]) < CHANGES) {
		fabric_block(&saved);
		CHECK(!fabric_lock_lane());
		take_both();
		change(self);
		fabric_leave(&saved);
	}
}

static void make_cqs(void)
{
	sigset_t saved;
	uint32_t k;

	CHECK(!fabric_enter(&saved));
	for (uint32_t i = 0; i < 2; i++) {
		k = obj_alloc(OBJ_CQ, 0);
		CHECK((int32_t)k >= 0);
		cqs[i] = cq_at(k);
		obj_publish(OBJ_CQ, k);
	}
	fabric_leave(&saved);
}

/* Index of the lane of this thread. */
static uint32_t own_lane(void)
{
	return fabric_self.slot * PROC_LANES + fabric_thread.number - 1;
}

/* Takes lane @i of this process, which opens it. Returns true if it was open. */
static bool open_lane(uint32_t i)
{
	sigset_t saved;
	bool open;

	fabric_thread.number = 1 + i;
	fabric_block(&saved);
	CHECK(!fabric_lock_lane());
	open = !fabric_whole();
	fabric_leave(&saved);
	return open;
}

static void open_both(void)
{
	for (uint32_t i = 0; i < LANES; i++)
		while (!open_lane(i))
			;
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

/* Takes its lane again and again. The process stops itself before and after that. */
static void take_lane(uint32_t self)
{
	sigset_t saved;

	open_lane(self);
	SET(lane, own_lane());
	CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	for (;;) {
		fabric_block(&saved);
		raise(SIGSTOP);
		CHECK(!fabric_lock_lane() && !fabric_whole());
		SET(held, true);
		raise(SIGSTOP);
		SET(held, false);
		fabric_leave(&saved);
	}
}

/* Continues the process, by one instruction or until it stops itself. */
static void go(pid_t pid, enum __ptrace_request how)
{
	int sig;

	CHECK(!ptrace(how, pid, NULL, NULL));
	sig = test_stopped(pid);
	CHECK(how == PTRACE_SINGLESTEP || sig == SIGSTOP);
}

/*
 * Interrupts the process after @steps instructions. Returns false if it had its lane by then.
 * Otherwise takes the mutex, and checks that the process does not get its lane meanwhile.
 */
static bool interrupt(pid_t pid, uint32_t steps)
{
	sigset_t saved;

	for (uint32_t i = 0; i < steps; i++)
		go(pid, PTRACE_SINGLESTEP);
	if (arena()->lanes[GET(lane)].claim.word & CLAIM_OWNER_MASK)
		return false;
	CHECK(!fabric_enter(&saved));
	for (uint32_t i = 0; i < STEPS; i++)
		go(pid, PTRACE_SINGLESTEP);
	CHECK(!GET(held));
	fabric_leave(&saved);
	return true;
}

TEST(interrupted_by_mutex)
{
	bool early = true;
	uint32_t n = 0;
	pid_t pid;

	pid = start(take_lane, 0);
	test_stopped(pid);
	for (; early; n++) {
		early = interrupt(pid, n);
		go(pid, PTRACE_CONT);
		CHECK(GET(held));
		go(pid, PTRACE_CONT);
	}
	fprintf(stderr, "%u instructions before the lane is taken\n", n);
	CHECK(n > 10 && n < STEPS);
	test_kill(pid);
}

TEST(one_at_a_time)
{
	pid_t pids[LANES + 1];
	uint32_t changes = 0;

	for (uint32_t i = 0; i < LANES; i++)
		pids[i] = start(with_lane, i);
	pids[LANES] = start(with_mutex, LANES);
	for (uint32_t i = 0; i <= LANES; i++) {
		CHECK_EQ(test_reap(pids[i]), 0);
		changes += GET(changes[i]);
		fprintf(stderr, "%u: %u changes\n", i, GET(changes[i]));
	}
	CHECK_EQ(GET(a), changes);
	CHECK_EQ(GET(b), changes);
}

/* A lane is shut when the mutex has been taken many times, and the lane has not. */
TEST(shut_when_idle)
{
	sigset_t saved;
	int n = 0;

	open_both();
	CHECK((arena()->open_lanes[0] & 3) == 3 && arena()->open_words == 1);
	for (; arena()->open_words; n++) {
		CHECK(n < 2000);
		CHECK(!fabric_enter(&saved));
		fabric_leave(&saved);
		CHECK(n >= 1000 || open_lane(0));
		CHECK(n != 999 || arena()->open_lanes[0] == 1);
	}
	CHECK(n > 1010);
	CHECK(!arena()->lanes[0].open && !arena()->open_lanes[0]);
	CHECK(!open_lane(0));
	CHECK(open_lane(0));
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

	open_both();
	fabric_block(&saved);
	CHECK(!fabric_lock_lane() && !fabric_whole());
	pid = start(take_mutex, 0);
	while (!(arena()->whole.claim.word & CLAIM_OWNER_MASK))
		sched_yield();
	for (int i = 0; i < LOOKS; i++, sched_yield())
		CHECK(!GET(has_mutex));
	fabric_leave(&saved);
	CHECK_EQ(test_reap(pid), 0);
	CHECK(GET(has_mutex));
}

/* Takes the mutex or, if @lane, both latches, and is killed. */
static void die(uint32_t lane)
{
	sigset_t saved;

	if (lane) {
		open_lane(0);
		fabric_block(&saved);
		CHECK(!fabric_lock_lane() && !fabric_whole());
		take_both();
	} else {
		CHECK(!fabric_enter(&saved));
	}
	raise(SIGKILL);
}

/* A thread that recovers from the death of the mutex's owner does not open its own lane yet. */
TEST(no_lane_is_opened_before_recovery)
{
	const struct lane *l;

	open_lane(0);
	l = &arena()->lanes[own_lane()];
	while (l->open)
		take_mutex(0);
	CHECK_EQ(test_reap(start(die, 0)), 128 + SIGKILL);
	CHECK(!open_lane(0) && !l->open);
	CHECK(!open_lane(0) && l->open);
}

/*
 * A process gets the slot, in the fabric's table of processes, of a process that was killed after
 * it had taken a shut lane. The new process is not treated as stopped.
 */
TEST(lane_of_a_dead_predecessor)
{
	uint32_t takeovers = arena()->takeovers, recoveries = arena()->recoveries;
	pid_t dead = test_fork();
	struct lane *l;

	if (!dead)
		_exit(0);
	CHECK_EQ(test_reap(dead), 0);
	open_lane(0);
	l = &arena()->lanes[own_lane()];
	while (l->open)
		take_mutex(0);
	l->claim.word = (l->claim.word & ~CLAIM_OWNER_MASK) | (uint64_t)dead << CLAIM_SLOT_BITS |
			fabric_self.slot;
	while (!open_lane(0))
		;
	CHECK_EQ(arena()->recoveries, recoveries + 1);
	CHECK_EQ(arena()->takeovers, takeovers);
}

/* Returns true if this thread gets both latches without the mutex. */
static bool get_both(void)
{
	sigset_t saved;
	bool got;

	fabric_block(&saved);
	CHECK(!fabric_lock_lane());
	got = latch_take(&cqs[0]->latch) && latch_take(&cqs[1]->latch) && !fabric_whole();
	fabric_leave(&saved);
	return got;
}

/* The latches of a dead process are free after the next recovery, and not before. */
TEST(latches_of_the_dead)
{
	uint32_t recoveries;

	open_both();
	CHECK(get_both());
	CHECK_EQ(test_reap(start(die, 1)), 128 + SIGKILL);
	recoveries = arena()->recoveries;
	CHECK(!latch_is_free(cqs[0]->latch.word) && !get_both());
	CHECK_EQ(arena()->recoveries, recoveries);
	take_mutex(0);
	CHECK_EQ(arena()->recoveries, recoveries + 1);
	CHECK(get_both());
	CHECK(!cqs[0]->latch.word && !cqs[1]->latch.word);
}

/*
 * All runs of compressed completions are written before a lane is released, even if the CQ's latch
 * is held.
 */
TEST(runs_of_a_latched_cq)
{
	uint32_t recoveries;
	struct lane *l;
	sigset_t saved;

	open_both();
	CHECK_EQ(test_reap(start(die, 1)), 128 + SIGKILL);
	recoveries = arena()->recoveries;
	fabric_block(&saved);
	CHECK(!fabric_lock_lane() && !fabric_whole());
	l = fabric_lane();
	l->comp_queues[0] = cq_index(cqs[1]);
	fabric_leave(&saved);
	CHECK(!l->comp_queues[0]);
	CHECK_EQ(arena()->recoveries, recoveries + 1);
	CHECK(get_both());
}

/* The list of runs is still there when the process is killed between its lane and the mutex. */
static void die_between(uint32_t self)
{
	sigset_t saved;

	open_lane(self);
	fabric_block(&saved);
	CHECK(!fabric_lock_lane() && !fabric_whole());
	SET(lane, own_lane());
	fabric_lane()->comp_queues[0] = cq_index(cqs[1]);
	CHECK(claim_drop(&fabric_lane()->claim));
	kill(getpid(), SIGKILL);
}

/* The next holder of the mutex writes out the runs, as there is nothing to recover. */
TEST(runs_of_a_lane_without_owner)
{
	uint32_t recoveries;

	CHECK_EQ(test_reap(start(die_between, 0)), 128 + SIGKILL);
	recoveries = arena()->recoveries;
	CHECK_EQ(arena()->lanes[GET(lane)].comp_queues[0], cq_index(cqs[1]));
	take_mutex(0);
	CHECK(!arena()->lanes[GET(lane)].comp_queues[0]);
	CHECK_EQ(arena()->recoveries, recoveries);
}

/*
 * A thread that exchanges its lane for the mutex in fabric_unlock() writes out the runs of the
 * mutex, too: a recovery may have left some.
 */
TEST(runs_of_the_mutex)
{
	struct lane *l;
	sigset_t saved;

	open_both();
	fabric_block(&saved);
	CHECK(!fabric_lock_lane() && !fabric_whole());
	l = fabric_lane();
	l->comp_queues[0] = cq_index(cqs[1]);
	cqs[1]->latch.word = arena()->lanes[l - arena()->lanes + 1].use; /* is not free soon */
	arena()->whole.comp_queues[0] = cq_index(cqs[0]);
	fabric_leave(&saved);
	cqs[1]->latch.word = 0;
	CHECK(!l->comp_queues[0]);
	CHECK(!arena()->whole.comp_queues[0]);
}

/* Takes both latches and stops itself. When it continues, it must find that it has lost them. */
static void stop_with_latches(uint32_t self)
{
	sigset_t saved;

	open_lane(0);
	fabric_block(&saved);
	if (fabric_lock_lane())
		_exit(LOST);
	take_both();
	raise(SIGSTOP);
	fabric_leave(&saved);
}

TEST(latches_of_the_stopped)
{
	pid_t pid;

	open_both();
	pid = start(stop_with_latches, 0);
	test_stopped(pid);
	CHECK(!get_both());
	take_mutex(0);
	CHECK(get_both());
	CHECK(!kill(pid, SIGCONT));
	CHECK_EQ(test_reap(pid), LOST);
	CHECK(get_both());
}

/* A thread that exchanges its lane for the mutex frees its latches for other threads. */
TEST(latches_and_mutex)
{
	sigset_t saved;

	open_both();
	fabric_block(&saved);
	CHECK(!fabric_lock_lane() && !fabric_whole());
	take_both();
	CHECK(!latch_is_free(cqs[1]->latch.word));
	fabric_widen();
	CHECK(latch_is_free(cqs[0]->latch.word) && latch_is_free(cqs[1]->latch.word));
	take_both();
	CHECK(!cqs[0]->latch.word);
	fabric_leave(&saved);
}

/*
 * A new process may skip a free slot, whose lanes are then below lanes_high. They have numbers and
 * memory from then on.
 */
TEST(lanes_of_a_skipped_slot)
{
	const uint32_t slot = 20, first = slot * PROC_LANES;
	sigset_t saved;

	CHECK(!fabric_enter(&saved));
	CHECK(!fabric_give_lanes(slot + 1));
	for (uint32_t i = first; i < first + 2 * PROC_LANES; i++)
		CHECK_EQ(arena()->lanes[i].use, LATCH_USE | i);
	latches_renew();
	CHECK(!fabric_give_lanes(slot));
	latches_renew();
	for (uint32_t i = first; i < first + 2 * PROC_LANES; i++)
		CHECK_EQ(arena()->lanes[i].use % LATCH_USE, i);
	fabric_leave(&saved);
}

int main(int argc, char **argv)
{
	int status;

	test_fabric("lanes");
	CHECK(!setenv("SOFTHCA_PATIENCE", "0", 1));
	shared = test_map(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED);
	CHECK(!member_attach());
	make_cqs();
	status = test_main(argc, argv);
	member_detach();
	return status;
}
