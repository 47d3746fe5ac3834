/* SPDX-License-Identifier: MIT */
/*
 * Timers of QPs. A thread that was stopped may lose the mutex after any instruction, and then jumps
 * out of what it was doing (fabric/claim.h). Here a thread does so after different numbers of
 * instructions of a change of the timers. No timer must be lost, or stop working.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <ucontext.h>

#include "check.h"
#include "cm/cm.h"
#include "cm/ids.h"
#include "hca/objects.h"
#include "hca/timer.h"
#include "member/member.h"

#define QPS 3u
#define STRIDE 3 /* between the instruction counts; the first count varies */
#define TRAP_FLAG 0x100
#define LATE 1000

static struct qp *qps[QPS];
/*
 * For handler(), which interrupts the thread that stores them. Relaxed: it is the same thread, so
 * the accesses in handler() and in changed() need no order.
 */
static _Atomic uint32_t left; /* instructions until the thread jumps out */
static atomic_bool single; /* the thread is interrupted after each instruction */
static jmp_buf lost;

static void handler(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;

	if (!atomic_load_explicit(&single, memory_order_relaxed)) {
		uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
		return;
	}
	uc->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
	if (!atomic_fetch_sub_explicit(&left, 1, memory_order_relaxed))
		longjmp(lost, 1);
}

static void make_qps(void)
{
	for (uint32_t k = 0; k < QPS; k++) {
		int i = obj_alloc(OBJ_QP, 0);

		CHECK(i >= 0);
		qps[k] = &arena()->qps[i];
		obj_publish(OBJ_QP, (uint32_t)i);
	}
}

/* Sets the timers in an order that is neither rising nor falling. */
static void set_all(void)
{
	for (uint32_t k = 0; k < QPS; k++)
		timer_wait(qps[k], 1 + k * 2 % QPS);
}

/* The timer of each QP that waits expires once. */
static void expire(void)
{
	uint32_t waiting = 0, taken = 0;
	struct qp *qp;

	for (uint32_t k = 0; k < QPS; k++)
		waiting |= (uint32_t)(qps[k]->wait_until != 0) << k;
	while ((qp = timer_take(LATE))) {
		uint32_t k = 0;

		while (k < QPS && qps[k] != qp)
			k++;
		CHECK(k < QPS && !(taken & 1u << k));
		taken |= 1u << k;
	}
	CHECK_EQ(taken, waiting);
	CHECK_EQ(timer_next(), 0);
}

static void check_all(void)
{
	set_all();
	CHECK(!timer_take(0));
	CHECK_EQ(timer_next(), 1);
	expire();
}

/* Changes the timers. Returns false if the thread has jumped out, after @instructions. */
static bool changed(uint32_t instructions)
{
	atomic_store_explicit(&left, instructions, memory_order_relaxed);
	if (setjmp(lost)) {
		atomic_store_explicit(&single, false, memory_order_relaxed);
		return false;
	}
	atomic_store_explicit(&single, true, memory_order_relaxed);
	__asm__ volatile("int3" ::: "memory");
	timer_take(1);
	timer_wait(qps[0], 2);
	atomic_store_explicit(&single, false, memory_order_relaxed);
	return true;
}

TEST(after_any_instruction)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct sigaction old;
	uint32_t n = (uint32_t)getpid() % STRIDE;

	CHECK(!sigaction(SIGTRAP, &sa, &old));
	do {
		expire();
		check_all();
		set_all();
		n += STRIDE;
	} while (!changed(n));
	CHECK(!sigaction(SIGTRAP, &old, NULL));
}

/* A process was killed when it had stored an event of this process's id, but not the time. */
TEST(event_without_time)
{
	struct proc *self = &arena()->procs[fabric_self.slot];
	uint32_t had_thread = self->has_thread;
	struct cm_id *id;

	CHECK(!cm_alloc(fabric_self.slot, 0, &id));
	self->has_thread = 1; /* otherwise the event is posted immediately */
	cm_publish(id);
	cm_tell(id, CM_EV_DISCONNECTED, 0, false);
	self->cm_due = 0;
	cm_recover();
	CHECK(cm_due(id));
	CHECK_EQ(cm_serve(1), cm_due(id));
	cm_free(id);
	self->has_thread = had_thread;
}

int main(int argc, char **argv)
{
	sigset_t saved;
	int status;

	test_fabric("timer");
	CHECK(!member_attach());
	CHECK(!fabric_enter(&saved));
	make_qps();
	status = test_main(argc, argv);
	for (uint32_t k = 0; k < QPS; k++)
		obj_retract(OBJ_QP, qp_index(qps[k]));
	fabric_leave(&saved);
	member_detach();
	return status;
}
