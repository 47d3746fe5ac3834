/* SPDX-License-Identifier: MIT */
/*
 * copyrpc - many small RPCs in few RDMA WRITEs
 *
 * A call or a reply is copied into a ring. A flush takes all messages that an endpoint has
 * collected since the last flush, and sends them as one batch: a single RDMA WRITE with immediate
 * to the same position in the peer's ring. So the number of work requests, doorbells and
 * completions depends on the number of flushes, not on the number of messages. Each batch begins
 * with 32 bytes of flow control data. A reply always has room, because its space was granted before
 * the request was sent.
 *
 *	struct copyrpc_ctx_attr attr = { .max_endpoints = 8 };
 *	copyrpc_ctx_create(&attr, &ctx);
 *	copyrpc_ep_create(ctx, NULL, &ep);
 *	copyrpc_ep_info(ep, mine);                       // send to the peer, by any channel
 *	copyrpc_ep_connect(ep, theirs, COPYRPC_INFO_SIZE);
 *
 *	copyrpc_call(ep, "ping", 4, 64, token);          // client: at most 64 bytes come back
 *	while (!done)
 *		copyrpc_poll(ctx, on_response, &done);   // on_response gets the token
 *
 *	copyrpc_poll(ctx, on_response, NULL);            // server; a context may be both
 *	while (copyrpc_recv(ctx, &req) == 1)
 *		copyrpc_reply(req, copyrpc_req_data(req), copyrpc_req_len(req));
 *
 * Threads: there are no locks. Only one thread at a time may use a context and the objects that
 * belong to it (endpoints, requests); another thread may use them later. Threads that work at the
 * same time must each create a context. Contexts share nothing.
 *
 * Sizes: a later version may add fields to the end of the attribute structs, of struct copyrpc_path
 * and of the structs with counters. A program that sets an added field must also set `size` to the
 * size of its struct. Fields beyond `size` count as 0, the default, so a program that was compiled
 * for an older version gets the defaults of the added fields. If a program sets an attribute, a
 * field or a bit of `set` that the library does not have, because it is older, the function returns
 * -E2BIG. Functions that return counters write at most as many bytes as the program's struct has;
 * counters that the library does not have stay unchanged.
 *
 * Progress is made only inside copyrpc_poll() (or copyrpc_poll_recv() and a flush); there is no
 * background thread. No function of this header waits. Unless something fails, only these make
 * system calls: functions that create, connect, destroy, register or deregister; a flush that makes
 * a ring larger; copyrpc_ctx_no_receive(); copyrpc_ctx_arm() and the next poll; one poll every 0.1
 * s; while the context listens or connects over TCP (copyrpc_tcp.h), a few polls per millisecond;
 * and, with large calls, pulls and pushes (copyrpc_bulk.h), copyrpc_call_large(), a poll of the
 * server that maps and registers memory for a request, and a poll that ends the registration of
 * memory. copyrpc_req_detach() allocates memory, and so do large calls, pulls, pushes, and an
 * endpoint's first raw operation and its first call with a time limit. A flush that makes a ring
 * larger maps and registers memory, which takes up to several hundred microseconds. Polls read the
 * clock through the vDSO, at intervals from ten microseconds to some milliseconds.
 *
 * An endpoint that has failed, or is destroyed (alone or with its context), says goodbye to its
 * peer. The peer's endpoint first receives everything that was sent before the goodbye, and then
 * fails with -ECONNRESET in its next poll, even if it has no calls pending. No function waits for
 * the goodbye. If the goodbye is lost, or the process was killed, the peer detects the end as
 * follows.
 *
 * The death of a peer is detected only while something is pending. If nothing arrives while calls
 * are unanswered, or while the peer has not consumed all messages (replies, for example), the
 * library probes the peer: it READs the peer's memory within 0.2 s after the last arrival. If the
 * program polls less often than every 0.1 s, the second poll after the last arrival sends the
 * probe. A probe that gets no answer for probe_ms, 5 s by default, ends all pending calls with
 * -ETIMEDOUT. The HCA repeats messages meanwhile, so a link that is down for less than probe_ms
 * only delays the calls. If the time-outs in struct copyrpc_path are shorter than probe_ms (by
 * default, with COPYRPC_ANSWER_NS, they are longer), the HCA gives up earlier, and the calls end
 * with -ECONNRESET. If the HCA of one side completes no more requests, the endpoint of that side
 * fails, and then the calls of the other side end with -ECONNRESET. A peer whose process is stopped
 * (by a debugger, for example) while it has receives left is not detected, because its HCA answers:
 * use a time limit for calls (copyrpc_call_timed()).
 *
 * A context that is polled reads the asynchronous events of the device every 0.1 s. If the device,
 * or a queue of the context, has failed, all connected endpoints of the context fail with -EIO and
 * no endpoint can be created. After a change of the port's addresses new endpoints use the new
 * addresses.
 *
 * Memory: an endpoint starts with rings of 8 KiB, which grow up to ring_size when calls or traffic
 * need it. A call for which there is no room yet returns -EAGAIN or -ENOBUFS; if the peer polls,
 * the larger ring is ready after one round trip. Rings do not shrink, because a peer that has
 * needed room will need it again; destroying the endpoint frees them. With max_endpoints = 1,024
 * and the other attributes at their defaults, 1,024 idle endpoints take about 50 MiB with all
 * queues. If there is no memory for a larger ring, the endpoint keeps the present one, and tries
 * again after some milliseconds.
 *
 * Data from a peer is not trusted: a batch that breaks the protocol fails the endpoint that
 * received it, and nothing else. The payload of a request or response is in memory that the peer
 * may write, so the peer can change it while the program reads it. If that matters, copy the
 * payload first (copyrpc_req_detach() does so for a request).
 *
 * A forked child must neither use nor destroy its parent's contexts. The child may execute another
 * program or end, at any time: it does not inherit the rings. On kernels before 5.12 the queues of
 * libmlx5 need ibv_fork_init(), or IBV_FORK_SAFE=1, before the first context.
 *
 * To stop the queue pair of a connected endpoint, the library sends a command to the device. This
 * takes up to several hundred microseconds, during which the other endpoints of the context make no
 * progress. Afterwards the device refuses the peer's messages. The library stops a queue pair in
 *
 *	copyrpc_ep_destroy(), copyrpc_ctx_destroy(), and functions of copyrpc_tcp.h that end an
 *		endpoint
 *	a poll, if the peer said goodbye (-ECONNRESET) or broke the protocol (-EPROTO), if a probe
 *		got no answer for probe_ms (-ETIMEDOUT), or if the device reported that this
 *		queue pair has failed, for example by a wrong request of the peer (-ECONNRESET),
 *		or that the device or a queue of the context has failed (-EIO, for all endpoints)
 *	a flush, if the queue pair accepts no request (-ECONNRESET)
 *	copyrpc_ep_again(), and a poll after the port has lost the address of an endpoint that has
 *		reconnect_ms
 *
 * After a completion with an error no command is needed: the device has stopped the queue pair by
 * itself. The library does not wait until the device has finished with a queue pair. A later
 * function that creates or destroys an endpoint frees the queue pair of a destroyed endpoint when
 * the device has reported that the queue pair is drained, or after a second.
 */
