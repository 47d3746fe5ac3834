/* SPDX-License-Identifier: MIT */
/*
 * tent: moves large amounts of memory between processes over several rails at once.
 *
 * A rail is an adapter port (RDMA), or a thread that copies between two processes of one
 * host. A request, a read or a write between memory of this process and of a peer, is cut
 * into slices. A scheduler gives each slice to a rail after the rates that it measures, moves the
 * slices of a failed rail to other rails, and takes the rail back when it works again.
 *
 * The side whose memory is used registers it, exports a description, and brings that text to
 * the other side by any means:
 *
 *	tent_create(&(struct tent_attr){.address = "10.0.0.1"}, NULL, &t);
 *	tent_register(t, memory, length, "cpu:0", NULL);
 *	tent_export(t, &text);                                  // send it to the peer
 *
 * The other side imports it, and moves data; the peer's program does nothing for that:
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
 * engine has a thread of its own, which sleeps while there is nothing to do. Callers of
 * tent_submit() and tent_wait() do the engine's work as well. There are no callbacks.
 *
 * Units: lengths and offsets are bytes. Times are milliseconds if the name ends in _ms. Bandwidth
 * is 10^9 bits a second.
 *
 * Ownership: an object that a function returns through its last argument is the caller's, who
 * destroys it with the function that is named there. Memory stays the caller's, and must stay
 * mapped until tent_unregister().
 *
 * Errors: functions return 0 or -errno, and write output arguments on success only. struct
 * tent_why explains in one line an error in a configuration, a segment or a registration.
 *
 * Sizes: structs that later versions may extend are passed with their size. A function with a
 * parameter @size, sizeof(*stats_p), writes the fields that the caller and the library both know.
 * tent_attr has a field for it.
 *
 * Exactly once: a request ends with status 0 only when all of its bytes are in place, and nothing
 * of it is written after its end. The exception is a peer that cannot confirm that a rail is
 * closed, because it does not answer for 5 seconds (-ETIMEDOUT) or the connection to it is lost
 * (-ECONNRESET): its memory is then undefined for as long as packets live. Slices that failed are
 * written again, with the same bytes.
 *
 * Trust: the holder of an exported description may read and write the memory that it names. Data
 * from peers and files is checked. An engine belongs to the process that made it: a child of fork()
 * must not use it.
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

/* Explains an error in one line, without a newline; empty: there is no explanation. */
struct tent_why {
	char text[400];
};

/* ---- engine -------------------------------------------------------------------- */

struct tent_attr {
	size_t size; /* sizeof(struct tent_attr); 0: the fields up to rail_wait_ms, which every
			version has. A later version adds fields behind them */
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
	int rail_wait_ms; /* the time for which a request waits for a rail when none that it may
			     use is left. 0: 5000; -1: it does not wait */
};

/*
 * Opens the rails and listens for peers. @attr may be NULL, and @why too. The engine is destroyed
 * by tent_destroy(). -EINVAL: a bad attribute, configuration or topology file, or one that leaves
 * no rail; -E2BIG: a field of a later version is not 0; -ENODEV: there is no adapter, or the
 * topology names one that is missing; -ENETDOWN: no adapter has an active port; -EADDRNOTAVAIL,
 * -EADDRINUSE, ...: the address; -ENOMEM; another error of a device or the system.
 */
int tent_create(const struct tent_attr *attr, struct tent_why *why, struct tent **t_p);

/*
 * Destroys the engine, with all of its segments, batches and registrations, whatever their
 * state. Peers that use its memory get errors. Peers over copying threads are waited for as by
 * tent_unregister(), up to 5 seconds. NULL is allowed.
 */
void tent_destroy(struct tent *t);

/* ---- memory -------------------------------------------------------------------- */

/*
 * Registers [addr, addr + len) for use by this engine and, once exported, by peers.
 * @location: the NUMA node of the memory as "cpu:N", or "*" or NULL if it is not known or does not
 * matter. -EINVAL: a length of 0, an address that wraps, a location that the topology does not
 * have; -EEXIST: a part of it is registered already; -EFAULT: not mapped, or not writable; -ENOMEM:
 * no memory, or a limit, which @why names with the way to raise it; -ENOSPC: too many parts, raise
 * max_registration.
 */
