/* SPDX-License-Identifier: MIT */
#include "rpc.h"
#include "support/rpcfull.h"