#ifndef COPYRPC_H
#define COPYRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct copyrpc_ctx;
struct copyrpc_ep;
struct copyrpc_req;

/* Size of the connection blob in bytes, see copyrpc_ep_info(). */
#define COPYRPC_INFO_SIZE 96

/* Smallest and largest size of a ring in bytes. The size must be a power of two. */
#define COPYRPC_RING_MIN 4096u
#define COPYRPC_RING_MAX (1u << 30)

/*
 * The largest payload of a request, and of a response, if the endpoint's rings have @ring_size
 * bytes. A message with its 12-byte header takes at most an eighth of the ring, so the limit is 500
 * bytes for a ring of 4 KiB and 131,060 bytes for 1 MiB.
 */
#define COPYRPC_PAYLOAD_MAX(ring_size) ((ring_size) / 8 - 12)

/* The same for a context with the attribute `nested`. */
#define COPYRPC_NESTED_PAYLOAD_MAX(ring_size) ((ring_size) / 16 - 12)

/*
 * Defaults for retransmission: the time that the HCA waits for an acknowledgement before it repeats
 * a message (as an exponent), and the number of repetitions. Together they give COPYRPC_ANSWER_NS,
 * 7.5 s: if a message is not acknowledged for that long, its endpoint may fail. An HCA may wait up
 * to four times longer. While a message is pending, an unanswered probe fails the endpoint earlier
 * (attribute probe_ms).
 */
#define COPYRPC_TIMEOUT 18 /* 4.096 us * 2^18 = 1.07 s */
#define COPYRPC_RETRIES 7
#define COPYRPC_ANSWER_NS ((4096ull << COPYRPC_TIMEOUT) * COPYRPC_RETRIES)

/* ------------------------------------------------------------------ contexts */

/* Bits of `set`, for fields in which 0 is a valid value: if the bit is set, 0 means 0; otherwise 0
 * means the default. */
enum {
	COPYRPC_SET_GID_INDEX = 1, /* this and the next two: for struct copyrpc_ctx_attr */
	COPYRPC_SET_PKEY_INDEX = 2,
	COPYRPC_SET_VECTOR = 4,
	COPYRPC_SET_TIMEOUT = 1, /* this and the next three: for struct copyrpc_path */
	COPYRPC_SET_RETRY_CNT = 2,
	COPYRPC_SET_RNR_RETRY = 4,
	COPYRPC_SET_MIN_RNR_TIMER = 8,
};

/*
 * Attributes of an endpoint's path, as in InfiniBand. All zero is the default. If the switches are
 * lossless for only one class of traffic, set sl, or traffic_class on RoCE, to that class.
 */
struct copyrpc_path {
	size_t size; /* of this struct, see Sizes; 0: the fields up to and including set */
	uint8_t sl; /* service level, 0 to 15; on RoCE the priority */
	uint8_t traffic_class; /* of the global route header; RoCE v2: DSCP << 2 */
	uint32_t flow_label; /* of the global route header, 20 bits */
	uint8_t mtu; /* 1 (256) to 5 (4096), but not above the active MTU of this side's port
			(-EINVAL); 0: the port's. The smaller MTU of both ends is used */
	uint8_t timeout; /* exponent, at most 31; 0: COPYRPC_TIMEOUT; 0 and set: wait for ever */
	uint8_t retry_cnt; /* 1 to 7; 0: COPYRPC_RETRIES; 0 and set: none */
	uint8_t rnr_retry; /* retries when the peer has no receive: 1 to 6; 0 (and not set) or 7:
			      for ever; 0 and set: none */
	uint8_t min_rnr_timer; /* time that a peer must wait when this side has no receive: 1 to 31;
				  0: 12 (0.64 ms); 0 and set: 655 ms */
	unsigned set;
};

