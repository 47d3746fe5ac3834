/* SPDX-License-Identifier: MIT */
/*
 * If the adapters cannot work, a program gets one line with the reason, and neither hangs nor
 * crashes. Cases: /dev/shm does not exist, cannot be written, or is full; /proc is missing; the
 * fabric is full; members are in other namespaces or of another version; system calls are
 * forbidden; files must be small. Without root, only the cases of a full fabric, of another
 * version, of forbidden system calls and of small files run.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tmpdir.h"
#include "rig.h"
#include "softhca.h"

#define OK 42
#define SKIPPED 77
#define VERSION_AT 8 /* offset in the arena, after the magic */
#define MEMBERS_MAX 512 /* each has locked a byte of the lock file, from byte 1 on */

static struct rig r;

static void own_mounts(const char *over, const char *options)
{
	CHECK(!unshare(CLONE_NEWNS));
	CHECK(!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	CHECK(!mount("tmpfs", over, "tmpfs", 0, options));
}

static void no_devices(void)
{
	struct ibv_device **list;
	int n = 0;

	list = ibv_get_device_list(&n);
	CHECK_EQ(n, 0);
	if (list)
		ibv_free_device_list(list);
	exit(OK);
}

static void one_device(void)
{
	rig_open(&r, NULL);
	exit(OK);
}

static void no_room(void)
{
	own_mounts("/dev/shm", "size=256k");
	no_devices();
}

static void no_shm(void)
{
	own_mounts("/dev", "size=64k");
	no_devices();
}

static void read_only(void)
{
	own_mounts("/dev/shm", "size=64k");
	CHECK(!mount(NULL, "/dev/shm", NULL, MS_REMOUNT | MS_RDONLY, NULL));
	no_devices();
}

static void no_proc(void)
{
	own_mounts("/proc", "size=64k");
	no_devices();
}

/* The file of an attribute cannot be replaced, so its readers see the old text. */
static void no_room_for_attributes(void)
{
	static const char page[4096];
	char text[16] = "";
	int fd = open("/dev/shm/rest", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	while (write(fd, page, sizeof(page)) > 0)
		;
	CHECK_EQ(errno, ENOSPC);
	close(fd);
	CHECK_EQ(softhca_link_set("mlx5_0", false), 0);
	fd = open("/sys/class/infiniband/mlx5_0/ports/1/state", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ(read(fd, text, sizeof(text) - 1), strlen("4: ACTIVE\n"));
	CHECK_STR(text, "4: ACTIVE\n");
	close(fd);
	CHECK_EQ(softhca_link_set("mlx5_0", true), 0);
}

/* Without room objects cannot be made, and existing ones continue to work. */
static void little_room(void)
{
	struct ibv_qp_init_attr qa = {.cap = {.max_send_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = NULL;
	struct softhca_fabric_info info;
	unsigned n = 0;

	own_mounts("/dev/shm", "size=2m");
	rig_open(&r, NULL);
	rig_connect(&r, rig_addr(&r), (struct rig_timers){0});
	qa.send_cq = qa.recv_cq = r.scq;
	do
		qp = ibv_create_qp(r.pd, &qa);
	while (qp && ++n < 16384);
	CHECK(!qp);
	CHECK_EQ(errno, ENOMEM);
	CHECK(n > 64);
	/* softhca_fabric_info() must not read entries that have no memory. */
	CHECK_EQ(softhca_fabric_info(&info), 0);
	CHECK_EQ(info.qps, n + 1);
	no_room_for_attributes();
	rig_write(&r, &r, 64);
	rig_wait_ok(r.scq);
	exit(OK);
}

/* Runs in a child, whose parent is a member of the fabric. */
static void other_pids(void)
{
	pid_t pid;

	CHECK(!unshare(CLONE_NEWPID));
	pid = test_fork();
	if (!pid)
		no_devices();
	exit(test_reap(pid));
}

static void put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void other_users(void)
{
	CHECK(!unshare(CLONE_NEWUSER));
	put_file("/proc/self/setgroups", "deny");
	put_file("/proc/self/uid_map", "0 0 1");
	put_file("/proc/self/gid_map", "0 0 1");
	no_devices();
}

static int link_fd;

static void forbidden_sender(void)
{
	rig_forbid_calls();
	rig_open(&r, NULL);
	rig_meet(&r, link_fd, NULL, (struct rig_timers){0});
	for (uint64_t i = 0; i < 2; i++)
		rig_post(&r, &(struct rig_wr){.id = i,
				     .op = IBV_WR_SEND,
				     .flags = IBV_SEND_SIGNALED,
				     .len = 64});
	CHECK_EQ(rig_wait(r.scq).status, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQ(rig_wait(r.scq).status, IBV_WC_WR_FLUSH_ERR);
	exit(OK);
}

static void receiver(int fd)
{
	rig_open(&r, NULL);
	rig_recv(&r, 1, 0, 64);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	CHECK_EQ(rig_wait(r.rcq).status, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(rig_state(&r), IBV_QPS_ERR);
	exit(OK);
}

/* Makes the fabric, and opens a file of it. */
static int open_file(const char *name)
{
	char path[256];
	int fd;

	rig_open(&r, NULL);
	snprintf(path, sizeof(path), "/dev/shm/softhca-%d-%s/%s", (int)geteuid(),
		getenv("SOFTHCA_FABRIC"), name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

/* This process, the first member, and the lock stand for the members of a full fabric. */
TEST(full_fabric)
{
	struct flock others = {.l_type = F_WRLCK, .l_start = 2, .l_len = MEMBERS_MAX - 1};
	int fd = open_file("lock");

	CHECK(!fcntl(fd, F_OFD_SETLK, &others));
	CHECK_EQ(rig_child(no_devices, "it has 512 processes already"), OK);
	others = (struct flock){.l_type = F_UNLCK, .l_start = MEMBERS_MAX, .l_len = 1};
	CHECK(!fcntl(fd, F_OFD_SETLK, &others));
	CHECK_EQ(rig_child(one_device, NULL), OK);
	close(fd);
}

/* The fabric has the next version number, or the previous one. */
TEST(other_version)
{
	char text[96];
	struct stat st;
	uint64_t magic;
	uint32_t word;
	int fd = open_file("arena");

	CHECK_EQ(pread(fd, &word, sizeof(word), VERSION_AT), sizeof(word));
	CHECK_EQ(pread(fd, &magic, sizeof(magic), 0), sizeof(magic));
	CHECK(!fstat(fd, &st));
	for (int i = 0; i < 3; i++) {
		uint32_t other = word + (const uint32_t[]){1, -1u, 0}[i];

		CHECK_EQ(pwrite(fd, &other, sizeof(other), VERSION_AT), sizeof(other));
		/*
		 * The next version's file is larger. In a smaller file, members would get SIGBUS.
		 */
		CHECK(!ftruncate(fd, st.st_size + (i ? 0 : 4096)));
		snprintf(text, sizeof(text),
			"it is of version %u, this libsofthca.so of version %u", other, word);
		if (other != word)
			CHECK_EQ(rig_child(no_devices, text), OK);
	}
	CHECK_EQ(pwrite(fd, &(uint64_t){1}, sizeof(magic), 0), sizeof(magic));
	CHECK_EQ(rig_child(no_devices, "cannot join the fabric"), OK);
	CHECK_EQ(pwrite(fd, &magic, sizeof(magic), 0), sizeof(magic));
	close(fd);
}

/* Both ends fail; neither waits for ever. */
TEST(seccomp)
{
	pid_t pid = test_peer(receiver, &link_fd);

	CHECK_EQ(rig_child(forbidden_sender, "seccomp"), OK);
	CHECK_EQ(test_reap(pid), OK);
}

static void limit_files(rlim_t bytes)
{
	struct rlimit limit = {bytes, bytes};

	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
}

static void small_fabric(void)
{
	test_fabric("surroundings-small");
	limit_files(1 << 20);
	no_devices();
}

static void small_device(void)
{
	struct ibv_device **list;

	limit_files(1 << 20);
	list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	CHECK(!ibv_open_device(list[0]));
	ibv_free_device_list(list);
	exit(OK);
}

/* The capture ends, the message does not. */
static void small_capture(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/capture", tmpdir);
	CHECK(!setenv("SOFTHCA_CAPTURE", path, 1));
	test_fabric("surroundings-small");
	rig_open(&r, NULL);
	rig_connect(&r, rig_addr(&r), (struct rig_timers){0});
	limit_files(4096);
	rig_write(&r, &r, RIG_BUF);
	rig_wait_ok(r.scq);
	exit(OK);
}

/* The files of counters and attributes keep their text. */
static void no_files(void)
{
	uint64_t before;

	rig_open(&r, NULL);
	before = rig_counter(0, "counters/port_xmit_packets");
	limit_files(0);
	CHECK_EQ(rig_counter(0, "counters/port_xmit_packets"), before);
	CHECK_EQ(softhca_link_set("mlx5_0", false), 0);
	CHECK_EQ(softhca_link_set("mlx5_0", true), 0);
	exit(OK);
}

/* A file that exceeds RLIMIT_FSIZE would end the process (SIGXFSZ). */
TEST(small_files)
{
	CHECK_EQ(rig_child(small_fabric, "RLIMIT_FSIZE"), OK);
	tmpdir_make();
	CHECK_EQ(rig_child(small_capture, "File too large"), OK);
	rig_open(&r, NULL);
	CHECK_EQ(rig_child(small_device, NULL), OK);
	CHECK_EQ(rig_child(no_files, NULL), OK);
}

static void root_only(void)
{
	if (geteuid()) {
		fprintf(stderr, "skipped: namespaces and mounts: not root\n");
		exit(SKIPPED);
	}
}

static void in_child(void (*fn)(void), const char *says)
{
	root_only();
	CHECK_EQ(rig_child(fn, says), OK);
}

TEST_WITH(without_room, in_child, no_room, "No space left");
TEST_WITH(without_shm, in_child, no_shm, "/dev/shm: No such file or directory");
TEST_WITH(without_writing, in_child, read_only, "/dev/shm: Read-only file system");
TEST_WITH(without_proc, in_child, no_proc, "/proc");
TEST_WITH(with_little_room, in_child, little_room, NULL);

/* Runs @fn in a child after this process has created the fabric. */
static void in_fabric(void (*fn)(void), const char *says)
{
	root_only();
	rig_open(&r, NULL);
	CHECK_EQ(rig_child(fn, says), OK);
}

TEST_WITH(other_pid_namespace, in_fabric, other_pids, "pid namespace");
TEST_WITH(other_user_namespace, in_fabric, other_users, "user namespace");

FABRIC_MAIN("surroundings");
