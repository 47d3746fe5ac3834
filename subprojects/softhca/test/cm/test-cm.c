/* SPDX-License-Identifier: MIT */
/* Checks events, addresses and QP attributes at the two ends of a connection. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "../tmpdir.h"
#include "ends.h"

#define VENDOR_OPTION 35
#define MESSAGE_NS 100000u /* least time of a message between the ends */

#define LATENCY_NS 20000000u /* of adapters in the real link model */

/*
 * Messages arrive immediately in step mode and in virtual time. In the real link model they take
 * MESSAGE_NS and the latency.
 */
static void in_model(const char *variable, const char *value, bool at_once)
{
	uint32_t listener;

	if (!test_in_child())
		return;
	CHECK(!setenv(variable, value, 1));
	test_fabric(value);
	request(RDMA_PS_TCP, CLIENT, serve(&listener));
	CHECK(!at_once || raw_readable(sch, 0));
	raw_expect(sch, CONNECT_REQUEST, SERVER);
	CHECK(at_once || test_now_ns() - sent >= MESSAGE_NS + LATENCY_NS);
	exit(0); /* this also removes the fabric */
}

/* These cases come first, because a process reads its model once and its children inherit it. */
TEST_WITH(step_mode, in_model, "SOFTHCA_MODE", "step", true);
TEST_WITH(virtual_time, in_model, "SOFTHCA_LINK", "virtual", true);
TEST_WITH(real_links, in_model, "SOFTHCA_LINK", "real", false);

/* Connects, rejects or disconnects after its last stage, when it is told to. */
static void act_when_told(int fd)
{
	struct rdma_ucm_conn_param p = raw_param(1, NULL);
	uint32_t id;

	cch = raw_open(0);
	id = raw_ready(cch, CLIENT, RDMA_PS_TCP, NULL, LOOP, server_port);
	if (last_stage > ASKED) {
		CHECK_EQ(raw_connect(cch, id, &p), 0);
		raw_expect(cch, CONNECT_RESPONSE, CLIENT);
	}
	if (last_stage >= CONNECTED)
		CHECK_EQ(raw_accept(cch, id, 0, NULL), 0);
	if (last_stage == DYING)
		raw_expect(cch, DISCONNECTED, CLIENT);
	test_put(fd, "x", 1);
	test_get(fd, &(char){0}, 1);
	if (last_stage == ASKED)
		raw_connect(cch, id, &p);
	else if (last_stage == ACCEPTED)
		raw_reject(cch, id, "", 0, 0);
	else
		raw_disconnect(cch, id);
	await_death(fd);
}

/* Another process connects, although the listener has room for one request only. */
static void connect_another(void)
{
	cch = raw_open(0);
	request(RDMA_PS_TCP, CLIENT, server_port);
	CHECK(raw_readable(sch, 0));
	raw_expect(sch, CONNECT_REQUEST, SERVER);
}

/*
 * A client is killed when it has changed its own id, but has not posted the event yet. In step mode
 * the sender posts it.
 */
static void client_dies_posting(int stage, uint32_t event)
{
	struct rdma_ucm_conn_param p = raw_param(2, NULL);
	uint32_t listener, child;
	pid_t pid;
	int fd;

	if (!test_in_child())
		return;
	CHECK(!setenv("SOFTHCA_MODE", "step", 1));
	test_fabric("posting");
	sch = raw_open(0);
	server_port = raw_listener(sch, SERVER, LOOP, 1, &listener);
	last_stage = stage;
	pid = test_peer(act_when_told, &fd);
	if (stage > ASKED) {
		child = raw_expect(sch, CONNECT_REQUEST, SERVER).id;
		CHECK_EQ(raw_accept(sch, child, CHILD, &p), 0);
	}
	if (stage >= CONNECTED)
		raw_expect(sch, ESTABLISHED, CHILD);
	if (stage == DYING)
		CHECK_EQ(raw_disconnect(sch, child), 0);
	kill_at_write(pid, fd);
	if (stage == ASKED) {
		connect_another();
		exit(0);
	}
	CHECK_EQ(raw_destroy(sch, raw_id(sch, SERVER, RDMA_PS_TCP)), 0);
	CHECK(raw_readable(sch, 0));
	raw_expect(sch, event, CHILD);
	exit(0);
}

