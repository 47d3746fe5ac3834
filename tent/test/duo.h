/* SPDX-License-Identifier: MIT */
/*
 * Two processes: a child that registers memory, and the test, which reads and writes it. The
 * child's memory is a shared mapping, so the test can compare it without a request.
 *
 * TENT_RAILS=shm:N: N rails of shared memory, each a thread that copies; tcp:N: N rails over TCP;
 * mix:N: the adapters and N rails over TCP; otherwise the adapters. With TENT_ALLOC the memory of
 * both processes is from tent_alloc(), unless the child has more than one buffer.
 */
#ifndef TENT_TEST_DUO_H
#define TENT_TEST_DUO_H

#include <signal.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "duopipe.h"

struct duo_attr {
	size_t len; /* of the memory of each side */
	uint64_t parts; /* max_registration of both sides; 0: the default */
	const char *config; /* of the test's side */
	const char *target_config;
	bool no_import; /* duo_open() does not import the child's description */
	const char *target_location; /* of the child's memory */
	int rail_wait_ms; /* of the test's side */
	uint32_t buffers; /* number of registrations that hold the child's memory; 0: 1 */
	size_t lent; /* bytes of the child's memory that are registered; 0: all */
	const char *rails, *target_rails; /* of the two sides, instead of TENT_RAILS */
	const char *target_fabric; /* the child's fabric of the software HCA; NULL: the test's */
	/* Called in the child for commands that duo_child() does not handle. Returns the reply. */
	uint16_t (*command)(struct tent *t, char command);
};

/* The two sides of the case that runs. */
static struct {
	struct tent *t;
	struct tent_segment *s;
	uint8_t *mine, *theirs;
	uint64_t at; /* the address of the child's memory in the child */
	size_t len;
	bool allocs; /* mine is from tent_alloc() */
	char *text; /* the child's description */
	pid_t child;
	int fd;
} d;

static inline uint32_t duo_shm_rails(void)
{
	return duo_rails("shm:");
}

static inline struct tent *duo_create(const char *config, uint64_t parts, int rail_wait_ms)
{
	return duo_engine((struct tent_attr){
		.config = config,
		.max_registration = parts,
		.rail_wait_ms = rail_wait_ms,
	});
}

/*
 * Checks that the import fails, with a message of one line that contains @words, and makes no
 * segment.
 */
static inline void duo_not_imported(struct tent *t, const char *text, int err, const char *words)
{
	struct tent_segment *s = NULL;
	struct tent_why why = {""};

	CHECK_EQ(tent_import(t, text, &why, &s), err);
	duo_says(&why, words);
	CHECK(!s);
}

static inline bool duo_allocs(const struct duo_attr *a)
{
	return getenv("TENT_ALLOC") && a->buffers <= 1;
}

/* Registers the child's memory. */
static inline void duo_lend(const struct duo_attr *a, struct tent *t)
{
	uint32_t n = a->buffers ? a->buffers : 1;
	size_t len = (a->lent ? a->lent : d.len) / n;

	for (uint32_t i = 0; i < n && !duo_allocs(a); i++)
		CHECK_EQ(tent_register(t, d.theirs + i * len, len, a->target_location, NULL), 0);
	if (duo_allocs(a))
		CHECK_EQ(tent_alloc(t, d.len, a->target_location, NULL, (void **)&d.theirs), 0);
}

/* Maps the child's memory from tent_alloc(), by the descriptor in the child's description. */
static inline void duo_find(void)
{
	const char *fd = strstr(d.text, "\"fd\":"), *at = strstr(d.text, "\"addr\":");
	int process = pidfd_open(d.child, 0), copy;

	CHECK(fd && at && process >= 0);
	d.at = strtoull(at + 7, NULL, 10);
	copy = pidfd_getfd(process, atoi(fd + 5), 0);
	CHECK(copy >= 0);
	CHECK(mmap(d.theirs, d.len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, copy, 0) ==
		d.theirs);
	close(copy);
	close(process);
}

/*
 * The child's commands: 'n' takes a notice, 'e' checks that there is none, 'u' unregisters the
 * first buffer, 'x' ends.
 */
static inline void duo_child(const struct duo_attr *a, int fd)
{
	uint16_t value;
	char command = 0;
	struct tent *t;

	duo_rails_set = a->target_rails;
	if (a->target_fabric)
		setenv("SOFTHCA_FABRIC", a->target_fabric, true);
	t = duo_create(a->target_config, a->parts, 0);
	duo_lend(a, t);
	duo_write_text(fd, t);
	while (command != 'x') {
		duo_read(fd, &command, 1);
		value = 0;
		if (command == 'n')
			value = duo_take_notice(t);
		else if (command == 'e')
			CHECK_EQ(tent_notice(t, &value), -EAGAIN);
		else if (command == 'u')
			CHECK_EQ(tent_unregister(t, d.theirs), 0);
		else if (command != 'x' && a->command)
			value = a->command(t, command);
		duo_write(fd, &value, sizeof(value));
	}
	tent_destroy(t);
	exit(0);
}

