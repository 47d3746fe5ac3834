/* SPDX-License-Identifier: MIT */
/*
 * Fields of packets that an adapter's UDP socket receives and sends, in both address families; and
 * QPs and packets of a fabric whose adapter has such a socket.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../hca/stopped.h"
#include "../tmpdir.h"
#include "fault/fault.h"
#include "hca/objects.h"
#include "hca/qp_attrs.h"
#include "hca/timer.h"
#include "member/member.h"
#include "pump/pump.h"
#include "sched/sched.h"
#include "sys/fds.h"
#include "xport/qp.h"
#include "xport/udp.h"
#include "xport/wired.h"

#define SKIP 77
#define IPV6_FLOWINFO_SEND 33 /* linux/in6.h, which cannot be included together with netinet/in.h */
#define UDP_NO_CHECK6_TX 101
#define TRAFFIC_CLASS 0x58
#define HOPS 33
#define LABEL 0x12345

static const uint8_t ipv4[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
static const uint8_t ipv6[16] = {[15] = 1};

static uint16_t port_of(int fd)
{
	union udp_address a;
	socklen_t len = sizeof(a);

	CHECK(!getsockname(fd, &a.any, &len));
	return be16toh(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
}

static void set(int fd, int level, int name, int value)
{
	CHECK(!setsockopt(fd, level, name, &value, sizeof(value)));
}

static struct flow receive(int fd, const uint8_t *gid)
{
	uint8_t bytes[8], control[UDP_CONTROL_BYTES] __attribute__((aligned(8)));
	struct iovec iov = {bytes, sizeof(bytes)};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	union udp_address from;
	struct msghdr h = {.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};

	CHECK_EQ(poll(&p, 1, 60000), 1);
	CHECK_EQ(recvmsg(fd, &h, 0), 1);
	CHECK(!(h.msg_flags & MSG_CTRUNC));
	return udp_flow(&h, gid);
}

static void check(const struct flow *f, const uint8_t *gid, int from, int traffic_class, int hops,
	uint32_t label)
{
	CHECK(!memcmp(f->src, gid, sizeof(f->src)));
	CHECK(!memcmp(f->dst, gid, sizeof(f->dst)));
	CHECK_EQ(f->src_port, port_of(from));
	CHECK_EQ(f->traffic_class, traffic_class);
	CHECK_EQ(f->hop_limit, hops);
	CHECK_EQ(f->flow_label, label);
}

/* Packets between two sockets of adapters have the fields that a capture shows. */
static void between_adapters(int to, const union udp_address *a, socklen_t len, const uint8_t *gid)
{
	int from = udp_socket(0, gid, 0);
	struct flow f;

	CHECK(from >= 0);
	CHECK_EQ(sendto(from, "x", 1, 0, &a->any, len), 1);
	f = receive(to, gid);
	check(&f, gid, from, 0, FRAME_HOP_LIMIT, 0);
	close(from);
}

TEST(over_ipv4)
{
	int to = udp_socket(0, ipv4, 0), from = socket(AF_INET, SOCK_DGRAM, 0);
	union udp_address a = {.v4 = {.sin_family = AF_INET}};
	struct flow f;

	CHECK(to >= 0 && from >= 0);
	a.v4.sin_addr.s_addr = htobe32(INADDR_LOOPBACK);
	CHECK(!bind(from, &a.any, sizeof(a.v4)));
	a.v4.sin_port = htobe16(port_of(to));
	set(from, IPPROTO_IP, IP_TOS, TRAFFIC_CLASS);
	set(from, IPPROTO_IP, IP_TTL, HOPS);
	CHECK_EQ(sendto(from, "x", 1, 0, &a.any, sizeof(a.v4)), 1);
	f = receive(to, ipv4);
	check(&f, ipv4, from, TRAFFIC_CLASS, HOPS, 0);
	between_adapters(to, &a, sizeof(a.v4), ipv4);
	close(from);
	close(to);
}

static void make_gid(uint8_t gid[16], const char *ip)
{
	struct in_addr a;

	CHECK_EQ(inet_pton(AF_INET, ip, &a), 1);
	gid_set_ipv4(gid, &a);
}

static void send_to(const uint8_t *gid)
{
	struct udp_end from = {.owner = fabric_self.slot, .qpn = 0x41};
	struct packet p = {.opcode = PO_ACK, .dest_qpn = 0x42};
	struct flow f = {.hop_limit = FRAME_HOP_LIMIT};
	sigset_t saved;

	CHECK(!fabric_enter(&saved));
	memcpy(f.src, arena()->topo.rails[0].gids[0], sizeof(f.src));
	memcpy(f.dst, gid, sizeof(f.dst));
	wired_emit_from(&from, &f, &p, NULL);
	fabric_leave(&saved);
}

static bool arrives(int fd)
{
	uint8_t bytes[64];

	return recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0;
}

/*
 * A process that sends nothing after its late packet, and does not receive the fabric's packets,
 * sends the late packet from its adapter's thread.
 */
TEST(late_packet)
{
	char err[FAULT_TEXT];
	uint8_t there[16];
	uint32_t rung;
	int fd;

	make_gid(there, loopback(2));
	fd = udp_socket(0, there, ROCE_PORT);
	CHECK(fd >= 0);
	CHECK(!fault_parse("action=packet_late", "rule", arena()->faults, err, sizeof(err)));
	fault_changed(arena());
	stopped_ns = test_now_ns();
	rung = *timer_bell(fabric_self.slot);
	send_to(there);
	CHECK(*timer_bell(fabric_self.slot) != rung);
	sched_serve();
	CHECK(!arrives(fd));
	stopped_ns += 1000000000u;
	sched_serve();
	CHECK(arrives(fd));
	sched_serve();
	CHECK(!arrives(fd));
	stopped_ns = 0;
	close(fd);
}

/* RTS to RTS may change the delay in the RNR NAKs of a QP on the wire. */
TEST(rnr_timer)
{
	struct ib_uverbs_modify_qp m = {.attr_mask = A_MIN_RNR, .min_rnr_timer = 21};
	sigset_t saved;
	struct qp *qp;
	uint32_t i;

	CHECK(!fabric_enter(&saved));
	i = obj_alloc(OBJ_QP, 0);
	CHECK((int32_t)i >= 0);
	qp = &arena()->qps[i];
	qp->type = QPT_RC;
	qp->state = QPS_RTS;
	qp->wired = 1;
	CHECK(!qp_modify(qp, &m));
	CHECK_EQ(arena()->wired[i].q.attr.rnr_timer, 21);
	qp->wired = 0;
	obj_retract(OBJ_QP, i);
	fabric_leave(&saved);
}

/*
 * Without a free descriptor the route to the peer is not known. The line on standard error says so.
 */
TEST(no_descriptor)
{
	int said = memfd_create("said", MFD_CLOEXEC), standard_error = fcntl(2, F_DUPFD, 10);
	struct rlimit before, none;
	char text[256] = "";
	sigset_t saved;
	struct qp *qp;
	uint32_t i;

	CHECK(said >= 0 && standard_error >= 0 && !getrlimit(RLIMIT_NOFILE, &before));
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
	CHECK(!fabric_enter(&saved));
	i = obj_alloc(OBJ_QP, 0);
	CHECK((int32_t)i >= 0);
	qp = &arena()->qps[i];
	qp->type = QPT_RC;
	qp->attr = (struct qp_attr){.is_global = 1, .path_mtu = 1};
	make_gid(qp->attr.dgid, loopback(2));
	CHECK_EQ(dup2(said, 2), 2);
	CHECK(!setrlimit(RLIMIT_NOFILE, &none));
	CHECK_EQ(wired_receive_from(qp), -EMFILE);
	CHECK(!setrlimit(RLIMIT_NOFILE, &before));
	CHECK_EQ(dup2(standard_error, 2), 2);
	obj_retract(OBJ_QP, i);
	fabric_leave(&saved);
	CHECK(pread(said, text, sizeof(text) - 1, 0) > 0);
	CHECK(strstr(text, "no file descriptor"));
	close(said);
	close(standard_error);
}

/* Another descriptor of the library has the number of one that the program has closed. */
TEST(loses_only_its_entry)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC), other;

	CHECK(fd >= 0);
	fds_own(&fd);
	CHECK(!close(fd));
	other = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK(other >= 0);
	fds_own(&other);
	CHECK_EQ(other, fd);
	fds_lose(&fd);
	CHECK_EQ(fds_get(other).kind, FD_OWN);
	fds_disown(&other);
}

