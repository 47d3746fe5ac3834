/* SPDX-License-Identifier: MIT */
/*
 * The engine's objects. One lock protects all of them. Operations that block for long, such as
 * connecting, run without the lock on objects that no other thread uses yet.
 *
 * The source files of the engine in the order of calls: none calls a function of a file above it.
 *
 *	engine.c	the engine, its rails and its thread	stats.c, prometheus.c	statistics
 *	directory.c	descriptions by name
 *	segment.c	imports		batch.c		batches		serve.c	peers that use our memory
 *	move.c		the scheduler's rails over links
 *	blame.c		locates outages	learn.c		registrations after an import
 *	lent.c		ends of the peer's registrations
 *	order.c		requests after work of a stream
 *	stage.c		memory that rails do not reach
 *	task.c		requests and their notices	memory.c, revoke.c	our registrations
 *	grow.c		registrations for peers		describe.c	descriptions
 *	peer.c		messages and links to a peer	places.c	the scheduler's locations
 *	loop.c		the descriptors that the thread sleeps on
 *	rdma.c, shm.c, tcp.c, gpu.c	transports	sched.h	the scheduler
 */
#ifndef TENT_ENGINE_H
#define TENT_ENGINE_H

#include <pthread.h>

#include "base/live.h"
#include "base/slab.h"
#include "blame.h"
#include "config.h"
#include "ctl.h"
#include "desc.h"
#include "gpucopy.h"
#include "gpumem.h"
#include "latrec.h"
#include "notice.h"
#include "places.h"
#include "sched.h"
#include "tent.h"
#include "topo.h"
#include "transport.h"

#define MAX_MOVING 256 /* maximum number of requests in the scheduler, per segment and priority */
#define MAX_SLICES 4096 /* maximum number of slices of a segment, posted or bound to rails */
#define CONN_LINKS (TENT_MAX_RAILS + BLAME_ENDS)
#define MAX_IMPORTERS 4096 /* maximum number of peers that have imported; a multiple of 64 */
#define MAX_STRANGERS 256 /* maximum number of connections that have not presented the key yet */
#define READ_MAX 64 /* messages that are read from a connection at a time */
#define PEER_NS (5000 * NSEC_PER_MSEC) /* the time that a peer has for a reply */
#define NOTICES 4096 /* while so many notices have not been taken, peers wait with new ones */
#define NOTICE_RING (2 * NOTICES) /* with room for notices of closed connections; a power of two */
#define NO_TASK UINT32_MAX
#define STAGE_SLOTS 16 /* slots of each direction, see stage.c */
#define STAGE_SLOT_LEN (1ull << 20)
#define STAGE_CHUNKS 64 /* maximum number of chunks under way, of all segments */
#define STAGE_OF_CONN (STAGE_SLOTS / 2) /* maximum number of slots that one peer has at a time */
#define NO_SLOT UINT32_MAX

enum buffer_state {
	BUFFER_COMING, /* is being registered, without the lock; must not be used yet */
	BUFFER_READY,
	BUFFER_GOING, /* is being unregistered; no new use may begin, see revoke.c */
};

/* Registered memory of this engine. */
struct buffer {
	enum buffer_state state;
	uint64_t addr, len, part_len;
	uint32_t n_parts;
	uint32_t location;
	uint32_t uses; /* number of requests on it that have not ended */
	uint32_t id; /* of the registration, from BUFFER_READY on; never used again */
	int fd; /* of memory that tent_alloc() has mapped; -1: the program's own memory */
	bool of_gpu; /* the memory is that of a GPU, and gpu describes it */
	struct gpu_memory gpu;
	/* A peer's connection ended, but the peer had not closed it, and may still use the memory. */
	bool left_open;
	/* Three members that are used only in state BUFFER_GOING: */
	struct buffer *next; /* in the list of these buffers */
	uint64_t *awaits; /* bit conn.place is set for each peer that has not confirmed */
	uint32_t n_awaits; /* the number of these bits */
	bool pinned; /* by gpu_memory_pin() */
	bool staged; /* no rail reaches the memory: neither this side's rails nor those of peers */
	uint32_t copies; /* copies under way, by this side's GPU, for peers */
	struct region *regions; /* regions[rail * n_parts + part]; NULL: the transport has none */
};

/* Bit 31 marks the token of a probe. The scheduler's tokens of slices and marks leave it 0. */
#define TOKEN_PROBE (1u << 31)

