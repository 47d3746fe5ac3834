/* SPDX-License-Identifier: MIT */
/* Hostile files, clients and servers, and forked children. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common.h"
#include "layout.h"

static pid_t fork_child(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		alarm(120);
	return pid;
}

/* ---- files that are not complete regions ---- */

TEST(links_are_refused)
{
	struct shmipc_server *s = NULL;
	struct shmipc_client *c = NULL;
	char path[96], target[96];

	snprintf(path, sizeof(path), "/dev/shm/shmipc.%s", test_name);
	snprintf(target, sizeof(target), "/dev/shm/shmipc.%s.target", test_name);
	CHECK_EQ(symlink(target, path), 0);
	CHECK(shmipc_server_create(test_name, NULL, &s) < 0);
	CHECK(shmipc_client_connect(test_name, NULL, &c) < 0);
	CHECK(access(target, F_OK) != 0);
	CHECK_EQ(unlink(path), 0);
	CHECK(!s && !c);
}

static void write_file(const char *path, const void *data, size_t len, off_t size)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
	struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	CHECK(fd >= 0);
	CHECK_EQ(pwrite(fd, data, len, 0), (ssize_t)len);
	CHECK_EQ(ftruncate(fd, size), 0);
	CHECK_EQ(fcntl(fd, F_OFD_SETLK, &fl), 0); /* a server lives; leaks until exit */
}

TEST(foreign_files_are_refused)
{
	struct shmipc_header good = {.magic = SHMIPC_MAGIC,
		.version = SHMIPC_VERSION,
		.max_clients = 2,
		.depth = 4,
		.req_size = 8,
		.resp_size = 8};
	struct shmipc_attr a = {.max_clients = 2, .depth = 4, .req_size = 8, .resp_size = 8};
	struct shmipc_layout l, zero;
	struct shmipc_client *c = NULL;
	struct shmipc_header bad[7];
	char path[96];

	snprintf(path, sizeof(path), "/dev/shm/shmipc.%s", test_name);
	CHECK_EQ(shmipc_layout_plan(&a, &l), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].magic++;
	bad[1].version++;
	bad[2].max_clients = UINT32_MAX;
	bad[3].max_clients = 0;
	bad[4].depth = UINT32_MAX;
	bad[5].req_size = 1 << 20; /* a region with it would be longer than the file */
	bad[6].extra_size = UINT32_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		write_file(path, &bad[i], sizeof(bad[i]), (off_t)l.size);
		CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -EPROTO);
		CHECK_EQ(unlink(path), 0);
	}
	for (size_t i = 0; i < 4; i++) { /* files as long as with the default */
		bad[0] = good;
		(&bad[0].max_clients)[i] = 0;
		a = (struct shmipc_attr){.max_clients = bad[0].max_clients,
			.depth = bad[0].depth,
			.req_size = bad[0].req_size,
			.resp_size = bad[0].resp_size};
		CHECK_EQ(shmipc_layout_plan(&a, &zero), 0);
		write_file(path, &bad[0], sizeof(bad[0]), (off_t)zero.size);
		CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -EPROTO);
		CHECK_EQ(unlink(path), 0);
	}
	bad[0] = good;
	bad[0].closed = 1;
	write_file(path, &bad[0], sizeof(bad[0]), (off_t)l.size);
	CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -ECONNREFUSED);
	CHECK_EQ(unlink(path), 0);
	write_file(path, &good, sizeof(good), (off_t)l.size - 64);
	CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -EPROTO);
	CHECK_EQ(unlink(path), 0);
	write_file(path, &good, 8, 100); /* the file is shorter than a header */
	CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -EAGAIN);
	CHECK_EQ(unlink(path), 0);
	good.magic = 0; /* the server has not completed it */
	write_file(path, &good, sizeof(good), (off_t)l.size);
	CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -EAGAIN);
	CHECK_EQ(unlink(path), 0);
	CHECK(!c);
}

/* ---- a client that writes random data ---- */

struct range {
	size_t from, to; /* bytes of the region */
};

/* Writes random words to the ranges until it is killed; values with a meaning are more likely. */
static void scribble(const char *name, const struct range *ranges, size_t n, uint64_t seed)
{
	char path[96];
	struct stat st;
	char *map;
	int fd;

	snprintf(path, sizeof(path), "/dev/shm/shmipc.%s", test_name);
	fd = open(path, O_RDWR);
	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	for (;;) {
		const struct range *r = &ranges[test_rand(&seed) % n];
		size_t at = r->from + test_rand(&seed) % (r->to - r->from);
		uint64_t v = test_rand(&seed);

		if (v % 4 == 0)
			at = at / CACHE_LINE * CACHE_LINE; /* laps, epochs, states, bits */
		if (v % 3 == 0)
			v %= 5; /* may be the lap that is expected, or a valid id */
		__atomic_store_n((uint32_t *)(map + at / 4 * 4), (uint32_t)v, __ATOMIC_RELAXED);
	}
}

/* Runs a correct client in a process of its own. Its status is 0 if all answers were right. */
static void good_client(const char *name, uint32_t calls)
{
	struct shmipc_client *c = NULL;
	struct tally t = {.size = calls, .seen = calloc(calls, 1)};
	uint32_t sent = 0;

	CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), 0);
	CHECK_EQ(shmipc_client_index(c), 0);
	while (t.n < calls) {
		while (sent < calls && shmipc_client_pending(c) < 8) {
			CHECK_EQ(call_tag(c, sent), 0);
			sent++;
		}
		if (!shmipc_client_poll(c, tally_take, &t))
			CHECK(shmipc_client_wait(c, SHMIPC_FOREVER) >= 0);
	}
	shmipc_client_disconnect(c);
	free(t.seen);
	_exit(0);
}

