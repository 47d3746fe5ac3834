/* SPDX-License-Identifier: MIT */
/*
 * Tests the polling thread, which the software HCA runs in the program's process in modes poll and
 * auto. No doorbell is lost when the thread goes to sleep, whichever system call it is in. It does
 * nothing while it sleeps. In mode auto it spins while there are enough cores and spinning is
 * faster. The number of cores that are needed changes as processes come and go.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "rig.h"
#include "softhca.h"
#include "trace.h"

#define POINTS 24u /* entries and exits of system calls at which a case interrupts the thread */
#define LENGTH 64u
#define ROW 200u /* messages of a row: enough to make the thread spin if it may */
#define LIST 32u /* WQEs of a long list */
#define ROWS 50u /* rows: enough for a thread that may spin to get a core */
#define SELDOM 40u /* messages of the case with rare doorbells */
#define SELDOM_NS                                                                                  \
	100000u /* between two messages: too long for their doorbells to wake the thread */
#define WATCHES 500u
#define FILE_BYTES (64 << 20)
#define GUARD_NS 60000000000u /* the longest wait for a doorbell, or for a change of the mode */

/* Shared by the tracer and the program. */
static struct shared {
	uint32_t go; /* number of the message to post */
	uint32_t posted, done; /* numbers of messages */
	uint32_t traps; /* of the message that was posted last */
	uint32_t stop;
} * shared;

static uint32_t traps(void)
{
	return (uint32_t)rig_counters().traps;
}

static void open_self(struct rig *r)
{
	rig_open(r, NULL);
	rig_connect(r, rig_addr(r), (struct rig_timers){0});
}

static void message(struct rig *r)
{
	rig_write(r, r, LENGTH);
	rig_wait_ok(r->scq);
}

static void program(int fd)
{
	struct rig r;
	uint32_t n, before;

	CHECK(!setenv("SOFTHCA_MODE", "poll", 1) && !setenv("SOFTHCA_IDLE", "0", 1));
	open_self(&r);
	message(&r);
	test_put(fd, "r", 1);
	for (;;) {
		while ((n = test_load(&shared->go)) == test_load(&shared->done))
			if (test_load(&shared->stop))
				break;
			else
				sched_yield();
		if (test_load(&shared->stop))
			break;
		before = traps();
		rig_write(&r, &r, LENGTH);
		test_store(&shared->traps, traps() - before);
		test_store(&shared->posted, n);
		rig_wait_ok(r.scq);
		test_store(&shared->done, n);
	}
	rig_close(&r);
}

/* Posts message @n while the traced thread is stopped or sleeps. Returns true if the doorbell trapped. */
static bool ring(uint32_t n)
{
	test_store(&shared->go, n);
	while (test_load(&shared->posted) != n)
		sched_yield();
	return test_load(&shared->traps);
}

/* The system call that the traced thread has reached. */
struct place {
	long call; /* the system call that it entered last */
	bool inside; /* it has not left that call */
	bool sleeps; /* it was in SYS_futex when it was last continued */
};

/*
 * Lets the thread run to the next entry to or exit from a system call. The function does not wait for
 * the exit from SYS_futex, because the thread then sleeps or is about to sleep.
 */
static void go_on(pid_t tid, struct place *at)
{
	struct __ptrace_syscall_info info;
	int status;

	if (!at->sleeps) {
		CHECK(!ptrace(PTRACE_SYSCALL, tid, NULL, NULL));
		at->sleeps = at->inside && at->call == SYS_futex;
	}
	if (at->sleeps && !waitpid(tid, &status, __WALL | WNOHANG)) {
		sched_yield();
		return;
	}
	if (!at->sleeps)
		test_stopped(tid);
	at->sleeps = false;
	CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) > 0);
	at->inside = info.op == PTRACE_SYSCALL_INFO_ENTRY;
	if (at->inside)
		at->call = (long)info.entry.nr;
}

/*
 * Lets the thread pass @point entries and exits of system calls other than sched_yield(), or fall
 * asleep. Then posts message @n and lets the thread run until the message is completed. Returns true if
 * the doorbell has trapped.
 */
