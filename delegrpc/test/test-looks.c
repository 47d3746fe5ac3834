/* SPDX-License-Identifier: MIT */
/* Counts the tests of locks when clients of delegrpc connect. */
#include <sys/resource.h>

#include "support/locklooks.h"
#include "solo.h"

#define CLIENTS 1000

static struct delegrpc_client *clients[CLIENTS];

static uint64_t looks_of_connect(uint32_t i)
{
	uint64_t looks = lock_looks;

	clients[i] = client_new();
	return lock_looks - looks;
}

/* A connect tests as many locks with 999 other clients as with none. */
static void connect_looks(void)
{
	struct delegrpc_attr attr = {.max_clients = CLIENTS, .resp_depth = 1, .req_size = 8};
	SERVER *s;
	struct delegrpc_client *c;
	struct raw raw;

	CHECK_EQ(delegrpc_server_create(name, &attr, &s), 0);
	for (uint32_t i = 0; i < CLIENTS; i++)
		CHECK(looks_of_connect(i) <= 2);
	/* If all ids are taken, the lock of each is tested at most twice. */
	lock_looks = 0;
	CHECK_EQ(delegrpc_client_connect(name, NULL, &c), -EUSERS);
	CHECK(lock_looks <= 2 * CLIENTS + 1);
	/* An id that was given back is found with the first tests, and so is a dead client's. */
	delegrpc_client_disconnect(clients[CLIENTS - 1]);
	CHECK(looks_of_connect(CLIENTS - 1) <= 2);
	delegrpc_client_disconnect(clients[CLIENTS - 1]);
	raw_open(name, &raw);
	raw.lines[CLIENTS - 1].taken = 1;
	looks_of_connect(CLIENTS - 1);
	/* The mark in a line is only a hint: no client gets the id of a living one. */
	for (uint32_t i = 0; i < CLIENTS; i++)
		raw.lines[i].taken = 0;
	CHECK_EQ(delegrpc_client_connect(name, NULL, &c), -EUSERS);
	delegrpc_client_disconnect(clients[7]);
	for (uint32_t i = 0; i < CLIENTS; i++)
		raw.lines[i].taken = i * 3;
	looks_of_connect(7);
	CHECK_EQ(delegrpc_client_index(clients[7]), 7);
	raw_close(&raw);
	for (uint32_t i = 0; i < CLIENTS; i++)
		delegrpc_client_disconnect(clients[i]);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {TEST(connect_looks)};
	struct rlimit limit = {2 * CLIENTS, 2 * CLIENTS};

	setrlimit(RLIMIT_NOFILE, &limit);
	snprintf(name, sizeof(name), "looks.%d", (int)getpid());
	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
