/* SPDX-License-Identifier: MIT */
/* Connects an endpoint again after a lost connection, on the side that has dialed. */
#ifndef COPYRPC_REDIAL_H
#define COPYRPC_REDIAL_H

#include "lobby.h"

struct addrinfo;

/* Dials these addresses whenever the endpoint loses its connection, until the endpoint fails or is
 * destroyed. If the function succeeds, it takes the ownership of the addresses. Returns 0 or
 * -ENOMEM. */
int redial_start(struct lobby *y, struct copyrpc_ep *ep, struct addrinfo *addresses);

#endif
