/* SPDX-License-Identifier: MIT */
/*
 * Doorbells are SIGSEGVs that the program never gets, however it uses the signal itself: with
 * handlers on an alternate stack (above all for a stack overflow), one-shot handlers, masks,
 * threads that start with all signals blocked, or children that use objects of their parent. Each
 * case runs in a child, and its exit status is the result.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

#define ALT_STACK 8192u /* as programs choose it: less than a message needs */
#define PAGE 4096u
#define OK 42

static struct rig a, b;

static void open_pair(void)
{
	rig_open_pair(&a, NULL, &b, &(struct rig_attr){.srq = true});
}

/* Sends one message. With the SRQ, the HCA reads receives ahead, which uses more of the stack. */
static void message(uint32_t n)
{
	rig_recv(&b, n, 0, 64);
	rig_fill(a.buf, 64, n);
	rig_send(&a, 64);
	CHECK_EQ(rig_wait_ok(b.rcq).wr_id, n);
	rig_wait_ok(a.scq);
	CHECK(rig_same(b.buf, 64, n));
}

static sigjmp_buf out;
static volatile sig_atomic_t handled;
static uint8_t *alt;

/* Sets an alternate stack, with a page below it that cannot be written. */
static void set_alt_stack(void)
{
	stack_t st = {.ss_size = ALT_STACK};

	alt = test_map(PAGE + ALT_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	CHECK(!mprotect(alt, PAGE, PROT_NONE));
	st.ss_sp = alt + PAGE;
	CHECK(!sigaltstack(&st, NULL));
}

static void set_handler(void (*fn)(int, siginfo_t *, void *), int flags, int masked)
{
	struct sigaction sa = {.sa_sigaction = fn, .sa_flags = SA_SIGINFO | flags};

	sigemptyset(&sa.sa_mask);
	if (masked)
		sigaddset(&sa.sa_mask, masked);
	CHECK(!sigaction(SIGSEGV, &sa, NULL));
}

static void jump_out(int sig, siginfo_t *si, void *uc)
{
	handled++;
	siglongjmp(out, 1);
}

/* Only recurse() reads it. The load is atomic so that the compiler cannot assume its result. */
static _Atomic bool deeper = true;
static int *nowhere; /* a page without access */

static uint64_t __attribute__((noinline)) recurse(uint64_t n)
{
	volatile uint8_t frame[PAGE];

	frame[n % PAGE] = (uint8_t)n;
	return atomic_load_explicit(&deeper, memory_order_relaxed) ?
		       recurse(n + 1) + frame[n % PAGE] :
		       n;
}

static void fault(void)
{
	__atomic_store_n(nowhere, 1, __ATOMIC_RELAXED); /* not optimised away */
}

/* The copy of the payload faults, so a signal arrives in the handler of the doorbell's signal. */
static void message_from_nowhere(void)
{
	void *p = test_map(PAGE, PROT_READ, MAP_PRIVATE);
	struct ibv_mr *mr = ibv_reg_mr(a.pd, p, PAGE, 0);

	CHECK(mr && !munmap(p, PAGE));
	rig_post(&a, &(struct rig_wr){.op = IBV_WR_RDMA_WRITE,
			     .flags = IBV_SEND_SIGNALED,
			     .len = 64,
			     .laddr = (uintptr_t)p,
			     .lkey = mr->lkey,
			     .raddr = (uintptr_t)b.buf,
			     .rkey = b.mr->rkey});
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_LOC_PROT_ERR);
}

static void overflow(bool first)
{
	set_alt_stack();
	if (first)
		set_handler(jump_out, SA_ONSTACK, 0);
	open_pair();
	if (!first)
		set_handler(jump_out, SA_ONSTACK, 0);
	for (uint32_t n = 0; n < 4; n++) {
		message(n);
		if (!sigsetjmp(out, 1))
			recurse(0);
		CHECK_EQ(handled, (int)n + 1);
	}
	message(9);
	message_from_nowhere();
	if (!sigsetjmp(out, 1))
		recurse(0);
	CHECK_EQ(handled, 5);
	exit(OK);
}

static void overflow_before(void)
{
	overflow(true);
}

static void overflow_after(void)
{
	overflow(false);
}

static void once(int sig, siginfo_t *si, void *uc)
{
	struct sigaction sa;

	handled++;
	CHECK(!sigaction(SIGSEGV, NULL, &sa));
	CHECK(sa.sa_handler == SIG_DFL);
}

