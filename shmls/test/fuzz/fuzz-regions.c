/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: shmls and a client (of delegrpc or shmipc) open a region that a stranger or a real
 * server has made. The stranger writes into the region while the client uses it. The input begins
 * with these numbers; the digits after each name are its width in bits:
 *
 *	flags8			LAYER (delegrpc; 0: shmipc), SERVED, GROUP (mode 0660), DEAD (no
 *				process holds the server's lock), EVENTS (attribute `events`)
 *	sizes8			SERVED: a real server makes the region, with these sizes
 *	size24 n16 bytes...	without SERVED: a file of that size, and its first n bytes. The
 *				version in these bytes is relative to the right version
 *
 * Then come steps:
 *
 *	0 len8			call
 *	1, 2			poll, flush
 *	3			the server answers all requests (SERVED)
 *	4 at24 len8 bytes...	the stranger writes into the region
 *	5			the server dies
 *	6			shmls looks at the region
 *	7			the client arms its descriptor
 *	8 capacity8		a blocking call with a timeout of 0
 *
 * An access outside of the mapping is an error: the mapping has the exact size of the file, and
 * memory without access on both sides. Each response must belong to a call that is open.
 */
#include <fcntl.h>
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "delegrpc.h"
#include "layout.h"
#include "region.h"
#include "support/fuzz.h"

#define PAGE ((size_t)4096)
#define CALLS 256 /* maximum number of calls that one input makes */
#define PAYLOAD 256

enum { LAYER = 1, SERVED = 2, GROUP = 4, DEAD = 8, EVENTS = 16 };

void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at);
int __real_munmap(void *addr, size_t len);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at);
int __wrap_munmap(void *addr, size_t len);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_nanosleep(const struct timespec *nap, struct timespec *rest);

static uint8_t open_calls[CALLS];
static uint64_t calls;

/* ---- the system ---- */

static size_t pages(size_t len)
{
	return (len + PAGE - 1) / PAGE * PAGE;
}

/* Maps a file between two pages without access. */
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at)
{
	char *all = __real_mmap(NULL, pages(len) + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	char *p = all + PAGE;

	must(all != MAP_FAILED && fd >= 0);
	must(__real_mmap(p, len, prot, flags | MAP_FIXED, fd, at) == p);
	ASAN_POISON_MEMORY_REGION(p + len, pages(len) - len);
	return p;
}

int __wrap_munmap(void *addr, size_t len)
{
	ASAN_UNPOISON_MEMORY_REGION(addr, pages(len));
	return __real_munmap((char *)addr - PAGE, pages(len) + 2 * PAGE);
}

/* Each reading of the clock advances it by a millisecond; sleeps do not advance it. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	static uint64_t ms;

	ms++;
	*ts = (struct timespec){(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
	return 0;
}

int __wrap_nanosleep(const struct timespec *nap, struct timespec *rest)
{
	return 0;
}

/* ---- both layers ---- */

static void on_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	unsigned *sum = arg;

	must(token < calls && open_calls[token]);
	open_calls[token] = 0;
	for (uint32_t i = 0; i < len; i++)
		*sum += ((const uint8_t *)resp)[i];
}

#define SIZES(s)                                                                                   \
	{                                                                                          \
		.max_clients = 1 + (s) % 2, .req_size = 1 + (s) / 2 % 64,                          \
		.resp_size = 1 + (s)*7 % 64                                                        \
	}

struct side {
	struct delegrpc_client *dc;
	struct delegrpc_server *ds;
	struct shmipc_client *sc;
	struct shmipc_server *ss;
	char file[64], path[80];
	const char *name; /* a part of `file` */
	int fd, lock; /* descriptors of the region; `lock` holds the lock of its server */
	size_t size; /* bytes of the region */
	unsigned sum;
};

static int side_serve(struct side *s, unsigned flags, unsigned sizes)
{
	struct delegrpc_attr d = SIZES(sizes);
	struct shmipc_attr m = SIZES(sizes);

	d.size = sizeof(d);
	m.size = sizeof(m);
	d.events = m.events = flags & EVENTS;
	d.resp_depth = m.depth = 1 + sizes % 8;
	m.extra_size = sizes;
	d.mode = m.mode = flags & GROUP ? 0660 : 0600;
	return flags & LAYER ? delegrpc_server_create(s->name, &d, &s->ds) :
			       shmipc_server_create(s->name, &m, &s->ss);
}

