/* SPDX-License-Identifier: MIT */
/* The library's life in a process: nothing happens before the first device is named. */
#include <pthread.h>

#include "fabric/fabric.h"
#include "member/member.h"
#include "sched/sched.h"
#include "trap/trap.h"
#include "uverbs/uverbs.h"

/*
 * The child of fork() has the parent's mappings and descriptors but is no member of
 * the fabric: it joins anew when it opens a device itself. What it inherited open is
 * dead to it, as verbs objects are after a fork.
 */
static void in_child(void)
{
	if (!fabric_self.arena)
		return;
	trap_forget();
	uverbs_forget();
	sched_forget();
	member_forget();
}

__attribute__((constructor)) static void init(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

__attribute__((destructor)) static void fini(void)
{
	member_detach();
}
