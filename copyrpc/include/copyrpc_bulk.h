/* SPDX-License-Identifier: MIT */
/*
 * Bulk data of copyrpc: pulls and pushes of memory that a request or response describes, and calls
 * with messages of up to COPYRPC_LARGE_MAX bytes. These functions are part of libcopyrpc. The HCA
 * moves the data by RDMA READ and WRITE, without a copy.
 *
 * Descriptors: one side registers memory and sends a descriptor in a request or a response. The
 * other side pulls from the memory or pushes into it.
 *
 *	copyrpc_bulk_create(ctx, data, size, COPYRPC_REMOTE_READ, &bulk);    // owner of the data
 *	copyrpc_bulk_export(bulk, ep, 0, size, desc);
 *	copyrpc_call(ep, desc, sizeof(desc), 0, token);
 *
 *	copyrpc_bulk_import(ep, copyrpc_req_data(req), copyrpc_req_len(req), &remote);
 *	copyrpc_bulk_pull(ep, &remote, 0, mine, 0, remote.len, on_pulled, req);
 *	...                                              // on_pulled, inside a poll: copyrpc_reply()
 *
 * Large calls: a large call works like an ordinary one, but the library pulls the request into
 * memory of the server, and pushes the response into memory of the caller.
 *
 *	copyrpc_large_accept(ctx, &(struct copyrpc_large_attr){.message_max = 64 << 20}); // server
 *	while (copyrpc_recv(ctx, &req))                  // small and large ones
 *		copyrpc_reply(req, copyrpc_req_data(req), 1);
 *
 *	copyrpc_call_large(ep, data, size, answer, sizeof(answer), token);                // client
 *
 * The rules of copyrpc.h for threads, sizes of structs and progress hold here, too.
 *
 * A peer is trusted with each registration (see copyrpc_bulk_create()) for which it has received a
 * descriptor or a large call, even if the descriptor covers only a part of the registration or
 * permits less access. The peer can use the registration until the memory is deregistered.
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
 * COPYRPC_REMOTE_WRITE in @access, of the peers. Later bulks within this memory that need no
 * further access share the registration, and so do large calls from or to this memory. The memory
 * belongs to the caller and must stay mapped until copyrpc_bulk_free() and the end of the pulls,
 * pushes and large calls that use it.
 *
 * Returns 0. -EINVAL: @len is 0, or an unknown bit of @access. -EFAULT: the memory is not mapped,
 * or not writable (it must be writable even if the peers only read it). -ENOMEM: the limit of
 * locked memory is too low, or there is no memory. Otherwise an error of the driver.
 */
int copyrpc_bulk_create(struct copyrpc_ctx *ctx, void *addr, size_t len, int access,
	struct copyrpc_bulk **bulk_p);

/*
 * Frees a bulk. The memory is deregistered when no other bulk shares the registration any more, and
 * all pulls, pushes and large calls of this side that use it have ended. Then the descriptors of
 * the bulk are invalid: an access of a peer breaks the connection (-EACCES), so free the bulk only
 * when the peers have finished. NULL is allowed. The destruction of the context frees its bulks.
 */
void copyrpc_bulk_free(struct copyrpc_bulk *bulk);

/*
 * Writes a descriptor of COPYRPC_BULK_SIZE bytes for the peer of @ep: @len bytes of the bulk from
 * the offset @off on. The descriptor is valid for this connection only; it stays valid if the
 * connection is lost and the endpoint returns (reconnect_ms). Its fields, each with offset and size
 * in bytes, are the following; numbers are little-endian:
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
	int access; /* COPYRPC_REMOTE_READ: pulls are allowed, COPYRPC_REMOTE_WRITE: pushes */
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
 * Reports the end of a pull or push, exactly once, inside a poll. @status is 0 if all bytes have
 * arrived at their destination, else the result of copyrpc_ep_status(). The callback may do what a
 * copyrpc_response_fn may do. It is not called if the context is destroyed.
 */
typedef void copyrpc_bulk_fn(void *arg, struct copyrpc_ep *ep, int status);

