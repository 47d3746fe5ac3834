/* SPDX-License-Identifier: MIT */
/* shmipc in the loops of rpcbench.h. */
#ifndef SHMIPC_LOOPS_H
#define SHMIPC_LOOPS_H

#include "rpcbench.h"

extern const struct rpcbench_impl shmipc_rpcbench;

#endif
