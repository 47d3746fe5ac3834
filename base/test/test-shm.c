/* SPDX-License-Identifier: MIT */
/* base/shm.h: names, modes, liveness across fork, exec, kill and races. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/fdtest.h"
#include "support/locklooks.h"
#include "base/shm.h"
#include "support/spawn.h"
#include "support/test.h"

#define PREFIX "base-test"
#define SIZE 8192

/* If the file would exceed RLIMIT_FSIZE, create returns an error, without a signal. */
TEST(limit_of_file_sizes)
{
	struct rlimit old, limit;
	AT_END(shm_close) struct shm_region s;

	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = old;
	limit.rlim_cur = SIZE - 1;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), -EFBIG);
	CHECK(access(test_file(PREFIX), F_OK) != 0);
	limit.rlim_cur = SIZE;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
}

/* If `ticks`, each call that allocates more than a MiB is interrupted, and every third one. */
static bool ticks;
static int allocations;
static bool no_tmpfs;

int __real_fallocate64(int fd, int mode, off_t from, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t from, off_t len);
int __real_posix_fallocate64(int fd, off_t from, off_t len);
int __wrap_posix_fallocate64(int fd, off_t from, off_t len);

int __wrap_fallocate64(int fd, int mode, off_t from, off_t len)
{
	if (no_tmpfs) {
		errno = EOPNOTSUPP;
		return -1;
	}
	CHECK(!ticks || allocations < 100);
	if (!ticks || (len <= 1 << 20 && ++allocations % 3))
		return __real_fallocate64(fd, mode, from, len);
	allocations += len > 1 << 20;
	errno = EINTR;
	return -1;
}

/* Periodic signals, with a kernel before Linux 6.10, which frees what an interrupted call has
 * allocated. */
TEST(signals_while_it_allocates)
{
	const size_t size = (4 << 20) + SIZE;
	AT_END(shm_close) struct shm_region s;
	struct stat st;

	ticks = true;
	CHECK_EQ(shm_create(PREFIX, test_name, size, &s), 0);
	ticks = false;
	CHECK_EQ(fstat(s.fd, &st), 0);
	CHECK_EQ(st.st_size, size);
	CHECK_EQ(st.st_blocks * 512, size);
}

int __wrap_posix_fallocate64(int fd, off_t from, off_t len)
{
	CHECK(++allocations < 100);
	return len > 1 << 20 || allocations % 3 == 0 ? EINTR :
						       __real_posix_fallocate64(fd, from, len);
}

/* A file system without fallocate(2), and periodic signals. */
TEST(signals_without_a_tmpfs)
{
	const size_t size = (4 << 20) + SIZE;
	AT_END(shm_close) struct shm_region s;
	struct stat st;

	no_tmpfs = true;
	allocations = 0;
	CHECK_EQ(shm_create(PREFIX, test_name, size, &s), 0);
	no_tmpfs = false;
	CHECK(allocations > 5);
	CHECK_EQ(fstat(s.fd, &st), 0);
	CHECK_EQ(st.st_size, size);
	CHECK_EQ(st.st_blocks * 512, size);
}

static void check_gone(void)
{
	CHECK(access(test_file(PREFIX), F_OK) != 0);
}

TEST(create_attach_close)
{
	struct shm_region s, c;
	struct stat st;

	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &c), -ENOENT);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
	CHECK_EQ(stat(test_file(PREFIX), &st), 0);
	CHECK_EQ(st.st_mode & 0777, 0600);
	CHECK_EQ(st.st_size, SIZE);
	CHECK(st.st_blocks * 512 >= SIZE);
	for (int i = 0; i < SIZE; i++)
		CHECK_EQ(((char *)s.addr)[i], 0);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE + 1, &c), -EAGAIN);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &c), 0);
	CHECK_EQ(c.size, SIZE);
	((char *)s.addr)[SIZE - 1] = 42;
	CHECK_EQ(((char *)c.addr)[SIZE - 1], 42);
	CHECK_EQ(shm_remove_name(&s), 0);
	check_gone();
	((char *)c.addr)[0] = 7;
	CHECK_EQ(((char *)s.addr)[0], 7);
	shm_close(&c);
	shm_close(&s);
}

