/* SPDX-License-Identifier: MIT */
#include "xport/udp.h"

#include <endian.h>
#include <linux/udp.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "fabric/fabric.h"
#include "sys/fds.h"
#include "sys/sys.h"

#define IPV6_FLOWINFO 11 /* linux/in6.h, which cannot be included beside netinet/in.h */
#define FLOW_LABEL 0xfffffu

/*
 * A socket of this process for an address of an adapter. It is opened when the first packet is sent
 * from the address.
 */
struct sender {
	bool open;
	int fd;
	uint16_t port;
};

static struct sender senders[SOFTHCA_RAILS_MAX][SOFTHCA_GIDS_MAX];
static bool told[SOFTHCA_RAILS_MAX]; /* an error of the adapter's sockets was reported */

static socklen_t address_of(const uint8_t *gid, uint16_t port, union udp_address *a)
{
	memset(a, 0, sizeof(*a));
	if (gid_is_ipv4(gid)) {
		a->v4.sin_family = AF_INET;
		a->v4.sin_port = htobe16(port);
		memcpy(&a->v4.sin_addr, gid + GID_IPV4, sizeof(a->v4.sin_addr));
		return sizeof(a->v4);
	}
	a->v6.sin6_family = AF_INET6;
	a->v6.sin6_port = htobe16(port);
	memcpy(&a->v6.sin6_addr, gid, sizeof(a->v6.sin6_addr));
	return sizeof(a->v6);
}

struct option {
	int level, name, value;
};

/*
 * The sender computes the ICRC, so the options fix the header fields that the ICRC covers: with
 * IP_PMTUDISC_PROBE the IPv4 identification is 0, and nothing is fragmented. Other options set the
 * hop limit and the flow label to the values that wired.c passes to tap_packet(), and make the
 * kernel report header fields of each received packet. rdma_rxe sends over IPv6 without UDP
 * checksums, so packets without them are accepted.
 */
static const struct option options4[] = {
	{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE},
	{IPPROTO_IP, IP_TTL, FRAME_HOP_LIMIT},
	{IPPROTO_IP, IP_RECVTTL, 1},
	{IPPROTO_IP, IP_RECVTOS, 1},
	{0},
};
static const struct option options6[] = {
	{IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE},
	{IPPROTO_IPV6, IPV6_UNICAST_HOPS, FRAME_HOP_LIMIT},
	{IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0},
	{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1},
	{IPPROTO_IPV6, IPV6_FLOWINFO, 1},
	{IPPROTO_UDP, UDP_NO_CHECK6_RX, 1},
	{0},
};

static int set_options(int fd, const struct option *o)
{
	int r = 0;

	for (; o->name && !r; o++)
		r = (int)SYS(SYS_setsockopt, fd, o->level, o->name, &o->value, sizeof(o->value));
	return r;
}

static int bind_to(int fd, uint32_t rail, const uint8_t *gid, uint16_t port)
{
	struct ifreq netdev = {0};
	union udp_address a;
	socklen_t len = address_of(gid, port, &a);

	if (a.any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a.v6.sin6_addr)) {
		strcpy(netdev.ifr_name, arena()->topo.rails[rail].netdev);
		if (SYS(SYS_ioctl, fd, SIOCGIFINDEX, &netdev))
			return -ENODEV;
		a.v6.sin6_scope_id = (uint32_t)netdev.ifr_ifindex;
	}
	return (int)SYS(SYS_bind, fd, &a, len);
}

int udp_socket(uint32_t rail, const uint8_t *gid, uint16_t port)
{
	bool v4 = gid_is_ipv4(gid);
	int fd = (int)SYS(SYS_socket, v4 ? AF_INET : AF_INET6,
		SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return fd;
	r = set_options(fd, v4 ? options4 : options6);
	if (!r)
		r = bind_to(fd, rail, gid, port);
	if (!r)
		return fd;
	sys_close(fd);
	return r;
}

static void take_source(const union udp_address *a, struct flow *f)
{
	if (a->any.sa_family == AF_INET6) {
		memcpy(f->src, &a->v6.sin6_addr, sizeof(f->src));
		f->src_port = be16toh(a->v6.sin6_port);
		return;
	}
	gid_set_ipv4(f->src, &a->v4.sin_addr);
	f->src_port = be16toh(a->v4.sin_port);
}

static void take_field(const struct cmsghdr *c, struct flow *f)
{
	uint8_t tos;
	uint32_t info;
	int hops;

	if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
		memcpy(&tos, CMSG_DATA(c), sizeof(tos));
		f->traffic_class = tos;
	} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_FLOWINFO) {
		memcpy(&info, CMSG_DATA(c), sizeof(info));
		f->traffic_class = (uint8_t)(be32toh(info) >> 20);
		f->flow_label = be32toh(info) & FLOW_LABEL;
	} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
		   (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT)) {
		memcpy(&hops, CMSG_DATA(c), sizeof(hops));
		f->hop_limit = (uint8_t)hops;
	}
}