/*
 * Starts the transfer of @len bytes from the peer's memory into the bulk, or from the bulk into the
 * peer's memory; the offsets count from the beginnings of the remote range and of the bulk. If the
 * endpoint has no transfer in progress, the next poll sends the collected messages and the first
 * bytes with one doorbell. A transfer is cut into parts of at most 1 MiB. Two parts of an endpoint
 * are in progress at a time, or more if they are shorter; its transfers take turns. While ordinary
 * calls are made on the endpoint, only one part is in progress at a time, so that a call or its
 * response waits for one part at most; the first call after a pause may wait for two. Pushed bytes
 * arrive in no particular order, but before the messages that are sent after the callback. Before
 * the callback, do not change memory that is read, and do not use memory that is written.
 *
 * If the endpoint returns after a lost connection, the transfer continues: the parts that are not
 * known to have arrived are moved again.
 *
 * -EINVAL: a range is empty or not within its memory, or the bulk belongs to another context.
 * -EACCES: the descriptor does not permit the transfer. -ENOMEM: no memory. -ENOTCONN: not yet
 * connected. Otherwise the endpoint has failed, and its status is returned. There is no limit for
 * the number of transfers.
 */
int copyrpc_bulk_pull(struct copyrpc_ep *ep, const struct copyrpc_remote *from, uint64_t from_off,
	struct copyrpc_bulk *to, uint64_t to_off, uint64_t len, copyrpc_bulk_fn *fn, void *arg);
int copyrpc_bulk_push(struct copyrpc_ep *ep, struct copyrpc_bulk *from, uint64_t from_off,
	const struct copyrpc_remote *to, uint64_t to_off, uint64_t len, copyrpc_bulk_fn *fn,
	void *arg);

/* -------------------------------------------------------------- large calls */

/* The largest request and response of a large call in bytes. */
#define COPYRPC_LARGE_MAX (1u << 30)

/* All zero: large calls of the peers are refused, as before the first copyrpc_large_accept(). */
struct copyrpc_large_attr {
	size_t size; /* of this struct, see Sizes in copyrpc.h; 0: the fields up to memory_max */
	uint32_t message_max; /* the largest request and response, at most COPYRPC_LARGE_MAX */
	uint64_t memory_max; /* bytes of all buffers for large requests; 0: four requests of
				message_max bytes */
};

/*
 * Lets the endpoints of the context serve large calls. A large request occupies a buffer from the
 * beginning of its pull until its response has been sent. A new buffer has the length of the
 * request or of its largest response, whichever is longer, rounded up to 64 KiB. The context keeps
 * the buffers of answered requests for later ones, and a request may get a kept buffer of up to
 * twice this length. If a new buffer would exceed memory_max, the context frees kept buffers; if
 * that does not suffice, the request waits. A later call of this function changes message_max; it
 * can raise memory_max, but not lower it.
 *
 * -EINVAL: message_max is too large, or memory_max is too small for one such message. -E2BIG: as
 * from copyrpc_ctx_create().
 */
int copyrpc_large_accept(struct copyrpc_ctx *ctx, const struct copyrpc_large_attr *attr);

/*
 * Makes a call whose request and response may be large. The response is written to the @resp_max
 * bytes at @resp; the callback gets @resp and the length. Both buffers belong to the caller, who
 * must not change @data, nor use @resp, until the callback. A buffer that is not within a bulk with
 * the access that the server needs (COPYRPC_REMOTE_READ for @data, COPYRPC_REMOTE_WRITE for @resp)
 * is registered for the time of the call, which takes a system call. A buffer of up to 960 bytes
 * (less if the rings permit no such message) is not registered: its bytes are copied. Room, credit
 * and the callback are as for copyrpc_call(). If the endpoint returns after a lost connection
 * (reconnect_ms), the call is still executed only once. The server receives the request when all
 * its bytes have arrived: later calls whose bytes arrive earlier overtake it.
 *
 * The call ends with -EMSGSIZE if a length is larger than the server's message_max, and with
 * -ENOMEM if the server has no memory. copyrpc_cancel() sets the status of the call to -ECANCELED,
 * but the call ends only when its response arrives, because the server may use the buffers until
 * then.
 *
 * Returns the same as copyrpc_call(), or an error of copyrpc_bulk_create(). -EMSGSIZE: a length is
 * larger than COPYRPC_LARGE_MAX.
 */
int copyrpc_call_large(struct copyrpc_ep *ep, const void *data, uint32_t len, void *resp,
	uint32_t resp_max, uint64_t token);

/*
 * Returns the memory of a large request that copyrpc_recv() has returned, NULL for other requests.
 * This memory holds the request's payload, and has at least copyrpc_req_allowance() bytes, into
 * which the program may write. It is not in the ring, so the peer cannot change it, and
 * copyrpc_req_detach() has nothing to do. If the @data of copyrpc_reply() is this address, the
 * response is not copied; other data is copied to this memory. A response of up to 960 bytes is
 * sent in a message, a longer one is pushed to the caller. If this side has no memory for the
 * push, copyrpc_reply() returns -ENOMEM, the request is released, and the call ends with -ENOMEM.
 */
void *copyrpc_req_memory(const struct copyrpc_req *req);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
