/* SPDX-License-Identifier: MIT */
/* Clients of shmipc that wait for a server, and that outlive one. */
#include "rpc.h"
#include "support/rpcagain.h"