static inline uint64_t token_probe(uint32_t high)
{
	return (uint64_t)high << 32 | TOKEN_PROBE;
}

/*
 * A rail of the scheduler: a pair of a rail of this engine and a rail of the peer. The scheduler
 * keeps the state of its rails, see sched.h.
 */
struct pair {
	uint32_t local, remote; /* numbers of the two rails */
	struct link *link; /* NULL: the rail is down */
	struct link *closed; /* the previous link, which is idle and will be destroyed */
	bool answered; /* the peer has confirmed the fence, or the probe has ended */
	int status; /* of the probe or of the open; stays 0 if the open takes too long */
	uint64_t deadline; /* of the fence */
	uint64_t failed_at; /* time at which the fence began */
	enum tent_fault fault; /* of the last outage */
	struct latrec_hist *slice_ns; /* from post to completion */
	struct live_record *live; /* shows the scheduler's rail, see base/live.h */
};

struct notice_slot {
	uint64_t lap; /* see notice.h; of the task that uses the slot, or used it last */
	uint32_t task; /* NO_TASK: no task, or it has ended */
	bool untaken; /* the peer's program cannot take the notice yet */
};

/* The text by which a segment learns of more registrations of the peer, see grow.c. */
struct growth {
	uint32_t version; /* this side knows all registrations up to this one */
	uint32_t told; /* the peer has registrations up to this version */
	bool asked; /* a text has been requested, and is not complete */
	bool stale; /* the text may contain a registration that has ended */
	char *text;
	size_t len, room; /* of the text: bytes that have come, and allocated ones */
};

/* A list of tasks, linked by their field next: its first and last task. Empty: head is NO_TASK. */
struct task_list {
	uint32_t head, tail;
};

struct tent_segment {
	struct tent *t;
	struct tent_segment *next;
	uint32_t number; /* in the order of imports */
	struct desc desc;
	struct ctl ctl;
	int lost; /* -errno: the reason why the peer is gone; 0: it is not gone */
	uint32_t n_pairs;
	struct pair pairs[TENT_MAX_RAILS];
	uint32_t n_closed; /* pairs that have a closed link */
	/*
	 * arms: there has been a link with arm(), or one without a descriptor. flushes: there has
	 * been a link with flush().
	 */
	bool arms, flushes;
	struct blame blame;
	struct sched *sched;
	struct place_sets sets; /* the peer's buffers by their tiers, see places.h */
	struct desc_buffer *leaving; /* buffers that the peer is unregistering; it waits for
					CTL_UNREGISTERED */
	struct growth growth;
	uint64_t mapping_ns; /* total time of lent_map(), which may pin and open memory of GPUs */
	uint64_t wake; /* when sched_run() is due */
	bool again; /* tasks may be started: start() of move.c must repeat its loop */
	uint64_t reported_at; /* time of a report of a failure, until its first slice is sent again;
			         0: none */
	struct latrec_hist *resend_ns; /* from reported_at to the first slice that is sent again */
	/* The posted slices, indexed by the low bits of their tokens. */
	struct {
		uint32_t task;
		uint64_t length, posted_at;
	} slices[MAX_SLICES];
	/* By priority: tasks that wait for room in the scheduler, and the number of tasks in it. */
	struct task_list waiting[SCHED_PRIORITIES];
	uint32_t moving[SCHED_PRIORITIES];
	struct task_list staged; /* tasks that are not completely cut into chunks */
	uint32_t chunks; /* under way */
	struct task_list queued; /* tasks that wait for a slot of notices */
	struct notice_slot slots[NOTICE_SLOTS];
	uint32_t notifying; /* tasks in slots */
	uint64_t n_notices; /* total; the next one uses the slot n_notices % NOTICE_SLOTS */
	uint32_t open; /* number of tasks that have not ended */
	uint32_t movers; /* threads that move bytes, or unmap memory of the peer, without the
			    lock */
	struct live_record *live;
};

enum task_state {
	TASK_ORDERED, /* waits for work of a stream, see order.c */
	TASK_NEW, /* if a rail is idle, the thread that submits the task moves its bytes */
	TASK_WAITING, /* for room in the scheduler */
	TASK_STAGED, /* its chunks are moved, see stage.c */
	TASK_MOVING,
	TASK_QUEUED, /* for a slot of notices */
	TASK_NOTIFYING,
};

