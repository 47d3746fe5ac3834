/* SPDX-License-Identifier: MIT */
/*
 * Registrations that follow an import: between two processes, and with peers that the test
 * simulates.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "base/tcp.h"
#include "engine.h"
#include "host.h"

#define PIECE 4096u
#define PIECES 200u
#define LATER (PIECES * PIECE) /* bytes that duo_lend() does not register */

/* ---- the child's commands ---- */

/* The child's memory that is registered later: the second half. */
static uint8_t *piece(uint32_t i)
{
	return d.theirs + LATER + (size_t)i * PIECE;
}

static void lend(struct tent *t, uint32_t i)
{
	CHECK_EQ(tent_register(t, piece(i), PIECE, NULL, NULL), 0);
}

/*
 * 'r' registers piece 0, 'm' all others, 'd' unregisters every second one, 'a' unregisters and
 * registers piece 0, 'w' registers the second half as one piece.
 */
static uint16_t command(struct tent *t, char command)
{
	for (uint32_t i = 1; i < PIECES && command == 'm'; i++)
		lend(t, i);
	for (uint32_t i = 1; i < PIECES && command == 'd'; i += 2)
		CHECK_EQ(tent_unregister(t, piece(i)), 0);
	if (command == 'w')
		CHECK_EQ(tent_register(t, d.theirs + d.len / 2, d.len / 2, NULL, NULL), 0);
	if (command == 'a')
		CHECK_EQ(tent_unregister(t, piece(0)), 0);
	if (command == 'a' || command == 'r')
		lend(t, 0);
	return (uint16_t)tent_version(t);
}

/* The child registers the first half of its memory, and the second half later. */
static void open_half(bool no_import)
{
	duo_open(&(struct duo_attr){.len = 2 * LATER,
		.lent = LATER,
		.command = command,
		.no_import = no_import});
}

/* Writes and reads the pieces from @first to @last. */
static void move_pieces(uint32_t first, uint32_t last)
{
	size_t at = LATER + (size_t)first * PIECE, len = (size_t)(last - first + 1) * PIECE;
	uint64_t seed = test_seed();

	for (uint32_t i = first; i <= last; i++) {
		duo_random(&seed, d.mine + LATER + (size_t)i * PIECE, PIECE);
		CHECK_EQ(duo_move(TENT_WRITE, LATER + (size_t)i * PIECE, PIECE, 0), 0);
	}
	CHECK(!memcmp(d.mine + at, d.theirs + at, len));
	duo_random(&seed, d.theirs + at, len);
	for (uint32_t i = first; i <= last; i++)
		CHECK_EQ(duo_move(TENT_READ, LATER + (size_t)i * PIECE, PIECE, 0), 0);
	CHECK(!memcmp(d.mine + at, d.theirs + at, len));
}

static uint32_t remotes(void)
{
	struct tent_remote r;
	uint32_t n = 0;

	while (!tent_segment_remote(d.s, n, &r, sizeof(r)))
		n++;
	return n;
}

/* ---- two processes ---- */

TEST(memory_is_added)
{
	uint16_t version;

	open_half(false);
	CHECK_EQ(remotes(), 1);
	CHECK_EQ(duo_move(TENT_WRITE, LATER, PIECE, 0), -EFAULT);
	CHECK_EQ(tent_segment_await(d.s, 1, 0), 0); /* known since the import */
	version = duo_ask('r');
	CHECK_EQ(version, 2);
	CHECK_EQ(tent_segment_await(d.s, version, -1), 0);
	CHECK_EQ(remotes(), 2);
	move_pieces(0, 0);
	CHECK_EQ(tent_segment_await(d.s, version + 1u, 0), -ETIMEDOUT);
	CHECK_EQ(tent_segment_await(d.s, duo_ask('m'), 60000), 0);
	CHECK_EQ(remotes(), PIECES + 1);
	move_pieces(0, PIECES - 1);
}

/* An import from an old description includes the registrations that began after its export. */
TEST(an_old_description_knows_new_memory)
{
	open_half(true);
	duo_ask('r');
	d.s = duo_import(d.t, d.text);
	CHECK_EQ(remotes(), 2);
	move_pieces(0, 0);
	CHECK_EQ(tent_release(d.s), 0);
	duo_ask('m');
	duo_ask('d');
	d.s = duo_import(d.t, d.text);
	CHECK_EQ(remotes(), 2 + PIECES / 2 - 1);
	CHECK_EQ(duo_move(TENT_WRITE, LATER + PIECE, PIECE, 0), -EFAULT);
	move_pieces(0, 0);
	move_pieces(2, 2);
}

