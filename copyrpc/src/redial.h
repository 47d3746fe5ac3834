/* SPDX-License-Identifier: MIT */
/* Connecting an endpoint again, on the side that has dialed. */
#ifndef COPYRPC_REDIAL_H
#define COPYRPC_REDIAL_H

#include "lobby.h"

struct addrinfo;

/* Dials these addresses whenever the endpoint goes away, until it fails or is destroyed. Takes the
 * ownership of the addresses if it succeeds. Returns 0 or -ENOMEM. */
int redial_start(struct lobby *y, struct copyrpc_ep *ep, struct addrinfo *addresses);

#endif
