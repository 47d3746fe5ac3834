/* SPDX-License-Identifier: MIT */
/*
 * Connections to another host. The test is that host: it sends and receives the management
 * datagrams of QP 1 itself.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>

#include "../tmpdir.h"
#include "../trace.h"
#include "cm/mad.h"
#include "packet/frame.h"
#include "packet/packet.h"
#include "raw.h"
#include "softhca.h"

#define HERE loopback(1) /* the adapter of the fabric */
#define THERE loopback(2) /* the test */
#define STRANGER loopback(3)
#define PORT 1000 /* port of the other host's programs */
#define PACKET_MAX (FRAME_HEAD_MAX + PACKET_HEADERS_MAX + MAD_BYTES + ICRC_BYTES)
#define GUARD_MS 60000

static int channel;
static int wire, stranger; /* sockets of THERE and STRANGER */
static struct packet usual = {.opcode = PT_UD | PO_SEND_ONLY,
	.pkey = 0xffff,
	.dest_qpn = MAD_QPN,
	.src_qpn = MAD_QPN,
	.qkey = MAD_QKEY,
	.payload = MAD_BYTES};

static void set_ip(uint8_t *gid, const char *ip)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	memcpy(gid, mapped, sizeof(mapped));
	CHECK_EQ(inet_pton(AF_INET, ip, gid + 12), 1);
}

static int socket_at(const char *ip)
{
	struct sockaddr_in a = raw_addr(ip, ROCE_PORT);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK(!bind(fd, (struct sockaddr *)&a, sizeof(a)));
	return fd;
}

static void open_all(void)
{
	if (wire)
		return;
	wire = socket_at(THERE);
	stranger = socket_at(STRANGER);
	channel = raw_open(0);
}

/* Sends packet @p from address @ip, with p->payload bytes from @bytes. */
static void send_as(int fd, const char *ip, const struct packet *p, const uint8_t *bytes)
{
	struct sockaddr_in to = raw_addr(HERE, ROCE_PORT);
	struct flow f = {.src_port = ROCE_PORT, .hop_limit = FRAME_HOP_LIMIT};
	uint8_t frame[PACKET_MAX] = {0};
	size_t head, n, len;

	set_ip(f.src, ip);
	set_ip(f.dst, HERE);
	head = frame_head_bytes(&f);
	n = packet_encode(p, frame + head);
	memcpy(frame + head + n, bytes, p->payload);
	len = frame_seal(&f, frame, n + p->payload + packet_padding(p->payload)) - head;
	CHECK_EQ(sendto(fd, frame + head, len, 0, (struct sockaddr *)&to, sizeof(to)),
		(ssize_t)len);
}

static void say(const struct mad *m)
{
	uint8_t bytes[MAD_BYTES];

	mad_encode(m, bytes);
	send_as(wire, THERE, &usual, bytes);
}

/*
 * Returns the next message, which must be of this type. The HCA repeats messages that need an
 * answer, so repetitions of earlier messages are skipped.
 */
static struct mad hear(enum mad_type type)
{
	uint8_t bytes[PACKET_MAX];
	struct packet p;
	struct mad m;

	do {
		struct pollfd fds = {.fd = wire, .events = POLLIN};
		ssize_t n;
		int head;

		CHECK_EQ(poll(&fds, 1, GUARD_MS), 1);
		n = recv(wire, bytes, sizeof(bytes), 0);
		CHECK(n > (ssize_t)ICRC_BYTES);
		head = packet_decode(bytes, (size_t)n - ICRC_BYTES, &p);
		CHECK(head > 0);
		CHECK_EQ(p.opcode, usual.opcode);
		CHECK_EQ(p.dest_qpn, MAD_QPN);
		CHECK_EQ(p.src_qpn, MAD_QPN);
		CHECK_EQ(p.qkey, MAD_QKEY);
		CHECK_EQ(mad_decode(bytes + head, p.payload, &m), 0);
	} while (m.type != type && (m.type == MAD_REQ || m.type == MAD_REP || m.type == MAD_DREQ ||
					   m.type == MAD_SIDR_REQ));
	CHECK_EQ(m.type, type);
	return m;
}

