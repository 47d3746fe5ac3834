/* SPDX-License-Identifier: MIT */
/* All transports, in the order of their rails in an engine. */
#include "transport.h"

#define TRANSPORTS                                                                                 \
	X(rdma)                                                                                    \
	X(shm)                                                                                     \
	X(gpu)                                                                                     \
	X(tcp)

#define X(name) extern const struct transport name##_transport;
TRANSPORTS
#undef X

#define X(name) &name##_transport,
const struct transport *const transports[] = {TRANSPORTS NULL};
