/* SPDX-License-Identifier: MIT */
/*
 * tent: moves large amounts of memory between processes over several rails at once.
 *
 * A rail is an adapter port (RDMA), or a thread that copies between two processes of one
 * host. A request, a read or a write between memory of this process and of a peer, is cut
 * into slices; a scheduler gives each slice to a rail by what it measures of them, moves the
 * slices of a rail that fails to the others, and takes the rail back when it is well again.
 *
 * The side whose memory is used registers it, exports a description, and brings that text to
 * the other side by any means:
 *
 *	tent_create(&(struct tent_attr){.address = "10.0.0.1"}, NULL, &t);
 *	tent_register(t, memory, length, "cpu:0", NULL);
 *	tent_export(t, &text);                                  // send it to the peer
 *
 * The other side imports it, and moves data without the peer's program doing anything:
 *
 *	tent_create(NULL, &why, &t);
 *	tent_register(t, mine, length, NULL, &why);
 *	tent_import(t, text, &why, &segment);
 *	struct tent_request r = {TENT_WRITE, mine, segment, remote_addr, length, .notify = 7};
 *	tent_submit(t, &r, 1, &batch);
 *	err = tent_wait(batch, -1);
 *	tent_batch_free(batch);
 *
 * Threads: every function may be called from any thread at any time, except that a segment,
 * a batch or the engine must not be used while, or after, another thread destroys it. The
 * engine has a thread of its own, which sleeps while there is nothing to do; a caller of
 * tent_submit() and tent_wait() moves things on as well. No function calls back.
 *
 * Units: lengths and offsets are bytes, times milliseconds where it says so, else
 * nanoseconds; bandwidth in the configuration is 10^9 bits a second.
 *
 * Ownership: what a function gives through its last argument belongs to the caller, who ends
 * it with the function that is named there. Memory stays the caller's and must stay mapped
 * until tent_unregister().
 *
 * Errors: 0, or -errno; output arguments are written on success only. What is wrong with a
 * configuration, a segment or a registration is told in one line through struct tent_why.
 *
 * Once: a request ends with status 0 only when all of its bytes are in place, and when a
 * request has ended nothing of it is written any more; the exception is a peer that cannot
 * confirm that a rail is closed, because it does not answer for 5 seconds (-ETIMEDOUT) or the
 * connection to it is lost (-ECONNRESET): its memory is then undefined for as long as packets
 * live. Slices that failed are written again, with the same bytes.
 *
 * Trust: who holds an exported description may read and write the memory that it names.
 * What a peer or a file says is checked. Not fork-safe: an engine belongs to the process that
 * made it.
 */
#ifndef TENT_H
#define TENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define TENT_MAX_RAILS 32
#define TENT_NAME_LEN 64 /* of a rail's name, its end included */

struct tent;
struct tent_segment;
struct tent_batch;

/* What was wrong, in one line without its end; empty if there is nothing to say. */
struct tent_why {
	char text[400];
};

/* ---- engine -------------------------------------------------------------------- */

struct tent_attr {
	const char *config; /* configuration: JSON text, see tent(7). NULL: the defaults */
	const char *config_file; /* the same in a file; not both */
	const char *address; /* where peers reach this engine by TCP: a host name or address of
				this host. NULL: 127.0.0.1, peers on this host only */
	uint16_t port; /* of it; 0: any that is free */
	uint32_t shm_rails; /* 0: rails are the adapters of this host. 1 to TENT_MAX_RAILS: so
			       many copying threads instead, for peers on this host */
	uint64_t max_registration; /* bytes of the largest memory region; longer memory is
				      registered in parts. 0: what the devices can do */
	uint32_t max_tasks; /* requests that have not ended, 1 to 65,536; 0: 1024 */
	int rail_wait_ms; /* when no rail is left that a request may use: how long it waits for
			     one to come back. 0: 5000; -1: not at all */
};

/*
 * Opens the rails and begins to listen; @attr may be NULL; ends with tent_destroy().
 * -EINVAL a bad attribute, configuration or topology file, or one that leaves no rail;
 * -ENODEV there is no adapter, or one that the topology names is missing; -ENETDOWN no
 * adapter has an active port; -EADDRNOTAVAIL, -EADDRINUSE, ... the address; -ENOMEM; else
 * what a device or the system said. @why may be NULL.
 */
int tent_create(const struct tent_attr *attr, struct tent_why *why, struct tent **t_p);

