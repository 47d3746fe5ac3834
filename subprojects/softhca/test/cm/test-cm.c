/* SPDX-License-Identifier: MIT */
/* Checks events, addresses and QP attributes at the two ends of a connection. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../tmpdir.h"
#include "raw.h"

#define LOOP "127.0.0.1"
#define SERVER 0x100 /* names of the ids */
#define CHILD 0x101
#define CLIENT 0x200
#define NO_SERVICE 8 /* reasons of a rejection */
#define CONSUMER 28
#define VENDOR_OPTION 35
#define GUARD_MS 60000
#define MESSAGE_NS 100000 /* at least, from one end to the other */

static int sch, cch; /* channels of the two ends */

/* A client has asked; returns the server's id for it. */
static uint32_t ask(uint32_t *client, uint32_t *listener)
{
	uint16_t port = raw_listener(sch, SERVER, LOOP, listener);
	struct rdma_ucm_conn_param p = raw_param(0x123, "hello");
	struct rdma_ucm_event_resp e;

	*client = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, port);
	CHECK_EQ(raw_connect(cch, *client, &p), 0);
	e = raw_expect(sch, CONNECT_REQUEST, SERVER);
	CHECK_EQ(e.status, 0);
	CHECK_EQ(e.param.conn.qp_num, 0x123);
	/* The resources of the client limit the requests of the server, and the reverse. */
	CHECK_EQ(e.param.conn.responder_resources, 5);
	CHECK_EQ(e.param.conn.initiator_depth, 3);
	CHECK_EQ(e.param.conn.retry_count, 6);
	CHECK_EQ(e.param.conn.rnr_retry_count, 4);
	CHECK_EQ(e.param.conn.private_data_len, 56);
	CHECK_STR((char *)e.param.conn.private_data, "hello");
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

static void none_left(void)
{
	CHECK(!raw_readable(sch, 0));
	CHECK(!raw_readable(cch, 0));
}

/* Each end's attributes have the other one's QP number and PSN. */
static void attributes(void)
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

/* The end that asks for the end learns of it when the other one agrees. */
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

/* Both disconnect at once: an end that agrees before it has read the event still reads it first. */
static void disconnect_both(void)
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

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* Returns the event, which takes the time of a message from @sent on. */
static struct rdma_ucm_event_resp expect_later(int fd, uint32_t type, uint64_t uid, int64_t sent)
{
	struct rdma_ucm_event_resp e = raw_expect(fd, type, uid);

	CHECK(now() - sent >= MESSAGE_NS);
	return e;
}

/* As over a network, so that what was sent before over the QPs is seen before. */
static void messages_take_time(void)
{
	uint32_t client, listener, child;
	struct rdma_ucm_conn_param p = raw_param(1, NULL);
	uint16_t port = raw_listener(sch, SERVER, LOOP, &listener);
	int64_t sent;

	client = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, port);
	sent = now();
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	child = expect_later(sch, CONNECT_REQUEST, SERVER, sent).id;
	sent = now();
	CHECK_EQ(raw_accept(sch, child, CHILD, &p), 0);
	expect_later(cch, CONNECT_RESPONSE, CLIENT, sent);
	sent = now();
	CHECK_EQ(raw_accept(cch, client, 0, NULL), 0);
	expect_later(sch, ESTABLISHED, CHILD, sent);
	sent = now();
	CHECK_EQ(raw_disconnect(cch, client), 0);
	expect_later(sch, DISCONNECTED, CHILD, sent);
	sent = now();
	CHECK_EQ(raw_disconnect(sch, child), 0);
	raw_expect(sch, TIMEWAIT_EXIT, CHILD);
	expect_later(cch, DISCONNECTED, CLIENT, sent);
	raw_expect(cch, TIMEWAIT_EXIT, CLIENT);
	CHECK_EQ(raw_destroy(cch, client), 5);
	CHECK_EQ(raw_destroy(sch, child), 3);
	/* A rejection, by the program and by nobody. */
	client = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, port);
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	child = raw_expect(sch, CONNECT_REQUEST, SERVER).id;
	sent = now();
	CHECK_EQ(raw_reject(sch, child, "", 0, 0), 0);
	expect_later(cch, REJECTED, CLIENT, sent);
	CHECK_EQ(raw_destroy(sch, child), 0);
	CHECK_EQ(raw_destroy(cch, client), 3);
	CHECK_EQ(raw_destroy(sch, listener), 2);
	client = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, port);
	sent = now();
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	expect_later(cch, REJECTED, CLIENT, sent);
	CHECK_EQ(raw_destroy(cch, client), 3);
	none_left();
}