TEST_WITH(client_dies_asking, client_dies_posting, ASKED, CONNECT_REQUEST);
TEST_WITH(client_dies_rejecting, client_dies_posting, ACCEPTED, REJECTED);
TEST_WITH(client_dies_disconnecting, client_dies_posting, CONNECTED, DISCONNECTED);
TEST_WITH(client_dies_answering, client_dies_posting, DYING, DISCONNECTED);

/* Makes a client that has sent a request. Returns the server's id for the request. */
static uint32_t ask(uint32_t *client, uint32_t *listener)
{
	uint16_t port = serve(listener);
	struct rdma_ucm_conn_param p = raw_param(0x123, "hello");
	struct rdma_ucm_event_resp e;

	*client = raw_ready(cch, CLIENT, RDMA_PS_TCP, NULL, LOOP, port);
	CHECK_EQ(raw_connect(cch, *client, &p), 0);
	e = raw_expect(sch, CONNECT_REQUEST, SERVER);
	CHECK_EQ(e.status, 0);
	CHECK_EQ(e.param.conn.qp_num, 0x123);
	raw_check_param(&e.param.conn);
	CHECK_EQ(e.param.conn.private_data[55], 0);
	return e.id;
}

static void accept_it(uint32_t child)
{
	struct rdma_ucm_conn_param p = raw_param(0x456, "welcome");
	struct rdma_ucm_event_resp e;

	p.responder_resources = 2;
	p.initiator_depth = 1;
	p.rnr_retry_count = 7;
	CHECK_EQ(raw_accept(sch, child, CHILD, &p), 0);
	e = raw_expect(cch, CONNECT_RESPONSE, CLIENT);
	CHECK_EQ(e.param.conn.qp_num, 0x456);
	CHECK_EQ(e.param.conn.responder_resources, 1);
	CHECK_EQ(e.param.conn.initiator_depth, 2);
	CHECK_EQ(e.param.conn.private_data_len, 196);
	CHECK_STR((char *)e.param.conn.private_data, "welcome");
}

static uint32_t connect_both(uint32_t *client, uint32_t *listener)
{
	uint32_t child = ask(client, listener);

	accept_it(child);
	CHECK_EQ(raw_accept(cch, *client, 0, NULL), 0);
	CHECK_EQ(raw_expect(sch, ESTABLISHED, CHILD).id, child);
	return child;
}

/* Each end's attributes have the other end's QP number and PSN. */
TEST(attributes)
{
	struct ib_uverbs_qp_attr c, s;
	uint32_t client, listener, child = ask(&client, &listener);

	/* The server's QP is ready before it accepts. */
	CHECK_EQ(raw_qp_attr(sch, child, 1, &s), 0);
	CHECK_EQ(s.qp_access_flags, 2 | 4 | 8);
	CHECK_EQ(raw_qp_attr(sch, child, 2, &s), 0);
	CHECK_EQ(s.dest_qp_num, 0x123);
	CHECK_EQ(s.max_dest_rd_atomic, 5);
	CHECK_EQ(raw_qp_attr(sch, child, 3, &s), 0);
	CHECK_EQ(s.max_rd_atomic, 3);
	CHECK_EQ(s.retry_cnt, 6);
	CHECK_EQ(s.rnr_retry, 4);
	CHECK_EQ(raw_qp_attr(sch, child, 4, &s), -EINVAL);
	accept_it(child);
	CHECK_EQ(raw_qp_attr(cch, client, 2, &c), 0);
	CHECK_EQ(c.dest_qp_num, 0x456);
	CHECK_EQ(c.max_dest_rd_atomic, 1);
	CHECK_EQ(c.path_mtu, 5);
	CHECK_EQ(c.ah_attr.dlid, 16);
	CHECK_EQ(c.ah_attr.port_num, 1);
	CHECK_EQ(raw_qp_attr(sch, child, 3, &s), 0);
	CHECK_EQ(c.rq_psn, s.sq_psn);
	CHECK_EQ(raw_qp_attr(cch, client, 3, &c), 0);
	CHECK_EQ(c.max_rd_atomic, 2);
	CHECK_EQ(c.retry_cnt, 6);
	CHECK_EQ(c.rnr_retry, 7);
	CHECK_EQ(raw_qp_attr(sch, child, 2, &s), 0);
	CHECK_EQ(c.sq_psn, s.rq_psn);
	CHECK_EQ(raw_destroy(cch, client), 3);
	raw_expect(sch, REJECTED, CHILD);
	CHECK_EQ(raw_destroy(sch, child), 1);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	none_left();
}

