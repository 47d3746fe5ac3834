/* SPDX-License-Identifier: MIT */
/*
 * The storm of the layers with a server and clients in processes, delegrpc and shmipc. Processes of
 * several clients each, which are threads, connect, call, sleep in either way, poll, give up calls,
 * leave in mid-traffic and are killed; the server holds requests, answers in any order, sleeps, is
 * killed, stopped and started again. A client checks that each call ends once, with its own answer,
 * or with the server's end; the server that each request arrives once, whole, and that an answer is
 * refused only if its client has gone. Included by one file of a program, whose main() ends in
 * storm_main(argc, argv, rpcstorm_seed).
 */
#ifndef SUPPORT_RPCSTORM_H
#define SUPPORT_RPCSTORM_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "support/storm.h"

#define RPCSTORM_GROUPS 4 /* processes of clients at a time */
#define RPCSTORM_THREADS 3 /* clients in a process */
#define RPCSTORM_STARTS 48 /* processes of clients in a seed */
#define RPCSTORM_LIVES 16384 /* connections in a seed */
#define RPCSTORM_CALLS 512 /* of a connection */
#define RPCSTORM_HELD 128
#define RPCSTORM_LEAST 8 /* bytes of a request: its number */
#define RPCSTORM_SKIP_WORDS 64

/* The sizes of a region, for the layer to make its attributes of; 0: not given. */
struct rpcstorm_shape {
	uint32_t clients, depth, ring, req, resp, extra;
};

struct rpcstorm_req {
	uint64_t client, id;
	uint32_t len;
	const void *payload;
};

typedef void rpcstorm_fn(void *arg, uint64_t token, const void *resp, uint32_t len);

/* A region as it was looked at. */
struct rpcstorm_look {
	struct rpcstorm_shape shape;
	uint32_t clients, dead, in_use; /* in_use: of the request ring; 0 where there is none */
};

struct rpcstorm_layer {
	const char *prefix;
	struct rpcstorm_shape defaults, beyond; /* documented; one more than the largest */
	int (*create_unknown)(const char *name); /* with a bit that is none */
	int (*look)(const char *name, struct rpcstorm_look *look_p, uint32_t *seen_p);
	int (*create)(const char *name, const struct rpcstorm_shape *shape, void **s_p);
	void (*destroy)(void *s);
	int (*unlink)(void *s);
	int (*remove_dead)(const char *name);
	int (*server_poll)(void *s, const uint64_t *skip); /* skip may be ignored */
	int (*server_wait)(void *s, uint64_t ns);
	int (*server_fd)(void *s);
	int (*server_arm)(void *s);
	void (*server_flush)(void *s);
	int (*recv)(void *s, struct rpcstorm_req *r);
	int (*reply)(void *s, uint64_t client, uint64_t id, const void *resp, uint32_t len);
	void (*taken)(void *s); /* all that was received */
	void *(*server_extra)(void *s, uint64_t client);
	uint64_t (*server_bad)(void *s); /* requests that no honest client makes */
	int (*connect)(const char *name, const struct rpcstorm_shape *shape, void **c_p);
	void (*disconnect)(void *c);
	int (*call)(void *c, const void *req, uint32_t len, uint64_t token);
	void (*flush)(void *c);
	int (*poll)(void *c, rpcstorm_fn *fn, void *arg);
	int (*wait)(void *c, uint64_t ns);
	int (*fd)(void *c);
	int (*arm)(void *c);
	int (*call_wait)(void *c, const void *req, uint32_t len, void *resp, uint32_t capacity,
		uint64_t ns, uint32_t *len_p);
	uint32_t (*pending)(void *c);
	int (*abort)(void *c, rpcstorm_fn *fn, void *arg); /* NULL: calls end without a word */
	void *(*client_extra)(void *c);
	uint64_t (*client_bad)(void *c);
	uint32_t (*shape_resp)(void *c); /* resp_size of the region */
	uint32_t (*shape_req)(void *c);
};

