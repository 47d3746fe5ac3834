/* SPDX-License-Identifier: MIT */
/*
 * Compares calls with loans to calls that copy, and both to two minima: the time in which one
 * thread produces the bytes (alone), and the time in which it also passes them to another thread by
 * two counters, without the library (bare). A producer makes each payload by a memcpy() from
 * private memory, either into a buffer that it then passes to the call, or into the loan. In the
 * two minima, the producer writes into the memory of loans as well. The four are measured
 * alternately, each for a short window.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/order.h"
#include "base/output.h"
#include "shmipc.h"

#define WINDOW_NS (10 * NSEC_PER_MSEC)
#define ROUNDS_MAX 1000

#define BARE_BURST 8 /* payloads that are handed over together, as in the library */

/* COPYING has a region with rings for long messages, LOANS a region with rings for short ones. */
enum mode { ALONE, BARE, COPYING, LOANS, MODES };

struct options {
	struct arg_list sizes;
	uint32_t depth;
	double seconds;
	bool read, step;
};

/* The counters of BARE, which passes buffers without the library: one counter in each direction. */
struct bare {
	CACHE_ALIGNED _Atomic uint64_t there; /* buffers that the client has passed to the server */
	CACHE_ALIGNED _Atomic uint64_t back; /* those that the server has passed back */
	CACHE_ALIGNED uint64_t called, answered; /* the client's own counts */
	CACHE_ALIGNED uint64_t served; /* the server's own count */
};

struct bench {
	struct options opt;
	cpu_set_t cpus;
	struct shmipc_server *server[MODES];
	struct shmipc_client *client[MODES];
	uint32_t size;
	bool response; /* the response is the long message, not the request */
	/* source: what every payload is made from; buf, answer: what COPYING passes to calls */
	unsigned char *source, *buf, *answer;
	void *buffers[256]; /* loans that are not sent, for the minima */
	struct bare bare;
	_Atomic enum mode mode;
	_Atomic bool stop;
	CACHE_ALIGNED uint64_t calls, responses; /* the client's own */
};

/* Makes a payload. The token is in its first and last bytes. */
static void produce(const struct bench *b, void *at, uint64_t token)
{
	memcpy(at, b->source, b->size);
	memcpy(at, &token, sizeof(token));
	memcpy((char *)at + b->size - sizeof(token), &token, sizeof(token));
}

/* Checks a payload, and returns its token. With --read it reads all bytes. */
static uint64_t consume(struct bench *b, const void *at, uint32_t len)
{
	const uint64_t *word = at;
	uint64_t token = word[0], last = word[len / sizeof(*word) - 1], sum = 0;

	if (b->opt.read)
		for (uint32_t i = 0; i < len / sizeof(*word); i++)
			sum += word[i];
	__asm__ volatile("" : : "r"(sum)); /* keeps the compiler from leaving out the reads */
	if (token != last) {
		fprintf(stderr, "shmipc-loan-bench: a payload is wrong\n");
		exit(1);
	}
	return token;
}

/* ---- server ---- */

static void serve(void *arg, const struct shmipc_req *req, const void *payload)
{
	struct bench *b = arg;
	struct shmipc_server *s = b->server[b->mode];
	uint64_t token = consume(b, payload, req->len);
	void *at = b->answer;

	if (!b->response) {
		shmipc_server_reply(s, req->client, req->id, &token, sizeof(token));
	} else if (b->mode == LOANS) {
		shmipc_server_loan(s, req->client, req->id, &at);
		produce(b, at, token);
		shmipc_server_commit(s, req->client, req->id, b->size);
	} else {
		produce(b, at, token);
		shmipc_server_reply(s, req->client, req->id, at, b->size);
	}
}

static int bare_serve(struct bench *b)
{
	struct bare *bare = &b->bare;
	uint64_t first = bare->served;
	/* Acquire: pairs with the release in bare_publish(). */
	uint64_t there = atomic_load_explicit(&bare->there, memory_order_acquire);

	while (bare->served != there) {
		void *at = b->buffers[bare->served++ % b->opt.depth];

		if (b->response)
			produce(b, at, bare->served);
		else
			consume(b, at, b->size);
		/* Release: pairs with the acquire in bare_poll(). */
		if (bare->served % BARE_BURST == 0 || bare->served == there)
			atomic_store_explicit(&bare->back, bare->served, memory_order_release);
	}
	return (int)(there - first);
}

/* Returns how many calls it has served. */
static int serve_turn(struct bench *b)
{
	enum mode mode = b->mode; /* read once, because the client may change it meanwhile */

	if (mode == ALONE)
		return 0;
	return mode == BARE ? bare_serve(b) : shmipc_server_serve(b->server[mode], serve, b, 256);
}

static void *server_thread(void *arg)
{
	struct bench *b = arg;

	while (!b->stop)
		if (!serve_turn(b))
			cpu_relax();
	return NULL;
}

