/* SPDX-License-Identifier: MIT */
#include "trap/signals.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "dma/dma.h"
#include "dma/pool.h"
#include "fabric/fabric.h"
#include "hca/objects.h"
#include "sched/doors.h"
#include "sched/sched.h"
#include "sys/sys.h"
#include "trap/decode_x86.h"
#include "trap/device.h"
#include "trap/pages.h"
#include "trap/stack.h"
#include "trap/step.h"
#include "trap/trap.h"

#define SIGNALS 3
#define KERNEL_SIGSET 8 /* bytes of the kernel's signal set */

static const int signals[SIGNALS] = {SIGSEGV, SIGBUS, SIGTRAP};

/* An action that the program has set. */
struct action {
	_Atomic uintptr_t handler;
	_Atomic int flags;
	_Atomic uint64_t mask;
	atomic_bool spent; /* SA_RESETHAND: the handler has been called */
};

/*
 * The current action is slots[seq % 2]. A writer fills the other slot and then increments seq. A
 * reader that finds seq changed reads again. So neither side waits for the other.
 */
static struct chain {
	_Atomic uint32_t seq;
	struct action slots[2];
} chains[SIGNALS];

static pthread_mutex_t chain_lock = PTHREAD_MUTEX_INITIALIZER; /* serialises writers */
static atomic_bool installed;

/*
 * libc's own sigaction(). The sigaction() of a sanitizer would make the sanitizer call the handler,
 * which is wrong for a store to a device. Set before the handlers are installed.
 */
static int (*libc_sigaction)(int, const struct sigaction *, struct sigaction *);

static int signal_index(int sig)
{
	return sig == SIGSEGV ? 0 : sig == SIGBUS ? 1 : 2;
}

static void put_action(struct chain *c, const struct sigaction *sa)
{
	uint32_t seq = atomic_load_explicit(&c->seq, memory_order_relaxed);
	struct action *a = &c->slots[(seq + 1) % 2];
	uint64_t mask;

	memcpy(&mask, &sa->sa_mask, sizeof(mask));
	/*
	 * Pairs with the fence in get_action(): a reader that sees one of the new values below also
	 * sees that seq has changed.
	 */
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&a->handler, (uintptr_t)sa->sa_handler, memory_order_relaxed);
	atomic_store_explicit(&a->flags, sa->sa_flags, memory_order_relaxed);
	atomic_store_explicit(&a->mask, mask, memory_order_relaxed);
	atomic_store_explicit(&a->spent, false, memory_order_relaxed);
	/* Pairs with the acquire in get_action(): the slot is complete. */
	atomic_store_explicit(&c->seq, seq + 1, memory_order_release);
}

/* Reads the action. Signal safe. Returns the slot that was read. */
static struct action *get_action(struct chain *c, struct sigaction *sa)
{
	struct action *a;
	uint64_t mask;
	uint32_t seq;

	memset(sa, 0, sizeof(*sa));
	do {
		/* Pairs with the release of seq in put_action(). */
		seq = atomic_load_explicit(&c->seq, memory_order_acquire);
		a = &c->slots[seq % 2];
		sa->sa_handler =
			(void (*)(int))atomic_load_explicit(&a->handler, memory_order_relaxed);
		sa->sa_flags = atomic_load_explicit(&a->flags, memory_order_relaxed);
		mask = atomic_load_explicit(&a->mask, memory_order_relaxed);
		if (atomic_load_explicit(&a->spent, memory_order_relaxed))
			sa->sa_handler = SIG_DFL;
		/* Pairs with the fence in put_action(). */
		atomic_thread_fence(memory_order_acquire);
	} while (atomic_load_explicit(&c->seq, memory_order_relaxed) != seq);
	memcpy(&sa->sa_mask, &mask, sizeof(mask));
	return a;
}

/* Gets the program's action for this signal. A handler with SA_RESETHAND is returned only once. */
static void take_action(struct chain *c, struct sigaction *sa)
{
	struct action *a = get_action(c, sa);

	if (!(sa->sa_flags & (int)SA_RESETHAND) || sa->sa_handler == SIG_DFL)
		return;
	/* Relaxed: decides only which of several simultaneous signals is the first. */
	if (atomic_exchange_explicit(&a->spent, true, memory_order_relaxed))
		sa->sa_handler = SIG_DFL;
}

/*
 * Sets the signal mask for the program's handler: the interrupted mask and sa_mask, without the
 * signals of this library.
 */
static void set_handler_mask(const struct sigaction *sa, const ucontext_t *uc)
{
	sigset_t set;

	sigorset(&set, &uc->uc_sigmask, &sa->sa_mask);
	for (size_t i = 0; i < SIGNALS; i++)
		sigdelset(&set, signals[i]);
	SYS(SYS_rt_sigprocmask, SIG_SETMASK, &set, NULL, KERNEL_SIGSET);
}

