/* SPDX-License-Identifier: MIT */
/*
 * Functions of duo.h and gpuduo.h: engines, and a pipe between the test and its child.
 */
#ifndef TENT_TEST_DUOPIPE_H
#define TENT_TEST_DUOPIPE_H

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"
#include "tent.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

static const char *duo_rails_set; /* of this process's side; NULL: those of TENT_RAILS */

static inline uint32_t duo_rails(const char *kind)
{
	const char *rails = duo_rails_set ? duo_rails_set : getenv("TENT_RAILS");

	return rails && !strncmp(rails, kind, 4) ? (uint32_t)atoi(rails + 4) : 0;
}

/* Creates an engine with the rails of duo_rails(). */
static inline struct tent *duo_engine(struct tent_attr attr)
{
	struct tent_why why = {""};
	struct tent *t = NULL;
	int err;

	attr.size = sizeof(attr);
	attr.shm_rails = duo_rails("shm:");
	attr.tcp_rails = duo_rails("tcp:") + duo_rails("mix:");
	attr.adapters = duo_rails("mix:");
	attr.gpu_rails = duo_rails("gpu:");
	err = tent_create(&attr, &why, &t);
	if (err)
		fprintf(stderr, "tent_create: %s\n", why.text);
	CHECK_EQ(err, 0);
	return t;
}

/* Checks that a message is one line, which contains @words. */
static inline void duo_says(const struct tent_why *why, const char *words)
{
	if (!strstr(why->text, words))
		fprintf(stderr, "says: %s\n", why->text);
	CHECK(strstr(why->text, words) && !strchr(why->text, '\n'));
}

/* Checks that tent_create() refuses these attributes, with a message that contains @words. */
static inline void duo_refused(const struct tent_attr *attr, int err, const char *words)
{
	struct tent_why why = {""};
	struct tent *t = NULL;

	CHECK_EQ(tent_create(attr, &why, &t), err);
	duo_says(&why, words);
	CHECK_EQ(tent_create(attr, NULL, &t), err);
	CHECK(!t);
}

/* Checks that tent_register() refuses this memory, with a message that contains @words. */
static inline void duo_not_registered(struct tent *t, uint64_t at, size_t len, const char *location,
	int err, const char *words)
{
	struct tent_why why = {""};

	CHECK_EQ(tent_register(t, (void *)(uintptr_t)at, len, location, &why), err);
	duo_says(&why, words);
}

static inline struct tent_segment *duo_import(struct tent *t, const char *text)
{
	struct tent_segment *s = NULL;
	struct tent_why why = {""};
	int err = tent_import(t, text, &why, &s);

	if (err)
		fprintf(stderr, "tent_import: %s\n", why.text);
	CHECK_EQ(err, 0);
	return s;
}

/*
 * Forks a child. Returns its pid, or 0 in the child, and writes this process's end of a pipe in
 * both directions.
 */
static inline pid_t duo_fork(int *fd_p)
{
	int fds[2];
	pid_t child;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	fflush(NULL);
	child = test_fork();
	*fd_p = child ? fds[0] : fds[1];
	close(child ? fds[1] : fds[0]);
	return child;
}

static inline void duo_write(int fd, const void *bytes, size_t n)
{
	CHECK_EQ(write(fd, bytes, n), n);
}

static inline void duo_read(int fd, void *bytes, size_t n)
{
	for (size_t got = 0; got < n;) {
		ssize_t m = read(fd, (char *)bytes + got, n - got);

		CHECK(m > 0);
		got += (size_t)m;
	}
}

/* Writes a description of the engine, for duo_read_text(). */
static inline void duo_write_text(int fd, struct tent *t)
{
	AT_END(end_free) char *text = NULL;
	size_t len;

	CHECK_EQ(tent_export(t, &text), 0);
	len = strlen(text) + 1;
	duo_write(fd, &len, sizeof(len));
	duo_write(fd, text, len);
}

/* The caller must free the text. */
static inline char *duo_read_text(int fd)
{
	size_t len;
	char *text;

	duo_read(fd, &len, sizeof(len));
	text = malloc(len);
	CHECK(text);
	duo_read(fd, text, len);
	return text;
}

static inline uint16_t duo_take_notice(struct tent *t)
{
	struct pollfd p = {.fd = tent_notice_fd(t), .events = POLLIN};
	uint16_t value = 0;

	while (tent_notice(t, &value) == -EAGAIN)
		CHECK(poll(&p, 1, 60000) == 1);
	return value;
}

/* Waits until the batch has ended, and frees it. Returns its status. */
static inline int duo_end(struct tent_batch *b)
{
	int err = tent_wait(b, -1);

	CHECK_EQ(tent_batch_free(b), 0);
	return err;
}

#endif
