/* SPDX-License-Identifier: MIT */
/* local-echo NAME: a shmipc server that answers each request with its own bytes until SIGTERM. */
#include <shmipc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LONGEST 256
#define LOT 256 /* requests between two checks of the signal */
#define SLEEP_NS 100000000 /* SIGTERM is noticed after at most this time */

/*
 * Relaxed, because no other data depends on the flag. The handler's store pairs with the load in
 * main().
 */
static atomic_bool ended;

static void end(int signal)
{
	atomic_store_explicit(&ended, true, memory_order_relaxed);
}

static void echo(void *arg, const struct shmipc_req *req, const void *payload)
{
	shmipc_server_reply(arg, req->client, req->id, payload, req->len);
}

int main(int argc, char **argv)
{
	struct shmipc_attr attr = {.req_size = LONGEST, .resp_size = LONGEST};
	struct shmipc_server *s;
	int rc;

	if (argc != 2)
		return fprintf(stderr, "usage: %s NAME\n", argv[0]), 2;
	signal(SIGTERM, end);
	if ((rc = shmipc_server_create(argv[1], &attr, &s)))
		return fprintf(stderr, "%s: %s\n", argv[1], strerror(-rc)), 1;
	puts("ready");
	fflush(stdout);
	while (!atomic_load_explicit(&ended, memory_order_relaxed))
		if (!shmipc_server_serve(s, echo, s, LOT))
			shmipc_server_wait(s, SLEEP_NS);
	shmipc_server_destroy(s);
	return 0;
}
