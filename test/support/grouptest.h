/* SPDX-License-Identifier: MIT */
/*
 * Test cases for layers whose shared-memory regions have a mode and a group: which users may
 * connect to a region for one user, and to a region for a group. A region for a group has a second
 * file, the guard (base/shm.h), which shows to processes of the same user whether the server lives.
 * Only one file of a program may include this header, because it defines main().
 */
#ifndef SUPPORT_GROUPTEST_H
#define SUPPORT_GROUPTEST_H

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

#include "support/rpcecho.h"
#include "support/users.h"

#define GROUPTEST_GID 54321u

static const struct users_who grouptest_owner = {54001, GROUPTEST_GID},
			      grouptest_member = {54002, GROUPTEST_GID},
			      grouptest_stranger = {54003, 0};
static char grouptest_path[128], grouptest_guard[128];

/* Makes a call with this word. Returns the word of the response. */
static inline uint64_t grouptest_call(struct rpc_client *c, uint64_t word)
{
	uint64_t answer = 0;
	uint32_t len = 0;

	CHECK_EQ(RPC(client_call_wait)(c, &word, 8, &answer, 8, UINT64_MAX, &len), 0);
	CHECK_EQ(len, 8);
	return answer;
}

/* Returns attributes for four clients and payloads of 8 bytes, with this access. */
static inline struct rpc_attr grouptest_access(uint32_t mode, uint32_t gid, uint32_t set)
{
	return (struct rpc_attr){.max_clients = 4,
		.req_size = 8,
		.resp_size = 8,
		.mode = mode,
		.gid = gid,
		.set = set};
}

/* The attributes have @gid if @has_gid is set, otherwise no gid, which means the server's group. */
static inline struct rpc_attr grouptest_attr_of(uint32_t mode, int has_gid, uint32_t gid)
{
	return grouptest_access(mode, has_gid ? gid : 0, has_gid ? RPC_CONSTANT(SET_GID) : 0);
}

static inline struct rpc_server *grouptest_serve(uint32_t mode, int has_gid)
{
	struct rpc_attr attr = grouptest_attr_of(mode, has_gid, GROUPTEST_GID);

	users_act(&grouptest_owner);
	return server_with(&attr);
}

/* Ends the server, and acts as root again. */
static inline void grouptest_end(struct rpc_server *s)
{
	RPC(server_destroy)(s);
	users_act(&users_root);
}

/* Acts as this user from now on, and makes a file. Returns its descriptor. */
static inline int grouptest_file(const struct users_who *who, const char *path, mode_t mode)
{
	int fd;

	users_act(who);
	fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(fchmod(fd, mode), 0);
	return fd;
}

static inline void grouptest_has_mode(const char *path, mode_t mode)
{
	struct stat st;

	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_mode & 07777, mode);
	CHECK_EQ(st.st_uid, grouptest_owner.uid);
}

/*
 * Connects with these attributes. If that succeeds, makes one call. Returns the result of
 * connecting.
 */
static inline int grouptest_try(uint32_t mode, int has_gid, uint32_t gid)
{
	struct rpc_attr attr = grouptest_attr_of(mode, has_gid, gid), got;
	struct rpc_client *c = NULL;
	int err = RPC(client_connect)(test_name, &attr, &c);

	if (err)
		return err;
	RPC(client_get_attr)(c, &got, sizeof(got));
	CHECK_EQ(got.mode, 0660);
	CHECK_EQ(got.gid, GROUPTEST_GID);
	CHECK_EQ(got.set, RPC_CONSTANT(SET_GID));
	CHECK(grouptest_call(c, 7) == 7);
	RPC(client_disconnect)(c);
	return 0;
}

static inline void grouptest_as_owner(void *arg)
{
	CHECK_EQ(grouptest_try(0, 0, 0), 0);
	CHECK_EQ(grouptest_try(0660, 0, 0), 0);
	CHECK_EQ(grouptest_try(0660, 1, GROUPTEST_GID), 0);
	CHECK_EQ(grouptest_try(0600, 0, 0), -EACCES); /* the region has mode 0660 */
}

