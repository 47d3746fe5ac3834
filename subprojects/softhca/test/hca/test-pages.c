/* SPDX-License-Identifier: MIT */
/*
 * The pages of queues are in their process's pool, a memfd that the processes of a fabric share, so
 * messages need no system call to access them. Nothing else changes: a child has its own memory,
 * and the mappings of destroyed queues are removed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "rig.h"

#define NAME "memfd:softhca-queues"
#define POOL_BYTES (1u << 28)
#define MESSAGES 200u /* more than the receive queue, or a CQ with cqe 15, has entries */

static struct rig r;

/* Returns the number of mappings of pools in this process. */
static int mappings(void)
{
	return rig_mappings(getpid(), NAME);
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

/* Sends messages without payload, because payload would be in memory that is not shared. */
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

/* The filter of rig_forbid_calls() stays until the process ends. */
static void send_without_calls(int fd)
{
	rig_open(&r, NULL);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	rig_forbid_calls();
	send_all(fd);
}

static void receive_with(const struct rig_attr *attr, void (*sender)(int fd))
{
	int fd;
	pid_t pid = test_peer(sender, &fd);

	rig_open(&r, attr);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	receive_all(fd);
	test_peer_ends(pid, fd);
}

TEST(no_calls)
{
	receive_with(&(struct rig_attr){.cqe = 15}, send_without_calls);
}

TEST(no_calls_for_srq)
{
	receive_with(&(struct rig_attr){.cqe = 15, .srq = true}, send_without_calls);
}

/* CQEs of 128 bytes are also written without calls. */
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
	test_peer_ends(pid, fd);
}

static void receive_closed(int fd)
{
	rig_open(&r, NULL);
	CHECK(!close(pool()));
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	receive_all(fd);
}

/* No peer can map the pool without its descriptor. Messages then use system calls. */
TEST(closed_descriptor)
{
	int fd;
	pid_t pid = test_peer(receive_closed, &fd);

	rig_open(&r, NULL);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	send_all(fd);
	test_peer_ends(pid, fd);
}

/* After fork() parent and child have separate memory with the same contents. */
static void child(int fd)
{
	uint8_t *cqe = rig_dv_cq(r.scq).buf;

	CHECK_EQ(mappings(), 0);
	CHECK_EQ(pool(), -1);
	test_put(fd, cqe, 64);
	memset(cqe, 0x55, 64);
	test_meet(fd);
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

/* Nothing is shared after the queues are destroyed, and the number of descriptors does not grow. */
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

#define REGION (4 * 4096u)
#define AT 5000u /* offset of a message's bytes in the region, on its second page */
#define BYTES 300u

static struct ibv_mr *region;
static int region_fd;

/* Registers memory of a new file, but not its first page. */
static void open_region(void)
{
	uint8_t *p;

	region_fd = memfd_create("region", MFD_CLOEXEC);
	CHECK(region_fd >= 0 && !ftruncate(region_fd, REGION + 4096));
	p = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, region_fd, 4096);
	CHECK(p != MAP_FAILED);
	region = ibv_reg_mr(r.pd, p, REGION,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	CHECK(region);
}

static void close_region(void)
{
	void *p = region->addr;

	CHECK(!ibv_dereg_mr(region));
	munmap(p, REGION);
	close(region_fd);
}

/* A message that the other end asks take_orders() to send. The answer is its status. */
struct order {
	enum ibv_wr_opcode op;
	uint32_t seed;
	uint32_t rkey; /* 0: no more messages */
	uint64_t addr;
};

static void take_orders(int fd, bool without_calls)
{
	enum ibv_wc_status status;
	struct order o;

	rig_open(&r, NULL);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	if (without_calls)
		rig_forbid_calls();
	for (test_get(fd, &o, sizeof(o)); o.rkey; test_get(fd, &o, sizeof(o))) {
		rig_fill(r.buf, BYTES, o.seed);
		rig_request(&r, o.op, BYTES, (struct rig_addr){.addr = o.addr, .rkey = o.rkey});
		status = rig_wait(r.scq).status;
		test_put(fd, &status, sizeof(status));
		if (o.op == IBV_WR_RDMA_READ)
			test_put(fd, r.buf, BYTES);
	}
	rig_close(&r);
}

static void send_without_any_call(int fd)
{
	take_orders(fd, true);
}

static void send_with_calls(int fd)
{
	take_orders(fd, false);
}

static enum ibv_wc_status order(int fd, enum ibv_wr_opcode op, uint32_t seed, uint64_t at)
{
	struct order o = {op, seed, region->rkey, (uintptr_t)region->addr + at};
	enum ibv_wc_status status;

	test_put(fd, &o, sizeof(o));
	test_get(fd, &status, sizeof(status));
	return status;
}

static void receive_into_region(uint64_t at, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)region->addr + at, len, region->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(r.qp, &wr, &bad));
}

static bool arrived(uint64_t at, uint32_t seed)
{
	return rig_same((uint8_t *)region->addr + at, BYTES, seed);
}

static pid_t open_ends(void (*sender)(int fd), int *fd_p)
{
	pid_t pid = test_peer(sender, fd_p);

	rig_open(&r, NULL);
	open_region();
	rig_meet(&r, *fd_p, NULL, (struct rig_timers){0});
	return pid;
}

static void close_ends(pid_t pid, int fd)
{
	test_put(fd, &(struct order){0}, sizeof(struct order));
	close_region();
	rig_close(&r);
	test_peer_ends(pid, fd);
}

