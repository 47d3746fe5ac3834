/* SPDX-License-Identifier: MIT */
/* Memory that can be registered, and regions whose memory is unmapped. */
#include <errno.h>

#include "rig.h"

#define PAGE 4096u
#define READS IBV_ACCESS_REMOTE_READ
#define WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct rig a, b;

static void refused(void *p, size_t len, int access)
{
	errno = 0;
	CHECK(!ibv_reg_mr(a.pd, p, len, access));
	CHECK_EQ(errno, EFAULT);
}

static void accepted(void *p, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(a.pd, p, len, access);

	CHECK(mr);
	CHECK(!ibv_dereg_mr(mr));
}

/* Four pages: one to read and write, one to read, one without access, one unmapped. */
TEST(protections)
{
	uint8_t *p = test_map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	rig_open_pair(&a, NULL, &b, NULL);
	CHECK(!mprotect(p + PAGE, PAGE, PROT_READ));
	CHECK(!mprotect(p + 2 * PAGE, PAGE, PROT_NONE));
	CHECK(!munmap(p + 3 * PAGE, PAGE));
	accepted(p, PAGE, WRITES);
	accepted(p + 100, 1, WRITES);
	accepted(p, 2 * PAGE, READS);
	accepted(p + PAGE, PAGE, 0);
	refused(p, PAGE + 1, WRITES);
	refused(p + PAGE, PAGE, WRITES);
	refused(p + PAGE, PAGE, IBV_ACCESS_LOCAL_WRITE);
	refused(p + PAGE, PAGE + 1, READS);
	refused(p + 2 * PAGE, 1, READS);
	refused(p + 2 * PAGE, 1, 0);
	refused(p + 3 * PAGE, 1, READS);
	CHECK(!munmap(p, 3 * PAGE));
}

/* Mappings that touch each other are one range. */
TEST(pieces)
{
	uint8_t *p = test_map(64 * PAGE, PROT_READ, MAP_PRIVATE);

	rig_open_pair(&a, NULL, &b, NULL);
	for (unsigned i = 0; i < 64; i += 2)
		CHECK(!mprotect(p + i * PAGE, PAGE, PROT_READ | PROT_WRITE));
	accepted(p, 64 * PAGE, READS);
	accepted(p + PAGE - 1, 62 * PAGE, READS);
	refused(p, 64 * PAGE, WRITES);
	CHECK(!munmap(p, 64 * PAGE));
}

/* As the manual says: the pages are not pinned. */
TEST(unmapped_later)
{
	uint8_t *p = test_map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct ibv_mr *mr;

	rig_open_pair(&a, NULL, &b, NULL);
	mr = ibv_reg_mr(b.pd, p, PAGE, WRITES);
	CHECK(mr && !munmap(p, PAGE));
	rig_request(&a, IBV_WR_RDMA_WRITE, 8,
		(struct rig_addr){.addr = (uintptr_t)p, .rkey = mr->rkey});
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_REM_OP_ERR);
	CHECK(!ibv_dereg_mr(mr));
}

FABRIC_MAIN("mr");