static inline void grouptest_as_member(void *arg)
{
	struct rpc_server *s;
	struct rpc_client *c;

	CHECK_EQ(grouptest_try(0660, 0, 0), 0);
	CHECK_EQ(grouptest_try(0660, 1, GROUPTEST_GID), 0);
	/* A client must state that it accepts a region of another user. */
	CHECK_EQ(grouptest_try(0, 0, 0), -EACCES);
	CHECK_EQ(grouptest_try(0600, 0, 0), -EACCES);
	CHECK_EQ(grouptest_try(0660, 1, GROUPTEST_GID + 1), -EACCES);
	CHECK_EQ(RPC(client_connect)(test_name, NULL, &c), -EACCES);
	CHECK_EQ(RPC(server_create)(test_name, NULL, &s), -EACCES);
}

/*
 * The user is neither the owner nor a member of the group. Root is such a user, too, although it
 * may open every file.
 */
static inline void grouptest_as_stranger(void *arg)
{
	CHECK_EQ(grouptest_try(0, 0, 0), -EACCES);
	CHECK_EQ(grouptest_try(0660, 0, 0), -EACCES);
	CHECK_EQ(grouptest_try(0660, 1, GROUPTEST_GID), -EACCES);
}

/* Answers requests until the child has ended. */
static inline void grouptest_serve_while(struct rpc_server *s, pid_t pid)
{
	while (!users_ended(pid)) {
		RPC(server_wait)(s, NSEC_PER_MSEC);
		rpc_echo(s);
	}
}

TEST(members_connect_and_others_do_not)
{
	struct rpc_server *s = grouptest_serve(0660, 1);
	struct stat st;

	grouptest_has_mode(grouptest_path, 0660);
	CHECK_EQ(stat(grouptest_path, &st), 0);
	CHECK_EQ(st.st_gid, GROUPTEST_GID);
	grouptest_serve_while(s, users_spawn(&grouptest_owner, grouptest_as_owner, NULL));
	grouptest_serve_while(s, users_spawn(&grouptest_member, grouptest_as_member, NULL));
	grouptest_serve_while(s, users_spawn(&grouptest_stranger, grouptest_as_stranger, NULL));
	grouptest_serve_while(s, users_spawn(&users_root, grouptest_as_stranger, NULL));
	grouptest_end(s);
}

static inline void grouptest_come(void *arg)
{
	struct rpc_attr attr = grouptest_attr_of(0660, 1, GROUPTEST_GID);
	struct rpc_client *c = NULL;

	CHECK_EQ(RPC(client_connect)(test_name, &attr, &c), 0);
	CHECK(grouptest_call(c, 7) == 7); /* so the server notices the client before it leaves */
	RPC(client_disconnect)(c);
}

/* Events contain the uid and gid of the client's process, not of the server or the region. */
TEST(events_name_the_user)
{
	static const struct users_who *const who[] = {&grouptest_member, &grouptest_owner};
	struct rpc_attr attr = grouptest_attr_of(0660, 1, GROUPTEST_GID);
	struct rpc_server *s;
	struct RPC(event) e;

	attr.size = sizeof(attr);
	attr.events = 1;
	users_act(&grouptest_owner);
	s = server_with(&attr);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(who); i++) {
		static pid_t pid;

		if (i % 2 == 0)
			pid = users_spawn(who[i / 2], grouptest_come, NULL);
		do
			rpc_echo(s);
		while (!RPC(server_event)(s, &e, sizeof(e)));
		CHECK_EQ(e.kind, i % 2);
		CHECK_EQ(e.pid, pid);
		CHECK_EQ(e.uid, who[i / 2]->uid);
		CHECK_EQ(e.gid, who[i / 2]->uid);
		if (i % 2)
			while (!users_ended(pid))
				sched_yield();
	}
	grouptest_end(s);
}

