/* SPDX-License-Identifier: MIT */
/*
 * A thread stores to a page while another thread moves the page into the pool, or out of it. The
 * store happens after the page has been copied and before it is replaced, and must not be lost.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "check.h"
#include "dma/pool.h"
#include "member/member.h"

#define WORD 512u
#define VALUE 0x12345678u

/* Shared with the process of the two threads. */
static struct {
	uint32_t go; /* the storer may store */
	uint32_t done; /* the storer has stored */
} * shared;

static uint32_t *page;
static bool leaves; /* the page leaves the pool; else it enters the pool */
static const char device[1];

/* The acquire in get_word() pairs with the release in set_word(), on `go` and on `done`. */
static uint32_t get_word(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void set_word(uint32_t *p, uint32_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELEASE);
}

static void *storer(void *tid)
{
	set_word(tid, (uint32_t)gettid());
	while (!get_word(&shared->go))
		sched_yield();
	set_word(&page[WORD], VALUE);
	set_word(&shared->done, 1);
	return NULL;
}

static void mover(int fd)
{
	uint64_t shift = 0;
	uint32_t tid = 0;
	pthread_t t;

	CHECK(!member_attach());
	atexit(member_detach);
	page = test_map(POOL_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	page[WORD + 1] = VALUE + 1;
	if (leaves)
		shift = pool_enter_record((uintptr_t)page, device);
	CHECK(!pthread_create(&t, NULL, storer, &tid));
	while (!get_word(&tid))
		sched_yield();
	test_put(fd, &tid, sizeof(tid));
	test_get(fd, &(char){0}, 1);
	if (leaves)
		pool_leave((uintptr_t)page, shift);
	else
		shift = pool_enter_record((uintptr_t)page, device);
	CHECK(shift);
	CHECK(!pthread_join(t, NULL));
	CHECK_EQ(page[WORD], VALUE);
	CHECK_EQ(page[WORD + 1], VALUE + 1);
}

static int wait_for_stop(pid_t tid)
{
	int status;

	CHECK_EQ(waitpid(tid, &status, __WALL), tid);
	CHECK(WIFSTOPPED(status));
	return WSTOPSIG(status);
}

/* Runs the thread, which is stopped, to the entry of its next system call @nr. */
static void to_entry(pid_t tid, long nr)
{
	struct __ptrace_syscall_info info;

	do {
		CHECK(!ptrace(PTRACE_SYSCALL, tid, NULL, NULL));
		CHECK_EQ(wait_for_stop(tid), SIGTRAP | 0x80);
		CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) > 0);
	} while (info.op != PTRACE_SYSCALL_INFO_ENTRY || (long)info.entry.nr != nr);
}

/* Waits until the thread has stored, or was stopped because the store has faulted. */
static bool store_faults(pid_t tid)
{
	int status;
	pid_t r;

	set_word(&shared->go, 1);
	while (!(r = waitpid(tid, &status, __WALL | WNOHANG)) && !get_word(&shared->done))
		sched_yield();
	return r == tid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSEGV;
}

/* @nr: the system call that replaces the page. */
static void store_during_move(bool out, long nr)
{
	void *const sysgood = (void *)PTRACE_O_TRACESYSGOOD;
	pid_t pid, tid;
	int fd;

	memset(shared, 0, sizeof(*shared));
	leaves = out;
	pid = test_peer(mover, &fd);
	test_get(fd, &tid, sizeof(tid));
	CHECK(!ptrace(PTRACE_SEIZE, tid, NULL, NULL));
	CHECK(!ptrace(PTRACE_SEIZE, pid, NULL, sysgood));
	CHECK(!ptrace(PTRACE_INTERRUPT, pid, NULL, NULL));
	wait_for_stop(pid);
	test_put(fd, "x", 1);
	to_entry(pid, nr);
	CHECK(store_faults(tid));
	CHECK(!ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)SIGSEGV));
	CHECK(!ptrace(PTRACE_DETACH, pid, NULL, NULL));
	CHECK_EQ(test_reap(pid), 0);
	close(fd);
}

TEST_WITH(while_it_enters, store_during_move, false, SYS_mmap);
TEST_WITH(while_it_leaves, store_during_move, true, SYS_mremap);

int main(int argc, char **argv)
{
	test_fabric("moves");
	shared = test_map(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED);
	return test_main(argc, argv);
}