/* The handler returns, so the instruction faults again, which ends the process. */
static void reset_hand(void)
{
	open_pair();
	set_handler(once, SA_RESETHAND, 0);
	message(1);
	fault();
}

static bool is_blocked(int sig)
{
	sigset_t set;

	CHECK(!pthread_sigmask(SIG_SETMASK, NULL, &set));
	return sigismember(&set, sig);
}

static void look_and_jump(int sig, siginfo_t *si, void *uc)
{
	handled = is_blocked(SIGUSR1) && !is_blocked(SIGUSR2);
	siglongjmp(out, 1);
}

/*
 * In the handler the signals of its mask are blocked and no others, and a jump out of it blocks no
 * others either.
 */
static void masks(void)
{
	open_pair();
	set_handler(look_and_jump, SA_NODEFER, SIGUSR1);
	if (!sigsetjmp(out, 0))
		fault();
	CHECK(handled);
	CHECK(!is_blocked(SIGUSR2));
	message(1);
	exit(OK);
}

static void *in_thread(void *arg)
{
	message(1);
	return NULL;
}

static void blocked_thread(void)
{
	pthread_attr_t attr;
	pthread_t t;
	sigset_t all;

	open_pair();
	sigfillset(&all);
	CHECK(!pthread_attr_init(&attr));
	CHECK(!pthread_attr_setsigmask_np(&attr, &all));
	CHECK(!pthread_create(&t, &attr, in_thread, NULL));
	CHECK(!pthread_join(t, NULL));
	exit(OK);
}

/* The program that executed this one may have left the signals blocked. */
static void blocked_from_the_start(void)
{
	sigset_t set;

	/* Not by libc's function, which the library interposes. */
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	CHECK(!syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 8));
	open_pair();
	message(1);
	exit(OK);
}

/*
 * <signal.h> warns about the use of some of these. A program in strict C has the first as signal().
 */
typedef void (*setter)(int, void (*)(int));
void by_sysv(int, void (*)(int)) __asm__("__sysv_signal");
void by_sysv_too(int, void (*)(int)) __asm__("sysv_signal");
void by_bsd(int, void (*)(int)) __asm__("bsd_signal");
void by_ssignal(int, void (*)(int)) __asm__("ssignal");
void by_sigset(int, void (*)(int)) __asm__("sigset");
void by_sigignore(int) __asm__("sigignore");
void by_sighold(int) __asm__("sighold");
int by_sigblock(int) __asm__("sigblock");
int by_sigsetmask(int) __asm__("sigsetmask");

static void count(int sig)
{
	handled++;
}

/* The functions whose mask is one word. */
static void masks_of_words(void)
{
	const int usr1 = 1 << (SIGUSR1 - 1), segv = 1 << (SIGSEGV - 1);

	CHECK_EQ(by_sigsetmask(0), 0);
	CHECK_EQ(by_sigblock(usr1 | segv), 0);
	CHECK(is_blocked(SIGUSR1) && !is_blocked(SIGSEGV));
	CHECK_EQ(by_sigblock(0), usr1);
	CHECK_EQ(by_sigsetmask(~usr1), usr1);
	CHECK(!is_blocked(SIGUSR1) && is_blocked(SIGUSR2) && !is_blocked(SIGSEGV));
	CHECK(!is_blocked(SIGBUS) && !is_blocked(SIGTRAP));
	CHECK(by_sigsetmask(0) & 1 << (SIGUSR2 - 1));
}

/* The other functions that set handlers and masks. */
static void old_functions(void)
{
	static const setter setters[] = {by_sysv, by_sysv_too, by_bsd, by_ssignal, by_sigset};

	open_pair();
	for (uint32_t i = 0; i < ARRAY_SIZE(setters); i++) {
		setters[i](SIGSEGV, count);
		message(i);
		CHECK_EQ(handled, (int)i);
		CHECK(!raise(SIGSEGV));
		CHECK_EQ(handled, (int)i + 1);
	}
	by_sighold(SIGSEGV);
	by_sigset(SIGSEGV, SIG_HOLD);
	CHECK(!is_blocked(SIGSEGV));
	CHECK(!raise(SIGSEGV));
	CHECK_EQ(handled, (int)ARRAY_SIZE(setters) + 1);
	by_sigignore(SIGSEGV);
	CHECK(!raise(SIGSEGV));
	message(9);
	masks_of_words();
	message(10);
	exit(OK);
}

