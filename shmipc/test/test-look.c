/* SPDX-License-Identifier: MIT */
/* Reading a region from outside: living clients, forged contents, removal. */
#include "base/sleep.h"
#include "common.h"
#include "layout.h"
#include "support/looktest.h"

static const struct shmipc_attr look_attr = {.max_clients = 8,
	.depth = 32,
	.req_size = 32,
	.resp_size = 32};

static uint32_t seen_states[8];

static void note_state(void *arg, const struct shmipc_look_client *c)
{
	CHECK(c->index < 8);
	seen_states[c->index] = c->state + 1;
	++*(uint32_t *)arg;
}

/* Returns the header of the region of a server in this process. */
static struct shmipc_header *header_of(struct shmipc_server *s)
{
	return container_of((uint32_t *)s->changes, struct shmipc_header, changes);
}

static struct shmipc_place *place_of(struct shmipc_server *s, uint32_t index)
{
	struct shmipc_layout l;

	CHECK_EQ(shmipc_layout_plan(&msg_attr, &l), 0);
	return shmipc_place(&l, header_of(s), index);
}

TEST(clients_and_their_states)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new(), *d = client_new();
	struct shmipc_look_region l;
	struct stat st;
	uint32_t n = 0;

	CHECK_EQ(look().clients, 2);
	CHECK_EQ(look().dead_clients, 0);
	CHECK_EQ(look().changes, 2);
	place_of(s, 0)->client_state = SLEEP_WAITING;
	place_of(s, 1)->client_state = SLEEP_ON_FD;
	header_of(s)->active[0] |= 1 << 5; /* the bit that a dying client leaves */
	header_of(s)->server_state = SLEEP_ASLEEP;
	CHECK_EQ(shmipc_look(test_name, &l, sizeof(l), note_state, &n), 0);
	CHECK_EQ(n, 3);
	CHECK_EQ(l.clients, 2);
	CHECK_EQ(l.dead_clients, 1);
	CHECK_EQ(l.server, SHMIPC_LOOK_ASLEEP);
	CHECK_EQ(seen_states[0], SHMIPC_LOOK_WAITING + 1);
	CHECK_EQ(seen_states[1], SHMIPC_LOOK_ASLEEP + 1);
	CHECK_EQ(seen_states[2], 0);
	CHECK_EQ(seen_states[5], SHMIPC_LOOK_DEAD + 1);
	CHECK_EQ(l.attr.max_clients, msg_attr.max_clients);
	CHECK_EQ(l.attr.depth, msg_attr.depth);
	CHECK_EQ(l.attr.req_size, msg_attr.req_size);
	CHECK_EQ(l.attr.mode, 0600);
	CHECK_EQ(stat(test_file(RPC_PREFIX), &st), 0);
	CHECK_EQ(l.size, (uint64_t)st.st_size);
}

/* A header is refused if a field before `size` is wrong. Only extra_size may be 0. */
TEST(headers_are_checked)
{
	static const struct shmipc_attr defaults;
	SERVER *s = server_with(&defaults);
	uint32_t *header = (uint32_t *)header_of(s);
	struct shmipc_look_region l;

	for (size_t i = 0; i < offsetof(struct shmipc_header, size) / 4; i++) {
		uint32_t kept = header[i];

		header[i]++;
		CHECK_EQ(look_at(&l), -EPROTO);
		header[i] = 0;
		if (i != offsetof(struct shmipc_header, extra_size) / 4 && kept)
			CHECK_EQ(look_at(&l), -EPROTO);
		header[i] = kept;
	}
	CHECK_EQ(look_at(&l), 0);
	CHECK_EQ(truncate(test_file(RPC_PREFIX), (off_t)l.size + 64), 0);
	CHECK_EQ(look_at(&l), -EPROTO);
}

TEST(forged_contents_do_no_harm)
{
	pid_t pid = spawn(serve_for_ever);
	struct shmipc_look_region l;

	looktest_forge(sizeof(struct shmipc_header) + sizeof(struct shmipc_place), NULL);
	CHECK_EQ(look().attr.depth, msg_attr.depth);
	CHECK_EQ(truncate(test_file(RPC_PREFIX), sizeof(struct shmipc_header)), 0);
	CHECK_EQ(look_at(&l), -EPROTO);
	CHECK_EQ(truncate(test_file(RPC_PREFIX), 100), 0);
	CHECK_EQ(look_at(&l), -EPROTO);
	test_kill(pid);
	CHECK_EQ(shmipc_remove_dead(test_name), 0);
}
