/* SPDX-License-Identifier: MIT */
/* delegrpc's attributes at their limits, for regions that are too large to be created. */
#include "support/test.h"
#include "internal.h"

TEST(largest_default_ring)
{
	struct delegrpc_attr most = {.max_clients = 4096, .resp_depth = 1 << 15};
	struct delegrpc_attr fits = {.max_clients = 512, .resp_depth = 1 << 15};
	struct delegrpc_layout l;

	CHECK_EQ(attr_complete(&most), 0);
	CHECK_EQ(most.ring_depth, 1 << 24);
	CHECK(!ring_holds_all(&most));
	CHECK_EQ(attr_complete(&fits), 0);
	CHECK_EQ(fits.ring_depth, 1 << 24);
	CHECK(ring_holds_all(&fits));
	most.req_size = most.resp_size = DELEGRPC_MAX_PAYLOAD;
	CHECK_EQ(attr_complete(&most), 0);
	layout_of(&most, &l);
	CHECK(l.responses > (1ull << 24) * DELEGRPC_MAX_PAYLOAD);
	CHECK(l.size - l.responses > (1ull << 27) * DELEGRPC_MAX_PAYLOAD);
}