int tent_register(struct tent *t, void *addr, size_t len, const char *location,
	struct tent_why *why);

/*
 * Ends the registration that begins at @addr. When it returns, no peer reads or writes the memory
 * any more: peers are told, start nothing more on it, and confirm when their requests under way
 * have ended. The function waits for that, up to 5 seconds. Requests of peers that had not been
 * started end with -EACCES, and new ones with -EFAULT; no rail is excluded. Adapters refuse later
 * accesses of a peer that has not confirmed.
 * -ENOENT: there is none; -EBUSY: a request of this engine that has not ended uses it; -ETIMEDOUT:
 * copying threads only: a peer has not confirmed. The registration has ended, and the peer is
 * disconnected, but it may read and write the memory until it notices that.
 */
int tent_unregister(struct tent *t, void *addr);

/* ---- segments ------------------------------------------------------------------ */

/*
 * Describes this engine, and the memory that is registered now, as JSON. The caller frees the text
 * with free(3), and keeps it as secret as the memory. -ENOMEM.
 */
int tent_export(struct tent *t, char **text_p);

/*
 * Connects to the engine that exported @text: pairs the rails, and tries each pair with a
 * message without data. It blocks for as long as that takes, at most some seconds. The segment is
 * released by tent_release().
 * -EINVAL: not a description, or one that contradicts itself or the rail map; -EPROTONOSUPPORT: a
 * description of another version; -ENETUNREACH: a rail has no partner, or does not reach it, and
 * @why names it; -EHOSTUNREACH, -ECONNREFUSED, -ETIMEDOUT, ...: the peer's address; -EACCES: the
 * peer does not know the description; -EUSERS: 256 peers, the most that an engine accepts, have
 * imported its segments: let one call tent_release(). A peer that dies frees its place at once, or
 * within 20 seconds if its host is gone. -EREMOTE: shared-memory rails of another host, or rails of
 * another transport than this engine's; -ENOMEM.
 */
int tent_import(struct tent *t, const char *text, struct tent_why *why,
	struct tent_segment **segment_p);

/* -EBUSY: a request that has not ended uses it. NULL is allowed. */
int tent_release(struct tent_segment *s);

/* Memory that the segment describes. */
struct tent_remote {
	uint64_t addr, len;
	char location[TENT_NAME_LEN];
};

/* Writes the i-th, in the order of their addresses. -ENOENT: there are only i. */
int tent_segment_remote(const struct tent_segment *s, uint32_t i, struct tent_remote *remote_p,
	size_t size);

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
	uint16_t notify; /* not 0: the peer's tent_notice() returns it when all bytes are in
			    place (of a read: when all have been read), once if the request
			    ends with status 0, at most once if it ends with an error */
	uint8_t priority; /* 0 goes first; below `priorities` of the configuration (default 1).
			     tent(7) says how the classes share the rails */
};

enum tent_state {
	TENT_WAITING, /* no slice has been given to a rail */
	TENT_PENDING,
	TENT_COMPLETED,
	TENT_CANCELED,
	TENT_FAILED,
};

struct tent_status {
	enum tent_state state;
	int err; /* TENT_FAILED, TENT_CANCELED: the reason. -ENETUNREACH: no rail was left for
		    rail_wait_ms; -ECONNRESET: the peer has gone; -ECANCELED; -EACCES: the peer's
		    memory is not registered any more; -EMSGSIZE: modes smart and baseline: more
		    than 4,096 slices, because registrations have many parts, raise
		    max_registration; -EFAULT: copying threads only: memory of this side or the
		    peer's was unmapped; else the last error of a rail */
	uint64_t bytes; /* in place; all of them only if the state is TENT_COMPLETED */
};

