/* SPDX-License-Identifier: MIT */
/* Invalid commands to /dev/infiniband/rdma_cm are refused, and change nothing. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tmpdir.h"
#include "raw.h"

#define COMMANDS 23u /* RDMA_USER_CM_CMD_JOIN_MCAST is the last one */
#define GUARD_MS 60000
#define FULL 256u /* events that the smallest FIFO holds */
#define FULL_IDS (2 * FULL + 44)
#define KEPT 8 /* events of an id that the HCA keeps while the channel has no room */

static int ch;
static void *wrong; /* an address that cannot be accessed */

TEST(device)
{
	char text[8] = "";
	struct stat st;
	int fd;

	CHECK(!stat("/dev/infiniband/rdma_cm", &st));
	CHECK(S_ISCHR(st.st_mode));
	CHECK(!fstat(ch, &st));
	CHECK(S_ISCHR(st.st_mode));
	fd = open("/sys/class/misc/rdma_cm/abi_version", O_RDONLY);
	CHECK_EQ(read(fd, text, sizeof(text)), 2);
	CHECK_STR(text, "4\n");
	close(fd);
}

TEST(headers)
{
	struct rdma_ucm_cmd_hdr h = {.cmd = RDMA_USER_CM_CMD_LISTEN,
		.in = sizeof(struct rdma_ucm_listen)};
	struct rdma_ucm_listen in = {.id = raw_id(ch, 1, RDMA_PS_TCP)};

	CHECK(write(ch, &h, sizeof(h) - 1) < 0);
	CHECK_EQ(errno, EINVAL);
	CHECK(write(ch, &h, 0) < 0);
	CHECK_EQ(errno, EINVAL);
	CHECK(write(ch, wrong, sizeof(h) + sizeof(in)) < 0);
	CHECK_EQ(errno, EFAULT);
	/* The header's length is more than what is written. */
	CHECK_EQ(raw_write(ch, h, &in, sizeof(in) - 1), -EINVAL);
	h.in = UINT16_MAX;
	CHECK_EQ(raw_write(ch, h, &in, sizeof(in)), -EINVAL);
	h.in = sizeof(in);
	CHECK_EQ(raw_write(ch, h, &in, sizeof(in)), 0);
	h.cmd = COMMANDS;
	CHECK_EQ(raw_write(ch, h, &in, sizeof(in)), -EINVAL);
	h.cmd = UINT32_MAX;
	CHECK_EQ(raw_write(ch, h, &in, sizeof(in)), -EINVAL);
	h.cmd = RDMA_USER_CM_CMD_GET_OPTION;
	CHECK_EQ(raw_write(ch, h, &in, sizeof(in)), -ENOSYS);
	CHECK_EQ(raw_destroy(ch, in.id), 0);
}

/* The shortest input of each supported command, and the shortest buffer for its answer. */
static const struct lengths {
	uint32_t cmd;
	uint16_t in, out;
} lengths[] = {
	{RDMA_USER_CM_CMD_CREATE_ID, sizeof(struct rdma_ucm_create_id), 4},
	{RDMA_USER_CM_CMD_DESTROY_ID, sizeof(struct rdma_ucm_destroy_id), 4},
	{RDMA_USER_CM_CMD_BIND_IP, sizeof(struct rdma_ucm_bind_ip), 0},
	{RDMA_USER_CM_CMD_RESOLVE_IP, sizeof(struct rdma_ucm_resolve_ip), 0},
	{RDMA_USER_CM_CMD_RESOLVE_ROUTE, sizeof(struct rdma_ucm_resolve_route), 0},
	{RDMA_USER_CM_CMD_QUERY_ROUTE, sizeof(struct rdma_ucm_query),
		offsetof(struct rdma_ucm_query_route_resp, ibdev_index)},
	{RDMA_USER_CM_CMD_CONNECT, offsetof(struct rdma_ucm_connect, ece), 0},
	{RDMA_USER_CM_CMD_LISTEN, sizeof(struct rdma_ucm_listen), 0},
	{RDMA_USER_CM_CMD_ACCEPT, offsetof(struct rdma_ucm_accept, ece), 0},
	{RDMA_USER_CM_CMD_REJECT, sizeof(struct rdma_ucm_reject), 0},
	{RDMA_USER_CM_CMD_DISCONNECT, sizeof(struct rdma_ucm_disconnect), 0},
	{RDMA_USER_CM_CMD_INIT_QP_ATTR, sizeof(struct rdma_ucm_init_qp_attr),
		sizeof(struct ib_uverbs_qp_attr)},
	{RDMA_USER_CM_CMD_GET_EVENT, sizeof(struct rdma_ucm_get_event),
		offsetof(struct rdma_ucm_event_resp, reserved)},
	{RDMA_USER_CM_CMD_SET_OPTION, sizeof(struct rdma_ucm_set_option), 0},
	{RDMA_USER_CM_CMD_NOTIFY, sizeof(struct rdma_ucm_notify), 0},
	{RDMA_USER_CM_CMD_MIGRATE_ID, sizeof(struct rdma_ucm_migrate_id), 4},
	{RDMA_USER_CM_CMD_QUERY, sizeof(struct rdma_ucm_query),
		sizeof(struct rdma_ucm_query_path_resp)},
	{RDMA_USER_CM_CMD_BIND, sizeof(struct rdma_ucm_bind), 0},
	{RDMA_USER_CM_CMD_RESOLVE_ADDR, sizeof(struct rdma_ucm_resolve_addr), 0},
};

