/* SPDX-License-Identifier: MIT */
/* A client with a forged region, and with forged responses. */
#include "solo.h"

/* Makes a region as a server with these attributes would, but @more bytes longer. */
static void forge_region(struct delegrpc_attr a, size_t more, struct shm_region *region)
{
	size_t req = (16 + a.req_size + 15) / 16 * 16, resp = (8 + a.resp_size + 7) / 8 * 8;
	size_t size = 256 + a.max_clients * (size_t)128 + a.ring_depth * req;
	struct delegrpc_header *h;

	size = (size + 63) / 64 * 64 + a.max_clients * ((a.resp_depth * resp + 63) / 64 * 64);
	CHECK_EQ(shm_create("delegrpc", test_name, size + more, region), 0);
	h = region->addr;
	*h = (struct delegrpc_header){.version = DELEGRPC_VERSION,
		.max_clients = a.max_clients,
		.ring_depth = a.ring_depth,
		.resp_depth = a.resp_depth,
		.req_size = a.req_size,
		.resp_size = a.resp_size,
		.server_alive = 1,
		.region_size = size,
		.magic = DELEGRPC_MAGIC};
}

static int connect_forged(struct delegrpc_attr a, size_t more)
{
	struct delegrpc_look_region look;
	struct delegrpc_client *c;
	struct shm_region region;
	int err;

	forge_region(a, more, &region);
	err = delegrpc_client_connect(test_name, NULL, &c);
	if (!err)
		delegrpc_client_disconnect(c);
	/* delegrpc_look() makes the same checks. */
	CHECK_EQ(delegrpc_look(test_name, &look, sizeof(look), NULL, NULL), err);
	shm_close(&region);
	return err;
}

/* The file is as long as the attributes require, but no server has such attributes. */
TEST(forged_regions_are_refused)
{
	static const struct delegrpc_attr bad[] = {
		{0, 0, 256, 16, 48, 56, 0, 0, 0, 0, 0}, /* max_clients */
		{0, 2, 0, 16, 48, 56, 0, 0, 0, 0, 0}, /* ring_depth */
		{0, 2, 257, 16, 48, 56, 0, 0, 0, 0, 0},
		{0, 2, 8, 16, 48, 56, 0, 0, 0, 0, 0},
		{0, 2, 256, 0, 48, 56, 0, 0, 0, 0, 0}, /* resp_depth */
		{0, 2, 256, 15, 48, 56, 0, 0, 0, 0, 0},
		{0, 2, 256, 16, 0, 56, 0, 0, 0, 0, 0},
		{0, 2, 256, 16, 48, 0, 0, 0, 0, 0, 0},
		{0, DELEGRPC_MAX_CLIENTS + 1, 65536, 1, 1, 1, 0, 0, 0, 0, 0},
		{0, 1, 16, 2 * DELEGRPC_MAX_RESP_DEPTH, 1, 1, 0, 0, 0, 0, 0},
		{0, 1, 16, 1, DELEGRPC_MAX_PAYLOAD + 1, 1, 0, 0, 0, 0, 0},
		{0, 1, 16, 1, 1, DELEGRPC_MAX_PAYLOAD + 1, 0, 0, 0, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(connect_forged(bad[i], 0), -EPROTO);
	CHECK_EQ(connect_forged((struct delegrpc_attr){0, 2, 256, 16, 48, 56, 0, 0, 0, 0, 0}, 0),
		0);
	CHECK_EQ(connect_forged((struct delegrpc_attr){0, 2, 256, 16, 48, 56, 0, 0, 0, 0, 0}, 64),
		-EPROTO);
}

/* Writes the n-th response that client 0 reads in its first lap. */
static void forge_response(struct raw *raw, uint32_t n, uint32_t id, uint32_t len)
{
	uint64_t stamp = 1u << 16 | raw->lines[0].generation;

	__atomic_store_n((uint64_t *)(void *)(raw->responses + n * 64),
		(uint64_t)(len << 15 | id) << 32 | stamp, __ATOMIC_RELEASE);
}

static void note_longest(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	CHECK_EQ(len, 56);
	note(arg, token, resp, len);
}

/*
 * Responses with the id of no call, or of a call that has its response, or with a length that
 * exceeds resp_size, are counted and dropped.
 */
TEST(forged_responses_are_dropped)
{
	SERVER *s = server_new(1, 0, 16);
	CLIENT *c = client_new();
	struct seen seen = {0};
	uint32_t ids = 0, v = 9;
	RAW *raw = raw_open(test_name);

	call(c, 7);
	forge_response(raw, 0, 16, 4);
	forge_response(raw, 1, (1u << 15) - 1, 4);
	forge_response(raw, 2, 5, 4);
	forge_response(raw, 3, 0, 57);
	forge_response(raw, 4, 0, (1u << 17) - 1);
	forge_response(raw, 5, 0, 56);
	forge_response(raw, 6, 0, 4);
	CHECK_EQ(delegrpc_client_poll(c, note_longest, &seen), 1);
	CHECK_EQ(seen.token[0], 7);
	CHECK_EQ(delegrpc_client_pending(c), 0);
	/* The list of free ids is intact: each call gets an id of its own. */
	for (uint32_t i = 0; i < 16; i++)
		CHECK_EQ(delegrpc_client_call(c, &v, 4, i), 0);
	CHECK_EQ(delegrpc_client_call(c, &v, 4, 16), -EAGAIN);
	CHECK_EQ(client_stats_of(c).bad_responses, 6);
	CHECK_EQ(client_stats_of(c).responses, 1);
	for (uint32_t i = 1; i <= 16; i++) {
		uint32_t id;

		memcpy(&id, raw->requests + i * raw->req_stride + 8, 4);
		CHECK((id & 0xffff) < 16 && !(ids >> (id & 0xffff) & 1));
		ids |= 1u << (id & 0xffff);
	}
	CHECK_EQ(ids, 0xffff);
}
