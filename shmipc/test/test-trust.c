/* SPDX-License-Identifier: MIT */
/* Hostile files and hostile clients. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common.h"
#include "loan.h"

/* ---- files that are not complete regions ---- */

TEST(links_are_refused)
{
	struct shmipc_server *s = NULL;
	struct shmipc_client *c = NULL;
	const char *path = test_file(RPC_PREFIX);
	char target[128];

	snprintf(target, sizeof(target), "%s.target", path);
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
	CHECK_EQ(fcntl(fd, F_OFD_SETLK, &fl), 0); /* like a living server; exit closes fd */
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
	struct shmipc_header bad[8];
	const char *path = test_file(RPC_PREFIX);

	CHECK_EQ(shmipc_layout_plan(&a, &l), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].magic++;
	bad[1].version++;
	bad[2].max_clients = UINT32_MAX;
	bad[3].max_clients = 0;
	bad[4].depth = UINT32_MAX;
	bad[5].req_size = 1 << 20; /* a region of this size would be longer than the file */
	bad[6].extra_size = UINT32_MAX;
	bad[7].version--;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		write_file(path, &bad[i], sizeof(bad[i]), (off_t)l.size);
		CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -EPROTO);
		CHECK_EQ(unlink(path), 0);
	}
	for (size_t i = 0; i < 4; i++) { /* one size is 0; the file's length suits its default */
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
	good.magic = 0; /* the server has not completed the region */
	write_file(path, &good, sizeof(good), (off_t)l.size);
	CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -EAGAIN);
	CHECK_EQ(unlink(path), 0);
	CHECK(!c);
}

/* ---- a client that writes random data ---- */

struct range {
	size_t from, to; /* bytes of the region */
};

#define LOANS 8

/* The regions of the tests below have loans, pushes and events. */
static struct shmipc_attr hostile_attr(uint32_t extra_size)
{
	struct shmipc_attr a = msg_attr;

	a.size = sizeof(a);
	a.extra_size = extra_size;
	a.events = 1;
	a.pushes = 5;
	a.loans = LOANS;
	a.loan_req_size = 200;
	a.loan_resp_size = 4096;
	return a;
}

/*
 * Writes a request in a loan, with a random lap, to this cell. The server reads the request if it
 * expects that lap next.
 */
static void forge_loan(char *cell, uint64_t *seed)
{
	uint64_t v = test_rand(seed);
	struct loan_message m = {(uint32_t)(v >> 8) % (LOANS + 2), (uint32_t)(v >> 16) % 256};

	memcpy(cell + sizeof(uint64_t), &m, sizeof(m));
	__atomic_store_n((uint64_t *)cell,
		CELLRING_HEAD(v % 16, 1, 1) |
			CELLRING_MESSAGE(LOAN_BIT | (uint32_t)(v >> 32) % 40, sizeof(m)),
		__ATOMIC_RELEASE);
}

/* Writes random words to the ranges until it is killed; values with a meaning are more likely. */
static void scribble(const struct range *ranges, size_t n, uint64_t seed)
{
	int fd = open(test_file(RPC_PREFIX), O_RDWR);
	struct stat st;
	char *map;

	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	for (;;) {
		const struct range *r = &ranges[test_rand(&seed) % n];
		size_t at = r->from + test_rand(&seed) % (r->to - r->from);
		uint64_t v = test_rand(&seed);

		if (v % 5 == 0 && at + 2 * CACHE_LINE < r->to)
			forge_loan(map + at / CACHE_LINE * CACHE_LINE, &seed);
		if (v % 4 == 0) /* a line begins with a head, an epoch, a state or bits */
			at = at / CACHE_LINE * CACHE_LINE;
		if (v % 3 == 0)
			v %= 5; /* may be the lap that is expected, or a valid id */
		__atomic_store_n((uint32_t *)(map + at / 4 * 4), (uint32_t)v, __ATOMIC_RELAXED);
	}
}

static int commit_tag(struct shmipc_client *c, uint64_t tag)
{
	struct msg m = msg_of(tag);
	void *loan;

	CHECK_EQ(shmipc_client_loan(c, &loan), 0);
	memcpy(loan, &m, sizeof(m));
	return shmipc_client_commit(c, loan, sizeof(m), tag);
}

