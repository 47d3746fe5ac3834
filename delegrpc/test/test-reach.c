/* SPDX-License-Identifier: MIT */
/* Clients that cannot wake a server that sleeps on its descriptor. */
#include "rpc.h"
#include "map.h"
#include "support/reachtest.h"
#include "raw.h"

static const struct delegrpc_line *watched;
static uint32_t asked;

uint64_t __real_wakefd_netns(void);
uint64_t __wrap_wakefd_netns(void);

/*
 * Checks, whenever a client asks for its network namespace, that `taken` is not set in a line that
 * does not have the client's namespace yet.
 */
uint64_t __wrap_wakefd_netns(void)
{
	if (watched) {
		CHECK(!watched->taken || watched->address.netns);
		asked++;
	}
	return __real_wakefd_netns();
}

TEST(a_namespace_is_stored_before_the_mark)
{
	SERVER *s = reachtest_server();
	RAW *raw = raw_open(test_name);
	CLIENT *c;

	watched = &raw->lines[0];
	CHECK_EQ(reachtest_connect(&c), 0);
	watched = NULL;
	CHECK(asked > 0);
}
