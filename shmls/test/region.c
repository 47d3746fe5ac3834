/* SPDX-License-Identifier: MIT */
/*
 * Makes the regions for shmls.py: a server of delegrpc and one of shmipc, each with two clients,
 * and three published calls in delegrpc. Prints "ready" and runs until its standard input ends.
 *
 *	region NAME
 */
#include <delegrpc.h>
#include <shmipc.h>

#include "support/test.h"

int main(int argc, char **argv)
{
	struct delegrpc_attr da = {.max_clients = 4, .resp_depth = 16};
	struct shmipc_attr sa = {.max_clients = 8, .depth = 32};
	struct delegrpc_client *dc[2];
	struct delegrpc_server *ds;
	struct shmipc_client *sc[2];
	struct shmipc_server *ss;

	CHECK_EQ(argc, 2);
	CHECK_EQ(delegrpc_server_create(argv[1], &da, &ds), 0);
	CHECK_EQ(shmipc_server_create(argv[1], &sa, &ss), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(delegrpc_client_connect(argv[1], NULL, &dc[i]), 0);
		CHECK_EQ(shmipc_client_connect(argv[1], NULL, &sc[i]), 0);
	}
	for (uint64_t i = 0; i < 3; i++)
		CHECK_EQ(delegrpc_client_call(dc[0], "request", 8, i), 0);
	CHECK_EQ(delegrpc_client_flush(dc[0]), 0);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	for (int i = 0; i < 2; i++) {
		delegrpc_client_disconnect(dc[i]);
		shmipc_client_disconnect(sc[i]);
	}
	delegrpc_server_destroy(ds);
	shmipc_server_destroy(ss);
	return 0;
}