/*
 * Runs a correct client in its own process; half of its calls have loans. The exit status is 0 if
 * all answers were correct.
 */
static void good_client(uint32_t calls)
{
	struct shmipc_client *c = client_new();
	struct tally t = {.size = calls, .seen = calloc(calls, 1)};
	uint32_t sent = 0;

	CHECK_EQ(shmipc_client_index(c), 0);
	while (t.n < calls) {
		while (sent < calls && shmipc_client_pending(c) < 8) {
			CHECK_EQ(sent % 2 ? commit_tag(c, sent) : call_tag(c, sent), 0);
			sent++;
		}
		if (!shmipc_client_poll(c, tally_take, &t))
			CHECK(shmipc_client_wait(c, SHMIPC_FOREVER) >= 0);
	}
	shmipc_client_disconnect(c);
	free(t.seen);
	_exit(0);
}

/* Answers a request: in its loan, if it has a loan and the seed is even, otherwise in the ring. */
static int answer_anything(struct shmipc_server *s, const struct shmipc_req *r, const struct msg *a,
	uint64_t seed)
{
	void *loan;

	if (seed % 2 || shmipc_server_loan(s, r->client, r->id, &loan))
		return shmipc_server_reply(s, r->client, r->id, a, sizeof(*a));
	memset(loan, 1, 4096);
	memcpy(loan, a, sizeof(*a));
	return shmipc_server_commit(s, r->client, r->id, sizeof(*a));
}

/* Checks that the payload of a request in a loan is in the area of the request's client. */
static void check_loan(struct shmipc_server *s, const struct shmipc_req *r, const void *payload)
{
	const struct shmipc_layout *l = &s->loans->layout;
	uint32_t index = SHMIPC_CLIENT_INDEX(r->client);
	char *place = (char *)shmipc_place(l, s->loans->header, index);
	void *loan;

	if (shmipc_server_loan(s, r->client, r->id, &loan))
		return;
	CHECK((const char *)payload >= place + l->pool);
	CHECK((const char *)payload + r->len <= place + l->area);
	CHECK((char *)loan + l->attr.loan_resp_size <= place + l->area);
}

/*
 * Receives a request by shmipc_server_recv() or shmipc_server_take(). A request may be shorter than
 * a message.
 */
static int receive_anything(struct shmipc_server *s, struct shmipc_req *r, struct msg *q,
	uint64_t seed)
{
	static unsigned char bytes[200];
	const void *payload;

	if (seed % 3 == 0)
		return shmipc_server_recv(s, r, q, sizeof(*q));
	if (!shmipc_server_take(s, r, &payload))
		return 0;
	CHECK(r->len <= sizeof(bytes));
	check_loan(s, r, payload);
	memcpy(bytes, payload, r->len);
	memcpy(q, bytes, sizeof(*q));
	return 1;
}

/* Counts of the requests of a place: all, and those in loans. */
struct forged {
	uint64_t all, loans;
};

/* Like serve_once(), for requests with any contents. Counts those from place @index. */
static void serve_anything(struct shmipc_server *s, uint32_t index, struct forged *forged)
{
	static uint64_t seed;
	struct shmipc_req r;
	struct shmipc_event e;
	struct msg q, a;
	void *loan;

	shmipc_server_poll(s);
	while (shmipc_server_event(s, &e, sizeof(e)) > 0)
		CHECK(e.index < msg_attr.max_clients);
	while (receive_anything(s, &r, &q, test_rand(&seed))) {
		bool lent = shmipc_server_loan(s, r.client, r.id, &loan) == 0;

		forged->all += SHMIPC_CLIENT_INDEX(r.client) == index;
		forged->loans += lent && SHMIPC_CLIENT_INDEX(r.client) == index;
		a = msg_of(msg_answer(q.tag));
		CHECK_EQ(answer_anything(s, &r, &a, test_rand(&seed)),
			r.id == SHMIPC_POST ? -EINVAL : 0);
		shmipc_server_push(s, SHMIPC_CLIENT_INDEX(r.client), &a, sizeof(a));
		if (shmipc_server_extra(s, r.client))
			memset(shmipc_server_extra(s, r.client), 1, 64);
	}
}

/*
 * A hostile client writes only to its own place, and to server_state, which every client may write.
 * The other clients are not disturbed.
 */
