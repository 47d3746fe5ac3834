/* SPDX-License-Identifier: MIT */
/* Compares one request ring for all clients (delegrpc) with a ring for each client (shmipc), in the
 * same rounds. */
#include "rpcbench_layer.h"

int main(int argc, char **argv)
{
	return rpcbench_main(&delegrpc_rpcbench, &shmipc_rpcbench, argc, argv);
}