static int side_connect(struct side *s, unsigned flags)
{
	struct delegrpc_attr d = {.mode = flags & GROUP ? 0660 : 0};
	struct shmipc_attr m = {.mode = flags & GROUP ? 0660 : 0};

	return flags & LAYER ? delegrpc_client_connect(s->name, &d, &s->dc) :
			       shmipc_client_connect(s->name, &m, &s->sc);
}

static void side_call(struct side *s, uint32_t len)
{
	static const uint8_t payload[PAYLOAD];
	int err;

	if (calls == CALLS)
		return;
	err = s->dc ? delegrpc_client_call(s->dc, payload, len, calls) :
		      shmipc_client_call(s->sc, payload, len, calls);
	must(err <= 0);
	open_calls[calls++] = !err;
}

static void side_poll(struct side *s)
{
	int n = s->dc ? delegrpc_client_poll(s->dc, on_response, &s->sum) :
			shmipc_client_poll(s->sc, on_response, &s->sum);

	must(n <= (int)calls);
}

static void side_flush(struct side *s)
{
	if (s->dc)
		delegrpc_client_flush(s->dc);
	else
		shmipc_client_flush(s->sc);
}

static void side_take_events(struct side *s)
{
	struct delegrpc_event d;
	struct shmipc_event m;

	while (s->ds && delegrpc_server_event(s->ds, &d, sizeof(d)) > 0)
		must(d.index < 2 && d.kind <= DELEGRPC_EVENT_DIED);
	while (s->ss && shmipc_server_event(s->ss, &m, sizeof(m)) > 0)
		must(m.index < 2 && m.kind <= SHMIPC_EVENT_DIED);
}

/* Answers each request with its bytes. A reply that exceeds resp_size is refused. */
static void side_answer(struct side *s)
{
	struct delegrpc_req d;
	struct shmipc_req m;
	uint8_t copy[PAYLOAD];

	if (s->ds) {
		delegrpc_server_poll(s->ds);
		side_take_events(s);
		while (delegrpc_server_recv(s->ds, &d) > 0)
			delegrpc_server_reply(s->ds, d.client, d.id, d.payload, d.len);
		delegrpc_server_advance_tail(s->ds);
		delegrpc_server_flush(s->ds);
	} else if (s->ss) {
		shmipc_server_poll(s->ss);
		side_take_events(s);
		while (shmipc_server_recv(s->ss, &m, copy, sizeof(copy)) > 0)
			shmipc_server_reply(s->ss, m.client, m.id, copy, m.len);
		shmipc_server_flush(s->ss);
	}
}

static void side_die(struct side *s)
{
	delegrpc_server_destroy(s->ds);
	shmipc_server_destroy(s->ss);
	s->ds = NULL;
	s->ss = NULL;
	if (s->lock >= 0)
		close(s->lock);
	s->lock = -1;
}

static void side_arm(struct side *s)
{
	int fd = s->dc ? delegrpc_client_fd(s->dc) : shmipc_client_fd(s->sc);

	if (fd >= 0)
		must((s->dc ? delegrpc_client_arm(s->dc) : shmipc_client_arm(s->sc)) <= 1);
}

/* The response goes to allocated memory, so that the sanitizer detects overruns. */
static void side_call_wait(struct side *s, uint32_t capacity)
{
	uint8_t request = 0, *resp = malloc(capacity ? capacity : 1);
	uint32_t len = 0;
	int err;

	must(resp);
	err = s->dc ? delegrpc_client_call_wait(s->dc, &request, 1, resp, capacity, 0, &len) :
		      shmipc_client_call_wait(s->sc, &request, 1, resp, capacity, 0, &len);
	must(err <= 0 && len <= SHMIPC_MAX_PAYLOAD);
	free(resp);
}

/* Checks that the client's index is in range, and that its whole extra buffer can be written. */
static void side_check(struct side *s)
{
	struct delegrpc_attr d;
	struct shmipc_attr m;

	if (s->dc) {
		delegrpc_client_get_attr(s->dc, &d, sizeof(d));
		must(delegrpc_client_index(s->dc) < d.max_clients);
		return;
	}
	shmipc_client_get_attr(s->sc, &m, sizeof(m));
	must(shmipc_client_index(s->sc) < m.max_clients);
	if (m.extra_size)
		memset(shmipc_client_extra(s->sc), 0, m.extra_size);
}