/* The end that disconnects first gets DISCONNECTED when the other end has disconnected, too. */
static void disconnect(bool server_asks, bool by_destruction)
{
	uint32_t client, listener, child = connect_both(&client, &listener);
	int a = server_asks ? sch : cch, b = server_asks ? cch : sch;
	uint32_t a_id = server_asks ? child : client, b_id = server_asks ? client : child;
	uint64_t a_uid = server_asks ? CHILD : CLIENT, b_uid = server_asks ? CLIENT : CHILD;

	CHECK_EQ(raw_disconnect(a, a_id), 0);
	raw_expect(b, DISCONNECTED, b_uid);
	none_left();
	if (by_destruction) {
		CHECK(raw_destroy(b, b_id) > 0);
	} else {
		CHECK_EQ(raw_disconnect(b, b_id), 0);
		raw_expect(b, TIMEWAIT_EXIT, b_uid);
	}
	raw_expect(a, DISCONNECTED, a_uid);
	raw_expect(a, TIMEWAIT_EXIT, a_uid);
	CHECK(raw_destroy(a, a_id) > 0);
	if (!by_destruction)
		CHECK(raw_destroy(b, b_id) > 0);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	none_left();
}

TEST_WITH(client_disconnects, disconnect, false, false);
TEST_WITH(server_disconnects, disconnect, true, false);
TEST_WITH(client_disconnects_server_destroys, disconnect, false, true);
TEST_WITH(server_disconnects_client_destroys, disconnect, true, true);

/*
 * Each end disconnects before it has read the other end's disconnection, and then reads that event
 * first.
 */
static void disconnect_once(void)
{
	uint32_t client, listener, child = connect_both(&client, &listener);

	CHECK_EQ(raw_disconnect(cch, client), 0);
	CHECK_EQ(raw_disconnect(sch, child), 0);
	raw_expect(sch, DISCONNECTED, CHILD);
	raw_expect(sch, TIMEWAIT_EXIT, CHILD);
	raw_expect(cch, DISCONNECTED, CLIENT);
	raw_expect(cch, TIMEWAIT_EXIT, CLIENT);
	CHECK_EQ(raw_destroy(cch, client), 5);
	CHECK_EQ(raw_destroy(sch, child), 3);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	none_left();
}

TEST(both_disconnect)
{
	for (int i = 0; i < 10; i++)
		disconnect_once();
}

/* Returns the next event, which must arrive at least MESSAGE_NS after `sent`. */
static struct rdma_ucm_event_resp expect_later(int fd, uint32_t type, uint64_t uid)
{
	struct rdma_ucm_event_resp e = raw_expect(fd, type, uid);

	CHECK(test_now_ns() - sent >= MESSAGE_NS);
	return e;
}

static void send_each_message(void)
{
	uint32_t client, listener, child;
	struct rdma_ucm_conn_param p = raw_param(1, NULL);
	uint16_t port = serve(&listener);

	client = request(RDMA_PS_TCP, CLIENT, port);
	child = expect_later(sch, CONNECT_REQUEST, SERVER).id;
	sent = test_now_ns();
	CHECK_EQ(raw_accept(sch, child, CHILD, &p), 0);
	expect_later(cch, CONNECT_RESPONSE, CLIENT);
	sent = test_now_ns();
	CHECK_EQ(raw_accept(cch, client, 0, NULL), 0);
	expect_later(sch, ESTABLISHED, CHILD);
	sent = test_now_ns();
	CHECK_EQ(raw_disconnect(cch, client), 0);
	expect_later(sch, DISCONNECTED, CHILD);
	sent = test_now_ns();
	CHECK_EQ(raw_disconnect(sch, child), 0);
	raw_expect(sch, TIMEWAIT_EXIT, CHILD);
	expect_later(cch, DISCONNECTED, CLIENT);
	raw_expect(cch, TIMEWAIT_EXIT, CLIENT);
	CHECK_EQ(raw_destroy(cch, client), 5);
	CHECK_EQ(raw_destroy(sch, child), 3);
	/* Rejections by a program, and for lack of a listener. */
	client = request(RDMA_PS_TCP, CLIENT, port);
	child = raw_expect(sch, CONNECT_REQUEST, SERVER).id;
	sent = test_now_ns();
	CHECK_EQ(raw_reject(sch, child, "", 0, 0), 0);
	expect_later(cch, REJECTED, CLIENT);
	CHECK_EQ(raw_destroy(sch, child), 0);
	CHECK_EQ(raw_destroy(cch, client), 3);
	CHECK_EQ(raw_destroy(sch, listener), 2);
	client = request(RDMA_PS_TCP, CLIENT, port);
	expect_later(cch, REJECTED, CLIENT);
	CHECK_EQ(raw_destroy(cch, client), 3);
	none_left();
}