/* The program has closed a descriptor of the library before it was entered as such. */
TEST(closed_before_owned)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC), was = fd;

	CHECK(fd >= 0 && !close(fd));
	fds_own(&fd);
	CHECK_EQ(fd, -1);
	CHECK_EQ(fds_get(was).kind, FD_OTHER);
}

/* Returns the socket that is bound to @port, or -1. */
static int socket_of_port(uint16_t port)
{
	for (int fd = 0; fd < 256; fd++) {
		union udp_address a;
		socklen_t len = sizeof(a);

		if (!getsockname(fd, &a.any, &len) && len == sizeof(a.v4) && port_of(fd) == port)
			return fd;
	}
	return -1;
}

/* The program closes the socket that sends packets. The library opens another one. */
TEST(sender_closed)
{
	struct flow f = {0};
	sigset_t saved;

	memcpy(f.src, ipv4, sizeof(f.src));
	memcpy(f.dst, ipv4, sizeof(f.dst));
	CHECK(!fabric_enter(&saved));
	CHECK(!close(socket_of_port(udp_source_port(0, &f))));
	udp_send(0, &f, (const uint8_t *)"x", 1);
	CHECK(socket_of_port(udp_source_port(0, &f)) >= 0);
	fabric_leave(&saved);
}

/* Returns the socket that receives packets. */
static int wait_for_socket(void)
{
	int fd;

	while ((fd = socket_of_port(ROCE_PORT)) < 0)
		sched_yield();
	return fd;
}

