/* SPDX-License-Identifier: MIT */
/* delegrpc in the loops of rpcbench.h. */
#ifndef DELEGRPC_LOOPS_H
#define DELEGRPC_LOOPS_H

#include "rpcbench.h"

extern const struct rpcbench_impl delegrpc_rpcbench;

#endif
