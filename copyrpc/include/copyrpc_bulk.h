/* SPDX-License-Identifier: MIT */
/*
 * Bulk data of copyrpc: memory that requests and responses describe instead of containing. These
 * functions are part of libcopyrpc. The HCA moves the data by RDMA READ and WRITE, without a copy.
 *
 * Descriptors: one side registers memory and sends a descriptor in a request or a response. The
 * other side pulls from the memory or pushes into it.
 *
 *	copyrpc_bulk_create(ctx, file, size, COPYRPC_REMOTE_READ, &bulk);    // owner of the data
 *	copyrpc_bulk_export(bulk, ep, 0, size, desc);
 *	copyrpc_call(ep, desc, sizeof(desc), 0, token);
 *
 *	copyrpc_bulk_import(ep, copyrpc_req_data(req), copyrpc_req_len(req), &remote);
 *	copyrpc_bulk_pull(ep, &remote, 0, mine, 0, remote.len, on_pulled, req);
 *	...                                              // on_pulled, inside a poll: copyrpc_reply()
 *
 * The rules of copyrpc.h for threads, sizes of structs and progress hold here, too.
 *
 * A peer is trusted with the memory for which it has a descriptor, and with no other: until the memory is deregistered it can read it, or write it, at any time.
 */
#ifndef COPYRPC_BULK_H
#define COPYRPC_BULK_H

#include "copyrpc.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* -------------------------------------------------------------- descriptors */

/* Memory registered with a context. */
struct copyrpc_bulk;

/* Size of a descriptor in bytes. */
#define COPYRPC_BULK_SIZE 32

/*
 * Registers @len bytes, for operations of this side and, with COPYRPC_REMOTE_READ and
 * COPYRPC_REMOTE_WRITE in @access, of the peers. The context remembers the memory: another creation
 * within it with no more access registers nothing. The memory
 * belongs to the caller and must stay mapped until copyrpc_bulk_free() and the end of the pulls and pushes that use it.
 *
 * Returns 0. -EINVAL: @len is 0, or an unknown bit of @access. -EFAULT: the memory is not mapped.
 * -ENOMEM: the limit of locked memory, or no memory. Otherwise an error of the driver.
 */
int copyrpc_bulk_create(struct copyrpc_ctx *ctx, void *addr, size_t len, int access,
	struct copyrpc_bulk **bulk_p);

/*
 * Ends the use of the memory. The memory is deregistered at once, or at the end of the last pull or
 * push of this side that uses it, or when the last of several bulks that share the
 * registration is freed. Afterwards its descriptors are invalid: an access of a peer breaks the
 * connection (-EACCES), so free the bulk when the peers have finished. NULL is allowed. The destruction
 * of the context frees its bulks.
 */
void copyrpc_bulk_free(struct copyrpc_bulk *bulk);

/*
 * Writes a descriptor of COPYRPC_BULK_SIZE bytes for the peer of @ep: @len bytes of the bulk from
 * the offset @off on. The descriptor is valid for this connection only, also after the endpoint has
 * returned (reconnect_ms). Numbers are little-endian:
 *
 *	 0  8  the connection             24  4  key
 *	 8  8  address                    28  1  version: 1
 *	16  8  length                     29  1  access; followed by two zero bytes
 *
 * -EINVAL: the range is empty or not within the bulk, or the endpoint belongs to another context.
 */
int copyrpc_bulk_export(const struct copyrpc_bulk *bulk, const struct copyrpc_ep *ep, uint64_t off,
	uint64_t len, void *desc);

/* Memory of a peer. */
struct copyrpc_remote {
	uint64_t addr, len; /* bytes */
	uint32_t rkey;
	int access; /* COPYRPC_REMOTE_READ: it may be pulled, COPYRPC_REMOTE_WRITE: pushed */
};

/*
 * Reads a descriptor that the peer of @ep has sent; @size is the number of its bytes.
 *
 * -EINVAL: not a descriptor. -EPROTONOSUPPORT: a descriptor of another version. -EXDEV: a
 * descriptor of another connection. -ENOTCONN: not yet connected.
 */
int copyrpc_bulk_import(const struct copyrpc_ep *ep, const void *desc, size_t size,
	struct copyrpc_remote *remote_p);

/*
 * Reports the end of a pull or push, exactly once, inside a poll. @status is 0, and all bytes have
 * arrived in the local memory, or in the peer's; or as copyrpc_ep_status(). The callback may do
 * what a copyrpc_response_fn may. It is not called if the context is destroyed.
 */
typedef void copyrpc_bulk_fn(void *arg, struct copyrpc_ep *ep, int status);

/*
 * Starts the transfer of @len bytes from the peer's memory into the bulk, or from the bulk into the
 * peer's memory; the offsets count from the beginnings of the remote range and of the bulk. A
 * transfer is cut into parts of at most 1 MiB, of which a few are under way at a time; transfers of
 * an endpoint take turns. Bytes that are pushed arrive before the messages that are sent after the
 * callback, in no particular order. Do not change memory that is read, nor use memory that is
 * written, before the end.
 *
 * If the endpoint returns after a lost connection, the transfer goes on: the parts whose end is not
 * known are moved again.
 *
 * -EINVAL: a range is empty or not within its memory, or the bulk belongs to another context.
 * -EACCES: the descriptor does not permit it. -ENOMEM: no memory. -ENOTCONN: not yet connected.
 * Otherwise the endpoint has failed, and its status is returned. There is no limit for the number of
 * transfers.
 */
int copyrpc_bulk_pull(struct copyrpc_ep *ep, const struct copyrpc_remote *from, uint64_t from_off,
	struct copyrpc_bulk *to, uint64_t to_off, uint64_t len, copyrpc_bulk_fn *fn, void *arg);
int copyrpc_bulk_push(struct copyrpc_ep *ep, struct copyrpc_bulk *from, uint64_t from_off,
	const struct copyrpc_remote *to, uint64_t to_off, uint64_t len, copyrpc_bulk_fn *fn,
	void *arg);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