/* Memory that is registered again needs no new description. */
TEST(the_same_memory_again)
{
	open_half(false);
	CHECK_EQ(tent_segment_await(d.s, duo_ask('r'), -1), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(tent_segment_await(d.s, duo_ask('a'), -1), 0);
		move_pieces(0, 0);
	}
	CHECK_EQ(remotes(), 2);
}

/* Registrations begin and end while the importer learns of others. */
TEST(memory_comes_and_goes)
{
	open_half(false);
	duo_ask('r');
	duo_ask('m');
	duo_ask('d');
	for (int i = 0; i < 50; i++)
		duo_ask('a');
	CHECK_EQ(tent_segment_await(d.s, duo_ask('a'), -1), 0);
	CHECK_EQ(remotes(), 1 + PIECES / 2);
	move_pieces(0, 0);
	move_pieces(PIECES - 2, PIECES - 2);
	CHECK_EQ(duo_move(TENT_WRITE, LATER + PIECE, PIECE, 0), -EFAULT);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MANY 1000 /* with a sanitizer a registration takes ten times as long */
#else
#define MANY 10000
#endif

/* Two importers learn of most of these registrations after their import. */
TEST(many_registrations)
{
	const uint32_t n = MANY, before = 100, len = 64;
	uint8_t *all, mine[64];
	struct tent *lender, *importers[2];
	struct tent_segment *s[2];
	AT_END(end_free) char *text = NULL;

	if (!duo_rails("shm:"))
		return; /* it takes a second, and does not depend on the rails */
	all = test_shared((size_t)n * len);
	lender = duo_create(NULL, 0, 0);
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(tent_register(lender, all + (size_t)i * len, len, NULL, NULL), 0);
		if (i + 1 != before)
			continue;
		CHECK_EQ(tent_export(lender, &text), 0);
		for (int k = 0; k < 2; k++) {
			importers[k] = duo_create(NULL, 0, 0);
			CHECK_EQ(tent_register(importers[k], mine + k * 32, 32, NULL, NULL), 0);
			CHECK_EQ(tent_import(importers[k], text, NULL, &s[k]), 0);
		}
	}
	for (int k = 0; k < 2; k++) {
		struct tent_request r = {.op = TENT_WRITE,
			.local = mine + k * 32,
			.segment = s[k],
			.len = 32};
		struct tent_remote last;

		CHECK_EQ(tent_segment_await(s[k], tent_version(lender), -1), 0);
		CHECK_EQ(tent_segment_remote(s[k], n - 1, &last, sizeof(last)), 0);
		CHECK_EQ(tent_segment_remote(s[k], n, &last, sizeof(last)), -ENOENT);
		CHECK_EQ(last.addr, (uintptr_t)all + (uint64_t)(n - 1) * len);
		memset(mine, 'a' + k, sizeof(mine));
		for (uint32_t i = 0; i < n; i += 99) {
			struct tent_batch *b;

			r.remote = (uintptr_t)all + (uint64_t)i * len + (uint64_t)k * 32;
			CHECK_EQ(tent_submit(importers[k], &r, 1, &b), 0);
			CHECK_EQ(duo_end(b), 0);
			test_filled((uint8_t *)(uintptr_t)r.remote, 32, (uint8_t)('a' + k));
		}
		tent_destroy(importers[k]);
	}
	tent_destroy(lender);
	munmap(all, (size_t)n * len);
}

/* Each of 2048 parts has a key, so the text is longer than the reply to one request. */
TEST(many_parts)
{
	const size_t half = 8 * MIB;

	if (!duo_rails("tcp:"))
		return; /* copying threads have no keys */
	duo_open(&(
		struct duo_attr){.len = 2 * half, .lent = half, .parts = 4096, .command = command});
	CHECK_EQ(tent_segment_await(d.s, duo_ask('w'), -1), 0);
	memset(d.mine, 'A', d.len);
	CHECK_EQ(duo_move(TENT_WRITE, half, half, 0), 0);
	test_filled(d.theirs + half, half, 'A');
}

/* The peer dies before it reaches the version. */
TEST(nobody_registers_more)
{
	open_half(false);
	CHECK_EQ(tent_segment_await(d.s, duo_ask('r'), -1), 0);
	duo_kill();
	CHECK_EQ(tent_segment_await(d.s, 3, -1), -ECONNRESET);
	CHECK_EQ(tent_segment_await(d.s, 2, -1), 0); /* version 2 has been reached before */
	CHECK_EQ(duo_move(TENT_WRITE, LATER, PIECE, 0), -ECONNRESET);
}

