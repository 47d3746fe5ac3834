/* SPDX-License-Identifier: MIT */
#include "cm/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#include "fabric/fabric.h"
#include "packet/frame.h"

static_assert(sizeof(struct cm_sockaddr_ib) == 48, "the kernel's sockaddr_ib");

static int decode_v4(const void *p, size_t len, struct cm_addr *addr)
{
	struct sockaddr_in v4;

	if (len < sizeof(v4))
		return -EINVAL;
	memcpy(&v4, p, sizeof(v4));
	*addr = (struct cm_addr){.family = AF_INET, .port = ntohs(v4.sin_port)};
	gid_set_ipv4(addr->ip, &v4.sin_addr);
	return 0;
}

static int decode_v6(const void *p, size_t len, struct cm_addr *addr)
{
	struct sockaddr_in6 v6;

	if (len < sizeof(v6))
		return -EINVAL;
	memcpy(&v6, p, sizeof(v6));
	*addr = (struct cm_addr){.family = AF_INET6,
		.port = ntohs(v6.sin6_port),
		.scope = v6.sin6_scope_id};
	memcpy(addr->ip, &v6.sin6_addr, sizeof(addr->ip));
	return 0;
}

static int decode_ib(const void *p, size_t len, struct cm_addr *addr)
{
	static const uint8_t none[16];
	struct cm_sockaddr_ib ib;

	if (len < sizeof(ib))
		return -EINVAL;
	memcpy(&ib, p, sizeof(ib));
	if (memcmp(ib.addr, none, sizeof(none)))
		return -EAFNOSUPPORT;
	*addr = (struct cm_addr){.family = AF_INET6, .port = (uint16_t)be64toh(ib.service_id)};
	return 0;
}

int cm_addr_decode(const void *sockaddr, size_t len, struct cm_addr *addr_p)
{
	uint16_t family;

	memcpy(&family, sockaddr, sizeof(family));
	switch (family) {
	case AF_INET:
		return decode_v4(sockaddr, len, addr_p);
	case AF_INET6:
		return decode_v6(sockaddr, len, addr_p);
	case CM_AF_IB:
		return decode_ib(sockaddr, len, addr_p);
	default:
		return -EAFNOSUPPORT;
	}
}

size_t cm_addr_encode(const struct cm_addr *addr, void *sockaddr)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(addr->port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(addr->port),
		.sin6_scope_id = addr->scope};

	switch (addr->family) {
	case AF_INET:
		memcpy(&v4.sin_addr, addr->ip + GID_IPV4, 4);
		memcpy(sockaddr, &v4, sizeof(v4));
		return sizeof(v4);
	case AF_INET6:
		memcpy(&v6.sin6_addr, addr->ip, sizeof(addr->ip));
		memcpy(sockaddr, &v6, sizeof(v6));
		return sizeof(v6);
	default:
		return 0;
	}
}

bool cm_addr_any(const struct cm_addr *addr)
{
	static const uint8_t none[16];

	return !memcmp(addr->ip + (gid_is_ipv4(addr->ip) ? 12 : 0), none,
		gid_is_ipv4(addr->ip) ? 4 : 16);
}

bool cm_addr_loopback(const struct cm_addr *addr)
{
	static const uint8_t v6[16] = {[15] = 1};

	return gid_is_ipv4(addr->ip) ? addr->ip[12] == 127 : !memcmp(addr->ip, v6, sizeof(v6));
}

bool cm_addr_same_ip(const struct cm_addr *a, const struct cm_addr *b)
{
	return !memcmp(a->ip, b->ip, sizeof(a->ip));
}

/*
 * Returns the index of the GID that stands for the host's address @addr: the first GID of the same
 * kind (IPv4 or IPv6), else the first GID.
 */
static uint32_t usual_gid(const struct softhca_rail *rail, const struct cm_addr *addr)
{
	for (uint32_t i = 0; i < rail->ngids; i++)
		if (gid_is_ipv4(rail->gids[i]) == gid_is_ipv4(addr->ip))
			return i;
	return 0;
}

bool cm_gid_place(const uint8_t gid[16], struct cm_place *place_p)
{
	const struct softhca_topology *t = &arena()->topo;

	for (uint32_t r = 0; r < t->nrails; r++) {
		for (uint32_t g = 0; g < t->rails[r].ngids; g++) {
			if (memcmp(t->rails[r].gids[g], gid, sizeof(t->rails[r].gids[g])))
				continue;
			*place_p = (struct cm_place){r, g};
			return true;
		}
	}
	return false;
}

/*
 * Returns true if an adapter with udp=on has a loopback address. Adapters of other fabrics may have
 * loopback addresses then, too.
 */
static bool hosts_are_local(void)
{
	const struct softhca_topology *t = &arena()->topo;
	struct cm_addr a;

	for (uint32_t r = 0; r < t->nrails; r++) {
		for (uint32_t g = 0; g < t->rails[r].ngids && t->rails[r].udp; g++) {
			memcpy(a.ip, t->rails[r].gids[g], sizeof(a.ip));
			if (cm_addr_loopback(&a))
				return true;
		}
	}
	return false;
}

/* Copies the name of the interface that has @addr. Returns false if no interface has it. */
static bool find_interface(const struct cm_addr *addr, char name[SOFTHCA_NAME_MAX])
{
	struct ifaddrs *all, *i;
	struct cm_addr a;

	if (getifaddrs(&all))
		return false;
	for (i = all; i; i = i->ifa_next) {
		/* getifaddrs() allocates this many bytes for a sockaddr of any family. */
		if (!i->ifa_addr || cm_addr_decode(i->ifa_addr, CM_SOCKADDR_MAX, &a) ||
			!cm_addr_same_ip(&a, addr))
			continue;
		strncpy(name, i->ifa_name, SOFTHCA_NAME_MAX - 1);
		name[SOFTHCA_NAME_MAX - 1] = '\0';
		break;
	}
	freeifaddrs(all);
	return i != NULL;
}

/* @name: empty if no interface has the address. Returns the first adapter if none has the name. */
static uint32_t rail_of_interface(const char *name)
{
	const struct softhca_topology *t = &arena()->topo;

	for (uint32_t r = 0; r < t->nrails; r++)
		if (*name && !strcmp(t->rails[r].netdev, name))
			return r;
	return 0;
}

int cm_addr_place(const struct cm_addr *addr, struct cm_place *place_p)
{
	char name[SOFTHCA_NAME_MAX] = "";

	if (cm_gid_place(addr->ip, place_p))
		return 0;
	if ((!cm_addr_loopback(addr) || hosts_are_local()) && !find_interface(addr, name))
		return -EADDRNOTAVAIL;
	place_p->rail = rail_of_interface(name);
	place_p->gid = usual_gid(&arena()->topo.rails[place_p->rail], addr);
	return 0;
}
