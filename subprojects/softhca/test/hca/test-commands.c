/* SPDX-License-Identifier: MIT */
/* Commands that query or change objects, or are refused, return what a Linux kernel returns. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "command.h"
#include "rig.h"

static struct rig a, b;

static void open_pair(void)
{
	rig_open_pair(&a, &(struct rig_attr){.cqe = 3}, &b, NULL);
}

TEST(comp_vectors)
{
	struct ibv_cq *cq;

	rig_open(&a, NULL);
	for (int v = 0; v < a.ctx->num_comp_vectors; v++) {
		cq = ibv_create_cq(a.ctx, 4, NULL, NULL, v);
		CHECK(cq && !ibv_destroy_cq(cq));
	}
	CHECK(!ibv_create_cq(a.ctx, 4, NULL, NULL, a.ctx->num_comp_vectors));
	CHECK_EQ(errno, EINVAL);
	CHECK(!ibv_create_cq(a.ctx, 4, NULL, NULL, -1));
	CHECK_EQ(errno, EINVAL);
}

/* A shared receive queue without room for receives is valid. */
TEST(empty_srq)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 0, .max_sge = 1}};
	struct ibv_srq_attr attr;
	struct ibv_srq *srq;

	rig_open(&a, NULL);
	srq = ibv_create_srq(a.pd, &init);
	CHECK(srq);
	CHECK(!ibv_query_srq(srq, &attr));
	CHECK_EQ(attr.max_wr, 0);
	CHECK(!ibv_destroy_srq(srq));
}

/* As with mlx5, the greatest limit is the greatest number of receives. */
TEST(srq_limits)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 5, .max_sge = 1}};
	struct ibv_srq_attr attr;
	struct ibv_srq *srq;

	rig_open(&a, NULL);
	srq = ibv_create_srq(a.pd, &init);
	CHECK(srq);
	CHECK(!ibv_query_srq(srq, &attr));
	attr.srq_limit = attr.max_wr;
	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	attr.srq_limit++;
	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	CHECK(!ibv_destroy_srq(srq));
}

static struct ibv_qp *make_qp(struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = a.scq,
		.recv_cq = a.rcq,
		.srq = srq,
		.cap = {.max_send_wr = 5, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 3},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(a.pd, &init);

	CHECK(qp);
	return qp;
}

static struct ibv_qp_cap caps(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	return attr.cap;
}

