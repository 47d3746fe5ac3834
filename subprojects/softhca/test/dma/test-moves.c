/* SPDX-License-Identifier: MIT */
/*
 * A thread stores to a page while another thread moves the page into the pool of shared pages
 * (dma/pool.h), or out of it. The store happens after the page has been copied and before it is
 * replaced, and must not be lost.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "check.h"
#include "dma/pool.h"
#include "member/member.h"
#include "trace.h"

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

static void *storer(void *tid)
{
	test_store(tid, (uint32_t)gettid());
	while (!test_load(&shared->go))
		sched_yield();
	test_store(&page[WORD], VALUE);
	test_store(&shared->done, 1);
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
	while (!test_load(&tid))
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

/* Lets the thread store. Returns true if the store has faulted, which stops the thread. */
static bool store_faults(pid_t tid)
{
	int status;
	pid_t r;

	test_store(&shared->go, 1);
	while (!(r = waitpid(tid, &status, __WALL | WNOHANG)) && !test_load(&shared->done))
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
	test_stopped(pid);
	test_put(fd, "x", 1);
	trace_to_entry(pid, 0, nr);
	CHECK(store_faults(tid));
	CHECK(!ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)SIGSEGV));
	CHECK(!ptrace(PTRACE_DETACH, pid, NULL, NULL));
	test_peer_ends(pid, fd);
}

TEST_WITH(while_it_enters, store_during_move, false, SYS_mmap);
TEST_WITH(while_it_leaves, store_during_move, true, SYS_mremap);

int main(int argc, char **argv)
{
	test_fabric("moves");
	shared = test_map(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED);
	return test_main(argc, argv);
}