/* The functions that are the same but for the type; a layer has the others, and two shapes. */
#define RPCSTORM_LAYER(P)                                                                          \
	static void rpcstorm_destroy(void *s)                                                      \
	{                                                                                          \
		P##_server_destroy(s);                                                             \
	}                                                                                          \
	static int rpcstorm_unlink(void *s)                                                        \
	{                                                                                          \
		return P##_server_unlink(s);                                                       \
	}                                                                                          \
	static int rpcstorm_server_wait(void *s, uint64_t ns)                                      \
	{                                                                                          \
		return P##_server_wait(s, ns);                                                     \
	}                                                                                          \
	static int rpcstorm_server_fd(void *s)                                                     \
	{                                                                                          \
		return P##_server_fd(s);                                                           \
	}                                                                                          \
	static int rpcstorm_server_arm(void *s)                                                    \
	{                                                                                          \
		return P##_server_arm(s);                                                          \
	}                                                                                          \
	static void rpcstorm_server_flush(void *s)                                                 \
	{                                                                                          \
		P##_server_flush(s);                                                               \
	}                                                                                          \
	static uint64_t rpcstorm_server_bad(void *s)                                               \
	{                                                                                          \
		struct P##_server_stats st;                                                        \
                                                                                                   \
		P##_server_get_stats(s, &st, sizeof(st));                                          \
		return st.bad_requests;                                                            \
	}                                                                                          \
	static int rpcstorm_create(const char *name, const struct rpcstorm_shape *shape,           \
		void **s_p)                                                                        \
	{                                                                                          \
		struct P##_attr attr = rpcstorm_attr(shape);                                       \
		struct P##_server *s = NULL;                                                       \
		int err = P##_server_create(name, &attr, &s);                                      \
                                                                                                   \
		*s_p = s;                                                                          \
		return err;                                                                        \
	}                                                                                          \
	static int rpcstorm_create_unknown(const char *name)                                       \
	{                                                                                          \
		struct P##_attr attr = {.mode = 0660, .set = 1u << 7};                             \
		struct P##_server *s;                                                              \
                                                                                                   \
		return P##_server_create(name, &attr, &s);                                         \
	}                                                                                          \
	static void rpcstorm_seen(void *arg, const struct P##_look_client *client)                 \
	{                                                                                          \
		++*(uint32_t *)arg;                                                                \
	}                                                                                          \
	static int rpcstorm_connect(const char *name, const struct rpcstorm_shape *shape,          \
		void **c_p)                                                                        \
	{                                                                                          \
		struct P##_attr attr = rpcstorm_attr(shape);                                       \
		struct P##_client *c = NULL;                                                       \
		int err = P##_client_connect(name, &attr, &c);                                     \
                                                                                                   \
		*c_p = c;                                                                          \
		return err;                                                                        \
	}                                                                                          \
	static void rpcstorm_disconnect(void *c)                                                   \
	{                                                                                          \
		P##_client_disconnect(c);                                                          \
	}                                                                                          \
	static int rpcstorm_call(void *c, const void *req, uint32_t len, uint64_t token)           \
	{                                                                                          \
		return P##_client_call(c, req, len, token);                                        \
	}                                                                                          \
	static void rpcstorm_flush(void *c)                                                        \
	{                                                                                          \
		P##_client_flush(c);                                                               \
	}                                                                                          \
	static int rpcstorm_poll(void *c, rpcstorm_fn *fn, void *arg)                              \
	{                                                                                          \
		return P##_client_poll(c, fn, arg);                                                \
	}                                                                                          \
	static int rpcstorm_wait(void *c, uint64_t ns)                                             \
	{                                                                                          \
		return P##_client_wait(c, ns);                                                     \
	}                                                                                          \
	static int rpcstorm_fd(void *c)                                                            \
	{                                                                                          \
		return P##_client_fd(c);                                                           \
	}                                                                                          \
	static int rpcstorm_arm(void *c)                                                           \
	{                                                                                          \
		return P##_client_arm(c);                                                          \
	}                                                                                          \
	static int rpcstorm_call_wait(void *c, const void *req, uint32_t len, void *resp,          \
		uint32_t capacity, uint64_t ns, uint32_t *len_p)                                   \
	{                                                                                          \
		return P##_client_call_wait(c, req, len, resp, capacity, ns, len_p);               \
	}                                                                                          \
	static uint32_t rpcstorm_pending(void *c)                                                  \
	{                                                                                          \
		return P##_client_pending(c);                                                      \
	}                                                                                          \
	static uint32_t rpcstorm_shape_resp(void *c)                                               \
	{                                                                                          \
		struct P##_attr attr;                                                              \
                                                                                                   \
		P##_client_get_attr(c, &attr, sizeof(attr));                                       \
		return attr.resp_size;                                                             \
	}                                                                                          \
	static uint32_t rpcstorm_shape_req(void *c)                                                \
	{                                                                                          \
		struct P##_attr attr;                                                              \
                                                                                                   \
		P##_client_get_attr(c, &attr, sizeof(attr));                                       \
		return attr.req_size;                                                              \
	}                                                                                          \
	static const struct rpcstorm_layer rpcstorm = {                                            \
		.prefix = #P,                                                                      \
		.defaults = RPCSTORM_DEFAULTS,                                                     \
		.beyond = RPCSTORM_BEYOND,                                                         \
		.create_unknown = rpcstorm_create_unknown,                                         \
		.look = rpcstorm_look_at,                                                          \
		.create = rpcstorm_create,                                                         \
		.destroy = rpcstorm_destroy,                                                       \
		.unlink = rpcstorm_unlink,                                                         \
		.remove_dead = P##_remove_dead,                                                    \
		.server_poll = rpcstorm_server_poll,                                               \
		.server_wait = rpcstorm_server_wait,                                               \
		.server_fd = rpcstorm_server_fd,                                                   \
		.server_arm = rpcstorm_server_arm,                                                 \
		.server_flush = rpcstorm_server_flush,                                             \
		.recv = rpcstorm_recv,                                                             \
		.reply = rpcstorm_reply,                                                           \
		.taken = rpcstorm_taken,                                                           \
		.server_extra = rpcstorm_server_extra,                                             \
		.server_bad = rpcstorm_server_bad,                                                 \
		.connect = rpcstorm_connect,                                                       \
		.disconnect = rpcstorm_disconnect,                                                 \
		.call = rpcstorm_call,                                                             \
		.flush = rpcstorm_flush,                                                           \
		.poll = rpcstorm_poll,                                                             \
		.wait = rpcstorm_wait,                                                             \
		.fd = rpcstorm_fd,                                                                 \
		.arm = rpcstorm_arm,                                                               \
		.call_wait = rpcstorm_call_wait,                                                   \
		.pending = rpcstorm_pending,                                                       \
		.abort = rpcstorm_abort,                                                           \
		.client_extra = rpcstorm_client_extra,                                             \
		.client_bad = rpcstorm_client_bad,                                                 \
		.shape_resp = rpcstorm_shape_resp,                                                 \
		.shape_req = rpcstorm_shape_req,                                                   \
	}

static const struct rpcstorm_layer rpcstorm;

static int rpcstorm_errno; /* of each sendto(2) of this process; 0: none */

ssize_t __real_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *sa,
	socklen_t n);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *sa,
	socklen_t n);