static bool ring_at(pid_t tid, struct place *at, uint32_t point, uint32_t n)
{
	uint64_t start = test_now_ns();
	bool trapped;

	do
		go_on(tid, at);
	while (!at->sleeps && (at->call == SYS_sched_yield || point--));
	trapped = ring(n);
	for (; test_load(&shared->done) != n; go_on(tid, at))
		CHECK(test_now_ns() - start < GUARD_NS);
	return trapped;
}

/* A program whose thread is traced, and stopped. */
struct traced {
	pid_t pid, tid;
	int fd;
	struct place at;
};

static struct traced start(void)
{
	struct traced t = {0};

	memset(shared, 0, sizeof(*shared));
	t.pid = test_peer(program, &t.fd);
	test_get(t.fd, &(char){0}, 1);
	t.tid = rig_thread(t.pid);
	CHECK(!ptrace(PTRACE_SEIZE, t.tid, NULL, (void *)PTRACE_O_TRACESYSGOOD));
	CHECK(!ptrace(PTRACE_INTERRUPT, t.tid, NULL, NULL));
	test_stopped(t.tid);
	return t;
}

TEST(none_is_lost)
{
	uint32_t stored = 0, trapped = 0;
	struct traced t;

	shared = test_map(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED);
	t = start();
	for (uint32_t point = 0; point < POINTS; point++)
		if (ring_at(t.tid, &t.at, point, point + 1))
			trapped++;
		else
			stored++;
	if (t.at.sleeps) {
		CHECK(!ptrace(PTRACE_INTERRUPT, t.tid, NULL, NULL));
		test_stopped(t.tid);
	}
	CHECK(!ptrace(PTRACE_DETACH, t.tid, NULL, NULL));
	test_store(&shared->stop, 1);
	test_peer_ends(t.pid, t.fd);
	CHECK(stored && trapped);
}

/* Another process of the fabric, which starts before the killed processes and outlives them. */
static void survivor(int fd)
{
	struct rig r;

	CHECK(!setenv("SOFTHCA_MODE", "poll", 1));
	open_self(&r);
	for (char ask; test_get(fd, &ask, 1), ask == 'm';) {
		message(&r);
		test_put(fd, "m", 1);
	}
	rig_close(&r);
}

/* Kills processes at different system calls of their threads. The survivor must still work. */
TEST(killed_anywhere)
{
	int fd;
	pid_t pid;

	shared = test_map(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED);
	pid = test_peer(survivor, &fd);
	for (uint32_t point = 0; point < POINTS; point += 2) {
		struct traced t = start();

		test_store(&shared->go, 1);
		for (uint32_t i = point; i && !t.at.sleeps;) {
			go_on(t.tid, &t.at);
			i -= t.at.call != SYS_sched_yield;
		}
		trace_kill(t.pid, t.tid);
		close(t.fd);
		test_put(fd, "m", 1);
		test_get(fd, &(char){0}, 1);
	}
	test_put(fd, "q", 1);
	test_peer_ends(pid, fd);
}

/* Returns the number after @key in a file of a thread of this process. */
static long of_thread(pid_t tid, const char *file, const char *key)
{
	char path[64], text[4096] = "", *at;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, file);
	f = fopen(path, "re");
	CHECK(f && fread(text, 1, sizeof(text) - 1, f));
	fclose(f);
	at = strstr(text, key);
	return at ? atol(at + strlen(key)) : -1;
}

static long switches(pid_t tid)
{
	return of_thread(tid, "status", "voluntary_ctxt_switches:");
}

/*
 * Waits until the thread is in FUTEX_WAIT. Returns true if the wait has no timeout, so only a
 * doorbell can end it.
 */
static bool sleeps_for_ever(pid_t tid)
{
	unsigned long long timeout;
	char path[64];
	long call;
	int n;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	do {
		FILE *f = fopen(path, "re");

		CHECK(f);
		n = fscanf(f, "%ld %*x %*x %*x %llx", &call, &timeout);
		fclose(f);
		sched_yield();
	} while (n != 2 || call != SYS_futex);
	return !timeout;
}

