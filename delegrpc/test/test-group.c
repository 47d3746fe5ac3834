/* SPDX-License-Identifier: MIT */
/* Regions for one user or for a group. */
#include "rpc.h"
#include "support/grouptest.h"
