/* SPDX-License-Identifier: MIT */
/* The clients of a storm (rpcstorm.h). */
#ifndef SUPPORT_RPCSTORM_CLIENT_H
#define SUPPORT_RPCSTORM_CLIENT_H

#include "support/rpcstorm-draw.h"

enum rpcstorm_state { RPCSTORM_NONE, RPCSTORM_OPEN, RPCSTORM_ENDED, RPCSTORM_LATE };

struct rpcstorm_client {
	struct rpc_client *c;
	uint64_t rng;
	uint32_t start; /* number of its process */
	uint32_t life, made, open, most, resp, req;
	uint64_t left; /* calls that it has yet to make */
	uint32_t pushed; /* pushes that it has received */
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
		err = RPC(client_call)(t->c, t->buf, t->req + 1, number);
		CHECK_EQ(err, -EMSGSIZE);
	}
	err = RPC(client_call)(t->c, t->buf, len, number);
	CHECK(err == 0 || err == -EAGAIN || err == -EPIPE);
	if (!err) {
		t->state[t->made++] = RPCSTORM_OPEN;
		t->open++;
	}
	return err;
}

/* A post is numbered like a call, and counts as ended when it is made. */
static inline int rpcstorm_post_one(struct rpcstorm_client *t)
{
	uint64_t number = rpcstorm_number(t->life, t->made);
	uint32_t len = rpcstorm_request(t, number);
	int err = RPC(client_post)(t->c, t->buf, len);

	CHECK(err == 0 || err == -EAGAIN || err == -EPIPE);
	if (!err) {
		t->state[t->made++] = RPCSTORM_ENDED;
		__atomic_fetch_add(&rpcstorm_draw.sh->ended, 1, __ATOMIC_RELAXED);
	}
	if (err == -EAGAIN && t->sleeps && !t->open && storm_one_in(&t->rng, 2)) {
		err = RPC(client_wait)(t->c, UINT64_MAX);
		CHECK(err >= 0 || err == -EPIPE || err == -EPERM || err == -ENOBUFS);
		t->over |= err == -EPIPE;
	}
	return err;
}

#ifdef RPC_PUSHES
/* The pushes of a connection are numbered from 0. */
static inline void rpcstorm_on_push(void *arg, const void *msg, uint32_t len)
{
	struct rpcstorm_client *t = (struct rpcstorm_client *)arg;
	uint64_t number = rpcstorm_number(t->life, t->pushed++);

	CHECK_EQ(len, storm_length(number, 2, 0, t->resp));
	storm_check(msg, len, number, 2);
}

static inline void rpcstorm_take_pushes(struct rpcstorm_client *t)
{
	RPC(client_pushes)(t->c, rpcstorm_on_push, t);
}
#else
static inline void rpcstorm_take_pushes(struct rpcstorm_client *t)
{
}
#endif

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

/* Returns true for the errors of a client whose sendto() fails at times. */
static inline bool rpcstorm_refused(int r)
{
	return rpcstorm_draw.refuses && (r == -EPERM || r == -ENOBUFS);
}

/* Checks the result of a function of the client: a count, or -EPIPE after the server's end. */
static inline int rpcstorm_result(struct rpcstorm_client *t, int r)
{
	CHECK(r >= 0 || r == -EPIPE || rpcstorm_refused(r));
	t->over |= r == -EPIPE;
	return r;
}

static inline int rpcstorm_client_poll(struct rpcstorm_client *t)
{
	uint32_t open = t->open, made = t->made, pushed = t->pushed;
	int r = rpcstorm_result(t, RPC(client_poll)(t->c, rpcstorm_response, t));

	CHECK(r <= RPCSTORM_POLL_MAX);
	if (r >= 0) /* the calls that have ended and the pushes that were taken */
		CHECK_EQ(open + t->made - made - t->open + t->pushed - pushed, (uint32_t)r);
	return r;
}

