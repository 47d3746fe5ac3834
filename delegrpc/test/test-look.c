/* SPDX-License-Identifier: MIT */
/* Reading a region from outside: slots in use, living clients, forged contents, removal. */
#include "solo.h"
#include "support/looktest.h"

#define DEPTH 16
#define RING 256

static const struct delegrpc_attr look_attr = {.max_clients = 4, .resp_depth = DEPTH};

TEST(slots_in_use_are_exact)
{
	SERVER *s = server_new(4, 0, DEPTH);
	CLIENT *c = client_new();
	struct delegrpc_req r[3];
	struct stat st;

	CHECK_EQ(look().in_use, 0);
	calls(c, 3);
	CHECK_EQ(look().in_use, 0); /* staged calls are private */
	CHECK_EQ(delegrpc_client_flush(c), 0);
	CHECK_EQ(look().in_use, 3);
	CHECK_EQ(delegrpc_server_poll(s), 3);
	for (uint32_t i = 0; i < 3; i++)
		CHECK_EQ(delegrpc_server_recv(s, &r[i]), 1);
	CHECK_EQ(look().in_use, 3); /* received, but not given back */
	delegrpc_server_advance_tail(s);
	CHECK_EQ(look().in_use, 0);
	CHECK_EQ(look().attr.max_clients, 4);
	CHECK_EQ(look().attr.ring_depth, RING);
	CHECK_EQ(look().attr.resp_depth, DEPTH);
	CHECK_EQ(look().attr.req_size, 48);
	CHECK_EQ(look().attr.resp_size, 56);
	CHECK_EQ(look().attr.mode, 0600);
	CHECK_EQ(look().connects, 1);
	CHECK_EQ(stat(test_file(RPC_PREFIX), &st), 0);
	CHECK_EQ(look().size, (uint64_t)st.st_size);
}

static uint32_t seen_states[4];

static void note_state(void *arg, const struct delegrpc_look_client *c)
{
	CHECK(c->id < 4);
	seen_states[c->id] = c->state + 1;
	++*(uint32_t *)arg;
}

TEST(clients_and_their_states)
{
	SERVER *s = server_new(4, 0, DEPTH);
	struct delegrpc_client *c = client_new();
	CLIENT *d = client_new(), *e = client_new();
	struct delegrpc_look_region l;
	uint32_t n = 0;
	RAW *raw = raw_open(test_name);

	delegrpc_client_disconnect(c);
	raw->lines[1].state = DELEGRPC_WAITING;
	raw->lines[2].state = DELEGRPC_ON_FD;
	raw->lines[3].taken = 1; /* a client that dies leaves this value */
	raw->header->server_state = DELEGRPC_ASLEEP;
	CHECK_EQ(delegrpc_look(test_name, &l, sizeof(l), note_state, &n), 0);
	CHECK_EQ(n, 3);
	CHECK_EQ(l.clients, 2);
	CHECK_EQ(l.dead_clients, 1);
	CHECK_EQ(l.server, DELEGRPC_LOOK_ASLEEP);
	CHECK_EQ(seen_states[0], 0);
	CHECK_EQ(seen_states[1], DELEGRPC_LOOK_WAITING + 1);
	CHECK_EQ(seen_states[2], DELEGRPC_LOOK_ASLEEP + 1);
	CHECK_EQ(seen_states[3], DELEGRPC_LOOK_DEAD + 1);
}

/* A header with one wrong field is refused. */
TEST(headers_are_checked)
{
	SERVER *s = server_new(4, 0, DEPTH);
	struct delegrpc_look_region l;
	RAW *raw = raw_open(test_name);

	for (size_t at = 0; at < 40; at += 4) {
		uint32_t *word = (uint32_t *)(void *)raw->header + at / 4;

		if (at == offsetof(struct delegrpc_header, connects) ||
			at == offsetof(struct delegrpc_header, server_alive))
			continue;
		++*word;
		CHECK_EQ(look_at(&l), -EPROTO);
		--*word;
	}
	CHECK_EQ(look_at(&l), 0);
	CHECK_EQ(truncate(test_file(RPC_PREFIX), (off_t)l.size + 64), 0);
	CHECK_EQ(look_at(&l), -EPROTO);
}

static void slots_are_possible(const struct delegrpc_look_region *l)
{
	CHECK(l->in_use <= l->attr.ring_depth);
}

/*
 * The server is another process, which does not access the region: after this test has shortened
 * the file, an access would raise SIGBUS.
 */
TEST(forged_contents_do_no_harm)
{
	pid_t pid = spawn(serve_for_ever);
	struct delegrpc_look_region l;
	struct raw *raw;

	looktest_forge(256 + 4 * 128, slots_are_possible);
	raw = raw_open(test_name);
	raw->control->tail = 1; /* greater than head */
	CHECK_EQ(look().in_use, RING);
	raw_close(raw);
	CHECK_EQ(truncate(test_file(RPC_PREFIX), 300), 0);
	CHECK_EQ(look_at(&l), -EPROTO);
	CHECK_EQ(truncate(test_file(RPC_PREFIX), 100), 0);
	CHECK_EQ(look_at(&l), -EPROTO);
	test_kill(pid);
	CHECK_EQ(delegrpc_remove_dead(test_name), 0);
}
