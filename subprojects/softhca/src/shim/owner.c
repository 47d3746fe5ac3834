/* SPDX-License-Identifier: MIT */
#include "shim/owner.h"

#include <unistd.h>

static pid_t owner; /* 0: the library has not started yet */

void owner_set(void)
{
	owner = getpid();
}

bool owner_is_self(void)
{
	return !owner || owner == getpid();
}
