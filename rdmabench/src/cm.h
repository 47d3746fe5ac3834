/* SPDX-License-Identifier: MIT */
/*
 * Connects the QPs of two sides by rdma_cm(7), which finds the address of the peer's RDMA port. The
 * server listens at a port of rdma_cm, whose number it sends in the message WELCOME (wire.h); after
 * JOIN the client connects one QP after another. mlx5dv-lite creates the QPs, and connects them
 * when rdma_cm has found the path.
 *
 * A connection request names a QP of the server. JOIN has named the client's QP that belongs to
 * this QP, and a request from another QP is rejected. Requests for UD do not contain the QP from
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
 * without librdmacm), -ENODEV (rdma_cm's path begins at another device), -ETIMEDOUT, -ECONNREFUSED,
 * ...
 */

/* Begins to listen. The port is in s->cm.port. */
int cm_listen(struct side *s, char why[WIRE_TEXT_MAX]);
/* Waits for the connection requests of all QPs of all peers, and accepts them. */
int cm_accept(struct side *s, char why[WIRE_TEXT_MAX]);
/* Connects the QPs of a peer, whose address is that of its TCP connection. */
int cm_connect(struct peer *p, char why[WIRE_TEXT_MAX]);

/* Destroys all objects of rdma_cm. Must be called before the QPs are destroyed. */
void cm_close(struct side *s);

#endif
