/* SPDX-License-Identifier: MIT */
/*
 * Test cases for both delegrpc and shmipc: names, structs of other versions, and fork. A program must
 * include the layer's test/rpc.h before this file.
 */
#ifndef SUPPORT_RPCCASES_H
#define SUPPORT_RPCCASES_H

#include <errno.h>
#include <stddef.h>

#include "support/fdtest.h"
#include "support/rpcecho.h"

/* A program built with another version has shorter or longer structs. */
TEST(sizes_of_other_versions)
{
	struct {
		struct rpc_attr attr;
		uint64_t later;
	} longer = {.attr = {.size = sizeof(longer)}, .later = 1};
	const size_t shorter = offsetof(struct rpc_attr, max_clients) + sizeof(uint32_t);
	struct rpc_server_stats st;
	uint32_t behind;
	uint64_t last;
	SERVER *s = NULL;

	CHECK_EQ(RPC(server_create)(test_name, &longer.attr, &s), -E2BIG);
	longer.later = 0;
	CHECK_EQ(RPC(server_create)(test_name, &longer.attr, &s), 0);
	memset(&longer, 0xee, sizeof(longer));
	RPC(server_get_attr)(s, &longer.attr, sizeof(longer));
	CHECK_EQ(longer.attr.size, sizeof(longer.attr));
	CHECK_EQ(longer.later, 0xeeeeeeeeeeeeeeee);
	memset(&longer, 0xee, sizeof(longer));
	RPC(server_get_attr)(s, &longer.attr, shorter);
	CHECK_EQ(longer.attr.size, shorter);
	memcpy(&behind, (char *)&longer + shorter, sizeof(behind));
	CHECK_EQ(behind, 0xeeeeeeee);
	memset(&st, 0xee, sizeof(st));
	RPC(server_get_stats)(s, &st, sizeof(st) - 8);
	CHECK_EQ(st.requests, 0);
	memcpy(&last, (char *)(&st + 1) - sizeof(last), sizeof(last));
	CHECK_EQ(last, 0xeeeeeeeeeeeeeeee);
}

/* A name may have as many bytes as the layer's header states, and no slash. */
TEST(names_are_checked)
{
	char longest[RPC_CONSTANT(MAX_NAME) + 2];
	SERVER *s = NULL;
	CLIENT *c = NULL;

	memset(longest, 'n', sizeof(longest));
	longest[RPC_CONSTANT(MAX_NAME) + 1] = '\0';
	CHECK_EQ(RPC(server_create)(longest, NULL, &s), -EINVAL);
	CHECK_EQ(RPC(client_connect)(longest, NULL, &c), -EINVAL);
	CHECK_EQ(RPC(server_create)("", NULL, &s), -EINVAL);
	CHECK_EQ(RPC(server_create)("a/b", NULL, &s), -EINVAL);
	CHECK(!s && !c);
	longest[RPC_CONSTANT(MAX_NAME)] = '\0';
	CHECK_EQ(RPC(server_create)(longest, NULL, &s), 0);
	CHECK_EQ(RPC(client_connect)(longest, NULL, &c), 0);
}

struct cases_pair {
	struct rpc_server *s;
	struct rpc_client *c;
};

static inline void cases_in_child(void *arg)
{
	struct cases_pair *p = arg;
	struct rpc_client *c;

	RPC(client_disconnect)(p->c);
	RPC(server_destroy)(p->s);
	CHECK_EQ(RPC(client_connect)(test_name, NULL, &c), -EUSERS);
}

static inline void cases_answered(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	CHECK_EQ(memcmp(resp, &token, sizeof(token)), 0);
}

/* A forked child that frees the client and the server that it inherits disturbs neither of them. */
TEST(fork_disturbs_nothing)
{
	const struct rpc_attr attr = {.max_clients = 1};
	uint64_t token = 77;
	SERVER *s = server_with(&attr);
	CLIENT *c = client_new();

	fdtest_in_child(cases_in_child, &(struct cases_pair){s, c});
	CHECK_EQ(RPC(client_call)(c, &token, sizeof(token), token), 0);
	RPC(client_flush)(c);
	CHECK_EQ(rpc_echo(s), 1);
	CHECK_EQ(RPC(client_poll)(c, cases_answered, NULL), 1);
	RPC(client_disconnect)(c);
	CHECK_EQ(RPC(server_poll)(s), 0);
	c = client_new(); /* the child has not removed the region's name */
}

#endif
