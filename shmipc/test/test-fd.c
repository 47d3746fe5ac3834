/* SPDX-License-Identifier: MIT */
/* Servers and clients of shmipc that sleep on descriptors. */
#include <pthread.h>

#include "rpc.h"
#include "map.h"
#include "support/rpcfd.h"

static void connect_and_die(void *arg)
{
	struct shmipc_client *c = client_new();

	call(c, 1);
	shmipc_client_flush(c);
}

static void *connect_thread(void *arg)
{
	struct shmipc_client *c;
	int err;

	do
		err = shmipc_client_connect(test_name, NULL, &c);
	while (err == -EAGAIN);
	CHECK_EQ(err, 0);
	call(c, 2);
	shmipc_client_flush(c);
	while (poll_client(c) == 0)
		CHECK(shmipc_client_wait(c, NSEC_PER_SEC) >= 0);
	shmipc_client_disconnect(c);
	return NULL;
}

/* A dead client has the only place. A client that needs it wakes the server. */
TEST(sleeping_server_cleans_places)
{
	SERVER *s = server_new(1);
	pthread_t thread;

	CHECK(shmipc_server_fd(s) >= 0);
	fdtest_in_child(connect_and_die, NULL);
	while (serve(s) || shmipc_server_arm(s))
		;
	CHECK_EQ(pthread_create(&thread, NULL, connect_thread, NULL), 0);
	while (!serve(s))
		if (!shmipc_server_arm(s))
			fdtest_readable_within(shmipc_server_fd(s), FOR_EVER);
	shmipc_server_flush(s);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}
