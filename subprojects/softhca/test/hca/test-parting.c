/* SPDX-License-Identifier: MIT */
/* The end of a connection does not overtake the completions that came before it. */
#include "../cm/raw.h"
#include "rig.h"

#define PATIENCE_NS 500000000u

static struct rig a, b;
static int sch, cch;
static uint32_t client, child, listener;

static void connect_ids(void)
{
	struct rdma_ucm_conn_param asked = raw_param(a.qp->qp_num, NULL);
	struct rdma_ucm_conn_param reply = raw_param(b.qp->qp_num, NULL);
	uint16_t port = raw_listener(sch, SERVER, LOOP, 0, &listener);

	client = raw_ready(cch, CLIENT, RDMA_PS_TCP, NULL, LOOP, port);
	CHECK_EQ(raw_connect(cch, client, &asked), 0);
	child = raw_expect(sch, CONNECT_REQUEST, SERVER).id;
	CHECK_EQ(raw_accept(sch, child, CHILD, &reply), 0);
	raw_expect(cch, CONNECT_RESPONSE, CLIENT);
	CHECK_EQ(raw_accept(cch, client, 0, NULL), 0);
	raw_expect(sch, ESTABLISHED, CHILD);
}

static void open_both(void)
{
	rig_open_pair(&a, NULL, &b, NULL);
	connect_ids();
}

static void close_both(void)
{
	CHECK(raw_destroy(sch, child) > 0);
	CHECK(raw_destroy(cch, client) > 0);
	CHECK(raw_destroy(sch, listener) > 0);
}

static void send_one(struct rig *from, struct rig *to)
{
	rig_recv(to, 0, 0, 64);
	rig_send(from, 8);
	rig_wait_ok(from == &a ? a.scq : a.rcq);
}

/*
 * If the server does not poll its completions, the end of the connection waits, but not for ever.
 */
static void not_polled(bool sends)
{
	uint64_t asked;

	open_both();
	if (sends)
		send_one(&b, &a);
	else
		send_one(&a, &b);
	asked = test_now_ns();
	CHECK_EQ(raw_disconnect(cch, client), 0);
	raw_expect(sch, DISCONNECTED, CHILD);
	CHECK(test_now_ns() - asked >= PATIENCE_NS);
	close_both();
}

TEST_WITH(not_polled_receive, not_polled, false);
TEST_WITH(not_polled_send, not_polled, true);

/* If the server polls in time, it gets the completion first. */
static void poll_in_time(void)
{
	struct ibv_wc wc;
	uint64_t asked;
	int n = 0;

	open_both();
	send_one(&a, &b);
	asked = test_now_ns();
	CHECK_EQ(raw_disconnect(cch, client), 0);
	while (!raw_readable(sch, 0))
		n += ibv_poll_cq(b.rcq, 1, &wc);
	CHECK(n == 1 || test_now_ns() - asked >= PATIENCE_NS); /* or the machine was too busy */
	raw_expect(sch, DISCONNECTED, CHILD);
	close_both();
}

TEST(polled)
{
	for (int i = 0; i < 10; i++)
		poll_in_time();
}

int main(int argc, char **argv)
{
	test_fabric("parting");
	sch = raw_open(0);
	cch = raw_open(0);
	return test_main(argc, argv);
}
