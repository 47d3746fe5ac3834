/* SPDX-License-Identifier: MIT */
/* The transports that there are. An engine has the first one that it wants. */
#include "transport.h"

#define TRANSPORTS                                                                                 \
	X(shm)                                                                                     \
	X(rdma)

#define X(name) extern const struct transport name##_transport;
TRANSPORTS
#undef X

#define X(name) &name##_transport,
const struct transport *const transports[] = {TRANSPORTS NULL};