/* A sandbox that is there from time to time: the program is linked with -Wl,--wrap=sendto. */
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *sa,
	socklen_t n)
{
	int err = __atomic_load_n(&rpcstorm_errno, __ATOMIC_RELAXED);

	if (!err)
		return __real_sendto(fd, buf, len, flags, sa, n);
	errno = err;
	return -1;
}

/* Shared by all processes of a seed. */
struct rpcstorm_shared {
	uint64_t ended; /* calls that have ended in any way */
	uint32_t lives; /* connections begun */
	uint32_t stop; /* the server is asked to end */
	uint32_t up; /* servers that have started */
	uint32_t dying[RPCSTORM_STARTS]; /* set before a process is killed */
	uint16_t start_of[RPCSTORM_LIVES]; /* the process of a connection */
	uint8_t gone[RPCSTORM_LIVES]; /* set before the connection ends */
	uint8_t received[RPCSTORM_LIVES][RPCSTORM_CALLS]; /* by the server */
};

/* The schedule that a seed has drawn. */
static struct {
	struct rpcstorm_shared *sh;
	struct rpcstorm_shape shape;
	char name[64], file[128];
	uint64_t quota; /* calls of a thread */
	struct rpcstorm_shape given; /* what the server gives; 0: the default */
	bool one_process, kills_clients, kills_servers, stops_servers;
	bool refuses; /* clients may not send at times */
	bool gives_shape; /* clients say which sizes they expect */
} rpcstorm_draw;

static inline uint64_t rpcstorm_number(uint32_t life, uint32_t call)
{
	return (uint64_t)life << 32 | call;
}

/* ---- the server ---- */

struct rpcstorm_held {
	uint64_t client, id, number;
};

struct rpcstorm_server {
	void *s;
	uint64_t rng;
	uint32_t hold, n_held, idle;
	struct rpcstorm_held held[RPCSTORM_HELD];
	unsigned char *buf;
};

static inline bool rpcstorm_has_gone(uint64_t number)
{
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	uint32_t life = (uint32_t)(number >> 32);

	/* Acquire: pairs with the stores before a disconnect and before a kill. */
	return __atomic_load_n(&sh->gone[life], __ATOMIC_ACQUIRE) ||
	       __atomic_load_n(&sh->dying[sh->start_of[life]], __ATOMIC_ACQUIRE);
}

static inline void rpcstorm_answer(struct rpcstorm_server *v, uint32_t i)
{
	struct rpcstorm_held h = v->held[i];
	uint32_t most = rpcstorm_draw.shape.resp, len = storm_length(h.number, 1, 0, most);
	unsigned char *extra = rpcstorm.server_extra(v->s, h.client);
	int err;

	v->held[i] = v->held[--v->n_held];
	storm_fill(v->buf, len, h.number, 1);
	if (storm_one_in(&v->rng, 64)) {
		err = rpcstorm.reply(v->s, h.client, h.id, v->buf, most + 1);
		CHECK(err == -EMSGSIZE || (err == -EPIPE && rpcstorm_has_gone(h.number)));
	}
	if (extra) /* its client wrote it before the call, and has nobody else here */
		(void)*(volatile unsigned char *)extra;
	err = rpcstorm.reply(v->s, h.client, h.id, v->buf, len);
	CHECK(err == 0 || (err == -EPIPE && rpcstorm_has_gone(h.number)));
	if (storm_one_in(&v->rng, 16)) {
		err = rpcstorm.reply(v->s, h.client, h.id, v->buf, len);
		CHECK(err == -EINVAL || (err == -EPIPE && rpcstorm_has_gone(h.number)));
	}
}

/* Answers a request that was not received, or that has been answered. */
static inline void rpcstorm_answer_nothing(struct rpcstorm_server *v)
{
	uint64_t client = v->n_held ? v->held[0].client : test_rand(&v->rng) & 0xffff;
	uint64_t id = v->n_held ? v->held[0].id : test_rand(&v->rng);
	int err;

	if (storm_one_in(&v->rng, 2))
		id ^= 1ull << storm_draw(&v->rng, 0, 31);
	else
		client ^= 1ull << storm_draw(&v->rng, 0, 31);
	for (uint32_t i = 0; i < v->n_held; i++)
		if (v->held[i].client == client && v->held[i].id == id)
			return;
	err = rpcstorm.reply(v->s, client, id, v->buf, 0);
	CHECK(err == -EINVAL || err == -EPIPE);
}

static inline void rpcstorm_answer_all(struct rpcstorm_server *v)
{
	while (v->n_held)
		rpcstorm_answer(v, storm_draw(&v->rng, 0, v->n_held - 1));
}

