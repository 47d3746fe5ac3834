/* SPDX-License-Identifier: MIT */
/* The events of a server of shmipc. */
#include "rpc.h"
#include "map.h"
#include "support/rpcevents.h"