/* All struct shm_region of one file share a mapping, which is removed with the last of them. */
TEST(one_mapping)
{
	struct shm_region s, a, b;
	unsigned char core;
	void *addr;

	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &a), 0);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &b), 0);
	CHECK(a.addr == s.addr && b.addr == s.addr);
	addr = s.addr;
	shm_close(&s);
	shm_close(&a);
	((char *)b.addr)[0] = 1;
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
	CHECK(s.addr != b.addr);
	CHECK_EQ(((char *)s.addr)[0], 0);
	shm_close(&s);
	CHECK_EQ(mincore(addr, 1, &core), 0);
	shm_close(&b);
	shm_close(&b); /* closing it again is no error */
	CHECK(mincore(addr, 1, &core) != 0 && errno == ENOMEM);
}

TEST(bad_names)
{
	AT_END(shm_close) struct shm_region r;
	char longest[SHM_NAME_MAX + 1];

	memset(longest, 'a', sizeof(longest));
	longest[SHM_NAME_MAX] = '\0';
	CHECK_EQ(shm_create(PREFIX, "", SIZE, &r), -EINVAL);
	CHECK_EQ(shm_create(PREFIX, NULL, SIZE, &r), -EINVAL);
	CHECK_EQ(shm_create(PREFIX, "a/b", SIZE, &r), -EINVAL);
	CHECK_EQ(shm_create(PREFIX, longest, SIZE, &r), -EINVAL);
	CHECK_EQ(shm_create(PREFIX, test_name, 0, &r), -EINVAL);
	CHECK_EQ(shm_attach(PREFIX, "../x", SIZE, &r), -EINVAL);
	longest[SHM_NAME_MAX - strlen(PREFIX)] = '\0'; /* prefix and name: SHM_NAME_MAX bytes */
	CHECK_EQ(shm_create(PREFIX, longest, SIZE, &r), 0);
}

/* shm_create() and shm_attach() need two descriptors. Without them no file is left behind. */
static void with_few_descriptors(void *arg)
{
	struct shm_region s, c;
	struct rlimit was;

	fdtest_fill_gaps();
	for (int n = 0; n < 2; n++) {
		was = fdtest_limit(n);
		CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), -EMFILE);
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
		check_gone();
	}
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
	for (int n = 0; n < 2; n++) {
		was = fdtest_limit(n);
		CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &c), -EMFILE);
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
	}
	was = fdtest_limit(0); /* removing the name needs no descriptor */
	shm_close(&s);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
	check_gone();
}

TEST_WITH(too_few_descriptors, fdtest_in_child, with_few_descriptors, NULL);

TEST(bytes_exclude)
{
	struct shm_region s, a, b;

	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &a), 0);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &b), 0);
	CHECK_EQ(shm_locked(&a, SHM_SERVER), 1);
	CHECK_EQ(shm_lock(&a, SHM_SERVER), -EAGAIN);
	CHECK_EQ(shm_lock(&a, 1), 0);
	CHECK_EQ(shm_lock(&a, 1), 0);
	CHECK_EQ(shm_lock(&b, 1), -EAGAIN);
	CHECK_EQ(shm_lock(&b, 2), 0);
	CHECK_EQ(shm_locked(&s, 1), 1);
	CHECK_EQ(shm_locked(&s, 2), 1);
	CHECK_EQ(shm_locked(&s, 3), 0);
	shm_unlock(&b, 2);
	CHECK_EQ(shm_locked(&s, 2), 0);
	shm_close(&a);
	CHECK_EQ(shm_locked(&s, 1), 0);
	shm_close(&s);
	CHECK_EQ(shm_locked(&b, SHM_SERVER), 0);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &a), -ENOENT);
	shm_close(&b);
	check_gone();
}

static struct shm_region child_region;

