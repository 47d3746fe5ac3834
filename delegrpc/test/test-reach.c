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

/* A marked line has its client's namespace, also when a client asks for its namespace. */
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
	struct delegrpc_server *s;
	struct delegrpc_client *c;
	RAW raw;

	CHECK_EQ(reachtest_create(test_name, &s), 0);
	raw_open(test_name, &raw);
	watched = &raw.lines[0];
	CHECK_EQ(reachtest_connect(test_name, &c), 0);
	watched = NULL;
	CHECK(asked > 0);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}