/*
 * A command that is one byte too short is refused, and so is a command whose buffer for the answer
 * is one byte too short.
 */
TEST(short_ones)
{
	static const char zeros[1024];

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		const struct lengths *l = &lengths[i];

		CHECK_EQ(raw_command(ch, l->cmd, zeros, l->in - 1u, 1000), -EINVAL);
		if (l->out)
			CHECK_EQ(raw_command(ch, l->cmd, zeros, l->in, l->out - 1u), -ENOSPC);
	}
}

/* Bytes after the structure of this ABI, which a newer ABI may have, are ignored. */
TEST(long_one)
{
	struct {
		struct rdma_ucm_listen in;
		char more[700];
	} in = {.in = {.id = raw_id(ch, 1, RDMA_PS_TCP)}};

	memset(in.more, 0xff, sizeof(in.more));
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_LISTEN, &in, sizeof(in), 0), 0);
	CHECK_EQ(raw_destroy(ch, in.in.id), 0);
}

/* Ids that do not exist, were destroyed, or belong to another channel or process. */
TEST(ids)
{
	static const uint32_t none[] = {0, 100, 8191, 8192, 65536, UINT32_MAX};
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id create = {.response = (uintptr_t)&resp, .ps = RDMA_PS_TCP};
	int other = raw_open(0);
	uint32_t id = raw_id(ch, 1, RDMA_PS_TCP);

	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		CHECK_EQ(raw_listen(ch, none[i], 1), -ENOENT);
	CHECK_EQ(raw_listen(other, id, 1), -EINVAL);
	CHECK_EQ(raw_destroy(other, id), -EINVAL);
	if (test_in_child()) {
		int mine = raw_open(0);

		CHECK_EQ(raw_destroy(mine, id), -ENOENT);
		/* The parent's descriptor is not a channel of this process. */
		CHECK(write(ch, &id, sizeof(id)) < 0);
		CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create), 4),
			-EINVAL);
		exit(0);
	}
	CHECK_EQ(raw_destroy(ch, id), 0);
	CHECK_EQ(raw_destroy(ch, id), -ENOENT);
	close(other);
}

/*
 * If an answer cannot be written to its address, no id remains that the program does not know.
 */
TEST(addresses_of_answers)
{
	struct rdma_ucm_create_id create = {.response = (uintptr_t)wrong, .ps = RDMA_PS_TCP};
	struct rdma_ucm_query query = {.response = (uintptr_t)wrong};
	struct rdma_ucm_set_option option = {.optval = (uintptr_t)wrong, .optlen = 4};
	uint32_t id = raw_id(ch, 1, RDMA_PS_TCP), next;

	query.id = id;
	option.id = id;
	option.optname = RDMA_OPTION_ID_REUSEADDR;
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create), 4), -EFAULT);
	next = raw_id(ch, 2, RDMA_PS_TCP);
	CHECK_EQ(next, id + 1);
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_QUERY, &query, sizeof(query), 1000), -EFAULT);
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_SET_OPTION, &option, sizeof(option), 0), -EFAULT);
	CHECK_EQ(raw_destroy(ch, next), 0);
	CHECK_EQ(raw_destroy(ch, id), 0);
}