static void sleeper(void)
{
	struct rig r;
	pid_t tid;
	long n;

	CHECK(!setenv("SOFTHCA_MODE", "poll", 1));
	open_self(&r);
	message(&r);
	tid = rig_thread(getpid());
	CHECK(sleeps_for_ever(tid));
	n = switches(tid);
	message(&r);
	while (switches(tid) == n)
		sched_yield();
	rig_close(&r);
	exit(0);
}

TEST(sleep_is_quiet)
{
	CHECK_EQ(rig_child(sleeper, NULL), 0);
}

/* Sends a row of lists of @n messages. Returns the number of lists whose doorbells have trapped. */
static uint32_t row_of(struct rig *r, uint32_t n)
{
	uint32_t before = traps();

	for (uint32_t i = 0; i < ROW; i++) {
		rig_write_list(r, r, n, LENGTH, 1);
		rig_wait_ok(r->scq);
	}
	return traps() - before;
}

/* Like row_of(), with one message under each doorbell. */
static uint32_t row(struct rig *r)
{
	return row_of(r, 1);
}

/*
 * Sends rows of messages until the polling thread spins (@spins is true), or until it has not spun for
 * ROWS rows (@spins is false).
 */
static void until(struct rig *r, bool spins)
{
	uint64_t start = test_now_ns();
	uint32_t n, rows = 0;

	do {
		CHECK(test_now_ns() - start < GUARD_NS);
		n = row(r);
		rows = n == ROW ? rows + 1 : 0;
	} while (spins ? n > ROW / 2 : rows < ROWS);
}

static void one_core(void)
{
	struct rig r;

	CHECK(!setenv("SOFTHCA_CORES", "1", 1));
	open_self(&r);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(row(&r), ROW);
	rig_close(&r);
	exit(0);
}

TEST(auto_traps_on_one_core)
{
	CHECK_EQ(rig_child(one_core, NULL), 0);
}

/* Returns true if this process traps because that is faster, according to softhcactl. */
static bool is_shown_slow(void)
{
	char line[256], pid[16];
	bool slow = false;
	FILE *f = popen("exec $SOFTHCACTL show", "re");

	CHECK(f);
	snprintf(pid, sizeof(pid), "%d ", getpid());
	while (fgets(line, sizeof(line), f))
		slow |= !strncmp(line, pid, strlen(pid)) &&
			strstr(line,
				" trap (auto: needs 2 cores, has 1000, but polling is slower)");
	CHECK(!pclose(f));
	return slow;
}

/* The thread measures whether long lists are faster with traps, so at times they trap. */
static void lists(void)
{
	uint64_t start = test_now_ns();
	struct rig r;

	CHECK(!setenv("SOFTHCA_CORES", "1000", 1));
	open_self(&r);
	until(&r, true);
	CHECK(!is_shown_slow());
	do {
		CHECK(test_now_ns() - start < GUARD_NS);
		row_of(&r, LIST);
	} while (!is_shown_slow());
	until(&r, true);
	rig_close(&r);
	exit(0);
}

TEST(auto_tries_to_trap_for_lists)
{
	CHECK_EQ(rig_child(lists, NULL), 0);
}

/* With these settings mode auto does not poll: all doorbells trap, however many cores there are. */
static void excluded(const char *variable, const char *value)
{
	struct rig r;

	if (!test_in_child())
		return;
	CHECK(!setenv("SOFTHCA_CORES", "1000", 1) && !setenv(variable, value, 1));
	open_self(&r);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(row(&r), ROW);
	rig_close(&r);
	exit(0);
}

TEST_WITH(auto_traps_in_strict_mode, excluded, "SOFTHCA_STRICT", "1");
TEST_WITH(auto_traps_with_links, excluded, "SOFTHCA_LINK", "virtual");
TEST_WITH(auto_traps_with_legacy_pages, excluded, "SOFTHCA_UAR", "legacy");

