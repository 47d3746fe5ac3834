/* SPDX-License-Identifier: MIT */
/* All transports. An engine uses the one that it asks for, or the last one. */
#include "transport.h"

#define TRANSPORTS                                                                                 \
	X(shm)                                                                                     \
	X(gpu)                                                                                     \
	X(tcp)                                                                                     \
	X(rdma)

#define X(name) extern const struct transport name##_transport;
TRANSPORTS
#undef X

#define X(name) &name##_transport,
const struct transport *const transports[] = {TRANSPORTS NULL};