/* An answer is never longer than the program's buffer. */
TEST(room_for_answers)
{
	struct rdma_ucm_query_addr_resp resp;
	struct rdma_ucm_query in = {.response = (uintptr_t)&resp,
		.id = raw_id(ch, 1, RDMA_PS_TCP),
		.option = RDMA_USER_CM_QUERY_ADDR};
	size_t old = offsetof(struct rdma_ucm_query_addr_resp, ibdev_index);

	memset(&resp, 0xaa, sizeof(resp));
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_QUERY, &in, sizeof(in), old - 1), -ENOSPC);
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_QUERY, &in, sizeof(in), old), 0);
	CHECK_EQ(resp.node_guid, 0);
	CHECK_EQ(resp.ibdev_index, 0xaaaaaaaa);
	in.option = 3;
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_QUERY, &in, sizeof(in), 1000), -ENOSYS);
	CHECK_EQ(raw_destroy(ch, in.id), 0);
}

/* 127.0.0.1 has no netdev here. The second adapter, which has none either, is not chosen. */
TEST(loopback_address_is_of_the_first_adapter)
{
	struct rdma_ucm_query_addr_resp ends = {.ibdev_index = UINT32_MAX};
	uint32_t id = raw_id(ch, 1, RDMA_PS_TCP);

	CHECK_EQ(raw_bind(ch, id, LOOP, 0), 0);
	CHECK_EQ(raw_query_addr(ch, id, &ends), 0);
	CHECK_EQ(ends.ibdev_index, 0);
	CHECK_EQ(raw_destroy(ch, id), 0);
}

TEST(socket_addresses)
{
	static const uint16_t sizes[] = {sizeof(struct sockaddr_in) - 1, 1, UINT16_MAX};
	struct rdma_ucm_bind bind = {.id = raw_id(ch, 1, RDMA_PS_TCP)};
	struct rdma_ucm_resolve_addr to = {.id = bind.id};
	struct sockaddr_in sa = raw_addr(LOOP, 7000);

	memcpy(&bind.addr, &sa, sizeof(sa));
	memcpy(&to.dst_addr, &sa, sizeof(sa));
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		bind.addr_size = sizes[i];
		CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0), -EINVAL);
	}
	bind.addr_size = sizeof(sa);
	bind.reserved = 1;
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0), -EINVAL);
	to.dst_size = UINT16_MAX;
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_RESOLVE_ADDR, &to, sizeof(to), 0), -EINVAL);
	to.dst_size = sizeof(sa);
	to.src_size = UINT16_MAX;
	to.src_addr.ss_family = AF_INET;
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_RESOLVE_ADDR, &to, sizeof(to), 0), -EINVAL);
	bind.reserved = 0;
	bind.addr.ss_family = AF_UNIX;
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0), -EAFNOSUPPORT);
	CHECK_EQ(raw_bind(ch, bind.id, "192.0.2.77", 7000), -EADDRNOTAVAIL);
	CHECK_EQ(raw_resolve(ch, bind.id, "0.0.0.0", 7000), -EINVAL);
	CHECK_EQ(raw_bind(ch, bind.id, LOOP, 7000), 0);
	CHECK_EQ(raw_bind(ch, bind.id, LOOP, 7001), -EINVAL);
	CHECK_EQ(raw_destroy(ch, bind.id), 0);
}

static int set_option(uint32_t id, uint32_t level, uint32_t name, uint32_t len)
{
	static const uint8_t value[4096] = {32};
	struct rdma_ucm_set_option in = {.optval = (uintptr_t)value,
		.id = id,
		.level = level,
		.optname = name,
		.optlen = len};

	return raw_command(ch, RDMA_USER_CM_CMD_SET_OPTION, &in, sizeof(in), 0);
}

TEST(options)
{
	uint32_t id = raw_id(ch, 1, RDMA_PS_TCP);

	CHECK_EQ(set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1), 0);
	CHECK_EQ(set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 0), -EINVAL);
	CHECK_EQ(set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4), -EINVAL);
	CHECK_EQ(set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4), 0);
	CHECK_EQ(set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), -EINVAL);
	CHECK_EQ(set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 8), -EINVAL);
	CHECK_EQ(set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4096), -EINVAL);
	CHECK_EQ(set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, UINT32_MAX), -EINVAL);
	CHECK_EQ(set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4), 0);
	CHECK_EQ(set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1), -EINVAL);
	CHECK_EQ(set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1), -EINVAL); /* 32 */
	CHECK_EQ(set_option(id, RDMA_OPTION_ID, 17, 4), -ENOSYS);
	CHECK_EQ(set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 4), -ENOSYS);
	CHECK_EQ(raw_destroy(ch, id), 0);
}

