/* SPDX-License-Identifier: MIT */
/* The mappings of the process: the answers of PROCMAP_QUERY agree with /proc/self/maps. */
#include "sys/maps.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../check.h"

#define PAGE 4096u
#define MOST 16384

/*
 * Static, and touched before they are compared, so that reading the mappings does not change any.
 */
static struct list {
	int n;
	struct mapping at[MOST];
} answers, lines;

static int add(const struct mapping *m, void *arg)
{
	struct list *l = arg;

	CHECK(l->n < MOST);
	l->at[l->n++] = *m;
	return 0;
}

static void both(uint64_t from)
{
	memset(&answers, 0, sizeof(answers));
	memset(&lines, 0, sizeof(lines));
	CHECK_EQ(maps_each(from, add, &answers), 0);
	CHECK_EQ(maps_each_line(from, add, &lines), 0);
	/* The vsyscall page at the end of the address space is only among the lines. */
	while (lines.n && lines.at[lines.n - 1].start >> 63)
		lines.n--;
	while (answers.n && answers.at[answers.n - 1].start >> 63)
		answers.n--;
}

static void same(const struct mapping *a, const struct mapping *b)
{
	CHECK_EQ(a->start, b->start);
	CHECK_EQ(a->end, b->end);
	CHECK_EQ(a->offset, b->offset);
	CHECK_EQ(a->prot, b->prot);
	CHECK_EQ(a->dev, b->dev);
	CHECK_EQ(a->ino, b->ino);
}

/* Returns four pages: without access, to read, to read and write, without access. */
static uint8_t *pages(void)
{
	uint8_t *at = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	CHECK(!mprotect(at + PAGE, PAGE, PROT_READ));
	CHECK(!mprotect(at + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE));
	return at;
}

TEST(answers_and_lines_are_the_same)
{
	const uint8_t *at = pages();
	const uint64_t from[] = {0, (uintptr_t)at, (uintptr_t)at + PAGE - 1, (uintptr_t)at + PAGE,
		(uintptr_t)&answers};

	both(0);
	for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
		both(from[i]);
		CHECK(answers.n > 0);
		CHECK_EQ(answers.n, lines.n);
		for (int k = 0; k < lines.n; k++)
			same(&answers.at[k], &lines.at[k]);
		CHECK(lines.at[0].end > from[i]);
	}
}

TEST(a_page_is_the_first_from_its_address_on)
{
	uint8_t *at = pages();
	int (*const ways[])(uint64_t from, maps_fn * each, void *arg) = {maps_each, maps_each_line};
	const int prot[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};

	for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
		for (size_t i = 1; i < ARRAY_SIZE(prot); i++) {
			answers.n = 0;
			CHECK_EQ(ways[way]((uintptr_t)at + i * PAGE, add, &answers), 0);
			CHECK_EQ(answers.at[0].start, (uintptr_t)at + i * PAGE);
			CHECK_EQ(answers.at[0].end, (uintptr_t)at + (i + 1) * PAGE);
			CHECK_EQ(answers.at[0].prot, prot[i]);
		}
	}
}

static bool kernel_has_query(void)
{
	int major, minor;
	struct utsname u;

	CHECK(!uname(&u) && sscanf(u.release, "%d.%d", &major, &minor) == 2);
	return major > 6 || (major == 6 && minor >= 11);
}

/* Only PROCMAP_QUERY leaves out the private mappings. */
static bool answers_are_shared(void)
{
	for (int i = 0; i < answers.n; i++)
		if (!answers.at[i].shared)
			return false;
	return true;
}

TEST(shared_mappings_of_files_are_found)
{
	int fd = memfd_create("test-maps", MFD_CLOEXEC);
	uint8_t *at, *found = NULL;

	CHECK(fd >= 0 && !ftruncate(fd, 2 * PAGE));
	at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED && !mprotect(at + PAGE, PAGE, PROT_READ));
	answers.n = 0;
	CHECK_EQ(maps_each_shared(add, &answers), 0);
	for (int i = 0; i < answers.n; i++)
		if (answers.at[i].start == (uintptr_t)at) {
			CHECK_EQ(answers.at[i].end, (uintptr_t)at + PAGE);
			found = at;
		}
	CHECK(found);
	/* Where the kernel has the query, the library must use it: the other cases compare it with the lines. */
	CHECK(!kernel_has_query() || answers_are_shared());
	munmap(at, 2 * PAGE);
	close(fd);
}

static int third(const struct mapping *m, void *arg)
{
	int *calls = arg;

	(void)m;
	return ++*calls == 3 ? -ENOENT : 0;
}

TEST(a_value_ends_the_search_and_is_returned)
{
	int calls = 0;

	CHECK_EQ(maps_each(0, third, &calls), -ENOENT);
	CHECK_EQ(calls, 3);
	calls = 0;
	CHECK_EQ(maps_each_line(0, third, &calls), -ENOENT);
	CHECK_EQ(calls, 3);
}
