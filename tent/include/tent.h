/* SPDX-License-Identifier: MIT */
/*
 * tent: moves large amounts of memory between processes over several rails in parallel.
 *
 * A rail is an adapter port (RDMA), a thread that copies between two processes of one host, a group
 * of TCP connections, or a queue in which GPUs copy. A request is a read or a write between memory
 * of this process and memory of a peer. It is cut into slices. A scheduler measures the rates of
 * the rails and chooses a rail for each slice. When a rail fails, the scheduler moves its slices to
 * other rails. When the rail works again, the scheduler uses it again.
 *
 * The side that lends memory registers the memory and exports a description of it. The description
 * is a text, which the program must send to the other side by its own means:
 *
 *	tent_create(&(struct tent_attr){.address = "10.0.0.1"}, NULL, &t);
 *	tent_register(t, memory, length, "cpu:0", NULL);
 *	tent_export(t, &text);                                  // send it to the peer
 *
 * The other side imports the text and moves data. The lender's program need not call any function
 * for that:
 *
 *	tent_create(NULL, &why, &t);
 *	tent_register(t, mine, length, NULL, &why);
 *	tent_import(t, text, &why, &segment);
 *	struct tent_request r = {.size = sizeof(r), .op = TENT_WRITE, .local = mine,
 *		.segment = segment, .remote = remote_addr, .len = length, .notify = 7};
 *	tent_submit(t, &r, 1, &batch);
 *	err = tent_wait(batch, -1);
 *	tent_batch_free(batch);
 *
 * Threads: every function may be called from any thread at any time, except that a segment,
 * a batch or the engine must not be used while, or after, another thread destroys it. The
 * engine has a thread of its own, which sleeps while there is nothing to do. Some functions, such
 * as tent_submit() and tent_wait(), also do some of the engine's work in the calling thread. The
 * only callbacks are those of struct tent_directory; they run in the thread that calls
 * tent_publish() or tent_find().
 *
 * Units: lengths and offsets are bytes. Times are milliseconds if the name ends in _ms. Bandwidth
 * is in units of 10^9 bits per second.
 *
 * Ownership: the caller owns an object that a function returns through its last argument, and must
 * destroy it with the function that the comment names. The caller keeps the ownership of registered
 * memory, which must stay mapped until tent_unregister().
 *
 * Errors: functions that return int return 0 or -errno, unless their comment says otherwise, and
 * write output arguments on success only. Functions with an argument @why write to it one line that
 * explains an error.
 *
 * Sizes: structs that later versions may extend are passed with their size, in the argument @size
 * or in the first field. The functions read or write only the fields that the caller and the
 * library both know. Fields that an older caller does not have count as 0. A newer caller gets
 * -E2BIG if it sets a field that the library does not have.
 *
 * Exactly once: a request ends with status 0 only when all of its bytes are in place. After the end
 * of a request none of its bytes is written. There is one exception: if a rail fails and the peer
 * cannot confirm that the peer's end of the rail is closed, packets that are still in the network
 * may change the peer's memory later. The request then ends with -ETIMEDOUT (the peer has not
 * answered for 5 seconds) or -ECONNRESET (the connection to the peer is lost). Before the end of a
 * request a slice may be written twice, with the same bytes.
 *
 * Trust: the holder of an exported description may read and write the memory that it describes, and
 * the memory that the engine registers later. The library checks all data from peers and files.
 * Rails over TCP are not encrypted: an attacker who can read or change the packets between the
 * hosts can read and change the memory. An engine belongs to the process that created it: a child
 * of fork() must not use the engine.
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
#define TENT_NAME_LEN 64 /* the size of a name, with its terminating 0 */
#define TENT_NOTE_MAX 64 /* the maximum length of a note, in bytes */

struct tent;
struct tent_segment;
struct tent_batch;

/*
 * An explanation of an error in one line, without a newline. Empty: there is no explanation.
 * tent_create(), tent_register() and tent_alloc() empty it first. Other functions leave it
 * unchanged if they have no explanation.
 */
