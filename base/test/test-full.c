/* SPDX-License-Identifier: MIT */
/*
 * base/shm.h in a /dev/shm that is too small: create returns an error, and no SIGBUS comes later.
 */
#include <errno.h>

#include "base/shm.h"
#include "support/smallshm.h"
#include "support/test.h"

#define ROOM ((size_t)64 * 1024)

TEST(region_too_large)
{
	struct shm_region a, b;

	CHECK_EQ(shm_create("full", "a", 2 * ROOM, &a), -ENOSPC);
	CHECK(access("/dev/shm/full.a", F_OK) != 0);
	CHECK_EQ(shm_create("full", "a", ROOM / 2, &a), 0);
	CHECK_EQ(shm_create("full", "b", ROOM, &b), -ENOSPC);
	CHECK(access("/dev/shm/full.b", F_OK) != 0);
	memset(a.addr, 1, ROOM / 2);
	shm_close(&a);
	CHECK_EQ(shm_create("full", "b", ROOM, &b), 0);
	memset(b.addr, 1, ROOM);
	shm_close(&b);
}

int main(int argc, char **argv)
{
	int skip = smallshm_mount(ROOM);

	return skip ? skip : test_main(argc, argv);
}
