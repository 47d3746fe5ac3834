/* SPDX-License-Identifier: MIT */
/* shmipc against other rings. */
#include "loops.h"

int main(int argc, char **argv)
{
	return rpcbench_main(&shmipc_rpcbench, NULL, argc, argv);
}
