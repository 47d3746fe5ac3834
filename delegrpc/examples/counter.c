/* SPDX-License-Identifier: MIT */
/*
 * One process owns a counter, and four other processes add to the counter by delegation: there is
 * no lock, and the answer to each addition is the new sum.
 *
 *	cc counter.c $(pkg-config --cflags --libs delegrpc) -o counter
 *	./counter [ADDITIONS]		additions of each client; default 100000
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "delegrpc.h"

#define CLIENTS 4
#define DEPTH 32

static void die(const char *what, int err)
{
	fprintf(stderr, "counter: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* Handles a response in a client: checks that each sum is greater than the one before. */
static void added(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	uint64_t *last = arg, sum;

	memcpy(&sum, resp, sizeof(sum));
	if (sum <= *last) {
		fprintf(stderr, "counter: addition %" PRIu64 " came back out of order\n", token);
		exit(1);
	}
	*last = sum;
}

static int client(const char *name, uint64_t additions)
{
	struct delegrpc_client *c;
	uint64_t one = 1, last = 0, i = 0;
	int err = delegrpc_client_connect(name, NULL, &c);

	if (err)
		die("connect", err);
	while (i < additions || delegrpc_client_pending(c)) {
		while (i < additions && delegrpc_client_call(c, &one, sizeof(one), i) == 0)
			i++;
		err = delegrpc_client_poll(c, added, &last);
		if (err == 0)
			err = delegrpc_client_wait(c, 1000000000);
		if (err < 0)
			die("the server has gone", err);
	}
	delegrpc_client_disconnect(c);
	return 0;
}

static bool client_failed(void)
{
	int status;

	return waitpid(-1, &status, WNOHANG) > 0 && status;
}

struct counter {
	struct delegrpc_server *server;
	uint64_t sum, n;
	uint32_t connected; /* bit i: client i has made a call */
};

static void add(void *arg, const struct delegrpc_req *req, const void *payload)
{
	struct counter *k = arg;
	uint64_t by;

	memcpy(&by, payload, sizeof(by));
	k->sum += by;
	k->n++;
	k->connected |= 1u << req->client;
	delegrpc_server_reply(k->server, req->client, req->id, &k->sum, sizeof(k->sum));
}

/* Serves until all expected additions have arrived or a client has failed. Returns the sum. */
static uint64_t serve(struct delegrpc_server *s, uint64_t expected)
{
	struct counter k = {.server = s};

	while (k.n < expected) {
		if (delegrpc_server_serve(s, add, &k, 256) == 0 &&
			delegrpc_server_wait(s, 100000000) == 0 && client_failed())
			break;
		if (k.connected == (1u << CLIENTS) - 1)
			delegrpc_server_unlink(s); /* now a crash leaves nothing behind */
	}
	return k.sum;
}

static uint64_t number(const char *arg)
{
	char *end;
	uint64_t n = strtoull(arg, &end, 10);

	if (*arg < '0' || *arg > '9' || *end || !n || n > UINT32_MAX) {
		fprintf(stderr, "counter: '%s': give a number of additions, 1 to %" PRIu32 "\n",
			arg, UINT32_MAX);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	struct delegrpc_attr attr = {.max_clients = CLIENTS,
		.resp_depth = DEPTH,
		.req_size = sizeof(uint64_t),
		.resp_size = sizeof(uint64_t)};
	uint64_t additions = argc > 1 ? number(argv[1]) : 100000, sum;
	struct delegrpc_server *s;
	char name[32];
	int err, status, failed = 0;

	snprintf(name, sizeof(name), "counter.%d", (int)getpid());
	err = delegrpc_server_create(name, &attr, &s);
	if (err)
		die("create", err);
	for (int i = 0; i < CLIENTS; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork", -errno);
		if (pid == 0)
			_exit(client(name, additions));
	}
	sum = serve(s, CLIENTS * additions);
	if (sum != CLIENTS * additions) {
		delegrpc_server_destroy(s); /* so that the other clients do not wait for ever */
		s = NULL;
		failed = 1;
	}
	while (wait(&status) > 0)
		if (status != 0)
			failed = 1;
	printf("%" PRIu64 " additions, sum %" PRIu64 "\n", CLIENTS * additions, sum);
	delegrpc_server_destroy(s);
	return failed;
}