static void child_serves(void)
{
	if (shm_create(PREFIX, test_name, SIZE, &child_region) != 0)
		_exit(4);
	((char *)child_region.addr)[0] = 1;
}

TEST(stale_is_replaced)
{
	struct shm_region s, old, c;
	pid_t pid = spawn(child_serves);

	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), -EADDRINUSE);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &old), 0);
	CHECK_EQ(shm_locked(&old, SHM_SERVER), 1);
	test_kill(pid);
	CHECK_EQ(shm_locked(&old, SHM_SERVER), 0);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &c), -ECONNREFUSED);
	CHECK_EQ(shm_create(PREFIX, test_name, 2 * SIZE, &s), 0);
	CHECK_EQ(((char *)s.addr)[0], 0);
	CHECK_EQ(shm_locked(&old, SHM_SERVER), 0);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &c), 0);
	CHECK_EQ(c.size, 2 * SIZE);
	shm_close(&c);
	shm_close(&old);
	shm_close(&s);
	check_gone();
}

/* A server died before it set the size of the file. */
TEST(empty_remains_are_replaced)
{
	struct shm_region s;
	int fd = open(test_file(PREFIX), O_CREAT | O_EXCL | O_RDWR, 0600);

	CHECK(fd >= 0);
	close(fd);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &s), -ECONNREFUSED);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
	shm_close(&s);
	check_gone();
}

/*
 * If a region's file was removed by hand, the name may belong to another server when the region is
 * closed.
 */
TEST(name_of_another_is_left)
{
	struct shm_region old, s, c;

	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &old), 0);
	CHECK_EQ(unlink(test_file(PREFIX)), 0);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
	shm_close(&old);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &c), 0);
	shm_close(&c);
	shm_close(&s);
	check_gone();
}

TEST(link_is_not_followed)
{
	struct shm_region r;
	char target[160];

	snprintf(target, sizeof(target), "%s.target", test_file(PREFIX));
	CHECK_EQ(symlink(target, test_file(PREFIX)), 0);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &r), -ELOOP);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &r), -ELOOP);
	CHECK(access(target, F_OK) != 0);
	CHECK_EQ(unlink(test_file(PREFIX)), 0);
}

TEST(readable_by_others_is_refused)
{
	struct shm_region r;
	int fd = open(test_file(PREFIX), O_CREAT | O_EXCL | O_RDWR, 0600);

	CHECK(fd >= 0);
	CHECK_EQ(fchmod(fd, 0644), 0);
	close(fd);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &r), -EACCES);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &r), -EACCES);
	CHECK_EQ(unlink(test_file(PREFIX)), 0);
}

static int hold[2];

/* The server's child stays alive after the server has ended, until the test closes the pipe. */
static void server_forks(void)
{
	int up[2];
	char c = 0;
	pid_t pid;

	child_serves();
	close(hold[1]);
	pid = pipe(up) == 0 ? fork() : -1;
	if (pid < 0)
		_exit(5);
	if (!pid) {
		shm_close(&child_region); /* must not remove the name */
		_exit(write(up[1], &c, 1) != 1 || read(hold[0], &c, 1) != 0);
	}
	/* Waits for the child's fork handler: until it has run, the child also holds the lock. */
	if (read(up[0], &c, 1) != 1)
		_exit(6);
}

TEST(forked_child_holds_nothing)
{
	struct shm_region c;
	pid_t pid;

	CHECK_EQ(pipe(hold), 0);
	pid = spawn(server_forks);
	close(hold[0]);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &c), 0);
	CHECK_EQ(shm_locked(&c, SHM_SERVER), 1);
	test_kill(pid);
	CHECK_EQ(shm_locked(&c, SHM_SERVER), 0);
	shm_close(&c);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &c), 0);
	shm_close(&c);
	check_gone();
	close(hold[1]);
}

/*
 * Eight processes compete for the same stale name. Exactly one gets it, and keeps it when others
 * arrive late.
 */
