/* SPDX-License-Identifier: MIT */
/*
 * Claims (fabric/claim.h) are taken over from stopped and dead owners, and from no others. A child
 * holds the fabric's mutex and works, is stopped, or is continued. The parent waits for the mutex,
 * one check at a time.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "fabric/fabric.h"
#include "hca/objects.h"
#include "member/member.h"

#define LOOKS 200 /* checks that must not take the mutex */
#define LOST 3 /* exit status of a child that has lost the mutex */
#define KEPT 4 /* exit status of a child that has not noticed a loss */

/* Shared by parent and child. */
static struct shared {
	uint32_t rounds; /* loops of a child that spins */
	uint32_t ready;
	uint32_t end;
} * shared;

/* Sets a word, and wakes the other process if it sleeps on the word. */
static void tell(uint32_t *p)
{
	test_store(p, 1);
	syscall(SYS_futex, p, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void await(uint32_t *p)
{
	while (!test_load(p))
		syscall(SYS_futex, p, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void spin(void)
{
	tell(&shared->ready);
	while (!test_load(&shared->end))
		test_store(&shared->rounds, test_load(&shared->rounds) + 1);
}

static void sleep_long(void)
{
	tell(&shared->ready);
	await(&shared->end);
}

/*
 * Blocks signals by a system call of the program itself, which the library does not see, and spins.
 */
static void spin_deaf(void)
{
	uint64_t segv = 1ull << (SIGSEGV - 1);

	CHECK(!syscall(SYS_rt_sigprocmask, SIG_BLOCK, &segv, NULL, sizeof(segv)));
	spin();
}

static void *end_of_thread(void *arg)
{
	sigset_t saved;

	CHECK(!fabric_enter(&saved));
	tell(&shared->ready);
	return NULL;
}

/* A thread ends while it holds the mutex. */
static void lose_thread(void)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, end_of_thread, NULL));
	CHECK(!pthread_join(t, NULL));
	await(&shared->end);
	_exit(KEPT);
}

/* Starts a child that runs @fn, with the mutex if @with_mutex. */
static pid_t child(void (*fn)(void), bool with_mutex)
{
	sigset_t saved;
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	pid = test_fork();
	if (!pid) {
		member_forget();
		CHECK(!member_attach());
		if (with_mutex && fabric_enter(&saved))
			_exit(LOST);
		if (with_mutex)
			arena()->whole.claim.to[0].iov_len = arena()->whole.claim.to[1].iov_len =
				64;
		fn();
		fabric_leave(&saved);
		_exit(KEPT);
	}
	await(&shared->ready);
	return pid;
}

static void stop(pid_t pid)
{
	CHECK(!kill(pid, SIGSTOP));
	test_stopped(pid);
}

static int ended(pid_t pid)
{
	tell(&shared->end);
	CHECK(!kill(pid, SIGCONT));
	return test_reap(pid);
}

/* Makes one check. Returns true if the mutex was taken, and releases it. */
static bool look(struct claim_watch *w)
{
	if (!claim_take_over(&arena()->whole.claim, w, CLAIM_FOR_ME))
		return false;
	CHECK(claim_drop(&arena()->whole.claim));
	return true;
}

/*
 * Makes checks until the mutex is taken. A stop is reported before the thread's last context switch,
 * so the first checks may read different counts of context switches.
 */
static void taken(struct claim_watch *w)
{
	CHECK(!look(w));
	while (!look(w))
		sched_yield();
}

static void never(pid_t pid, int status)
{
	struct claim_watch w = {0};

	for (int i = 0; i < LOOKS; i++)
		CHECK(!look(&w));
	CHECK_EQ(ended(pid), status);
}

TEST_WITH(not_who_runs, never, child(spin, true), KEPT);
TEST_WITH(not_who_sleeps, never, child(sleep_long, true), KEPT);

/* No takeover from an owner that has blocked SIGSEGV, the signal that a takeover sends. */
TEST(not_who_is_deaf)
{
	pid_t pid = child(spin_deaf, true);

	stop(pid);
	never(pid, KEPT);
}

TEST(not_before_the_time)
{
	pid_t pid = child(spin, true);
	uint64_t patience = fabric_self.patience_ns;

	stop(pid);
	fabric_self.patience_ns = UINT64_MAX;
	never(pid, KEPT);
	fabric_self.patience_ns = patience;
}

TEST(who_is_stopped)
{
	pid_t pid = child(spin, true);
	struct claim_watch w = {0};
	uint32_t rounds;

	stop(pid);
	taken(&w);
	CHECK_EQ(arena()->whole.claim.to[0].iov_len, 0);
	CHECK_EQ(arena()->whole.claim.to[1].iov_len, 0);
	rounds = shared->rounds;
	CHECK_EQ(ended(pid), LOST);
	CHECK_EQ(shared->rounds, rounds); /* the child has not continued the loop */
}

/* No takeover from an owner that was stopped at both checks, but ran in between. */
TEST(not_who_ran_in_between)
{
	pid_t pid = child(spin, true);
	struct claim_watch w = {0};
	uint32_t rounds;

	for (int i = 0; i < 5; i++) {
		stop(pid);
		CHECK(!look(&w));
		rounds = shared->rounds;
		CHECK(!kill(pid, SIGCONT));
		while (test_load(&shared->rounds) == rounds)
			sched_yield();
	}
	stop(pid);
	taken(&w);
	CHECK_EQ(ended(pid), LOST);
}

TEST(who_has_ended)
{
	pid_t pid = child(lose_thread, false);
	struct claim_watch w = {0};

	while (!look(&w)) /* /proc can show a thread for a moment after it was joined */
		sched_yield();
	CHECK_EQ(ended(pid), KEPT);
}

static void send_signal(pid_t pid)
{
	siginfo_t si = {.si_signo = SIGSEGV, .si_code = CLAIM_CODE};

	si.si_pid = getpid();
	CHECK(!syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGSEGV, &si));
}

