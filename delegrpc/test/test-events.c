/* SPDX-License-Identifier: MIT */
/* The events of a server of delegrpc. */
#include "rpc.h"
#include "map.h"
#include "raw.h"
#include "support/rpcevents.h"

/* The requests of a client that has ended are served, and only then is its end reported. */
TEST(end_is_told_after_the_last_request)
{
	SERVER *s = events_server(2);
	struct delegrpc_client *c = client_new();
	struct delegrpc_req r;

	for (uint64_t i = 0; i < 3; i++)
		CHECK_EQ(delegrpc_client_call(c, &i, sizeof(i), i), 0);
	delegrpc_client_disconnect(c); /* these calls have not been published */
	events_next(s, DELEGRPC_EVENT_CAME, 0, getpid());
	events_next(s, DELEGRPC_EVENT_LEFT, 0, getpid());
	c = client_new();
	for (uint64_t i = 0; i < 3; i++)
		CHECK_EQ(delegrpc_client_call(c, &i, sizeof(i), i), 0);
	delegrpc_client_flush(c);
	delegrpc_client_disconnect(c);
	events_next(s, DELEGRPC_EVENT_CAME, 0, getpid());
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(events_take(s).kind, EVENTS_NONE);
		CHECK_EQ(delegrpc_server_recv(s, &r), 1);
		CHECK_EQ(r.client, 0);
	}
	delegrpc_server_advance_tail(s);
	events_next(s, DELEGRPC_EVENT_LEFT, 0, getpid());
}

/* A value of `taken` that another process has written does not end a client. */
TEST(living_clients_have_not_left)
{
	SERVER *s = events_server(1);
	CLIENT *c = client_new();
	RAW *raw = raw_open(test_name);

	events_next(s, DELEGRPC_EVENT_CAME, 0, getpid());
	raw->lines[0].taken = DELEGRPC_LEFT;
	raw->header->changes++;
	CHECK_EQ(events_take(s).kind, EVENTS_NONE);
	raw->lines[0].taken = 0;
	raw->header->changes++;
	CHECK_EQ(events_take(s).kind, EVENTS_NONE);
	raw->lines[0].taken = DELEGRPC_TAKEN;
}

/*
 * A client that is still connecting is not reported. Its id becomes free if it dies, and not
 * before.
 */
TEST(coming_clients_have_not_come)
{
	SERVER *s = events_server(2);
	struct rpc_map coming;
	RAW *raw = raw_open(test_name);

	map_region(test_name, &coming);
	CHECK_EQ(shm_lock(&coming.region, 2), 0);
	raw->lines[1].taken = DELEGRPC_COMING;
	/* The client has not stored its network namespace yet, and is no obstacle. */
	CHECK(delegrpc_server_fd(s) >= 0);
	for (int i = 0; i < 2; i++) {
		raw->header->changes++;
		CHECK_EQ(events_take(s).kind, EVENTS_NONE);
		CHECK_EQ(raw->lines[1].taken, i ? 0 : DELEGRPC_COMING);
		shm_unlock(&coming.region, 2);
	}
	shm_close(&coming.region);
}

/*
 * A client reserved a slot, and died before the server read its introduction (see delegrpc(7)). The
 * server skips the slot.
 */
TEST(introductions_keep_no_holes)
{
	SERVER *s = events_server(2);
	struct rpc_map dead;
	RAW *raw = raw_open(test_name);

	map_region(test_name, &dead);
	CHECK_EQ(shm_lock(&dead.region, 2), 0);
	intro_send(dead.door, 1, dead.region.fd, 1, 16, 0);
	raw->lines[1].claim = DELEGRPC_CLAIM_INTENT;
	raw->control->head++;
	shm_close(&dead.region);
	for (int i = 0; i < 100 * DELEGRPC_STUCK_POLLS && raw->control->tail != 1; i++)
		CHECK_EQ(delegrpc_server_poll(s), 0);
	CHECK_EQ(raw->control->tail, 1);
}