/* Exactly as many receives can be posted as the query returns. */
TEST(real_depth)
{
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_cap cap;
	struct ibv_qp *qp;

	rig_open(&a, &(struct rig_attr){.srq = true});
	qp = make_qp(a.srq);
	CHECK_EQ(caps(qp).max_recv_wr, 0);
	CHECK_EQ(caps(qp).max_recv_sge, 0);
	CHECK(!ibv_destroy_qp(qp));
	qp = make_qp(NULL);
	cap = caps(qp);
	CHECK_EQ(cap.max_recv_wr, 8);
	CHECK_EQ(cap.max_recv_sge, 4);
	CHECK(!ibv_modify_qp(qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	for (uint32_t i = 0; i < cap.max_recv_wr; i++)
		CHECK(!ibv_post_recv(qp, &wr, &bad));
	CHECK_EQ(ibv_post_recv(qp, &wr, &bad), ENOMEM);
	CHECK(!ibv_destroy_qp(qp));
}

/* Writes the low byte of @id + 1 to b. */
static void write_once(uint64_t id)
{
	a.buf[0] = (uint8_t)(id + 1);
	rig_post(&a, &(struct rig_wr){.id = id,
			     .op = IBV_WR_RDMA_WRITE,
			     .flags = IBV_SEND_SIGNALED,
			     .len = 8,
			     .raddr = (uintptr_t)b.buf,
			     .rkey = b.mr->rkey});
}

static void expect_ids(uint64_t from, uint64_t to)
{
	for (uint64_t id = from; id < to; id++)
		CHECK_EQ(rig_wait_ok(a.scq).wr_id, id);
	rig_idle(a.scq);
}

/* Writes, and waits for the effect: if another thread executes doorbells, it comes a moment later. */
static void write_and_wait(uint64_t id)
{
	write_once(id);
	while (__atomic_load_n(b.buf, __ATOMIC_RELAXED) != (uint8_t)(id + 1))
		sched_yield();
}

/* Completions that wait when a queue is resized are polled from the new buffer, in order. */
TEST(resize)
{
	uint64_t id = 0;

	open_pair();
	for (int round = 0; round < 100; round++) {
		int waiting = round % 3;

		for (int i = 0; i < waiting; i++)
			write_and_wait(id++);
		CHECK(!ibv_resize_cq(a.scq, round % 2 ? 3 : 500));
		CHECK(a.scq->cqe >= (round % 2 ? 3 : 500));
		expect_ids(id - (uint64_t)waiting, id);
		write_once(id++);
		expect_ids(id - 1, id);
	}
}

/* A queue cannot become smaller than the number of its waiting completions. */
TEST(resize_refused)
{
	open_pair();
	CHECK(!ibv_resize_cq(a.scq, 15));
	for (uint64_t id = 0; id < 4; id++)
		write_and_wait(id);
	CHECK_EQ(ibv_resize_cq(a.scq, 1), EINVAL);
	expect_ids(0, 4);
	CHECK(!ibv_resize_cq(a.scq, 1));
}

static enum ibv_wc_status remote_write(void)
{
	write_once(0);
	return rig_wait(a.scq).status;
}

/* Memory that is re-registered without remote write access cannot be written by peers. */
TEST(rereg_access)
{
	open_pair();
	CHECK_EQ(remote_write(), IBV_WC_SUCCESS);
	CHECK(!ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
		IBV_ACCESS_LOCAL_WRITE));
	CHECK_EQ(remote_write(), IBV_WC_REM_ACCESS_ERR);
	CHECK(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
		IBV_ACCESS_REMOTE_WRITE));
}

/* A domain with a region cannot be freed, and only QPs of the domain reach the region. */
TEST(rereg_pd)
{
	struct ibv_pd *pd;

	open_pair();
	pd = ibv_alloc_pd(b.ctx);
	CHECK(pd);
	CHECK(!ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0));
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(remote_write(), IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_PD, b.pd, NULL, 0, 0));
	CHECK(!ibv_dealloc_pd(pd));
}

/* The region moves to its second page: the first is out of bounds. */
TEST(rereg_address)
{
	struct rig_addr to;

	open_pair();
	to = rig_addr(&b);
	to.addr += 4096;
	CHECK(!ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b.buf + 4096, 4096, 0));
	rig_fill(a.buf, 8, 3);
	to.rkey = b.mr->rkey;
	rig_request(&a, IBV_WR_RDMA_WRITE, 8, to);
	rig_wait_ok(a.scq);
	CHECK(rig_same(b.buf + 4096, 8, 3));
	CHECK_EQ(remote_write(), IBV_WC_REM_ACCESS_ERR);
}

static bool is_null(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_rdev == makedev(1, 3);
}

/* Returns the descriptor of the fabric's lock file. */
static int lock_file(void)
{
	int fd = test_descriptor("/lock", -1);

	CHECK(fd >= 0);
	return fd;
}

/* Runs @closes, which closes descriptors, in a member of the fabric. Other members must see that
 * the member lives. */
static void lives_after(void (*closes)(void))
{
	uint32_t members;

	if (!test_in_child())
		return;
	ibv_free_device_list(ibv_get_device_list(NULL));
	members = rig_info().processes;
	closes();
	rig_open(&a, NULL);
	if (test_in_child()) {
		rig_open(&b, NULL);
		CHECK_EQ(rig_info().processes, members + 1);
	}
	test_end();
	exit(0);
}

static void close_all(void)
{
	for (int fd = 3; fd < 256; fd++)
		close(fd);
}

static void close_range_of_all(void)
{
	CHECK(!close_range(3, UINT_MAX, 0));
	CHECK(!close_range(3, UINT_MAX, 0));
}