struct task {
	struct tent_batch *batch;
	uint32_t index; /* in the batch */
	struct tent_request request;
	uint8_t note[NOTICE_BYTES]; /* the bytes of request.note */
	struct buffer *buffer;
	struct desc_buffer *remote;
	uint32_t place; /* of buffer and remote, see places.h */
	uint64_t *cuts;
	uint32_t n_cuts;
	enum task_state state;
	uint32_t next; /* in a list of the segment */
	uint64_t bytes; /* that have arrived */
	uint64_t pairs; /* a bit for each pair that carried a slice which arrived */
	/* Called when the chunk has been moved. NULL: the task is a request, not a chunk. */
	void (*ended)(struct tent *t, uint32_t id, int err);
	struct order *order; /* in TASK_ORDERED; NULL: the stream has done the awaited work */
	/* Stops the task. Only in TASK_ORDERED and TASK_STAGED. */
	void (*stop)(struct tent *t, uint32_t id, int err);
	uint64_t cut; /* bytes of the chunks that have begun */
	uint32_t chunks; /* under way */
	int err; /* not 0: an error; neither the request nor further chunks may begin */
	/* Only in TASK_NOTIFYING. */
	uint8_t slot, positions;
	uint32_t posted, arrived; /* marks: a bit per position */
	uint8_t carrier[TENT_MAX_RAILS]; /* the pair of each mark */
	uint8_t errors[TENT_MAX_RAILS]; /* the number of errors of each mark */
};

struct tent_batch {
	struct tent *t;
	struct tent_batch *next;
	uint32_t n, open;
	int fd; /* -1: tent_batch_fd() has not been called */
	uint32_t *tasks; /* stored after status; NO_TASK: the task has ended */
	struct tent_status status[]; /* of the tasks that have ended */
};

/* A chunk of a request, which rails move between the stages of both sides, see stage.c. */
struct chunk {
	struct tent_segment *s;
	uint32_t parent; /* number of the request's task */
	uint64_t at, len; /* in the request */
	uint32_t mine, theirs; /* slots; NO_SLOT: none */
	uint32_t state;
	int err;
};

/* A slot for the bytes of a peer's chunk. It is free if conn is NULL and no copy is under way. */
struct landing {
	struct conn *conn; /* NULL: no peer has the slot */
	struct buffer *buffer; /* the copy under way reads or writes this buffer */
	uint32_t chunk; /* number of the peer's chunk */
	bool copying, fetched;
};

/* A peer's request for a slot. */
struct stage_ask {
	struct stage_msg msg;
	uint64_t order; /* number in the order of all such requests */
};

/* A peer that uses our memory. */
struct conn {
	struct tent *t;
	struct conn *next;
	struct ctl ctl;
	bool known; /* the peer has presented the key */
	uint32_t place; /* if known: its id in importer_ids */
	bool cut; /* we have closed our end; the peer may copy until it closes its own */
	uint32_t version; /* if cut: the peer knows no later registrations */
	bool closed; /* the peer has closed its end */
	int err; /* the reason why the connection ends; 0: the connection stays */
	uint64_t until; /* the deadline of the peer's HELLO, or if cut, of the peer's close */
	uint32_t n_pairs;
	struct link *links[CONN_LINKS];
	struct notice_counter counter;
	uint64_t number; /* of the peer, from 1 */
	struct stage_ask asks[STAGE_SLOTS]; /* those from ask_head to ask_tail have no slot yet */
	uint32_t ask_head, ask_tail; /* never reduced modulo STAGE_SLOTS */
	uint32_t slots; /* number of slots that the peer has */
	bool told; /* CTL_GREW was sent, and the peer has not requested another text since */
	char *text; /* describes registrations; the peer gets it in parts; NULL: none */
	size_t at, len; /* bytes of the text: those sent, and all */
	uint32_t covers; /* the version that the peer knows after the whole text */
};

struct tent {
	pthread_mutex_t lock;
	/* A batch, a use of memory, or a peer has ended; or a peer's registrations are known. */
	pthread_cond_t ended;
	pthread_t thread;
	bool stopping;
	/*
	 * Does the work that can be done now. Without @all, leaves out messages of control
	 * connections and the target's ends of links. Returns whether there was work.
	 */
	bool (*progress)(struct tent *t, uint64_t now, bool all);
	int epoll, kick; /* kick: an eventfd that wakes the thread */
	uint64_t sleeps_until; /* the deadline of the thread's sleep; 0: it is awake */

