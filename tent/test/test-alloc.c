/* SPDX-License-Identifier: MIT */
/*
 * Memory from tent_alloc() between two engines with rails of shared memory: the importer maps it,
 * unless the descriptor in the description is not that of the memory. The program's own
 * process_vm_writev() counts the copies of the kernel.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "support/fdtest.h"
#include "duo.h"
#include "next.h"
#include "writev.h"

#define LEN (256 * KIB)

static unsigned by_kernel; /* calls of process_vm_writev() by any thread */

static void on_writev(size_t len)
{
	__atomic_fetch_add(&by_kernel, 1, __ATOMIC_RELAXED); /* read only after the copy's end */
}

/* ---- system calls of the test's thread ---- */

static pid_t counted; /* the thread, 0: none; all threads read it with __atomic builtins */
static unsigned receives, wakes, reads, reads_of_nothing;

/* Only the counted thread writes the counters. */
static void add(unsigned *counter)
{
	if (gettid() == __atomic_load_n(&counted, __ATOMIC_RELAXED))
		(*counter)++;
}

REPLACE(add(&receives), ssize_t, recv, (int fd, void *to, size_t len, int flags), fd, to, len,
	flags)
REPLACE(add(&wakes), int, poll, (struct pollfd * fds, nfds_t n, int ms), fds, n, ms)
REPLACE(add(&wakes), int, eventfd_write, (int fd, eventfd_t n), fd, n)

int eventfd_read(int fd, eventfd_t *n)
{
	bool none = read(fd, n, sizeof(*n)) != sizeof(*n);

	add(&reads);
	if (none)
		add(&reads_of_nothing);
	return none ? -1 : 0;
}

static void count(void (*fn)(void))
{
	__atomic_store_n(&counted, gettid(), __ATOMIC_RELAXED);
	for (int i = 0; i < 100; i++)
		fn();
	__atomic_store_n(&counted, 0, __ATOMIC_RELAXED);
}

/* ---- copies ---- */

/* Moves all bytes between @local and the child's memory. */
static void move(enum tent_op op, uint8_t *local)
{
	struct tent_request r = duo_request(op, 0, d.len);

	r.local = local;
	CHECK_EQ(duo_end(duo_submit(&r, 1)), 0);
}

/* Writes all bytes of @local, and reads them back. Returns whether the kernel has copied. */
static bool copies_from(uint8_t *local, uint8_t byte)
{
	unsigned before = __atomic_load_n(&by_kernel, __ATOMIC_RELAXED);

	memset(local, byte, d.len);
	move(TENT_WRITE, local);
	test_filled(d.theirs, d.len, byte);
	memset(local, 0, d.len);
	move(TENT_READ, local);
	test_filled(local, d.len, byte);
	return __atomic_load_n(&by_kernel, __ATOMIC_RELAXED) != before;
}

static bool copies(uint8_t byte)
{
	return copies_from(d.mine, byte);
}

#define OWN 2 /* mappings: the test's memory, and the child's, which the test compares */

/* The number of mappings of memory from tent_alloc() in this process. */
static int mappings(void)
{
	return fdtest_mappings("/memfd:tent ");
}

TEST(it_is_mapped_and_unmapped)
{
	duo_open(&(struct duo_attr){.len = LEN});
	CHECK_EQ(mappings(), OWN + 1);
	CHECK(!copies('a'));
	CHECK_EQ(duo_move(TENT_WRITE, 3, 5, 0), 0);
	CHECK_EQ(tent_release(d.s), 0);
	CHECK_EQ(mappings(), OWN);
	d.s = duo_import(d.t, d.text);
	CHECK(!copies('b'));
	duo_ask('u');
	CHECK_EQ(mappings(), OWN); /* the memory was unmapped before the confirmation */
	CHECK(duo_move(TENT_WRITE, 0, 1, 0));
	test_filled(d.theirs, LEN, 'b');
}

static void small_requests(void)
{
	CHECK_EQ(duo_move(TENT_WRITE, 0, 64 * KIB, 0), 0);
	CHECK_EQ(duo_move(TENT_READ, 0, 64 * KIB, 0), 0);
}

#define AT_ONCE 4

/* The requests are open at the same time, so each has its own part of the memory. */
static void large_requests(void)
{
	struct tent_batch *b[AT_ONCE];

	for (size_t i = 0; i < ARRAY_SIZE(b); i++)
		b[i] = duo_start(TENT_WRITE, i * LEN, LEN);
	for (size_t i = 0; i < ARRAY_SIZE(b); i++)
		CHECK_EQ(duo_end(b[i]), 0);
}

/*
 * Only the engine's thread reads messages of the peer. The submitting thread copies a small request
 * itself, and of a large one it reads only events that a copying thread has written.
 */
TEST(system_calls)
{
	duo_open(&(struct duo_attr){.len = AT_ONCE * LEN});
	CHECK(!copies('a'));
	count(small_requests);
	CHECK_EQ(receives + wakes + reads, 0);
	count(large_requests);
	CHECK_EQ(receives + reads_of_nothing, 0);
}

