/* SPDX-License-Identifier: MIT */
/*
 * Memory of a GPU that adapters access directly, as dma-bufs. The software GPU exports a memfd in
 * place of a dma-buf. Where fstatfs() is trapped, the software HCA treats the memfd as a dma-buf.
 * Elsewhere the software HCA refuses the memory, and tent stages its bytes in host memory.
 */
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <ucontext.h>

#include "gpuduo.h"

#define LEN (3 * MIB + 123)

static void answer(int sig, siginfo_t *si, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	*(struct statfs *)regs[REG_RSI] = (struct statfs){.f_type = DMA_BUF_MAGIC};
	regs[REG_RAX] = 0;
}

/* From now on fstatfs() reports that every descriptor is a dma-buf, here and in children. */
static void trap(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstatfs, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {ARRAY_SIZE(code), code};
	struct sigaction sa = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};

	CHECK_EQ(sigaction(SIGSYS, &sa, NULL), 0);
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

/* Moves all bytes there and back. */
static void both_ways(void)
{
	part_fill(&d.mine, 0, LEN, 1);
	CHECK_EQ(duo_move(TENT_WRITE, 0, LEN), 0);
	CHECK_EQ(duo_ask(HAS, 0, LEN, 1), 1);
	part_fill(&d.mine, 0, LEN, 2);
	CHECK_EQ(duo_move(TENT_READ, 0, LEN), 0);
	CHECK(part_has(&d.mine, 0, LEN, 1));
}

static void direct(uint64_t parts)
{
	trap();
	duo_open(&(struct duo_attr){.len = LEN, .before = 256, .parts = parts});
	CHECK(!strstr(d.text, "staged") && strstr(d.text, "\"location\":\"cuda:0\""));
	both_ways();
	CHECK_EQ(gpu.softgpu_copies(), 0);
	CHECK_EQ(duo_ask(UNREGISTER, 0, 0, 0), 0);
	CHECK_EQ(tent_release(d.s), 0);
}

GPU_TEST_WITH(adapters_access_the_memory, direct, 0);
GPU_TEST_WITH(in_parts, direct, MIB);

/* Checks that registered memory of the GPU is staged, and that the reason contains @words. */
static void staged(const char *words)
{
	struct tent *t = duo_create(0, 0);
	struct tent_why why = {""};
	void *m = (void *)(uintptr_t)gpu_alloc(LEN);
	char *text;

	CHECK_EQ(tent_register(t, m, LEN, NULL, &why), 0);
	duo_says(&why, words);
	CHECK_EQ(tent_export(t, &text), 0);
	CHECK(strstr(text, "\"staged\":true"));
	free(text);
	tent_destroy(t);
}

GPU_TEST(an_adapter_refuses_it)
{
	gpu_open();
	if (gpu_is_soft())
		staged("staged: an adapter does not register the dma-buf: ");
}

GPU_TEST(the_driver_refuses_it)
{
	gpu_open();
	if (!gpu_is_soft())
		return;
	gpu.softgpu_fail_call("cuMemGetHandleForAddressRange", CU_NOT_SUPPORTED);
	staged("staged: no dma-buf of the memory: ");
}