/* ---- client ---- */

static void on_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct bench *b = arg;

	if (len != (b->response ? b->size : sizeof(token)) || consume(b, resp, len) != token) {
		fprintf(stderr, "shmipc-loan-bench: a response is wrong\n");
		exit(1);
	}
	b->responses++;
}

static void bare_publish(struct bare *bare)
{
	/* Release: pairs with the acquire in bare_serve(). */
	atomic_store_explicit(&bare->there, bare->called, memory_order_release);
}

static bool bare_call(struct bench *b)
{
	struct bare *bare = &b->bare;
	void *at = b->buffers[bare->called % b->opt.depth];

	if (bare->called - bare->answered == b->opt.depth)
		return false;
	bare->called++;
	if (!b->response)
		produce(b, at, bare->called);
	if (bare->called % BARE_BURST == 0)
		bare_publish(bare);
	return true;
}

/* Handles at most as many answers as a poll of the library, and returns their number. */
static int bare_poll(struct bench *b)
{
	struct bare *bare = &b->bare;
	uint64_t back;
	int n = 0;

	bare_publish(bare);
	/* Acquire: pairs with the release in bare_serve(). */
	back = atomic_load_explicit(&bare->back, memory_order_acquire);
	for (; n < SHMIPC_POLL_MAX && bare->answered != back; n++) {
		const void *at = b->buffers[bare->answered++ % b->opt.depth];

		if (b->response)
			on_response(b, bare->answered, at, b->size);
		else
			b->responses++;
	}
	return n;
}

/* Makes one call. Returns false if it must poll first. */
static bool call(struct bench *b)
{
	struct shmipc_client *c = b->client[b->mode];
	uint64_t token = b->calls + 1;
	uint32_t len = b->response ? sizeof(token) : b->size;
	void *at = b->buf;

	if (shmipc_client_pending(c) == b->opt.depth)
		return false;
	if (b->mode == LOANS)
		shmipc_client_loan(c, &at);
	if (b->response)
		memcpy(at, &token, sizeof(token));
	else
		produce(b, at, token);
	b->calls = token;
	return !(b->mode == LOANS ? shmipc_client_commit(c, at, len, token) :
				    shmipc_client_call(c, at, len, token));
}

static int poll_answers(struct bench *b)
{
	int n;

	if (b->mode == BARE)
		return bare_poll(b);
	n = shmipc_client_poll(b->client[b->mode], on_response, b);
	if (n < 0) {
		fprintf(stderr, "shmipc-loan-bench: %s\n", strerror(-n));
		exit(1);
	}
	return n;
}

static bool has_pending(const struct bench *b)
{
	return b->mode == BARE ? b->bare.called != b->bare.answered :
				 shmipc_client_pending(b->client[b->mode]) != 0;
}

static uint64_t window_alone(struct bench *b)
{
	uint64_t begin = clock_ns(), n = 0, now = begin;

	for (; now - begin < WINDOW_NS; now = clock_ns())
		for (uint32_t i = 0; i < b->opt.depth; i++)
			produce(b, b->buffers[i], n++);
	return (now - begin) * 1000 / n;
}

static uint64_t window_calls(struct bench *b)
{
	uint64_t begin = clock_ns(), now = begin, first = b->responses;

	while ((now = clock_ns()) - begin < WINDOW_NS || has_pending(b)) {
		while (now - begin < WINDOW_NS && (b->mode == BARE ? bare_call(b) : call(b)))
			;
		if (b->opt.step)
			serve_turn(b);
		if (!poll_answers(b))
			cpu_relax();
	}
	return (now - begin) * 1000 / (b->responses - first);
}

/* Returns the time per payload in ps. */
static uint64_t window(struct bench *b, enum mode mode)
{
	bool minimum = mode == ALONE || mode == BARE;
	uint64_t ps;

	for (uint32_t i = 0; minimum && i < b->opt.depth; i++)
		shmipc_client_loan(b->client[LOANS], &b->buffers[i]);
	b->mode = mode;
	ps = mode == ALONE ? window_alone(b) : window_calls(b);
	for (uint32_t i = b->opt.depth; minimum && i > 0; i--)
		shmipc_client_release(b->client[LOANS], b->buffers[i - 1]);
	return ps;
}

static void measure(struct bench *b)
{
	static double ns[MODES][ROUNDS_MAX], ratio[LOANS][ROUNDS_MAX];
	uint32_t rounds = (uint32_t)(b->opt.seconds * NSEC_PER_SEC / (MODES * WINDOW_NS));

	rounds = rounds < 3 ? 3 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
	for (int i = 0; i < MODES; i++)
		window(b, (enum mode)i);
	for (uint32_t r = 0; r < rounds; r++) {
		for (int i = 0; i < MODES; i++)
			ns[i][r] = (double)window(b, (enum mode)i) / 1000;
		for (int i = 0; i < LOANS; i++)
			ratio[i][r] = ns[LOANS][r] / ns[i][r];
	}
	printf("%8u  %-8s", b->size, b->response ? "response" : "request");
	for (int i = 0; i < MODES; i++)
		printf("  %8.0f", order_median(ns[i], rounds));
	for (int i = 0; i < LOANS; i++)
		printf("  %10.2f", order_median(ratio[i], rounds));
	printf("\n");
	fflush(stdout);
}