/* Payload needs no call either, if the memory is of a file. */
TEST(regions_without_calls)
{
	uint8_t read[BYTES];
	int fd;
	pid_t pid = open_ends(send_without_any_call, &fd);

	CHECK_EQ(order(fd, IBV_WR_RDMA_WRITE, 1, AT), IBV_WC_SUCCESS);
	CHECK(arrived(AT, 1));
	CHECK_EQ(((uint8_t *)region->addr)[AT + BYTES], 0);
	receive_into_region(0, 0);
	CHECK_EQ(order(fd, IBV_WR_RDMA_WRITE_WITH_IMM, 2, AT), IBV_WC_SUCCESS);
	rig_wait_ok(r.rcq);
	CHECK(arrived(AT, 2));
	receive_into_region(AT + 4096, BYTES);
	CHECK_EQ(order(fd, IBV_WR_SEND, 3, 0), IBV_WC_SUCCESS);
	rig_wait_ok(r.rcq);
	CHECK(arrived(AT + 4096, 3) && arrived(AT, 2));
	rig_fill((uint8_t *)region->addr + AT, BYTES, 4);
	CHECK_EQ(order(fd, IBV_WR_RDMA_READ, 0, AT), IBV_WC_SUCCESS);
	test_get(fd, read, BYTES);
	CHECK(rig_same(read, BYTES, 4));
	close_ends(pid, fd);
}

/* After 256 registrations a region has the key of an earlier one, which was in another file. */
TEST(key_of_another_region)
{
	int fd;
	pid_t pid = open_ends(send_with_calls, &fd);
	uint32_t key = region->rkey;

	CHECK_EQ(order(fd, IBV_WR_RDMA_WRITE, 1, AT), IBV_WC_SUCCESS);
	CHECK_EQ(rig_mappings(pid, "memfd:region"), 1);
	do {
		close_region();
		open_region();
	} while (region->rkey != key);
	CHECK_EQ(order(fd, IBV_WR_RDMA_WRITE, 2, AT), IBV_WC_SUCCESS);
	CHECK(arrived(AT, 2));
	CHECK_EQ(rig_mappings(pid, "memfd:region"), 1);
	CHECK_EQ(order(fd, IBV_WR_RDMA_WRITE, 3, REGION), IBV_WC_REM_ACCESS_ERR);
	close_ends(pid, fd);
}

/* The key and the address of a region stay while its memory changes. */
TEST(registered_again)
{
	int fd, file;
	pid_t pid = open_ends(send_with_calls, &fd);
	void *p = region->addr;

	CHECK_EQ(order(fd, IBV_WR_RDMA_WRITE, 1, AT), IBV_WC_SUCCESS);
	file = memfd_create("other", MFD_CLOEXEC);
	CHECK(file >= 0 && !ftruncate(file, REGION));
	CHECK(mmap(p, REGION, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == p);
	CHECK_EQ(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, REGION, 0), 0);
	CHECK_EQ(order(fd, IBV_WR_RDMA_WRITE, 2, AT), IBV_WC_SUCCESS);
	CHECK(arrived(AT, 2));
	close(file);
	close_ends(pid, fd);
}

/* The owner of a file may make it shorter. Only the message fails. */
TEST(truncated_file)
{
	int fd;
	pid_t pid = open_ends(send_with_calls, &fd);

	CHECK_EQ(order(fd, IBV_WR_RDMA_WRITE, 1, AT), IBV_WC_SUCCESS);
	CHECK(!ftruncate(region_fd, 4096));
	CHECK_EQ(order(fd, IBV_WR_RDMA_WRITE, 2, AT), IBV_WC_REM_OP_ERR);
	close_ends(pid, fd);
}

/* Private memory of a file is the process's own, not the file's. */
TEST(private_mapping)
{
	struct ibv_mr *shared;
	char byte;
	int fd;
	pid_t pid = open_ends(send_with_calls, &fd);
	void *p = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE, region_fd, 4096);

	CHECK(p != MAP_FAILED);
	shared = region;
	region = ibv_reg_mr(r.pd, p, REGION, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(region);
	CHECK_EQ(order(fd, IBV_WR_RDMA_WRITE, 1, AT), IBV_WC_SUCCESS);
	CHECK(arrived(AT, 1));
	CHECK_EQ(pread(region_fd, &byte, 1, 4096 + AT), 1);
	CHECK_EQ(byte, 0);
	CHECK(!ibv_dereg_mr(region));
	munmap(p, REGION);
	region = shared;
	close_ends(pid, fd);
}

/* The limit of file sizes is smaller than a pool. */
static void send_with_small_files(int fd)
{
	struct rlimit limit = {POOL_BYTES - 1, POOL_BYTES - 1};

	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	rig_open(&r, NULL);
	CHECK_EQ(pool(), -1);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	send_all(fd);
}

TEST(small_files)
{
	receive_with(NULL, send_with_small_files);
}

/* Without a descriptor the memory is reached by system calls. */
TEST(region_without_descriptor)
{
	int fd;
	pid_t pid = open_ends(send_with_calls, &fd);

	close(region_fd);
	CHECK_EQ(order(fd, IBV_WR_RDMA_WRITE, 1, AT), IBV_WC_SUCCESS);
	CHECK(arrived(AT, 1));
	region_fd = open("/dev/null", O_RDONLY);
	close_ends(pid, fd);
}

/* Nothing is shared after a CQ is destroyed, even while the device stays open. */
TEST(given_back_one_by_one)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	struct ibv_cq *cq;
	int others = mappings(); /* of peers that have ended */

	CHECK(ctx);
	for (int i = 0; i < 3; i++) {
		cq = ibv_create_cq(ctx, 100, NULL, NULL, 0);
		CHECK(cq);
		CHECK_EQ(mappings(), others + 2); /* the buffer, and the doorbell record's page */
		CHECK(!ibv_destroy_cq(cq));
		CHECK_EQ(mappings(), others);
	}
	CHECK(!ibv_close_device(ctx));
	ibv_free_device_list(list);
}

FABRIC_MAIN("pages");
