/* SPDX-License-Identifier: MIT */
/*
 * Memory regions of dma-bufs: a udmabuf where the kernel has them, and everywhere a memfd that
 * stands in for one. For the memfd's descriptor, fstatfs() is trapped and reports a dma-buf. Like a
 * udmabuf, a memfd has a size and can be mapped. An empty memfd, for which lseek() is trapped and
 * reports a size, stands in for a dma-buf that can be mapped, but whose pages other processes
 * cannot access.
 *
 * The errors are those that the kernel finds in drivers/dma-buf/dma-buf.c (the descriptor) and in
 * drivers/infiniband/core/umem_dmabuf.c (the bounds).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <linux/udmabuf.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <ucontext.h>

#include "command.h"
#include "rig.h"

#define PAGE 4096u
#define PAGES 4u
#define STAND_IN 900 /* descriptor of the memfd that stands in for a dma-buf */
#define NO_PAGES 901 /* descriptor of a dma-buf whose pages cannot be accessed */
#define IOVA 0x10000000u
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct rig a, b;

static int sealed_memfd(void)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && !ftruncate(fd, PAGES * PAGE));
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

static void answer(int sig, siginfo_t *si, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	if (si->si_syscall == SYS_fstatfs)
		*(struct statfs *)regs[REG_RSI] = (struct statfs){.f_type = DMA_BUF_MAGIC};
	regs[REG_RAX] = si->si_syscall == SYS_fstatfs ? 0 : PAGES * PAGE;
}

/* Traps fstatfs() of both descriptors, and lseek() of NO_PAGES. */
static void stand_in(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstatfs, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_lseek, 2, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, STAND_IN, 2, 1),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NO_PAGES, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {ARRAY_SIZE(code), code};
	struct sigaction sa = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
	int fd = sealed_memfd(), empty = memfd_create("empty", MFD_CLOEXEC);

	CHECK_EQ(dup2(fd, STAND_IN), STAND_IN);
	CHECK_EQ(dup2(empty, NO_PAGES), NO_PAGES);
	CHECK(!close(fd) && !close(empty) && !sigaction(SIGSYS, &sa, NULL));
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
}

/* Returns a udmabuf, or -1 where the kernel has none. */
static int udmabuf(void)
{
	struct udmabuf_create create = {.flags = UDMABUF_FLAGS_CLOEXEC, .size = PAGES * PAGE};
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;

	if (dev < 0)
		return -1;
	create.memfd = (uint32_t)sealed_memfd();
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	CHECK(fd >= 0 && !close((int)create.memfd) && !close(dev));
	return fd;
}

static void refused(uint64_t offset, size_t length, int fd, int error)
{
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(a.pd, offset, length, IOVA + offset, fd, ALL));
	CHECK_EQ(errno, error);
}

static int mappings_of(int fd)
{
	char inode[32];
	struct stat st;

	CHECK(!fstat(fd, &st));
	snprintf(inode, sizeof(inode), " %lu ", (unsigned long)st.st_ino);
	return rig_mappings(getpid(), inode);
}

static struct ibv_mr *of_dmabuf(struct rig *r, uint64_t offset, size_t length, int fd, int access)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(r->pd, offset, length, IOVA + offset, fd, access);

	CHECK(mr);
	return mr;
}

/* Writes 64 bytes to @addr of the region. */
static enum ibv_wc_status write_to(uint64_t addr, const struct ibv_mr *mr)
{
	rig_request(&a, IBV_WR_RDMA_WRITE, 64, (struct rig_addr){.addr = addr, .rkey = mr->rkey});
	return rig_wait(a.scq).status;
}

/* The bytes of a WRITE are in the buffer, and a region may begin within a page. */
static void reached(int fd)
{
	uint8_t *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int before = mappings_of(fd);
	struct ibv_mr *mr;

	CHECK(p != MAP_FAILED);
	rig_open_pair(&a, NULL, &b, NULL);
	rig_fill(a.buf, 64, 7);
	mr = of_dmabuf(&b, PAGE + 100, 2 * PAGE, fd, ALL);
	CHECK_EQ(write_to(IOVA + PAGE + 128, mr), IBV_WC_SUCCESS);
	CHECK(rig_same(p + PAGE + 128, 64, 7));
	CHECK_EQ(write_to(IOVA + 3 * PAGE + 100 - 64, mr), IBV_WC_SUCCESS);
	CHECK(rig_same(p + 3 * PAGE + 100 - 64, 64, 7));
	CHECK_EQ(mappings_of(fd), before + 1);
	CHECK(!ibv_dereg_mr(mr));
	CHECK_EQ(mappings_of(fd), before);
	mr = of_dmabuf(&b, PAGE, PAGE, fd, ALL);
	CHECK_EQ(write_to(IOVA + 2 * PAGE - 63, mr), IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!munmap(p, PAGES * PAGE));
}