/* A refused command leaves the option as it was. */
TEST(refused_option)
{
	uint32_t first = raw_id(ch, 1, RDMA_PS_TCP), second = raw_id(ch, 2, RDMA_PS_TCP);

	CHECK_EQ(set_option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4), 0);
	CHECK_EQ(set_option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), -EINVAL);
	CHECK_EQ(set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4), 0);
	CHECK_EQ(raw_bind(ch, first, LOOP, 7001), 0);
	CHECK_EQ(raw_bind(ch, second, LOOP, 7001), 0);
	CHECK_EQ(raw_destroy(ch, first), 0);
	CHECK_EQ(raw_destroy(ch, second), 0);
}

/* Moves an id to another channel. */
static int move_id(int from, uint32_t id, int to)
{
	struct rdma_ucm_migrate_resp resp;
	struct rdma_ucm_migrate_id in = {.response = (uintptr_t)&resp,
		.id = id,
		.fd = (uint32_t)from};

	return raw_command(to, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof(in), 4);
}

/* A request that was sent before the listening id migrated arrives at the new channel. */
static void migrate_asked(void)
{
	struct rdma_ucm_conn_param p = raw_param(1, NULL);
	int to = raw_open(0), from = raw_open(0);
	uint32_t id;
	uint16_t port = raw_listener(ch, 1, LOOP, 0, &id);
	uint32_t client = raw_ready(from, 2, RDMA_PS_TCP, NULL, LOOP, port);

	CHECK_EQ(raw_connect(from, client, &p), 0);
	CHECK_EQ(move_id(ch, id, to), 0);
	raw_expect(to, CONNECT_REQUEST, 1);
	close(from);
	close(to);
}

TEST(migrate)
{
	struct rdma_ucm_migrate_resp resp;
	struct rdma_ucm_migrate_id in = {.response = (uintptr_t)&resp,
		.id = raw_id(ch, 1, RDMA_PS_TCP)};
	int to = raw_open(O_NONBLOCK), none = open("/dev/null", O_RDONLY), device[2];
	struct rdma_ucm_event_resp e;
	static const int wrong_fds[] = {-1, 0, 65536, INT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(wrong_fds); i++) {
		in.fd = (uint32_t)wrong_fds[i];
		CHECK_EQ(raw_command(to, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof(in), 4), -EINVAL);
	}
	in.fd = (uint32_t)none;
	CHECK_EQ(raw_command(to, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof(in), 4), -EINVAL);
	/* Devices are not event channels, even if a device has the same number as a FIFO. */
	for (int i = 0; i < 2; i++) {
		device[i] = open("/dev/infiniband/uverbs0", O_RDWR);
		in.fd = (uint32_t)device[i];
		CHECK(device[i] >= 0);
		CHECK_EQ(raw_command(to, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof(in), 4), -EINVAL);
	}
	close(device[0]);
	close(device[1]);
	in.fd = (uint32_t)to;
	CHECK_EQ(raw_command(to, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof(in), 4), -EINVAL);
	/* The unread event of the id migrates, too; the event of another id does not. */
	CHECK_EQ(raw_resolve(ch, in.id, LOOP, 7), 0);
	CHECK_EQ(raw_resolve(ch, raw_id(ch, 2, RDMA_PS_TCP), LOOP, 7), 0);
	in.fd = (uint32_t)ch;
	CHECK_EQ(raw_command(to, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof(in), 4), 0);
	CHECK_EQ(resp.events_reported, 0);
	raw_expect(to, ADDR_RESOLVED, 1);
	CHECK_EQ(raw_event(to, &e), -EAGAIN);
	e = raw_expect(ch, ADDR_RESOLVED, 2);
	CHECK_EQ(raw_destroy(ch, e.id), 1);
	CHECK_EQ(raw_destroy(ch, in.id), -EINVAL);
	CHECK_EQ(raw_destroy(to, in.id), 1);
	close(to);
	close(none);
	migrate_asked();
}

