/* SPDX-License-Identifier: MIT */
#include "rpc.h"
#include "support/rpcsteps.h"