/* The region of a device that is closed is unmapped. */
static void closed(int fd)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	rig_open(&a, NULL);
	ctx = ibv_open_device(a.ctx->device);
	CHECK(ctx);
	pd = ibv_alloc_pd(ctx);
	CHECK(pd);
	mr = ibv_reg_dmabuf_mr(pd, 0, PAGE, IOVA, fd, ALL);
	CHECK(mr && mappings_of(fd) == 1);
	CHECK(!ibv_close_device(ctx));
	CHECK_EQ(mappings_of(fd), 0);
	free(mr); /* the library cannot free it after the device is closed */
	free(pd);
}

/*
 * When a region of a dma-buf is re-registered with an address, it becomes a region of the program's
 * memory. libibverbs refuses this, so the test writes the command itself.
 */
static void moved(int fd)
{
	int before = mappings_of(fd);
	struct ib_uverbs_rereg_mr_resp resp;
	struct ib_uverbs_rereg_mr req;
	struct ibv_mr *mr;
	uint8_t *p = test_map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	rig_open_pair(&a, NULL, &b, NULL);
	rig_fill(a.buf, 64, 8);
	mr = of_dmabuf(&b, 0, PAGE, fd, ALL);
	req = (struct ib_uverbs_rereg_mr){.mr_handle = mr->handle,
		.flags = IBV_REREG_MR_CHANGE_TRANSLATION,
		.start = (uintptr_t)p,
		.length = PAGE,
		.hca_va = (uintptr_t)p};
	CHECK_EQ(command_write(b.ctx, IB_USER_VERBS_CMD_REREG_MR, &req, sizeof(req), NULL, 0, &resp,
			 sizeof(resp)),
		0);
	CHECK_EQ(mappings_of(fd), before);
	CHECK_EQ(write_to((uintptr_t)p, mr), IBV_WC_SUCCESS);
	CHECK(rig_same(p, 64, 8));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(rig_same(p, 64, 8)); /* still mapped */
	CHECK(!munmap(p, PAGE));
}

/* The region must lie within the buffer, and must not be empty. */
static void bounds(int fd)
{
	rig_open(&a, NULL);
	refused(0, PAGES * PAGE + 1, fd, EINVAL);
	refused((PAGES - 1) * PAGE, 2 * PAGE, fd, EINVAL);
	refused(PAGES * PAGE, 1, fd, EINVAL);
	refused(0, 0, fd, EINVAL);
	CHECK(!ibv_dereg_mr(of_dmabuf(&a, 0, PAGES * PAGE, fd, 0)));
	CHECK_EQ(mappings_of(fd), 0);
}

/* Files of other kinds are refused. A descriptor that was opened with O_PATH counts as closed. */
TEST(other_kinds)
{
	int fds[2], path = open("/", O_PATH | O_CLOEXEC), dir = open("/", O_RDONLY | O_CLOEXEC);
	int memfd = sealed_memfd();

	CHECK(!pipe(fds) && path >= 0 && dir >= 0);
	rig_open(&a, NULL);
	refused(0, PAGE, memfd, EINVAL);
	refused(0, PAGE, dir, EINVAL);
	refused(0, PAGE, fds[0], EINVAL);
	refused(0, PAGE, a.ctx->cmd_fd, EINVAL);
	refused(0, PAGE, path, EBADF);
	CHECK(!close(memfd) && !close(dir) && !close(path) && !close(fds[0]) && !close(fds[1]));
}

static void all(int fd)
{
	bounds(fd);
	reached(fd);
	moved(fd);
	closed(fd);
}

TEST(not_accessible)
{
	rig_open(&a, NULL);
	refused(0, PAGE, NO_PAGES, EOPNOTSUPP);
	CHECK_EQ(mappings_of(NO_PAGES), 0);
}

TEST_WITH(memfd_as_dmabuf, all, STAND_IN);

TEST(real_udmabuf)
{
	int fd = udmabuf();

	if (fd < 0) {
		fprintf(stderr, "the kernel has no udmabuf\n");
		return;
	}
	all(fd);
	CHECK(!close(fd));
}

int main(int argc, char **argv)
{
	test_fabric("dmabuf");
	stand_in();
	return test_main(argc, argv);
}