/*
 * Ends the engine, with all of its segments, batches and registrations, whatever their
 * state; peers that use its memory get errors. Peers over copying threads are waited for as by
 * tent_unregister(), up to 5 seconds. NULL is fine.
 */
void tent_destroy(struct tent *t);

/* ---- memory -------------------------------------------------------------------- */

/*
 * Registers [addr, addr + len) for use by this engine and, once exported, by peers.
 * @location: the NUMA node that the memory is on as "cpu:N", or "*" or NULL if it is not known
 * or does not matter. -EINVAL a length of 0, an address that wraps, a location that the
 * topology does not have; -EEXIST a part of it is registered already; -EFAULT not mapped, or
 * not writable; -ENOMEM memory, or a limit, which @why names with what raises it; -ENOSPC
 * too many parts: raise max_registration.
 */
int tent_register(struct tent *t, void *addr, size_t len, const char *location,
	struct tent_why *why);

/*
 * Ends a registration, named by its first address. When it returns, nothing of a peer reads or
 * writes the memory any more: peers are told, start nothing more on it, and confirm when what
 * they have under way has come to its end, which the function waits for, up to 5 seconds. What
 * had not been started ends with -EACCES, and new requests with -EFAULT; no rail is excluded.
 * Adapters refuse what a peer that has not confirmed still sends.
 * -ENOENT there is none; -EBUSY a request of this engine that has not ended uses it; -ETIMEDOUT
 * copying threads only: a peer has not confirmed. The registration has ended, and the peer is
 * sent away, but until it hears of that it may read and write the memory.
 */
int tent_unregister(struct tent *t, void *addr);

/* ---- segments ------------------------------------------------------------------ */

/*
 * The description of this engine and of the memory that is registered now, as JSON, to be
 * freed with free(3). Keep it as secret as the memory. -ENOMEM.
 */
int tent_export(struct tent *t, char **text_p);

/*
 * Connects to the engine that exported @text: pairs the rails, and tries each pair with a
 * message without data. Blocks for as long as that takes, at most some seconds. Ends with
 * tent_release().
 * -EINVAL no such description, or one that contradicts itself or the rail map;
 * -EPROTONOSUPPORT of another version; -ENETUNREACH a rail has no partner, or a pair cannot
 * reach: @why says which; -EHOSTUNREACH, -ECONNREFUSED, -ETIMEDOUT, ... the peer's address;
 * -EACCES the peer does not know the description; -EUSERS 256 peers, the most that an engine
 * lets in, have imported its segments: let one call tent_release(), a peer that dies frees its
 * place, at once or, if its host is gone, within 20 seconds; -EREMOTE shared-memory rails of another
 * host, or between such and adapters; -ENOMEM.
 */
int tent_import(struct tent *t, const char *text, struct tent_why *why,
	struct tent_segment **segment_p);

/* -EBUSY a request that has not ended uses it. NULL is fine. */
int tent_release(struct tent_segment *s);

/* Memory that the segment describes. */
struct tent_remote {
	uint64_t addr, len;
	char location[TENT_NAME_LEN];
};

/* The i-th, in the order of their addresses; -ENOENT there are only i. */
int tent_remote(const struct tent_segment *s, uint32_t i, struct tent_remote *remote_p);

/* ---- requests ------------------------------------------------------------------ */

enum tent_op {
	TENT_READ, /* remote to local */
	TENT_WRITE,
};

struct tent_request {
	enum tent_op op;
	void *local; /* within one registration */
	struct tent_segment *segment;
	uint64_t remote; /* address in the peer's process, within one of its registrations */
	uint64_t len; /* 1 to 2^50 */
	uint16_t notify; /* not 0: the peer's tent_notice() gives it when all bytes are in
			    place (of a read: when all have been read), once if the request
			    ends with status 0, at most once if it ends with an error */
	uint8_t priority; /* 0 goes first; below `priorities` of the configuration, which is 1
			     unless it says otherwise. What competes shares as tent(7) says */
};

enum tent_state {
	TENT_WAITING, /* nothing has been given to a rail */
	TENT_PENDING,
	TENT_COMPLETED,
	TENT_CANCELED,
	TENT_FAILED,
};

struct tent_status {
	enum tent_state state;
	int err; /* TENT_FAILED, TENT_CANCELED: why. -ENETUNREACH no rail is left, for
		    rail_wait_ms; -ECONNRESET the peer has gone; -ECANCELED; -EACCES the peer's
		    memory is not there; -EMSGSIZE modes smart and baseline: more than 4,096
		    slices, because registrations are in so many parts: raise
		    max_registration; -EFAULT copying threads only: memory of this side or the
		    peer's was unmapped; else what the rails said last */
	uint64_t bytes; /* in place; all of them only if the state is TENT_COMPLETED */
};

