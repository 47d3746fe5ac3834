/* SPDX-License-Identifier: MIT */
/*
 * Makes objects of all layers in states that debugger.py knows, writes its process id, and waits until
 * its standard input is closed. Calls are in flight, requests are unanswered, a batch is open.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "support/test.h"
#include "copyrpc.h"
#include "delegrpc.h"
#include "flux.h"
#include "shmipc.h"
#include "tent.h"

/* The debugger finds these through static variables, and delegrpc's through local ones. */
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

/* Endpoint 0 has sent three calls of 8 bytes, of which one is received, and has two in the open
 * batch. */
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
	for (uint64_t i = 0; i < 2; i++)
		CHECK_EQ(flux_call(node, 2, &v, sizeof(v), i), 0);
	return f;
}

static void open_tent(void *memory, size_t len)
{
	struct tent_attr attr = {.shm_rails = 2};
	struct tent_request r = {.op = TENT_WRITE, .local = memory, .len = len};
	struct tent_remote there;
	struct tent_batch *b;
	char *text;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(tent_create(&attr, NULL, &t[i]), 0);
		CHECK_EQ(tent_register(t[i], memory, len, NULL, NULL), 0);
	}
	CHECK_EQ(tent_export(t[1], &text), 0);
	CHECK_EQ(tent_import(t[0], text, NULL, &r.segment), 0);
	CHECK_EQ(tent_segment_remote(r.segment, 0, &there, sizeof(there)), 0);
	r.remote = there.addr;
	CHECK_EQ(tent_submit(t[0], &r, 1, &b), 0);
	CHECK_EQ(tent_wait(b, -1), 0);
	tent_batch_free(b);
	free(text);
}

int main(int argc, char **argv)
{
	static char memory[1 << 20];
	const char *name = argv[1];
	struct delegrpc_server *ds;
	struct delegrpc_client *dc;
	struct flux *f;
	char c;

	CHECK(argc == 2);
	open_copyrpc();
	open_delegrpc(name, &ds, &dc);
	open_shmipc(name);
	f = open_flux();
	open_tent(memory, sizeof(memory));
	CHECK(printf("%d\n", (int)getpid()) > 0 && !fflush(stdout));
	CHECK_EQ(read(0, &c, 1), 0);
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