/* Takes what has come; how many. */
static inline uint32_t rpcstorm_take(struct rpcstorm_server *v)
{
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	uint32_t n = 0, most = storm_draw(&v->rng, 1, 64);
	struct rpcstorm_req r;

	for (; n < most && rpcstorm.recv(v->s, &r); n++) {
		uint32_t life, call;
		uint64_t number;

		CHECK(r.len >= RPCSTORM_LEAST);
		memcpy(&number, r.payload, sizeof(number));
		life = (uint32_t)(number >> 32);
		call = (uint32_t)number;
		CHECK(life < __atomic_load_n(&sh->lives, __ATOMIC_ACQUIRE));
		CHECK(call < RPCSTORM_CALLS);
		CHECK_EQ(r.len, storm_length(number, 0, RPCSTORM_LEAST, rpcstorm_draw.shape.req));
		storm_check((const unsigned char *)r.payload + 8, r.len - 8, number, 0);
		CHECK_EQ(sh->received[life][call]++, 0);
		if (v->n_held == RPCSTORM_HELD)
			rpcstorm_answer(v, storm_draw(&v->rng, 0, v->n_held - 1));
		v->held[v->n_held++] = (struct rpcstorm_held){r.client, r.id, number};
		while (v->n_held > v->hold)
			rpcstorm_answer(v, storm_draw(&v->rng, 0, v->n_held - 1));
	}
	if (!storm_one_in(&v->rng, 4))
		rpcstorm.taken(v->s);
	return n;
}

/* Sleeps in one of the ways until something comes, or for a while. */
static inline void rpcstorm_server_nap(struct rpcstorm_server *v)
{
	/* A client that is killed before it wakes a server leaves that to the next one. */
	bool timeless = !rpcstorm_draw.kills_clients && storm_one_in(&v->rng, 2);
	uint64_t ns = storm_size(&v->rng, 4 << 20);
	struct pollfd p = {.events = POLLIN};
	int r;

	rpcstorm_answer_all(v);
	rpcstorm.taken(v->s);
	if (storm_one_in(&v->rng, 2)) {
		r = rpcstorm.server_wait(v->s, ns);
		CHECK(r == 0 || r == 1);
		return;
	}
	p.fd = rpcstorm.server_fd(v->s);
	CHECK(p.fd >= 0);
	r = rpcstorm.server_arm(v->s);
	CHECK(r == 0 || r == 1);
	CHECK(poll(&p, 1, r ? 0 : timeless ? -1 : (int)(ns >> 20)) >= 0);
}

static inline void rpcstorm_server_turn(struct rpcstorm_server *v)
{
	uint64_t skip[RPCSTORM_SKIP_WORDS];
	int n;

	for (uint32_t i = 0; i < RPCSTORM_SKIP_WORDS; i++)
		skip[i] = test_rand(&v->rng);
	n = rpcstorm.server_poll(v->s, storm_one_in(&v->rng, 4) ? skip : NULL);
	CHECK(n >= 0);
	if (rpcstorm_take(v)) {
		v->idle = 0;
		if (storm_one_in(&v->rng, 8))
			rpcstorm.server_flush(v->s);
		return;
	}
	rpcstorm.taken(v->s);
	v->idle++;
	if (storm_one_in(&v->rng, 16))
		rpcstorm_answer_nothing(v);
	if (v->n_held && storm_one_in(&v->rng, 4))
		rpcstorm_answer(v, storm_draw(&v->rng, 0, v->n_held - 1));
	if (v->idle % 8 == 0)
		rpcstorm_server_nap(v);
	else if (storm_one_in(&v->rng, 4))
		sched_yield();
}

static inline void rpcstorm_serve(uint64_t seed)
{
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	struct rpcstorm_server v = {.rng = seed};
	int before = fdtest_open();

	v.hold = storm_one_in(&v.rng, 3) ? 0 : storm_size(&v.rng, RPCSTORM_HELD - 1);
	v.buf = (unsigned char *)malloc(rpcstorm_draw.shape.resp + 8);
	CHECK(v.buf);
	CHECK_EQ(rpcstorm.create(rpcstorm_draw.name, &rpcstorm_draw.given, &v.s), 0);
	__atomic_fetch_add(&sh->up, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&sh->stop, __ATOMIC_ACQUIRE))
		rpcstorm_server_turn(&v);
	if (storm_one_in(&v.rng, 2))
		rpcstorm_answer_all(&v);
	CHECK_EQ(rpcstorm.server_bad(v.s), 0);
	if (storm_one_in(&v.rng, 4))
		CHECK_EQ(rpcstorm.unlink(v.s), 0);
	rpcstorm.destroy(v.s);
	free(v.buf);
	CHECK(access(rpcstorm_draw.file, F_OK) != 0);
	if (rpcstorm_draw.one_process)
		return;
	CHECK_EQ(fdtest_open(), before);
	CHECK_EQ(storm_mappings(rpcstorm_draw.file), 0);
}

/* ---- a client ---- */

enum rpcstorm_state { RPCSTORM_NONE, RPCSTORM_OPEN, RPCSTORM_ENDED, RPCSTORM_LATE };

struct rpcstorm_client {
	void *c;
	uint64_t rng;
	uint32_t start; /* of its process */
	uint32_t life, made, open, most, resp, req;
	uint64_t left; /* calls to make yet */
	bool chains, aborting, sleeps, over;
	uint8_t state[RPCSTORM_CALLS];
	unsigned char *buf;
};

static inline void rpcstorm_ended(struct rpcstorm_client *t, uint32_t call)
{
	t->state[call] = RPCSTORM_ENDED;
	t->open--;
	__atomic_fetch_add(&rpcstorm_draw.sh->ended, 1, __ATOMIC_RELAXED);
}

static inline uint32_t rpcstorm_request(struct rpcstorm_client *t, uint64_t number)
{
	uint32_t len = storm_length(number, 0, RPCSTORM_LEAST, t->req);

	memcpy(t->buf, &number, 8);
	storm_fill(t->buf + 8, len - 8, number, 0);
	return len;
}