/*
 * Starts @n requests, 1 to 65,536, or none of them. The batch is freed by tent_batch_free().
 * -EINVAL: an invalid operation, length or priority, a segment of another engine, or no request;
 * -E2BIG: more than max_tasks requests, submit several batches; -EFAULT: memory that is not
 * registered, here or at the peer; -EAGAIN: too many requests have not ended, wait for some;
 * -ENETUNREACH: no rail was left for rail_wait_ms; -ECONNRESET: the peer has gone; -ENOMEM.
 */
int tent_submit(struct tent *t, const struct tent_request *requests, uint32_t n,
	struct tent_batch **batch_p);

/* Writes the status of the i-th request. -ENOENT: there are only i. */
int tent_task_status(struct tent_batch *b, uint32_t i, struct tent_status *status_p);

/* Writes the status of all together: TENT_PENDING until all have ended, then the worst of them. */
void tent_batch_status(struct tent_batch *b, struct tent_status *status_p);

/*
 * Waits until all requests have ended, at most @timeout_ms; -1: without a limit. 0: all are
 * completed; -ETIMEDOUT: some have not ended; else the first error of the batch, see tent_status.
 */
int tent_wait(struct tent_batch *b, int timeout_ms);

/*
 * Returns a descriptor that becomes readable (poll(2), epoll) when all requests have ended. The
 * batch owns it. -EMFILE, -ENFILE, -ENOMEM.
 */
int tent_batch_fd(struct tent_batch *b);

/*
 * Ends the requests that have not ended with -ECANCELED, as soon as their slices under way have
 * ended. Slices that have not been given to a rail are dropped.
 */
void tent_cancel(struct tent_batch *b);

/* -EBUSY: a request has not ended. NULL is allowed. */
int tent_batch_free(struct tent_batch *b);

/* ---- notices ------------------------------------------------------------------- */

/*
 * Takes the value of a peer's request that has ended, see tent_request.notify. The values of
 * requests that end at about the same time come in any order. -EAGAIN: there is none. Peers wait
 * while 4,096 have not been taken.
 */
int tent_notice(struct tent *t, uint16_t *notify_p);

/* Returns a descriptor that is readable while there is a notice. The engine owns it. */
int tent_notice_fd(struct tent *t);

/* ---- statistics ---------------------------------------------------------------- */

/* The cause of the last outage of a rail, which is found within about 100 ms after it. */
enum tent_fault {
	TENT_FAULT_NONE, /* there was no outage */
	TENT_FAULT_UNKNOWN, /* not known yet; or there are no other rails of the subnet to try the
			       two ends with, or neither end reached them */
	TENT_FAULT_OWN_PORT, /* it is down, its device is lost, or it reaches no other rail */
	TENT_FAULT_PATH, /* both ends reach other rails: the path, or the outage was short */
	TENT_FAULT_PEER_PORT, /* it is down, or no other rail reaches it */
	TENT_FAULT_REFUSED, /* the peer's adapter has refused an access: its memory is gone */
};

/* Returns a name for output, such as "own port". */
const char *tent_fault_name(enum tent_fault fault);

struct tent_rail_stats {
	char name[TENT_NAME_LEN]; /* of this engine's rail */
	char remote[TENT_NAME_LEN]; /* of the peer's rail */
	bool up; /* in use, or on trial after an outage */
	uint64_t bytes, slices; /* that arrived */
	uint64_t inflight; /* bytes */
	uint64_t exclusions; /* outages */
	enum tent_fault fault;
	double link_gbps; /* of the link, as configured or reported; 10^9 bits a second */
	double rate_gbps; /* measured */
};

/* Writes the figures of the i-th pair of rails of a segment. -ENOENT: there are only i. */
int tent_rail_get_stats(struct tent_segment *s, uint32_t i, struct tent_rail_stats *stats_p,
	size_t size);

/* Writes a table of all segments. GB is 10^9 bytes. -ENOMEM, or -errno of the stream. */
int tent_stats_print(struct tent *t, FILE *out);

/* Writes Prometheus' text format, for a file or an HTTP answer. Errors as above. */
int tent_stats_prometheus(struct tent *t, FILE *out);

/* Writes one JSON object, on one line. Errors as above. */
int tent_stats_json(struct tent *t, FILE *out);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
