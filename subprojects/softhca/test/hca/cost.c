/* SPDX-License-Identifier: MIT */
/*
 * Sends messages of 64 bytes between two QPs of one process, one after the other, for cost.py.
 *
 *	cost pass     WRITEs, and again WRITEs while IDLE more queues of each kind exist
 *	cost count    messages of each kind and registrations; callgrind counts each phase
 *	cost crowd    messages under the fabric's mutex (docs/locks.md), before and after OTHERS contexts
 *	              have sent messages
 *	cost time     prints the ns of a trap without an adapter, of a WRITE, of a WRITE_IMM, and of a list
 *	              of LIST WRITEs under one doorbell
 *	cost many N   prints the ns per registration, in the first and in the last tenth of N
 */
#include <signal.h>
#include <ucontext.h>

#include "rig.h"

#define COUNT 256u
#define IDLE 200u
#define REGIONS 64u
#define REGIONS_BETWEEN 1024u
#define OTHERS 58u
#define ROUNDS 9
#define TRAPS 20000u
#define MESSAGES 5000u
#define LIST 16u
#define LENGTH 64u
#define LONG 9000u /* copied without a lock */
#define STORE_BYTES 3 /* length of the instruction in trap() */

static struct rig a, b;
static struct ibv_mr *mrs[2 * REGIONS + REGIONS_BETWEEN];
static uint32_t registered;

/* Each phase is a function that callgrind finds by name: cost.py dumps the counts after it. */
#define PHASE __attribute__((noinline))

PHASE void phase_write(uint32_t n);
PHASE void phase_write_imm(uint32_t n);
PHASE void phase_send(uint32_t n);
PHASE void phase_register(uint32_t n);
PHASE void phase_atomic(uint32_t n);
PHASE void phase_long(uint32_t n);

void phase_write(uint32_t n)
{
	while (n--) {
		rig_write(&a, &b, LENGTH);
		rig_wait_ok(a.scq);
	}
}

void phase_write_imm(uint32_t n)
{
	while (n--) {
		rig_recv(&b, n, 0, LENGTH);
		rig_write_imm(&a, n, 0, LENGTH, rig_addr(&b));
		rig_wait_ok(a.scq);
		CHECK_EQ(rig_wait_ok(b.rcq).imm_data, n);
	}
}

void phase_send(uint32_t n)
{
	while (n--) {
		rig_recv(&b, n, 0, LENGTH);
		rig_send(&a, LENGTH);
		rig_wait_ok(a.scq);
		CHECK_EQ(rig_wait_ok(b.rcq).byte_len, LENGTH);
	}
}

void phase_register(uint32_t n)
{
	while (n--) {
		mrs[registered] = ibv_reg_mr(a.pd, a.buf, LENGTH, IBV_ACCESS_LOCAL_WRITE);
		CHECK(mrs[registered++]);
	}
}

void phase_atomic(uint32_t n)
{
	while (n--) {
		rig_request(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, rig_addr(&b));
		rig_wait_ok(a.scq);
	}
}

void phase_long(uint32_t n)
{
	while (n--) {
		rig_write(&a, &b, LONG);
		rig_wait_ok(a.scq);
	}
}

static void write_lists(uint32_t n)
{
	while (n--) {
		rig_write_list(&a, &b, LIST, LENGTH, 1);
		rig_wait_ok(a.scq);
	}
}

/* Sends messages under the mutex before and after OTHERS contexts have each sent a message. */
static void crowd(void)
{
	struct rig others[OTHERS];

	phase_atomic(COUNT);
	phase_long(COUNT);
	for (uint32_t i = 0; i < OTHERS; i++) {
		rig_open(&others[i], NULL);
		rig_connect(&others[i], rig_addr(&others[i]), (struct rig_timers){0});
		rig_write(&others[i], &others[i], LENGTH);
		rig_wait_ok(others[i].scq);
	}
	phase_atomic(COUNT);
	phase_atomic(COUNT);
	phase_long(COUNT);
	for (uint32_t i = 0; i < OTHERS; i++)
		rig_close(&others[i]);
}