/* Takes the event ADDR_RESOLVED of @n ids, which arrives within @ms. Their uids are 1 to @n. */
static void take_resolved(int fd, uint32_t n, int ms)
{
	bool seen[FULL_IDS + 1] = {false};

	for (uint32_t i = 0; i < n; i++) {
		struct rdma_ucm_event_resp e;

		CHECK(raw_readable(fd, ms));
		CHECK_EQ(raw_event(fd, &e), 0);
		CHECK_EQ(e.event, ADDR_RESOLVED);
		CHECK(e.uid && e.uid <= n && !seen[e.uid]);
		seen[e.uid] = true;
	}
	CHECK(!raw_readable(fd, 0));
}

/* Opens a channel with room for FULL events, and resolves more ids than that. */
static int open_full(uint32_t ids[FULL_IDS])
{
	int fd = raw_open(0);

	CHECK_EQ(fcntl(fd, F_SETPIPE_SZ, FULL * 16), FULL * 16);
	for (uint32_t i = 0; i < FULL_IDS; i++) {
		ids[i] = raw_id(fd, i + 1, RDMA_PS_TCP);
		CHECK_EQ(raw_resolve(fd, ids[i], LOOP, 7), 0);
	}
	return fd;
}

/* A program that has not read its events for long gets all of them. */
TEST(full_channel)
{
	uint32_t ids[FULL_IDS];
	int fd = open_full(ids);

	take_resolved(fd, FULL_IDS, 0);
	close(fd);
}

/* The events in the channel are those of ids that are destroyed. */
TEST(full_channel_of_destroyed_ids)
{
	uint32_t ids[FULL_IDS];
	struct rdma_ucm_event_resp e;
	int fd = open_full(ids);

	for (uint32_t i = 0; i < FULL; i++)
		CHECK_EQ(raw_destroy(fd, ids[i]), 0);
	for (uint32_t i = FULL; i < FULL_IDS; i++) {
		CHECK(raw_readable(fd, 0));
		CHECK_EQ(raw_event(fd, &e), 0);
		CHECK_EQ(e.uid, i + 1);
	}
	CHECK(!raw_readable(fd, 0));
	close(fd);
}

/* An id whose event has no room in its channel migrates. */
TEST(full_channel_migrates)
{
	uint32_t ids[FULL_IDS];
	int to = raw_open(0), fd = open_full(ids);

	CHECK_EQ(move_id(fd, ids[FULL_IDS - 1], to), 0);
	CHECK(raw_readable(to, 0));
	raw_expect(to, ADDR_RESOLVED, FULL_IDS);
	take_resolved(fd, FULL_IDS - 1, 0);
	close(fd);
	close(to);
}

/* The id whose events fill a channel migrates: they make room for the event of another id. */
TEST(full_channel_is_left)
{
	uint64_t record[2] = {0, ADDR_RESOLVED};
	int to = raw_open(0), fd = raw_open(0);
	uint32_t id = raw_id(fd, 1, RDMA_PS_TCP);

	record[0] = id;
	CHECK_EQ(fcntl(fd, F_SETPIPE_SZ, FULL * 16), FULL * 16);
	for (uint32_t i = 0; i < FULL; i++)
		CHECK_EQ(syscall(SYS_write, fd, record, sizeof(record)), sizeof(record));
	CHECK_EQ(raw_resolve(fd, raw_id(fd, 2, RDMA_PS_TCP), LOOP, 7), 0);
	CHECK_EQ(move_id(fd, id, to), 0);
	CHECK(raw_readable(fd, 0));
	raw_expect(fd, ADDR_RESOLVED, 2);
	raw_expect(to, ADDR_RESOLVED, 1);
	close(fd);
	close(to);
}

/*
 * The channel becomes empty without a command that fills it up again, as if a thread that has read
 * the last event was stopped and lost the mutex.
 */
TEST(full_channel_is_emptied)
{
	uint32_t ids[FULL_IDS];
	char events[FULL * 16];
	struct rdma_ucm_event_resp e;
	int fd = open_full(ids);

	CHECK_EQ(syscall(SYS_read, fd, events, sizeof(events)), sizeof(events));
	CHECK(!fcntl(fd, F_SETFL, O_NONBLOCK));
	for (uint32_t i = FULL; i < FULL_IDS; i++) {
		CHECK_EQ(raw_event(fd, &e), 0);
		CHECK_EQ(e.uid, i + 1);
	}
	close(fd);
}

