/* SPDX-License-Identifier: MIT */
#include "trap/stack.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/sys.h"

#define RED_ZONE 128u /* bytes below the stack pointer that leaf functions use */

/* Calls @fn with @arg on the stack that ends at @top, a multiple of 16. */
void softhca_call_on(uint64_t top, void (*fn)(void *arg), void *arg);

__asm__(".text\n"
	".hidden softhca_call_on\n"
	".type softhca_call_on,@function\n"
	"softhca_call_on:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset 6, -16\n"
	"	mov %rsp, %rbp\n"
	"	.cfi_def_cfa_register 6\n"
	"	mov %rdi, %rsp\n"
	"	mov %rdx, %rdi\n"
	"	call *%rsi\n"
	"	mov %rbp, %rsp\n"
	"	pop %rbp\n"
	"	.cfi_def_cfa 7, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size softhca_call_on, .-softhca_call_on\n");

struct call {
	void (*fn)(void *arg);
	void *arg;
};

/*
 * Disables the alternate stack. A fault in user memory during the call is another signal,
 * whose frame would otherwise overwrite the frame of the signal that is being handled.
 */
static void with_alternate_off(void *arg)
{
	static const stack_t off = {.ss_flags = SS_DISABLE};
	const struct call *c = arg;

	SYS(SYS_sigaltstack, &off, NULL);
	c->fn(c->arg);
}

static bool in_stack(const stack_t *st, uint64_t sp)
{
	return !(st->ss_flags & SS_DISABLE) && sp - (uintptr_t)st->ss_sp < st->ss_size;
}

void stack_call(const ucontext_t *uc, void (*fn)(void *arg), void *arg)
{
	uint64_t sp = (uint64_t)uc->uc_mcontext.gregs[REG_RSP];
	struct call c = {fn, arg};

	if (in_stack(&uc->uc_stack, (uintptr_t)&c) && !in_stack(&uc->uc_stack, sp))
		softhca_call_on((sp - RED_ZONE) & ~(uint64_t)63, with_alternate_off, &c);
	else
		fn(arg);
}