static inline uint16_t duo_ask(char command)
{
	uint16_t value;

	duo_write(d.fd, &command, 1);
	duo_read(d.fd, &value, sizeof(value));
	return value;
}

/* Registers the test's memory. */
static inline void duo_own(void)
{
	if (d.allocs)
		CHECK_EQ(tent_alloc(d.t, d.len, NULL, NULL, (void **)&d.mine), 0);
	else
		CHECK_EQ(tent_register(d.t, d.mine, d.len, NULL, NULL), 0);
}

static inline void duo_close(void)
{
	CHECK_EQ(tent_release(d.s), 0);
	if (d.child) {
		duo_ask('x');
		CHECK_EQ(test_reap(d.child), 0);
	}
	tent_destroy(d.t);
	close(d.fd);
	free(d.text);
	if (!d.allocs)
		munmap(d.mine, d.len);
	munmap(d.theirs, d.len);
}

/* Opens both sides, which are closed at the end of the case. */
static inline void duo_open(const struct duo_attr *a)
{
	test_finally(duo_close);
	memset(&d, 0, sizeof(d));
	d.len = a->len;
	duo_rails_set = a->rails;
	d.allocs = duo_allocs(a);
	d.mine = d.allocs ? NULL : test_shared(a->len);
	d.theirs = test_shared(a->len);
	d.child = duo_fork(&d.fd);
	if (!d.child)
		duo_child(a, d.fd);
	d.text = duo_read_text(d.fd);
	d.at = (uintptr_t)d.theirs;
	if (duo_allocs(a))
		duo_find();
	d.t = duo_create(a->config, a->parts, a->rail_wait_ms);
	duo_own();
	if (!a->no_import)
		d.s = duo_import(d.t, d.text);
}

static inline void duo_kill(void)
{
	test_kill(d.child);
	d.child = 0;
}

/* Stops the child until it gets a SIGCONT. */
static inline void duo_stop(void)
{
	CHECK_EQ(kill(d.child, SIGSTOP), 0);
	test_stopped(d.child);
}

/*
 * Copies each page from a random position in a random table, so that a sanitizer sees one access
 * per page.
 */
static inline void duo_random(uint64_t *seed, uint8_t *bytes, size_t n)
{
	static uint64_t table[8192];
	static bool made;
	const size_t page = 4096, starts = sizeof(table) - page;

	for (size_t i = 0; !made && i < ARRAY_SIZE(table); i++)
		table[i] = test_rand(seed);
	made = true;
	for (size_t i = 0; i < n; i += page)
		memcpy(bytes + i, (uint8_t *)table + test_rand(seed) % starts,
			n - i < page ? n - i : page);
}

static inline struct tent_request duo_request(enum tent_op op, size_t at, size_t len)
{
	return (struct tent_request){
		.size = sizeof(struct tent_request),
		.op = op,
		.local = d.mine + at,
		.segment = d.s,
		.remote = d.at + at,
		.len = len,
	};
}

static inline struct tent_batch *duo_submit(const struct tent_request *r, uint32_t n)
{
	struct tent_batch *b;

	CHECK_EQ(tent_submit(d.t, r, n, &b), 0);
	return b;
}

/* Submits one request. */
static inline struct tent_batch *duo_start(enum tent_op op, size_t at, size_t len)
{
	const struct tent_request r = duo_request(op, at, len);

	return duo_submit(&r, 1);
}

/* Submits one request and waits until it ends. Returns its status. */
static inline int duo_move(enum tent_op op, size_t at, size_t len, uint16_t notify)
{
	struct tent_request r = duo_request(op, at, len);
	struct tent_batch *b;
	int err;

	r.notify = notify;
	err = tent_submit(d.t, &r, 1, &b);
	return err ? err : duo_end(b);
}

/*
 * Moves all bytes. Checks that both sides are equal then, and that the peer gets the notice, if
 * any.
 */
static inline void duo_move_all(enum tent_op op, uint16_t notify)
{
	CHECK_EQ(duo_move(op, 0, d.len, notify), 0);
	CHECK(!memcmp(d.mine, d.theirs, d.len));
	if (notify)
		CHECK_EQ(duo_ask('n'), notify);
}

static inline struct tent_status duo_status(struct tent_batch *b)
{
	struct tent_status status;

	tent_batch_status(b, &status, sizeof(status));
	return status;
}

#endif