static _Thread_local bool kills; /* the next sleep of this thread begins with the peer's death */

int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts);

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts)
{
	if (kills)
		duo_kill();
	kills = false;
	return __real_pthread_cond_timedwait(c, m, ts);
}

/* The engine's thread, which finds that the peer is dead, ends the wait. */
TEST(the_peer_dies_during_the_wait)
{
	open_half(false);
	kills = true;
	CHECK_EQ(tent_segment_await(d.s, 2, 60000), -ECONNRESET);
	CHECK(!kills);
}

/* ---- simulated importers ---- */

static uint32_t count(const char *text)
{
	uint32_t n = 0;

	while ((text = strstr(text, "\"id\":"))) {
		text++;
		n++;
	}
	return n;
}

/*
 * The engine sends one GREW, and no other until the importer requests registrations. A text
 * contains only some of them.
 */
TEST(who_does_not_ask)
{
	GUEST c = {.fd = -1};
	uint8_t *more = test_shared(100 * PIECE);
	struct ctl_msg m = {.type = CTL_FENCE};
	uint32_t version = 1, n = 0;

	host_begin();
	c = host_guest();
	for (uint32_t i = 0; i < 100; i++)
		CHECK_EQ(tent_register(host, more + i * PIECE, PIECE, NULL, NULL), 0);
	CHECK_EQ(host_await(&c, CTL_GREW).rail, 2);
	host_exchange(&c, m, CTL_FENCED); /* no other GREW has come */
	while (version < 101) {
		AT_END(end_free) char *text = host_memory(&c, version);

		n += count(text);
		version = 1 + n;
		CHECK(count(text) && count(text) <= 16);
		if (version < 101)
			CHECK_EQ(host_await(&c, CTL_GREW).rail, 101);
	}
	CHECK_EQ(n, 100);
	host_exchange(&c, m, CTL_FENCED);
	host_send(&c, (struct ctl_msg){.type = CTL_MORE, .epoch = version});
	host_disconnects(&c); /* there are no more registrations to request */
}

/* An id is never used again, so an engine makes a limited number of registrations. */
TEST(ids_come_to_an_end)
{
	uint8_t *more = test_shared(2 * PIECE);
	const uint32_t last = UINT32_MAX - DESC_MAX_BUFFERS;
	GUEST c = {.fd = -1};

	host_begin();
	c = host_guest();
	pthread_mutex_lock(&host->lock);
	host->version = last - 1;
	pthread_mutex_unlock(&host->lock);
	CHECK_EQ(tent_register(host, more, PIECE, NULL, NULL), 0);
	CHECK_EQ(host_await(&c, CTL_GREW).rail, last);
	duo_not_registered(host, (uintptr_t)more + PIECE, PIECE, NULL, -ENOSPC, "another engine");
	ctl_close(&c);
	CHECK_EQ(tent_unregister(host, more), 0);
	duo_not_registered(host, (uintptr_t)more, PIECE, NULL, -ENOSPC, "another engine");
	munmap(more, 2 * PIECE);
}

/* ---- simulated exporters ---- */

static struct {
	int listener;
	struct ctl_msg welcome;
	const struct ctl_msg *answers;
	uint32_t n;
	bool again; /* the importer must then confirm the end of registration 2, and request more */
} false_host;

static struct ctl welcome(void)
{
	struct ctl c;
	int fd;

	CHECK_EQ(tcp_accept(false_host.listener, tcp_limit(ANSWER_MS), &fd), 0);
	c = (struct ctl){.fd = fd};
	host_await(&c, CTL_HELLO);
	host_send(&c, false_host.welcome);
	return c;
}

/* Answers the greeting, and the first request. Then it waits for the end of the connection. */
static void *serve(void *arg)
{
	struct ctl c = welcome();
	struct ctl_msg m;

	if (false_host.welcome.rail > 1)
		host_await(&c, CTL_MORE);
	for (uint32_t i = 0; i < false_host.n; i++)
		host_send(&c, false_host.answers[i]);
	if (false_host.again) {
		CHECK_EQ(host_await(&c, CTL_UNREGISTERED).rail, 2);
		CHECK_EQ(host_await(&c, CTL_MORE).epoch, 1);
		ctl_end(&c);
	}
	while (!ctl_await(&c, ANSWER_MS, &m))
		;
	ctl_close(&c);
	return NULL;
}

