/* SPDX-License-Identifier: MIT */
/* Receives and answers large calls on the side of the server. */
#ifndef COPYRPC_SERVE_H
#define COPYRPC_SERVE_H

#include "internal.h"

/* These implement the function pointers in struct req_queue. */
int serve_large(struct copyrpc_req *req);
void serve_release(struct copyrpc_req *req);

/* Implements copyrpc_reply() for a large request. */
int serve_reply(struct copyrpc_req *req, const void *data, uint32_t len);

#endif