	struct tent_config config;
	struct topo topo;
	struct rail_map *map; /* NULL: none */
	const struct transport *transport; /* of the first port */
	int (*check)(uint64_t addr, uint64_t len); /* transport.check of a port; NULL: no port has
						      one */
	uint32_t n_ports;
	struct port *ports[TENT_MAX_RAILS];
	struct rail_id rails[TENT_MAX_RAILS]; /* of the ports */
	double gbps[TENT_MAX_RAILS];
	uint64_t part_len; /* maximum length of a part of a buffer */
	uint64_t no_rail_ns; /* how long requests wait when no rail is up */

	char host[DESC_HOST_LEN];
	uint16_t port;
	int listener;
	uint8_t key[DESC_KEY_LEN];
	char boot[BOOT_LEN];

	uint32_t n_buffers;
	struct buffer *buffers[DESC_MAX_BUFFERS]; /* in the order of their addresses */
	struct buffer *by_id[DESC_MAX_BUFFERS]; /* the buffers that are ready or going, by id */
	uint32_t n_by_id;
	uint32_t version; /* the id of the last buffer that became ready */
	struct tent_segment *segments;
	uint32_t n_imports; /* total */
	struct tent_batch *batches;
	uint32_t n_revoked; /* total of registrations that have ended, or are ending */
	struct buffer *going; /* registrations that are ending now */
	uint32_t n_going;
	struct conn *conns;
	struct conn *departed; /* closed ones, for whose last notices the ring has no room yet */
	uint32_t n_conns; /* of both lists, including the importers */
	int ctls; /* an epoll set of conns and, unless starved, of the listener */
	bool starved; /* there is no descriptor for the next connection */
	uint64_t conns_due; /* the earliest deadline of conns */
	struct slab importer_ids;
	bool ending; /* no more connections are accepted */
	struct slab task_ids;
	struct task *tasks; /* first the tasks of requests, then those of chunks */

	/*
	 * Pinned memory for chunks: stage_in for those of peers, stage_out for own ones. NULL: no
	 * registration needs it.
	 */
	struct buffer *stage_in, *stage_out;
	struct gpu_copies *copies; /* exists if there is a stage */
	struct slab chunk_ids, out_slots;
	struct chunk chunks[STAGE_CHUNKS];
	struct landing landings[STAGE_SLOTS];
	uint64_t n_asks; /* total */
	struct orders *orders; /* NULL: no request had a stream */

	struct tent_note notices[NOTICE_RING];
	bool full; /* a notice is complete, and the ring has no room */
	uint64_t n_peers; /* total number of peers that presented the key */
	uint32_t notice_head, notice_tail;
	int notice_fd;
	struct live_record *live;
};

/* loop.c */
/* Runs progress() in the calling thread, and wakes the engine's thread if there was work. */
void loop_help(struct tent *t);
/* Wakes the engine's thread if it would sleep longer than @until. */
void loop_wake(struct tent *t, uint64_t until);
void loop_watch(struct tent *t, int fd);
/*
 * Must be called before a watched descriptor is closed: while a forked child has it, close() does
 * not remove it from the set.
 */
void loop_unwatch(struct tent *t, int fd);
void loop_watch_link(struct tent *t, const struct link *l);
/* Destroys a link, which may be NULL. */
void loop_close_link(struct tent *t, struct link **l);
/* Sleeps without the lock until an event, at most until @until. */
void loop_sleep(struct tent *t, uint64_t until);

/* peer.c */
/* The segment's peer is gone, for this reason. Wakes the threads that wait for it. */
void peer_lost(struct tent_segment *s, int err);
/* Sends a message. If that fails, the segment's peer counts as lost. */
void peer_send(struct tent_segment *s, struct ctl_msg *msg);
/*
 * The target's side: sends a message. If the peer has stopped reading, its connection will end. If
 * the peer has closed the connection, serve.c reads what the peer had sent, and then ends it.
 */
void conn_send(struct conn *c, struct ctl_msg *msg);
/* Sends @n messages in the same way. */
void conn_send_all(struct conn *c, struct ctl_msg *msgs, uint32_t n);
/* Closes the connection, if it is not closed yet. */
void peer_close(struct tent_segment *s);
/* Makes an end of a link on a port, and requests the other end from the peer. 0 or -errno. */
int peer_connect(struct tent_segment *s, uint32_t port, struct ctl_msg *msg, struct link **l_p);
/* Handles the peer's reply: connects the end, and posts a probe. 0 or -errno. */
int peer_connected(struct link *l, const struct ctl_msg *msg, uint64_t token);