static inline void rpcstorm_client_nap(struct rpcstorm_client *t)
{
	uint64_t ns = storm_one_in(&t->rng, 4) ? UINT64_MAX : storm_size(&t->rng, 4 << 20);
	struct pollfd p = {.events = POLLIN};
	int r;

	if (storm_one_in(&t->rng, 2)) {
		rpcstorm_result(t, RPC(client_wait)(t->c, ns));
		return;
	}
	p.fd = RPC(client_fd)(t->c);
	CHECK(p.fd >= 0);
	r = rpcstorm_result(t, RPC(client_arm)(t->c));
	CHECK(r != -EPIPE);
	if (r < 0 || (!r && !t->open))
		return;
	CHECK(poll(&p, 1, r ? 0 : ns == UINT64_MAX ? -1 : (int)(ns >> 20)) >= 0);
}

/* Makes one blocking call. If it times out, its answer may come late and is dropped. */
static inline void rpcstorm_blocking(struct rpcstorm_client *t, bool for_ever)
{
	static const uint64_t times[] = {0, 1000, 100000, UINT64_MAX, UINT64_MAX};
	uint64_t number = rpcstorm_number(t->life, t->made);
	uint32_t want, got = 0, capacity, len = rpcstorm_request(t, number);
	int err;

	want = storm_length(number, 1, 0, t->resp);
	capacity = storm_one_in(&t->rng, 2) ? t->resp : storm_draw(&t->rng, 0, t->resp);
	err = RPC(client_call_wait)(t->c, t->buf, len, t->buf, capacity,
		for_ever ? UINT64_MAX : times[storm_draw(&t->rng, 0, ARRAY_SIZE(times) - 1)], &got);
	if (err == -EAGAIN) {
		/*
		 * Calls that have failed occupy all ids until they are answered. If no client can
		 * wake the server, that is never.
		 */
		if (rpcstorm_refused(rpcstorm_client_poll(t)))
			__atomic_store_n(&nosend_errno, 0, __ATOMIC_RELAXED);
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

/* Makes a blocking call. rpcstorm_response() gets the responses to other calls meanwhile. */
static inline void rpcstorm_beside(struct rpcstorm_client *t)
{
	bool chains = t->chains;

	t->chains = false; /* rpcstorm_call_one() would overwrite t->buf, which gets the response */
	RPC(client_others)(t->c, rpcstorm_response, t);
	rpcstorm_blocking(t, true);
	RPC(client_others)(t->c, NULL, NULL);
	t->chains = chains;
}

static inline void rpcstorm_client_turn(struct rpcstorm_client *t, uint32_t burst)
{
	if (rpcstorm_draw.refuses && storm_one_in(&t->rng, 16))
		__atomic_store_n(&nosend_errno, storm_one_in(&t->rng, 2) ? EPERM : ENOBUFS,
			__ATOMIC_RELAXED);
	else if (storm_one_in(&t->rng, 8))
		__atomic_store_n(&nosend_errno, 0, __ATOMIC_RELAXED);
	switch (storm_draw(&t->rng, 0, 5)) {
	case 5:
		if (t->made < t->most && !rpcstorm_draw.refuses && t->sleeps)
			rpcstorm_beside(t);
		break;
	case 0:
		for (uint32_t i = 0; i < burst && t->made < t->most; i++)
			if (storm_one_in(&t->rng, 3) ? rpcstorm_post_one(t) : rpcstorm_call_one(t))
				break;
		break;
	case 1:
		RPC(client_flush)(t->c);
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

/* Polls until the client finds that the server has ended. Then no call may be accepted. */
static inline void rpcstorm_after_end(struct rpcstorm_client *t)
{
	int r, open;

	__atomic_store_n(&nosend_errno, 0, __ATOMIC_RELAXED);
	while ((r = rpcstorm_client_poll(t)) > 0)
		;
	/* If a blocking call has returned -EPIPE, polls need not return it at once. */
	while (r == 0 || rpcstorm_refused(r)) {
		sched_yield();
		r = rpcstorm_client_poll(t);
	}
	CHECK_EQ(r, -EPIPE);
	CHECK_EQ(rpcstorm_call_one(t), -EPIPE);
	CHECK_EQ(RPC(client_wait)(t->c, 0) > 0, 0);
	t->aborting = true;
	open = (int)t->open;
	r = RPC(client_abort)(t->c, rpcstorm_response, t);
	t->aborting = false;
	CHECK_EQ(r, open);
	CHECK_EQ(t->open, 0);
	CHECK_EQ(RPC(client_pending)(t->c), 0);
	CHECK_EQ(RPC(client_abort)(t->c, rpcstorm_response, t), 0);
}

/* A forked child may disconnect its copy of the client. */
static inline void rpcstorm_fork(struct rpcstorm_client *t)
{
	pid_t pid = test_fork();

	if (!pid) {
		RPC(client_disconnect)(t->c);
		_exit(0);
	}
	CHECK_EQ(test_reap(pid), 0);
}

static inline void rpcstorm_live(struct rpcstorm_client *t)
{
	bool blocks = storm_one_in(&t->rng, 4), early = storm_one_in(&t->rng, 3);
	uint32_t burst = storm_size(&t->rng, 80), stay;
	unsigned char *extra = rpcstorm_client_extra(t->c);

	t->chains = storm_one_in(&t->rng, 2);
	t->sleeps = !storm_one_in(&t->rng, 4);
	stay = early ? storm_draw(&t->rng, 0, t->most) : t->most;
	if (extra)
		memset(extra, (int)t->life, rpcstorm_draw.shape.extra);
	if (!blocks && storm_one_in(&t->rng, 8))
		rpcstorm_fork(t);
	while (!t->over && (t->made < stay || (!early && t->open))) {
		if (blocks)
			rpcstorm_blocking(t, false);
		else
			rpcstorm_client_turn(t, burst);
	}
	if (t->over)
		rpcstorm_after_end(t);
	else if (!blocks)
		CHECK_EQ(RPC(client_pending)(t->c), t->open);
	if (extra)
		CHECK_EQ(extra[rpcstorm_draw.shape.extra - 1], (unsigned char)t->life);
	CHECK_EQ(rpcstorm_client_bad(t->c), 0);
}

/* Connects, calls and disconnects, until it has made all its calls. */
static inline void *rpcstorm_client_main(void *arg)
{
	struct rpcstorm_client *t = (struct rpcstorm_client *)arg;
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	const struct timespec nap = {.tv_nsec = 300000};
	static const struct rpcstorm_shape any;
	struct rpc_attr attr;

	while (t->left) {
		int err = t->c ? 0 :
				 rpcstorm_connect(rpcstorm_draw.gives_shape ? &rpcstorm_draw.given :
									      &any,
					 &t->c);

		if (err) {
			CHECK(err == -ENOENT || err == -ECONNREFUSED || err == -EAGAIN ||
				err == -EUSERS || rpcstorm_refused(err));
			__atomic_store_n(&nosend_errno, 0, __ATOMIC_RELAXED);
			nanosleep(&nap, NULL);
			continue;
		}
		RPC(client_get_attr)(t->c, &attr, sizeof(attr));
		t->req = attr.req_size;
		t->resp = attr.resp_size;
		CHECK_EQ(t->req, rpcstorm_draw.shape.req);
		CHECK_EQ(t->resp, rpcstorm_draw.shape.resp);
		t->life = __atomic_fetch_add(&sh->lives, 1, __ATOMIC_RELAXED);
		CHECK(t->life < RPCSTORM_LIVES);
		sh->start_of[t->life] = (uint16_t)t->start;
		t->most = storm_size(&t->rng, RPCSTORM_CALLS);
		if (t->most > t->left)
			t->most = (uint32_t)t->left;
		t->made = t->open = t->pushed = 0;
		rpcstorm_take_pushes(t);
		t->over = false;
		memset(t->state, 0, sizeof(t->state));
		rpcstorm_live(t);
		t->left -= t->made ? t->made : 1;
		/* Release: pairs with the load in rpcstorm_has_gone(). */
		__atomic_store_n(&sh->gone[t->life], 1, __ATOMIC_RELEASE);
		if (t->left && t->over && storm_one_in(&t->rng, 2) && !t->open &&
			!RPC(client_reconnect)(t->c, 3000000))
			continue;
		RPC(client_disconnect)(t->c);
		t->c = NULL;
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
	CHECK_EQ(fdtest_mappings(test_file(RPC_PREFIX)), 0);
}

#endif
