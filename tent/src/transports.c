/* SPDX-License-Identifier: MIT */
/* The table of all transports. An engine numbers the rails of the first one first, and so on. */
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