/*
 * Messages take time, as over a network, so data that was sent earlier over the QPs arrives
 * earlier. Repeated, because a thread that wakes up late adds to the time.
 */
TEST(messages_take_time)
{
	for (int i = 0; i < 20; i++)
		send_each_message();
}

/* Destroying a connected id, or closing its channel, ends the connection. */
TEST(destroy_connected)
{
	uint32_t client, listener, child = connect_both(&client, &listener);

	CHECK_EQ(raw_destroy(cch, client), 3);
	raw_expect(sch, DISCONNECTED, CHILD);
	CHECK_EQ(raw_destroy(sch, child), 2);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	connect_both(&client, &listener);
	CHECK_EQ(close(sch), 0);
	raw_expect(cch, DISCONNECTED, CLIENT);
	CHECK_EQ(raw_disconnect(cch, client), 0);
	raw_expect(cch, TIMEWAIT_EXIT, CLIENT);
	CHECK_EQ(raw_destroy(cch, client), 5);
	sch = raw_open(0);
	none_left();
}

static void rejected_with(uint8_t reason, uint32_t status)
{
	uint32_t client, listener, child = ask(&client, &listener);
	struct rdma_ucm_event_resp e;

	CHECK_EQ(raw_reject(sch, child, "", 149, reason), -EINVAL);
	CHECK_EQ(raw_reject(sch, child, "", 0, 1), -EINVAL);
	CHECK_EQ(raw_reject(sch, child, "sorry", 6, reason), 0);
	e = raw_expect(cch, REJECTED, CLIENT);
	CHECK_EQ(e.status, status);
	CHECK_EQ(e.param.conn.private_data_len, 148);
	CHECK_STR((char *)e.param.conn.private_data, "sorry");
	CHECK_EQ(raw_accept(sch, child, CHILD, &(struct rdma_ucm_conn_param){.valid = 1}), -EINVAL);
	CHECK_EQ(raw_destroy(sch, child), 0);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	CHECK_EQ(raw_destroy(cch, client), 3);
	none_left();
}

TEST_WITH(rejected, rejected_with, 0, CONSUMER);
TEST_WITH(rejected_with_reason, rejected_with, VENDOR_OPTION, VENDOR_OPTION);

/* Requests without an answer: no id listens, or the id is destroyed. */
TEST(not_answered)
{
	uint32_t client, listener, child;
	struct rdma_ucm_conn_param p = raw_param(1, NULL);
	uint16_t port = serve(&listener);

	client = request(RDMA_PS_TCP, CLIENT, (uint16_t)(port ^ 1));
	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT).status, NO_SERVICE);
	CHECK_EQ(raw_connect(cch, client, &p), -EINVAL);
	CHECK_EQ(raw_destroy(cch, client), 3);
	/* The listening id is destroyed before the request is read. */
	client = request(RDMA_PS_TCP, CLIENT, port);
	CHECK(raw_readable(sch, GUARD_MS));
	CHECK_EQ(raw_destroy(sch, listener), 0);
	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT).status, CONSUMER);
	CHECK_EQ(raw_destroy(cch, client), 3);
	none_left();
	/* The id of a request is destroyed after the request was read. */
	child = ask(&client, &listener);
	CHECK_EQ(raw_destroy(sch, child), 0);
	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT).status, CONSUMER);
	CHECK_EQ(raw_destroy(cch, client), 3);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	none_left();
}

