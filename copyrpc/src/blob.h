/* SPDX-License-Identifier: MIT */
/* The connection data of an endpoint. The comment of copyrpc_ep_info() describes the bytes. */
#ifndef COPYRPC_BLOB_H
#define COPYRPC_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx5dvl.h"

#define BLOB_VERSION 5

struct blob {
	struct mlx5dvl_qp_info qp;
	uint64_t ring_addr, word_addr;
	uint32_t ring_rkey, word_rkey;
	uint32_t ring_size, credit;
	bool nested;
	uint64_t number; /* random number of the endpoint; 0: the program cannot connect it again */
};

void blob_encode(const struct blob *b, void *bytes);

/* Returns 0, -EINVAL (not a blob) or -EPROTONOSUPPORT (another version). The caller must check the
 * values of the fields. */
int blob_decode(struct blob *b, const void *bytes, size_t len);

#endif
