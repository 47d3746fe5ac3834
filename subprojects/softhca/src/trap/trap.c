/* SPDX-License-Identifier: MIT */
#include "trap/trap.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <ucontext.h>

#include "dma/dma.h"
#include "fabric/fabric.h"
#include "hca/config.h"
#include "hca/objects.h"
#include "shim/sys.h"
#include "trap/decode_x86.h"
#include "trap/device.h"
#include "trap/pages.h"

#define TRAP_FLAG 0x100 /* EFLAGS.TF */

static const int signals[] = {SIGSEGV, SIGBUS, SIGTRAP};

/* The program's handlers, by index into signals. */
static struct sigaction chained[3];
static pthread_mutex_t chain_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool installed;

/* A store that this thread lets the processor execute: its page and where it stands. */
static __thread struct {
	uint64_t page;
	uint64_t pc;
	struct uctx *u;
} stepping __attribute__((tls_model("initial-exec")));

static int signal_index(int sig)
{
	return sig == SIGSEGV ? 0 : sig == SIGBUS ? 1 : 2;
}

/* Gives the signal to the program as if this library were not there. */
static void chain(int sig, siginfo_t *si, void *uc)
{
	struct sigaction a = chained[signal_index(sig)];
	struct sigaction dfl = {.sa_handler = SIG_DFL};

	if (a.sa_flags & SA_SIGINFO) {
		a.sa_sigaction(sig, si, uc);
	} else if (a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN) {
		a.sa_handler(sig);
	} else {
		int (*real)(int, const struct sigaction *, struct sigaction *) =
			dlsym(RTLD_NEXT, "sigaction");

		/* The faulting instruction runs again and ends the process as it should. */
		real(sig, &dfl, NULL);
		if (si->si_code <= 0)
			raise(sig);
	}
}

static const uint8_t *registers_of_page(uint64_t page, uint32_t i, uint32_t *offset)
{
	*offset = i ? UAR_BF_FIRST + (i - 1) * UAR_BF_BUFFER : UAR_CQ_DOORBELL;
	return (const uint8_t *)(uintptr_t)page + *offset;
}

#define PAGE_REGISTERS (1 + (UAR_PAGE - UAR_BF_FIRST) / UAR_BF_BUFFER)

/*
 * The instruction cannot be decoded: the page becomes memory for one instruction, and
 * what changed in its registers is executed after it.
 */
static void step_begin(ucontext_t *uc, uint64_t page, struct uctx *u)
{
	uint32_t offset;

	mprotect((void *)(uintptr_t)page, UAR_PAGE, PROT_READ | PROT_WRITE);
	for (uint32_t i = 0; i < PAGE_REGISTERS; i++)
		memset((void *)(uintptr_t)registers_of_page(page, i, &offset), 0, 8);
	stepping.page = page;
	stepping.pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
	stepping.u = u;
	uc->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

/* A repeated string instruction traps after each of its stores: it stays until the end. */
static void step_end(ucontext_t *uc)
{
	static const uint8_t none[8];
	uint64_t page = stepping.page;
	uint32_t offset;

	if ((uint64_t)uc->uc_mcontext.gregs[REG_RIP] == stepping.pc)
		return;
	uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	stepping.page = 0;
	mprotect((void *)(uintptr_t)page, UAR_PAGE, PROT_READ);
	for (uint32_t i = 0; i < PAGE_REGISTERS; i++) {
		const uint8_t *reg = registers_of_page(page, i, &offset);

		if (memcmp(reg, none, sizeof(none)))
			device_store(stepping.u, offset, reg, 8);
	}
	counters_of(fabric_self.slot)->single_steps++;
}

static bool on_doorbell(ucontext_t *uc, uint64_t addr)
{
	uint64_t page = addr & ~(uint64_t)(UAR_PAGE - 1);
	struct uctx *u = pages_find(page);
	struct softhca_store st;

	if (!u || !fabric_self.arena)
		return false;
	if (softhca_store_decode(uc, addr, &st)) {
		step_begin(uc, page, u);
		return true;
	}
	uc->uc_mcontext.gregs[REG_RIP] += st.length;
	device_store(u, (uint32_t)(addr - page), st.bytes, st.size);
	return true;
}

static void on_signal(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;
	uint64_t addr = (uintptr_t)si->si_addr;

	if (sig == SIGTRAP && stepping.page) {
		step_end(uc);
		return;
	}
	if (sig != SIGTRAP && dma_fixup(uc, addr))
		return;
	if (sig == SIGSEGV && si->si_code > 0 && on_doorbell(uc, addr))
		return;
	chain(sig, si, context);
}

bool trap_set_action(int sig, const struct sigaction *act, struct sigaction *old)
{
	/* Pairs with the release in install. */
	if (!atomic_load_explicit(&installed, memory_order_acquire))
		return false;
	pthread_mutex_lock(&chain_lock);
	if (old)
		*old = chained[signal_index(sig)];
	if (act)
		chained[signal_index(sig)] = *act;
	pthread_mutex_unlock(&chain_lock);
	return true;
}

/*
 * libc's own sigaction: a sanitizer's, which stands in front of it, would call the
 * handler under assumptions that a store to a device does not meet.
 */
static void install(void)
{
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_NODEFER};
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	int (*real)(int, const struct sigaction *, struct sigaction *);

	real = libc ? dlsym(libc, "sigaction") : NULL;
	if (!real) {
		fprintf(stderr, "softhca: this libc is not glibc\n");
		abort();
	}
	sigfillset(&sa.sa_mask);
	/* A bad address met while executing a doorbell is a fault inside this handler. */
	for (size_t i = 0; i < 3; i++)
		sigdelset(&sa.sa_mask, signals[i]);
	for (size_t i = 0; i < 3; i++)
		real(signals[i], &sa, &chained[i]);
	dlclose(libc);
	/* Pairs with the acquire in trap_set_action: chained is filled. */
	atomic_store_explicit(&installed, true, memory_order_release);
}

/* Protects the pages of one line of /proc/self/maps if they are doorbells of @u. */
static void scan_line(const char *line, struct uctx *u)
{
	unsigned long start, end, offset, ino;
	unsigned major, minor;
	char perms[5];

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &start, &end, perms, &offset, &major, &minor,
		    &ino) != 7)
		return;
	if (ino != u->ino || makedev(major, minor) != u->dev)
		return;
	if (perms[1] != 'w')
		return;
	for (uint64_t page = start; page < end; page += UAR_PAGE)
		if (pages_add(page, u) >= 0)
			mprotect((void *)(uintptr_t)page, UAR_PAGE, PROT_READ);
}

void trap_scan(struct uctx *u)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char buf[8192];
	size_t have = 0;
	long n;
	int fd;

	pthread_once(&once, install);
	if (config_get()->mode != ENGINE_TRAP)
		return;
	fd = sys_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return;
	while ((n = sys_read(fd, buf + have, sizeof(buf) - 1 - have)) > 0) {
		char *line = buf, *nl;

		have += (size_t)n;
		buf[have] = '\0';
		while ((nl = strchr(line, '\n'))) {
			*nl = '\0';
			scan_line(line, u);
			line = nl + 1;
		}
		have -= (size_t)(line - buf);
		memmove(buf, line, have);
	}
	sys_close(fd);
}

void trap_drop(const struct uctx *u)
{
	pages_drop(u);
}

void trap_forget(void)
{
	pthread_mutex_init(&chain_lock, NULL);
	pages_forget();
}