/* The program closes the socket that receives packets. The library opens another one. */
TEST(socket_closed)
{
	int fd;

	CHECK(!pump_start());
	fd = wait_for_socket();
	CHECK(!close(fd));
	wait_for_socket();
	pump_stop();
}

static bool ipv6_exists(void)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool so = fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof(a));

	if (fd >= 0)
		close(fd);
	return so;
}

/* The sender leaves out the UDP checksum, as rdma_rxe does. */
TEST(over_ipv6)
{
	union udp_address a = {.v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}};
	struct flow f;
	int to, from;

	if (!ipv6_exists()) {
		printf("no IPv6 here\n");
		member_detach();
		exit(SKIP);
	}
	to = udp_socket(0, ipv6, 0);
	from = socket(AF_INET6, SOCK_DGRAM, 0);
	CHECK(to >= 0 && from >= 0);
	CHECK(!bind(from, &a.any, sizeof(a.v6)));
	a.v6.sin6_port = htobe16(port_of(to));
	set(from, IPPROTO_IPV6, IPV6_TCLASS, TRAFFIC_CLASS);
	set(from, IPPROTO_IPV6, IPV6_UNICAST_HOPS, HOPS);
	set(from, IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1);
	set(from, IPPROTO_UDP, UDP_NO_CHECK6_TX, 1);
	a.v6.sin6_flowinfo = htobe32(TRAFFIC_CLASS << 20 | LABEL);
	CHECK_EQ(sendto(from, "x", 1, 0, &a.any, sizeof(a.v6)), 1);
	f = receive(to, ipv6);
	check(&f, ipv6, from, TRAFFIC_CLASS, HOPS, LABEL);
	a.v6.sin6_flowinfo = 0;
	between_adapters(to, &a, sizeof(a.v6), ipv6);
	close(from);
	close(to);
}

int main(int argc, char **argv)
{
	int status;

	tmpdir_topology("link=roce gid=%s udp=on\n", loopback(1));
	test_fabric("udp");
	CHECK(!member_attach());
	status = test_main(argc, argv);
	member_detach();
	return status;
}