/* Doorbells that are rare are executed by the thread that traps, and do not wake the polling thread. */
static void seldom(void)
{
	uint32_t before;
	struct rig r;
	pid_t tid;
	long n;

	CHECK(!setenv("SOFTHCA_CORES", "1000", 1));
	open_self(&r);
	tid = rig_thread(getpid());
	CHECK(sleeps_for_ever(tid));
	n = switches(tid);
	before = traps();
	for (uint32_t i = 0; i < SELDOM; i++) {
		uint64_t next = test_now_ns() + SELDOM_NS;

		message(&r);
		while (test_now_ns() < next)
			sched_yield();
	}
	CHECK_EQ(traps() - before, SELDOM);
	CHECK_EQ(switches(tid), n);
	rig_close(&r);
	exit(0);
}

TEST(rare_doorbells_wake_nobody)
{
	CHECK_EQ(rig_child(seldom, NULL), 0);
}

/*
 * The program relies on the trap: it expects each completion as soon as the store of the doorbell has
 * returned. Returns the number of messages of a row whose completion was there.
 */
static uint32_t row_at_once(struct rig *r)
{
	struct ibv_wc wc;
	uint32_t n = 0;

	for (uint32_t i = 0; i < ROW; i++) {
		rig_write(r, r, LENGTH);
		if (ibv_poll_cq(r->scq, 1, &wc) == 1)
			n++;
		else
			rig_wait_ok(r->scq);
	}
	return n;
}

/* @found: the mode must reveal this mistake of the program. */
static void relies_on_trap(const char *mode, const char *strict, bool found)
{
	uint64_t start = test_now_ns();
	uint32_t rows = 0;
	struct rig r;

	if (!test_in_child())
		return;
	CHECK(!setenv("SOFTHCA_MODE", mode, 1) && !setenv("SOFTHCA_STRICT", strict, 1));
	CHECK(!setenv("SOFTHCA_CORES", "1000", 1));
	open_self(&r);
	while (row_at_once(&r) == ROW && (found || ++rows < ROWS))
		CHECK(test_now_ns() - start < GUARD_NS);
	CHECK_EQ(rows, found ? 0 : ROWS);
	rig_close(&r);
	exit(0);
}

TEST_WITH(trap_hides_reliance, relies_on_trap, "trap", "0", false);
TEST_WITH(poll_finds_reliance, relies_on_trap, "poll", "0", true);
TEST_WITH(auto_finds_reliance, relies_on_trap, "auto", "0", true);
TEST_WITH(auto_hides_reliance_in_strict_mode, relies_on_trap, "auto", "1", false);
TEST_WITH(poll_finds_reliance_in_strict_mode, relies_on_trap, "poll", "1", true);

/* The program polls the last byte of a long message while the polling thread copies the message. */
static void watcher(void)
{
	struct rig_addr to;
	struct rig r;
	uint8_t *half;

	CHECK(!setenv("SOFTHCA_MODE", "poll", 1));
	open_self(&r);
	half = r.buf + RIG_BUF / 2;
	to = rig_addr(&r);
	to.addr += RIG_BUF / 2;
	for (uint32_t i = 1; i <= WATCHES; i++) {
		memset(r.buf, (int)i % 256, RIG_BUF / 2);
		rig_request(&r, IBV_WR_RDMA_WRITE, RIG_BUF / 2, to);
		/* Acquire: orders the reads of the bytes that were stored before the last one. */
		while (__atomic_load_n(&half[RIG_BUF / 2 - 1], __ATOMIC_ACQUIRE) != i % 256)
			;
		CHECK(!memcmp(half, r.buf, RIG_BUF / 2));
		rig_wait_ok(r.scq);
	}
	rig_close(&r);
	exit(0);
}

TEST(last_byte_is_last)
{
	CHECK_EQ(rig_child(watcher, NULL), 0);
}

/* Returns the library's own descriptor of the device file, or -1. */
static int hidden_descriptor(const struct rig *r)
{
	return test_descriptor("softhca-uar", r->ctx->cmd_fd);
}