static void close_from(void)
{
	closefrom(3);
}

/* As in a container that does not know the system call. */
static void close_from_in_container(void)
{
	int before = open("/dev/null", O_RDWR | O_CLOEXEC);
	int high = fcntl(before, F_DUPFD_CLOEXEC, 900);

	rig_forbid_call(SYS_close_range);
	CHECK(high >= 900);
	closefrom(before + 1);
	CHECK(is_null(before));
	CHECK(fcntl(high, F_GETFD) < 0);
	closefrom(3);
	CHECK(fcntl(before, F_GETFD) < 0);
}

static void close_lock(void)
{
	int fd = lock_file();

	CHECK(!close_range((unsigned)fd, (unsigned)fd, 0));
	CHECK_EQ(lock_file(), fd);
}

static void replace_lock(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), fd = lock_file(), copy = dup(fd);

	CHECK(copy >= 0 && !close(copy));
	CHECK(fcntl(copy, F_GETFD) < 0);
	CHECK_EQ(dup2(fd, fd), fd);
	CHECK(!close(fd));
	CHECK_EQ(lock_file(), fd);
	CHECK(dup2(-1, fd) < 0 && errno == EBADF);
	CHECK(fcntl(fd, F_GETFD) < 0);
	fd = lock_file();
	CHECK_EQ(dup2(null, fd), fd);
	CHECK(is_null(fd));
	fd = lock_file();
	CHECK_EQ(dup3(null, fd, O_CLOEXEC), fd);
	CHECK(!close(fd));
	CHECK(fcntl(fd, F_GETFD) < 0);
}

TEST_WITH(lives_after_closing_all, lives_after, close_all);
TEST_WITH(lives_after_close_range, lives_after, close_range_of_all);
TEST_WITH(lives_after_closefrom, lives_after, close_from);
TEST_WITH(lives_after_closefrom_in_container, lives_after, close_from_in_container);
TEST_WITH(lives_after_close_range_of_lock, lives_after, close_lock);
TEST_WITH(lives_after_replacing, lives_after, replace_lock);

/* Neither close_range() nor /proc is there, as in a directory of chroot(). */
TEST(closefrom_without_proc)
{
	int before, high, lock;

	/* This process joins the fabric first, so it is the one that removes it when it ends. */
	ibv_free_device_list(ibv_get_device_list(NULL));
	if (!test_in_child())
		return;
	ibv_free_device_list(ibv_get_device_list(NULL));
	before = open("/dev/null", O_RDWR | O_CLOEXEC);
	high = fcntl(before, F_DUPFD_CLOEXEC, 900);
	CHECK(high >= 900);
	lock = lock_file();
	rig_forbid_call(SYS_close_range);
	rig_forbid_call(SYS_openat);
	closefrom(before + 1);
	CHECK(is_null(before));
	CHECK(fcntl(high, F_GETFD) < 0);
	CHECK(fcntl(lock, F_GETFD) >= 0);
	_exit(0);
}

static int duplicate(int fd, int way)
{
	int to = way % 2 ? fcntl(fd, F_DUPFD_CLOEXEC, 100) : 100;

	switch (way) {
	case 0:
		return dup(fd);
	case 1:
	case 2:
		return dup2(fd, to);
	case 3:
		return dup3(fd, to, O_CLOEXEC);
	default:
		return fcntl(fd, F_DUPFD, 50);
	}
}

/* The device is open until the last of its descriptors is closed. */
TEST(duplicates)
{
	struct stat was, is;
	struct ibv_pd *pd;
	int fd;

	for (int way = 0; way < 5; way++) {
		rig_open(&a, NULL);
		CHECK(!fstat(a.ctx->cmd_fd, &was));
		fd = duplicate(a.ctx->cmd_fd, way);
		CHECK(fd >= 0);
		CHECK(!fstat(fd, &is));
		CHECK(S_ISCHR(is.st_mode) && is.st_rdev == was.st_rdev);
		CHECK(!close(a.ctx->cmd_fd));
		a.ctx->cmd_fd = fd;
		pd = ibv_alloc_pd(a.ctx);
		CHECK(pd && !ibv_dealloc_pd(pd));
		rig_close(&a);
	}
}

