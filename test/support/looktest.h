/* SPDX-License-Identifier: MIT */
/*
 * Cases of delegrpc's and shmipc's functions that read a region from outside, without connecting. A
 * program first includes the layer's test/rpc.h, and defines look_attr.
 */
#ifndef SUPPORT_LOOKTEST_H
#define SUPPORT_LOOKTEST_H

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "support/rpcnew.h"
#include "support/spawn.h"

static const struct rpc_attr look_attr; /* of the servers that the cases create */

static inline int look_at(struct RPC(look_region) * l)
{
	return RPC(look)(test_name, l, sizeof(*l), NULL, NULL);
}

static inline struct RPC(look_region) look(void)
{
	struct RPC(look_region) l;

	CHECK_EQ(look_at(&l), 0);
	return l;
}

static inline void looktest_forged(void (*check)(const struct RPC(look_region) *))
{
	struct RPC(look_region) l = {.clients = UINT32_MAX};
	int err = look_at(&l);

	if (err) {
		CHECK_EQ(err, -EPROTO);
		CHECK_EQ(l.clients, UINT32_MAX); /* it is written only on success */
		return;
	}
	CHECK(l.clients + l.dead_clients <= l.attr.max_clients);
	CHECK(l.server <= RPC_CONSTANT(LOOK_ASLEEP));
	if (check)
		check(&l);
}

/*
 * Repeatedly overwrites a few words in the first bytes of the file with random ones, reads the
 * region, checks the result (also by @check if that is not NULL), and restores the words.
 */
static inline void looktest_forge(size_t bytes, void (*check)(const struct RPC(look_region) *))
{
	uint64_t seed = test_seed(), kept[3], at[3], word;
	AT_END(end_close_fd) int fd = open(test_file(RPC_PREFIX), O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	for (int round = 0; round < 20000; round++) {
		int n = 1 + (int)(test_rand(&seed) % 3);

		for (int i = 0; i < n; i++) {
			at[i] = test_rand(&seed) % (bytes / 4) * 4;
			CHECK_EQ(pread(fd, &kept[i], 4, (off_t)at[i]), 4);
			word = test_rand(&seed) >> test_rand(&seed) % 64;
			CHECK_EQ(pwrite(fd, &word, 4, (off_t)at[i]), 4);
		}
		looktest_forged(check);
		while (n--)
			CHECK_EQ(pwrite(fd, &kept[n], 4, (off_t)at[n]), 4);
	}
}

static inline void serve_for_ever(void)
{
	server_with(&look_attr);
}

TEST(only_dead_servers_are_removed)
{
	pid_t pid = spawn(serve_for_ever);

	CHECK_EQ(look().server, RPC_CONSTANT(LOOK_RUNNING));
	CHECK_EQ(RPC(remove_dead)(test_name), -EADDRINUSE);
	test_kill(pid);
	CHECK_EQ(look().server, RPC_CONSTANT(LOOK_DEAD));
	CHECK_EQ(RPC(remove_dead)(test_name), 0);
	CHECK(access(test_file(RPC_PREFIX), F_OK) != 0);
	CHECK_EQ(RPC(remove_dead)(test_name), -ENOENT);
	CHECK_EQ(RPC(remove_dead)("a/b"), -EINVAL);
}

/* Checks that the functions that read and remove the region return the error. */
static inline void looktest_refused(int err)
{
	struct RPC(look_region) l;

	CHECK_EQ(look_at(&l), err);
	CHECK_EQ(RPC(remove_dead)(test_name), err);
}

/* If another kind of file has a region's name, look and remove_dead fail and leave the file. */
TEST(foreign_files_stay)
{
	static const char text[] =
		"a file of somebody else's that is longer than any header of a region";
	int fd = open(test_file(RPC_PREFIX), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	looktest_refused(-EPROTO); /* empty */
	for (int i = 0; i < 64; i++)
		CHECK_EQ(write(fd, text, sizeof(text)), sizeof(text));
	looktest_refused(-EPROTO);
	close(fd);
	CHECK_EQ(unlink(test_file(RPC_PREFIX)), 0);
	looktest_refused(-ENOENT);
	/* The FIFO has no writer: opening it for reading could block. */
	CHECK_EQ(mkfifo(test_file(RPC_PREFIX), 0600), 0);
	looktest_refused(-EACCES);
	CHECK_EQ(unlink(test_file(RPC_PREFIX)), 0);
	CHECK_EQ(symlink("/dev/null", test_file(RPC_PREFIX)), 0);
	looktest_refused(-ELOOP);
	CHECK_EQ(unlink(test_file(RPC_PREFIX)), 0);
}

#endif
