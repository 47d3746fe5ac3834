/* SPDX-License-Identifier: MIT */
/* delegrpc in a /dev/shm that is too small. */
#include "support/smallshm.h"
#include "solo.h"

static void region_too_large(void)
{
	SERVER *s;
	CLIENT *c;

	CHECK_EQ(delegrpc_server_create(name, NULL, &s), -ENOSPC);
	CHECK_EQ(delegrpc_client_connect(name, NULL, &c), -ENOENT);
	CHECK(access("/dev/shm/delegrpc.full", F_OK) != 0);
	s = server_new(4, 0, 16);
	c = client_new();
	for (uint32_t i = 0; i < 1000; i++) { /* each page is touched */
		struct seen seen = {0};

		call(c, i);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
		CHECK_EQ(serve(s), 1);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
	}
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {TEST(region_too_large)};
	int skip = smallshm_mount((size_t)128 * 1024);

	snprintf(name, sizeof(name), "full");
	return skip ? skip : test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
