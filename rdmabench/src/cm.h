/* SPDX-License-Identifier: MIT */
/*
 * Connects the QPs of two sides by rdma_cm(7), which finds the address of the peer's RDMA port. The
 * server listens at a port of rdma_cm, whose number it sends in WELCOME; after JOIN the client
 * connects one QP after another. The QPs are those of mlx5dv-lite, which connects them when rdma_cm
 * has found the path.
 *
 * A connection request names a QP of the server. The request is rejected if it does not come from
 * the QP of the client that JOIN named for this QP. Requests for UD do not contain the QP from
 * which they come, so for UD this is not checked.
 *
 * librdmacm has no ids for UC, so ids for RC are used: they exchange the same messages, and rdma_cm
 * does not manage the QPs.
 */
#ifndef RDMABENCH_CM_H
#define RDMABENCH_CM_H

#include "side.h"

/*
 * These functions return 0, or -errno with a line in @why: -EOPNOTSUPP (this program was built
 * without librdmacm), -ENODEV (rdma_cm leads to another device), -ETIMEDOUT, -ECONNREFUSED, ...
 */

/* Begins to listen. The port is in s->cm.port. */
int cm_listen(struct side *s, char why[WIRE_TEXT_MAX]);
/* Accepts the QPs of all peers. */
int cm_accept(struct side *s, char why[WIRE_TEXT_MAX]);
/* Connects the QPs of a peer, whose address is that of its TCP connection. */
int cm_connect(struct peer *p, char why[WIRE_TEXT_MAX]);

/* Destroys all objects of rdma_cm. Must be called before the QPs are destroyed. */
void cm_close(struct side *s);

#endif
