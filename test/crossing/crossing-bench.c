/* SPDX-License-Identifier: MIT */
/* One request ring for all clients (delegrpc) against one for each (shmipc), in the same rounds. */
#include "rpcbench_layer.h"

int main(int argc, char **argv)
{
	return rpcbench_main(&delegrpc_rpcbench, &shmipc_rpcbench, argc, argv);
}
