/* SPDX-License-Identifier: MIT */
/* Counts how many locks a connecting client of shmipc tests (lock_looks). */
#include <sys/resource.h>

#include "support/locklooks.h"
#include "common.h"

#define CLIENTS 1000

static struct shmipc_client *clients[CLIENTS];

/* A connect tests as many locks with 999 other clients as with none. */
static void connect_looks(void)
{
	struct shmipc_attr attr = {.max_clients = CLIENTS,
		.depth = 1,
		.req_size = 8,
		.resp_size = 8};
	SERVER *s = test_serve("looks", &attr);
	struct shmipc_client *c;

	for (uint32_t i = 0; i < CLIENTS; i++) {
		lock_looks = 0;
		clients[i] = test_join("looks");
		CHECK(lock_looks <= 2);
	}
	/* If all places are taken, the lock of each is tested once. */
	lock_looks = 0;
	CHECK_EQ(shmipc_client_connect(test_name("looks"), NULL, &c), -EUSERS);
	CHECK(lock_looks <= CLIENTS + 1);
	/*
	 * A place that was given back, and that the server has cleaned, is found without a search.
	 */
	CHECK_EQ(shmipc_server_poll(s), 0);
	shmipc_client_disconnect(clients[CLIENTS - 1]);
	CHECK_EQ(shmipc_server_poll(s), 0);
	lock_looks = 0;
	clients[CLIENTS - 1] = test_join("looks");
	CHECK(lock_looks <= 2);
	for (uint32_t i = 0; i < CLIENTS; i++)
		shmipc_client_disconnect(clients[i]);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {TEST(connect_looks)};
	struct rlimit limit = {2 * CLIENTS, 2 * CLIENTS};

	setrlimit(RLIMIT_NOFILE, &limit);
	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
