/* SPDX-License-Identifier: MIT */
/* In step mode the adapters work when a program yields, because a program that yields waits. */
#include <sched.h>

#include "shim/real.h"
#include "softhca.h"

EXPORT int sched_yield(void)
{
	softhca_step(); /* does nothing in the other modes */
	return REAL(sched_yield)();
}
