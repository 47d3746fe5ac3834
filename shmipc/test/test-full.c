/* SPDX-License-Identifier: MIT */
/* shmipc in a /dev/shm that is too small. */
#include <unistd.h>

#include "support/smallshm.h"
#include "common.h"

static void ignore(void *arg, uint64_t token, const void *resp, uint32_t len)
{
}

static void region_too_large(void)
{
	struct shmipc_attr small = {.max_clients = 2, .depth = 16};
	SERVER *s;
	CLIENT *c;
	struct msg q = msg_of(1), a;

	CHECK_EQ(shmipc_server_create("full", NULL, &s), -ENOSPC);
	CHECK_EQ(shmipc_client_connect("full", NULL, &c), -ENOENT);
	CHECK(access("/dev/shm/shmipc.full", F_OK) != 0);
	CHECK_EQ(shmipc_server_create("full", &small, &s), 0);
	CHECK_EQ(shmipc_client_connect("full", NULL, &c), 0);
	for (uint32_t i = 0; i < 1000; i++) { /* each page is touched */
		CHECK_EQ(shmipc_client_call(c, &q, sizeof(q), i), 0);
		CHECK_EQ(serve_once(s), 1);
		CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 1);
	}
	CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 0, NULL), -ETIMEDOUT);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {TEST(region_too_large)};
	int skip = smallshm_mount((size_t)128 * 1024);

	return skip ? skip : test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
