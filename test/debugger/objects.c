/* SPDX-License-Identifier: MIT */
/*
 * Makes objects of all layers in states that debugger.py and live.py expect, writes its process id,
 * and waits until its standard input is closed. Calls are in flight, requests are unanswered, a
 * batch is open.
 *
 *	objects NAME [waits]
 *
 * waits: threads wait for responses that do not come, and the statistics of the objects are
 * written. After a line from standard input a thread writes over a rail of tent, and waits.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "support/test.h"
#include "copyrpc.h"
#include "delegrpc.h"
#include "flux.h"
#include "shmipc.h"
#include "tent.h"

/* The debugger finds these objects in static variables, and delegrpc's in local variables. */
static struct {
	struct copyrpc_ctx *ctx[2];
} rpc;
static struct shmipc_server *ss;
static struct shmipc_client *sc;
static struct flux_node *node;
static struct tent *t[2];

static void ignore(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
}

/* Endpoint 0 sends three calls, of which one is received; two more calls are in its open batch. */
static void open_copyrpc(void)
{
	struct copyrpc_ep *ep[2];
	uint8_t blob[2][COPYRPC_INFO_SIZE];
	struct copyrpc_req *req;
	int got = 0;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(copyrpc_ctx_create(NULL, &rpc.ctx[i]), 0);
		CHECK_EQ(copyrpc_ep_create(rpc.ctx[i], NULL, &ep[i]), 0);
		copyrpc_ep_info(ep[i], blob[i]);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ep_connect(ep[i], blob[!i], COPYRPC_INFO_SIZE), 0);
	for (uint64_t i = 0; i < 5; i++) {
		CHECK_EQ(copyrpc_call(ep[0], &i, sizeof(i), sizeof(i), i), 0);
		if (i == 2)
			CHECK(copyrpc_flush(rpc.ctx[0]) >= 0);
	}
	while (!got) {
		CHECK(copyrpc_poll(rpc.ctx[1], ignore, NULL) >= 0);
		got = copyrpc_recv(rpc.ctx[1], &req);
	}
}

static void open_delegrpc(const char *name, struct delegrpc_server **s_p,
	struct delegrpc_client **c_p)
{
	struct delegrpc_req r;
	uint64_t v = 0;

	CHECK_EQ(delegrpc_server_create(name, NULL, s_p), 0);
	CHECK_EQ(delegrpc_client_connect(name, NULL, c_p), 0);
	for (uint64_t i = 0; i < 3; i++)
		CHECK_EQ(delegrpc_client_call(*c_p, &v, sizeof(v), i), 0);
	CHECK_EQ(delegrpc_client_flush(*c_p), 0);
	CHECK(delegrpc_server_poll(*s_p) >= 0);
	CHECK(delegrpc_server_recv(*s_p, &r));
}

static void open_shmipc(const char *name)
{
	struct shmipc_req r;
	uint64_t v = 0;

	CHECK_EQ(shmipc_server_create(name, NULL, &ss), 0);
	CHECK_EQ(shmipc_client_connect(name, NULL, &sc), 0);
	for (uint64_t i = 0; i < 2; i++)
		CHECK_EQ(shmipc_client_call(sc, &v, sizeof(v), i), 0);
	shmipc_server_poll(ss);
	CHECK_EQ(shmipc_server_recv(ss, &r, &v, sizeof(v)), 1);
}

static struct flux *open_flux(void)
{
	struct flux_attr attr = {.nodes = 3, .payload_size = 8};
	struct flux *f;
	uint64_t v = 0;

	CHECK_EQ(flux_create(&attr, &f), 0);
	node = flux_get_node(f, 1);
	for (uint64_t i = 0; i < 10; i++) /* one is in the open burst */
		CHECK_EQ(flux_call(node, 2, &v, sizeof(v), i), 0);
	return f;
}

/* Creates two engines, and fills *r with a request by which the first writes to the second. */
static void open_tent(const struct tent_attr *attr, struct tent **ends, void *memory, size_t len,
	struct tent_request *r)
{
	struct tent_remote there;
	AT_END(end_free) char *text;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(tent_create(attr, NULL, &ends[i]), 0);
		CHECK_EQ(tent_register(ends[i], memory, len, NULL, NULL), 0);
	}
	*r = (struct tent_request){.op = TENT_WRITE, .local = memory, .len = len};
	CHECK_EQ(tent_export(ends[1], &text), 0);
	CHECK_EQ(tent_import(ends[0], text, NULL, &r->segment), 0);
	CHECK_EQ(tent_segment_remote(r->segment, 0, &there, sizeof(there)), 0);
	r->remote = there.addr;
}

static void move(struct tent *from, const struct tent_request *r)
{
	struct tent_batch *b;

	CHECK_EQ(tent_submit(from, r, 1, &b), 0);
	CHECK_EQ(tent_wait(b, -1), 0);
	tent_batch_free(b);
}

/* ---- threads that wait ---- */

#define FOREVER (1000 * NSEC_PER_SEC)

static struct tent *rail_ends[2];
static struct tent_request over_rail;

static void *wait_shmipc(void *arg)
{
	CHECK_EQ(shmipc_client_wait(sc, FOREVER), -EPIPE);
	return NULL;
}

static void *wait_delegrpc(void *arg)
{
	struct delegrpc_client *dc = arg;

	CHECK_EQ(delegrpc_client_wait(dc, FOREVER), -EPIPE);
	return NULL;
}

static void *wait_flux(void *arg)
{
	CHECK_EQ(flux_wait(node, FOREVER), 1);
	return NULL;
}

static void *wait_tent(void *arg)
{
	move(rail_ends[0], &over_rail);
	return NULL;
}

