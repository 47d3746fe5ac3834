/* SPDX-License-Identifier: MIT */
/* Regions for one user or for a group. */
#include "rpc.h"

#define RPC_SET_GID DELEGRPC_SET_GID
#include "support/grouptest.h"

int main(int argc, char **argv)
{
	return grouptest_main(argc, argv);
}
