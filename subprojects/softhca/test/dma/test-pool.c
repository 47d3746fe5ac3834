/* SPDX-License-Identifier: MIT */
/* The pool (shared pages) of a process, and the views that other processes have of it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "check.h"
#include "dma/pool.h"
#include "dma/view.h"
#include "dma/window.h"
#include "fabric/reserve.h"
#include "member/member.h"

#define PAGE POOL_PAGE
#define ROUNDS 30

static const char device[1]; /* stands for the owner of the memory */

static void *place(uint64_t shift, const void *at)
{
	return (void *)((uintptr_t)at + shift);
}

/* Returns private memory with different contents in each word. */
static uint32_t *filled(uint32_t pages)
{
	uint32_t *p = test_map(pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	for (uint32_t i = 0; i < pages * PAGE / 4; i++)
		p[i] = i * 0x9e3779b9u;
	return p;
}

static bool is_filled(const uint32_t *p, uint32_t pages)
{
	for (uint32_t i = 0; i < pages * PAGE / 4; i++)
		if (p[i] != i * 0x9e3779b9u)
			return false;
	return true;
}

static uint64_t enter(const void *p, uint64_t len)
{
	return pool_enter((uintptr_t)p, len, device);
}

static void leave(const void *p, uint64_t shift)
{
	pool_leave((uintptr_t)p, shift);
}

/* Joins the fabric in a child. First calls what the preloaded library calls at a fork(). */
static void join(void)
{
	pool_hold();
	pool_forget();
	view_forget();
	member_forget();
	CHECK(!member_attach());
}

/*
 * Each move of a page of doorbell records out of the pool may leave a separate mapping, so the
 * number of moves is limited. This must be the first case: its child inherits the count of moves,
 * which must be 0.
 */
static void many_moves(int fd)
{
	uint32_t n = 0;
	uint64_t shift;
	uintptr_t at;

	join();
	at = (uintptr_t)filled(1);
	for (; (shift = pool_enter_record(at, device)); n++)
		pool_leave(at, shift);
	test_put(fd, &n, sizeof(n));
	exit(0);
}

TEST(number_of_record_moves)
{
	uint32_t n;
	int fd;
	pid_t pid = test_peer(many_moves, &fd);

	test_get(fd, &n, sizeof(n));
	CHECK_EQ(n, 4096);
	CHECK_EQ(test_reap(pid), 0);
}

/* Leaves n descriptors free. */
static void leave_free(int n)
{
	const struct rlimit limit = {64, 64};
	int fd, last = 0;

	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	while ((fd = dup(0)) >= 0)
		last = fd;
	while (n--)
		CHECK(!close(last--));
}

static bool a_file_opens(void)
{
	int fd = open("/dev/null", O_RDONLY);

	return fd >= 0 && !close(fd);
}

/* The program and the library open files for a moment, so the pool does not take the last
 * descriptor. */
static void few_descriptors(int fd)
{
	uint32_t *p = filled(1);
	uint32_t done;

	join();
	leave_free(1);
	CHECK(!enter(p, PAGE));
	CHECK(a_file_opens());
	leave_free(2);
	CHECK(enter(p, PAGE));
	CHECK(a_file_opens());
	done = is_filled(p, 1);
	test_put(fd, &done, sizeof(done));
	exit(0);
}

TEST(leaves_a_descriptor)
{
	uint32_t done;
	int fd;
	pid_t pid = test_peer(few_descriptors, &fd);

	test_get(fd, &done, sizeof(done));
	CHECK(done);
	CHECK_EQ(test_reap(pid), 0);
}

TEST(keeps_contents)
{
	uint32_t *p = filled(3);
	uint64_t shift = enter(p, 2 * PAGE + 1);

	CHECK(shift);
	CHECK(is_filled(p, 3));
	p[7] = 1;
	p[7] = 7 * 0x9e3779b9u;
	leave(p, shift);
	CHECK(is_filled(p, 3));
	munmap(p, 3 * PAGE);
}

/* The pages of memory that has left the pool are used again. */
TEST(room_is_reused)
{
	uint32_t *a = filled(1), *b = filled(2), *c = filled(3), *d = filled(2);
	uint64_t sa = enter(a, PAGE), sb = enter(b, 2 * PAGE), sc = enter(c, 3 * PAGE), sd;

	CHECK(sa && sb && sc);
	CHECK(place(sb, b) == (char *)place(sa, a) + PAGE);
	leave(b, sb);
	sd = enter(d, 2 * PAGE);
	CHECK(place(sd, d) == place(sb, b));
	CHECK(is_filled(a, 1) && is_filled(c, 3) && is_filled(d, 2));
	leave(a, sa);
	leave(c, sc);
	leave(d, sd);
	munmap(a, PAGE);
	munmap(b, 2 * PAGE);
	munmap(c, 3 * PAGE);
	munmap(d, 2 * PAGE);
}

/* Only whole, writable pages of private memory enter the pool. */
TEST(refuses_other_memory)
{
	uint8_t *p = test_map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	uint8_t *shared = test_map(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);

	CHECK(!enter(p + 64, PAGE));
	CHECK(!enter(p, 0));
	CHECK(!enter(p, POOL_BYTES + 1));
	CHECK(!enter(p, UINT64_MAX));
	CHECK(!enter(p, (1ull << 44) + PAGE)); /* 2^32 pages and one */
	CHECK(!enter(NULL, PAGE));
	CHECK(!enter(shared, PAGE));
	CHECK(!mprotect(p + PAGE, PAGE, PROT_READ));
	CHECK(!enter(p, 2 * PAGE));
	munmap(p + 3 * PAGE, PAGE);
	CHECK(!enter(p + 2 * PAGE, 2 * PAGE));
	munmap(p, 3 * PAGE);
	munmap(shared, PAGE);
}

/* The number of regions is limited, so that a process does not run out of mappings. */
TEST(number_of_regions)
{
	const uint32_t most = 8192;
	uint8_t *p = test_map((most + 1) * 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	for (uint32_t i = 0; i < most; i++)
		CHECK(enter(p + (size_t)i * 2 * PAGE, PAGE));
	CHECK(!enter(p + (size_t)most * 2 * PAGE, PAGE));
	pool_leave_all(device);
	leave(p, enter(p, PAGE));
	munmap(p, (most + 1) * 2 * PAGE);
}

/* A page of records is in the pool until the last of its records has left. */
TEST(records)
{
	uint32_t *p = filled(1);
	uintptr_t at = (uintptr_t)p;
	uint64_t shift;

	CHECK(!pool_enter_record(at + 64, device));
	CHECK(!pool_enter_record(0, device));
	shift = pool_enter_record(at, device);
	CHECK(shift);
	CHECK_EQ(pool_enter_record(at + 64, device), shift);
	CHECK(!pool_enter_record(at + 64, &device + 1));
	pool_leave(at, shift);
	CHECK_EQ(pool_enter_record(at + 128, device), shift);
	pool_leave(at + 64, shift);
	pool_leave(at + 128, shift);
	CHECK(is_filled(p, 1));
	CHECK(!pool_enter_record(at + 64, device));
	munmap(p, PAGE);
}

static struct {
	uint32_t *word;
	uint32_t rounds, end;
} racer;

/* Counts up in memory, and checks that no other value appears there. */
static void *race(void *unused)
{
	for (uint32_t n = __atomic_load_n(racer.word, __ATOMIC_RELAXED);
		!__atomic_load_n(&racer.end, __ATOMIC_RELAXED); n++) {
		CHECK_EQ(__atomic_load_n(racer.word, __ATOMIC_RELAXED), n);
		__atomic_store_n(racer.word, n + 1, __ATOMIC_RELAXED);
		__atomic_store_n(&racer.rounds, n + 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Waits until the other thread has counted on: it probably counts during the next move, too. */
static void let_count(void)
{
	uint32_t n = __atomic_load_n(&racer.rounds, __ATOMIC_RELAXED);

	while (__atomic_load_n(&racer.rounds, __ATOMIC_RELAXED) - n < 3)
		sched_yield();
}

/* Another thread stores to a record of a page that enters and leaves. */
TEST(moves_lose_no_store)
{
	uint32_t *p = filled(1);
	uintptr_t at = (uintptr_t)p;
	uint64_t shift;
	pthread_t t;

	racer.word = p + 512;
	CHECK(!pthread_create(&t, NULL, race, NULL));
	for (int i = 0; i < ROUNDS; i++) {
		let_count();
		shift = pool_enter_record(at, device);
		CHECK(shift);
		let_count();
		pool_leave(at, shift);
	}
	__atomic_store_n(&racer.end, 1, __ATOMIC_RELAXED);
	CHECK(!pthread_join(t, NULL));
	munmap(p, PAGE);
}

/* The place of a member's memory in the member's pool. */
struct told {
	uint32_t slot;
	uint64_t offset;
};

static void member(int fd)
{
	uint32_t *p;
	struct told t;

	join();
	p = filled(2);
	t.slot = fabric_self.slot;
	t.offset = (uintptr_t)p + enter(p, 2 * PAGE);
	test_put(fd, &t, sizeof(t));
	while (read(fd, &(char){0}, 1) == 1) {
		CHECK_EQ(p[1], 77);
		p[1] = 78;
		test_put(fd, "x", 1);
	}
	exit(0);
}

static uint8_t *find(uint32_t slot, uint64_t offset, size_t len)
{
	sigset_t saved;
	uint8_t *p;

	CHECK(!fabric_enter(&saved));
	p = view_find(slot, offset, len);
	fabric_leave(&saved);
	return p;
}

/* Both processes see each other's stores, and the page stays when its owner ends. */
TEST(view)
{
	struct told t;
	uint32_t *p;
	int fd;
	pid_t pid = test_peer(member, &fd);

	test_get(fd, &t, sizeof(t));
	p = (uint32_t *)find(t.slot, t.offset, 2 * PAGE);
	CHECK(p && is_filled(p, 2));
	p[1] = 77;
	test_meet(fd);
	CHECK_EQ(p[1], 78);
	CHECK(!find(t.slot, POOL_BYTES - PAGE, PAGE));
	CHECK(!find(t.slot, t.offset, POOL_BYTES));
	CHECK(!find(t.slot, UINT64_MAX - 7, 8));
	close(fd);
	CHECK_EQ(test_reap(pid), 0);
	CHECK_EQ(p[1], 78);
}

/* Pools of processes that have ended are unmapped when another one is to be mapped. */
TEST(view_of_the_dead)
{
	struct told t;
	int fd;
	sigset_t saved;
	uint8_t *p;

	for (int i = 0; i < 2; i++) {
		pid_t pid = test_peer(member, &fd);

		test_get(fd, &t, sizeof(t));
		p = find(t.slot, t.offset, PAGE);
		CHECK(p && is_filled((uint32_t *)p, 1));
		close(fd);
		CHECK_EQ(test_reap(pid), 0);
		CHECK(!fabric_enter(&saved));
		fabric_reap();
		view_open(t.slot);
		fabric_leave(&saved);
		CHECK(!find(t.slot, t.offset, PAGE));
		CHECK(mincore(p, PAGE, &(unsigned char){0}) && errno == ENOMEM);
	}
}

#define INDEX (FIRST_MR_INDEX + 3)

static jmp_buf lost;

static void jump_out(int sig)
{
	longjmp(lost, 1);
}

/*
 * Calls @close. At the first munmap() this thread jumps out of @close, as if it had been stopped
 * there and had lost the mutex. Must be called in a child that ends soon, because the filter of
 * system calls cannot be removed.
 */
static void stopped_in_unmap(void (*close)(void))
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog program = {ARRAY_SIZE(code), code};

	CHECK(signal(SIGSYS, jump_out) != SIG_ERR);
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
	if (!setjmp(lost)) {
		close();
		CHECK(false); /* nothing was unmapped */
	}
}

/* A view is not used any more if a thread was stopped while it unmapped the view. */
TEST(stopped_while_unmapping)
{
	struct view *v = &views[MAX_PROCS - 1];

	if (test_in_child()) {
		*v = (struct view){test_map(PAGE, PROT_READ, MAP_PRIVATE), PAGE, 1, 0};
		stopped_in_unmap(view_close_all);
		CHECK(!v->at && !v->size && !v->life);
		_exit(0);
	}
}

/* Makes memory regions with the fields that window_find() reads. */
static void owner(int fd)
{
	struct mr *mr = &arena()->mrs[INDEX];
	struct stat st;
	sigset_t saved;
	int file = memfd_create("region", MFD_CLOEXEC);

	join();
	mr = &arena()->mrs[INDEX];
	CHECK(!ftruncate(file, 3 * PAGE) && !fstat(file, &st));
	CHECK_EQ(pwrite(file, "x", 1, PAGE + 100), 1);
	CHECK(!fabric_enter(&saved));
	CHECK(!reserve(mr, 2048 * sizeof(*mr)));
	*mr = (struct mr){.obj = {.used = 1, .owner = fabric_self.slot},
		.start = 1 << 20,
		.length = 2 * PAGE,
		.serial = 1,
		.file_ino = st.st_ino,
		.file_offset = PAGE,
		.file_fd = file};
	mr[1024] = mr[1] = *mr;
	mr[1024].serial = 2;
	mr[1].serial = 3;
	mr[1].length = 2 * PAGE + 1;
	fabric_leave(&saved);
	test_meet(fd);
	exit(0);
}

static int look(uint32_t index, uint64_t addr, uint64_t len, uint8_t **at_p)
{
	sigset_t saved;
	int r;

	CHECK(!fabric_enter(&saved));
	r = window_find(index, addr, len, at_p);
	fabric_leave(&saved);
	return r;
}

TEST(window)
{
	uint8_t *at;
	int fd;
	pid_t pid = test_peer(owner, &fd);

	test_get(fd, &(char){0}, 1);
	CHECK_EQ(look(INDEX, (1 << 20) + 100, 8, &at), 0);
	CHECK_EQ(at[0], 'x');
	CHECK_EQ(look(INDEX, (1 << 20) + 2 * PAGE - 8, 8, &at), 0);
	CHECK_EQ(look(INDEX, (1 << 20) + 2 * PAGE - 7, 8, &at), -ENOENT);
	CHECK_EQ(look(INDEX, (1 << 20) - 1, 8, &at), -ENOENT);
	CHECK_EQ(look(INDEX, (1 << 20), UINT64_MAX, &at), -ENOENT);
	CHECK_EQ(look(INDEX + 1024, 1 << 20, 8, &at), -ENOENT); /* INDEX uses the same window */
	CHECK_EQ(look(INDEX + 1, 1 << 20, 8, &at), -ENOENT); /* longer than the file */
	if (test_in_child()) {
		stopped_in_unmap(window_close_all);
		CHECK_EQ(window_find(INDEX, (1 << 20) + 100, 8, &at), -EAGAIN); /* is closed */
		_exit(0);
	}
	test_put(fd, "x", 1);
	CHECK_EQ(test_reap(pid), 0);
}

/*
 * A pool's file is not mapped if its owner could make it shorter, or if the arena records a wrong
 * inode for it, or more pages than a pool can have.
 */
static void liar(int fd)
{
	struct proc *self;
	struct stat st;
	int file;

	join();
	file = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(!ftruncate(file, 2 * POOL_BYTES) && !fstat(file, &st));
	self = &arena()->procs[fabric_self.slot];
	self->pool_fd = file;
	self->pool_ino = st.st_ino;
	self->pool_pages = 4;
	test_put(fd, &fabric_self.slot, sizeof(fabric_self.slot));
	test_get(fd, &(char){0}, 1);
	CHECK(!fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK));
	self->pool_ino++;
	self->pool_pages++;
	test_meet(fd);
	self->pool_ino--;
	self->pool_pages = POOL_PAGES + 1;
	test_meet(fd);
	self->pool_pages = 6;
	test_meet(fd);
	exit(0);
}

TEST(view_of_a_liar)
{
	uint32_t slot;
	int fd;
	pid_t pid = test_peer(liar, &fd);

	test_get(fd, &slot, sizeof(slot));
	CHECK(!find(slot, 0, 8));
	test_meet(fd);
	CHECK(!find(slot, 0, 8));
	test_meet(fd);
	CHECK(!find(slot, 0, 8));
	test_meet(fd);
	CHECK(find(slot, 0, 8));
	test_put(fd, "x", 1);
	CHECK_EQ(test_reap(pid), 0);
}

int main(int argc, char **argv)
{
	test_fabric("pool");
	CHECK(!member_attach());
	atexit(member_detach); /* also in children, and after a failure */
	return test_main(argc, argv);
}
