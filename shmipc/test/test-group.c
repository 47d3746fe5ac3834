/* SPDX-License-Identifier: MIT */
/* Regions for a user or for a group. */
#include "base/grouptest.h"
#include "shmipc.h"

static const struct shmipc_attr *attr_of(const struct grouptest_attr *a, struct shmipc_attr *buf)
{
	*buf = (struct shmipc_attr){.max_clients = 4, .req_size = 8, .resp_size = 8};
	if (!a)
		return NULL;
	buf->mode = a->mode;
	buf->gid = a->gid;
	buf->set = a->set;
	return buf;
}

static int create(const char *name, const struct grouptest_attr *a, void **s_p)
{
	struct shmipc_attr attr;
	struct shmipc_server *s = NULL;
	int err = shmipc_server_create(name, attr_of(a, &attr), &s);

	*s_p = s;
	return err;
}

static int connect_to(const char *name, const struct grouptest_attr *a, void **c_p)
{
	struct shmipc_attr attr;
	struct shmipc_client *c = NULL;
	int err = shmipc_client_connect(name, attr_of(a, &attr), &c);

	*c_p = c;
	return err;
}

static void server_attr(void *s, struct grouptest_attr *got)
{
	struct shmipc_attr attr;

	shmipc_server_get_attr(s, &attr);
	*got = (struct grouptest_attr){.mode = attr.mode, .gid = attr.gid, .set = attr.set};
}

static void client_attr(void *c, struct grouptest_attr *got)
{
	struct shmipc_attr attr;

	shmipc_client_get_attr(c, &attr);
	*got = (struct grouptest_attr){.mode = attr.mode, .gid = attr.gid, .set = attr.set};
}

static void serve(void *s)
{
	struct shmipc_req r;

	shmipc_server_wait(s, NSEC_PER_MSEC);
	for (uint64_t word; shmipc_server_recv(s, &r, &word, sizeof(word)) > 0;)
		CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &word, r.len), 0);
	shmipc_server_flush(s);
}

static uint64_t call(void *c, uint64_t word)
{
	uint64_t answer = 0;
	uint32_t len = 0;

	CHECK_EQ(shmipc_client_call_wait(c, &word, 8, &answer, 8, SHMIPC_FOREVER, &len), 0);
	CHECK_EQ(len, 8);
	return answer;
}

static void destroy(void *s)
{
	shmipc_server_destroy(s);
}

static void disconnect(void *c)
{
	shmipc_client_disconnect(c);
}

int main(int argc, char **argv)
{
	static const struct grouptest_layer layer = {
		.prefix = "/dev/shm/shmipc.",
		.set_gid = SHMIPC_SET_GID,
		.create = create,
		.connect = connect_to,
		.server_attr = server_attr,
		.client_attr = client_attr,
		.serve = serve,
		.call = call,
		.destroy = destroy,
		.disconnect = disconnect,
	};

	return grouptest_main(&layer, argc, argv);
}