static void one_shot_sysv(void)
{
	open_pair();
	by_sysv(SIGSEGV, count);
	CHECK(!raise(SIGSEGV));
	message(1);
	raise(SIGSEGV);
}

static void ignored(void)
{
	open_pair();
	signal(SIGSEGV, SIG_IGN);
	CHECK(!raise(SIGSEGV));
	message(1);
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

/* If the library discarded the signal, execution would continue after the breakpoint. */
static void breakpoint(void)
{
	open_pair();
	message(1);
	__asm__ volatile("int3");
	exit(OK);
}

static void ignored_breakpoint(void)
{
	open_pair();
	signal(SIGTRAP, SIG_IGN);
	CHECK(!raise(SIGTRAP));
	__asm__ volatile("int3");
	exit(OK);
}

/* A child that uses what its parent has opened prints a line, and ends by SIGABRT. */
static void inherited(void)
{
	pid_t pid;

	open_pair();
	message(1);
	pid = test_fork();
	if (!pid) {
		message(2);
		exit(0);
	}
	CHECK_EQ(test_reap(pid), 128 + SIGABRT);
	message(3);
	exit(OK);
}

/* A child of vfork() resets its own action of a signal, and not that of its parent. */
static void reset_in_vfork_child(void)
{
	pid_t pid;

	open_pair();
	message(1);
	handled = 0;
	signal(SIGTRAP, count);
	pid = vfork();
	if (!pid)
		_exit(signal(SIGTRAP, SIG_DFL) == SIG_ERR);
	CHECK_EQ(test_reap(pid), 0);
	CHECK(!raise(SIGTRAP));
	CHECK_EQ(handled, 1);
	message(2);
	exit(OK);
}

/*
 * A child made by the bare system call, so that no handler of fork() runs, does not take its parent
 * out of the fabric when it exits, and does not close its parent's devices.
 */
static void bare_child(void)
{
	struct softhca_fabric_info info;
	pid_t pid;

	open_pair();
	pid = (pid_t)syscall(SYS_fork);
	if (!pid)
		exit(close(a.ctx->cmd_fd));
	CHECK_EQ(test_reap(pid), 0);
	CHECK_EQ(softhca_fabric_info(&info), 0);
	CHECK_EQ(info.processes, 1);
	message(1);
	exit(OK);
}

static void join_and_leave(void)
{
	open_pair();
	rig_close_pair(&a, &b);
	exit(OK);
}

/* The fabric of a killed process stays until another member leaves. */
static void ends(void (*fn)(void), int status)
{
	CHECK_EQ(rig_child(fn, NULL), status);
	CHECK_EQ(rig_child(join_and_leave, NULL), OK);
}

TEST_WITH(handler_before, ends, overflow_before, OK);
TEST_WITH(handler_after, ends, overflow_after, OK);
TEST_WITH(one_shot, ends, reset_hand, 128 + SIGSEGV);
TEST_WITH(masks_in_handler, ends, masks, OK);
TEST_WITH(blocked_in_thread, ends, blocked_thread, OK);
TEST_WITH(blocked_at_start, ends, blocked_from_the_start, OK);
TEST_WITH(old_functions_of_signals, ends, old_functions, OK);
TEST_WITH(one_shot_of_strict_c, ends, one_shot_sysv, 128 + SIGSEGV);
TEST_WITH(ignored_signal, ends, ignored, 128 + SIGSEGV);
TEST_WITH(breakpoint_without_handler, ends, breakpoint, 128 + SIGTRAP);
TEST_WITH(breakpoint_with_ignored_signal, ends, ignored_breakpoint, 128 + SIGTRAP);
TEST_WITH(vfork_child, ends, reset_in_vfork_child, OK);

TEST(inherited_device)
{
	CHECK_EQ(rig_child(inherited, "opened by its parent"), OK);
}

TEST(child_of_the_bare_system_call)
{
#ifdef __SANITIZE_THREAD__
	(void)bare_child; /* the sanitizer supports only children of fork() */
#else
	CHECK_EQ(rig_child(bare_child, NULL), OK);
#endif
}

int main(int argc, char **argv)
{
	test_fabric("signals");
	nowhere = test_map(PAGE, PROT_NONE, MAP_PRIVATE);
	return test_main(argc, argv);
}
