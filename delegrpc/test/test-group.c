/* SPDX-License-Identifier: MIT */
/* Regions for one user or for a group. */
#include "rpc.h"

#define RPC_SET_GID DELEGRPC_SET_GID
#include "support/grouptest.h"