/* All zero is the default. */
struct copyrpc_ctx_attr {
	size_t size; /* of this struct, see Sizes; 0: the fields up to and including probe_ms */
	const char *device; /* mlx5 device by name; NULL: the first one with an active port */
	uint8_t port; /* 0: the first active one */
	unsigned set;
	int gid_index; /* > 0, or set: index in the port's GID table, on InfiniBand, too; 0: the
			  library chooses (on RoCE a RoCE v2 GID; on InfiniBand GID 0 if the port
			  requires a global route header, else none) */
	uint16_t pkey_index; /* > 0, or set: index in the port's P_Key table; 0: the first partition
				of which the port is a full member */
	uint32_t srq_depth; /* number of receives. A batch uses one, and a poll posts the used ones
			       again only if fewer than two thirds are left. So two thirds of
			       srq_depth batches can always arrive between two polls; the sender's
			       HCA may have to repeat further ones. 0: half of max_endpoints *
			       sq_depth, at least 1024 and at most 32,767 */
	uint32_t cq_depth; /* of the receive CQ, at least srq_depth; 0: the larger of 4096 and
			      srq_depth */
	uint32_t max_endpoints; /* at the same time, 0: 64; determines the size of the send CQ */
	uint32_t sq_depth; /* of each endpoint's send queue, in 64-byte blocks; 0: 256, but if
			      max_endpoints is over 512: 2^17 divided by the smallest power of two
			      that is not less than max_endpoints, and at least 64 */
	uint32_t ring_size; /* default for the endpoints, bytes: the size up to which their rings
			       grow; 0: 1 MiB */
	uint32_t max_pending; /* pending calls per endpoint; 0: as many as credit allows */
	bool nested; /* handlers of requests may make calls, see copyrpc_call_nested() */
	const struct copyrpc_path *path; /* of endpoints without a path of their own; NULL: the
					    default; copied */
	uint32_t probe_ms; /* the time after which an unanswered probe of the peer fails; 0: 5000; a
			      value over 7,000 has an effect only with reconnect_ms, or with a
			      longer path.timeout (21 gives 60 s), because the HCA itself gives up
			      after COPYRPC_ANSWER_NS, 7.5 s */
	uint64_t reconnect_ms; /* the time that an endpoint has to get another connection after a
				  loss, before it fails; 0: it fails immediately. See
				  copyrpc_tcp.h */
	uint32_t vector; /* > 0, or set: completion vector, that is, the interrupt that wakes a
			    program that sleeps on copyrpc_ctx_fd(); 0: the contexts of a process
			    take the device's vectors in turn */
	uint16_t event_count; /* moderation: the number of completions after which copyrpc_ctx_fd()
				 of an armed context becomes readable */
	uint16_t event_period_us; /* the longest time from the first completion until the descriptor
				     becomes readable; > 0 if event_count > 1. If both are 0, one
				     completion suffices */
};

/*
 * Opens the device and creates the objects that all endpoints share: a protection domain, a shared
 * receive queue, a receive and a send completion queue. @attr may be NULL. The caller owns *ctx_p
 * and must destroy it with copyrpc_ctx_destroy().
 *
 * -ENODEV: no such device, or it is not an mlx5 device. -ENETDOWN: no port that may be used is
 * active. -EADDRNOTAVAIL: the port needs a GID and has none. -ENOKEY: the port is not a full member
 * of any partition; set pkey_index. -E2BIG: this library does not know an attribute, or a field of
 * the path, that is set, or a bit of `set`. -EINVAL: no such port, GID or P_Key index, cq_depth <
 * srq_depth, sq_depth under 16, a ring size that is not a power of two or is out of range, a vector
 * that the device does not have, event_count > 1 without a period, sq_depth (rounded up to a power
 * of two) * max_endpoints over 2^22 (with reconnect_ms: times max_endpoints + 1), or a depth, or a
 * period of moderation, beyond the device's limits (on the software HCA a period is at most 4,095
 * us). -EMFILE: too few free descriptors; a context needs seven, and its endpoints together use one
 * more if one is free. -ENOMEM or -EPERM: the limit of locked memory is too low (raise
 * RLIMIT_MEMLOCK), or there is no memory. Otherwise an error of the driver.
 */
int copyrpc_ctx_create(const struct copyrpc_ctx_attr *attr, struct copyrpc_ctx **ctx_p);

/*
 * Destroys the context, its endpoints and held requests, without callbacks. To get callbacks for
 * pending calls, first destroy each endpoint with copyrpc_ep_destroy() and poll once. NULL is
 * allowed. Not allowed inside a callback.
 */
void copyrpc_ctx_destroy(struct copyrpc_ctx *ctx);

/* ----------------------------------------------------------------- endpoints */