TEST(one_creator_wins)
{
	for (int round = 0; round < 20; round++) {
		int go[2], out[2], won = 0;
		pid_t pid[8];
		struct shm_region c;
		char r;

		test_kill(spawn(child_serves));
		CHECK_EQ(pipe(go), 0);
		CHECK_EQ(pipe(out), 0);
		for (int i = 0; i < 8; i++) {
			pid[i] = test_fork();
			if (!pid[i]) {
				close(go[1]);
				if (read(go[0], &r, 1) != 0)
					_exit(1);
				r = shm_create(PREFIX, test_name, SIZE, &child_region) == 0;
				if (write(out[1], &r, 1) != 1)
					_exit(1);
				for (;;)
					pause();
			}
		}
		close(go[0]);
		close(go[1]);
		for (int i = 0; i < 8; i++) {
			CHECK_EQ(read(out[0], &r, 1), 1);
			won += r;
		}
		CHECK_EQ(won, 1);
		CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &c), 0);
		for (int i = 0; i < 8; i++)
			test_kill(pid[i]);
		CHECK_EQ(shm_locked(&c, SHM_SERVER), 0);
		shm_close(&c);
		close(out[0]);
		close(out[1]);
	}
	CHECK_EQ(unlink(test_file(PREFIX)), 0);
}

#define MAGIC 0x1122334455667788ull

static void child_serves_magic(void)
{
	child_serves();
	*(uint64_t *)child_region.addr = MAGIC;
}

TEST(remains_are_removed)
{
	struct shm_region r;
	pid_t pid = spawn(child_serves_magic);
	uint64_t word = 0;

	CHECK_EQ(shm_look(PREFIX, test_name, &r), 0);
	CHECK_EQ(r.size, SIZE);
	CHECK_EQ(r.access.mode, 0600);
	CHECK_EQ(shm_locked(&r, SHM_SERVER), 1);
	CHECK_EQ(shm_read(&r, 0, &word, sizeof(word)), 0);
	CHECK_EQ(word, MAGIC);
	CHECK_EQ(shm_read(&r, SIZE - 4, &word, sizeof(word)), -EPROTO);
	CHECK_EQ(shm_remove_remains(PREFIX, test_name, MAGIC), -EADDRINUSE);
	test_kill(pid);
	CHECK_EQ(shm_locked(&r, SHM_SERVER), 0);
	CHECK_EQ(shm_remove_remains(PREFIX, test_name, MAGIC + 1), -EPROTO);
	CHECK_EQ(access(test_file(PREFIX), F_OK), 0);
	CHECK_EQ(shm_lock(&r, SHM_NAMING), -EBADF); /* it is open for reading only */
	shm_close(&r);
	CHECK_EQ(shm_remove_remains(PREFIX, test_name, MAGIC), 0);
	check_gone();
	CHECK_EQ(shm_remove_remains(PREFIX, test_name, MAGIC), -ENOENT);
}

/* Opens the remains of a dead server, and locks their naming byte. */
static void lock_remains(struct shm_region *r)
{
	test_kill(spawn(child_serves_magic));
	CHECK_EQ(shm_look(PREFIX, test_name, r), 0);
	close(r->fd);
	r->fd = open(test_file(PREFIX), O_RDWR | O_CLOEXEC);
	CHECK_EQ(shm_lock(r, SHM_NAMING), 0);
}

/* A file is not removed while a process is becoming its server. */
TEST(remains_of_a_name_in_use_stay)
{
	struct shm_region r;

	lock_remains(&r);
	CHECK_EQ(shm_remove_remains(PREFIX, test_name, MAGIC), -EAGAIN);
	CHECK_EQ(access(test_file(PREFIX), F_OK), 0);
	shm_close(&r);
	CHECK_EQ(shm_remove_remains(PREFIX, test_name, MAGIC), 0);
}

/* Its naming byte is locked until shm_create() sleeps. */
static struct shm_region naming = {.fd = -1};

