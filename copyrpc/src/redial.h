/* SPDX-License-Identifier: MIT */
/* Connecting an endpoint again, on the side that has dialed. */
#ifndef COPYRPC_REDIAL_H
#define COPYRPC_REDIAL_H

#include "lobby.h"

struct addrinfo;

/* Whenever the endpoint goes away, dials these addresses, which then belong to the redial, until
 * the endpoint fails or is destroyed. Returns 0 or -ENOMEM. */
int redial_start(struct lobby *y, struct copyrpc_ep *ep, struct addrinfo *addresses);

#endif