#define LATENCY_NS 20000000 /* of adapters in the real link model */

/*
 * Without a thread, or where a clock of the fabric's own moves instead, they arrive at once; in the
 * real link model after the latency, too.
 */
static void in_model(const char *variable, const char *value, bool at_once)
{
	struct rdma_ucm_conn_param p = raw_param(1, NULL);
	uint32_t client, listener;
	int status;
	int64_t sent;
	uint16_t port;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid) {
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(status, 0);
		return;
	}
	CHECK(!setenv(variable, value, 1));
	raw_fabric(value);
	sch = raw_open(0);
	cch = raw_open(0);
	port = raw_listener(sch, SERVER, LOOP, &listener);
	client = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, port);
	sent = now();
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	CHECK(!at_once || raw_readable(sch, 0));
	raw_expect(sch, CONNECT_REQUEST, SERVER);
	CHECK(at_once || now() - sent >= MESSAGE_NS + LATENCY_NS);
	_exit(0);
}

/* Destroying a connected id, or closing its channel, ends the connection. */
static void destroy_connected(void)
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

/* Requests that nobody answers: nobody listens, the backlog is full, the id goes. */
static void not_answered(void)
{
	uint32_t client, second, listener, child;
	struct rdma_ucm_conn_param p = raw_param(1, NULL);
	uint16_t port = raw_listener(sch, SERVER, LOOP, &listener);

	client = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, (uint16_t)(port ^ 1));
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT).status, NO_SERVICE);
	CHECK_EQ(raw_connect(cch, client, &p), -EINVAL);
	CHECK_EQ(raw_destroy(cch, client), 3);
	/* Nobody reads the request before the listening id is destroyed. */
	client = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, port);
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	CHECK(raw_readable(sch, GUARD_MS));
	CHECK_EQ(raw_destroy(sch, listener), 0);
	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT).status, CONSUMER);
	CHECK_EQ(raw_destroy(cch, client), 3);
	none_left();
	/* A request that is read and destroyed. */
	child = ask(&client, &listener);
	CHECK_EQ(raw_destroy(sch, child), 0);
	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT).status, CONSUMER);
	CHECK_EQ(raw_destroy(cch, client), 3);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	/* A client that goes before its request is read: there is no request any more. */
	port = raw_listener(sch, SERVER, LOOP, &listener);
	client = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, port);
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	CHECK_EQ(raw_destroy(cch, client), 2);
	none_left();
	CHECK_EQ(raw_destroy(sch, listener), 0);
	/* One that goes after: the server cannot accept. */
	child = ask(&client, &listener);
	CHECK_EQ(raw_destroy(cch, client), 2);
	CHECK_EQ(raw_accept(sch, child, CHILD, &p), -EINVAL);
	CHECK_EQ(raw_destroy(sch, child), 0);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	/* A backlog of one. */
	listener = raw_id(sch, SERVER, RDMA_PS_TCP);
	CHECK_EQ(raw_bind(sch, listener, LOOP, 7654), 0);
	CHECK_EQ(raw_listen(sch, listener, 1), 0);
	client = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, 7654);
	second = raw_ready(cch, CLIENT + 1, RDMA_PS_TCP, LOOP, 7654);
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	CHECK_EQ(raw_connect(cch, second, &p), 0);
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

static void ports(void)
{
	uint32_t a, b, udp = raw_id(sch, SERVER, RDMA_PS_UDP);

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
	/* Two may share an address of which both say so; one of them may listen. */
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
}