struct tent_why {
	char text[400];
};

/* ---- engine -------------------------------------------------------------------- */

struct tent_attr {
	size_t size; /* sizeof(struct tent_attr). 0: the struct ends with rail_wait_ms, the last
			field of the first version */
	const char *config; /* configuration: JSON text, see tent(7). NULL: the defaults */
	const char *config_file; /* the name of a file with that text; set only one of the two */
	const char *address; /* where peers reach this engine by TCP: a host name or address of
				this host. NULL: 127.0.0.1, peers on this host only */
	uint16_t port; /* the TCP port at that address; 0: any free port */
	uint32_t shm_rails; /* 1 to TENT_MAX_RAILS: the number of copying threads, for peers on
			       this host; there must be no other rails and no topology file. If
			       shm_rails, tcp_rails and gpu_rails are 0, the rails are the
			       adapters of this host */
	uint64_t max_registration; /* bytes of the largest memory region, 4096 or more; longer
				      memory is registered in parts. 0: the limit of the devices */
	uint32_t max_tasks; /* limit of requests that have not ended, 1 to 65,536; 0: 1024 */
	int rail_wait_ms; /* how long a request waits while no rail that it may use is up.
			     0: 5000; -1: it does not wait */
	uint32_t tcp_rails; /* 1 to TENT_MAX_RAILS: the number of rails over TCP, which listen at
			       free ports of the address. shm_rails and gpu_rails must be 0. With
			       `adapters`, adapters are used in addition, and a topology file is
			       allowed */
	uint32_t gpu_rails; /* 1 to TENT_MAX_RAILS: the number of queues in which GPUs copy, for
			       peers on this host; there must be no other rails and no topology
			       file */
	uint32_t adapters; /* not 0: use the adapters of this host in addition to tcp_rails; at
			      most TENT_MAX_RAILS rails in all. 0: use the adapters only if there
			      are no other rails */
};

/*
 * Opens the rails and listens for peers. @attr and @why may be NULL. The caller must destroy the
 * engine with tent_destroy(). Errors:
 *
 *	-EINVAL		a bad attribute, configuration or topology file
 *	-E2BIG		a field of a later version is not 0
 *	-ENODEV		there is no adapter, or the topology names a missing one; with gpu_rails: there
 *			is no driver of a GPU
 *	-ENETDOWN	no adapter has an active port, or one that the topology names has none
 *	-EADDRNOTAVAIL, -EADDRINUSE, ...	the address cannot be used
 *	-ENOMEM, or another error of a device or the system
 */
int tent_create(const struct tent_attr *attr, struct tent_why *why, struct tent **t_p);

/*
 * Destroys the engine and all of its segments, batches and registrations, whatever their state.
 * Requests of peers that use the engine's memory fail. With copying threads or GPUs, waits at most
 * 5 seconds until no peer uses the memory, like tent_unregister(). NULL is allowed.
 */
void tent_destroy(struct tent *t);

/* ---- memory -------------------------------------------------------------------- */

/*
 * Registers [addr, addr + len) for use by this engine, and by the peers that import its
 * description. @location: the NUMA node of the memory, of the host's first 63, as "cpu:N"; or "*"
 * or NULL if the node is not one of them, is not known or does not matter.
 *
 * Memory of a GPU is recognized by its address if @location is NULL or "*"; "cuda:N" requires
 * memory of GPU number N of this process. The range must be memory of one device, and must not be
 * freed before tent_unregister(). Adapters access memory of a GPU directly if they and the driver
 * support that (dma-buf). If they do not, the engine stages the memory: a GPU copies it to and from
 * memory of the host, see tent(7). The function then returns 0 all the same, and @why contains the
 * reason.
 *
 * Errors:
 *
 *	-EINVAL	the length is 0, the range wraps, the topology does not have the location, or the
 *		memory is not of the GPU in @location
 *	-EEXIST	a part of the range is registered already
 *	-EFAULT	a part of the range is not mapped, not writable or, in memory of a GPU, not
 *		allocated; over adapters, with Linux 6.5 and later, also a shared mapping of a file
 *		on a disk (not of tmpfs)
 *	-ENODEV	"cuda:N": there is no driver of a GPU
 *	-ENOMEM	no memory, or a limit; @why names the limit and tells how to raise it
 *	-ENOSPC	more than 65,536 parts, raise max_registration; or 16,384 registrations exist; or
 *		the engine has made about 4.3 billion registrations: create another engine
 */