/* All zero is the default. */
struct copyrpc_ep_attr {
	size_t size; /* of this struct, see Sizes; 0: the fields up to and including name */
	uint32_t ring_size; /* bytes up to which both rings grow, equal at both ends; 0: the
			       context's */
	uint32_t max_pending; /* 0: the context's */
	void *user; /* see copyrpc_ep_user() */
	const struct copyrpc_path *path; /* NULL: the context's; copied */
	const char *name; /* of the peer, for copyrpc_ep_describe(); at most 63 bytes are copied;
			     may be NULL */
	bool by_hand; /* the program connects the endpoint again after a loss, see
			 copyrpc_ep_again(). copyrpc_ep_meet() is the only function of
			 copyrpc_tcp.h that connects such an endpoint */
	uint64_t event_token; /* token of its events, if by_hand */
};

/*
 * Creates an endpoint (two rings and an RC queue pair) that is not yet connected. @attr may be
 * NULL. An endpoint takes memory for its two rings, and about a third of the size of a ring for
 * requests and calls; with rings of 8 KiB, this is about 20 KiB, and the send queue takes as much
 * again.
 *
 * -E2BIG: as from copyrpc_ctx_create(). -EINVAL: a wrong ring size or path. -EMFILE: max_endpoints
 * exist. (A destroyed endpoint counts until a poll has run and the HCA has released its queue pair;
 * requests of it that are still held do not matter. The release takes microseconds, or a second if
 * the HCA does not report it.) -EIO: the device has failed. -ENOMEM, or an error of the driver.
 */
int copyrpc_ep_create(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr,
	struct copyrpc_ep **ep_p);

/*
 * Destroys the endpoint. Messages that were not flushed are lost. Its pending calls end at the next
 * poll, with -ECANCELED or, if this endpoint had already failed, with its status (the ep argument
 * of the callback is valid during the callback only).
 * Requests that copyrpc_recv() has not returned are dropped. Requests that the caller holds stay
 * readable until copyrpc_reply(), which releases them and returns the status; the first poll after
 * the last release frees the endpoint's memory. Raw operations that have not completed, or were not
 * returned by copyrpc_raw_recv(), are dropped. The peer's endpoint fails with -ECONNRESET in its
 * next poll; if the goodbye is lost, the peer detects the end later, like the death of a process.
 * NULL is allowed. The function may be called inside a callback.
 */
void copyrpc_ep_destroy(struct copyrpc_ep *ep);

/*
 * Writes the COPYRPC_INFO_SIZE bytes that the peer's copyrpc_ep_connect() needs. Any channel may
 * carry them to the peer, but they contain a key, and every process that has the key can write into
 * the ring: do not send the bytes outside the job. Each entry below starts with the offset and the
 * length in bytes; all numbers are little-endian:
 *
 *	 0  8  "CPRPCINF"                 40 16  GID; all zero: addressed by LID
 *	 8  2  version: 5                 56  8  address of the receive ring
 *	10  2  length: 96                 64  8  address of the consumer word
 *	12  4  QP number                  72  4  key to write the ring
 *	16  4  first PSN                  76  4  key to read the word
 *	20  2  LID; 0 on RoCE             80  4  bytes up to which the ring grows
 *	22  1  MTU: 1 (256) to 5 (4096)   84  4  initial credit, bytes: a quarter of the first ring
 *	23  1  READs served in parallel   88  8  random number or 0, see below
 *	24  1  1: `nested`, else 0
 *	25 15  zero
 *
 * The random number identifies the endpoint in the messages of copyrpc_ep_again_info(). It is 0 if
 * the endpoint does not have the attribute `by_hand`, or its context does not have reconnect_ms:
 * then copyrpc_ep_again() cannot connect the endpoint again.
 *
 * The version changes whenever the blob or the format on the wire changes.
 */
void copyrpc_ep_info(const struct copyrpc_ep *ep, void *blob);

/*
 * Connects to the endpoint that wrote the blob; both endpoints may be in the same process. After
 * the return this side may make calls: if the peer has not connected yet, the HCA repeats the
 * messages until then. If the peer does not connect in time, the endpoint fails: about probe_ms
 * after the first flush (-ETIMEDOUT), or, after raw operations alone, when the HCA gives up
 * (-ECONNRESET, see COPYRPC_ANSWER_NS). If this can happen, let the peer report that it has
 * connected.
 *
 * -EINVAL: not a blob, or a wrong @len, or one side is addressed by GID and the other is not (if
 * one port requires a global route header, set gid_index on the other side too). -EPROTONOSUPPORT:
 * a blob of another version. -EMSGSIZE: the ring sizes, or `nested`, differ. -EISCONN: the endpoint
 * is already connected, or has failed (destroy it and create a new one). After these errors nothing
 * has changed. Otherwise an error of the driver, which may be -EINVAL, too; copyrpc_ep_status()
 * then returns -EIO.
 */
int copyrpc_ep_connect(struct copyrpc_ep *ep, const void *blob, size_t len);

/* Size in bytes of the message of copyrpc_ep_again_info(). */
#define COPYRPC_AGAIN_SIZE 144