/* Lets this process open files, or not. */
static void may_open(bool may)
{
	static struct rlimit before;
	struct rlimit limit;

	if (!may)
		CHECK(!getrlimit(RLIMIT_NOFILE, &before));
	limit = before;
	if (!may)
		limit.rlim_cur = 0;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

/* Memory for further ids cannot be allocated without a descriptor. */
TEST(created_without_descriptor)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id in = {.response = (uintptr_t)&resp, .ps = RDMA_PS_TCP};
	int fd = raw_open(0), r;

	may_open(false);
	do
		r = raw_command(fd, RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof(in), sizeof(resp));
	while (!r);
	may_open(true);
	CHECK_EQ(r, -EMFILE);
	raw_id(fd, 1, RDMA_PS_TCP);
	close(fd);
}

/* An event is not lost because the process has no descriptor left at that moment. */
TEST(no_descriptor_left)
{
	uint32_t id = raw_id(ch, 1, RDMA_PS_TCP);

	CHECK_EQ(raw_resolve(ch, id, LOOP, 7), 0);
	raw_expect(ch, ADDR_RESOLVED, 1);
	may_open(false);
	CHECK_EQ(raw_route(ch, id), 0);
	may_open(true);
	CHECK(raw_readable(ch, GUARD_MS));
	raw_expect(ch, ROUTE_RESOLVED, 1);
	CHECK_EQ(raw_destroy(ch, id), 2);
}

/* An id with unread events migrates to a channel that has no room for them. */
TEST(migrates_to_full_channel)
{
	uint32_t ids[FULL_IDS];
	uint32_t id = raw_id(ch, FULL_IDS + 1, RDMA_PS_TCP), seen = 0;
	struct rdma_ucm_event_resp e;
	int to = open_full(ids);

	CHECK_EQ(raw_resolve(ch, id, LOOP, 7), 0);
	CHECK_EQ(raw_route(ch, id), 0);
	CHECK_EQ(move_id(ch, id, to), 0);
	for (uint32_t i = 0; i < FULL_IDS + 2; i++) {
		CHECK(raw_readable(to, 0));
		CHECK_EQ(raw_event(to, &e), 0);
		if (e.uid == FULL_IDS + 1)
			CHECK_EQ(e.event, seen++ ? ROUTE_RESOLVED : ADDR_RESOLVED);
	}
	CHECK_EQ(seen, 2);
	CHECK(!raw_readable(to, 0) && !raw_readable(ch, 0));
	close(to);
}

/* Empties the channel, and lets the HCA find it empty when it has no descriptor. */
static void find_empty_without_descriptor(int fd)
{
	struct rdma_ucm_event_resp e;
	char events[FULL * 16];

	CHECK_EQ(syscall(SYS_read, fd, events, sizeof(events)), sizeof(events));
	may_open(false);
	CHECK_EQ(raw_event(fd, &e), -EAGAIN);
}

/*
 * Two ids have an event that waits for room. When there is room, the process has no descriptor, and
 * then the first id is destroyed.
 */
TEST(full_channel_without_descriptor)
{
	uint32_t ids[FULL_IDS];
	struct rdma_ucm_event_resp e;
	int fd = open_full(ids);

	CHECK(!fcntl(fd, F_SETFL, O_NONBLOCK));
	find_empty_without_descriptor(fd);
	may_open(true);
	CHECK_EQ(raw_destroy(fd, ids[FULL]), 0);
	for (uint32_t i = FULL + 1; i < FULL_IDS; i++) {
		CHECK(raw_readable(fd, GUARD_MS));
		CHECK_EQ(raw_event(fd, &e), 0);
		CHECK_EQ(e.event, ADDR_RESOLVED);
	}
	close(fd);
}

/* Fills the channel of @fd with records that are no events of an id. */
static void fill(int fd)
{
	const uint64_t record[2] = {0};

	CHECK_EQ(fcntl(fd, F_SETPIPE_SZ, FULL * 16), FULL * 16);
	for (uint32_t i = 0; i < FULL; i++)
		CHECK_EQ(syscall(SYS_write, fd, record, sizeof(record)), sizeof(record));
}

/* An id has two events that wait for room, and only the first is tried again by itself. */
TEST(two_events_wait_for_room)
{
	int fd = raw_open(O_NONBLOCK);
	uint32_t id = raw_id(fd, 1, RDMA_PS_TCP);

	fill(fd);
	CHECK_EQ(raw_resolve(fd, id, LOOP, 7), 0);
	CHECK_EQ(raw_route(fd, id), 0);
	find_empty_without_descriptor(fd);
	may_open(true);
	CHECK(raw_readable(fd, GUARD_MS));
	raw_expect(fd, ADDR_RESOLVED, 1);
	CHECK(raw_readable(fd, GUARD_MS));
	raw_expect(fd, ROUTE_RESOLVED, 1);
	close(fd);
}