static struct mad request_to(uint16_t port)
{
	static uint32_t number = 0x5000;
	struct mad m = {.type = MAD_REQ,
		.local = ++number,
		.service = (uint64_t)RDMA_PS_TCP << 16 | port,
		.pkey = 0xffff,
		.mtu = 5,
		.src = {.family = AF_INET, .port = PORT},
		.dst = {.family = AF_INET},
		.param = {.qpn = 0x777,
			.psn = 0x123456,
			.responder_resources = 3,
			.initiator_depth = 5,
			.retry_count = 6,
			.rnr_retry_count = 4}};

	set_ip(m.src.ip, THERE);
	set_ip(m.dst.ip, HERE);
	strcpy((char *)m.param.data, "hello");
	return m;
}

/* Makes an id that listens, and sends a request to it. Returns the id in the request's event. */
static uint32_t ask(struct mad *m, uint32_t *listener)
{
	struct rdma_ucm_event_resp e;

	open_all();
	*m = request_to(raw_listener(channel, SERVER, HERE, 0, listener));
	say(m);
	e = raw_expect(channel, CONNECT_REQUEST, SERVER);
	CHECK_EQ(e.param.conn.qp_num, 0x777);
	raw_check_param(&e.param.conn);
	return e.id;
}

/* Returns the other host's answer to message @to, with the ids of both ends. */
static struct mad answer(enum mad_type type, const struct mad *to)
{
	return (struct mad){.type = (uint16_t)type, .local = to->remote, .remote = to->local};
}

static struct mad accept_it(uint32_t child, const struct mad *request)
{
	struct rdma_ucm_conn_param p = raw_param(0x456, "welcome");
	struct mad m;

	CHECK_EQ(raw_accept(channel, child, CHILD, &p), 0);
	m = hear(MAD_REP);
	CHECK_EQ(m.remote, request->local);
	CHECK_EQ(m.param.qpn, 0x456);
	CHECK_EQ(m.param.responder_resources, 3);
	CHECK_STR((char *)m.param.data, "welcome");
	return m;
}

static void destroy(uint32_t id)
{
	CHECK(raw_destroy(channel, id) >= 0);
}

static void no_event(void)
{
	CHECK(!raw_readable(channel, 0));
}

/* Checks that the id's QP attributes have the other host's address, QP number and PSN. */
static void leads_out(uint32_t id, uint32_t qpn, uint32_t psn)
{
	struct ib_uverbs_qp_attr a;
	uint8_t gid[16];

	set_ip(gid, THERE);
	CHECK_EQ(raw_qp_attr(channel, id, 2, &a), 0);
	CHECK_EQ(a.dest_qp_num, qpn);
	CHECK_EQ(a.rq_psn, psn);
	CHECK_EQ(a.path_mtu, 5);
	CHECK(!memcmp(a.ah_attr.grh.dgid, gid, sizeof(gid)));
}

/* Sends a request that the HCA refuses; the program gets no event. */
static void refused(const struct mad *req, uint16_t reason)
{
	struct mad m;

	say(req);
	m = hear(MAD_REJ);
	CHECK_EQ(m.remote, req->local);
	CHECK_EQ(m.status, reason);
	no_event();
}

/* The other host sends REQ and DREQ again, as if it had not got the answers. */
TEST(other_host_connects_and_disconnects)
{
	struct rdma_ucm_query_addr_resp ends;
	struct sockaddr_in from;
	struct mad req, rep, m;
	uint32_t listener, child = ask(&req, &listener);

	leads_out(child, 0x777, 0x123456);
	CHECK_EQ(raw_query_addr(channel, child, &ends), 0);
	memcpy(&from, &ends.dst_addr, sizeof(from));
	CHECK_EQ(from.sin_addr.s_addr, inet_addr(THERE));
	CHECK_EQ(ntohs(from.sin_port), PORT);
	say(&req); /* the program has not answered yet */
	rep = accept_it(child, &req);
	say(&req);
	CHECK_EQ(hear(MAD_REP).local, rep.local);
	no_event();
	m = answer(MAD_RTU, &rep);
	say(&m);
	raw_expect(channel, ESTABLISHED, CHILD);
	m.type = MAD_DREQ;
	say(&m);
	raw_expect(channel, DISCONNECTED, CHILD);
	CHECK_EQ(raw_disconnect(channel, child), 0);
	raw_expect(channel, TIMEWAIT_EXIT, CHILD);
	CHECK_EQ(hear(MAD_DREP).remote, req.local);
	say(&m);
	hear(MAD_DREP);
	/*
	 * The other host uses the number of its old end for a request, before the id is destroyed.
	 */
	refused(&req, 10);
	destroy(child);
	say(&m); /* the id is gone */
	hear(MAD_DREP);
	no_event();
	destroy(listener);
}