/* A client that passes the server's attributes connects and gets the same ones. */
static inline void grouptest_attr_can_be_given(const struct rpc_attr *of_server)
{
	struct rpc_attr got;
	struct rpc_client *c = NULL;

	CHECK_EQ(RPC(client_connect)(test_name, of_server, &c), 0);
	RPC(client_get_attr)(c, &got, sizeof(got));
	CHECK(memcmp(&got, of_server, sizeof(got)) == 0);
	RPC(client_disconnect)(c);
}

/* Without a gid the region has the server's own group. Without a mode it is for its user alone. */
TEST(defaults)
{
	for (int i = 0; i < 2; i++) {
		mode_t mask = umask(i ? 077 : 0);
		struct rpc_server *s = grouptest_serve(i ? 0660 : 0, 0);
		struct rpc_attr got;

		umask(mask);
		grouptest_has_mode(grouptest_path, i ? 0660 : 0600);
		RPC(server_get_attr)(s, &got, sizeof(got));
		CHECK_EQ(got.mode, i ? 0660 : 0600);
		CHECK_EQ(got.gid, grouptest_owner.uid);
		grouptest_attr_can_be_given(&got);
		grouptest_serve_while(s,
			users_spawn(&grouptest_member, grouptest_as_stranger, NULL));
		RPC(server_destroy)(s);
	}
	users_act(&users_root);
}

static inline void grouptest_as_stranger_to_owner(void *arg)
{
	struct rpc_server *s = NULL;

	CHECK_EQ(grouptest_try(0, 0, 0), -EACCES);
	CHECK_EQ(RPC(server_create)(test_name, NULL, &s), -EACCES);
	CHECK(open(grouptest_path, O_RDONLY) < 0 && errno == EACCES);
	CHECK(unlink(grouptest_path) != 0);
}

TEST(other_users_cannot_connect)
{
	struct rpc_server *s = grouptest_serve(0, 0);

	grouptest_has_mode(grouptest_path, 0600);
	grouptest_serve_while(s,
		users_spawn(&grouptest_stranger, grouptest_as_stranger_to_owner, NULL));
	grouptest_end(s);
}

/* Another user has already made a file with this name. It is refused, whatever its mode. */
TEST(names_taken_by_others_are_refused)
{
	static const mode_t modes[] = {0600, 0660, 0666};

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct rpc_server *s = NULL;
		int fd = grouptest_file(&grouptest_stranger, grouptest_path, modes[i]);

		CHECK_EQ(ftruncate(fd, 1 << 20), 0);
		close(fd);
		users_act(&users_root);
		CHECK_EQ(RPC(server_create)(test_name, NULL, &s), -EACCES);
		CHECK_EQ(grouptest_try(0, 0, 0), -EACCES);
		CHECK_EQ(unlink(grouptest_path), 0);
	}
}

static inline void grouptest_create_is_refused(uint32_t mode, uint32_t set, uint32_t gid, int err)
{
	struct rpc_attr attr = grouptest_access(mode, gid, set);
	struct rpc_server *s = NULL;
	struct rpc_client *c = NULL;

	CHECK_EQ(RPC(server_create)(test_name, &attr, &s), err);
	CHECK(access(grouptest_path, F_OK) != 0); /* nothing is left */
	if (err == -EINVAL)
		CHECK_EQ(RPC(client_connect)(test_name, &attr, &c), err);
}

TEST(other_access_is_refused)
{
	static const uint32_t modes[] = {1, 0400, 0606, 0620, 0640, 0644, 0661, 0666, 0700, 02660};

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		grouptest_create_is_refused(modes[i], 0, 0, -EINVAL);
	grouptest_create_is_refused(0, RPC_CONSTANT(SET_GID), GROUPTEST_GID, -EINVAL);
	grouptest_create_is_refused(0600, RPC_CONSTANT(SET_GID), GROUPTEST_GID, -EINVAL);
	/* Bit 1 of `set` is not defined. */
	grouptest_create_is_refused(0660, 2 | RPC_CONSTANT(SET_GID), GROUPTEST_GID, -EINVAL);
	/* A gid without RPC_CONSTANT(SET_GID) in `set` is refused, not ignored. */
	grouptest_create_is_refused(0660, 0, GROUPTEST_GID, -EINVAL);
	users_act(&grouptest_stranger);
	grouptest_create_is_refused(0660, RPC_CONSTANT(SET_GID), GROUPTEST_GID, -EPERM);
	users_act(&users_root);
}

