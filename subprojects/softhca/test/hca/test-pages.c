/* SPDX-License-Identifier: MIT */
/*
 * The pages of queues are shared by the processes of a fabric: messages need no system call for
 * them. Nothing else changes: a child has its own memory, and nothing stays behind.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "rig.h"

#define NAME "memfd:softhca-queues"
#define MESSAGES 200u /* more than the CQs and the receive queue have places */

static struct rig r;

/* Makes the accesses to the memory of other processes fail, in all threads of this process. */
static void forbid_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = {ARRAY_SIZE(code), code};

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
}

/* Returns the number of mappings of pools in this process. */
static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, NAME) != NULL;
	fclose(f);
	return n;
}

/* Returns the descriptor of this process's own pool, or -1, and the number of all descriptors. */
static int find_pool(int *count_p)
{
	DIR *d = opendir("/proc/self/fd");
	char path[300], to[256];
	struct dirent *e;
	int fd = -1;
	ssize_t n;

	CHECK(d);
	*count_p = 0;
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		if (n < 0)
			continue;
		to[n] = '\0';
		(*count_p)++;
		if (strstr(to, NAME))
			fd = atoi(e->d_name);
	}
	closedir(d);
	return fd;
}

static int pool(void)
{
	int count;

	return find_pool(&count);
}

/* Sends without payload, which is in memory that is not shared. */
static void send_all(int fd)
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		test_get(fd, &(char){0}, 1);
		rig_post(&r, &(struct rig_wr){.op = IBV_WR_SEND_WITH_IMM,
				     .flags = IBV_SEND_SIGNALED,
				     .imm = i});
		rig_wait_ok(r.scq);
	}
	test_put(fd, "x", 1);
	rig_close(&r);
}

static void receive_all(int fd)
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		rig_recv(&r, i, 0, 0);
		test_put(fd, "r", 1);
		CHECK_EQ(rig_wait_ok(r.rcq).imm_data, i);
	}
	test_get(fd, &(char){0}, 1);
	rig_close(&r);
}

/* The filter stays until the process ends. */
static void send_without_calls(int fd)
{
	rig_open(&r, NULL);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	forbid_calls();
	send_all(fd);
}

static void receive_with(const struct rig_attr *attr, void (*sender)(int fd))
{
	int fd;
	pid_t pid = test_peer(sender, &fd);

	rig_open(&r, attr);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	receive_all(fd);
	CHECK_EQ(test_reap(pid), 0);
	close(fd);
}

TEST(no_calls)
{
	receive_with(&(struct rig_attr){.cqe = 15}, send_without_calls);
}

TEST(no_calls_for_srq)
{
	receive_with(&(struct rig_attr){.cqe = 15, .srq = true}, send_without_calls);
}

/* The buffers of larger CQEs, and of compressed ones, are reached likewise. */
TEST(no_calls_for_large_cqes)
{
	receive_with(&(struct rig_attr){.cqe = 15, .cqe_size = 128}, send_without_calls);
}

/* A CQ gets another buffer while it has completions that have not been polled. */
TEST(no_calls_after_resize)
{
	int fd;
	pid_t pid = test_peer(send_without_calls, &fd);

	rig_open(&r, &(struct rig_attr){.cqe = 15});
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	for (uint64_t i = 0; i < 3; i++)
		rig_recv(&r, i, 0, 0);
	test_put(fd, "rrr", 3);
	CHECK_EQ(rig_wait_ok(r.rcq).imm_data, 0);
	CHECK(!ibv_resize_cq(r.rcq, 200));
	for (uint32_t i = 1; i < MESSAGES; i++) {
		CHECK_EQ(rig_wait_ok(r.rcq).imm_data, i);
		if (i + 2 >= MESSAGES)
			continue;
		rig_recv(&r, i, 0, 0);
		test_put(fd, "r", 1);
	}
	test_get(fd, &(char){0}, 1);
	rig_close(&r);
	CHECK_EQ(test_reap(pid), 0);
	close(fd);
}

static void receive_closed(int fd)
{
	rig_open(&r, NULL);
	CHECK(!close(pool()));
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	receive_all(fd);
}

/* Without its descriptor nobody can map the pool. Then the memory is reached by system calls. */
TEST(closed_descriptor)
{
	int fd;
	pid_t pid = test_peer(receive_closed, &fd);

	rig_open(&r, NULL);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	send_all(fd);
	CHECK_EQ(test_reap(pid), 0);
	close(fd);
}

/* Each has its own memory after fork(), with the contents that there were. */
static void child(int fd)
{
	uint8_t *cqe = rig_dv_cq(r.scq).buf;

	CHECK_EQ(mappings(), 0);
	CHECK_EQ(pool(), -1);
	test_put(fd, cqe, 64);
	memset(cqe, 0x55, 64);
	test_put(fd, "x", 1);
	test_get(fd, &(char){0}, 1);
	CHECK_EQ(cqe[0], 0x55);
	_exit(0);
}

TEST(fork_has_own_memory)
{
	uint8_t before[64], seen[64], *cqe;
	int fd;
	pid_t pid;

	rig_open(&r, NULL);
	CHECK(pool() >= 0 && mappings() > 0);
	cqe = rig_dv_cq(r.scq).buf;
	memset(cqe, 0xa7, 64);
	memcpy(before, cqe, 64);
	pid = test_peer(child, &fd);
	test_get(fd, seen, 64);
	test_get(fd, &(char){0}, 1);
	CHECK(!memcmp(seen, before, 64) && !memcmp(cqe, before, 64));
	memset(cqe, 0x11, 64);
	test_put(fd, "x", 1);
	CHECK_EQ(test_reap(pid), 0);
	rig_close(&r);
	close(fd);
}

/* Nothing is shared when the queues are gone, and the descriptors do not become more. */
TEST(given_back)
{
	int first, count;
	struct stat st;

	rig_open(&r, &(struct rig_attr){.srq = true});
	rig_close(&r);
	find_pool(&first);
	for (int i = 0; i < 20; i++) {
		rig_open(&r, &(struct rig_attr){.srq = true});
		CHECK(mappings() > 0);
		rig_close(&r);
		CHECK_EQ(mappings(), 0);
	}
	CHECK(!fstat(find_pool(&count), &st));
	CHECK_EQ(count, first);
	CHECK_EQ(st.st_blocks, 0);
}

int main(int argc, char **argv)
{
	test_fabric("pages");
	return test_main(argc, argv);
}
