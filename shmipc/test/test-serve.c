/* SPDX-License-Identifier: MIT */
/* The serve loop of shmipc, and blocking calls beside others. */
#include "rpc.h"
#include "support/rpcserve.h"