int tent_register(struct tent *t, void *addr, size_t len, const char *location,
	struct tent_why *why);

/*
 * Allocates @len bytes that are filled with 0, and registers them like tent_register(). If the
 * memory of both sides is from tent_alloc(), copying threads copy without system calls, in much
 * less time. tent_unregister() and tent_destroy() free the memory; the program must not unmap or
 * protect it. Errors: those of tent_register(), and
 *
 *	-EMFILE, -ENFILE	no descriptor is left
 */
int tent_alloc(struct tent *t, size_t len, const char *location, struct tent_why *why,
	void **addr_p);

/*
 * Ends the registration that begins at @addr. When the function returns 0, no peer reads or writes
 * the memory any more. The engine sends its peers a message; they start no more transfers on the
 * memory, and confirm when their transfers under way have ended. The function waits for the
 * confirmations, at most 5 seconds. Peers' requests that were still waiting end with -EACCES, and
 * new ones with -EFAULT; the rails stay in use. If a peer has not confirmed in that time, adapters
 * and rails over TCP refuse its later accesses. Errors:
 *
 *	-ENOENT		no registration begins at @addr
 *	-EBUSY		a request of this engine that has not ended uses the memory
 *	-ENOMEM		no memory; the registration stays
 *	-ETIMEDOUT	copying threads and GPUs only: a peer has not confirmed, or did not confirm the end
 *			of another registration while this one existed. The registration has ended
 *			and the peer is disconnected, but the peer may read and write the memory
 *			until its engine notices the end of the connection
 */
int tent_unregister(struct tent *t, void *addr);

/* ---- segments ------------------------------------------------------------------ */

/*
 * Describes this engine and the memory that is registered now, as JSON. The engine itself reports
 * memory that is registered later to the peers that have imported the description. The caller must
 * free the text with free(3), and keep it as secret as the memory. Returns 0 or -ENOMEM.
 */
int tent_export(struct tent *t, char **text_p);

/*
 * Connects to the engine that exported @text. Pairs the rails, and tests each pair with a message
 * without data. Blocks until all pairs have been tested, and waits at most 10 seconds for each
 * answer of the peer, and 60 seconds for all. The caller must release the segment with
 * tent_release(). Errors:
 *
 *	-EINVAL		@text is not a description, or it contradicts itself or the rail map, see
 *			tent(7)
 *	-EPROTONOSUPPORT	a description of another version
 *	-ENETUNREACH	a rail has no partner, or does not reach its partner; @why names it
 *	-EHOSTUNREACH, -ECONNREFUSED, -ETIMEDOUT, ...	the peer's address cannot be reached
 *	-EACCES		the peer did not export this description
 *	-EUSERS		4,096 peers, the maximum of an engine, have already imported the exporter's
 *			description; one of them must call tent_release(). The place of a peer that
 *			dies is free immediately, or within 20 seconds if its host is gone. But if
 *			8,192 notices wait for the exporter's program when the peer dies, the place
 *			is free at the earliest when the program has taken so many that fewer than
 *			4,096 wait
 *	-EREMOTE	the peer has copying threads or GPUs and is on another host, or its rails are of
 *			another transport than this engine's
 *	-ENOMEM
 */
int tent_import(struct tent *t, const char *text, struct tent_why *why,
	struct tent_segment **segment_p);

/*
 * Returns the version of the memory of an engine. Each tent_register() and tent_alloc() increases
 * the version.
 */
uint64_t tent_version(struct tent *t);

