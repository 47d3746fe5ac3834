/* SPDX-License-Identifier: MIT */
/* Clients that cannot wake a server that sleeps on its descriptor. */
#include "rpc.h"
#include "map.h"
#include "support/reachtest.h"