TEST(harm_stays_in_the_own_place)
{
	struct shmipc_attr attr = hostile_attr(4096);
	SERVER *s = server_with(&attr);
	CLIENT *c = NULL;
	struct shmipc_layout l;
	struct range r[3];
	struct forged forged = {0};
	pid_t good, bad;
	size_t place;
	int status;

	CHECK_EQ(shmipc_layout_plan(&attr, &l), 0);
	good = test_fork();
	if (good == 0)
		good_client(10000);
	while (!shmipc_server_poll(s)) /* the correct client is connected, in place 0 */
		sched_yield();
	c = client_new();
	CHECK_EQ(shmipc_client_index(c), 1);
	do { /* the server must see client 1 before scribble() overwrites the epoch of its place */
		serve_anything(s, 1, &forged);
	} while (server_stats_of(s).connects < 2);
	place = sizeof(struct shmipc_header) + l.area;
	r[0] = (struct range){place, place + l.area};
	r[1] = r[0];
	r[2] = (struct range){offsetof(struct shmipc_header, server_state),
		offsetof(struct shmipc_header, server_state) + 4};
	bad = test_fork();
	if (bad == 0)
		scribble(r, ARRAY_SIZE(r), 1);
	while (waitpid(good, &status, WNOHANG) == 0)
		serve_anything(s, 1, &forged);
	while (!forged.all || !forged.loans) /* until the server has seen requests of both kinds */
		serve_anything(s, 1, &forged);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	test_kill(bad);
}

/* A client in a region that others overwrite, and the response that it holds. */
struct victim {
	struct shmipc_client *c;
	const void *held;
};

static void hold_one(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct victim *v = arg;

	if (!v->held && resp && shmipc_client_hold(v->c, resp) == 0)
		v->held = resp;
}

/* Makes a call of each kind. It may fail, but must not crash. */
static void victim_turn(struct victim *v, uint64_t tag)
{
	struct msg m = msg_of(tag);
	void *loan;

	if (!v->c && shmipc_client_connect(test_name, NULL, &v->c) != 0)
		return;
	shmipc_client_call(v->c, &m, sizeof(m), 0);
	shmipc_client_post(v->c, &m, sizeof(m));
	CHECK(shmipc_client_posts(v->c) <= msg_attr.depth);
	if (shmipc_client_loan(v->c, &loan) == 0) {
		memset(loan, 1, 200);
		if (shmipc_client_commit(v->c, loan, tag % 201, 0))
			CHECK_EQ(shmipc_client_release(v->c, loan), 0);
	}
	if (shmipc_client_poll(v->c, hold_one, v) < 0) {
		shmipc_client_disconnect(v->c);
		*v = (struct victim){NULL, NULL};
	} else if (v->held && tag % 3 == 0) {
		CHECK_EQ(shmipc_client_release(v->c, v->held), 0);
		v->held = NULL;
	}
}

/*
 * A hostile client overwrites everything: the server does not die or hang, and can still be
 * destroyed. The server's reports about other clients may be wrong.
 */
static void outlive(uint64_t seed)
{
	struct shmipc_attr attr = hostile_attr(100);
	SERVER *s = server_with(&attr);
	struct victim v[4] = {{NULL, NULL}};
	struct forged forged = {0};
	struct shmipc_layout l;
	struct range r[2];
	pid_t bad;

	CHECK_EQ(shmipc_layout_plan(&attr, &l), 0);
	for (int i = 0; i < 4; i++)
		v[i].c = client_new();
	r[0] = (struct range){0, l.size};
	r[1] = (struct range){0, sizeof(struct shmipc_header)};
	bad = test_fork();
	if (bad == 0)
		scribble(r, ARRAY_SIZE(r), seed);
	for (uint64_t i = 0; i < 100; i++) {
		serve_anything(s, 0, &forged);
		if (i % 50 == 0)
			CHECK(shmipc_server_wait(s, NSEC_PER_USEC) >= 0);
		for (int k = 0; k < 4; k++)
			victim_turn(&v[k], i);
	}
	test_kill(bad);
	for (int k = 0; k < 4; k++)
		shmipc_client_disconnect(v[k].c);
}

/* Begins often, because no client can connect any more when the region's magic is overwritten. */
TEST(server_outlives_any_scribbling)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 40; i++)
		outlive(test_rand(&seed));
}