/*
 * Waits until requests may use the memory that the peer had registered when its tent_version()
 * returned @version. Waits at most @timeout_ms; -1: without a limit. The peer's engine reports
 * memory that is registered, or unregistered, after the import. The peer's program must send the
 * version, with the addresses, by its own means. Returns 0. -ETIMEDOUT: the time is over.
 * -ECONNRESET: the peer is gone.
 */
int tent_segment_await(struct tent_segment *s, uint64_t version, int timeout_ms);

/*
 * Disconnects from the peer and frees the segment. NULL is allowed. -EBUSY: a request that has not
 * ended uses the segment.
 */
int tent_release(struct tent_segment *s);

/* A directory keeps descriptions by name. It is a file, or functions of the program. */
struct tent_directory {
	size_t size; /* sizeof(struct tent_directory). 0: the struct ends with arg, the last field of
			the first version */
	/*
	 * The name of a file that both programs see. tent_publish() appends to it, and creates it
	 * for this user only, because the descriptions are secret. NULL: the functions below are
	 * the directory.
	 */
	const char *file;
	/*
	 * Stores a copy of @text as the description of @name. Returns 0 or -errno. NULL: the
	 * directory is only for tent_find().
	 */
	int (*put)(void *arg, const char *name, const char *text);
	/*
	 * Writes a copy of the last description of @name; the library frees the copy with free(3).
	 * Returns 0, -ENOENT if there is no description of @name, or another -errno. NULL: the
	 * directory is only for tent_publish().
	 */
	int (*get)(void *arg, const char *name, char **text_p);
	void *arg; /* passed to both functions */
};

/*
 * Exports like tent_export() and stores the description in the directory as @name. A name has 1 to
 * TENT_NAME_LEN - 1 printable ASCII characters without blanks. Errors:
 *
 *	-EINVAL	a bad directory or name
 *	-E2BIG	a field of a later version is not 0
 *	-ENOMEM, or another error of the function, the file or the system
 */
int tent_publish(struct tent *t, const struct tent_directory *d, const char *name,
	struct tent_why *why);

/*
 * Imports the last description of @name in the directory. Errors: those of tent_publish() and
 * tent_import(), and
 *
 *	-ENOENT	the directory has no such name, or there is no such file
 */
int tent_find(struct tent *t, const struct tent_directory *d, const char *name,
	struct tent_why *why, struct tent_segment **segment_p);

/* One registration of a segment's peer. */
struct tent_remote {
	uint64_t addr, len;
	char location[TENT_NAME_LEN];
};

/*
 * Writes registration number @i. The registrations that exist now are counted from 0, in the order
 * of their addresses. -ENOENT: there is no such registration.
 */
int tent_segment_remote(const struct tent_segment *s, uint32_t i, struct tent_remote *remote_p,
	size_t size);

/* ---- requests ------------------------------------------------------------------ */

enum tent_op {
	TENT_READ, /* remote to local */
	TENT_WRITE,
};

struct tent_request {
	size_t size; /* sizeof(struct tent_request), the same in all requests of a call. 0: the
			struct ends with priority, the last field of the first version. The
			elements of an array then count as such shorter structs, so a program
			that is compiled with this header and submits more than one request in
			a call must set the size; with 0 the call fails with -EINVAL */
	enum tent_op op;
	void *local; /* within one registration */
	struct tent_segment *segment;
	uint64_t remote; /* address in the peer's process, within one of its registrations */
	uint64_t len; /* 1 to 2^50 */
	uint16_t notify; /* not 0: the peer's tent_notice() returns this value when all bytes are
			    in place (a read: when all bytes have been read). This happens exactly
			    once if the request ends with status 0, at most once if it ends with
			    an error */
	uint8_t priority; /* 0: the most urgent class; less than `priorities` of the
			     configuration (default 1). tent(7) describes how the classes share
			     the rails */
	void *stream; /* a CUstream: the request begins when the stream has done the work that
			 was in it at the submission. NULL: the request begins at once. Pass
			 CUDA's default stream as CU_STREAM_LEGACY or CU_STREAM_PER_THREAD. If
			 `local` is memory of a GPU, the default stream is that of the GPU's
			 primary context */
	const void *note; /* bytes that the peer's tent_note_take() returns, at the same time and
			     as often as `notify`; tent_submit() copies them */
	size_t note_len; /* the number of these bytes, 0 to TENT_NOTE_MAX */
};

