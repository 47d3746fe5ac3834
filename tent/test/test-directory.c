/* SPDX-License-Identifier: MIT */
/* Directories: descriptions by name. */
#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "host.h"

static char path[100];
static struct tent_directory file = {.size = sizeof(file), .file = path};

static void leave(void)
{
	unlink(path);
	host_close();
}

static void begin(void)
{
	const char *folder = getenv("TMPDIR");

	snprintf(path, sizeof(path), "%s/tent-directory-%d", folder ? folder : "/tmp", getpid());
	unlink(path);
	test_finally(leave);
	host_open();
}

static int publish(const struct tent_directory *dir, const char *name)
{
	return tent_publish(host, dir, name, NULL);
}

/* Finds the name, and releases the segment. Returns the result. */
static int find(const struct tent_directory *dir, const char *name)
{
	struct tent_segment *s = NULL;
	struct tent_why why = {""};
	int err = tent_find(host, dir, name, &why, &s);

	CHECK_EQ(!err, !why.text[0]);
	CHECK_EQ(tent_release(s), 0);
	return err;
}

static void add(const char *text)
{
	FILE *f = fopen(path, "a");

	CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

TEST(a_file)
{
	struct stat st;

	begin();
	CHECK_EQ(find(&file, "a"), -ENOENT);
	CHECK_EQ(publish(&file, "a"), 0);
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_mode & 0777, 0600);
	CHECK_EQ(find(&file, "a"), 0);
	CHECK_EQ(find(&file, "b"), -ENOENT);
	CHECK_EQ(publish(&file, "long"), 0);
	CHECK_EQ(find(&file, "lon"), -ENOENT);
	add("b {}\nempty \nalone\n\n");
	CHECK_EQ(find(&file, "b"), -EINVAL);
	CHECK_EQ(find(&file, "empty"), -EINVAL);
	CHECK_EQ(find(&file, "alone"), -ENOENT);
	CHECK_EQ(publish(&file, "b"), 0); /* the last line of a name counts */
	CHECK_EQ(find(&file, "b"), 0);
}

/* A program was killed while it wrote a line. */
TEST(a_line_that_is_not_complete)
{
	begin();
	CHECK_EQ(publish(&file, "a"), 0);
	add("a {\"te");
	CHECK_EQ(find(&file, "a"), 0);
	CHECK_EQ(publish(&file, "b"), 0);
	CHECK_EQ(find(&file, "b"), 0);
}

TEST(many_write_at_once)
{
	pid_t child[8];
	char name[20];

	begin();
	for (int i = 0; i < 8; i++) {
		child[i] = test_fork();
		if (child[i])
			continue;
		host = duo_create(NULL, 0, 0); /* the test's engine is not the child's */
		snprintf(name, sizeof(name), "n%d", i);
		for (int k = 0; k < 20; k++)
			CHECK_EQ(publish(&file, name), 0);
		_exit(0);
	}
	for (int i = 0; i < 8; i++) {
		CHECK_EQ(test_reap(child[i]), 0);
	}
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		CHECK_EQ(find(&file, name), -ECONNREFUSED); /* valid, but its engine has ended */
	}
}

static int signals; /* so many calls of flock() are interrupted */

/* Replaces the function of libc. */
int flock(int fd, int operation)
{
	if (!signals)
		return (int)syscall(SYS_flock, fd, operation);
	signals--;
	errno = EINTR;
	return -1;
}

/* Signals come while the thread waits for other writers. */
TEST(a_signal_does_not_end_the_wait)
{
	begin();
	signals = 2;
	CHECK_EQ(publish(&file, "a"), 0);
	CHECK_EQ(signals, 0);
	CHECK_EQ(find(&file, "a"), 0);
}

/* ---- functions ---- */

static struct {
	char name[TENT_NAME_LEN], *text;
	int err;
} kept;

static int put(void *arg, const char *name, const char *text)
{
	CHECK(arg == &kept);
	free(kept.text);
	strcpy(kept.name, name);
	kept.text = strdup(text);
	return kept.err;
}

static int get(void *arg, const char *name, char **text_p)
{
	CHECK(arg == &kept);
	if (strcmp(kept.name, name))
		return -ENOENT;
	if (kept.text && !kept.err)
		*text_p = strdup(kept.text);
	return kept.err;
}

TEST(functions_of_the_program)
{
	const struct tent_directory all = {.put = put, .get = get, .arg = &kept};
	struct tent_directory dir = all;

	begin();
	CHECK_EQ(publish(&dir, "a"), 0);
	CHECK_EQ(find(&dir, "a"), 0);
	CHECK_EQ(find(&dir, "b"), -ENOENT);
	free(kept.text);
	kept.text = NULL;
	CHECK_EQ(find(&dir, "a"), -ENOENT);
	kept.err = -EHOSTDOWN;
	CHECK_EQ(publish(&dir, "a"), -EHOSTDOWN);
	CHECK_EQ(find(&dir, "a"), -EHOSTDOWN);
	kept.err = 0;
	dir.put = NULL;
	CHECK_EQ(publish(&dir, "a"), -EINVAL);
	dir = (struct tent_directory){.put = put, .arg = &kept};
	CHECK_EQ(find(&dir, "a"), -EINVAL);
	free(kept.text);
	kept.text = NULL;
}

TEST(what_is_no_directory)
{
	char name[TENT_NAME_LEN + 1];
	struct tent_directory dir = {.size = sizeof(dir)};

	begin();
	CHECK_EQ(publish(&dir, "a"), -EINVAL);
	dir = (struct tent_directory){.file = path, .put = put};
	CHECK_EQ(publish(&dir, "a"), -EINVAL);
	CHECK_EQ(publish(&file, NULL), -EINVAL);
	CHECK_EQ(publish(&file, ""), -EINVAL);
	CHECK_EQ(publish(&file, "a b"), -EINVAL);
	CHECK_EQ(publish(&file, "a\n"), -EINVAL);
	memset(name, 'n', sizeof(name));
	name[TENT_NAME_LEN] = 0;
	CHECK_EQ(publish(&file, name), -EINVAL);
	name[TENT_NAME_LEN - 1] = 0;
	CHECK_EQ(publish(&file, name), 0);
	CHECK_EQ(find(&file, name), 0);
	dir = (struct tent_directory){.file = "/nowhere/at/all"};
	CHECK_EQ(publish(&dir, "a"), -ENOENT);
	CHECK_EQ(find(&dir, "a"), -ENOENT);
}

int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