/*
 * Connect an endpoint again, for programs that connect by their own channel. If both endpoints have
 * the attribute `by_hand`, and both contexts reconnect_ms, an endpoint does not fail when its
 * connection is lost: copyrpc_event_recv() (copyrpc_tcp.h) returns COPYRPC_DOWN with -EAGAIN. The
 * endpoint then comes back as copyrpc_tcp.h describes, except that the two programs exchange the
 * messages:
 *
 *	// at DOWN with -EAGAIN, and for each "send mine" below
 *	if (!copyrpc_ep_again_info(ep, mine))            // not 0: try again after a poll
 *		...                                      // send the bytes to the peer
 *	// when bytes of the peer have arrived
 *	rc = copyrpc_ep_again(ep, theirs, COPYRPC_AGAIN_SIZE);
 *	                                                 // 0: connected; BACK follows
 *	                                                 // -ESTALE: send mine (again)
 *	                                                 // -EAGAIN: send mine, then call this again
 *
 * Either side, or both, may begin. Messages may overtake each other and may arrive twice. If the
 * channel can lose messages, a side whose endpoint is not connected sends its message again from
 * time to time. The messages contain keys of the ring, as the blob does.
 *
 * copyrpc_ep_again_info() writes the message of the present attempt. An attempt begins when the
 * endpoint has lost its connection, or when copyrpc_ep_again() has returned -EAGAIN. -EAGAIN: the
 * device has not finished with the former queue pair. -EISCONN: the endpoint has never lost its
 * connection. -ENETDOWN: the port is not active; call again later. -EMFILE, -ENOSPC: there is no
 * room for a queue pair now; call again later, as after another error of the driver.
 *
 * copyrpc_ep_again() connects. -EAGAIN: the peer has lost the connection and this side had not
 * noticed it, or the peer has begun a later attempt. -ESTALE: the message was written before the
 * peer knew the present attempt of this side, or before the peer had connected in this attempt.
 * -ENOENT: a message from or for another endpoint, for example one of a process that was restarted.
 * -EINVAL: not such a message. -EPROTO: the ring positions or addresses in the message are
 * impossible; the endpoint has failed. Another error of copyrpc_ep_connect(): the attempt has
 * failed, for example because the port has no address; begin the next attempt as after DOWN.
 *
 * Both functions: -EOPNOTSUPP: one of the two sides lacks reconnect_ms or by_hand. Otherwise the
 * endpoint is not connected yet or has failed, and its status is returned.
 */
int copyrpc_ep_again_info(struct copyrpc_ep *ep, void *again);
int copyrpc_ep_again(struct copyrpc_ep *ep, const void *again, size_t len);

/*
 * Returns 0 if the endpoint is connected, -ENOTCONN if not yet. Otherwise it has failed, and the
 * status is the reason: -ECONNRESET (the peer or the path to it is gone), -EPROTO (the peer broke
 * the protocol, or sent something other than a batch), -EACCES (the peer refused access to its
 * memory), -ETIMEDOUT (neither the peer nor its HCA answered for probe_ms), -EIO (a local error, or
 * the device has failed), -ECANCELED (destroyed). A failed endpoint stays failed: destroy it,
 * create and connect a new one. The status of an endpoint that is being connected again
 * (reconnect_ms) is 0.
 */
int copyrpc_ep_status(const struct copyrpc_ep *ep);

/*
 * Writes a line of text, without a newline, that describes the endpoint: device, queue pairs,
 * address and name of the peer, and why the endpoint failed, with the syndrome of the HCA if there
 * is one:
 *
 *	mlx5_0 QP 0x118 to QP 0x119 of LID 1 (rank 3): Connection reset by peer: no answer
 *	(WRITE_IMM, syndrome 0x15, vendor 0x81)
 *
 * Writes at most @size bytes including the final zero, like snprintf(). Returns the length of the
 * whole text.
 */
int copyrpc_ep_describe(const struct copyrpc_ep *ep, char *buf, size_t size);

/*
 * Writes a line of text about the last peer that was refused because of its version
 * (-EPROTONOSUPPORT of copyrpc_ep_connect(), and of the functions and events of copyrpc_tcp.h):
 *
 *	the peer has version 4 of the connection blob, this library has version 5
 *
 * Writes an empty text if there was none. Writes at most @size bytes including the final zero, like
 * snprintf(). Returns the length of the whole text.
 */
int copyrpc_ctx_versions(const struct copyrpc_ctx *ctx, char *buf, size_t size);

/* Return the pointer `user` of struct copyrpc_ep_attr, and the context of the endpoint. */
void *copyrpc_ep_user(const struct copyrpc_ep *ep);
struct copyrpc_ctx *copyrpc_ep_ctx(const struct copyrpc_ep *ep);

/* --------------------------------------------------------------------- calls */

/*
 * Reports the end of a call, exactly once for each copyrpc_call() that returned 0, unless the
 * context is destroyed before. Either @status is 0, and @data and @len are the response, which is
 * valid only inside the callback; or @status is negative (copyrpc_ep_status() lists the values) and
 * @data is NULL.
 *
 * The callback may use every function except copyrpc_poll*() and copyrpc_ctx_destroy(); it may
 * call, reply, receive, detach, destroy endpoints and flush. A flush inside the callback sends the
 * collected messages immediately. Such a flush does not release the batch that contains the
 * response: the messages of this batch stay unchanged until the next flush outside a callback.
 */
typedef void copyrpc_response_fn(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len);