int nanosleep(const struct timespec *ns, struct timespec *left)
{
	if (naming.fd < 0)
		return (int)syscall(SYS_nanosleep, ns, left);
	shm_close(&naming);
	return 0;
}

/* The naming byte stays locked, as by a process that gets no core while shm_create() yields. It is
 * released only when shm_create() sleeps. */
TEST(creator_waits_for_the_name)
{
	struct shm_region s;

	lock_remains(&naming);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
	CHECK_EQ(naming.fd, -1);
	shm_close(&s);
	check_gone();
}

static struct shm_region replaced, replacing;

/* The server ends by shm_close(), and a new one with its name starts. */
static void replace_server(void)
{
	shm_close(&replaced);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &replacing), 0);
}

/*
 * Between the open and the test of the lock the file is removed, and another server gets its name.
 */
TEST(removing_spares_a_server_that_replaces_another)
{
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &replaced), 0);
	before_lock_test = replace_server;
	CHECK_EQ(shm_remove_remains(PREFIX, test_name, 0), -EAGAIN);
	CHECK_EQ(access(test_file(PREFIX), F_OK), 0);
	shm_close(&replacing);
	check_gone();
}

#define BYTE 7

static struct shm_region holder;

static void release_byte(void)
{
	shm_unlock(&holder, BYTE);
}

static void release_later(void)
{
	before_lock_test = release_byte;
}

static void lock_byte(void)
{
	CHECK_EQ(shm_lock(&holder, BYTE), 0);
}

static void lock_later(void)
{
	before_lock_test = lock_byte;
}

/*
 * shm_holds() is true only for the open file description that has locked the byte, even if the lock
 * changes while shm_holds() runs.
 */
TEST(only_the_holder_holds)
{
	struct shm_region s, stranger;

	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &holder), 0);
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &stranger), 0);
	for (int i = 0; i < 2; i++) { /* the lock changes before the first or second test */
		CHECK(!shm_holds(&s, holder.fd, BYTE));
		CHECK_EQ(shm_lock(&holder, BYTE), 0);
		CHECK(shm_holds(&s, holder.fd, BYTE));
		CHECK(!shm_holds(&s, stranger.fd, BYTE));
		before_lock_test = i ? release_later : release_byte;
		CHECK(!shm_holds(&s, stranger.fd, BYTE));
		CHECK(!before_lock_test);
	}
	before_lock_test = lock_later;
	CHECK(!shm_holds(&s, stranger.fd, BYTE));
	before_lock_test = NULL;
	shm_close(&stranger);
	shm_close(&holder);
	shm_close(&s);
}

static void *remove_thread(void *arg)
{
	while (!__atomic_load_n((bool *)arg, __ATOMIC_ACQUIRE))
		shm_remove_remains(PREFIX, test_name, 0);
	return NULL;
}

/* A server that starts keeps its name while another process removes the files of dead servers. */
TEST(removing_spares_servers_that_start)
{
	bool end = false;
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, remove_thread, &end), 0);
	for (int i = 0; i < 2000; i++) {
		AT_END(shm_close) struct shm_region s;
		struct stat named, mine;

		CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
		CHECK_EQ(stat(test_file(PREFIX), &named), 0);
		CHECK_EQ(fstat(s.fd, &mine), 0);
		CHECK_EQ(named.st_ino, mine.st_ino);
	}
	__atomic_store_n(&end, true, __ATOMIC_RELEASE);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* Makes the remains of a group's region that has no guard. */
static void remains_of_a_group(void)
{
	int fd = open(test_file(PREFIX), O_CREAT | O_EXCL | O_RDWR, 0600);

	CHECK(fd >= 0 && !fchmod(fd, 0660));
	close(fd);
}

