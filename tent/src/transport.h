/* SPDX-License-Identifier: MIT */
/*
 * A transport moves bytes between this engine and its peers. Each transport is one file with one
 * table of functions and properties, and one line in transports.c. The engine never checks which
 * transport it uses: every difference is a member of the table.
 *
 *	rdma.c	its rails are adapter ports, its links are queue pairs
 *	shm.c	its links are threads that copy between processes of one host
 *	gpu.c	its links are queues of copies, which GPUs perform between processes of one host
 *	tcp.c	its links are connections
 *
 * A port is a rail of this engine. A link connects a port with a rail of a peer: the initiator's
 * end moves data, the target's end receives marks (see notice.h).
 *
 * The engine holds its lock when it calls event(), link(), accept() or a function of struct
 * link_ops. It may call the other functions without the lock.
 */
#ifndef TENT_TRANSPORT_H
#define TENT_TRANSPORT_H

#include <sys/types.h>

#include "desc.h"
#include "notice.h"

#define LINK_DEPTH 64 /* maximum number of slices posted at a time */
#define LINK_EXTRA 32 /* marks and a probe that may be posted in addition */
#define LINK_END_LEN 44

/* The data that the peer's end of a link needs; opaque outside of the transport. */
struct link_end {
	uint8_t bytes[LINK_END_LEN];
};

/* A slice to move; a probe has length 0. */
struct link_move {
	bool write;
	void *local;
	uint64_t remote;
	/*
	 * The address of the remote memory in this process. NULL: the memory is not mapped here, or
	 * an access to @local may fault, because @local is not memory of tent_alloc().
	 */
	void *mapped;
	uint64_t len;
	uint32_t lkey, rkey;
	uint64_t token;
	bool alone; /* the scheduler wakes only one rail for the request */
};

struct link;

typedef void link_done_fn(void *arg, uint64_t token, int status);
typedef void link_mark_fn(void *arg, const struct notice_mark *mark);

struct link_ops {
	/* Writes the data of this end that the peer needs to connect to it. NULL: no data. */
	void (*end)(const struct link *l, struct link_end *end_p);
	/* NULL: the link needs no connection. */
	int (*connect)(struct link *l, const struct link_end *peer);
	/* Posts a move. 0; -EAGAIN: the link is full; another -errno: the link has failed. */
	int (*post)(struct link *l, const struct link_move *move);
	/*
	 * Performs a short move in the calling thread, and releases @lock, the engine's, meanwhile,
	 * so the link may be destroyed in that time. 0; any -errno: the caller must post the move
	 * instead. Required if the transport has at_once.
	 */
	int (*now)(struct link *l, const struct link_move *move, pthread_mutex_t *lock);
	/* Posts a message without data, which ends with 0 if it has reached the peer. */
	int (*post_probe)(struct link *l, uint64_t token);
	/* Required if the transport has marks. */
	int (*post_mark)(struct link *l, const struct notice_mark *mark, uint64_t token);
	/* NULL: posts take effect at once. */
	void (*flush)(struct link *l);
	/*
	 * Reports the moves, probes and marks that have ended. Returns their number, or 1 if there
	 * are none but bytes have been moved.
	 */
	int (*poll)(struct link *l, link_done_fn *fn, void *arg);
	/*
	 * Performs a part of the posted moves in the calling thread, and releases @lock, the
	 * engine's, meanwhile. False: no move was performed. NULL: threads cannot help.
	 */
	bool (*help)(struct link *l, pthread_mutex_t *lock);
	/*
	 * The program polls for the end of posted moves without helping, so the link must perform
	 * them soon. NULL: not needed.
	 */
	void (*urge)(struct link *l);
	/*
	 * Calls @fn for up to @max marks that have arrived. Required if the transport has accept().
	 * Returns 0 if there was no work.
	 */
	int (*poll_marks)(struct link *l, int max, link_mark_fn *fn, void *arg);
	/*
	 * After stop() the link starts no more moves and receives nothing from the peer. Posted
	 * moves end with an error. Returns 0, or -errno: the link was not stopped, and only
	 * destroy() stops it. Required if the transport has accept(). NULL: the link needs no stop,
	 * because it starts and receives nothing after its last completion.
	 */
	int (*stop)(struct link *l);
	/*
	 * Makes the descriptors (link.fds) become readable at the next completion. NULL: they become
	 * readable without arm().
	 */
	void (*arm)(struct link *l);
	/*
	 * Resets the descriptors. The engine calls this when one may have become readable. Required
	 * with arm(). NULL: not needed.
	 */
	void (*disarm)(struct link *l);
	/* After destroy() the link does not read or write memory. */
	void (*destroy)(struct link *l);
};

struct link {
	const struct link_ops *ops;
	uint32_t posted; /* moves, probes and marks that poll() has not reported yet */
	/*
	 * -1: none. Without descriptors, a completion does not wake the engine's thread: the engine
	 * polls the link after a post, and when it does other work.
	 */
	int fds[2];
};

struct transport;

struct port {
	const struct transport *transport; /* set by the engine */
	struct rail_id id;
	double gbps; /* as the device reports; 0: not known */
	uint64_t max_region; /* bytes of the longest registration */
	int fd; /* readable at an event; -1: none */
	bool dead; /* the port has failed permanently; set by event() */
	bool starved; /* there is no descriptor for a connection: event() must be tried again */
	uint64_t wake_ns; /* time to wake the thread of an idle link; 0: it is not considered */
};

