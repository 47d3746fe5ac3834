/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "hca/config.h"
#include "sys/maps.h"
#include "trap/pages.h"
#include "trap/signals.h"
#include "trap/trap.h"

/*
 * Registers the pages of a mapping if they are doorbell pages of @arg, and protects them in trap
 * mode. The vendor's library maps doorbell pages shared and writable; trap_scan() is called before
 * the program can store to a new one. In the modes poll and auto the protection is not changed: a
 * store traps only while the file ends before its doorbell pages (the door is shut, see
 * sched/doors.h). In step mode a store of this process has no effect. The pages are registered all
 * the same, so that a forked child's stores to them trap (pages_inherit()).
 */
static int scan_mapping(const struct mapping *m, void *arg)
{
	struct uctx *u = arg;
	int r;

	if (m->ino != u->ino || m->dev != u->dev || !(m->prot & PROT_WRITE))
		return 0;
	for (uint64_t page = m->start; page < m->end; page += UAR_PAGE) {
		r = pages_add(page, u, (uint32_t)((m->offset + (page - m->start)) / UAR_PAGE));
		if (r < 0)
			return r;
		if (config_get()->mode == ENGINE_TRAP)
			mprotect((void *)(uintptr_t)page, UAR_PAGE, PROT_READ);
	}
	return 0;
}

int trap_scan(struct uctx *u)
{
	signals_install();
	return maps_each_shared(scan_mapping, u);
}

void trap_drop(const struct uctx *u)
{
	pages_drop(u);
}

void trap_forget(void)
{
	signals_forget();
	pages_inherit();
}