/* ibv_import_device() is not emulated: it fails, and libibverbs closes the descriptor. */
TEST(import)
{
	int fd;

	rig_open(&a, NULL);
	fd = dup(a.ctx->cmd_fd);
	CHECK(!ibv_import_device(fd));
	CHECK_EQ(errno, EPROTONOSUPPORT);
	CHECK_EQ(fcntl(fd, F_GETFD), -1);
}

/* The limits of moderation. Its effect is tested by test-events. */
TEST(moderate)
{
	static const struct {
		struct ib_uverbs_ex_modify_cq req;
		int error;
	} cases[] = {
		{{.attr_mask = 1, .attr = {8, 16}}, 0},
		{{.attr_mask = 1, .attr = {UINT16_MAX, 4095}}, 0},
		{{.attr_mask = 1, .attr = {8, 4096}}, -EINVAL},
		{{.attr_mask = 1, .cq_handle = 999}, -EINVAL},
		{{.attr_mask = 1, .reserved = 1}, -EINVAL},
		{{.attr_mask = 0}, -EINVAL},
		{{.attr_mask = 2}, -EOPNOTSUPP},
		{{.attr_mask = 3}, -EOPNOTSUPP},
	};
	const uint64_t number = IB_USER_VERBS_EX_CMD_MODIFY_CQ | IB_USER_VERBS_CMD_FLAG_EXTENDED;
	struct ibv_device_attr_ex device;

	rig_open(&a, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ib_uverbs_ex_modify_cq req = cases[i].req;

		req.cq_handle += a.scq->handle;
		CHECK_EQ(command_write(a.ctx, number, &req, sizeof(req), NULL, 0, NULL, 0),
			cases[i].error);
	}
	CHECK(!ibv_query_device_ex(a.ctx, NULL, &device));
	CHECK_EQ(device.cq_mod_caps.max_cq_count, UINT16_MAX);
	CHECK_EQ(device.cq_mod_caps.max_cq_period, 4095);
}

/* As in the kernel, the other arguments are checked before the descriptor. */
TEST(dmabuf)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING;
	const int closed = 9999, file = open("/dev/null", O_RDWR | O_CLOEXEC);
	const struct {
		uint64_t offset, length, iova;
		int fd, access, error;
	} cases[] = {
		{0, 4096, 0, file, all, EINVAL},
		{0, 4096, 0, closed, all, EBADF},
		{0, 4096, 0, -1, 0, EBADF},
		{64, 4096, 8192 + 64, closed, 0, EBADF},
		{64, 4096, 8192, closed, 0, EINVAL},
		{4096, UINT64_MAX - 4095, 0, closed, 0, EINVAL},
		{0, 4096, 0, closed, IBV_ACCESS_REMOTE_WRITE, EINVAL},
		{0, 4096, 0, closed, IBV_ACCESS_ON_DEMAND, EINVAL},
	};
	union command c = {0};

	rig_open(&a, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK(!ibv_reg_dmabuf_mr(a.pd, cases[i].offset, cases[i].length, cases[i].iova,
			cases[i].fd, cases[i].access));
		CHECK_EQ(errno, cases[i].error);
	}
	CHECK_EQ(command_execute(&c, a.ctx, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR),
		-EINVAL);
	CHECK(!close(file));
}

/* Returns the number of entries of the fabric's directory of FIFOs. An open device has one FIFO. */
static int fifos(void)
{
	char link[32], path[256];
	ssize_t n;
	DIR *d;
	int files = 0;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", lock_file());
	n = readlink(link, path, sizeof(path));
	CHECK(n > 5);
	snprintf(path + n - 5, 6, "/fifo");
	d = opendir(path);
	CHECK(d);
	while (readdir(d))
		files++;
	CHECK(!closedir(d));
	return files;
}

