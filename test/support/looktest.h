/* SPDX-License-Identifier: MIT */
/* For tests of the functions that read a region from outside, without connecting. */
#ifndef SUPPORT_LOOKTEST_H
#define SUPPORT_LOOKTEST_H

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "support/spawn.h"
#include "support/test.h"

/*
 * Overwrites a few words in the first bytes of a file with random ones, again and again, and calls
 * look() each time. Restores the words after each call.
 */
static inline void looktest_forge(const char *file, size_t bytes, void (*look)(void))
{
	uint64_t seed = test_seed(), kept[3], at[3], word;
	int fd = open(file, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	for (int round = 0; round < 20000; round++) {
		int n = 1 + (int)(test_rand(&seed) % 3);

		for (int i = 0; i < n; i++) {
			at[i] = test_rand(&seed) % (bytes / 4) * 4;
			CHECK_EQ(pread(fd, &kept[i], 4, (off_t)at[i]), 4);
			word = test_rand(&seed) >> test_rand(&seed) % 64;
			CHECK_EQ(pwrite(fd, &word, 4, (off_t)at[i]), 4);
		}
		look();
		while (n--)
			CHECK_EQ(pwrite(fd, &kept[n], 4, (off_t)at[n]), 4);
	}
	close(fd);
}

/*
 * Tests other files that have the name of a region: look() and remove_dead() must return an error
 * and leave the file.
 */
static inline void looktest_foreign(const char *file, int (*look)(void), int (*remove_dead)(void))
{
	static const char text[] =
		"a file of somebody else's that is longer than any header of a region";
	int fd = open(file, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK_EQ(look(), -EPROTO); /* empty */
	CHECK_EQ(remove_dead(), -EPROTO);
	for (int i = 0; i < 64; i++)
		CHECK_EQ(write(fd, text, sizeof(text)), sizeof(text));
	CHECK_EQ(look(), -EPROTO);
	CHECK_EQ(remove_dead(), -EPROTO);
	close(fd);
	CHECK_EQ(unlink(file), 0);
	CHECK_EQ(look(), -ENOENT);
	CHECK_EQ(remove_dead(), -ENOENT);
	CHECK_EQ(mkfifo(file, 0600), 0); /* it has no writer: an open for reading could block */
	CHECK_EQ(look(), -EACCES);
	CHECK_EQ(remove_dead(), -EACCES);
	CHECK_EQ(unlink(file), 0);
	CHECK_EQ(symlink("/dev/null", file), 0);
	CHECK_EQ(look(), -ELOOP);
	CHECK_EQ(remove_dead(), -ELOOP);
	CHECK_EQ(unlink(file), 0);
}

#endif