/* memory.c */
struct buffer *buffer_find(struct tent *t, uint64_t addr, uint64_t len);
/* Frees the registrations and the stage. */
void buffers_free(struct tent *t);

/* describe.c */
/* The index in by_id of the first buffer with an id above @id. */
uint32_t buffers_behind(const struct tent *t, uint32_t id);
/* Adds the buffers that are registered, and the stage, to a description. 0 or -ENOMEM. */
int describe_memory(const struct tent *t, struct buffer *const *buffers, uint32_t n,
	struct desc *d);

/* revoke.c: ends registrations that peers use. */
/* Sets the buffer's state to BUFFER_GOING, and sends CTL_UNREGISTER to all peers. 0 or -ENOMEM. */
int revoke_begin(struct tent *t, struct buffer *b);
/*
 * Waits for the peers' confirmations; releases the lock meanwhile. 0: when transport.remove() has
 * removed the buffer's regions, no peer uses it; -ETIMEDOUT: a peer may still use it.
 */
int revoke_wait(struct tent *t, struct buffer *b);
void revoke_confirmed(struct tent *t, const struct conn *c, uint32_t id);
/*
 * The connection of a known peer has ended, so no confirmations of it come any more. If the peer
 * has not closed its end, it may use all memory that it knows.
 */
void revoke_left(struct tent *t, const struct conn *c);
/* Closes our end. The peer is gone when it has closed its end, or after PEER_NS. */
void revoke_cut(struct conn *c);

/* grow.c, the target's side. Reports a new registration to the peers, with CTL_GREW. */
void grow_announce(struct tent *t);
/* Sends the peer registrations that follow this version. 0 or -errno. */
int grow_asked(struct tent *t, struct conn *c, uint32_t version);

/* learn.c. The peer has registrations up to this version: requests those that are not known. */
void learn_told(struct tent_segment *s, uint32_t version);
/* Handles bytes of the text that was requested. 0, or -EPROTO or -ENOMEM. */
int learn_memory(struct tent_segment *s, const struct ctl_msg *msg);

/* lent.c: the initiator's side of revoke.c. */
/* Maps the buffer, if the transport can. */
void lent_map(struct tent_segment *s, struct desc_buffer *b);
/* Frees all buffers that the peer has not unregistered, but not the stage. */
void lent_forget(struct tent_segment *s);
void lent_fini(struct tent_segment *s);
/* The peer has unregistered the buffer with this id. Requests on it are not started any more. */
void lent_revoked(struct tent_segment *s, uint32_t id);
/*
 * Unmaps the unregistered buffers that no request uses any more, without the lock, because that may
 * take long. Sends CTL_UNREGISTERED for them. True: there were some, so the lock was released, and
 * other threads may have posted moves on links that are not armed.
 */
bool lent_answer(struct tent_segment *s);

/* segment.c */
void segment_free(struct tent_segment *s);

/* places.c: a location of the scheduler is a local location and a set of the peer's buffers. */
/*
 * Finds the sets of all buffers of the description. Returns the number of locations or -ENOMEM.
 * Writes tiers_p[location * pairs + pair], which the caller must free with free(3).
 */
int places_init(struct tent_segment *s, uint8_t **tiers_p);
/* Finds the set of one more buffer, and gives the scheduler the set's locations if it is new. */
void places_add(struct tent_segment *s, struct desc_buffer *b);
uint32_t place_of(const struct tent_segment *s, const struct buffer *b,
	const struct desc_buffer *remote);

/* stage.c */
/* Begins a request: cuts it into chunks if rails alone cannot move it, else calls task_wait(). */
void stage_or_wait(struct tent *t, uint32_t id);
/* Cuts chunks off the requests of the segment while there is room for them. */
void stage_start(struct tent_segment *s);
/* Handles the copies that have ended. Returns whether there were some. */
bool stage_progress(struct tent *t);
/* Handles the target's reply. 0, or -EPROTO. */
int stage_answered(struct tent_segment *s, const struct ctl_msg *msg);
/* The peer is gone: ends the chunks that wait for its replies, and the requests without chunks. */
void stage_lost(struct tent_segment *s);
/* The target's side: handles a message. 0, or -EPROTO. */
int stage_asked(struct tent *t, struct conn *c, const struct ctl_msg *msg);
/* A known peer is gone, and has been removed from the engine's list. */
void stage_left(struct tent *t, const struct conn *c);
/* Waits for the copies under way. Called once, at the end of the engine. */
void stage_fini(struct tent *t);