/*
 * Waits until the thread has been woken after its context switch number @n, and then sleeps again.
 */
static void wait_for_rest(pid_t tid, long n)
{
	long call;

	while (switches(tid) == n)
		sched_yield();
	do {
		sched_yield();
		call = of_thread(tid, "syscall", "");
	} while (call != SYS_futex && call != SYS_clock_nanosleep);
}

/*
 * By a system call of its own, the program replaces the library's descriptor with a file's. The
 * library must not truncate the file.
 */
static void closer(void)
{
	struct rig r;
	struct stat st;
	int file, fd;
	pid_t tid;

	CHECK(!setenv("SOFTHCA_MODE", "poll", 1) && !setenv("SOFTHCA_IDLE", "100", 1));
	open_self(&r);
	tid = rig_thread(getpid());
	file = memfd_create("file", 0);
	CHECK(!ftruncate(file, FILE_BYTES));
	fd = hidden_descriptor(&r);
	CHECK(fd >= 0 && syscall(SYS_dup2, file, fd) == fd);
	for (int i = 0; i < 3; i++) {
		long n = switches(tid);

		row(&r);
		wait_for_rest(tid, n);
		CHECK(!fstat(file, &st));
		CHECK_EQ(st.st_size, FILE_BYTES);
	}
	rig_close(&r);
	CHECK(!fstat(fd, &st));
	CHECK_EQ(st.st_size, FILE_BYTES);
	exit(0);
}

TEST(program_closes_descriptors)
{
	CHECK_EQ(rig_child(closer, NULL), 0);
}

/* The program closes the library's descriptor, and replaces it. The thread can sleep afterwards. */
static void keeper(void)
{
	struct rig r;
	int file, fd, kept;
	pid_t tid;
	long n;

	CHECK(!setenv("SOFTHCA_MODE", "poll", 1) && !setenv("SOFTHCA_IDLE", "100", 1));
	open_self(&r);
	tid = rig_thread(getpid());
	fd = hidden_descriptor(&r);
	closefrom(fd);
	CHECK_EQ(hidden_descriptor(&r), fd);
	file = memfd_create("file", 0);
	CHECK_EQ(dup2(file, fd), fd);
	kept = hidden_descriptor(&r);
	CHECK(kept >= 0 && kept != fd);
	CHECK(!close(fd));
	CHECK(fcntl(fd, F_GETFD) < 0);
	n = switches(tid);
	row(&r);
	wait_for_rest(tid, n);
	rig_close(&r);
	CHECK_EQ(fcntl(kept, F_GETFD), -1);
	exit(0);
}

TEST(library_keeps_descriptors)
{
	CHECK_EQ(rig_child(keeper, NULL), 0);
}

/*
 * The program has one thread of its own, which closes all descriptors in a table of its own. The
 * device is closed: another file may have its number.
 */
static void unsharer(void)
{
	struct rig r;
	int device;

	CHECK(!setenv("SOFTHCA_MODE", "poll", 1));
	open_self(&r);
	device = r.ctx->cmd_fd;
	CHECK(!close_range(3, UINT_MAX, CLOSE_RANGE_UNSHARE));
	while (open("/dev/null", O_RDWR | O_CLOEXEC) < device)
		;
	CHECK(!ibv_alloc_pd(r.ctx));
	exit(0);
}

TEST(library_thread_is_no_other)
{
	CHECK_EQ(rig_child(unsharer, NULL), 0);
}

/* A store that the trap handler cannot execute also rings the doorbell while the thread sleeps. */
static void store_string(bool closes)
{
	struct rig r;
	void *to, *from;
	size_t n = 8;
	pid_t tid;

	CHECK(!setenv("SOFTHCA_MODE", "poll", 1));
	open_self(&r);
	tid = rig_thread(getpid());
	while (of_thread(tid, "syscall", "") != SYS_futex)
		sched_yield();
	if (closes) {
		signal(SIGBUS, SIG_DFL); /* instead of a sanitizer's handler */
		CHECK(!syscall(SYS_close, hidden_descriptor(&r)));
	}
	from = rig_nop(r.qp, 0, 0, true);
	rig_record(r.qp, 1);
	to = rig_dv_qp(r.qp).bf.reg;
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	rig_wait_ok(r.scq);
	rig_close(&r);
	exit(0);
}