/* An id with more events than the HCA keeps loses the oldest one, but not the others. */
TEST(events_after_a_lost_one)
{
	int fd = raw_open(O_NONBLOCK);
	uint32_t id = raw_id(fd, 1, RDMA_PS_TCP);

	fill(fd);
	for (int i = 0; i < KEPT; i++)
		CHECK_EQ(raw_resolve(fd, id, "192.0.2.77", 7), 0);
	find_empty_without_descriptor(fd);
	CHECK_EQ(raw_resolve(fd, id, "192.0.2.77", 7), 0);
	may_open(true);
	for (int i = 0; i < KEPT; i++) {
		CHECK(raw_readable(fd, GUARD_MS));
		raw_expect(fd, ADDR_ERROR, 1);
	}
	close(fd);
}

/*
 * A process without a descriptor destroys an id. The next id with this number does not get the
 * events, and another id of the channel keeps its own.
 */
TEST(destroyed_without_descriptor)
{
	int fd = raw_open(0); /* a read of an empty channel would wait for ever */
	uint32_t id = raw_id(fd, 1, RDMA_PS_TCP), other = raw_id(fd, 2, RDMA_PS_TCP), next;

	CHECK_EQ(raw_resolve(fd, other, LOOP, 7), 0);
	CHECK_EQ(raw_resolve(fd, id, LOOP, 7), 0);
	may_open(false);
	CHECK_EQ(raw_destroy(fd, id), 0);
	next = raw_id(fd, 3, RDMA_PS_TCP);
	CHECK_EQ(next, id);
	raw_expect(fd, ADDR_RESOLVED, 2);
	CHECK(!raw_readable(fd, 0));
	CHECK_EQ(raw_destroy(fd, next), 0);
	CHECK_EQ(raw_destroy(fd, other), 1);
	may_open(true);
	close(fd);
}

/* The unread event of an id that migrates is posted when there is a descriptor. */
TEST(migrates_without_descriptor)
{
	int to = raw_open(0), fd = raw_open(0);
	uint32_t id = raw_id(fd, 1, RDMA_PS_TCP);

	CHECK_EQ(raw_resolve(fd, id, LOOP, 7), 0);
	may_open(false);
	CHECK_EQ(move_id(fd, id, to), 0);
	CHECK(!raw_readable(fd, 0));
	may_open(true);
	CHECK(raw_readable(to, GUARD_MS));
	raw_expect(to, ADDR_RESOLVED, 1);
	close(fd);
	close(to);
}

/* Commands in a state of the id in which they are not permitted. */
TEST(states)
{
	struct rdma_ucm_conn_param p = raw_param(1, NULL);
	struct ib_uverbs_qp_attr a;
	struct rdma_ucm_notify notify = {.event = 4};
	uint32_t id = raw_id(ch, 1, RDMA_PS_TCP);

	notify.id = id;
	CHECK_EQ(raw_route(ch, id), -EINVAL);
	CHECK_EQ(raw_connect(ch, id, &p), -EINVAL);
	CHECK_EQ(raw_accept(ch, id, 1, &p), -EINVAL);
	CHECK_EQ(raw_accept(ch, id, 1, NULL), -EINVAL);
	CHECK_EQ(raw_reject(ch, id, "", 0, 0), -EINVAL);
	CHECK_EQ(raw_disconnect(ch, id), -EINVAL);
	CHECK_EQ(raw_qp_attr(ch, id, 1, &a), -EINVAL);
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_NOTIFY, &notify, sizeof(notify), 0), -EINVAL);
	CHECK_EQ(raw_destroy(ch, id), 0);
	id = raw_ready(ch, 1, RDMA_PS_TCP, NULL, LOOP, 7);
	CHECK_EQ(raw_resolve(ch, id, LOOP, 7), -EINVAL);
	CHECK_EQ(raw_listen(ch, id, 1), -EINVAL);
	CHECK_EQ(raw_qp_attr(ch, id, 1, &a), 0);
	CHECK_EQ(raw_qp_attr(ch, id, 2, &a), -EINVAL);
	p.valid = 0;
	CHECK_EQ(raw_connect(ch, id, &p), -EINVAL);
	p.valid = 1;
	p.private_data_len = 57;
	CHECK_EQ(raw_connect(ch, id, &p), -EINVAL);
	p.private_data_len = 255;
	CHECK_EQ(raw_connect(ch, id, &p), -EINVAL);
	CHECK_EQ(raw_destroy(ch, id), 2);
}