/* order.c */
/*
 * The request will begin when its stream has done the work that is in it now. 0; -EINVAL: there is
 * no such stream; -ENOMEM, -EMFILE, -ENFILE, or -errno of the driver.
 */
int order_add(struct tent *t, uint32_t id);
/* Undoes order_add(): the request is not submitted, because of an error. */
void order_drop(struct tent *t, uint32_t id);
/* Begins requests whose streams have done the awaited work. Returns whether there were some. */
bool order_progress(struct tent *t);
void order_fini(struct tent *t);

/* move.c */
int move_create(struct tent_segment *s);
/* @all: also handles the peer's messages. Returns whether there was work. */
bool move_progress(struct tent_segment *s, uint64_t now, bool all);
/*
 * Moves all bytes of a new request in the calling thread, if a rail is idle; releases the lock
 * meanwhile. False: the request still has to be moved.
 */
bool move_now(struct tent_segment *s, uint32_t id);
/* The time at which move_progress() is due if no event comes. */
uint64_t move_due(const struct tent_segment *s);
/*
 * True: moves are posted on a link whose completions do not wake the engine's thread by themselves:
 * the thread must arm the link first, or the link has no descriptor.
 */
bool move_unarmed(const struct tent_segment *s);
/*
 * Performs posted moves of a link in the calling thread. True: some were performed, and the lock
 * was released meanwhile.
 */
bool move_help(struct tent *t);
/* Calls link_ops.urge for the links with posted moves: no thread waits for these moves. */
void move_urge(struct tent *t);
/* The port of a rail of this engine (@own) or of the peer has come up or gone down. */
void move_port(struct tent_segment *s, uint64_t now, bool own, uint32_t rail, bool up);
/* Handles a message of the peer. 0, or -EPROTO. */
int move_message(struct tent_segment *s, const struct ctl_msg *msg, uint64_t now);

/* task.c */
void tasks_append(struct tent *t, struct task_list *l, uint32_t id);
/* Removes the task, unless it is not in the list. */
void tasks_remove(struct tent *t, struct task_list *l, uint32_t id);
/* Appends a new task to the tasks that wait for room in the scheduler. */
void task_wait(struct tent_segment *s, uint32_t id);
/* Finds the offsets at which the task's bytes cross parts of registrations. 0 or -ENOMEM. */
int task_cut(struct task *k);
/* All bytes of the request are in place, or it has failed. */
void task_arrived(struct tent_segment *s, uint32_t id, int status);
/* Ends the task with @err as soon as its slices under way have ended. */
void task_stop(struct tent *t, uint32_t id, int err);
/* Stops all tasks that use this memory, with -EACCES. */
void tasks_refuse(struct tent_segment *s, const struct desc_buffer *remote);
/* Gives waiting tasks to the scheduler. */
void tasks_start(struct tent_segment *s, uint64_t now);
/* The scheduler has ended the task @user of the segment @arg. For rail_ops.done. */
void task_moved(void *arg, uint64_t user, int status);
/* For rail_ops.marked. */
void notice_marked(void *arg, uint64_t user, uint32_t position, int status);
/* Writes the mark with this @user and @position. */
void notice_record(const struct tent_segment *s, uint64_t user, uint32_t position,
	struct notice_mark *mark_p);
/* The peer's program can take the notice that @mark belongs to. */
void notice_taken(struct tent_segment *s, const struct notice_mark *mark);
/* Gives free slots to waiting notices, and posts marks that are not under way. */
void tasks_notify(struct tent_segment *s);
void tasks_fail(struct tent_segment *s, int err);
void batch_free(struct tent_batch *b);

/* serve.c */
/* Watches the listener (@c is NULL) or a connection. 0 or -errno. */
int serve_watch(struct tent *t, int fd, struct conn *c);
bool serve_progress(struct tent *t, uint64_t now);
void serve_port(struct tent *t, uint32_t rail, bool up);
void conn_free(struct tent *t, struct conn *c);
/* Stops accepting connections, and waits until no peer copies. */
void serve_end(struct tent *t);

#endif
