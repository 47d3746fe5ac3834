/* SPDX-License-Identifier: MIT */
/* A member that holds the fabric's mutex, like a member that is stopped in the middle of a step. */
#include <stdio.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "member/member.h"

int main(void)
{
	sigset_t saved;
	char c;

	if (member_attach())
		return 1;
	fabric_enter(&saved);
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	fabric_leave(&saved);
	member_detach();
	return 0;
}
