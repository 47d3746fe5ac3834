/* SPDX-License-Identifier: MIT */
/* The endpoints of daemon 0, one for each other rank. */
#ifndef BENCHKV_ENDPOINTS_H
#define BENCHKV_ENDPOINTS_H

#include "network.h"
#include "node.h"

/*
 * Opens the device, makes the endpoints of net, tells the other ranks their addresses, and
 * connects: all ranks of the job call it. 0, or -errno, and why[] says what failed.
 */
int endpoints_connect(struct node *n, struct network *net, char *why, int size);

#endif