static inline int rpcstorm_call_one(struct rpcstorm_client *t)
{
	uint64_t number = rpcstorm_number(t->life, t->made);
	uint32_t len = rpcstorm_request(t, number);
	int err;

	if (storm_one_in(&t->rng, 64)) {
		err = rpcstorm.call(t->c, t->buf, t->req + 1, number);
		CHECK_EQ(err, -EMSGSIZE);
	}
	err = rpcstorm.call(t->c, t->buf, len, number);
	CHECK(err == 0 || err == -EAGAIN || err == -EPIPE);
	if (!err) {
		t->state[t->made++] = RPCSTORM_OPEN;
		t->open++;
	}
	return err;
}

static inline void rpcstorm_response(void *arg, uint64_t number, const void *resp, uint32_t len)
{
	struct rpcstorm_client *t = (struct rpcstorm_client *)arg;
	uint32_t call = (uint32_t)number;

	CHECK_EQ(number >> 32, t->life);
	CHECK(call < t->made && t->state[call] == RPCSTORM_OPEN);
	CHECK_EQ(resp != NULL, !t->aborting);
	if (resp) {
		CHECK_EQ(len, storm_length(number, 1, 0, t->resp));
		storm_check(resp, len, number, 1);
	}
	rpcstorm_ended(t, call);
	if (t->chains && !t->aborting && t->made < t->most)
		rpcstorm_call_one(t);
}

/* Returns true for the errors of a client that may not always send. */
static inline bool rpcstorm_refused(int r)
{
	return rpcstorm_draw.refuses && (r == -EPERM || r == -ENOBUFS);
}

/* Handles what a function of the client has returned: a count, or the server's end. */
static inline int rpcstorm_result(struct rpcstorm_client *t, int r)
{
	CHECK(r >= 0 || r == -EPIPE || rpcstorm_refused(r));
	t->over |= r == -EPIPE;
	return r;
}

static inline int rpcstorm_client_poll(struct rpcstorm_client *t)
{
	uint32_t open = t->open, made = t->made;
	int r = rpcstorm_result(t, rpcstorm.poll(t->c, rpcstorm_response, t));

	if (r >= 0) /* what was open or made meanwhile, less what is open now */
		CHECK_EQ(open + t->made - made - t->open, (uint32_t)r);
	return r;
}

static inline void rpcstorm_client_nap(struct rpcstorm_client *t)
{
	uint64_t ns = storm_one_in(&t->rng, 4) ? UINT64_MAX : storm_size(&t->rng, 4 << 20);
	struct pollfd p = {.events = POLLIN};
	int r;

	if (storm_one_in(&t->rng, 2)) {
		rpcstorm_result(t, rpcstorm.wait(t->c, ns));
		return;
	}
	p.fd = rpcstorm.fd(t->c);
	CHECK(p.fd >= 0);
	r = rpcstorm_result(t, rpcstorm.arm(t->c));
	CHECK(r != -EPIPE);
	if (r < 0 || (!r && !t->open))
		return;
	CHECK(poll(&p, 1, r ? 0 : ns == UINT64_MAX ? -1 : (int)(ns >> 20)) >= 0);
}

/* One call that blocks. The answer of a call that times out may come late and is dropped. */
static inline void rpcstorm_blocking(struct rpcstorm_client *t)
{
	static const uint64_t times[] = {0, 1000, 100000, UINT64_MAX, UINT64_MAX};
	uint64_t number = rpcstorm_number(t->life, t->made);
	uint32_t want, got = 0, capacity, len = rpcstorm_request(t, number);
	int err;

	want = storm_length(number, 1, 0, t->resp);
	capacity = storm_one_in(&t->rng, 2) ? t->resp : storm_draw(&t->rng, 0, t->resp);
	err = rpcstorm.call_wait(t->c, t->buf, len, t->buf, capacity,
		times[storm_draw(&t->rng, 0, ARRAY_SIZE(times) - 1)], &got);
	if (err == -EAGAIN) { /* all ids are those of calls that were given up */
		rpcstorm_client_poll(t);
		return;
	}
	CHECK(err == 0 || err == -ETIMEDOUT || err == -EPIPE || rpcstorm_refused(err));
	t->over |= err == -EPIPE;
	t->state[t->made++] = err ? RPCSTORM_LATE : RPCSTORM_ENDED;
	if (!err) {
		CHECK_EQ(got, want);
		storm_check(t->buf, got < capacity ? got : capacity, number, 1);
	}
	__atomic_fetch_add(&rpcstorm_draw.sh->ended, 1, __ATOMIC_RELAXED);
}

static inline void rpcstorm_client_turn(struct rpcstorm_client *t, uint32_t burst)
{
	if (rpcstorm_draw.refuses && storm_one_in(&t->rng, 16))
		__atomic_store_n(&rpcstorm_errno, storm_one_in(&t->rng, 2) ? EPERM : ENOBUFS,
			__ATOMIC_RELAXED);
	else if (storm_one_in(&t->rng, 8))
		__atomic_store_n(&rpcstorm_errno, 0, __ATOMIC_RELAXED);
	switch (storm_draw(&t->rng, 0, 4)) {
	case 0:
		for (uint32_t i = 0; i < burst && t->made < t->most; i++)
			if (rpcstorm_call_one(t))
				break;
		break;
	case 1:
		rpcstorm.flush(t->c);
		break;
	case 2:
		if (t->sleeps && t->open)
			rpcstorm_client_nap(t);
		else
			sched_yield();
		break;
	default:
		rpcstorm_client_poll(t);
	}
}