/*
 * Copies a request of @len bytes into the ring; the next flush sends the requests in the order of
 * the calls. The response may have at most @resp_max bytes. The caller may reuse @data after the
 * return; @data may be NULL if @len is 0. @token is passed to the callback.
 *
 * -EAGAIN: the ring has no room for the request, or the rings have not grown yet to the size that
 * the call needs, or max_pending calls are pending. -ENOBUFS: the response may need more credit,
 * that is room for responses, than the peer has granted (it holds many requests). In both cases
 * nothing has changed; poll, then call again. Never wait for room or credit inside a callback: if
 * the peer does the same, both wait for ever. -EMSGSIZE: @len or @resp_max is larger than
 * COPYRPC_PAYLOAD_MAX(). -ENOTCONN: not yet connected. Otherwise the endpoint has failed, and its
 * status is returned.
 */
int copyrpc_call(struct copyrpc_ep *ep, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token);

/*
 * Makes a nested call: the handler of a request makes a call, and replies to the request only after
 * the call has ended. Both contexts must have the attribute `nested`. copyrpc_call() then always
 * leaves enough credit for one nested call, so that two sides that call each other cannot use up
 * the credit that their handlers need. The program must keep these rules: detach a request that is
 * not answered immediately; answer the request of a nested call without a further call; do not wait
 * inside a callback, but poll, and retry after -EAGAIN and -ENOBUFS, which are then temporary.
 *
 * Returns the same as copyrpc_call(), or -EOPNOTSUPP: the context does not have `nested`.
 */
int copyrpc_call_nested(struct copyrpc_ep *ep, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token);

/*
 * Makes a call with a time limit of @timeout_ms (0: no limit). If no response has arrived by then,
 * the call ends with -ETIMEDOUT, within a few milliseconds of the limit if the caller polls often.
 * This also detects a peer that is stopped while its HCA answers. The endpoint stays connected. A
 * response that arrives later is dropped. Until it arrives, the call still counts in max_pending
 * and keeps its credit, because the peer may be writing the response: if many responses do not
 * arrive, copyrpc_call() returns -EAGAIN or -ENOBUFS.
 *
 * Returns the same as copyrpc_call(), or -ENOMEM at the endpoint's first call with a time limit.
 */
int copyrpc_call_timed(struct copyrpc_ep *ep, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token, uint32_t timeout_ms);

/*
 * Cancels a pending call of this endpoint with this token, with or without a time limit: the call
 * ends with -ECANCELED in the next poll, even if its response arrives before that. Its callback
 * comes once, as for every call. The peer is not informed; its handler continues and replies. The
 * response is dropped when it arrives. Until then the call counts in max_pending and keeps its
 * credit, and its id in messages is not used again, so no other call gets the response. If several
 * pending calls have the token, one of them is canceled. The function looks through all pending
 * calls. It may be called inside a callback.
 *
 * Returns 0. -ENOENT: no such call is pending, it has ended or was canceled before. -ENOTCONN: not
 * yet connected. Otherwise the endpoint has failed, and its status is returned; a poll ends the
 * call with that status.
 */
int copyrpc_cancel(struct copyrpc_ep *ep, uint64_t token);

/*
 * Does one round of work: handles the messages that have arrived (responses go to @fn, requests
 * into the queue of copyrpc_recv()), refills the receive queue, handles send completions, ends
 * canceled calls, calls whose time limit is over, and calls of failed and destroyed endpoints, and
 * then flushes. The cost depends on the number of endpoints that have something to do. @fn may be
 * NULL if no call was ever made.
 *
 * Returns the number of handled responses and requests, plus the number of calls that ended with an
 * error. The function never fails; each error is that of an endpoint, see copyrpc_ep_status().
 */
int copyrpc_poll(struct copyrpc_ctx *ctx, copyrpc_response_fn *fn, void *arg);

/* Does the same as copyrpc_poll(), without the flush. Returns the same as copyrpc_poll(). */
int copyrpc_poll_recv(struct copyrpc_ctx *ctx, copyrpc_response_fn *fn, void *arg);

/* Sends the collected messages: usually one batch per endpoint; at the ring's end, two batches with
 * a 32-byte marker between them. Returns the number of batches sent, including markers and batches
 * without messages. */
int copyrpc_flush(struct copyrpc_ctx *ctx);

/*
 * Flushes the endpoints for which @go returns true. @go is called only for endpoints that have
 * messages to send (copyrpc_ep_get_load() returns how many). An endpoint is flushed without asking
 * @go if it owes its peer credit for at least a sixteenth of the ring and can grant it, or if its
 * next batch is a step in making a ring larger. Otherwise @go might return false until the peer
 * does something for which the peer first needs that credit or the larger ring. For an endpoint
 * that is not flushed, the next call asks @go again. @go may only call copyrpc_ep_get_load(),
 * copyrpc_ep_status() and copyrpc_ep_user(). Returns the number of batches sent.
 */
typedef bool copyrpc_flush_fn(void *arg, struct copyrpc_ep *ep);
int copyrpc_flush_if(struct copyrpc_ctx *ctx, copyrpc_flush_fn *go, void *arg);

/* Sends the collected messages of this endpoint only. Returns the number of batches sent. */
int copyrpc_ep_flush(struct copyrpc_ep *ep);

/* Writes the load of an endpoint. @size must be sizeof(*load_p). Positions count the bytes since
 * connect, and only grow. */