/* Datagrams: the reply has the QP number and the key, and there is no third message. */
static void datagrams(void)
{
	struct rdma_ucm_conn_param p = raw_param(0x77, "who");
	uint32_t listener = raw_id(sch, SERVER, RDMA_PS_UDP), client;
	struct rdma_ucm_event_resp e;
	struct ib_uverbs_qp_attr a;

	CHECK_EQ(raw_bind(sch, listener, "0.0.0.0", 7000), 0);
	CHECK_EQ(raw_listen(sch, listener, 0), 0);
	client = raw_ready(cch, CLIENT, RDMA_PS_UDP, LOOP, 7000);
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
	/* Rejected, and where nobody listens. */
	client = raw_ready(cch, CLIENT, RDMA_PS_UDP, LOOP, 7000);
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	CHECK_EQ(raw_reject(sch, raw_expect(sch, CONNECT_REQUEST, SERVER).id, "", 0, 0), 0);
	CHECK_EQ(raw_expect(cch, UNREACHABLE, CLIENT).status, 2);
	CHECK_EQ(raw_destroy(cch, client), 3);
	client = raw_ready(cch, CLIENT, RDMA_PS_UDP, LOOP, 7001);
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	CHECK_EQ(raw_expect(cch, UNREACHABLE, CLIENT).status, 1);
	CHECK_EQ(raw_destroy(cch, client), 3);
	CHECK_EQ(close(sch), 0);
	sch = raw_open(0);
	none_left();
}

/* Nobody has it, and standard error says so. */
static void resolve_unknown(uint32_t client, const char *ip)
{
	int said = memfd_create("said", MFD_CLOEXEC),
	    standard_error = fcntl(2, F_DUPFD_CLOEXEC, 10);
	char text[256] = "";

	CHECK(said >= 0 && standard_error >= 0);
	CHECK_EQ(dup2(said, 2), 2);
	CHECK_EQ(raw_resolve(cch, client, ip, 1), 0);
	CHECK_EQ(dup2(standard_error, 2), 2);
	CHECK_EQ((int)raw_expect(cch, ADDR_ERROR, CLIENT).status, -ETIMEDOUT);
	CHECK(pread(said, text, sizeof(text) - 1, 0) > 0);
	CHECK(strstr(text, ip) && strstr(text, "other hosts are not emulated\n"));
	CHECK_EQ(close(said), 0);
	CHECK_EQ(close(standard_error), 0);
}

static void unknown_address(void)
{
	uint32_t client = raw_id(cch, CLIENT, RDMA_PS_TCP);

	resolve_unknown(client, "192.0.2.77");
	resolve_unknown(client, "2001:db8::77");
	CHECK_EQ(raw_resolve(cch, client, LOOP, 1), 0);
	raw_expect(cch, ADDR_RESOLVED, CLIENT);
	CHECK_EQ(raw_destroy(cch, client), 3);
}

/* Threads that wait for events are cancelled by programs, and woken by events. */
static void *wait_for_event(void *arg)
{
	struct rdma_ucm_event_resp e;
	int r = raw_event(cch, &e);

	return (void *)(intptr_t)(r ? r : (int)e.event);
}

static void waiting(void)
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
}

/* A duplicate keeps the channel; a closed descriptor is no channel. */
static void duplicates(void)
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

/* The place at which a process is killed, and the event that the other end gets. */
enum { ASKED, READ_REQUEST, ACCEPTED, CONNECTED, DYING };

struct dying {
	uint16_t port;
	int stage;
	int to_parent;
};

static void die_as_client(const struct dying *d)
{
	struct rdma_ucm_conn_param p = raw_param(1, NULL);
	uint32_t id;

	cch = raw_open(0);
	id = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, d->port);
	CHECK_EQ(raw_connect(cch, id, &p), 0);
	if (d->stage >= ACCEPTED)
		raw_expect(cch, CONNECT_RESPONSE, CLIENT);
	if (d->stage >= CONNECTED)
		CHECK_EQ(raw_accept(cch, id, 0, NULL), 0);
	if (d->stage == DYING)
		CHECK_EQ(raw_disconnect(cch, id), 0);
}

/* Tells the parent its port. */
static void die_as_server(const struct dying *d)
{
	uint32_t listener;
	uint16_t port;

	sch = raw_open(0);
	port = raw_listener(sch, SERVER, LOOP, &listener);
	CHECK_EQ(write(d->to_parent, &port, sizeof(port)), (ssize_t)sizeof(port));
	if (d->stage >= READ_REQUEST)
		raw_expect(sch, CONNECT_REQUEST, SERVER);
}

/*
 * Runs @fn in a child, which says over the pipe when it has come so far, and waits to be killed.
 * @fd_p: the parent's end.
 */
static pid_t start(void (*fn)(const struct dying *d), struct dying d, int *fd_p)
{
	int fd[2];
	pid_t pid;

	CHECK(!pipe(fd));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		alarm(60);
		d.to_parent = fd[1];
		fn(&d);
		CHECK_EQ(write(fd[1], "x", 1), 1);
		for (;;)
			pause();
	}
	close(fd[1]);
	*fd_p = fd[0];
	return pid;
}