enum tent_state {
	TENT_WAITING, /* no slice has been given to a rail */
	TENT_PENDING, /* under way */
	TENT_COMPLETED,
	TENT_CANCELED,
	TENT_FAILED,
};

/*
 * The state of a request, or of a batch. The errors of a request follow. After an error the
 * contents of its destination are undefined.
 *
 *	-ENETUNREACH	during rail_wait_ms no rail that the request may use was up
 *	-ECONNRESET	the peer is gone
 *	-ECANCELED	tent_cancel() was called
 *	-EACCES		the peer's memory is not registered any more
 *	-EMSGSIZE	modes smart and baseline: more than 4,096 slices, because the registrations
 *			have many parts; raise max_registration
 *	-EFAULT		rails other than adapters: memory of this side or of the peer was unmapped.
 *			Other requests continue, and the rails stay in use
 *	-EIO		a GPU has failed, or work in `stream` has failed
 *	another		the last error of a rail, or an error of the driver of a GPU
 */
struct tent_status {
	enum tent_state state;
	int err; /* why the state is TENT_FAILED or TENT_CANCELED, see above; else 0 */
	uint64_t bytes; /* number of bytes that are in place */
};

/*
 * Starts all @n requests (1 to 65,536), or none if there is an error. The caller must free the
 * batch with tent_batch_free(). Errors:
 *
 *	-EINVAL		@n is 0 or above 65,536; an invalid operation, length, priority, size or stream;
 *			or a segment of another engine
 *	-E2BIG		@n is above max_tasks but not above 65,536, submit several batches; or a field
 *			of a later version is not 0
 *	-EFAULT		memory that is not registered, here or at the peer
 *	-EOPNOTSUPP	gpu_rails: the driver or the kernel does not let this process open the peer's
 *			memory, or the peer's stage
 *	-EAGAIN		too many requests have not ended, wait for some
 *	-ENETUNREACH	during the last rail_wait_ms no rail that the request may use was up
 *	-ECONNRESET	the peer is gone
 *	-ENOMEM
 */
int tent_submit(struct tent *t, const struct tent_request *requests, uint32_t n,
	struct tent_batch **batch_p);

/* Writes the status of request number @i, counted from 0. -ENOENT: there is no such request. */
int tent_task_status(struct tent_batch *b, uint32_t i, struct tent_status *status_p, size_t size);

/*
 * Writes one status of the whole batch. Its bytes are those of all requests. Its state is
 * TENT_PENDING until all requests have ended. Then state and error are those of the first request
 * that has failed, else of the first that was canceled, else TENT_COMPLETED and 0.
 */
void tent_batch_status(struct tent_batch *b, struct tent_status *status_p, size_t size);

/*
 * Waits until all requests have ended, at most @timeout_ms; -1: without a limit. Returns -ETIMEDOUT
 * if some have not ended, else the error that tent_batch_status() writes: 0 if all are completed.
 * -ETIMEDOUT may also be the error of a request; the state of the batch then is not TENT_PENDING.
 */
int tent_wait(struct tent_batch *b, int timeout_ms);

/*
 * Returns a descriptor that becomes readable (poll(2), epoll) when all requests have ended. The
 * batch owns the descriptor. Errors:
 *
 *	-EMFILE, -ENFILE	no descriptor is left
 *	-ENOMEM
 */
int tent_batch_fd(struct tent_batch *b);

/*
 * Cancels the requests that have not ended: drops their slices that have not been given to a rail,
 * and ends each request with -ECANCELED as soon as its slices under way have ended. Does not wait
 * for these slices. Does not cancel a request whose bytes are all in place, and which waits for its
 * notice to arrive.
 */