/* The acknowledgement of the reply is lost. */
TEST(disconnects_before_established)
{
	struct mad req, rep, m;
	uint32_t listener, child = ask(&req, &listener);

	rep = accept_it(child, &req);
	m = answer(MAD_DREQ, &rep);
	say(&m);
	raw_expect(channel, ESTABLISHED, CHILD);
	raw_expect(channel, DISCONNECTED, CHILD);
	destroy(child);
	hear(MAD_DREP);
	destroy(listener);
}

/* The id is not bound, and the route begins at an address that no adapter has. */
TEST(source_of_the_route_is_no_adapter)
{
	uint32_t id;

	open_all();
	id = raw_id(channel, CLIENT, RDMA_PS_TCP);
	raw_resolve_unknown(channel, id, CLIENT, THERE,
		"begins at 127.0.0.1, which no adapter has; bind the id\n");
	destroy(id);
}

static struct mad connect_to(uint32_t *client)
{
	struct rdma_ucm_conn_param p = raw_param(0x123, "dear");
	struct mad m;

	open_all();
	*client = raw_ready(channel, CLIENT, RDMA_PS_TCP, HERE, THERE, PORT);
	CHECK_EQ(raw_connect(channel, *client, &p), 0);
	m = hear(MAD_REQ);
	CHECK_EQ(m.service, (uint64_t)RDMA_PS_TCP << 16 | PORT);
	CHECK_EQ(m.param.qpn, 0x123);
	CHECK_EQ(m.mtu, 5);
	CHECK_EQ(m.dst.port, PORT);
	CHECK_STR((char *)m.param.data, "dear");
	return m;
}

static struct mad reply_to(const struct mad *req)
{
	struct mad m = answer(MAD_REP, req);

	m.local = 0x99;
	m.param = (struct cm_param){.qpn = 0x888, .psn = 0x654321, .responder_resources = 1};
	strcpy((char *)m.param.data, "sure");
	return m;
}

/* A message without an answer is repeated. */
TEST(connects_and_disconnects)
{
	struct rdma_ucm_event_resp e;
	uint32_t client;
	struct mad req = connect_to(&client), rep, m;

	CHECK_EQ(hear(MAD_REQ).local, req.local);
	rep = reply_to(&req);
	say(&rep);
	e = raw_expect(channel, CONNECT_RESPONSE, CLIENT);
	CHECK_EQ(e.param.conn.qp_num, 0x888);
	CHECK_EQ(e.param.conn.private_data_len, 196);
	CHECK_STR((char *)e.param.conn.private_data, "sure");
	leads_out(client, 0x888, 0x654321);
	CHECK_EQ(raw_accept(channel, client, 0, NULL), 0);
	CHECK_EQ(hear(MAD_RTU).remote, 0x99);
	say(&rep);
	hear(MAD_RTU);
	CHECK_EQ(raw_disconnect(channel, client), 0);
	CHECK_EQ(hear(MAD_DREQ).remote_qpn, 0x888);
	m = hear(MAD_DREQ);
	no_event();
	m = answer(MAD_DREP, &m);
	say(&m);
	raw_expect(channel, DISCONNECTED, CLIENT);
	raw_expect(channel, TIMEWAIT_EXIT, CLIENT);
	destroy(client);
}

/* Makes a connection. Returns the other host's reply. The caller must hear() the RTU. */
static struct mad establish(uint32_t *client)
{
	struct mad req = connect_to(client), rep = reply_to(&req);

	say(&rep);
	raw_expect(channel, CONNECT_RESPONSE, CLIENT);
	CHECK_EQ(raw_accept(channel, *client, 0, NULL), 0);
	return rep;
}

