/* SPDX-License-Identifier: MIT */
/*
 * Executes each store on a page without access, decodes it in the SIGSEGV handler,
 * lets the processor execute it too, and compares what was decoded with the bytes
 * that changed and with the instruction's length.
 */
#include "trap/decode_x86.h"

#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"
#include "stores.h"

#define PAGE 4096u

static uint8_t *const low_page = (uint8_t *)LOW_PAGE;
static volatile sig_atomic_t faults;
static const uint8_t *fault_ip;
static uint8_t *fault_addr;
static struct softhca_store decoded;
static int decode_rc;
static uint8_t source[PAGE]; /* what string instructions read */

/* splitmix64, so that a printed seed gives the same run again */
static uint64_t seed;

static uint64_t rnd(void)
{
	uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void rnd_fill(void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)rnd();
}

static void protect(int prot)
{
	if (mprotect(store_page, PAGE, prot) || mprotect(low_page, PAGE, prot))
		_exit(3);
}

static void on_fault(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;

	if (++faults > 1) /* the repeated store must not fault */
		_exit(4);
	fault_addr = si->si_addr;
	fault_ip = (const uint8_t *)uc->uc_mcontext.gregs[REG_RIP];
	decode_rc = softhca_store_decode(uc, (uintptr_t)si->si_addr, &decoded);
	protect(PROT_READ | PROT_WRITE);
}

static bool have(enum isa isa)
{
	unsigned int a, b = 0, c = 0, d;

	switch (isa) {
	case ISA_AVX:
		return __builtin_cpu_supports("avx2");
	case ISA_AVX512:
		return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
	case ISA_MOVBE:
		return __get_cpuid(1, &a, &b, &c, &d) && c & bit_MOVBE;
	case ISA_MOVDIR:
		return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & 1u << 27 && c & 1u << 28;
	default:
		return true;
	}
}

static void set_state(bool clear)
{
	static const uint8_t address_regs[] = {7, 3, 5, 4, 12, 13};
	static const uint8_t index_regs[] = {1, 9};

	rnd_fill(&store_state, sizeof(store_state));
	for (size_t i = 0; i < sizeof(address_regs); i++) /* aligned to 64 for movaps and similar */
		store_state.gpr[address_regs[i]] = (uintptr_t)store_page + 1024 + 64 * (rnd() % 24);
	for (size_t i = 0; i < sizeof(index_regs); i++)
		store_state.gpr[index_regs[i]] = 1 + rnd() % 15;
	store_state.gpr[6] = (uintptr_t)source;
	store_state.vec_isa = have(ISA_AVX512) ? ISA_AVX512 : have(ISA_AVX) ? ISA_AVX : ISA_BASE;
	store_state.vec_clear = clear;
}

static void run(const struct store_form *f, bool clear)
{
	static uint8_t before[PAGE], low_before[PAGE];
	uint8_t *page;

	set_state(clear);
	protect(PROT_READ | PROT_WRITE);
	rnd_fill(store_page, PAGE);
	rnd_fill(low_page, PAGE);
	memcpy(before, store_page, PAGE);
	memcpy(low_before, low_page, PAGE);
	faults = 0;
	protect(PROT_NONE);
	store_run(f->start);
	CHECK_EQ(faults, 1);
	CHECK(fault_ip == f->start);
	CHECK_EQ(decode_rc, f->known ? 0 : -ENOTSUP);
	if (!f->known)
		return;
	CHECK_EQ(decoded.length, f->end - f->start);
	CHECK(decoded.size >= 1 && decoded.size <= 64);
	page = fault_addr >= low_page && fault_addr < low_page + PAGE ? low_before : before;
	memcpy(page + ((uintptr_t)fault_addr & (PAGE - 1)), decoded.bytes, decoded.size);
	CHECK(!memcmp(before, store_page, PAGE));
	CHECK(!memcmp(low_before, low_page, PAGE));
}

static void on_fault_across(int sig, siginfo_t *si, void *context)
{
	on_fault(sig, si, context);
	if (mprotect(store_page + PAGE, PAGE, PROT_READ | PROT_WRITE))
		_exit(3);
}

static void handle(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	CHECK(!sigaction(SIGSEGV, &sa, NULL));
}

static void signal_stack(void)
{
	static uint8_t memory[65536];
	stack_t ss = {.ss_sp = memory, .ss_size = sizeof(memory)};

	CHECK(!sigaltstack(&ss, NULL)); /* some forms use RSP as an address */
}

TEST(each_form)
{
	const struct store_form *f;
	int known = 0, unknown = 0, skipped = 0;

	handle(on_fault);
	for (f = __start_store_forms; f < __stop_store_forms; f++) {
		if (!have(f->isa)) {
			skipped++;
			continue;
		}
		printf("%s\n", f->text);
		fflush(stdout);
		for (int round = 0; round < 20; round++)
			run(f, round & 1);
		*(f->known ? &known : &unknown) += 1;
	}
	printf("%d forms decoded, %d left to the processor, %d not on this processor\n", known,
		unknown, skipped);
}

/* A store that begins before the address of the fault, on the page before, is not decoded. */
TEST(across)
{
	handle(on_fault_across);
	set_state(false);
	CHECK(!mprotect(store_page, 2 * PAGE, PROT_READ | PROT_WRITE));
	CHECK(!mprotect(store_page + PAGE, PAGE, PROT_NONE));
	store_state.gpr[7] = (uintptr_t)store_page + PAGE - 2;
	faults = 0;
	store_run(__start_store_forms->start); /* movl %eax, (%rdi) */
	CHECK_EQ(faults, 1);
	CHECK(fault_addr == store_page + PAGE);
	CHECK_EQ(decode_rc, -ENOTSUP);
}

int main(int argc, char **argv)
{
	const char *env = getenv("TEST_SEED");

	seed = env ? strtoull(env, NULL, 0) : (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
	printf("TEST_SEED=%llu\n", (unsigned long long)seed);
	CHECK(mmap(low_page, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		      0) == low_page);
	signal_stack();
	return test_main(argc, argv);
}