/* Imports from a peer that this thread simulates. Returns the error, and writes its message. */
static int import_from(void *(*server)(void *), struct tent_why *why)
{
	AT_END(end_free) char *text = NULL;
	char *at, *copy = NULL;
	struct tent_segment *s = NULL;
	pthread_t thread;
	uint16_t port;
	int err;

	CHECK_EQ(ctl_listen(desc.host, 0, &false_host.listener, &port, NULL), 0);
	CHECK_EQ(tent_export(host, &text), 0);
	at = strstr(text, "\"port\":");
	CHECK(at && asprintf(&copy, "%.*s\"port\":%u%s", (int)(at - text), text, port,
			    at + strcspn(at, ",")) > 0);
	CHECK_EQ(pthread_create(&thread, NULL, server, NULL), 0);
	err = tent_import(host, copy, why, &s);
	CHECK(!s);
	pthread_join(thread, NULL);
	close(false_host.listener);
	free(copy);
	return err;
}

/*
 * Checks that the import from a peer with this version, which answers with these messages, fails.
 */
static void lies(uint32_t version, const struct ctl_msg *answers, uint32_t n)
{
	struct tent_why why = {""};

	false_host.welcome = (struct ctl_msg){.type = CTL_WELCOME, .rail = version};
	false_host.answers = answers;
	false_host.n = n;
	CHECK_EQ(import_from(serve, &why), false_host.again ? -ECONNRESET : -EPROTO);
	CHECK(why.text[0]);
}

static struct ctl_msg part(const char *text, uint32_t covers, uint16_t status)
{
	struct ctl_msg m = {.type = CTL_MEMORY,
		.status = status,
		.rail = (uint32_t)strlen(text),
		.epoch = covers};

	CHECK(m.rail <= CTL_TEXT);
	memcpy(m.text, text, m.rail);
	return m;
}

/* Makes the two parts of a text with one registration that has these fields. */
static void describe(struct ctl_msg parts[2], uint32_t covers, uint32_t id, uint64_t addr,
	const char *more)
{
	char text[CTL_TEXT + 1];

	snprintf(text, sizeof(text), "{\"buffers\":[{\"id\":%u,\"addr\":%llu,\"length\":4096,", id,
		(unsigned long long)addr);
	parts[0] = part(text, covers, CTL_PART);
	snprintf(text, sizeof(text),
		"\"part\":4096,\"location\":\"*\",\"tiers\":[0],\"keys\":[[1]]%s}]}", more);
	parts[1] = part(text, covers, 0);
}

/* The peer has version 2, and sends a text with one registration. */
static void lies_about(uint32_t covers, uint32_t id, uint64_t addr, const char *more)
{
	struct ctl_msg parts[2];

	describe(parts, covers, id, addr, more);
	lies(2, parts, 2);
}

TEST(who_tells_lies)
{
	struct ctl_msg m;

	host_begin();
	m = part("{", 2, 0);
	lies(2, &m, 1);
	m = part("{\"buffers\":[]}", 1, 0); /* the version that is known */
	lies(2, &m, 1);
	lies_about(2, 1, 4096, ""); /* the id is that of a known registration */
	lies_about(2, 3, 4096, ""); /* the id is higher than the version that the text covers */
	lies_about(2, 2, (uintptr_t)memory, ""); /* overlaps a known registration */
	lies_about(2, 2, 4096, ",\"staged\":true"); /* without a stage */
}

/* A registration ends while the text that describes it is under way: the text is dropped. */
TEST(memory_that_ends_in_between)
{
	struct ctl_msg m[3];

	host_begin();
	describe(m, 2, 2, 4096, "");
	m[2] = m[1];
	m[1] = (struct ctl_msg){.type = CTL_UNREGISTER, .rail = 2};
	false_host.again = true;
	lies(2, m, 3);
	false_host.again = false;
}

/* The lengths of a text and of its parts are limited. */
TEST(who_never_ends)
{
	const size_t max = 1u << 25;
	struct tent_segment s = {.growth = {.asked = true, .len = max - 9, .room = max + CTL_TEXT}};
	struct ctl_msg m = part("123456789", 2, CTL_PART);

	s.growth.text = malloc(s.growth.room);
	CHECK(s.growth.text);
	CHECK_EQ(learn_memory(&s, &m), 0);
	CHECK(!strcmp(s.growth.text + max - 9, "123456789"));
	m.rail = 1;
	CHECK_EQ(learn_memory(&s, &m), -EPROTO);
	s.growth.len = 0;
	CHECK_EQ(learn_memory(&s, &m), 0);
	m.rail = 0;
	CHECK_EQ(learn_memory(&s, &m), -EPROTO);
	m.rail = CTL_TEXT + 1;
	CHECK_EQ(learn_memory(&s, &m), -EPROTO);
	m.rail = CTL_TEXT;
	CHECK_EQ(learn_memory(&s, &m), 0);
	s.growth.asked = false;
	CHECK_EQ(learn_memory(&s, &m), -EPROTO); /* no text was requested */
	free(s.growth.text);
}