/* Writes a line of JSON: the layers' statistics, with the names that shmls --live prints. */
static void write_stats(const struct delegrpc_server *ds, const struct tent_request *shm)
{
	struct copyrpc_stats c;
	struct delegrpc_server_stats d;
	struct shmipc_server_stats s;
	struct flux_stats f;
	struct tent_rail_stats r;

	copyrpc_ctx_get_stats(rpc.ctx[1], &c, sizeof(c));
	delegrpc_server_get_stats(ds, &d, sizeof(d));
	shmipc_server_get_stats(ss, &s, sizeof(s));
	flux_node_get_stats(node, &f, sizeof(f));
	CHECK_EQ(tent_rail_get_stats(shm->segment, 0, &r, sizeof(r)), 0);
	printf("{\"endpoint\": {\"requests\": %llu, \"responses\": %llu, \"batches\": %llu}, "
	       "\"delegrpc\": {\"requests\": %llu, \"replies\": %llu, \"wakes\": %llu}, "
	       "\"shmipc\": {\"requests\": %llu, \"replies\": %llu, \"bad\": %llu}, "
	       "\"flux\": {\"calls\": %llu, \"responses\": %llu, \"requests\": %llu, \"replies\": %llu}, "
	       "\"rail\": {\"bytes\": %llu, \"slices\": %llu, \"outages\": %llu}}\n",
		(unsigned long long)c.requests, (unsigned long long)c.responses,
		(unsigned long long)c.batches, (unsigned long long)d.requests,
		(unsigned long long)d.replies, (unsigned long long)d.wakes,
		(unsigned long long)s.requests, (unsigned long long)s.replies,
		(unsigned long long)s.bad_requests, (unsigned long long)f.calls,
		(unsigned long long)f.responses, (unsigned long long)f.requests,
		(unsigned long long)f.replies, (unsigned long long)r.bytes,
		(unsigned long long)r.slices, (unsigned long long)r.exclusions);
	CHECK(!fflush(stdout));
}

/* Ends some objects and some waits, which must not be shown any more. */
static void end_some(const char *name)
{
	const struct flux_attr attr = {.nodes = 2};
	struct shmipc_server *s;
	struct shmipc_client *c;
	char second[64], *text;
	struct tent_segment *segment;
	struct flux *f;

	snprintf(second, sizeof(second), "%s.second", name);
	CHECK_EQ(shmipc_server_create(second, NULL, &s), 0);
	CHECK_EQ(shmipc_server_wait(s, 20 * NSEC_PER_MSEC), 0);
	CHECK_EQ(shmipc_client_connect(second, NULL, &c), 0);
	CHECK_EQ(shmipc_client_call(c, "call", 4, 0), 0);
	CHECK_EQ(shmipc_client_wait(c, 20 * NSEC_PER_MSEC), 0);
	CHECK_EQ(shmipc_server_unlink(s), 0);
	CHECK_EQ(flux_create(&attr, &f), 0);
	flux_destroy(f);
	CHECK_EQ(tent_export(rail_ends[1], &text), 0);
	CHECK_EQ(tent_import(rail_ends[0], text, NULL, &segment), 0);
	CHECK_EQ(tent_release(segment), 0);
	free(text);
}

static void start_waits(pthread_t *threads, const char *name, struct delegrpc_client *dc)
{
	static char memory[65536];
	const struct tent_attr attr = {.rail_wait_ms = 1000000};

	open_tent(&attr, rail_ends, memory, sizeof(memory), &over_rail);
	end_some(name);
	CHECK_EQ(pthread_create(&threads[0], NULL, wait_shmipc, NULL), 0);
	CHECK_EQ(pthread_create(&threads[1], NULL, wait_delegrpc, dc), 0);
	CHECK_EQ(pthread_create(&threads[2], NULL, wait_flux, NULL), 0);
}

/* Ends the servers and the flux node for which threads 0 to 2 wait. Joins all four threads. */
static void end_waits(pthread_t *threads, struct flux *f, struct delegrpc_server **ds)
{
	flux_leave(flux_get_node(f, 2));
	shmipc_server_destroy(ss);
	delegrpc_server_destroy(*ds);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < 2; i++)
		tent_destroy(rail_ends[i]);
	ss = NULL;
	*ds = NULL;
}

int main(int argc, char **argv)
{
	static char memory[1 << 20];
	const char *name = argv[1];
	struct delegrpc_server *ds;
	struct delegrpc_client *dc;
	const struct tent_attr shm = {.shm_rails = 2};
	struct tent_request over_shm;
	pthread_t threads[4];
	struct flux *f;
	char c;

	CHECK(argc == 2 || argc == 3);
	/* Lets any process read this one. Fails, and is not needed, without Yama. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	open_copyrpc();
	open_delegrpc(name, &ds, &dc);
	open_shmipc(name);
	f = open_flux();
	open_tent(&shm, t, memory, sizeof(memory), &over_shm);
	move(t[0], &over_shm);
	if (argc == 3)
		start_waits(threads, name, dc);
	CHECK(printf("%d\n", (int)getpid()) > 0 && !fflush(stdout));
	if (argc == 3) {
		write_stats(ds, &over_shm);
		CHECK_EQ(read(0, &c, 1), 1);
		CHECK_EQ(pthread_create(&threads[3], NULL, wait_tent, NULL), 0);
	}
	CHECK_EQ(read(0, &c, 1), 0);
	if (argc == 3)
		end_waits(threads, f, &ds);
	for (int i = 0; i < 2; i++) {
		tent_destroy(t[i]);
		copyrpc_ctx_destroy(rpc.ctx[i]);
	}
	flux_destroy(f);
	shmipc_client_disconnect(sc);
	shmipc_server_destroy(ss);
	delegrpc_client_disconnect(dc);
	delegrpc_server_destroy(ds);
	return 0;
}