/* Like serve_once(), for requests with any contents. Returns how many came from place @index. */
static uint64_t serve_anything(struct shmipc_server *s, uint32_t index)
{
	uint64_t n = 0;
	struct shmipc_req r;
	struct shmipc_event e;
	struct msg q, a;

	shmipc_server_poll(s);
	while (shmipc_server_event(s, &e, sizeof(e)) > 0)
		CHECK(e.index < msg_attr.max_clients);
	while (shmipc_server_recv(s, &r, &q, sizeof(q)) > 0) {
		n += SHMIPC_CLIENT_INDEX(r.client) == index;
		a = msg_of(msg_answer(q.tag));
		CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &a, sizeof(a)),
			r.id == SHMIPC_POST ? -EINVAL : 0);
		shmipc_server_push(s, SHMIPC_CLIENT_INDEX(r.client), &a, sizeof(a));
		if (shmipc_server_extra(s, r.client))
			memset(shmipc_server_extra(s, r.client), 1, 64);
	}
	return n;
}

/*
 * A hostile client writes only to its own place, and to the words that every client may write,
 * except other clients' bits. The other clients are not disturbed.
 */
TEST(harm_stays_in_the_own_place)
{
	struct shmipc_attr attr = msg_attr;
	SERVER *s = NULL;
	CLIENT *c = NULL;
	struct shmipc_layout l;
	struct range r[3];
	uint64_t forged = 0;
	pid_t good, bad;
	struct shmipc_server_stats st;
	size_t place;
	int status;

	attr.extra_size = 4096;
	attr.size = sizeof(attr);
	attr.events = 1;
	attr.pushes = 5;
	CHECK_EQ(shmipc_layout_plan(&attr, &l), 0);
	CHECK_EQ(shmipc_server_create(test_name, &attr, &s), 0);
	good = fork_child();
	if (good == 0)
		good_client(test_name, 10000);
	while (!shmipc_server_poll(s)) /* the correct client is connected, in place 0 */
		sched_yield();
	CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), 0);
	CHECK_EQ(shmipc_client_index(c), 1);
	do { /* a place whose epoch is overwritten too early is never served */
		serve_anything(s, 1);
		shmipc_server_get_stats(s, &st, sizeof(st));
	} while (st.connects < 2);
	place = sizeof(struct shmipc_header) + l.area;
	r[0] = (struct range){place, place + l.area};
	r[1] = r[0];
	r[2] = (struct range){offsetof(struct shmipc_header, server_state),
		offsetof(struct shmipc_header, server_state) + 4};
	bad = fork_child();
	if (bad == 0)
		scribble(test_name, r, ARRAY_SIZE(r), 1);
	while (waitpid(good, &status, WNOHANG) == 0)
		forged += serve_anything(s, 1);
	while (!forged) /* until the server has seen requests of the hostile client */
		forged += serve_anything(s, 1);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK_EQ(kill(bad, SIGKILL), 0);
	CHECK_EQ(waitpid(bad, &status, 0), bad);
}

static void ignore(void *arg, uint64_t token, const void *resp, uint32_t len)
{
}

/*
 * A hostile client overwrites everything: the server does not die or hang, and still ends in order.
 * Its reports about other clients may be wrong.
 */
TEST(server_outlives_any_scribbling)
{
	struct shmipc_attr attr = msg_attr;
	SERVER *s = NULL;
	struct shmipc_client *c[4] = {NULL};
	struct shmipc_layout l;
	struct range r[2];
	uint64_t seed = test_seed();
	pid_t bad;
	int status;

	attr.extra_size = 100;
	attr.size = sizeof(attr);
	attr.events = 1;
	attr.pushes = 5;
	CHECK_EQ(shmipc_layout_plan(&attr, &l), 0);
	CHECK_EQ(shmipc_server_create(test_name, &attr, &s), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(shmipc_client_connect(test_name, NULL, &c[i]), 0);
	r[0] = (struct range){0, l.size};
	r[1] = (struct range){0, sizeof(struct shmipc_header)};
	bad = fork_child();
	if (bad == 0)
		scribble(test_name, r, ARRAY_SIZE(r), seed);
	for (int i = 0; i < 5000; i++) {
		struct msg m = msg_of((uint64_t)i);

		serve_anything(s, 0);
		if (i % 100 == 0)
			CHECK(shmipc_server_wait(s, NSEC_PER_USEC) >= 0);
		/* Clients may fail, but must not crash. */
		for (int k = 0; k < 4; k++) {
			if (!c[k] && shmipc_client_connect(test_name, NULL, &c[k]) != 0)
				continue;
			shmipc_client_call(c[k], &m, sizeof(m), 0);
			shmipc_client_post(c[k], &m, sizeof(m));
			CHECK(shmipc_client_posts(c[k]) <= attr.depth);
			if (shmipc_client_poll(c[k], ignore, NULL) < 0) {
				shmipc_client_disconnect(c[k]);
				c[k] = NULL;
			}
		}
	}
	CHECK_EQ(kill(bad, SIGKILL), 0);
	CHECK_EQ(waitpid(bad, &status, 0), bad);
	for (int k = 0; k < 4; k++)
		shmipc_client_disconnect(c[k]);
}