/* Clients that are destroyed before they are accepted. */
TEST(withdrawn)
{
	uint32_t client, second, listener, child;
	struct rdma_ucm_conn_param p = raw_param(1, NULL);
	uint16_t port = serve(&listener);

	/* Before its request is read: the server cannot accept. */
	client = request(RDMA_PS_TCP, CLIENT, port);
	CHECK(raw_readable(sch, GUARD_MS));
	CHECK_EQ(raw_destroy(cch, client), 2);
	CHECK(raw_readable(sch, 0));
	child = raw_expect(sch, CONNECT_REQUEST, SERVER).id;
	CHECK_EQ(raw_accept(sch, child, CHILD, &p), -EINVAL);
	CHECK_EQ(raw_destroy(sch, child), 0);
	/* The same, but the server never reads it. */
	client = request(RDMA_PS_TCP, CLIENT, port);
	CHECK_EQ(raw_destroy(cch, client), 2);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	none_left();
	port = serve(&listener);
	second = request(RDMA_PS_TCP, CLIENT + 1, port);
	child = raw_expect(sch, CONNECT_REQUEST, SERVER).id;
	CHECK_EQ(raw_accept(sch, child, CHILD, &p), 0);
	raw_expect(cch, CONNECT_RESPONSE, CLIENT + 1);
	CHECK_EQ(raw_destroy(cch, second), 3);
	raw_expect(sch, REJECTED, CHILD);
	CHECK_EQ(raw_destroy(sch, child), 1);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	/* If the client is destroyed later, the server cannot accept. */
	child = ask(&client, &listener);
	CHECK_EQ(raw_destroy(cch, client), 2);
	CHECK_EQ(raw_accept(sch, child, CHILD, &p), -EINVAL);
	CHECK_EQ(raw_destroy(sch, child), 0);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	none_left();
}

TEST(backlog_of_one)
{
	uint32_t client, second, listener;
	uint16_t port;

	open_channels();
	port = raw_listener(sch, SERVER, LOOP, 1, &listener);
	client = request(RDMA_PS_TCP, CLIENT, port);
	second = request(RDMA_PS_TCP, CLIENT + 1, port);
	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT + 1).status, CONSUMER);
	CHECK_EQ(raw_destroy(cch, client), 2);
	CHECK_EQ(raw_destroy(cch, second), 3);
	CHECK_EQ(raw_destroy(sch, listener), 0);
	none_left();
}

static int bind_new(const char *ip, uint16_t port, uint32_t *id_p)
{
	*id_p = raw_id(sch, SERVER, RDMA_PS_TCP);
	return raw_bind(sch, *id_p, ip, port);
}

static int bind_and_forget(const char *ip, uint16_t port)
{
	uint32_t id;
	int r = bind_new(ip, port, &id);

	CHECK_EQ(raw_destroy(sch, id), 0);
	return r;
}

static void reuse(uint32_t id)
{
	int on = 1;
	struct rdma_ucm_set_option in = {.optval = (uintptr_t)&on,
		.id = id,
		.level = RDMA_OPTION_ID,
		.optname = RDMA_OPTION_ID_REUSEADDR,
		.optlen = sizeof(on)};

	CHECK_EQ(raw_command(sch, RDMA_USER_CM_CMD_SET_OPTION, &in, sizeof(in), 0), 0);
}

