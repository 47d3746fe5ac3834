/* SPDX-License-Identifier: MIT */
/* The serve loop of shmipc, and blocking calls while other calls are open. */
#include "rpc.h"
#include "support/rpcserve.h"
