/* SPDX-License-Identifier: MIT */
/* delegrpc in a /dev/shm that is too small. */
#include "rpc.h"
#include "support/rpccases.h"
#include "support/smallshm.h"

int main(int argc, char **argv)
{
	static const struct test tests[] = {TEST(region_too_large)};
	int skip = smallshm_mount((size_t)128 * 1024);

	return skip ? skip : test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