/* The server has ended: nothing comes any more, and no call is taken. */
static inline void rpcstorm_after_end(struct rpcstorm_client *t)
{
	int r;

	__atomic_store_n(&rpcstorm_errno, 0, __ATOMIC_RELAXED);
	while ((r = rpcstorm_client_poll(t)) > 0)
		;
	for (int i = 0; (r == 0 || rpcstorm_refused(r)) && i < 100000;
		i++) /* another call was first */
		r = rpcstorm_client_poll(t);
	CHECK_EQ(r, -EPIPE);
	CHECK_EQ(rpcstorm_call_one(t), -EPIPE);
	CHECK_EQ(rpcstorm.wait(t->c, 0) > 0, 0);
	if (!rpcstorm.abort)
		return;
	t->aborting = true;
	r = (int)t->open;
	CHECK_EQ(rpcstorm.abort(t->c, rpcstorm_response, t), r);
	CHECK_EQ(t->open, 0);
	CHECK_EQ(rpcstorm.pending(t->c), 0);
	CHECK_EQ(rpcstorm.abort(t->c, rpcstorm_response, t), 0);
	t->aborting = false;
}

/* A child that gives the handle back harms nobody. */
static inline void rpcstorm_fork(struct rpcstorm_client *t)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (!pid) {
		rpcstorm.disconnect(t->c);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static inline void rpcstorm_live(struct rpcstorm_client *t)
{
	bool blocks = storm_one_in(&t->rng, 4), early = storm_one_in(&t->rng, 3);
	uint32_t burst = storm_size(&t->rng, 80), stay;
	unsigned char *extra = rpcstorm.client_extra(t->c);

	t->chains = storm_one_in(&t->rng, 2);
	t->sleeps = !storm_one_in(&t->rng, 4);
	stay = early ? storm_draw(&t->rng, 0, t->most) : t->most;
	if (extra)
		memset(extra, (int)t->life, rpcstorm_draw.shape.extra);
	if (!blocks && storm_one_in(&t->rng, 8))
		rpcstorm_fork(t);
	while (!t->over && (t->made < stay || (!early && t->open))) {
		if (blocks)
			rpcstorm_blocking(t);
		else
			rpcstorm_client_turn(t, burst);
	}
	if (t->over)
		rpcstorm_after_end(t);
	else if (!blocks)
		CHECK_EQ(rpcstorm.pending(t->c), t->open);
	if (extra)
		CHECK_EQ(extra[rpcstorm_draw.shape.extra - 1], (unsigned char)t->life);
	CHECK_EQ(rpcstorm.client_bad(t->c), 0);
}

/* Connects, lives, leaves; again until it has made its calls. */
static inline void *rpcstorm_client_main(void *arg)
{
	struct rpcstorm_client *t = (struct rpcstorm_client *)arg;
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	const struct timespec nap = {.tv_nsec = 300000};
	static const struct rpcstorm_shape any;

	while (t->left) {
		int err = rpcstorm.connect(rpcstorm_draw.name,
			rpcstorm_draw.gives_shape ? &rpcstorm_draw.given : &any, &t->c);

		if (err) {
			CHECK(err == -ENOENT || err == -ECONNREFUSED || err == -EAGAIN ||
				err == -EUSERS || rpcstorm_refused(err));
			__atomic_store_n(&rpcstorm_errno, 0, __ATOMIC_RELAXED);
			nanosleep(&nap, NULL);
			continue;
		}
		t->req = rpcstorm.shape_req(t->c);
		t->resp = rpcstorm.shape_resp(t->c);
		CHECK_EQ(t->req, rpcstorm_draw.shape.req);
		CHECK_EQ(t->resp, rpcstorm_draw.shape.resp);
		t->life = __atomic_fetch_add(&sh->lives, 1, __ATOMIC_RELAXED);
		CHECK(t->life < RPCSTORM_LIVES);
		sh->start_of[t->life] = (uint16_t)t->start;
		t->most = storm_size(&t->rng, RPCSTORM_CALLS);
		if (t->most > t->left)
			t->most = (uint32_t)t->left;
		t->made = t->open = 0;
		t->over = false;
		memset(t->state, 0, sizeof(t->state));
		rpcstorm_live(t);
		t->left -= t->made ? t->made : 1;
		/* Release: pairs with the load in rpcstorm_has_gone(). */
		__atomic_store_n(&sh->gone[t->life], 1, __ATOMIC_RELEASE);
		rpcstorm.disconnect(t->c);
	}
	free(t->buf);
	return NULL;
}

static inline void rpcstorm_group(uint64_t seed, uint32_t start, uint32_t threads)
{
	static struct rpcstorm_client t[RPCSTORM_THREADS];
	uint32_t longest = rpcstorm_draw.shape.req > rpcstorm_draw.shape.resp ?
				   rpcstorm_draw.shape.req :
				   rpcstorm_draw.shape.resp;
	pthread_t thread[RPCSTORM_THREADS];
	int before = fdtest_open();

	for (uint32_t i = 0; i < threads; i++) {
		t[i] = (struct rpcstorm_client){.start = start, .left = rpcstorm_draw.quota};
		t[i].rng = test_rand(&seed);
		t[i].buf = (unsigned char *)malloc(longest + 16);
		CHECK(t[i].buf);
		CHECK_EQ(pthread_create(&thread[i], NULL, rpcstorm_client_main, &t[i]), 0);
	}
	for (uint32_t i = 0; i < threads; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	if (rpcstorm_draw.one_process)
		return;
	CHECK_EQ(fdtest_open(), before);
	CHECK_EQ(storm_mappings(rpcstorm_draw.file), 0);
}

/* ---- who starts and kills them ---- */

static uint32_t rpcstorm_servers; /* that were started */

static inline pid_t rpcstorm_start_server(uint64_t *rng)
{
	uint64_t seed = test_rand(rng);
	pid_t pid;

	__atomic_store_n(&rpcstorm_draw.sh->stop, 0, __ATOMIC_RELEASE);
	rpcstorm_servers++;
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		storm_child();
		rpcstorm_serve(seed);
		_exit(0);
	}
	return pid;
}

static inline pid_t rpcstorm_start_group(uint64_t *rng, uint32_t start)
{
	uint64_t seed = test_rand(rng);
	uint32_t threads = storm_draw(rng, 1, RPCSTORM_THREADS);
	pid_t pid;

	CHECK(start < RPCSTORM_STARTS);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		storm_child();
		rpcstorm_group(seed, start, threads);
		_exit(0);
	}
	return pid;
}