void tent_cancel(struct tent_batch *b);

/* Frees the batch. NULL is allowed. -EBUSY: a request has not ended. */
int tent_batch_free(struct tent_batch *b);

/* ---- notices ------------------------------------------------------------------- */

struct tent_note {
	uint64_t peer; /* identifies the peer: peers are numbered from 1, in the order in which
			  they imported this engine's descriptions */
	uint16_t notify;
	uint8_t len; /* number of bytes of the note */
	uint8_t bytes[TENT_NOTE_MAX]; /* the note */
};

/*
 * Takes a notice: the values `notify` and `note` of a peer's request whose bytes are in place, see
 * struct tent_request. The notices of one peer come in the order in which the bytes of its requests
 * were in place. While 4,096 notices have not been taken, further requests with a notice wait at
 * the peers. -EAGAIN: there is no notice.
 */
int tent_note_take(struct tent *t, struct tent_note *note_p, size_t size);

/*
 * Takes a notice like tent_note_take(), but writes only the value `notify`. Returns the same as
 * tent_note_take().
 */
int tent_notice(struct tent *t, uint16_t *notify_p);

/*
 * Returns a descriptor that is readable while there is a notice. The engine owns the descriptor.
 * The death of a peer causes no notice. The program must detect the death by its own means, such as
 * the connection over which the description was sent.
 */
int tent_notice_fd(struct tent *t);

/* ---- statistics ---------------------------------------------------------------- */

/* The cause of the last outage of a rail. It is known about 100 ms after the outage, or earlier. */
enum tent_fault {
	TENT_FAULT_NONE, /* there was no outage */
	TENT_FAULT_UNKNOWN, /* not known yet; or the rail is no adapter, and the peer has not refused
			       an access; or the subnet has no other rails with which to test the
			       two ends; or neither end reached them */
	TENT_FAULT_OWN_PORT, /* this side's port is down, its device is lost, or it reaches no
				other rail */
	TENT_FAULT_PATH, /* both ends reach other rails: the path failed, or the outage was short */
	TENT_FAULT_PEER_PORT, /* the peer's port is down, or no other rail reaches it */
	TENT_FAULT_REFUSED, /* the peer has refused an access: its memory is not registered any
			       more */
};

/* Returns a name for output, such as "own port". */
const char *tent_fault_name(enum tent_fault fault);

struct tent_rail_stats {
	char name[TENT_NAME_LEN]; /* of this engine's rail */
	char remote[TENT_NAME_LEN]; /* of the peer's rail */
	bool up; /* in use, also if after an outage only one slice at a time is sent over it */
	uint64_t bytes, slices; /* that have arrived */
	uint64_t inflight; /* bytes under way */
	uint64_t exclusions; /* number of outages */
	enum tent_fault fault; /* the cause of the last outage */
	double link_gbps; /* of the link, as configured or reported; 10^9 bits per second */
	double rate_gbps; /* measured */
};

/*
 * Writes the statistics of the segment's pair of rails with number @i, counted from 0. A program
 * that wants to know when a rail is lost or comes back must call this function regularly, for
 * example each time that tent_wait() returns -ETIMEDOUT. After each loss, even a short one,
 * `exclusions` is higher; `up` then shows whether the rail is back. -ENOENT: there is no such pair.
 */
int tent_rail_get_stats(struct tent_segment *s, uint32_t i, struct tent_rail_stats *stats_p,
	size_t size);

/* Prints a table of all segments. A GB is 10^9 bytes. Returns 0, -ENOMEM, or -errno of the
 * stream. */
int tent_stats_print(struct tent *t, FILE *out);

/*
 * Writes Prometheus' text format, for a file or an HTTP response. Returns the same as
 * tent_stats_print().
 */
int tent_stats_prometheus(struct tent *t, FILE *out);

/* Writes one JSON object on one line. Returns the same as tent_stats_print(). */
int tent_stats_json(struct tent *t, FILE *out);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
