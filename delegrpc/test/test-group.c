/* SPDX-License-Identifier: MIT */
/* Regions for a user or for a group: who may connect, and who may not. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/users.h"
#include "delegrpc.h"

#define GROUP 54321u

static const struct users_who owner = {54001, GROUP}, member = {54002, GROUP},
			      stranger = {54003, 0};
static char name[64], path[128];

/* The group of the region is GROUP, or the server's own one. */
static struct delegrpc_attr attr_of(uint32_t mode, int has_gid)
{
	return (struct delegrpc_attr){.max_clients = 4,
		.req_size = 8,
		.resp_size = 8,
		.mode = mode,
		.gid = has_gid ? GROUP : 0,
		.set = has_gid ? DELEGRPC_SET_GID : 0};
}

static struct delegrpc_server *serve_for(uint32_t mode, int has_gid)
{
	struct delegrpc_attr attr = attr_of(mode, has_gid);
	struct delegrpc_server *s = NULL;

	users_act(&owner);
	CHECK_EQ(delegrpc_server_create(name, &attr, &s), 0);
	return s;
}

/* Connects, expecting that, and makes a call if it gets so far. */
static int try(uint32_t mode, int has_gid, uint32_t gid)
{
	struct delegrpc_attr attr = attr_of(mode, has_gid), got;
	struct delegrpc_client *c = NULL;
	uint64_t word = 7, answer = 0;
	uint32_t len = 0;
	int err;

	attr.gid = has_gid ? gid : 0;
	err = delegrpc_client_connect(name, &attr, &c);
	if (err)
		return err;
	delegrpc_client_get_attr(c, &got);
	CHECK_EQ(got.mode, 0660);
	CHECK_EQ(got.gid, GROUP);
	CHECK_EQ(got.set, DELEGRPC_SET_GID);
	CHECK_EQ(delegrpc_client_call_wait(c, &word, 8, &answer, 8, DELEGRPC_FOREVER, &len), 0);
	CHECK_EQ(len, 8);
	CHECK(answer == 7);
	delegrpc_client_disconnect(c);
	return 0;
}

static void as_owner(void *arg)
{
	CHECK_EQ(try(0, 0, 0), 0);
	CHECK_EQ(try(0660, 0, 0), 0);
	CHECK_EQ(try(0660, 1, GROUP), 0);
	CHECK_EQ(try(0600, 0, 0), -EACCES); /* it is not for the owner alone */
}

static void as_member(void *arg)
{
	struct delegrpc_server *s;

	CHECK_EQ(try(0660, 0, 0), 0);
	CHECK_EQ(try(0660, 1, GROUP), 0);
	/* Another user's region is taken by who expects one. */
	CHECK_EQ(try(0, 0, 0), -EACCES);
	CHECK_EQ(try(0600, 0, 0), -EACCES);
	CHECK_EQ(try(0660, 1, GROUP + 1), -EACCES);
	CHECK_EQ(delegrpc_client_connect(name, NULL, NULL), -EACCES);
	CHECK_EQ(delegrpc_server_create(name, NULL, &s), -EACCES);
}

static void as_stranger(void *arg)
{
	CHECK_EQ(try(0, 0, 0), -EACCES);
	CHECK_EQ(try(0660, 0, 0), -EACCES);
	CHECK_EQ(try(0660, 1, GROUP), -EACCES);
}

/* May open everything, but is no member. */
static void as_root(void *arg)
{
	CHECK_EQ(try(0, 0, 0), -EACCES);
	CHECK_EQ(try(0660, 0, 0), -EACCES);
}

/* Answers what comes until the child has ended. */
static void serve_while(struct delegrpc_server *s, pid_t pid)
{
	while (!users_ended(pid)) {
		struct delegrpc_req r;

		delegrpc_server_wait(s, NSEC_PER_MSEC);
		while (delegrpc_server_recv(s, &r))
			CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, r.payload, r.len), 0);
		delegrpc_server_advance_tail(s);
		delegrpc_server_flush(s);
	}
}

static void members_connect_and_others_do_not(void)
{
	struct delegrpc_server *s = serve_for(0660, 1);
	struct stat st;

	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0660);
	CHECK_EQ(st.st_uid, owner.uid);
	CHECK_EQ(st.st_gid, GROUP);
	serve_while(s, users_spawn(&owner, as_owner, NULL));
	serve_while(s, users_spawn(&member, as_member, NULL));
	serve_while(s, users_spawn(&stranger, as_stranger, NULL));
	serve_while(s, users_spawn(&users_root, as_root, NULL));
	delegrpc_server_destroy(s);
	users_act(&users_root);
}