/* Passes the signal to the program as if this library were not there. */
static void chain(int sig, siginfo_t *si, ucontext_t *uc)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL}, a;
	bool sent = si->si_code <= 0; /* sent by a process, not caused by an instruction */

	take_action(&chains[signal_index(sig)], &a);
	if (a.sa_handler == SIG_IGN && sent)
		return;
	if (a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN) {
		set_handler_mask(&a, uc);
		if (a.sa_flags & SA_SIGINFO)
			a.sa_sigaction(sig, si, uc);
		else
			a.sa_handler(sig);
		return;
	}
	/* A faulting instruction is executed again and ends the process; a breakpoint is not. */
	libc_sigaction(sig, &dfl, NULL);
	if (sent || sig == SIGTRAP)
		raise(sig);
}

struct store {
	struct device_store to;
	struct softhca_store st;
};

static void execute(void *arg)
{
	struct store *s = arg;

	s->to.bytes = s->st.bytes;
	s->to.size = s->st.size;
	device_store(&s->to);
}

/* The objects belong to the parent, so a doorbell of the child would never have an effect. */
_Noreturn static void refuse_inherited(void)
{
	char line[160];
	int n = snprintf(line, sizeof(line),
		"softhca: process %d rings a doorbell of a device opened by its parent: a child "
		"has to open the device itself\n",
		(int)getpid());

	sys_write(2, line, (size_t)n);
	abort();
}

static bool on_doorbell(ucontext_t *uc, uint64_t addr)
{
	uint64_t page = addr & ~(uint64_t)(UAR_PAGE - 1);
	struct uctx *u = pages_find(page);
	struct store s = {
		.to = {.u = u, .page = page, .offset = (uint32_t)(addr - page)},
	};

	if (u == PAGE_INHERITED)
		refuse_inherited();
	if (!u || !fabric_self.arena)
		return false;
	if (softhca_store_decode(uc, addr, &s.st)) {
		if (u->door != DOOR_NONE)
			return doors_open_now(u->door); /* the instruction is executed again */
		step_begin(uc, page, u);
		return true;
	}
	uc->uc_mcontext.gregs[REG_RIP] += s.st.length;
	stack_call(uc, execute, &s);
	if (u->door != DOOR_NONE)
		sched_rung(u->door);
	return true;
}

static void on_signal(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;
	uint64_t addr = (uintptr_t)si->si_addr;

	if (sig == SIGSEGV && claim_signal(si, uc))
		return;
	if (sig == SIGTRAP && step_active()) {
		step_end(uc);
		return;
	}
	if (sig != SIGTRAP && dma_fixup(uc, addr))
		return;
	/* SIGBUS: the page is behind a door that is shut (sched/doors.h). */
	if (sig != SIGTRAP && si->si_code > 0 && on_doorbell(uc, addr))
		return;
	if (sig == SIGSEGV && si->si_code == SEGV_ACCERR && pool_moved(addr))
		return;
	chain(sig, si, uc);
}

/*
 * Blocks all signals: a handler of the program may call this function and must find the lock free.
 */
static void change(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct chain *c = &chains[signal_index(sig)];
	sigset_t all, saved;

	sigfillset(&all);
	SYS(SYS_rt_sigprocmask, SIG_BLOCK, &all, &saved, KERNEL_SIGSET);
	pthread_mutex_lock(&chain_lock);
	if (old)
		get_action(c, old);
	if (act)
		put_action(c, act);
	pthread_mutex_unlock(&chain_lock);
	SYS(SYS_rt_sigprocmask, SIG_SETMASK, &saved, NULL, KERNEL_SIGSET);
}

bool trap_set_action(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction before;

	/* Pairs with the release in install(). */
	if (!atomic_load_explicit(&installed, memory_order_acquire))
		return false;
	change(sig, act, &before);
	if (old)
		*old = before;
	return true;
}

static void find_libc(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	*(void **)&libc_sigaction = libc ? dlsym(libc, "sigaction") : NULL;
	if (!libc_sigaction) {
		fprintf(stderr, "softhca: this libc is not glibc\n");
		abort();
	}
	dlclose(libc);
}

static void install(void)
{
	struct sigaction sa = {
		.sa_sigaction = on_signal,
		/* SA_ONSTACK: the program may want to handle the overflow of its stack. */
		.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK,
	};
	struct sigaction old;

	find_libc();
	sigfillset(&sa.sa_mask);
	/* Not blocked, because the handler itself faults if a work request has a bad address. */
	for (size_t i = 0; i < SIGNALS; i++)
		sigdelset(&sa.sa_mask, signals[i]);
	for (size_t i = 0; i < SIGNALS; i++) {
		libc_sigaction(signals[i], NULL, &old);
		put_action(&chains[i], &old);
		libc_sigaction(signals[i], &sa, NULL);
	}
	/* Pairs with the acquire in trap_set_action(): the chains are filled. */
	atomic_store_explicit(&installed, true, memory_order_release);
}

void signals_install(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	sigset_t set;

	pthread_once(&once, install);
	sigemptyset(&set);
	for (size_t i = 0; i < SIGNALS; i++)
		sigaddset(&set, signals[i]);
	SYS(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, KERNEL_SIGSET);
}

void signals_forget(void)
{
	pthread_mutex_init(&chain_lock, NULL);
}