/* A server that sleeps without an end is woken by who comes. */
static inline void rpcstorm_nudge(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	static const struct rpcstorm_shape any;
	void *c;

	__atomic_store_n(&rpcstorm_errno, 0, __ATOMIC_RELAXED);
	if (!rpcstorm.connect(rpcstorm_draw.name, &any, &c))
		rpcstorm.disconnect(c);
	nanosleep(&nap, NULL);
}

static inline void rpcstorm_end(pid_t pid, bool killed)
{
	int status;

	while (!waitpid(pid, &status, WNOHANG))
		rpcstorm_nudge();
	if (killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return;
	CHECK_EQ(status, 0);
}

/* Ends the server, by a signal or by its word, and starts the next one. */
static inline pid_t rpcstorm_next_server(pid_t server, uint64_t *rng)
{
	bool kills = rpcstorm_draw.kills_servers &&
		     (!rpcstorm_draw.stops_servers || storm_one_in(rng, 2));

	__atomic_store_n(&rpcstorm_draw.sh->stop, !kills, __ATOMIC_RELEASE);
	if (kills)
		kill(server, SIGKILL);
	rpcstorm_end(server, kills);
	return rpcstorm_start_server(rng);
}

/* Looks from outside, and tries to remove what is there. */
static inline void rpcstorm_look(bool lives)
{
	const struct rpcstorm_shape *shape = &rpcstorm_draw.shape;
	struct rpcstorm_look look = {.clients = 0};
	uint32_t seen = 0;
	int err = rpcstorm.look(rpcstorm_draw.name, &look, &seen);

	CHECK(err == 0 || err == -ENOENT || err == -EPROTO);
	if (!err) {
		CHECK_EQ(look.shape.clients, shape->clients);
		CHECK(look.shape.depth >= shape->depth && look.shape.depth < 2 * shape->depth);
		CHECK_EQ(look.shape.req, shape->req);
		CHECK_EQ(look.shape.resp, shape->resp);
		CHECK_EQ(look.clients + look.dead, seen);
		CHECK(seen <= shape->clients);
		CHECK(look.in_use <= look.shape.ring);
	}
	if (!lives)
		return;
	err = rpcstorm.remove_dead(rpcstorm_draw.name);
	CHECK(err == -EADDRINUSE || err == -ENOENT || err == -EPROTO || err == -EAGAIN);
}

/* Impossible shapes are refused. */
static inline void rpcstorm_bad_shapes(uint64_t *rng)
{
	struct rpcstorm_shape bad = rpcstorm_draw.given;
	void *s;

	switch (storm_draw(rng, 0, 4)) {
	case 0:
		bad.clients = rpcstorm.beyond.clients;
		break;
	case 1:
		bad.depth = rpcstorm.beyond.depth;
		break;
	case 2:
		bad.req = rpcstorm.beyond.req;
		break;
	case 3:
		bad.resp = rpcstorm.beyond.resp;
		break;
	default:
		CHECK_EQ(rpcstorm.create_unknown(rpcstorm_draw.name), -EINVAL);
		return;
	}
	CHECK_EQ(rpcstorm.create(rpcstorm_draw.name, &bad, &s), -EINVAL);
}

static inline void rpcstorm_processes(uint64_t *rng)
{
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	const struct timespec nap = {.tv_nsec = 200000};
	uint32_t groups = storm_draw(rng, 1, RPCSTORM_GROUPS), starts = 0, running = groups;
	uint32_t index[RPCSTORM_GROUPS];
	pid_t server = rpcstorm_start_server(rng), group[RPCSTORM_GROUPS];
	bool changes = rpcstorm_draw.kills_servers || rpcstorm_draw.stops_servers;
	uint64_t next = storm_draw(rng, 0, 300);

	for (uint32_t i = 0; i < groups; i++) {
		index[i] = starts;
		group[i] = rpcstorm_start_group(rng, starts++);
	}
	while (running) {
		for (uint32_t i = 0; i < groups; i++) {
			int status;

			if (!group[i] || !waitpid(group[i], &status, WNOHANG))
				continue;
			CHECK_EQ(status, 0);
			group[i] = 0;
			running--;
		}
		CHECK_EQ(waitpid(server, NULL, WNOHANG), 0);
		if (storm_one_in(rng, 8))
			rpcstorm_look(
				__atomic_load_n(&sh->up, __ATOMIC_ACQUIRE) == rpcstorm_servers);
		nanosleep(&nap, NULL);
		if (__atomic_load_n(&sh->ended, __ATOMIC_RELAXED) < next)
			continue;
		next += storm_draw(rng, 50, 800);
		if (changes && storm_one_in(rng, 2)) {
			server = rpcstorm_next_server(server, rng);
		} else if (rpcstorm_draw.kills_clients && starts < RPCSTORM_STARTS) {
			uint32_t i = storm_draw(rng, 0, groups - 1);

			if (!group[i])
				continue;
			__atomic_store_n(&sh->dying[index[i]], 1, __ATOMIC_RELEASE);
			kill(group[i], SIGKILL);
			rpcstorm_end(group[i], true);
			index[i] = starts;
			group[i] = rpcstorm_start_group(rng, starts++);
		}
	}
	if (storm_one_in(rng, 4)) {
		kill(server, SIGKILL);
		rpcstorm_end(server, true);
		rpcstorm_look(false);
		/* It may not have begun, or not have completed its region. */
		if (rpcstorm.remove_dead(rpcstorm_draw.name) == -EPROTO)
			unlink(rpcstorm_draw.file);
	} else {
		__atomic_store_n(&sh->stop, 1, __ATOMIC_RELEASE);
		rpcstorm_end(server, false);
	}
}

static uint32_t rpcstorm_ended_servers;

static inline void *rpcstorm_server_thread(void *arg)
{
	rpcstorm_serve(*(uint64_t *)arg);
	__atomic_store_n(&rpcstorm_ended_servers, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* All in this process, where a thread sanitizer sees them. */
static inline void rpcstorm_threads(uint64_t *rng)
{
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	uint64_t seed = test_rand(rng);
	pthread_t server;

	CHECK_EQ(pthread_create(&server, NULL, rpcstorm_server_thread, &seed), 0);
	rpcstorm_group(test_rand(rng), 0, storm_draw(rng, 1, RPCSTORM_THREADS));
	__atomic_store_n(&sh->stop, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&rpcstorm_ended_servers, __ATOMIC_ACQUIRE))
		rpcstorm_nudge();
	CHECK_EQ(pthread_join(server, NULL), 0);
}

static inline void rpcstorm_draw_shape(uint64_t *rng)
{
	struct rpcstorm_shape *shape = &rpcstorm_draw.shape;

	shape->clients = storm_draw(rng, 1, RPCSTORM_GROUPS * RPCSTORM_THREADS + 2);
	shape->depth = storm_size(rng, 100);
	if (storm_one_in(rng, 2)) /* a ring that can be full, where the layer has one */
		shape->ring = shape->clients * 8 + storm_size(rng, 64);
	shape->req = RPCSTORM_LEAST + storm_size(rng, storm_one_in(rng, 6) ? 5000 : 200);
	shape->resp = storm_size(rng, storm_one_in(rng, 6) ? 5000 : 200);
	shape->extra = storm_one_in(rng, 2) ? storm_size(rng, 300) : 0;
	rpcstorm_draw.given = *shape;
	if (storm_one_in(rng, 4)) {
		rpcstorm_draw.given.clients = rpcstorm_draw.given.ring = 0;
		shape->clients = rpcstorm.defaults.clients;
	}
	if (storm_one_in(rng, 4)) {
		rpcstorm_draw.given.depth = 0;
		shape->depth = rpcstorm.defaults.depth;
	}
	if (storm_one_in(rng, 4)) {
		rpcstorm_draw.given.req = 0;
		shape->req = rpcstorm.defaults.req;
	}
	if (storm_one_in(rng, 4)) {
		rpcstorm_draw.given.resp = 0;
		shape->resp = rpcstorm.defaults.resp;
	}
}

static inline void rpcstorm_seed(uint64_t seed)
{
	uint64_t rng = seed;
	int open = fdtest_open();

	rpcstorm_draw.sh = (struct rpcstorm_shared *)mmap(NULL, sizeof(*rpcstorm_draw.sh),
		PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(rpcstorm_draw.sh != MAP_FAILED);
	snprintf(rpcstorm_draw.name, sizeof(rpcstorm_draw.name), "storm.%d", (int)getpid());
	snprintf(rpcstorm_draw.file, sizeof(rpcstorm_draw.file), "/dev/shm/%s.%s", rpcstorm.prefix,
		rpcstorm_draw.name);
	rpcstorm_draw_shape(&rng);
	rpcstorm_draw.quota = storm_draw(&rng, 200, 1000);
	rpcstorm_draw.one_process = storm_one_in(&rng, 4);
#ifdef __SANITIZE_THREAD__
	rpcstorm_draw.one_process = true; /* it sees threads only */
#endif
	rpcstorm_draw.kills_clients = !rpcstorm_draw.one_process && storm_one_in(&rng, 2);
	rpcstorm_draw.kills_servers = storm_one_in(&rng, 2);
	rpcstorm_draw.stops_servers = storm_one_in(&rng, 2);
	rpcstorm_draw.gives_shape = storm_one_in(&rng, 2);
	rpcstorm_draw.refuses = storm_one_in(&rng, 3);
	rpcstorm_bad_shapes(&rng);
	if (rpcstorm_draw.one_process)
		rpcstorm_threads(&rng);
	else
		rpcstorm_processes(&rng);
	CHECK(access(rpcstorm_draw.file, F_OK) != 0);
	CHECK_EQ(fdtest_open(), open);
	CHECK_EQ(storm_mappings(rpcstorm_draw.file), 0);
	printf("0x%" PRIx64 ": %" PRIu64 " calls of %" PRIu32 " clients, %" PRIu32 " servers\n",
		seed, rpcstorm_draw.sh->ended, rpcstorm_draw.sh->lives, rpcstorm_draw.sh->up);
}

#endif