static void end(pid_t pid, int fd)
{
	CHECK_EQ(read(fd, &(char){0}, 1), 1);
	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	close(fd);
}

static void client_dies(int stage)
{
	struct rdma_ucm_conn_param p = raw_param(2, NULL);
	uint32_t listener, child = 0;
	uint16_t port = raw_listener(sch, SERVER, LOOP, &listener);
	int fd;
	pid_t pid = start(die_as_client, (struct dying){.port = port, .stage = stage}, &fd);

	if (stage >= READ_REQUEST) {
		CHECK(raw_readable(sch, 60000));
		child = raw_expect(sch, CONNECT_REQUEST, SERVER).id;
	}
	if (stage >= ACCEPTED)
		CHECK_EQ(raw_accept(sch, child, CHILD, &p), 0);
	end(pid, fd);
	if (stage >= CONNECTED)
		raw_expect(sch, ESTABLISHED, CHILD);
	if (stage == ACCEPTED)
		raw_expect(sch, REJECTED, CHILD);
	if (stage >= CONNECTED) {
		CHECK(raw_readable(sch, 60000));
		raw_expect(sch, DISCONNECTED, CHILD);
		CHECK_EQ(raw_disconnect(sch, child), 0);
		raw_expect(sch, TIMEWAIT_EXIT, CHILD);
	}
	if (stage == READ_REQUEST)
		raw_accept(sch, child, CHILD, &p); /* its end may not have been noticed yet */
	if (child)
		CHECK(raw_destroy(sch, child) >= 0);
	CHECK(raw_destroy(sch, listener) >= 0);
}

/* Nobody listens at @port. */
static void refused(uint16_t port)
{
	struct rdma_ucm_conn_param p = raw_param(2, NULL);
	uint32_t client = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, port);

	CHECK_EQ(raw_connect(cch, client, &p), 0);
	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT).status, NO_SERVICE);
	CHECK_EQ(raw_destroy(cch, client), 3);
}

/* A server that is killed with the request unread, and before it has accepted it. */
static void server_dies(int stage)
{
	struct rdma_ucm_conn_param p = raw_param(2, NULL);
	uint32_t client;
	uint16_t port;
	int fd;
	pid_t pid = start(die_as_server, (struct dying){.stage = stage}, &fd);

	CHECK_EQ(read(fd, &port, sizeof(port)), (ssize_t)sizeof(port));
	client = raw_ready(cch, CLIENT, RDMA_PS_TCP, LOOP, port);
	CHECK_EQ(raw_connect(cch, client, &p), 0);
	end(pid, fd);
	CHECK(raw_readable(cch, 60000));
	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT).status, CONSUMER);
	CHECK_EQ(raw_destroy(cch, client), 3);
	refused(port);
}

/* One who has no connection with a dead listener does not wait for it either. */
static void dead_listener(void)
{
	uint16_t port;
	int fd;
	pid_t pid = start(die_as_server, (struct dying){.stage = ASKED}, &fd);

	CHECK_EQ(read(fd, &port, sizeof(port)), (ssize_t)sizeof(port));
	end(pid, fd);
	refused(port);
}

int main(void)
{
	tmpdir_make();
	tmpdir_topology("latency_ns=20000000\n");
	in_model("SOFTHCA_MODE", "step", true);
	in_model("SOFTHCA_LINK", "virtual", true);
	in_model("SOFTHCA_LINK", "real", false);
	raw_fabric("cm");
	sch = raw_open(0);
	cch = raw_open(0);
	attributes();
	for (int i = 0; i < 4; i++)
		disconnect(i & 1, i & 2);
	for (int i = 0; i < 10; i++)
		disconnect_both();
	messages_take_time();
	destroy_connected();
	rejected_with(0, CONSUMER);
	rejected_with(VENDOR_OPTION, VENDOR_OPTION);
	not_answered();
	ports();
	datagrams();
	unknown_address();
	waiting();
	duplicates();
	for (int stage = ASKED; stage <= DYING; stage++)
		client_dies(stage);
	server_dies(ASKED);
	server_dies(READ_REQUEST);
	dead_listener();
	none_left();
	return 0;
}