/* The next server of the same user replaces an empty file for a group, which a dead one left. */
TEST(remains_are_replaced)
{
	close(grouptest_file(&grouptest_owner, grouptest_path, 0660));
	grouptest_end(grouptest_serve(0, 0));
}

/* ---- what a member may do to the region's file ---- */

/* A child process and the two pipes between it and the test. */
struct grouptest_child {
	pid_t pid;
	int up[2], down[2];
};

static inline void grouptest_start(struct grouptest_child *k, const struct users_who *who,
	void (*f)(void *arg))
{
	char ready;

	CHECK_EQ(pipe(k->up), 0);
	CHECK_EQ(pipe(k->down), 0);
	k->pid = users_spawn(who, f, k);
	CHECK_EQ(read(k->up[0], &ready, 1), 1);
}

/* Lets the process that reads the pipe @to continue, and waits for a byte from the pipe @from. */
static inline void grouptest_swap(int to, int from)
{
	char byte;

	CHECK_EQ(write(to, "x", 1), 1);
	CHECK_EQ(read(from, &byte, 1), 1);
}

/* Called in the child: reports that the child has got this far, and waits for grouptest_go(). */
static inline void grouptest_step(struct grouptest_child *k)
{
	grouptest_swap(k->up[1], k->down[0]);
}

/* Lets the child take the next step, and waits for it. */
static inline void grouptest_go(struct grouptest_child *k)
{
	grouptest_swap(k->down[1], k->up[0]);
}

static inline void grouptest_kill(struct grouptest_child *k)
{
	test_kill(k->pid);
	for (int i = 0; i < 2; i++) {
		close(k->up[i]);
		close(k->down[i]);
	}
}

static inline void grouptest_serve_group(void *arg)
{
	grouptest_serve(0660, 1);
	grouptest_step(arg);
}

/* Runs in a child: opens the region's file and, after grouptest_go(), locks every byte of it. */
static inline void grouptest_hold_locks(void *arg)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open(grouptest_path, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	grouptest_step(arg);
	CHECK_EQ(fcntl(fd, F_OFD_SETLK, &all), 0);
	CHECK(open(grouptest_guard, O_RDONLY) < 0 && errno == EACCES);
	CHECK(unlink(grouptest_guard) != 0);
	grouptest_step(arg);
}

/*
 * Sets up the case in which a server with mode 0660 has died, and a member of the group has locked
 * all bytes of the region's file.
 */
static inline void grouptest_hold_dead(struct grouptest_child *member)
{
	struct grouptest_child server;

	grouptest_start(&server, &users_root, grouptest_serve_group);
	grouptest_has_mode(grouptest_guard, 0600);
	grouptest_start(member, &grouptest_member, grouptest_hold_locks);
	grouptest_kill(&server);
	grouptest_go(member);
	users_act(&grouptest_owner);
}

static inline void grouptest_nothing_left(void)
{
	CHECK(access(grouptest_path, F_OK) != 0 && errno == ENOENT);
	CHECK(access(grouptest_guard, F_OK) != 0 && errno == ENOENT);
	users_act(&users_root);
}

/* The next server of the same user still starts, for a group or for its user alone. */
TEST(member_does_not_keep_servers_out)
{
	for (int i = 0; i < 2; i++) {
		AT_END(grouptest_kill) struct grouptest_child member;
		struct rpc_server *s;

		grouptest_hold_dead(&member);
		CHECK_EQ(grouptest_try(0, 0, 0), -ECONNREFUSED); /* the server is seen to be dead */
		s = grouptest_serve(i ? 0 : 0660, !i);
		if (!i)
			grouptest_serve_while(s,
				users_spawn(&grouptest_owner, grouptest_as_owner, NULL));
		RPC(server_destroy)(s);
		grouptest_nothing_left();
	}
}