/*
 * While threads are in tent_wait(), they copy, and the copying threads nap (shm.c). The copying
 * threads must wake up for a request whose end no thread awaits.
 */
TEST(a_request_that_nobody_waits_for)
{
	struct tent_request r;

	duo_open(&(struct duo_attr){.len = LEN});
	for (int i = 0; i < 20; i++) {
		struct tent_batch *b;

		for (int k = 0; k < 5; k++)
			CHECK_EQ(duo_move(TENT_WRITE, 0, LEN, 0), 0);
		if (i % 2)
			clock_nap(5 * NSEC_PER_MSEC); /* enough to fall asleep, as a rule */
		r = duo_request(TENT_WRITE, 0, LEN);
		r.notify = 1;
		b = duo_submit(&r, 1);
		CHECK_EQ(duo_ask('n'),
			1); /* without reading the batch's status, which would wake the thread */
		CHECK_EQ(duo_end(b), 0);
	}
}

/* The program may unmap its own memory at any time, so the kernel copies that. */
TEST(memory_of_the_program)
{
	uint8_t *m = test_shared(LEN);

	duo_open(&(struct duo_attr){.len = LEN});
	CHECK_EQ(tent_register(d.t, m, LEN, NULL, NULL), 0);
	CHECK(copies_from(m, 'm'));
	CHECK(!copies('a'));
	test_now(duo_close);
	munmap(m, LEN);
}

static int file(size_t len, unsigned seals)
{
	int fd = memfd_create("other", MFD_ALLOW_SEALING);

	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, (off_t)len), 0);
	CHECK_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static bool huge; /* all files seem to have huge pages, which a test cannot reserve */

int fstatfs(int fd, struct statfs *s_p)
{
	int err = (int)syscall(SYS_fstatfs, fd, s_p);

	if (huge)
		s_p->f_type = HUGETLBFS_MAGIC;
	return err;
}

/* The peer can free huge pages of a mapping, so that an access raises SIGBUS. */
TEST(huge_pages_are_not_mapped)
{
	duo_open(&(struct duo_attr){.len = LEN, .no_import = true});
	huge = true;
	d.s = duo_import(d.t, d.text);
	CHECK_EQ(mappings(), OWN);
	CHECK(copies('h'));
	huge = false;
}

/* A descriptor that may lose its memory is not used; the bytes arrive by system calls. */
TEST(descriptors_that_cannot_be_used)
{
	int fds[2], other[] = {file(LEN, 0), file(LEN - 1, F_SEAL_SHRINK), file(0, F_SEAL_SHRINK),
			    file(LEN, F_SEAL_SHRINK | F_SEAL_WRITE), fileno(tmpfile()), 0, 999999};

	CHECK_EQ(ftruncate(other[4], LEN), 0);
	CHECK_EQ(pipe(fds), 0);
	other[5] = fds[0];
	duo_open(&(struct duo_attr){.len = LEN, .no_import = true});
	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		const char *fd = strstr(d.text, "\"fd\":");
		AT_END(end_free) char *text;

		CHECK(asprintf(&text, "%.*s\"fd\":%d%s", (int)(fd - d.text), d.text, other[i],
			      fd + strcspn(fd, ",}")) > 0);
		d.s = duo_import(d.t, text);
		CHECK_EQ(mappings(), OWN);
		CHECK(copies((uint8_t)(i + 1)));
		CHECK_EQ(tent_release(d.s), 0);
	}
	d.s = duo_import(d.t, d.text);
	CHECK(!copies('z'));
}

TEST(allocations_are_checked)
{
	struct tent *t = duo_create(NULL, 0, 0);
	struct tent_why why = {""};
	void *m = NULL;

	CHECK_EQ(tent_alloc(t, 0, NULL, &why, &m), -EINVAL);
	CHECK(why.text[0]);
	why.text[0] = 0;
	CHECK(tent_alloc(t, SIZE_MAX, NULL, &why, &m) < 0);
	CHECK(tent_alloc(t, INT64_MAX, NULL, &why, &m) < 0);
	CHECK_EQ(tent_alloc(t, 1, "gpu:0", &why, &m), -EINVAL);
	CHECK(strstr(why.text, "location") && !m);
	CHECK_EQ(tent_alloc(t, 5000, NULL, NULL, &m), 0);
	test_filled(m, 5000, 0);
	CHECK_EQ(mappings(), 1);
	CHECK_EQ(tent_register(t, m, 1, NULL, NULL), -EEXIST);
	CHECK_EQ(tent_unregister(t, m), 0);
	CHECK_EQ(mappings(), 0);
	CHECK_EQ(tent_alloc(t, 1, NULL, NULL, &m), 0);
	tent_destroy(t);
	CHECK_EQ(mappings(), 0);
}
