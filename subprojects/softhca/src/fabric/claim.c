/* SPDX-License-Identifier: MIT */
#include "fabric/claim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"
#include "sys/sys.h"

#define STATUS_MAX 8192
#define RED_ZONE 128u /* bytes below the stack pointer that leaf functions use */
#define SEGV_BIT (1ull << (SIGSEGV - 1))

__thread struct claim_held claim_held __attribute__((tls_model("initial-exec")));

uint32_t claim_self(void)
{
	if (!claim_held.tid)
		claim_held.tid = (uint32_t)SYS(SYS_gettid);
	return claim_held.tid << CLAIM_SLOT_BITS | fabric_self.slot;
}

void claim_forget(void)
{
	claim_held.claim = NULL;
	claim_held.tid = 0;
}

_Noreturn void claim_lost(void)
{
	claim_held.claim = NULL;
	longjmp(claim_held.mark, 1);
}

void claim_enter(struct claim *c, uint64_t word)
{
	claim_held.word = word;
	claim_held.claim = c;
	atomic_signal_fence(memory_order_seq_cst);
	if (!claim_kept())
		claim_lost();
}

void claim_leave(void)
{
	claim_held.claim = NULL;
	atomic_signal_fence(memory_order_seq_cst);
}

/* Makes the interrupted thread continue in claim_lost(), on its own stack. */
static void divert(ucontext_t *uc)
{
	uint64_t sp = (uint64_t)uc->uc_mcontext.gregs[REG_RSP] - RED_ZONE;

	uc->uc_mcontext.gregs[REG_RSP] = (greg_t)((sp & ~15ull) - 8); /* as after a call */
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)claim_lost;
}

/*
 * The signal may be about a claim that the thread has released since. Then the thread may hold
 * another claim, and swapping its word is harmless.
 */
bool claim_signal(const siginfo_t *si, ucontext_t *uc)
{
	if (si->si_code != CLAIM_CODE)
		return false;
	if (claim_held.claim && !claim_held.changes &&
		!claim_replace(claim_held.claim, claim_held.word))
		divert(uc);
	return true;
}

/* The state of a thread, as the kernel reports it. */
struct look {
	char state; /* 'X': the thread has ended */
	bool pending; /* SIGSEGV is pending */
	bool deaf; /* the thread blocks SIGSEGV, or has no handler */
	int32_t process;
	uint64_t switches;
};

static long read_status(uint32_t tid, char *text, size_t size)
{
	long n = 0, r;
	int fd;

	snprintf(text, size, "/proc/%u/status", tid);
	fd = sys_open(text, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	do {
		r = sys_read(fd, text + n, size - 1 - (size_t)n);
		n += r > 0 ? r : 0;
	} while (r > 0);
	sys_close(fd);
	text[n] = '\0';
	return r < 0 ? r : n;
}

static bool value_of(const char *text, const char *name, int base, uint64_t *value_p)
{
	const char *at = strstr(text, name);

	if (at)
		*value_p = strtoull(at + strlen(name), NULL, base);
	return at;
}

/* Returns false if the state of the thread cannot be read. */
static bool look_at(uint32_t tid, struct look *l)
{
	uint64_t process, pending, blocked, caught, voluntary, forced;
	char text[STATUS_MAX];
	const char *state;
	long n = read_status(tid, text, sizeof(text));

	*l = (struct look){.state = 'X'};
	if (n == -ENOENT || n == -ESRCH)
		return true;
	if (n <= 0)
		return false;
	state = strstr(text, "\nState:\t");
	if (!state || !value_of(text, "\nTgid:\t", 10, &process) ||
		!value_of(text, "\nSigPnd:\t", 16, &pending) ||
		!value_of(text, "\nSigBlk:\t", 16, &blocked) ||
		!value_of(text, "\nSigCgt:\t", 16, &caught) ||
		!value_of(text, "\nvoluntary_ctxt_switches:\t", 10, &voluntary) ||
		!value_of(text, "\nnonvoluntary_ctxt_switches:\t", 10, &forced))
		return false;
	*l = (struct look){
		.state = state[strlen("\nState:\t")],
		.pending = pending & SEGV_BIT,
		.deaf = (blocked & SEGV_BIT) || !(caught & SEGV_BIT),
		.process = (int32_t)process,
		.switches = voluntary + forced,
	};
	return true;
}

static bool is_stopped(const struct look *l)
{
	return l->state == 'T' || l->state == 't';
}

static bool is_over(const struct look *l)
{
	return l->state == 'X' || l->state == 'Z';
}

/* Reads the state of the owner in @word. If a thread of another process has its id now, the owner
 * has ended: state 'X'. Returns false if the owner is not known to be of a process that joined. */
static bool look_at_owner(uint64_t word, struct look *l)
{
	if (!look_at(claim_tid(word), l))
		return false;
	if (is_over(l) || l->process == arena()->procs[claim_slot(word)].pid)
		return true;
	l->state = 'X';
	return claim_slot(word) != NO_SLOT;
}

bool claim_is_over(uint64_t word)
{
	struct look l;

	return look_at_owner(word, &l) && is_over(&l);
}

static void notify(uint64_t word, const struct look *l)
{
	siginfo_t si = {.si_signo = SIGSEGV, .si_code = CLAIM_CODE};

	si.si_pid = fabric_self.pid;
	SYS(SYS_rt_tgsigqueueinfo, l->process, claim_tid(word), SIGSEGV, &si);
}

bool claim_pass(struct claim *c, uint64_t word, enum claim_heir heir)
{
	uint64_t next = (word & ~CLAIM_OWNER_MASK) + CLAIM_EPOCH;

	if (heir == CLAIM_FOR_ME)
		return claim_replace(c, word);
	/* Pairs with the swap in claim_signal(). */
	return __atomic_compare_exchange_n(&c->word, &word, next, false, __ATOMIC_ACQ_REL,
		__ATOMIC_RELAXED);
}

/* Executes steps 1 to 5 of claim.h. @before: the state in which the owner was found. */
static bool fence(struct claim *c, uint64_t word, const struct look *before, enum claim_heir heir)
{
	uint32_t tid = claim_tid(word);
	struct look l;

	notify(word, before);
	if (!look_at(tid, &l) || !is_stopped(&l) || l.switches != before->switches || !l.pending)
		return false;
	if (!claim_pass(c, word, heir))
		return false;
	for (uint32_t i = 0; i < CLAIM_PIECES; i++)
		__atomic_store_n(&c->to[i].iov_len, 0, __ATOMIC_RELAXED);
	while (look_at(tid, &l) && !is_stopped(&l) && !is_over(&l) && l.pending)
		SYS(SYS_sched_yield);
	return true;
}

uint64_t claim_take_over(struct claim *c, struct claim_watch *w, enum claim_heir heir)
{
	uint64_t word = __atomic_load_n(&c->word, __ATOMIC_RELAXED);
	struct look l;

	if (!(word & CLAIM_OWNER_MASK) || !look_at_owner(word, &l))
		return 0;
	if (is_over(&l))
		return claim_pass(c, word, heir) ? word : 0;
	if (!is_stopped(&l) || l.deaf) {
		w->word = 0;
		return 0;
	}
	if (w->word != word || w->switches != l.switches) {
		*w = (struct claim_watch){word, l.switches, sys_clock_ns(CLOCK_MONOTONIC)};
		return 0;
	}
	if (sys_clock_ns(CLOCK_MONOTONIC) - w->since < fabric_self.patience_ns)
		return 0;
	return fence(c, word, &l, heir) ? word : 0;
}