/* After the program has destroyed the id, the HCA still repeats DREQ until it is answered. */
TEST(destroyed_while_it_disconnects)
{
	uint32_t client;
	struct mad rep = establish(&client), m;

	hear(MAD_RTU);
	destroy(client);
	CHECK_EQ(raw_destroy(channel, client), -ENOENT);
	hear(MAD_DREQ);
	m = hear(MAD_DREQ);
	m = answer(MAD_DREP, &m);
	say(&m);
	say(&rep); /* to an id that is gone */
	m = hear(MAD_REJ);
	CHECK_EQ(m.status, 6);
	no_event();
}

TEST(both_disconnect)
{
	uint32_t client;
	struct mad m;

	establish(&client);
	CHECK_EQ(raw_disconnect(channel, client), 0);
	m = hear(MAD_RTU);
	m = answer(MAD_DREQ, &m);
	say(&m);
	hear(MAD_DREP);
	raw_expect(channel, DISCONNECTED, CLIENT);
	raw_expect(channel, TIMEWAIT_EXIT, CLIENT);
	destroy(client);
}

TEST(other_host_refuses)
{
	struct rdma_ucm_event_resp e;
	uint32_t client;
	struct mad req = connect_to(&client), m = answer(MAD_REJ, &req);

	m.status = 28;
	strcpy((char *)m.param.data, "no");
	say(&m);
	e = raw_expect(channel, REJECTED, CLIENT);
	CHECK_EQ(e.status, 28);
	CHECK_EQ(e.param.conn.private_data_len, 148);
	CHECK_STR((char *)e.param.conn.private_data, "no");
	destroy(client);
}

/*
 * The other host's program is killed before the acknowledgement of its reply arrives. As in the
 * kernel, the event is a rejection, although the connection is established at this end.
 */
TEST(other_host_refuses_late)
{
	struct rdma_ucm_event_resp e;
	uint32_t client;
	struct mad m;

	establish(&client);
	m = hear(MAD_RTU);
	m = answer(MAD_REJ, &m);
	m.status = 28;
	say(&m);
	say(&m); /* has no effect on an id that has ended */
	say(&(struct mad){.type = MAD_DREQ, .local = 5, .remote = 2});
	hear(MAD_DREP); /* so both REJ have been handled */
	CHECK(raw_readable(channel, GUARD_MS));
	e = raw_expect(channel, REJECTED, CLIENT);
	CHECK_EQ(e.status, 28);
	raw_expect(channel, TIMEWAIT_EXIT, CLIENT);
	no_event();
	CHECK_EQ(raw_disconnect(channel, client), 0);
	no_event();
	destroy(client);
}

/*
 * A repeated request is refused with the same message, also after the program has destroyed the id.
 */
TEST(refuses)
{
	uint32_t listener;
	struct mad req, m;
	uint32_t child = ask(&req, &listener);

	CHECK_EQ(raw_reject(channel, child, "never", 6, 0), 0);
	for (int i = 0; i < 4; i++) {
		m = hear(MAD_REJ);
		CHECK_EQ(m.remote, req.local);
		CHECK_EQ(m.status, 28);
		CHECK_STR((char *)m.param.data, "never");
		if (i == 1)
			destroy(child);
		say(&req);
	}
	hear(MAD_REJ);
	no_event();
	destroy(listener);
}

TEST(requests_that_nobody_can_serve)
{
	uint32_t listener;
	struct mad m;
	uint16_t port;

	open_all();
	port = raw_listener(channel, SERVER, HERE, 0, &listener);
	m = request_to(port);
	m.service++;
	refused(&m, 8);
	m = request_to(port);
	m.service = (uint64_t)RDMA_PS_UDP << 16 | port;
	refused(&m, 8);
	m = request_to(port);
	m.mtu = 0;
	refused(&m, 26);
	m.mtu = 6;
	refused(&m, 26);
	m = request_to(port);
	m.transport = 1; /* UC */
	refused(&m, 28);
	destroy(listener);
}

TEST(backlog)
{
	uint32_t listener;
	struct mad first, second;
	uint16_t port;

	open_all();
	port = raw_listener(channel, SERVER, HERE, 1, &listener);
	first = request_to(port);
	second = request_to(port);
	say(&first);
	say(&second);
	CHECK_EQ(hear(MAD_REJ).remote, second.local);
	destroy(listener); /* refuses the request that the program has not read */
	CHECK_EQ(hear(MAD_REJ).remote, first.local);
}