/* A file has the mode and the group that are expected only after its server has set them. */
TEST(server_has_not_set_the_mode)
{
	const struct shm_access group = {.mode = 0660};
	struct flock byte = {.l_type = F_WRLCK, .l_start = SHM_SERVER, .l_len = 1};
	int fd = open(test_file(PREFIX), O_CREAT | O_EXCL | O_RDWR, 0600);
	struct shm_region r;

	CHECK(fd >= 0);
	CHECK_EQ(shm_attach_for(PREFIX, test_name, 1, &group, &r), -ECONNREFUSED);
	CHECK(!fcntl(fd, F_OFD_SETLK, &byte));
	CHECK_EQ(shm_attach_for(PREFIX, test_name, 1, &group, &r), -EAGAIN);
	CHECK(!ftruncate(fd, SIZE));
	CHECK_EQ(shm_attach_for(PREFIX, test_name, 1, &group, &r), -EACCES);
	byte.l_type = F_UNLCK; /* the server is dead */
	CHECK(!fcntl(fd, F_OFD_SETLK, &byte));
	CHECK_EQ(shm_attach_for(PREFIX, test_name, 1, &group, &r), -EACCES);
	CHECK(!close(fd) && !unlink(test_file(PREFIX)));
}

/* Two servers of one name, the second for a group. The second one stops before it removes the
 * region of the dead server, until the first one has ended its attempt. */
static const struct shm_access group_access = {.mode = 0660};
static _Thread_local bool is_second;
static int second_stops, first_ended; /* flags */
static pthread_t second_thread;

static void await_flag(const int *flag)
{
	/* Pairs with raise_flag(). */
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void raise_flag(int *flag)
{
	/* Pairs with await_flag(). */
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

int __real_shm_unlink(const char *name);
int __wrap_shm_unlink(const char *name);

int __wrap_shm_unlink(const char *name)
{
	if (is_second) {
		is_second = false;
		raise_flag(&second_stops);
		await_flag(&first_ended);
	}
	return __real_shm_unlink(name);
}

static void *second_serves(void *arg)
{
	struct shm_region *s = (struct shm_region *)arg;

	is_second = true;
	if (shm_create_for(PREFIX, test_name, SIZE, &group_access, s))
		*s = (struct shm_region){.fd = -1};
	return NULL;
}

static struct shm_region second;

/* The first server has found no guard of the dead server's region. */
static void start_second(void)
{
	CHECK_EQ(pthread_create(&second_thread, NULL, second_serves, &second), 0);
	await_flag(&second_stops);
}

TEST(one_server_without_a_guard)
{
	AT_END(shm_close) struct shm_region first;

	remains_of_a_group();
	before_lock_test = start_second;
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &first), -EADDRINUSE);
	raise_flag(&first_ended);
	CHECK_EQ(pthread_join(second_thread, NULL), 0);
	CHECK_EQ(access(test_file(PREFIX), F_OK), 0);
	CHECK_EQ(shm_remove_remains(PREFIX, test_name, 0), -EADDRINUSE);
	shm_close(&second);
	check_gone();
	CHECK(access(test_file(PREFIX "-guard"), F_OK) != 0);
}

/* Removes remains beside a file that has the guard's name and is no guard, so it is left alone. */
static void remove_beside(mode_t mode)
{
	int fd;

	remains_of_a_group();
	fd = open(test_file(PREFIX "-guard"), O_CREAT | O_EXCL | O_RDWR, 0600);
	CHECK(fd >= 0 && !fchmod(fd, mode));
	close(fd);
	CHECK_EQ(shm_remove_remains(PREFIX, test_name, 0), 0);
	check_gone();
	CHECK_EQ(unlink(test_file(PREFIX "-guard")), 0);
}

/* A process that removes a region without a guard makes the guard first, and then removes it, too. */
TEST(remains_without_a_guard)
{
	remains_of_a_group();
	CHECK_EQ(shm_remove_remains(PREFIX, test_name, 1), -EPROTO);
	CHECK(access(test_file(PREFIX "-guard"), F_OK) != 0);
	CHECK_EQ(shm_remove_remains(PREFIX, test_name, 0), 0);
	check_gone();
	CHECK(access(test_file(PREFIX "-guard"), F_OK) != 0);
	remove_beside(0644);
	remove_beside(0400);
}
