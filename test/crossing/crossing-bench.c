/* SPDX-License-Identifier: MIT */
/* Compares one request ring for all clients (delegrpc) with one for each (shmipc). */
#include "rpcbench_layer.h"

int main(int argc, char **argv)
{
	return rpcbench_main(&delegrpc_rpcbench, &shmipc_rpcbench, argc, argv);
}
