/* SPDX-License-Identifier: MIT */
/*
 * Handles the start, the fork and the end of a process. The library does nothing else before the
 * program uses a device or the emulated sysfs.
 */
#include <pthread.h>
#include <unistd.h>

#include "dma/pool.h"
#include "dma/view.h"
#include "dma/window.h"
#include "fabric/fabric.h"
#include "member/member.h"
#include "pump/pump.h"
#include "sched/sched.h"
#include "shim/owner.h"
#include "sys/fds.h"
#include "trap/trap.h"
#include "ucma/ucma.h"
#include "uverbs/uverbs.h"

/*
 * The child of fork() has the parent's mappings and descriptors but is not a member of the fabric.
 * The child joins when it opens a device itself. Inherited devices do not work in the child, just
 * as verbs objects do not work after a fork.
 */
static void in_child(void)
{
	owner_set(); /* first: the functions below may call interposed ones */
	fds_release();
	member_release();
	pool_forget();
	view_forget();
	window_forget();
	if (fabric_self.arena) {
		trap_forget();
		fds_forget();
		uverbs_forget();
		ucma_forget();
		sched_forget();
		pump_forget();
	}
	member_forget();
}

static void before_fork(void)
{
	member_hold();
	pool_hold();
	fds_hold();
}

static void after_fork(void)
{
	fds_release();
	pool_release();
	member_release();
}

__attribute__((constructor)) static void init(void)
{
	owner_set();
	pthread_atfork(before_fork, after_fork, in_child);
}

/*
 * A child of the bare system call fork, for which in_child() was not called, does nothing here: the
 * membership is its parent's, and pump_stop() would wait for a thread that only the parent has.
 */
__attribute__((destructor)) static void fini(void)
{
	if (fabric_self.pid != getpid())
		return;
	pump_stop();
	member_detach();
}
