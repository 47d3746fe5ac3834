/* SPDX-License-Identifier: MIT */
/*
 * A server and clients that sleep in epoll as often as they can.
 *
 *	test-shmipc-hammer [CALLS]	calls of each client but the last one, in each run
 */
#include "rpc.h"
#include "support/rpchammer.h"
