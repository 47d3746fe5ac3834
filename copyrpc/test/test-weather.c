/* SPDX-License-Identifier: MIT */
/* Storms over endpoints that are connected again: faults at any call. */
#include <inttypes.h>
#include <sys/socket.h>

#include "back.h"
#include "lobby.h"

#ifndef SCALE
#define SCALE 1
#endif
#ifdef TIMES /* the long form */
#define CALLS 500000 /* of each side in the storm */
#define GROWING 5000
#define CALM 200 /* the most calls between two faults */
#define GUARD_S 3000
#else
#define CALLS 400
#define GROWING 10 /* storms with growing rings */
#define CALM 20
#define GUARD_S 800
#endif

static void cut_tcp(struct node *n)
{
	struct lobby *y = container_of(n->ctx->side, struct lobby, side);

	for (struct watch *w = y->watches; w; w = w->next)
		if (w->fd >= 0 && w->fd != n->listener)
			shutdown(w->fd, SHUT_RDWR);
}

static uint64_t returned, resent, grown; /* of all nodes */

static int last;

static void remove_rule(void)
{
	if (last > 0)
		fault_remove(last);
	last = 0;
}

/* The number of rules is limited, so the former one is removed. */
static void add_rule(const char *text)
{
	remove_rule();
	last = fault_add(text);
	if (last <= 0)
		printf("%s\n", text);
	CHECK(last > 0);
}

/* Nothing is sent while the link is down, so no message could bring it up. */
static void link_up(void)
{
	remove_rule();
	CHECK_EQ(link_set("mlx5_0", true), 0);
}

static void trouble(struct node n[2], bool *down)
{
	static const char *const rules[] = {
		"action=error opcode=write_imm syndrome=retry_exceeded",
		"action=error opcode=write_imm syndrome=rnr_exceeded",
		"action=error opcode=write_imm syndrome=remote_op",
		"action=error opcode=read syndrome=remote_op",
		"action=partial opcode=write_imm bytes=40 syndrome=remote_op",
		"action=partial opcode=write_imm bytes=200 syndrome=retry_exceeded",
		"action=no_answer opcode=write_imm count=6",
		"action=late opcode=write_imm delay_ns=2000000",
		"action=link_down",
	};
	char text[128];
	uint32_t which = pick(ARRAY_SIZE(rules) + 3);

	if (*down) {
		link_up();
		*down = false;
		return;
	}
	if (which >= ARRAY_SIZE(rules)) {
		if (which == ARRAY_SIZE(rules))
			cut_tcp(&n[pick(2)]);
		else
			lose(n, which == ARRAY_SIZE(rules) + 1);
		return;
	}
	snprintf(text, sizeof(text), "%s nth=%u", rules[which], 1 + pick(4));
	*down = strstr(text, "link_down");
	add_rule(text);
}

/* Makes @count calls of each side. */
static void weather(const struct copyrpc_ctx_attr *attr, uint32_t count)
{
	uint32_t next = 0;
	bool down = false;
	NODES n[2];

	open_nodes(n, attr);
	up(n);
	n[0].most = n[1].most = count - 1;
	while (!idle(&n[0]) || !idle(&n[1])) {
		/* A fault comes after some calls, and sometimes while there is no connection. */
		if (n[0].done + n[1].done >= next || pick(2000) == 0) {
			trouble(n, &down);
			next = n[0].done + n[1].done + 1 + pick(CALM);
		}
		turn_both(n);
	}
	link_up();
	calls(n, 1);
	for (int i = 0; i < 2; i++) {
		struct copyrpc_stats st;

		copyrpc_ctx_get_stats(n[i].ctx, &st, sizeof(st));
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