/* Each of the two hosts withdraws a request before it is answered. */
TEST(withdrawn)
{
	uint32_t client, listener;
	struct mad req = connect_to(&client), m;
	uint32_t child;

	destroy(client);
	m = hear(MAD_REJ);
	CHECK_EQ(m.status, 4);
	CHECK_EQ(m.local, req.local);
	child = ask(&req, &listener);
	m = (struct mad){.type = MAD_REJ, .local = req.local, .status = 4};
	say(&m);
	say(&(struct mad){.type = MAD_DREQ, .local = 1, .remote = 2});
	hear(MAD_DREP); /* so the REJ before the DREQ has been handled */
	no_event();
	CHECK_EQ(raw_accept(channel, child, CHILD, &(struct rdma_ucm_conn_param){.valid = 1}),
		-EINVAL);
	destroy(child);
	destroy(listener);
}

/* The other host withdraws requests that the program has not read: it gets them, but no more. */
TEST(withdrawn_unread)
{
	struct rdma_ucm_event_resp e;
	uint32_t listener, child;
	struct mad req, m;

	open_all();
	req = request_to(raw_listener(channel, SERVER, HERE, 0, &listener));
	m = (struct mad){.type = MAD_REJ, .local = req.local, .status = 4};
	say(&req);
	say(&m);
	say(&(struct mad){.type = MAD_DREQ, .local = 1, .remote = 2});
	hear(MAD_DREP); /* so the REJ before the DREQ has been handled */
	e = raw_expect(channel, CONNECT_REQUEST, SERVER);
	raw_check_param(&e.param.conn);
	child = e.id;
	no_event();
	CHECK_EQ(raw_accept(channel, child, CHILD, &(struct rdma_ucm_conn_param){.valid = 1}),
		-EINVAL);
	destroy(child);
	req.local++;
	m.local++;
	say(&req);
	say(&m);
	say(&(struct mad){.type = MAD_DREQ, .local = 3, .remote = 2});
	hear(MAD_DREP);
	destroy(listener); /* refuses no request that is withdrawn */
	say(&(struct mad){.type = MAD_DREQ, .local = 4, .remote = 2});
	hear(MAD_DREP);
	no_event();
}

/*
 * Wrong and forged messages, which must have no effect. The true reply after them takes effect.
 */
TEST(hostile)
{
	uint32_t client;
	struct mad req = connect_to(&client), rep = reply_to(&req), m;
	uint8_t bytes[MAD_BYTES], broken[MAD_BYTES];
	struct packet p;

	mad_encode(&rep, bytes);
	send_as(stranger, STRANGER, &usual, bytes); /* answered with REJ, to the stranger */
	p = usual;
	p.qkey++;
	send_as(wire, THERE, &p, bytes);
	p = usual;
	p.src_qpn++;
	send_as(wire, THERE, &p, bytes);
	p = usual;
	p.pkey = 0x8001;
	send_as(wire, THERE, &p, bytes);
	p = usual;
	p.opcode = PT_UD | PO_SEND_ONLY_IMM;
	send_as(wire, THERE, &p, bytes);
	p = usual;
	p.payload = MAD_BYTES - 4;
	send_as(wire, THERE, &p, bytes);
	for (int at = 0; at < 4; at++) { /* version, class, version of the class, method */
		memcpy(broken, bytes, sizeof(broken));
		broken[at]++;
		send_as(wire, THERE, &usual, broken);
	}
	m = rep;
	m.type = MAD_DREP;
	say(&m); /* an answer to a message that was not sent */
	m = rep;
	m.type = MAD_REJ;
	m.remote += MAX_CM_IDS; /* another id that uses the same table slot */
	say(&m);
	m.remote = 0;
	say(&m);
	no_event();
	rep.param.qpn = 0x889;
	say(&rep);
	CHECK_EQ(raw_expect(channel, CONNECT_RESPONSE, CLIENT).param.conn.qp_num, 0x889);
	m = rep;
	m.local++; /* another connection of the same host */
	m.type = MAD_REJ;
	say(&m);
	CHECK_EQ(raw_accept(channel, client, 0, NULL), 0);
	hear(MAD_RTU);
	no_event();
	destroy(client);
	m = hear(MAD_DREQ);
	m = answer(MAD_DREP, &m);
	say(&m);
}

