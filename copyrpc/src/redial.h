/* SPDX-License-Identifier: MIT */
/* Connects an endpoint again after a lost connection, on the side that has dialed. */
#ifndef COPYRPC_REDIAL_H
#define COPYRPC_REDIAL_H

#include "lobby.h"

struct addrinfo;

/* Dials these addresses whenever the endpoint loses its connection, until the endpoint fails or is
 * destroyed. Returns 0 or -ENOMEM. After success the addresses are freed at the end of the redial,
 * not by the caller. */
int redial_start(struct lobby *y, struct copyrpc_ep *ep, struct addrinfo *addresses);

#endif