/*
 * AF_IB addresses are refused, except the wildcard, with which librdmacm tests whether the kernel
 * supports the family.
 */
TEST(af_ib)
{
	struct rdma_ucm_bind bind = {.id = raw_id(ch, 1, RDMA_PS_IB), .addr_size = 48};
	char gid[16] = {1};

	bind.addr.ss_family = 27;
	memcpy((char *)&bind.addr + 8, gid, sizeof(gid));
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0), -EAFNOSUPPORT);
	memset((char *)&bind.addr + 8, 0, sizeof(gid));
	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0), 0);
	CHECK_EQ(raw_destroy(ch, bind.id), 0);
}

/* Bytes that a program writes into the channel's FIFO by a system call are not events. */
TEST(forged_events)
{
	static const uint64_t forged[] = {0, 8191, 8192, UINT32_MAX, UINT64_MAX};
	uint64_t record[2] = {0, 4}; /* a request */
	struct rdma_ucm_event_resp e;
	int fd = raw_open(O_NONBLOCK);
	uint32_t id = raw_id(fd, 1, RDMA_PS_TCP), mine = raw_id(ch, 1, RDMA_PS_TCP);

	for (size_t i = 0; i < ARRAY_SIZE(forged); i++) {
		record[0] = forged[i];
		CHECK_EQ(syscall(SYS_write, fd, record, sizeof(record)), sizeof(record));
		CHECK_EQ(raw_event(fd, &e), -EAGAIN);
	}
	record[0] = id; /* without a request */
	CHECK_EQ(syscall(SYS_write, fd, record, sizeof(record)), sizeof(record));
	CHECK_EQ(raw_event(fd, &e), -EAGAIN);
	record[0] = mine; /* of another channel */
	record[1] = 9;
	CHECK_EQ(syscall(SYS_write, fd, record, sizeof(record)), sizeof(record));
	CHECK_EQ(raw_event(fd, &e), -EAGAIN);
	CHECK_EQ(raw_destroy(ch, mine), 0);
	close(fd);
}

/*
 * These replace libc's poll() and pause(), which the HCA calls to wait for an event. When @armed is
 * a channel, poll() does what another thread may do at this moment: it closes the channel, and
 * opens a readable file with the same number.
 */
static int armed = -1, pauses;

int poll(struct pollfd *p, nfds_t n, int ms)
{
	const char record[64] = "of another file";
	struct timespec t = {ms / 1000, ms % 1000 * 1000000l};
	int pipes[2];

	if (armed >= 0) {
		CHECK(!close(armed));
		CHECK(!pipe(pipes));
		CHECK_EQ(pipes[0], armed);
		CHECK_EQ(write(pipes[1], record, sizeof(record)), sizeof(record));
		close(pipes[1]);
		armed = -1;
	}
	return (int)syscall(SYS_ppoll, p, n, ms < 0 ? NULL : &t, NULL, 0);
}

int pause(void)
{
	pauses++;
	errno = EINTR;
	return -1;
}

/*
 * The channel of a waiting thread is closed. As in the kernel, the thread continues to wait until a
 * signal arrives, and reads nothing from the file that now has the channel's number.
 */
TEST(closed_in_wait)
{
	struct rdma_ucm_event_resp e;
	char text[64] = "";
	int fd = raw_open(0);

	armed = fd;
	CHECK_EQ(raw_event(fd, &e), -EINTR);
	CHECK_EQ(armed, -1);
	CHECK_EQ(pauses, 1);
	CHECK_EQ(read(fd, text, sizeof(text)), sizeof(text));
	CHECK_STR(text, "of another file");
	close(fd);
}

TEST(port_spaces)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id in = {.response = (uintptr_t)&resp, .ps = 0x0107};

	CHECK_EQ(raw_command(ch, RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof(in), 4), -EINVAL);
}

int main(int argc, char **argv)
{
	test_fabric("ucma");
	tmpdir_topology("link=roce\nlink=ib\n");
	wrong = test_map(4096, PROT_NONE, MAP_PRIVATE);
	ch = raw_open(0);
	CHECK(!test_main(argc, argv));
	CHECK(!raw_readable(ch, 0));
	close(ch);
	return 0;
}