/*
 * Starts @n requests, 1 to 65,536, or none of them. Ends with tent_batch_free().
 * -EINVAL an operation, a length or a priority that is none, a segment of another engine, or a
 * batch of 0; -E2BIG more than max_tasks requests: give them in several batches; -EFAULT memory
 * that is not registered, here or at the peer; -EAGAIN too many requests have not ended: wait
 * for some; -ENETUNREACH no rail is left, for rail_wait_ms; -ECONNRESET the peer has gone; -ENOMEM.
 */
int tent_submit(struct tent *t, const struct tent_request *requests, uint32_t n,
	struct tent_batch **batch_p);

/* The i-th request. -ENOENT there are only i. */
int tent_task_status(struct tent_batch *b, uint32_t i, struct tent_status *status_p);

/* All together: TENT_PENDING as long as one has not ended, then the worst of them. */
void tent_batch_status(struct tent_batch *b, struct tent_status *status_p);

/*
 * Waits until all requests have ended, @timeout_ms at most; -1: for as long as it takes.
 * 0 all completed; -ETIMEDOUT not yet; else the first error of the batch, see tent_status.
 */
int tent_wait(struct tent_batch *b, int timeout_ms);

/*
 * A descriptor that becomes readable (poll(2), epoll) when all requests have ended; it is
 * the batch's. -EMFILE, -ENFILE, -ENOMEM.
 */
int tent_batch_fd(struct tent_batch *b);

/*
 * Ends the requests that have not ended with -ECANCELED, as soon as what is under way has
 * come to its end. Slices that have not been given to a rail are not moved any more.
 */
void tent_cancel(struct tent_batch *b);

/* -EBUSY a request has not ended. NULL is fine. */
int tent_batch_free(struct tent_batch *b);

/* ---- notices ------------------------------------------------------------------- */

/*
 * Takes the value of a peer's request that has ended, see tent_request.notify. Those of
 * requests that end at about the same time come in any order. -EAGAIN there is none. Peers wait while 4,096 have not been taken.
 */
int tent_notice(struct tent *t, uint16_t *notify_p);

/* A descriptor that is readable while there is a notice; it is the engine's. */
int tent_notice_fd(struct tent *t);

/* ---- statistics ---------------------------------------------------------------- */

/* What the last outage of a rail is traced to, within about 100 ms after it. */
enum tent_fault {
	TENT_FAULT_NONE, /* there was no outage */
	TENT_FAULT_UNKNOWN, /* not known yet; or no other rails of the subnet are in use, over
			       which the two ends could be tried, or neither reached them */
	TENT_FAULT_OWN_PORT, /* down, its device lost, or it reaches no other rail either */
	TENT_FAULT_PATH, /* both ends reach others: what lies between, or it was over soon */
	TENT_FAULT_PEER_PORT, /* down, or no other rail reaches it either */
	TENT_FAULT_REFUSED, /* the peer's adapter has refused an access: its memory is gone */
};

/* "own port" and so on, for people. */
const char *tent_fault_name(enum tent_fault fault);

struct tent_rail_stats {
	char name[TENT_NAME_LEN]; /* of the rail here */
	char remote[TENT_NAME_LEN]; /* and there */
	bool up; /* in use, or taken back on trial */
	uint64_t bytes, slices; /* that arrived */
	uint64_t inflight; /* bytes */
	uint64_t exclusions; /* outages */
	enum tent_fault fault;
	double link_gbps; /* of the link, as configured or reported; 10^9 bits a second */
	double rate_gbps; /* measured */
};

/* The i-th pair of rails of a segment. -ENOENT there are only i. */
int tent_rail_stats(struct tent_segment *s, uint32_t i, struct tent_rail_stats *stats_p);

/* A table for people, of all segments; GB is 10^9 bytes. 0, -ENOMEM, or -errno of the stream. */
int tent_stats_print(struct tent *t, FILE *out);

/* In Prometheus' text format, for a file or an HTTP answer. Errors as above. */
int tent_stats_prometheus(struct tent *t, FILE *out);

/* One JSON object, on one line. 0, -ENOMEM, or -errno of the stream. */
int tent_stats_json(struct tent *t, FILE *out);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