/* dup2() onto the device's descriptor closes the device. */
static void replace(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), before;
	struct ibv_context *ctx;

	rig_open(&a, NULL);
	before = fifos();
	ctx = ibv_open_device(a.ctx->device);
	CHECK(ctx && null >= 0);
	CHECK(fifos() > before);
	CHECK_EQ(dup2(null, ctx->cmd_fd), ctx->cmd_fd);
	CHECK_EQ(fifos(), before);
	CHECK(is_null(ctx->cmd_fd));
	CHECK(!ibv_alloc_pd(ctx));
	CHECK(!ibv_close_device(ctx));
	CHECK(!close(null));
}

TEST_WITH(replaced, replace);

TEST(replaced_in_child)
{
	if (!test_in_child())
		return;
	replace();
	test_end();
	exit(0);
}

/* Opens /dev/null with the number @fd, which is closed. */
static void open_null_as(int fd)
{
	int null;

	do
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (null >= 0 && null < fd);
	CHECK_EQ(null, fd);
}

/* Closes @fd in one of several ways, of which all but way 0 also close what is above it. */
static void close_in_way(int fd, int way)
{
	unsigned first = (unsigned)fd;

	if (way == 0)
		CHECK(!close_range(first, first, 0));
	else if (way == 1)
		CHECK(!close_range(first, UINT_MAX, 0));
	else if (way == 3)
		CHECK(!close_range(first, UINT_MAX, CLOSE_RANGE_UNSHARE));
	else
		closefrom(fd);
}

/* The device is closed, and another file may have the number of its descriptor. Files before it
 * stay open. */
static void closed_in_way(int way)
{
	int before, fd;

	if (!test_in_child())
		return;
	before = open("/dev/null", O_RDWR | O_CLOEXEC);
	fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
	close_in_way(fd, way);
	CHECK(fcntl(fd, F_GETFD) < 0);
	CHECK(fcntl(before, F_GETFD) >= 0);
	open_null_as(fd);
	CHECK(is_null(fd));
	exit(0);
}

TEST_WITH(closed_by_close_range, closed_in_way, 0);
TEST_WITH(closed_by_close_range_to_the_end, closed_in_way, 1);
TEST_WITH(closed_by_closefrom, closed_in_way, 2);

/* In a process without other threads, CLOSE_RANGE_UNSHARE makes no difference. */
TEST(closed_by_only_thread)
{
#ifndef __SANITIZE_THREAD__ /* the sanitizer has a thread of its own */
	if (rig_mode("trap"))
		closed_in_way(3);
#endif
}

/* With wrong arguments, and with CLOSE_RANGE_CLOEXEC, it closes nothing. */
TEST(not_closed_by_close_range)
{
	struct ibv_pd *pd;
	unsigned fd;

	rig_open(&a, NULL);
	fd = (unsigned)a.ctx->cmd_fd;
	CHECK(close_range(fd, fd - 1, 0) < 0 && errno == EINVAL);
	CHECK(close_range(fd, fd, -1) < 0 && errno == EINVAL);
	CHECK(!close_range(fd, fd, CLOSE_RANGE_CLOEXEC));
	pd = ibv_alloc_pd(a.ctx);
	CHECK(pd && !ibv_dealloc_pd(pd));
}

static void *close_in_own_table(void *arg)
{
	unsigned fd = (unsigned)a.ctx->cmd_fd;
	int lock = lock_file();

	CHECK(!close_range(fd, UINT_MAX, CLOSE_RANGE_UNSHARE));
	CHECK(fcntl((int)fd, F_GETFD) < 0);
	CHECK(fcntl(lock, F_GETFD) >= 0);
	return arg;
}

/*
 * With CLOSE_RANGE_UNSHARE the other threads keep the device. The calling thread keeps the library's
 * descriptors.
 */
TEST(not_closed_for_other_threads)
{
	struct ibv_pd *pd;
	pthread_t t;

	rig_open(&a, NULL);
	CHECK(!pthread_create(&t, NULL, close_in_own_table, NULL));
	CHECK(!pthread_join(t, NULL));
	pd = ibv_alloc_pd(a.ctx);
	CHECK(pd && !ibv_dealloc_pd(pd));
}