static void as_member_of_none(void *arg)
{
	CHECK_EQ(try(0, 0, 0), -EACCES);
	CHECK_EQ(try(0660, 0, 0), -EACCES);
}

/* Without a gid the group is the server's own one; without a mode there is none. */
static void defaults(void)
{
	for (int i = 0; i < 2; i++) {
		mode_t mask = umask(i ? 077 : 0);
		struct delegrpc_server *s = serve_for(i ? 0660 : 0, 0);
		struct delegrpc_attr got;
		struct stat st;

		umask(mask);
		CHECK_EQ(stat(path, &st), 0);
		CHECK_EQ(st.st_mode & 07777, i ? 0660 : 0600);
		delegrpc_server_get_attr(s, &got);
		CHECK_EQ(got.mode, i ? 0660 : 0600);
		CHECK_EQ(got.gid, owner.uid);
		serve_while(s, users_spawn(&member, as_member_of_none, NULL));
		delegrpc_server_destroy(s);
	}
	users_act(&users_root);
}

static void as_stranger_to_owner(void *arg)
{
	struct delegrpc_server *s = NULL;

	CHECK_EQ(try(0, 0, 0), -EACCES);
	CHECK_EQ(delegrpc_server_create(name, NULL, &s), -EACCES);
	CHECK(open(path, O_RDONLY) < 0 && errno == EACCES);
	CHECK(unlink(path) != 0);
}

static void other_users_cannot_connect(void)
{
	struct delegrpc_server *s = serve_for(0, 0);
	struct stat st;

	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	serve_while(s, users_spawn(&stranger, as_stranger_to_owner, NULL));
	delegrpc_server_destroy(s);
	users_act(&users_root);
}

/* Another user was first with the name. Neither side uses the file, whatever its mode. */
static void names_taken_by_others_are_refused(void)
{
	static const mode_t modes[] = {0600, 0660, 0666};

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct delegrpc_server *s = NULL;
		int fd;

		users_act(&stranger);
		fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
		CHECK(fd >= 0);
		CHECK_EQ(fchmod(fd, modes[i]), 0);
		CHECK_EQ(ftruncate(fd, 1 << 20), 0);
		close(fd);
		users_act(&users_root);
		CHECK_EQ(delegrpc_server_create(name, NULL, &s), -EACCES);
		CHECK_EQ(try(0, 0, 0), -EACCES);
		CHECK_EQ(unlink(path), 0);
	}
}

static void create_is_refused(uint32_t mode, uint32_t set, uint32_t gid, int err)
{
	struct delegrpc_attr attr = {.mode = mode, .gid = gid, .set = set};
	struct delegrpc_server *s = NULL;
	struct delegrpc_client *c = NULL;

	CHECK_EQ(delegrpc_server_create(name, &attr, &s), err);
	CHECK(access(path, F_OK) != 0); /* nothing is left */
	if (err == -EINVAL)
		CHECK_EQ(delegrpc_client_connect(name, &attr, &c), err);
}

static void other_access_is_refused(void)
{
	static const uint32_t modes[] = {1, 0400, 0606, 0620, 0640, 0644, 0661, 0666, 0700, 02660};

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		create_is_refused(modes[i], 0, 0, -EINVAL);
	create_is_refused(0, DELEGRPC_SET_GID, GROUP, -EINVAL);
	create_is_refused(0600, DELEGRPC_SET_GID, GROUP, -EINVAL);
	create_is_refused(0660, 2, GROUP, -EINVAL);
	users_act(&stranger);
	create_is_refused(0660, DELEGRPC_SET_GID, GROUP, -EPERM);
	users_act(&users_root);
}

/* What a dead server left for a group is replaced by the next one of its user. */
static void remains_are_replaced(void)
{
	struct delegrpc_server *s;
	int fd;

	users_act(&owner);
	fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(fchmod(fd, 0660), 0);
	close(fd);
	s = serve_for(0, 0);
	delegrpc_server_destroy(s);
	users_act(&users_root);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(members_connect_and_others_do_not),
		TEST(defaults),
		TEST(other_users_cannot_connect),
		TEST(names_taken_by_others_are_refused),
		TEST(other_access_is_refused),
		TEST(remains_are_replaced),
	};
	int skip = users_begin(argv);

	snprintf(name, sizeof(name), "group.%d", (int)getpid());
	snprintf(path, sizeof(path), "/dev/shm/delegrpc.%s", name);
	return skip ? skip : test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
