/* SPDX-License-Identifier: MIT */
#include "hca/timer.h"

#include <linux/futex.h>
#include <time.h>

#include "hca/objects.h"
#include "sys/sys.h"

uint64_t timer_waiting[MAX_QPS / 64];

uint64_t timer_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void timer_wait(struct qp *qp, uint64_t when)
{
	uint32_t i = qp_index(qp);

	qp->wait_until = when;
	timer_waiting[i / 64] |= 1ull << (i % 64);
	timer_ring(fabric_self.slot);
}

void timer_ring(uint32_t slot)
{
	/* Pairs with the acquire in bell_count(); the rest is under the mutex. */
	__atomic_fetch_add(timer_bell(slot), 1, __ATOMIC_RELEASE);
	SYS(SYS_futex, timer_bell(slot), FUTEX_WAKE, 1, NULL, NULL, 0);
}

void timer_pump(uint32_t slot)
{
	struct proc *p = &arena()->procs[slot];

	if (p->pumping)
		return;
	p->pumping = 1;
	timer_ring(slot);
}
