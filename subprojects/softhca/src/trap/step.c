/* SPDX-License-Identifier: MIT */
#include "trap/step.h"

#include <string.h>
#include <sys/mman.h>

#include "hca/objects.h"
#include "trap/device.h"
#include "trap/pages.h"
#include "trap/stack.h"

#define TRAP_FLAG 0x100 /* EFLAGS.TF */
#define PAGE_REGISTERS (1 + (UAR_PAGE - UAR_BF_FIRST) / UAR_BF_BUFFER)

/*
 * The step of this thread: the doorbell page to which the instruction stores (0: no step), the
 * address of the instruction, and the page's context.
 */
static __thread struct {
	uint64_t page;
	uint64_t pc;
	struct uctx *u;
} stepping __attribute__((tls_model("initial-exec")));

static const uint8_t *registers_of_page(uint64_t page, uint32_t i, uint32_t *offset)
{
	*offset = i ? UAR_BF_FIRST + (i - 1) * UAR_BF_BUFFER : UAR_CQ_DOORBELL;
	return (const uint8_t *)(uintptr_t)page + *offset;
}

void step_begin(ucontext_t *uc, uint64_t page, struct uctx *u)
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

bool step_active(void)
{
	return stepping.page;
}

static void execute(void *arg)
{
	static const uint8_t none[8];
	const uint64_t *page = arg;
	uint32_t offset;

	for (uint32_t i = 0; i < PAGE_REGISTERS; i++) {
		const uint8_t *reg = registers_of_page(*page, i, &offset);

		if (memcmp(reg, none, sizeof(none)))
			device_store(&(struct device_store){.u = stepping.u,
				.page = *page,
				.offset = offset,
				.size = 8,
				.bytes = reg});
	}
	counter_add(&counters_of(fabric_self.slot)->single_steps, 1); /* counted without a lock */
}

/*
 * A repeated string instruction traps after each of its stores. The stores are executed on the
 * device after the last one.
 */
void step_end(ucontext_t *uc)
{
	uint64_t page = stepping.page;

	if ((uint64_t)uc->uc_mcontext.gregs[REG_RIP] == stepping.pc)
		return;
	uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	stepping.page = 0;
	mprotect((void *)(uintptr_t)page, UAR_PAGE, PROT_READ);
	stack_call(uc, execute, &page);
}