/* Binds the thread to the nth core, unless there is only one. */
static void pin(const cpu_set_t *all, pthread_t thread, int nth)
{
	cpu_set_t one;

	if (CPU_COUNT(all) < 2)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, all) || nth--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		pthread_setaffinity_np(thread, sizeof(one), &one);
	}
}

static int connect_pair(struct bench *b, enum mode mode)
{
	struct shmipc_attr attr = {.size = sizeof(attr), .max_clients = 1, .depth = b->opt.depth};
	char name[64];
	int err;

	if (mode == LOANS) {
		attr.loans = b->opt.depth;
		attr.loan_req_size = attr.loan_resp_size = b->size;
		attr.req_size = attr.resp_size = sizeof(uint64_t);
	} else {
		attr.req_size = attr.resp_size = b->size;
	}
	snprintf(name, sizeof(name), "loan-bench.%d.%d", (int)getpid(), (int)mode);
	err = shmipc_server_create(name, &attr, &b->server[mode]);
	if (err)
		return err;
	err = shmipc_client_connect(name, &attr, &b->client[mode]);
	shmipc_server_unlink(b->server[mode]); /* now an early exit leaves nothing behind */
	return err;
}

static int bench_size(struct bench *b, uint32_t size)
{
	pthread_t thread;
	int err;

	b->size = size;
	b->source = calloc(3, size);
	if (!b->source)
		return -ENOMEM;
	b->buf = b->source + size;
	b->answer = b->buf + size;
	err = connect_pair(b, COPYING);
	if (!err)
		err = connect_pair(b, LOANS);
	if (!err && !b->opt.step)
		err = -pthread_create(&thread, NULL, server_thread, b);
	if (err)
		return err;
	if (!b->opt.step)
		pin(&b->cpus, thread, 1);
	for (int response = 0; response < 2; response++) {
		b->response = response;
		measure(b);
	}
	b->stop = true;
	if (!b->opt.step)
		pthread_join(thread, NULL);
	b->stop = false;
	for (int mode = COPYING; mode < MODES; mode++) {
		shmipc_client_disconnect(b->client[mode]);
		shmipc_server_destroy(b->server[mode]);
	}
	free(b->source);
	return 0;
}

#define AT(field) ARG_AT(struct options, field)

static const struct arg_row rows[] = {
	{"size", 0, "B,...", ARG_SIZES, AT(sizes), .min = 16, .max = SHMIPC_MAX_PAYLOAD,
		.multiple = 8, .def = "1K,4K,16K,64K", .help = "bytes in the long message"},
	{"queue-depth", 0, "N", ARG_WHOLE, AT(depth), .min = 1, .max = 256, .def = "8",
		.help = "calls in flight"},
	{"read", .kind = ARG_FLAG, .field = AT(read),
		.help = "the receiver reads all bytes, not only the first and last ones"},
	{"step", .kind = ARG_FLAG, .field = AT(step),
		.help = "one thread steps client and server in turn"},
	{"seconds", 0, "S", ARG_REAL, AT(seconds), .low = .001, .high = 3600, .def = "1",
		.help = "time of the measurement for each line"},
	{"help", .kind = ARG_HELP},
};

int main(int argc, char **argv)
{
	struct bench b = {.calls = 0};
	struct args args = {ARGS_ROWS(rows),
		.usage = "Usage: shmipc-loan-bench [OPTION]...\n"
			 "Calls with one long message: with loans, and with copies.\n",
		.tail = "Columns: ns per payload of the producer alone, of buffers that are handed over by "
			"two counters\n(bare), of calls that copy, of calls with loans, and ratios of the "
			"last to the others, medians over\nrounds.\n"};
	int err = 0;

	args_main(&args, "shmipc-loan-bench", argc, argv, &b.opt);
	sched_getaffinity(0, sizeof(b.cpus), &b.cpus);
	pin(&b.cpus, pthread_self(), 0);
	printf("%8s  %-8s  %8s  %8s  %8s  %8s  %10s  %10s  %10s\n", "bytes", "message", "alone",
		"bare", "copying", "loans", "to alone", "to bare", "to copying");
	for (uint32_t i = 0; i < b.opt.sizes.n && !err; i++)
		err = bench_size(&b, (uint32_t)b.opt.sizes.at[i]);
	if (err)
		fprintf(stderr, "shmipc-loan-bench: %s\n", strerror(-err));
	return output_end("shmipc-loan-bench", err ? 1 : 0);
}