struct copyrpc_ep_load {
	uint32_t open_calls; /* requests collected, not yet sent */
	uint32_t open_replies; /* replies collected, not yet sent */
	uint32_t pending; /* calls that have not ended */
	uint32_t credit; /* bytes that the responses of further calls may occupy; each of these
			    calls uses resp_max + 12, rounded up to a multiple of 32, plus 32 */
	uint64_t posted; /* end of the sent batches */
	uint64_t consumed; /* end of the bytes that the peer is known to have received and
			      released */
};
void copyrpc_ep_get_load(const struct copyrpc_ep *ep, struct copyrpc_ep_load *load_p, size_t size);

/* ------------------------------------------------------------------- sleeping */

/*
 * Returns the descriptor of a context, which becomes readable when there is something to poll for,
 * so that a program can sleep in poll(2) or epoll, together with its other descriptors. To lose no
 * wake-up: call copyrpc_recv(), copyrpc_raw_recv() and copyrpc_event_recv() (of copyrpc_tcp.h)
 * until they return 0, then copyrpc_ctx_arm(), and sleep only if copyrpc_ctx_arm() returned 0.
 *
 *	for (;;) {
 *		copyrpc_poll(ctx, on_response, NULL);
 *		while (copyrpc_recv(ctx, &req))
 *			serve(req);
 *		if (!copyrpc_ctx_arm(ctx)) {
 *			struct pollfd p = {.fd = copyrpc_ctx_fd(ctx), .events = POLLIN};
 *			poll(&p, 1, copyrpc_ctx_timeout(ctx));
 *		}
 *	}
 *
 * The descriptor stays readable until the next copyrpc_poll() or copyrpc_poll_recv(), which reads
 * its events. It belongs to the context: neither read nor close it. A program may wake up and find
 * nothing to do, if the cause was handled before.
 */
int copyrpc_ctx_fd(const struct copyrpc_ctx *ctx);

/*
 * Returns 0 if the context is armed: its descriptor becomes readable, once, with the next event.
 * Returns 1 if there is work already (something has arrived or was not flushed, or calls must be
 * ended): poll, then arm again. Messages that @go of copyrpc_flush_if() has held back do not count
 * as work: the caller knows when to flush them. The context stays armed until a poll reads its
 * event; polls without an event do not disarm it.
 *
 * Arm before every sleep. A context whose last call has ended, and whose peers send nothing, has no
 * next event: a loop that ends after the last response must check, before it sleeps, whether that
 * response has arrived.
 */
int copyrpc_ctx_arm(struct copyrpc_ctx *ctx);

/*
 * Returns the longest time to sleep, in milliseconds, for poll(2); -1: for ever. Some actions are
 * due at a time, without an event: a probe, every 100 ms, of each peer that has not answered all
 * calls or not consumed all messages; the end of calls with a time limit; a READ of the peer's
 * consumer position, which a caller without room, or a server that owes credit, repeats every
 * millisecond; another attempt, after 10 ms, to allocate a larger ring for which there was no
 * memory; and actions of listeners, dials and lost connections (copyrpc_tcp.h). A longer sleep only
 * delays these actions.
 */
int copyrpc_ctx_timeout(const struct copyrpc_ctx *ctx);

/* ------------------------------------------------------------------ requests */

/*
 * Takes the oldest request that has arrived, of any endpoint (per endpoint in the order of the
 * peer's calls). Returns 1 with *req_p, or 0 if there is none. The caller then holds the request
 * and must end it with copyrpc_reply(), even if the request cannot be served, because a request
 * without a reply uses the peer's credit for ever. Until a request is taken and answered, its bytes
 * and the bytes of all later messages, including responses, occupy the ring: detach requests that
 * are held for long. A program that only makes calls must take the requests of a peer that calls
 * it, or there will be no room for its own calls.
 */
int copyrpc_recv(struct copyrpc_ctx *ctx, struct copyrpc_req **req_p);

/*
 * Read a request that copyrpc_recv() has returned. copyrpc_req_data() returns the payload, which
 * stays in the ring; the pointer is valid until copyrpc_reply() or copyrpc_req_detach().
 * copyrpc_req_len() returns the length of the payload, copyrpc_req_allowance() the largest length
 * of the reply in bytes, that is the caller's resp_max, and copyrpc_req_ep() the endpoint of the
 * request.
 */
const void *copyrpc_req_data(const struct copyrpc_req *req);
uint32_t copyrpc_req_len(const struct copyrpc_req *req);
uint32_t copyrpc_req_allowance(const struct copyrpc_req *req);
struct copyrpc_ep *copyrpc_req_ep(const struct copyrpc_req *req);

/*
 * Copies the reply into the ring and releases the request. Replies are allowed in any order and at
 * any time, also inside the response callback. There is always room. @data may be the request's own
 * data.
 *
 * -EMSGSIZE: @len is larger than copyrpc_req_allowance(); nothing has changed, and the caller still
 * holds the request. If the endpoint has failed, its status is returned: the request is released,
 * and the reply is lost.
 */
int copyrpc_reply(struct copyrpc_req *req, const void *data, uint32_t len);

/*
 * Copies the payload into separate memory and releases the space in the ring; copyrpc_req_data()
 * then returns another pointer. Returns 0, also if the request is detached already, or -ENOMEM with
 * nothing changed.
 */
int copyrpc_req_detach(struct copyrpc_req *req);

/* ------------------------------------------------------------------ raw RDMA */

