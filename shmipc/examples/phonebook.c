/* SPDX-License-Identifier: MIT */
/*
 * A phone book. One process, the server, keeps the book. Each of three other processes, the
 * clients, enters a hundred numbers and looks them up again.
 *
 *	cc phonebook.c $(pkg-config --cflags --libs shmipc) -o phonebook && ./phonebook
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmipc.h>

#define CLIENTS 3
#define ENTRIES 100
#define SLOTS 1024

struct question {
	uint32_t enter; /* not 0: enter the number; 0: look it up */
	uint32_t name;
	uint64_t number;
};

struct answer {
	uint32_t found;
	uint32_t name;
	uint64_t number;
};

static const struct shmipc_attr attr = {
	.max_clients = CLIENTS,
	.depth = 16,
	.req_size = sizeof(struct question),
	.resp_size = sizeof(struct answer),
};

struct book {
	struct shmipc_server *server;
	int failed;
	uint64_t number[SLOTS];
};

/* Clients are not trusted: names beyond the book are never found. */
static void look_up(void *arg, const struct shmipc_req *req, const void *payload)
{
	const struct question *q = payload;
	struct book *b = arg;
	struct answer a = {.name = q->name};

	if (q->name < SLOTS) {
		if (q->enter)
			b->number[q->name] = q->number;
		a.found = b->number[q->name] != 0;
		a.number = b->number[q->name];
	}
	/* -EPIPE is not a failure: the client has gone and needs no answer. */
	b->failed |= shmipc_server_reply(b->server, req->client, req->id, &a, sizeof(a)) == -EINVAL;
}

/* Serves until all clients have left, or one of them has failed. */
static int serve(struct shmipc_server *s)
{
	static struct book book;
	struct shmipc_server_stats st;
	int status;

	book.server = s;
	do {
		while (shmipc_server_serve(s, look_up, &book, 256))
			;
		shmipc_server_wait(s, 10000000); /* at most 10 ms: some client may have ended */
		shmipc_server_get_stats(s, &st, sizeof(st));
		if (st.connects == CLIENTS)
			shmipc_server_unlink(s); /* now a crash leaves nothing behind */
		if (book.failed || (waitpid(-1, &status, WNOHANG) > 0 && status))
			return 1;
	} while (st.connects < CLIENTS || st.clients);
	printf("%llu questions answered\n", (unsigned long long)st.replies);
	return st.replies == 2 * CLIENTS * ENTRIES ? 0 : 1;
}

/*
 * Handles an answer; the token is the name. Counts the names that are found with the number that
 * was entered.
 */
static void check(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct answer a = *(const struct answer *)resp;
	uint32_t *right = arg;

	*right += a.found && a.name == token && a.number == 5550000 + token;
}

static int ask(const char *name, uint32_t index)
{
	struct shmipc_client *c;
	uint32_t right = 0;

	if (shmipc_client_connect(name, &attr, &c) != 0)
		return 1;
	for (uint32_t i = 0; i < 2 * ENTRIES; i++) {
		uint32_t who = index * ENTRIES + i % ENTRIES;
		struct question q = {.enter = i < ENTRIES, .name = who, .number = 5550000 + who};

		while (shmipc_client_call(c, &q, sizeof(q), who) == -EAGAIN) {
			if (shmipc_client_wait(c, SHMIPC_FOREVER) < 0)
				return 1;
			shmipc_client_poll(c, check, &right);
		}
	}
	while (shmipc_client_pending(c)) {
		if (shmipc_client_wait(c, SHMIPC_FOREVER) < 0)
			return 1;
		shmipc_client_poll(c, check, &right);
	}
	shmipc_client_disconnect(c);
	return right == 2 * ENTRIES ? 0 : 1;
}

int main(void)
{
	struct shmipc_server *s;
	char name[32];
	int status, failed;

	snprintf(name, sizeof(name), "phonebook.%d", (int)getpid());
	failed = shmipc_server_create(name, &attr, &s);
	if (failed) {
		fprintf(stderr, "cannot serve: %s\n", strerror(-failed));
		return 1;
	}
	for (uint32_t i = 0; i < CLIENTS && !failed; i++) {
		pid_t client = fork();

		if (client == 0)
			_exit(ask(name, i));
		failed = client < 0;
	}
	if (failed)
		perror("cannot create a client");
	else
		failed = serve(s);
	if (failed) {
		shmipc_server_destroy(s); /* so that the other clients do not wait for ever */
		s = NULL;
	}
	while (wait(&status) > 0)
		failed |= status != 0;
	shmipc_server_destroy(s);
	return failed;
}