struct flow udp_flow(struct msghdr *h, const uint8_t *gid)
{
	struct flow f = {0};

	memcpy(f.dst, gid, sizeof(f.dst));
	take_source(h->msg_name, &f);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
		take_field(c, &f);
	return f;
}

int udp_source(const uint8_t *dst, uint8_t src[16])
{
	union udp_address a;
	socklen_t len = address_of(dst, ROCE_PORT, &a);
	int fd = (int)SYS(SYS_socket, a.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;
	struct flow f;

	if (fd < 0)
		return fd;
	r = (int)SYS(SYS_connect, fd, &a, len);
	len = sizeof(a);
	if (!r)
		r = (int)SYS(SYS_getsockname, fd, &a, &len);
	sys_close(fd);
	if (r)
		return r;
	take_source(&a, &f);
	memcpy(src, f.src, sizeof(f.src));
	return 0;
}

int udp_path_mtu(uint32_t rail, const struct flow *f)
{
	union udp_address to;
	socklen_t len = address_of(f->dst, ROCE_PORT, &to), mtu_len;
	int fd = udp_socket(rail, f->src, 0), mtu = 0, r;
	bool v4 = gid_is_ipv4(f->src);

	if (fd < 0)
		return fd;
	mtu_len = sizeof(mtu);
	r = (int)SYS(SYS_connect, fd, &to, len);
	if (!r)
		r = (int)SYS(SYS_getsockopt, fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
			v4 ? IP_MTU : IPV6_MTU, &mtu, &mtu_len);
	sys_close(fd);
	return r ? r : mtu;
}

static void tell(uint32_t rail, const char *what, long error)
{
	char line[160];

	if (told[rail])
		return;
	told[rail] = true;
	snprintf(line, sizeof(line), "softhca: %s: %s: %s\n", arena()->topo.rails[rail].name, what,
		strerrordesc_np((int)-error));
	sys_write(STDERR_FILENO, line, strlen(line));
}

static struct sender *sender_of(uint32_t rail, const struct flow *f)
{
	const struct softhca_rail *r = &arena()->topo.rails[rail];
	uint32_t i = 0;

	while (i + 1 < r->ngids && memcmp(r->gids[i], f->src, sizeof(f->src)))
		i++;
	return &senders[rail][i];
}

uint16_t udp_source_port(uint32_t rail, const struct flow *f)
{
	struct sender *s = sender_of(rail, f);
	union udp_address a;
	socklen_t len = sizeof(a);
	int fd, r;

	if (s->open)
		return s->port;
	fd = r = udp_socket(rail, f->src, 0);
	if (fd >= 0)
		r = (int)SYS(SYS_getsockname, fd, &a, &len);
	if (r < 0) {
		tell(rail, "no UDP socket for the adapter's address", r);
		if (fd >= 0)
			sys_close(fd);
		return 0;
	}
	s->fd = fd;
	fds_own(&s->fd);
	s->port = be16toh(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
	s->open = true;
	return s->port;
}

/*
 * A temporary error, as when an address or a route is removed for a while, counts as a loss. If
 * the program has closed the socket, this is a loss, too, and udp_source_port() opens another one,
 * also if a file that is no socket has the number.
 *
 * The number is read atomically, because fds_move() may change it at any moment. If the program
 * puts a socket of its own at the old number between the read and the call, the packet is sent from
 * there (on a connected TCP socket: into its stream).
 */
void udp_send(uint32_t rail, const struct flow *f, const uint8_t *packet, size_t len)
{
	union udp_address to;
	socklen_t to_len = address_of(f->dst, ROCE_PORT, &to);
	struct sender *s = sender_of(rail, f);
	int fd = __atomic_load_n(&s->fd, __ATOMIC_RELAXED);
	long r = SYS(SYS_sendto, fd, packet, len, MSG_NOSIGNAL, &to, to_len);

	if ((r == -EBADF || r == -ENOTSOCK) && fd == __atomic_load_n(&s->fd, __ATOMIC_RELAXED)) {
		fds_lose(&s->fd);
		s->open = false;
	} else if (r == -EMSGSIZE) {
		tell(rail,
			"a packet is larger than the network's MTU: give a smaller mtu in the "
			"topology",
			r);
	} else if (r == -EPERM) {
		tell(rail, "sending to UDP port 4791 is forbidden", r);
	}
}

void udp_forget(void)
{
	for (uint32_t i = 0; i < SOFTHCA_RAILS_MAX; i++)
		for (uint32_t k = 0; k < SOFTHCA_GIDS_MAX; k++) {
			if (senders[i][k].open)
				fds_disown(&senders[i][k].fd);
			senders[i][k].open = false;
		}
}
