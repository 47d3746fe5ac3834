/* SPDX-License-Identifier: MIT */
/* How the ranks of a job connect: who gets which endpoints, see node.h. */
#ifndef BENCHKV_ENDPOINTS_H
#define BENCHKV_ENDPOINTS_H

#include "node.h"

/*
 * Opens the device, makes the endpoints of the daemons and clients, tells the other ranks their
 * addresses, and connects: all ranks of the job call it. 0, or -errno, and why[] says what
 * failed.
 */
int endpoints_connect(struct node *n, char *why, int size);

#endif
