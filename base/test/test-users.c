/* SPDX-License-Identifier: MIT */
/* base/shm.h between users: a user cannot open a region that another user has created. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/shm.h"
#include "support/test.h"
#include "support/users.h"

#define PREFIX "base-users"
#define SIZE 8192

static const struct users_who owner = {54001, 0}, stranger = {54003, 0};
static void attach_and_create_fail(void *arg)
{
	struct shm_region r;

	(void)arg;
	CHECK_EQ(shm_attach(PREFIX, test_name, SIZE, &r), -EACCES);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &r), -EACCES);
}

static void open_fails(void *arg)
{
	attach_and_create_fail(arg);
	CHECK(open(test_file(PREFIX), O_RDONLY) < 0 && errno == EACCES);
	CHECK(unlink(test_file(PREFIX)) != 0);
}

static void run_as(const struct users_who *who, void (*f)(void *arg))
{
	pid_t pid = users_spawn(who, f, NULL);

	CHECK_EQ(test_reap(pid), 0);
}

/* Root may open every file, so only the check of the owner refuses the region. */
TEST(region_of_another_user)
{
	struct shm_region s;

	users_act(&owner);
	CHECK_EQ(shm_create(PREFIX, test_name, SIZE, &s), 0);
	run_as(&stranger, open_fails);
	run_as(&users_root, attach_and_create_fail);
	shm_close(&s);
	CHECK(access(test_file(PREFIX), F_OK) != 0);
	users_act(&users_root);
}

/* A file of another user has the region's name. Its mode lets others open it, or does not. */
TEST(name_taken_by_another_user)
{
	static const mode_t modes[] = {0600, 0660, 0666};

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		int fd;

		users_act(&stranger);
		fd = open(test_file(PREFIX), O_CREAT | O_EXCL | O_RDWR, 0600);
		CHECK(fd >= 0);
		CHECK_EQ(fchmod(fd, modes[i]), 0);
		close(fd);
		users_act(&users_root);
		run_as(&users_root, attach_and_create_fail);
		run_as(&owner, attach_and_create_fail);
		CHECK_EQ(unlink(test_file(PREFIX)), 0);
	}
}

int main(int argc, char **argv)
{
	int skip = users_begin(argv);

	return skip ? skip : test_main(argc, argv);
}
