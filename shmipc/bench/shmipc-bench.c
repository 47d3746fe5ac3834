/* SPDX-License-Identifier: MIT */
/* Compares shmipc with other rings. */
#include "rpcbench_layer.h"

int main(int argc, char **argv)
{
	return rpcbench_main(&shmipc_rpcbench, NULL, argc, argv);
}
