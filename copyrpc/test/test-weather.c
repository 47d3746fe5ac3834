/* SPDX-License-Identifier: MIT */
/* Random faults while two nodes call each other, over endpoints that are connected again. */
#include <inttypes.h>

#include "back.h"

#if TIMES > 1 /* the long form */
#define CALLS 500000 /* of each side in the storm */
#define GROWING 5000
#define CALM 200 /* maximum number of calls between two faults */
#define GUARD_S 3000
#else
#define CALLS 400
#define GROWING 10 /* storms with growing rings */
#define CALM 20
#define GUARD_S 800
#endif

static uint64_t returned, resent, grown; /* of all nodes */

/* A fault rule cannot bring the link up: rules act on messages, and none is sent meanwhile. */
static void link_up(int *rule)
{
	rule_remove(rule);
	CHECK_EQ(HCA(softhca_link_set)("mlx5_0", true), 0);
}

static void trouble(struct node n[2], int *rule, bool *down)
{
	uint32_t which = pick(MESSAGE_RULES + 4);
	const struct node *cut = &n[pick(2)];

	if (*down) {
		link_up(rule);
		*down = false;
		return;
	}
	switch (which) {
	case MESSAGE_RULES:
		rule_replace(rule, "action=link_down", 1 + pick(4));
		*down = true;
		break;
	case MESSAGE_RULES + 1:
		cut_tcp(cut->ctx, cut->listener);
		break;
	case MESSAGE_RULES + 2:
	case MESSAGE_RULES + 3:
		lose(n, which == MESSAGE_RULES + 2);
		break;
	default:
		rule_replace(rule, fault_rules[which], 1 + pick(4));
	}
}

/* Makes @count calls of each side. */
static void weather(const struct copyrpc_ctx_attr *attr, uint32_t count)
{
	uint32_t next = 0;
	int rule = 0;
	bool down = false;
	NODES n[2];

	open_nodes(n, attr);
	up(n);
	n[0].most = n[1].most = count - 1;
	while (!idle(&n[0]) || !idle(&n[1])) {
		/* A fault comes after some calls, and sometimes while there is no connection. */
		if (n[0].done + n[1].done >= next || pick(2000) == 0) {
			trouble(n, &rule, &down);
			next = n[0].done + n[1].done + 1 + pick(CALM);
		}
		turn_both(n);
	}
	link_up(&rule);
	calls(n, 1);
	for (int i = 0; i < 2; i++) {
		struct copyrpc_stats st = ctx_stats_of(n[i].ctx);

		printf("%u calls, %" PRIu64 " returns, %" PRIu64 " batches, %" PRIu64
		       " of them again\n",
			count, st.returns, st.batches, st.resent);
		returned += st.returns;
		resent += st.resent;
		grown += st.grown;
		CHECK_EQ(n[i].failed, 0);
		CHECK_EQ(n[i].ends, 0);
		CHECK_EQ(n[i].made, count);
		for (uint32_t k = 0; k < count; k++)
			CHECK(n[i].ended[k] && n[!i].executed[k]);
	}
}

TEST(storm)
{
	seed = test_seed();
	alarm(GUARD_S);
	weather(&returning, CALLS / SCALE);
	CHECK(SCALE > 1 || (returned > 10 && resent > 10));
}

/* The rings grow while connections are lost. */
TEST(storms_over_growing_rings)
{
	struct copyrpc_ctx_attr attr = returning;

	attr.ring_size = 1 << 17;
	seed = test_seed();
	alarm(GUARD_S);
	for (int i = 0; i < GROWING / SCALE; i++)
		weather(&attr, 60);
	CHECK(SCALE > 1 || (resent > 10 && grown > GROWING));
}