/* Memory registered with the context, for raw operations of all of its endpoints. */
struct copyrpc_mr {
	void *addr;
	size_t len;
	uint32_t lkey; /* for operations of this side */
	uint32_t rkey; /* for operations of the peer; send it in a message */
	void *handle;
};

enum {
	COPYRPC_REMOTE_READ = 1, /* the peer may read the memory; this side always may */
	COPYRPC_REMOTE_WRITE = 2,
};

/*
 * Register memory, and end its registration. The memory belongs to the caller and must outlive the
 * registration. The caller must end each registration before copyrpc_ctx_destroy().
 *
 * Returns 0. -EINVAL: an unknown bit of @access. -EFAULT: the memory is not mapped, or not writable
 * (it must be writable even if the peers only read it). Otherwise the negative errno of
 * ibv_reg_mr().
 */
int copyrpc_mr_reg(struct copyrpc_ctx *ctx, void *addr, size_t len, int access,
	struct copyrpc_mr *mr_p);
void copyrpc_mr_dereg(struct copyrpc_mr *mr);

/*
 * Post an RDMA READ into, or a WRITE from, local memory: @len bytes, 1 to 2^30. The operation is
 * posted immediately on the endpoint's queue pair, so a WRITE arrives before messages that are
 * flushed after it. copyrpc_raw_recv() returns its completion, exactly once. Do not use the local
 * memory before that. The library does not probe the peer for raw operations alone: without pending
 * calls they end when the HCA completes them, or gives up (COPYRPC_ANSWER_NS).
 *
 * -EAGAIN: the send queue is full, or sq_depth operations were not yet returned by
 * copyrpc_raw_recv(): poll and take completions, then retry. -EINVAL: a wrong @len. -ENOMEM: no
 * memory; only at the endpoint's first operation. -ENOTCONN: not yet connected. Otherwise the
 * endpoint has failed, and its status is returned. A wrong rkey or range breaks the connection
 * (-EACCES).
 */
int copyrpc_read(struct copyrpc_ep *ep, void *laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
	uint32_t len, uint64_t token);
int copyrpc_write(struct copyrpc_ep *ep, const void *laddr, uint32_t lkey, uint64_t raddr,
	uint32_t rkey, uint32_t len, uint64_t token);

struct copyrpc_raw_done {
	struct copyrpc_ep *ep;
	uint64_t token;
	int status; /* 0, or a status of copyrpc_ep_status() */
};

/* Takes the next completed raw operation, in order of completion. Returns 1 with *done_p, or 0 if
 * there is none. */
int copyrpc_raw_recv(struct copyrpc_ctx *ctx, struct copyrpc_raw_done *done_p);

/* Returns the number of raw operations that copyrpc_raw_recv() has not returned yet. */
uint32_t copyrpc_raw_pending(const struct copyrpc_ep *ep);

/* ------------------------------------------------------------- introspection */

/*
 * Write the counters since creation. The counters of a context are the sums over its endpoints,
 * including destroyed ones. @size must be sizeof(*stats_p).
 */
struct copyrpc_stats {
	uint64_t calls, replies; /* accepted by copyrpc_call() and copyrpc_reply() */
	uint64_t requests, responses; /* received */
	uint64_t failed_calls; /* ended with an error. A large call that was refused by the server
				  or canceled counts in `responses` instead, if its response has
				  arrived */
	uint64_t timeouts; /* of these, calls whose time limit was over */
	uint64_t batches, bytes; /* WRITEs that carried messages; bytes of all WRITEs into the
				    peer's ring */
	uint64_t wqes, doorbells; /* of all kinds: also raw operations, and NOPs that fill the
				     end of a send queue */
	uint64_t wraps; /* markers at the ring's end */
	uint64_t credit_only; /* batches without a message: to give credit back, or for larger
				 rings */
	uint64_t reads; /* of the peer's consumer position */
	uint64_t ring_stalls, credit_stalls; /* calls refused: with -EAGAIN for lack of room; with
						-ENOBUFS */
	uint64_t sq_stalls; /* flushes postponed because the send queue was full */
	uint64_t batches_received, refills; /* refills of the receive queue: contexts only */
	uint64_t port_downs; /* reports that the port went down: contexts only */
	uint64_t
		returns; /* times that an endpoint was connected again after a loss (reconnect_ms) */
	uint64_t resent; /* batches that were sent again over a new connection; `bytes` and `wqes`
			    include them */
	uint64_t grown; /* times that the send ring became larger */
	uint64_t moved; /* bytes of READs and WRITEs between memory of both sides: raw operations,
			   large calls and bulks (copyrpc_bulk.h) */
};
void copyrpc_ctx_get_stats(const struct copyrpc_ctx *ctx, struct copyrpc_stats *stats_p,
	size_t size);
void copyrpc_ep_get_stats(const struct copyrpc_ep *ep, struct copyrpc_stats *stats_p, size_t size);

/*
 * Sets *n_p to the number of messages that found no receive at the context's port since the context
 * was created, for all programs that use the port (out_of_buffer in hw_counters of
 * /sys/class/infiniband). If more batches arrive between two polls than receives are left
 * (srq_depth), the sender's HCA repeats those that found no receive. Only the receiver's HCA counts
 * them. Reads a file. -ENOENT: the driver has no such counter.
 */
int copyrpc_ctx_no_receive(const struct copyrpc_ctx *ctx, uint64_t *n_p);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