static void pass(void)
{
	struct ibv_cq *idle_cqs[IDLE];
	struct ibv_qp *idle_qps[IDLE];

	phase_write(COUNT);
	for (uint32_t i = 0; i < IDLE; i++) {
		idle_qps[i] = rig_qp(&a);
		idle_cqs[i] = ibv_create_cq(a.ctx, 1, NULL, a.channel, 0);
		CHECK(idle_cqs[i] && !ibv_req_notify_cq(idle_cqs[i], 0));
	}
	phase_write(COUNT);
	for (uint32_t i = 0; i < IDLE; i++)
		CHECK(!ibv_destroy_qp(idle_qps[i]) && !ibv_destroy_cq(idle_cqs[i]));
}

static void count(void)
{
	phase_write(COUNT);
	phase_write_imm(COUNT);
	phase_send(COUNT);
	phase_register(REGIONS);
	phase_register(REGIONS_BETWEEN);
	phase_register(REGIONS);
	while (registered)
		CHECK(!ibv_dereg_mr(mrs[--registered]));
}

static void skip_store(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;

	uc->uc_mcontext.gregs[REG_RIP] += STORE_BYTES;
}

/* Stores to a page that cannot be written: raises the signal, and returns from its handler. */
static void trap(void *page)
{
	__asm__ volatile("movq %%rcx, (%%rax)" ::"a"(page), "c"(1ull) : "memory");
}

static double ns_per_trap(void)
{
	struct sigaction sa = {.sa_sigaction = skip_store, .sa_flags = SA_SIGINFO | SA_NODEFER},
			 old;
	void *page = test_map(4096, PROT_READ, MAP_PRIVATE);
	uint64_t start;

	CHECK(!sigaction(SIGSEGV, &sa, &old));
	start = test_now_ns();
	for (uint32_t i = 0; i < TRAPS; i++)
		trap(page);
	start = test_now_ns() - start;
	CHECK(!sigaction(SIGSEGV, &old, NULL));
	CHECK(!munmap(page, 4096));
	return (double)start / TRAPS;
}

static double ns_per_message(void (*phase)(uint32_t n))
{
	uint64_t start = test_now_ns();

	phase(MESSAGES);
	return (double)(test_now_ns() - start) / MESSAGES;
}

static double register_for(uint32_t n)
{
	uint64_t start = test_now_ns();

	while (n--)
		CHECK(ibv_reg_mr(a.pd, a.buf, LENGTH, IBV_ACCESS_LOCAL_WRITE));
	return (double)(test_now_ns() - start);
}

static void register_many(uint32_t n)
{
	double first, last;

	first = register_for(n / 10) / (n / 10);
	register_for(n - 2 * (n / 10));
	last = register_for(n / 10) / (n / 10);
	printf("%.0f %.0f\n", first, last);
	exit(0); /* the HCA frees the regions */
}

int main(int argc, char **argv)
{
	bool times = argc > 1 && !strcmp(argv[1], "time");
	bool passes = argc > 1 && !strcmp(argv[1], "pass");
	bool crowds = argc > 1 && !strcmp(argv[1], "crowd");
	double trap_ns[ROUNDS], write_ns[ROUNDS], imm_ns[ROUNDS], list_ns[ROUNDS];

	test_fabric("cost");
	if (times) { /* before the HCA installs its handler of SIGSEGV */
		for (int i = 0; i < ROUNDS; i++)
			trap_ns[i] = ns_per_trap();
	}
	rig_open_pair(&a, &(struct rig_attr){.events = passes}, &b, NULL);
	if (argc > 2)
		register_many((uint32_t)atoi(argv[2]));
	if (times) {
		for (int i = 0; i < ROUNDS; i++) {
			write_ns[i] = ns_per_message(phase_write);
			imm_ns[i] = ns_per_message(phase_write_imm);
			list_ns[i] = ns_per_message(write_lists);
		}
		printf("%.0f %.0f %.0f %.0f\n", test_median(trap_ns, ROUNDS),
			test_median(write_ns, ROUNDS), test_median(imm_ns, ROUNDS),
			test_median(list_ns, ROUNDS));
	} else if (passes) {
		pass();
	} else if (crowds) {
		crowd();
	} else {
		count();
	}
	rig_close_pair(&a, &b);
	return 0;
}