/* A child inherits an event channel, closes it, and opens a file that gets its number. */
TEST(channel_closed_in_child)
{
	int ch = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);

	CHECK(ch >= 0);
	if (test_in_child()) {
		closefrom(3);
		open_null_as(ch);
		CHECK_EQ(write(ch, "text", 4), 4);
		exit(0);
	}
	CHECK(!close(ch));
}

/* A file that has the number of a device that was closed by a system call of the program. */
TEST(closed_by_system_call)
{
	int fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0 && !syscall(SYS_close, fd));
	CHECK_EQ(fcntl(null, F_DUPFD_CLOEXEC, fd), fd);
	CHECK(is_null(fd));
	CHECK(!close(fd));
	CHECK(!close(null));
}

/* Makes a child that shares the memory of this process. The child calls dup2(@fd, @to) or, if @to
 * is -1, close(@fd). */
static void call_in_vfork_child(int fd, int to)
{
	pid_t pid = vfork();

	if (!pid)
		_exit(to < 0 ? close(fd) : dup2(fd, to) != to);
	CHECK_EQ(test_reap(pid), 0);
}

/* A child of vfork() closes the device's descriptor. Many close all before they execute a program. */
TEST(closed_in_vfork_child)
{
	struct ibv_pd *pd;

	rig_open(&a, NULL);
	call_in_vfork_child(a.ctx->cmd_fd, -1);
	pd = ibv_alloc_pd(a.ctx);
	CHECK(pd && !ibv_dealloc_pd(pd));
}

TEST(replaced_in_vfork_child)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct ibv_pd *pd;

	rig_open(&a, NULL);
	CHECK(null >= 0);
	call_in_vfork_child(null, a.ctx->cmd_fd);
	pd = ibv_alloc_pd(a.ctx);
	CHECK(pd && !ibv_dealloc_pd(pd));
	call_in_vfork_child(a.ctx->cmd_fd, null);
	CHECK(is_null(null));
	CHECK(!close(null));
}

/*
 * A child of the bare system call fork opens a file that gets the number of an event channel, which
 * the child has closed. Its commands do not reach the parent's device.
 */
static void use_bare_child(void)
{
	int ch = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	pid_t pid;

	rig_open(&a, NULL);
	pid = (pid_t)syscall(SYS_fork);
	if (!pid) {
		CHECK(!ibv_alloc_pd(a.ctx));
		CHECK(!close(ch));
		open_null_as(ch);
		CHECK(is_null(ch));
		CHECK_EQ(write(ch, "text", 4), 4);
		_exit(0);
	}
	CHECK_EQ(test_reap(pid), 0);
	CHECK(!close(ch));
}

TEST(closed_in_bare_child)
{
#ifdef __SANITIZE_THREAD__
	(void)use_bare_child; /* the sanitizer supports only children of fork() */
#else
	use_bare_child();
#endif
}

/* A CQ whose events nobody could read is not made. */
TEST(no_channel)
{
	struct ibv_comp_channel wrong;
	RIG r;

	rig_open(&r, &(struct rig_attr){.events = true});
	wrong = *r.channel;
	for (int i = 0; i < 3; i++) {
		wrong.fd = (int[]){0, r.ctx->async_fd, INT_MAX}[i];
		CHECK(!ibv_create_cq(r.ctx, 8, NULL, &wrong, 0));
		CHECK_EQ(errno, EBADF);
	}
}

/* A duplicated completion channel still delivers events. */
TEST(duplicate_channel)
{
	int fd;

	rig_open_pair(&a, NULL, &b, &(struct rig_attr){.events = true});
	fd = dup(b.channel->fd);
	CHECK(fd >= 0 && !close(b.channel->fd));
	b.channel->fd = fd;
	CHECK(!ibv_req_notify_cq(b.rcq, 0));
	rig_recv(&b, 0, 0, 64);
	rig_send(&a, 8);
	rig_wait_ok(a.scq);
	rig_take_event(&b, b.rcq);
}

FABRIC_MAIN("commands");