/* A client whose server has ended connects to the next one, or to the file of a stranger. */
static void side_reconnect(struct side *s, unsigned flags, unsigned sizes)
{
	if ((s->sc ? shmipc_client_abort(s->sc, on_response, &s->sum) :
		     delegrpc_client_abort(s->dc, on_response, &s->sum)) < 0)
		return;
	if (flags & SERVED && !s->ds && !s->ss)
		must(!side_serve(s, flags, sizes));
	if (s->sc)
		shmipc_client_reconnect(s->sc, 0);
	else
		delegrpc_client_reconnect(s->dc, 0);
	side_check(s);
}

static void side_disconnect(struct side *s)
{
	delegrpc_client_disconnect(s->dc);
	shmipc_client_disconnect(s->sc);
}

static void side_look(const struct side *s)
{
	struct region *r = calloc(1, sizeof(*r));

	must(r && !region_read(s->file, r) && r->err <= 0);
	if (!r->err) {
		must(r->size == s->size && r->in_use <= r->ring_depth);
		must(r->n_clients == r->alive + r->dead && r->n_clients <= r->max_clients);
		for (size_t i = 0; i < r->n_clients; i++)
			must(r->client[i].index < r->max_clients);
	}
	regions_free(r, 1);
}

/* ---- the input ---- */

static void put(struct side *s, struct input *in, size_t at, size_t len)
{
	size_t left = (size_t)(in->end - in->at);

	len = len < left ? len : left;
	len = len < s->size - at ? len : s->size - at;
	must(pwrite(s->fd, in->at, len, (off_t)at) == (ssize_t)len);
	in->at += len;
}

/* The version in the input is relative to the right version: adds the right version to it. */
static void put_version(const struct side *s, unsigned flags)
{
	uint32_t version;

	if (pread(s->fd, &version, sizeof(version), 8) != sizeof(version))
		return;
	version += flags & LAYER ? DELEGRPC_VERSION : SHMIPC_VERSION;
	must(pwrite(s->fd, &version, sizeof(version), 8) == sizeof(version));
}

/* Makes the file of a stranger, with or without the lock that a living server holds. */
static void side_forge(struct side *s, unsigned flags, struct input *in)
{
	struct flock fl = {.l_type = F_WRLCK, .l_len = 1};

	s->size = take(in, 3);
	s->fd = open(s->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	s->lock = open(s->path, O_RDWR | O_CLOEXEC);
	must(s->fd >= 0 && s->lock >= 0 && !ftruncate(s->fd, (off_t)s->size));
	must(!(flags & GROUP) || !fchmod(s->fd, 0660));
	put(s, in, 0, take(in, 2));
	put_version(s, flags);
	if (!(flags & DEAD))
		must(!fcntl(s->lock, F_OFD_SETLK, &fl));
}

static bool side_open(struct side *s, unsigned flags, struct input *in)
{
	s->fd = s->lock = -1;
	snprintf(s->file, sizeof(s->file), "%s.fuzz-%d", flags & LAYER ? "delegrpc" : "shmipc",
		(int)getpid());
	snprintf(s->path, sizeof(s->path), "/dev/shm/%s", s->file);
	s->name = strchr(s->file, '.') + 1;
	if (flags & SERVED) {
		must(!side_serve(s, flags, take(in, 1)));
		s->fd = open(s->path, O_RDWR | O_CLOEXEC);
		must(s->fd >= 0);
		s->size = (size_t)lseek(s->fd, 0, SEEK_END);
	} else {
		side_forge(s, flags, in);
	}
	side_look(s);
	return !side_connect(s, flags);
}

static void side_scribble(struct side *s, struct input *in)
{
	size_t at = take(in, 3) % s->size;

	put(s, in, at, take(in, 1));
}

static void step(struct side *s, struct input *in)
{
	switch (take(in, 1) % 9) {
	case 0:
		side_call(s, take(in, 1));
		break;
	case 1:
		side_poll(s);
		break;
	case 2:
		side_flush(s);
		break;
	case 3:
		side_answer(s);
		break;
	case 4:
		side_scribble(s, in);
		break;
	case 5:
		side_die(s);
		break;
	case 6:
		side_look(s);
		break;
	case 7:
		side_arm(s);
		break;
	default:
		side_call_wait(s, take(in, 1));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	struct side s = {.sum = 0};

	calls = 0;
	if (side_open(&s, take(&in, 1), &in)) {
		side_check(&s);
		while (in.at < in.end)
			step(&s, &in);
		side_look(&s);
		side_reconnect(&s, data[0], size > 1 ? data[1] : 0);
		side_disconnect(&s);
	}
	side_die(&s);
	close(s.fd);
	unlink(s.path);
	return 0;
}