/* Memory that a port has registered. */
struct region {
	uint32_t lkey, rkey;
	void *own; /* private data of the transport; NULL: not registered */
};

struct transport {
	const char *rails; /* the word for its rails in messages, such as "adapters" */
	const char *const *kinds; /* kinds of its rails as named in descriptions; ends with NULL */
	bool regions; /* ports register memory, and descriptions contain the keys */
	bool marks; /* links carry marks; otherwise one control message reports the end of a
		       request */
	/*
	 * remove() and destroy() end the peer's accesses. If this is false, the peer must confirm
	 * that its accesses have ended.
	 */
	bool bars;
	bool blames; /* probes over other rails can tell which port, or the path, has failed */
	bool mapped; /* links reach only memory that map() has mapped */
	bool gpus; /* links reach memory of GPUs of this process */
	/*
	 * An engine may combine rails of transports that have this property. All of these have
	 * regions, marks and bars, and no map(), reach() or gpus.
	 */
	bool beside;
	bool spares; /* after -EFAULT only the request fails, and the link continues */
	/* The submitting thread itself moves requests of a batch, together at most so many bytes. */
	uint64_t at_once;
	uint64_t stall_ns; /* the shortest silence that is an outage; SCHED_NEVER: silence is no
			      outage */

	/*
	 * Offset in struct tent_attr of a uint32_t, the number of rails of this transport that the
	 * program requests; 0: none. The names of the rails are kinds[0] followed by a number.
	 */
	size_t asked;
	/*
	 * Writes the names of the rails of this host. Returns their number or -errno. For a
	 * transport with find():
	 * - The value at `asked` is not a number of rails: any value but 0 requests all of them.
	 * - Topology files may name the rails.
	 * - The first such transport is also used if the program requests no rails at all.
	 */
	int (*find)(const struct tent_attr *attr, char names[TENT_MAX_RAILS][TENT_NAME_LEN],
		struct tent_why *why);
	/*
	 * Opens a rail. @named: a topology file names the rail. -ENETDOWN: its port is not active;
	 * @why is then written only if @named. All other errors but -ENOMEM write @why.
	 */
	int (*open)(const struct tent_attr *attr, const char *name, bool named, struct port **p_p,
		struct tent_why *why);
	void (*close)(struct port *p);
	/*
	 * Handles the events of a port. True: *up_p is its new state. NULL: ports have no events.
	 */
	bool (*event)(struct port *p, bool *up_p);

	/* Checks that all of the memory is mapped and writable. 0 or -errno. NULL: add() checks. */
	int (*check)(uint64_t addr, uint64_t len);
	int (*add)(struct port *p, uint64_t addr, uint64_t len, struct region *r_p);
	/*
	 * Like add(), for memory of a GPU at @offset of a dma-buf. NULL: the rails do not reach such
	 * memory.
	 */
	int (*add_dmabuf)(struct port *p, int fd, uint64_t offset, uint64_t addr, uint64_t len,
		struct region *r_p);
	void (*remove)(struct region *r);

	/*
	 * Maps memory of a peer. Returns NULL if it cannot be mapped. The member is NULL if the
	 * transport does not use mapped memory.
	 */
	void *(*map)(const struct desc *peer, const struct desc_buffer *b);
	/* Required with map(). */
	void (*unmap)(void *at, const struct desc_buffer *b);
	/* Checks that this host can reach the peer. 0 or -EREMOTE. NULL: it always can. */
	int (*reach)(const struct desc *peer, struct tent_why *why);
	int (*link)(struct port *p, const struct desc *peer, struct link **l_p);
	/* Makes and connects the target's end of a peer's link. NULL: links have no such end. */
	int (*accept)(struct port *p, const struct link_end *theirs, struct link_end *mine_p,
		struct link **l_p);
};

/* plain.c */
/* For simple transports: */
void link_free(struct link *l);
/* Makes a condition whose timed waits use clock_ns(). */
void cond_init(pthread_cond_t *c);
/* Makes a port without events and with registrations of any length. 0 or -ENOMEM. */
int port_new(const char *kind, const char *name, struct port **p_p);
void port_free(struct port *p);
/*
 * For transport.check. Returns -EFAULT, as an adapter does when it pins the memory, if a part is
 * not mapped, readable and writable. Another -errno: the memory could not be checked.
 */
int memory_check(uint64_t addr, uint64_t len);
/*
 * Copies memory of this process by a system call, because the program may have unmapped it. 0;
 * -EFAULT: a part is not mapped; or another -errno.
 */
int memory_copy(uint64_t to, uint64_t from, uint64_t len);
/* For transport.map and .unmap: memory with a descriptor, of a process of this host. */
void *memory_map(const struct desc *peer, const struct desc_buffer *b);
void memory_unmap(void *at, const struct desc_buffer *b);
/* For transport.reach: the peer must be a process of this host. */
int host_reach(const struct desc *peer, struct tent_why *why);

/* All transports, terminated by NULL. */
extern const struct transport *const transports[];

#endif
