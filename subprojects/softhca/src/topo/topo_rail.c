/* SPDX-License-Identifier: MIT */
#include "topo/topo_rail.h"

#include <stdio.h>
#include <string.h>

/* An EUI-64 with the "locally administered" bit, which no vendor uses. */
#define GUID_BASE UINT64_C(0x025f48fffe000000)
#define BUS_FIRST 0x11
#define BUS_STEP 0x0b
#define LID_FIRST 16 /* LID 1 belongs to the subnet manager */

void softhca_rail_init(struct softhca_rail *rail, uint32_t index)
{
	*rail = (struct softhca_rail){
		.pci.bus = (uint8_t)(BUS_FIRST + BUS_STEP * index),
		.link = SOFTHCA_LINK_IB,
		.rate_mbps = 200000,
		.latency_ns = 600,
		.mtu = 4096,
		.guid = GUID_BASE + index,
	};
	snprintf(rail->name, sizeof(rail->name), "mlx5_%u", index);
}

static void gid_link_local(uint8_t gid[16], uint64_t guid)
{
	gid[0] = 0xfe;
	gid[1] = 0x80;
	for (int i = 0; i < 8; i++)
		gid[8 + i] = (uint8_t)(guid >> (56 - 8 * i));
}

/* ::ffff:10.95.<rail>.1 */
static void gid_ipv4(uint8_t gid[16], uint32_t index)
{
	const uint8_t tail[6] = {0xff, 0xff, 10, 95, (uint8_t)index, 1};

	memcpy(gid + 10, tail, sizeof(tail));
}

void softhca_rail_complete(struct softhca_rail *rail, uint32_t index)
{
	if (rail->link == SOFTHCA_LINK_ROCE) {
		/* libibverbs needs an existing interface. */
		if (!rail->netdev[0])
			strcpy(rail->netdev, "lo");
	} else if (!rail->lid) {
		rail->lid = (uint16_t)(LID_FIRST + index);
	}
	if (!rail->npkeys)
		rail->pkeys[rail->npkeys++] = 0xffff;
	if (rail->ngids)
		return;
	gid_link_local(rail->gids[rail->ngids++], rail->guid);
	if (rail->link == SOFTHCA_LINK_ROCE)
		gid_ipv4(rail->gids[rail->ngids++], index);
}