/* The owner handles the signal first and keeps the mutex: the waiter's swap of the word fails. */
TEST(owner_is_first)
{
	pid_t pid = child(spin, true);
	uint64_t word = arena()->whole.claim.word;

	send_signal(pid);
	while (__atomic_load_n(&arena()->whole.claim.word, __ATOMIC_RELAXED) == word)
		sched_yield();
	CHECK_EQ(arena()->whole.claim.word, word + CLAIM_EPOCH);
	CHECK(!claim_replace(&arena()->whole.claim, word));
	CHECK_EQ(ended(pid), KEPT);
	CHECK_EQ(arena()->whole.claim.word, word + CLAIM_EPOCH - (uint32_t)word);
}

/*
 * A signal that comes after the mutex was released, or that belongs to an earlier claim, does no
 * harm.
 */
TEST(signal_is_late)
{
	uint64_t word = arena()->whole.claim.word;
	sigset_t saved;

	send_signal(getpid());
	CHECK_EQ(arena()->whole.claim.word, word);
	CHECK(!fabric_enter(&saved));
	send_signal(getpid());
	CHECK_EQ(arena()->whole.claim.word >> CLAIM_OWNER_BITS, (word >> CLAIM_OWNER_BITS) + 2);
	fabric_leave(&saved);
	CHECK_EQ(arena()->whole.claim.word & CLAIM_OWNER_MASK, 0);
}

/* A dead process's id may belong to another process, whose memory must not be accessed. */
TEST(the_dead_are_out_of_reach)
{
	pid_t pid = child(spin, false);
	uint32_t slot = 0;

	while (arena()->procs[slot].pid != pid)
		slot++;
	CHECK(fabric_alive(slot));
	test_kill(pid);
	for (int i = 0; i < LOOKS; i++)
		CHECK(!fabric_reachable(slot));
}

int main(int argc, char **argv)
{
	test_fabric("claim");
	CHECK(!setenv("SOFTHCA_PATIENCE", "0", 1));
	shared = test_map(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED);
	CHECK(!member_attach());
	atexit(member_detach);
	return test_main(argc, argv);
}