/* A member does not keep others from removing the files of a dead server. */
TEST(member_does_not_keep_remains)
{
	AT_END(grouptest_kill) struct grouptest_child member;

	grouptest_hold_dead(&member);
	CHECK_EQ(RPC(remove_dead)(test_name), 0);
	grouptest_nothing_left();
}

/*
 * If the guard's contents identify another region, because a new server has made the guard, the old
 * region counts as dead.
 */
TEST(guard_is_of_one_region)
{
	static const uint64_t other[2] = {1, 1};
	struct flock first = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	AT_END(grouptest_kill) struct grouptest_child member;
	int fd;

	grouptest_hold_dead(&member);
	CHECK_EQ(unlink(grouptest_guard), 0);
	fd = grouptest_file(&grouptest_owner, grouptest_guard, 0600);
	CHECK_EQ(fcntl(fd, F_OFD_SETLK, &first), 0);
	for (size_t len = 0; len <= sizeof(other); len += 8) {
		CHECK_EQ(pwrite(fd, other, len, 0), len);
		CHECK_EQ(grouptest_try(0, 0, 0), -ECONNREFUSED);
	}
	/* The guard is locked as by a living server, so remove_dead() leaves the files alone. */
	CHECK_EQ(RPC(remove_dead)(test_name), -EADDRINUSE);
	close(fd);
	CHECK_EQ(RPC(remove_dead)(test_name), 0);
	grouptest_nothing_left();
}

/* While a server lives, for its user or for a group, no other server gets its name. */
TEST(servers_of_both_kinds_exclude)
{
	for (int i = 0; i < 2; i++) {
		struct rpc_server *s = grouptest_serve(i ? 0660 : 0, i), *more = NULL;

		for (int k = 0; k < 2; k++) {
			struct rpc_attr attr = grouptest_attr_of(k ? 0660 : 0, k, GROUPTEST_GID);

			CHECK_EQ(RPC(server_create)(test_name, &attr, &more), -EADDRINUSE);
			CHECK_EQ(access(grouptest_path, F_OK), 0);
			CHECK_EQ(access(grouptest_guard, F_OK), i ? 0 : -1);
		}
		CHECK_EQ(RPC(remove_dead)(test_name), -EADDRINUSE);
		RPC(server_destroy)(s);
		grouptest_nothing_left();
	}
}

/* If another user's file has the name of the guard, no region for a group can be created. */
TEST(guard_taken_by_others)
{
	struct rpc_attr attr = grouptest_attr_of(0660, 1, GROUPTEST_GID);
	struct rpc_server *s = NULL;

	close(grouptest_file(&grouptest_stranger, grouptest_guard, 0644));
	users_act(&grouptest_owner);
	CHECK_EQ(RPC(server_create)(test_name, &attr, &s), -EACCES);
	CHECK(access(grouptest_path, F_OK) != 0);
	grouptest_end(grouptest_serve(0, 0)); /* a server without a group needs no guard */
	CHECK_EQ(unlink(grouptest_guard), 0);
	/* A file of another user in place of a removed guard is ignored. */
	s = grouptest_serve(0660, 1);
	CHECK_EQ(unlink(grouptest_guard), 0);
	close(grouptest_file(&grouptest_stranger, grouptest_guard, 0644));
	users_act(&grouptest_owner);
	grouptest_serve_while(s, users_spawn(&grouptest_owner, grouptest_as_owner, NULL));
	grouptest_end(s);
	CHECK_EQ(unlink(grouptest_guard), 0);
}

int main(int argc, char **argv)
{
	int skip = users_begin(argv);

	snprintf(grouptest_path, sizeof(grouptest_path), "/dev/shm/" RPC_PREFIX ".%s", test_name);
	snprintf(grouptest_guard, sizeof(grouptest_guard), "/dev/shm/" RPC_PREFIX "-guard.%s",
		test_name);
	return skip ? skip : test_main(argc, argv);
}

#endif
