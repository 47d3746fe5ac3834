/* SPDX-License-Identifier: MIT */
/* Compares delegrpc with other rings. */
#include "rpcbench_layer.h"

int main(int argc, char **argv)
{
	return rpcbench_main(&delegrpc_rpcbench, NULL, argc, argv);
}
