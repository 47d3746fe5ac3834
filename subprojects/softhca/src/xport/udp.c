/* SPDX-License-Identifier: MIT */
#include "xport/udp.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "fabric/fabric.h"
#include "sys/sys.h"

#define GID_IPV4 12

/* A socket for each adapter, made when it first sends. */
static struct {
	bool open;
	bool told; /* an error has been */
	int fd;
	uint16_t port;
} sockets[SOFTHCA_RAILS_MAX];

struct sockaddr_in udp_address(const uint8_t *gid, uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htobe16(port)};

	memcpy(&a.sin_addr, gid + GID_IPV4, sizeof(a.sin_addr));
	return a;
}

/* With IP_PMTUDISC_PROBE packets have the identification 0, which the ICRC covers. */
static int make_socket(const uint8_t *gid)
{
	int fd = (int)SYS(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;
	struct sockaddr_in a = udp_address(gid, 0);
	int probe = IP_PMTUDISC_PROBE;

	if (fd < 0)
		return fd;
	r = (int)SYS(SYS_setsockopt, fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe));
	if (!r)
		r = (int)SYS(SYS_bind, fd, &a, sizeof(a));
	if (!r)
		return fd;
	sys_close(fd);
	return r;
}

int udp_path_mtu(const struct flow *f)
{
	struct sockaddr_in to = udp_address(f->dst, ROCE_PORT);
	int fd = make_socket(f->src), mtu = 0, r;
	socklen_t len = sizeof(mtu);

	if (fd < 0)
		return fd;
	r = (int)SYS(SYS_connect, fd, &to, sizeof(to));
	if (!r)
		r = (int)SYS(SYS_getsockopt, fd, IPPROTO_IP, IP_MTU, &mtu, &len);
	sys_close(fd);
	return r ? r : mtu;
}

static void tell(uint32_t rail, const char *what, long error)
{
	char line[160];

	if (sockets[rail].told)
		return;
	sockets[rail].told = true;
	snprintf(line, sizeof(line), "softhca: %s: %s: %s\n", arena()->topo.rails[rail].name, what,
		strerrordesc_np((int)-error));
	sys_write(STDERR_FILENO, line, strlen(line));
}

uint16_t udp_source_port(uint32_t rail, const struct flow *f)
{
	struct sockaddr_in a = {0};
	socklen_t len = sizeof(a);
	int fd, r;

	if (sockets[rail].open)
		return sockets[rail].port;
	fd = r = make_socket(f->src);
	if (fd >= 0)
		r = (int)SYS(SYS_getsockname, fd, &a, &len);
	if (r < 0) {
		tell(rail, "a UDP socket for its address", r);
		if (fd >= 0)
			sys_close(fd);
		return 0;
	}
	sockets[rail].fd = fd;
	sockets[rail].port = be16toh(a.sin_port);
	sockets[rail].open = true;
	return sockets[rail].port;
}

/* What passes, as when an address or a route is taken away for a while, is a loss and no more. */
void udp_send(uint32_t rail, const struct flow *f, const uint8_t *packet, size_t len)
{
	struct sockaddr_in to = udp_address(f->dst, ROCE_PORT);
	long r = SYS(SYS_sendto, sockets[rail].fd, packet, len, MSG_NOSIGNAL, &to, sizeof(to));

	if (r == -EMSGSIZE)
		tell(rail,
			"a packet is larger than the network's MTU: give a smaller mtu in the "
			"topology",
			r);
	else if (r == -EPERM)
		tell(rail, "sending to UDP port 4791 is forbidden", r);
}

void udp_forget(void)
{
	for (uint32_t i = 0; i < SOFTHCA_RAILS_MAX; i++) {
		if (sockets[i].open)
			sys_close(sockets[i].fd);
		sockets[i].open = false;
	}
}