/* ---- exporters that delay the importer ---- */

static uint64_t ahead; /* how many seconds the clock is ahead; accessed by __atomic builtins */

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	int err = __real_clock_gettime(id, ts);

	ts->tv_sec += (time_t)__atomic_load_n(&ahead, __ATOMIC_ACQUIRE);
	return err;
}

static struct {
	uint16_t request; /* the type of the importer's messages */
	struct ctl_msg answer; /* to each one */
} slow;

/* Each answer comes after 9 s, a second before the limit of an answer. */
static void *serve_slowly(void *arg)
{
	struct ctl c = welcome();
	struct ctl_msg m;

	for (int i = 0; i < 50 && !ctl_await(&c, ANSWER_MS, &m);) {
		if (m.type != slow.request)
			continue;
		__atomic_fetch_add(&ahead, 9, __ATOMIC_ACQ_REL);
		ctl_send(&c, &slow.answer); /* the importer may have gone */
		i++;
	}
	ctl_close(&c);
	return NULL;
}

static void is_slow(uint32_t version, uint16_t request, struct ctl_msg answer, int err)
{
	struct tent_why why = {""};

	false_host.welcome = (struct ctl_msg){.type = CTL_WELCOME, .rail = version};
	slow.request = request;
	slow.answer = answer;
	CHECK_EQ(import_from(serve_slowly, &why), err);
	duo_says(&why, "timed out");
	__atomic_store_n(&ahead, 0, __ATOMIC_RELEASE);
}

/* The time of an import is limited, however many messages come. */
TEST(who_is_slow)
{
	const struct ctl_msg up = {.type = CTL_RAIL_UP};

	host_begin();
	is_slow(2, CTL_MORE, part(" ", 2, CTL_PART_ASK), -ETIMEDOUT);
	is_slow(1, CTL_CONNECT, up, -ENETUNREACH); /* the importer connects again */
}

static void *map_slowly(const struct desc *peer, const struct desc_buffer *b)
{
	__atomic_fetch_add(&ahead, 61, __ATOMIC_ACQ_REL);
	return NULL;
}

/*
 * The limit is that of the peer's answers: to map the peer's memory may take longer. The importer
 * maps the memory that the description names, and later the memory that has been registered since.
 */
TEST(memory_that_is_mapped_slowly)
{
	uint8_t *later = test_shared(HOST_LEN);
	AT_END(end_free) char *text = NULL;
	struct transport transport;
	struct tent *t;

	host_begin();
	CHECK_EQ(tent_export(host, &text), 0);
	CHECK_EQ(tent_register(host, later, HOST_LEN, NULL, NULL), 0);
	t = duo_create(NULL, 0, 0);
	pthread_mutex_lock(&t->lock);
	transport = *t->transport;
	transport.map = map_slowly;
	t->transport = &transport;
	pthread_mutex_unlock(&t->lock);
	duo_import(t, text);
	tent_destroy(t);
	munmap(later, HOST_LEN);
	__atomic_store_n(&ahead, 0, __ATOMIC_RELEASE);
}

static int unread(int fd)
{
	int bytes;

	CHECK_EQ(ioctl(fd, FIONREAD, &bytes), 0);
	return bytes;
}

/* An engine reads some of the messages, and then lets other threads have the lock. */
TEST(who_sends_without_end)
{
	AT_END(end_free) char *text = NULL;
	struct ctl_msg m = {.type = CTL_GREW};
	struct tent_segment *s;
	struct tent *t;

	host_begin();
	CHECK_EQ(tent_export(host, &text), 0);
	t = duo_create(NULL, 0, 0);
	s = duo_import(t, text);
	pthread_mutex_lock(&host->lock);
	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < 2 * READ_MAX; i++)
		host_send(&host->conns->ctl, m);
	while (unread(s->ctl.fd) < 2 * READ_MAX * CTL_LEN)
		sched_yield();
	move_progress(s, clock_ns(), true);
	CHECK_EQ(unread(s->ctl.fd), READ_MAX * CTL_LEN);
	pthread_mutex_unlock(&t->lock);
	pthread_mutex_unlock(&host->lock);
	tent_destroy(t);
}

int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