TEST(ports)
{
	uint32_t a, b, udp;

	open_channels();
	udp = raw_id(sch, SERVER, RDMA_PS_UDP);
	CHECK_EQ(bind_new(LOOP, 7000, &a), 0);
	CHECK_EQ(bind_and_forget(LOOP, 7000), -EADDRINUSE);
	CHECK_EQ(bind_and_forget("0.0.0.0", 7000), -EADDRINUSE);
	CHECK_EQ(bind_and_forget("127.0.0.2", 7000), 0);
	CHECK_EQ(raw_bind(sch, udp, LOOP, 7000), 0); /* another port space */
	CHECK_EQ(raw_destroy(sch, udp), 0);
	CHECK_EQ(raw_destroy(sch, a), 0);
	CHECK_EQ(bind_new("0.0.0.0", 7000, &a), 0);
	CHECK_EQ(bind_and_forget(LOOP, 7000), -EADDRINUSE);
	CHECK_EQ(raw_destroy(sch, a), 0);
	/* Two ids may share an address if both have the option; one of them may listen. */
	a = raw_id(sch, SERVER, RDMA_PS_TCP);
	b = raw_id(sch, SERVER, RDMA_PS_TCP);
	reuse(a);
	reuse(b);
	CHECK_EQ(raw_bind(sch, a, LOOP, 7000), 0);
	CHECK_EQ(raw_bind(sch, b, LOOP, 7000), 0);
	CHECK_EQ(bind_and_forget(LOOP, 7000), -EADDRINUSE);
	CHECK_EQ(raw_listen(sch, a, 0), 0);
	CHECK_EQ(raw_listen(sch, b, 0), -EADDRINUSE);
	CHECK_EQ(raw_destroy(sch, a), 0);
	CHECK_EQ(raw_destroy(sch, b), 0);
	none_left();
}

/* Datagrams: the reply has the QP number and the key, and there is no third message. */
TEST(datagrams)
{
	struct rdma_ucm_conn_param p = raw_param(0x77, "who");
	uint32_t listener, client;
	struct rdma_ucm_event_resp e;
	struct ib_uverbs_qp_attr a;

	open_channels();
	listener = raw_id(sch, SERVER, RDMA_PS_UDP);
	CHECK_EQ(raw_bind(sch, listener, "0.0.0.0", 7000), 0);
	CHECK_EQ(raw_listen(sch, listener, 0), 0);
	client = raw_ready(cch, CLIENT, RDMA_PS_UDP, NULL, LOOP, 7000);
	CHECK_EQ(raw_qp_attr(cch, client, 1, &a), 0);
	CHECK_EQ(a.qkey, 0x01234567);
	p.private_data_len = 181;
	CHECK_EQ(raw_connect(cch, client, &p), -EINVAL);
	p.private_data_len = 4;
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	e = raw_expect(sch, CONNECT_REQUEST, SERVER);
	CHECK_EQ(e.param.ud.private_data_len, 180);
	CHECK_STR((char *)e.param.ud.private_data, "who");
	p = raw_param(0x88, "me");
	p.private_data_len = 137;
	CHECK_EQ(raw_accept(sch, e.id, CHILD, &p), -EINVAL);
	p.private_data_len = 3;
	CHECK_EQ(raw_accept(sch, e.id, CHILD, &p), 0);
	CHECK_EQ(raw_destroy(sch, e.id), 0);
	e = raw_expect(cch, ESTABLISHED, CLIENT);
	CHECK_EQ(e.param.ud.qp_num, 0x88);
	CHECK_EQ(e.param.ud.qkey, 0x01234567);
	CHECK_EQ(e.param.ud.ah_attr.dlid, 16);
	CHECK_EQ(e.param.ud.private_data_len, 136);
	CHECK_STR((char *)e.param.ud.private_data, "me");
	CHECK_EQ(raw_destroy(cch, client), 3);
	/* A request that is rejected, and one for a port without a listener. */
	client = request(RDMA_PS_UDP, CLIENT, 7000);
	CHECK_EQ(raw_reject(sch, raw_expect(sch, CONNECT_REQUEST, SERVER).id, "", 0, 0), 0);
	CHECK_EQ(raw_expect(cch, UNREACHABLE, CLIENT).status, 2);
	CHECK_EQ(raw_destroy(cch, client), 3);
	client = request(RDMA_PS_UDP, CLIENT, 7001);
	CHECK_EQ(raw_expect(cch, UNREACHABLE, CLIENT).status, 1);
	CHECK_EQ(raw_destroy(cch, client), 3);
	CHECK_EQ(close(sch), 0);
	sch = raw_open(0);
	none_left();
}

TEST(unknown_address)
{
	uint32_t client;

	open_channels();
	client = raw_id(cch, CLIENT, RDMA_PS_TCP);
	raw_resolve_unknown(cch, client, CLIENT, "192.0.2.77",
		"no adapter with udp=on reaches it\n");
	raw_resolve_unknown(cch, client, CLIENT, "2001:db8::77",
		"no adapter with udp=on reaches it\n");
	CHECK_EQ(raw_resolve(cch, client, LOOP, 1), 0);
	raw_expect(cch, ADDR_RESOLVED, CLIENT);
	CHECK_EQ(raw_destroy(cch, client), 3);
	none_left();
}

