/* SPDX-License-Identifier: MIT */
/* delegrpc against other rings. */
#include "loops.h"

int main(int argc, char **argv)
{
	return rpcbench_main(&delegrpc_rpcbench, NULL, argc, argv);
}