static void string_store(void)
{
	store_string(false);
}

TEST(string_wakes)
{
	CHECK_EQ(rig_child(string_store, NULL), 0);
}

/* Without its descriptor the library cannot execute such a store. It faults, but not for ever. */
static void string_store_without_descriptor(void)
{
	store_string(true);
}

TEST(string_faults)
{
	CHECK_EQ(rig_child(string_store_without_descriptor, NULL), 128 + SIGBUS);
	CHECK_EQ(rig_child(string_store, NULL),
		0); /* also removes the fabric of the killed process */
}

static bool stop;

static void *opener(void *arg)
{
	/* Relaxed: only ends the loop. */
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct rig r;

		open_self(&r);
		message(&r);
		rig_close(&r);
	}
	return NULL;
}

/* The polling thread reads doorbell pages of one device while others are opened and closed. */
static void traveller(void)
{
	pthread_t thread;
	struct rig r;

	CHECK(!setenv("SOFTHCA_MODE", "poll", 1) && !setenv("SOFTHCA_IDLE", "100", 1));
	open_self(&r);
	CHECK(!pthread_create(&thread, NULL, opener, NULL));
	for (int i = 0; i < 20; i++)
		row(&r);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	CHECK(!pthread_join(thread, NULL));
	rig_close(&r);
	exit(0);
}

TEST(devices_come_and_go)
{
	CHECK_EQ(rig_child(traveller, NULL), 0);
}

/* On each request waits until its polling thread spins ('s') or does not ('t'), then answers. */
static void member(int fd)
{
	struct rig r;
	char ask;

	CHECK(!setenv("SOFTHCA_CORES", "2", 1));
	open_self(&r);
	for (;;) {
		test_get(fd, &ask, 1);
		if (ask == 'q')
			break;
		until(&r, ask == 's');
		test_put(fd, &ask, 1);
	}
	rig_close(&r);
}

static void *ringer(void *arg)
{
	struct rig *r = arg;

	/* Relaxed: only ends the loop. */
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		row(r);
	return NULL;
}

/* Sleeps, then rings with a second thread while the first one sleeps, then polls, then sleeps again. */
static void visitor(int fd)
{
	pthread_t thread;
	struct ibv_wc wc;
	struct rig r;
	char next;

	open_self(&r);
	test_put(fd, "x", 1);
	test_get(fd, &next, 1);
	CHECK(!pthread_create(&thread, NULL, ringer, &r));
	test_get(fd, &next, 1);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	CHECK(!pthread_join(thread, NULL));
	while (recv(fd, &next, 1, MSG_DONTWAIT) != 1)
		CHECK_EQ(ibv_poll_cq(r.scq, 1, &wc), 0);
	test_get(fd, &next, 1);
	rig_close(&r);
}

static void ask(int fd, char what)
{
	test_put(fd, &what, 1);
	test_get(fd, &(char){0}, 1);
}

/*
 * Two cores are enough for a process and its polling thread while the other process is idle, but not
 * while both ring doorbells, or while the other one polls.
 */
TEST(auto_follows_members)
{
	int fd, other;
	pid_t pid = test_peer(member, &fd), guest;

	ask(fd, 's');
	guest = test_peer(visitor, &other);
	test_get(other, &(char){0}, 1);
	for (int i = 0; i < 10; i++)
		ask(fd, 's');
	for (int phase = 0; phase < 2; phase++) {
		test_put(other, "n", 1);
		for (int i = 0; i < 5; i++)
			ask(fd, 't');
	}
	test_put(other, "n", 1);
	ask(fd, 's');
	test_put(other, "n", 1);
	CHECK_EQ(test_reap(guest), 0);
	ask(fd, 's');
	test_put(fd, "q", 1);
	test_peer_ends(pid, fd);
	close(other);
}

FABRIC_MAIN("beside");