TEST(datagrams)
{
	struct rdma_ucm_conn_param p = raw_param(0x321, "udp");
	struct rdma_ucm_event_resp e;
	uint32_t client, listener;
	struct mad req, m;

	open_all();
	client = raw_ready(channel, CLIENT, RDMA_PS_UDP, HERE, THERE, PORT);
	CHECK_EQ(raw_connect(channel, client, &p), 0);
	req = hear(MAD_SIDR_REQ);
	CHECK_EQ(req.service, (uint64_t)RDMA_PS_UDP << 16 | PORT);
	m = (struct mad){.type = MAD_SIDR_REP,
		.remote = req.local,
		.param = {.qpn = 0x55, .qkey = 0x66}};
	say(&m);
	e = raw_expect(channel, ESTABLISHED, CLIENT);
	CHECK_EQ(e.param.ud.qp_num, 0x55);
	CHECK_EQ(e.param.ud.qkey, 0x66);
	destroy(client);

	listener = raw_id(channel, SERVER, RDMA_PS_UDP);
	CHECK_EQ(raw_bind(channel, listener, HERE, 4000), 0);
	CHECK_EQ(raw_listen(channel, listener, 0), 0);
	req = request_to(4000);
	req.service = (uint64_t)RDMA_PS_UDP << 16 | 4000;
	refused(&req, 8); /* a request for a connection */
	req = request_to(4000);
	req.type = MAD_SIDR_REQ;
	req.service = (uint64_t)RDMA_PS_UDP << 16 | 4000;
	say(&req);
	e = raw_expect(channel, CONNECT_REQUEST, SERVER);
	CHECK_EQ(raw_accept(channel, e.id, CHILD, &p), 0);
	for (int i = 0; i < 2; i++) {
		m = hear(MAD_SIDR_REP);
		CHECK_EQ(m.remote, req.local);
		CHECK_EQ(m.status, 0);
		CHECK_EQ(m.param.qpn, 0x321);
		say(&req);
	}
	hear(MAD_SIDR_REP);
	no_event();
	destroy(e.id);
	destroy(listener);
}

static uint16_t port_here; /* at which an id of the test listens */

/* Makes the commands that start threads: its adapter's, the one for packets, and the one that waits
 * for a peer's end. */
static void starter(int fd)
{
	struct rdma_ucm_conn_param p = raw_param(0x777, "hello");
	uint32_t listener;
	int own;

	test_get(fd, &(char){0}, 1);
	own = raw_open(0);
	raw_listener(own, SERVER, HERE, 0, &listener);
	CHECK_EQ(raw_connect(own, raw_ready(own, CLIENT, RDMA_PS_TCP, NULL, HERE, port_here), &p),
		0);
	test_put(fd, "c", 1);
	test_get(fd, &(char){0}, 1);
}

static unsigned recoveries(void)
{
	struct softhca_fabric_info info;

	CHECK_EQ(softhca_fabric_info(&info), 0);
	return info.recoveries;
}

/*
 * A process is stopped wherever it starts a thread. It does not hold the mutex there, because a
 * thread that loses the mutex never returns from pthread_create(), which has locked the allocator.
 */
TEST(threads_start_without_the_mutex)
{
	uint32_t listener;
	unsigned before;
	pid_t pid;
	int fd;

	open_all();
	port_here = raw_listener(channel, SERVER, HERE, 0, &listener);
	pid = test_peer(starter, &fd);
	before = recoveries();
	CHECK(!ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD));
	CHECK(!ptrace(PTRACE_INTERRUPT, pid, NULL, NULL));
	test_stopped(pid);
	test_put(fd, "g", 1);
	for (int threads = 0; threads < 3; threads++) {
		trace_to_entry(pid, 0, SYS_clone3);
		destroy(raw_id(channel, SERVER, RDMA_PS_TCP));
		CHECK_EQ(recoveries(), before);
	}
	CHECK(!ptrace(PTRACE_DETACH, pid, NULL, NULL));
	test_get(fd, &(char){0}, 1);
	destroy(raw_expect(channel, CONNECT_REQUEST, SERVER).id);
	test_put(fd, "e", 1);
	test_peer_ends(pid, fd);
	destroy(listener);
}

int main(int argc, char **argv)
{
	tmpdir_topology("link=roce gid=%s udp=on mtu=4096\n", HERE);
	test_fabric("cm-away");
	return test_main(argc, argv);
}
