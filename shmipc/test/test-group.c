/* SPDX-License-Identifier: MIT */
/* Regions for one user or for a group. */
#include "rpc.h"

#define RPC_SET_GID SHMIPC_SET_GID
#include "support/grouptest.h"
