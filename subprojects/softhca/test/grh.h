/* SPDX-License-Identifier: MIT */
/* Checks the IP header, or GRH, in the first 40 bytes of a datagram's receive. */
#ifndef SOFTHCA_TEST_GRH_H
#define SOFTHCA_TEST_GRH_H

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/ip.h>

#include "check.h"

#define GRH 40

struct grh_want {
	uint8_t traffic_class, hops;
	uint32_t label; /* of IPv6 */
	uint8_t next; /* of IPv6: the next header */
	uint32_t payload; /* bytes after the header */
	union ibv_gid from, to;
};

/* RoCE v2 over IPv4: the last 20 of the 40 bytes are the packet's IPv4 header. */
static inline void grh_is_ipv4(const uint8_t *receive, const struct grh_want *w)
{
	const uint8_t *ip = receive + 20;

	CHECK_EQ(ip[0], 0x45);
	CHECK_EQ(ip[1], w->traffic_class);
	CHECK_EQ(ip[2] << 8 | ip[3], 20 + w->payload);
	CHECK_EQ(ip[8], w->hops);
	CHECK_EQ(ip[9], IPPROTO_UDP);
	CHECK(!memcmp(ip + 12, w->from.raw + 12, 4));
	CHECK(!memcmp(ip + 16, w->to.raw + 12, 4));
}

/* An IPv6 header, or InfiniBand's GRH: the same fields. */
static inline void grh_is_ipv6(const uint8_t *receive, const struct grh_want *w)
{
	const struct ibv_grh *g = (const struct ibv_grh *)receive;

	CHECK_EQ(ntohl(g->version_tclass_flow),
		6u << 28 | (uint32_t)w->traffic_class << 20 | w->label);
	CHECK_EQ(ntohs(g->paylen), w->payload);
	CHECK_EQ(g->next_hdr, w->next);
	CHECK_EQ(g->hop_limit, w->hops);
	CHECK(!memcmp(&g->sgid, &w->from, sizeof(g->sgid)));
	CHECK(!memcmp(&g->dgid, &w->to, sizeof(g->dgid)));
}

#endif