static int resolve_from(uint32_t id, const char *from, const char *ip)
{
	struct rdma_ucm_resolve_addr in = {.id = id,
		.timeout_ms = 100,
		.src_size = sizeof(struct sockaddr_in),
		.dst_size = sizeof(struct sockaddr_in)};
	struct sockaddr_in src = raw_addr(from, 0), dst = raw_addr(ip, 1);

	memcpy(&in.src_addr, &src, sizeof(src));
	memcpy(&in.dst_addr, &dst, sizeof(dst));
	return raw_command(cch, RDMA_USER_CM_CMD_RESOLVE_ADDR, &in, sizeof(in), 0);
}

/* Only an id that is not bound yet is bound to the source address, as on Linux. */
TEST(source_of_a_bound_id)
{
	uint32_t client;

	open_channels();
	client = raw_id(cch, CLIENT, RDMA_PS_TCP);
	CHECK_EQ(resolve_from(client, "192.0.2.78", LOOP), -EADDRNOTAVAIL);
	CHECK_EQ(resolve_from(client, LOOP, "192.0.2.77"), 0);
	raw_expect(cch, ADDR_ERROR, CLIENT);
	CHECK_EQ(resolve_from(client, LOOP, LOOP), 0);
	raw_expect(cch, ADDR_RESOLVED, CLIENT);
	CHECK_EQ(raw_destroy(cch, client), 2);
	client = raw_id(cch, CLIENT, RDMA_PS_TCP);
	CHECK_EQ(raw_bind(cch, client, LOOP, 0), 0);
	CHECK_EQ(resolve_from(client, "192.0.2.78", LOOP), 0);
	raw_expect(cch, ADDR_RESOLVED, CLIENT);
	CHECK_EQ(resolve_from(client, LOOP, LOOP), -EINVAL); /* it is resolved already */
	CHECK_EQ(raw_destroy(cch, client), 1);
	none_left();
}

/* A thread that waits for an event. The test wakes it by an event, or cancels it. */
static void *wait_for_event(void *arg)
{
	struct rdma_ucm_event_resp e;
	int r = raw_event(cch, &e);

	return (void *)(intptr_t)(r ? r : (int)e.event);
}

TEST(waiting)
{
	uint32_t client, listener, child = connect_both(&client, &listener);
	struct rdma_ucm_event_resp e;
	pthread_t t;
	void *ret;

	CHECK(!pthread_create(&t, NULL, wait_for_event, NULL));
	CHECK_EQ(raw_disconnect(sch, child), 0);
	CHECK(!pthread_join(t, &ret));
	CHECK_EQ((intptr_t)ret, DISCONNECTED);
	CHECK_EQ(close(sch), 0);
	CHECK_EQ(raw_destroy(cch, client), 4);
	CHECK(!pthread_create(&t, NULL, wait_for_event, NULL));
	CHECK(!pthread_cancel(t));
	CHECK(!pthread_join(t, &ret));
	CHECK(ret == PTHREAD_CANCELED);
	CHECK(!fcntl(cch, F_SETFL, O_NONBLOCK));
	CHECK_EQ(raw_event(cch, &e), -EAGAIN);
	CHECK(!fcntl(cch, F_SETFL, 0));
	sch = raw_open(0);
	none_left();
}

/* A duplicated descriptor keeps the channel open; a closed descriptor is not a channel. */
TEST(duplicates)
{
	int fd = raw_open(0), other = dup(fd);
	uint32_t id = raw_id(fd, 1, RDMA_PS_TCP);

	CHECK(other >= 0);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(raw_destroy(other, id), 0);
	CHECK_EQ(close(other), 0);
	CHECK(write(other, "x", 1) < 0);
	CHECK_EQ(errno, EBADF);
}

int main(int argc, char **argv)
{
	tmpdir_topology("latency_ns=20000000\n");
	test_fabric("cm");
	return test_main(argc, argv);
}
