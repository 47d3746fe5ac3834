/* SPDX-License-Identifier: MIT */
/*
 * A transport moves bytes between this engine and its peers. Each transport is one file with one
 * table of functions and properties, and one line in transports.c. The engine never asks which
 * transport it has: every difference is a member of the table.
 *
 *	rdma.c	its rails are adapter ports, its links are queue pairs
 *	shm.c	its links are threads that copy between processes of one host
 *
 * A port is a rail of this engine. A link connects a port with a rail of a peer: the initiator's
 * end moves data, the target's end receives marks.
 *
 * check() and add() are called without the engine's lock, all other functions with it.
 */
#ifndef TENT_TRANSPORT_H
#define TENT_TRANSPORT_H

#include "desc.h"
#include "notice.h"

#define LINK_DEPTH 64 /* slices posted at a time */
#define LINK_EXTRA 32 /* marks, and a probe, beside them */
#define LINK_END_LEN 44

/* The data that the peer's end of a link needs; opaque outside of the transport. */
struct link_end {
	uint8_t bytes[LINK_END_LEN];
};

/* Where a slice, or a probe, is; what remains of the peer once it is connected. */
struct link_move {
	bool write;
	void *local;
	uint64_t remote;
	uint64_t len;
	uint32_t lkey, rkey;
	uint64_t token;
};

struct link;

typedef void link_done_fn(void *arg, uint64_t token, int status);
typedef void link_mark_fn(void *arg, const struct notice_mark *mark);

struct link_ops {
	/* Writes this end, for the peer's connect(). */
	void (*end)(const struct link *l, struct link_end *end_p);
	int (*connect)(struct link *l, const struct link_end *peer);
	/* 0; -EAGAIN full; another -errno: the link has failed. */
	int (*post)(struct link *l, const struct link_move *move);
	/* Asks the peer whether it is there; without data. */
	int (*post_probe)(struct link *l, uint64_t token);
	/* Needed if the transport has marks. */
	int (*post_mark)(struct link *l, const struct notice_mark *mark, uint64_t token);
	void (*flush)(struct link *l);
	/* Reports the moves, probes and marks that have ended. Returns their number. */
	int (*poll)(struct link *l, link_done_fn *fn, void *arg);
	int (*poll_marks)(struct link *l, int max, link_mark_fn *fn, void *arg);
	/*
	 * Nothing more is started, and nothing of the peer arrives; what is posted ends with an
	 * error. 0, or -errno: only destroy() makes sure of that.
	 */
	int (*stop)(struct link *l);
	/* Makes the descriptors readable at the next completion. */
	void (*arm)(struct link *l);
	/* A descriptor may have become readable. */
	void (*disarm)(struct link *l);
	/* Afterwards nothing of it reads or writes memory. */
	void (*destroy)(struct link *l);
};

struct link {
	const struct link_ops *ops;
	uint32_t posted; /* that have not been reported */
	int fds[2]; /* -1: none */
};

struct port {
	struct rail_id id;
	double gbps; /* that it reports; 0: not known */
	uint64_t max_region; /* bytes of the longest registration */
	int fd; /* readable at an event; -1: none */
	bool dead; /* for good; set by event() */
};

/* Memory that a port has registered. */
struct region {
	uint32_t lkey, rkey;
	void *own; /* the transport's; NULL: it is not registered */
};

struct transport {
	const char *rails; /* in messages: "adapters" */
	const char *const *kinds; /* names of its rails' kinds in descriptions, up to NULL */
	bool regions; /* ports register memory, and descriptions have the keys */
	bool marks; /* links carry marks; else one control message tells of all bytes */
	bool bars; /* the end of a region or a link bars the peer; else it is waited for */
	bool blames; /* other rails can tell where an outage has its cause */
	bool spares; /* a link goes on after -EFAULT, which is its request's fault */
	uint64_t stall_ns; /* the shortest silence that is an outage; SCHED_NEVER: none is */

	/*
	 * True: an engine with these attributes has this transport; the first one is taken. NULL:
	 * any engine.
	 */
	bool (*wanted)(const struct tent_attr *attr);
	/* The names of the rails of this host. Their number, 0, or -errno. */
	int (*find)(const struct tent_attr *attr, char names[TENT_MAX_RAILS][TENT_NAME_LEN],
		struct tent_why *why);
	/* @named: by a topology file. -ENETDOWN: its port is not active; with a message unless so. */
	int (*open)(const char *name, bool named, struct port **p_p, struct tent_why *why);
	void (*close)(struct port *p);
	/* Takes the events of a port. True: *up_p says whether it is up now. NULL: it has none. */
	bool (*event)(struct port *p, bool *up_p);

	/* Checks that all of the memory is mapped and writable. 0 or -errno. NULL: add() does. */
	int (*check)(uint64_t addr, uint64_t len);
	int (*add)(struct port *p, uint64_t addr, uint64_t len, struct region *r_p);
	void (*remove)(struct region *r);

	/* Checks that a peer with this description can be reached. 0 or -EREMOTE. NULL: it can. */
	int (*reach)(const struct desc *peer, struct tent_why *why);
	int (*link)(struct port *p, const struct desc *peer, struct link **l_p);
	/* Makes the target's end of a peer's link, connected with it. NULL: links have no such end. */
	int (*accept)(struct port *p, const struct link_end *theirs, struct link_end *mine_p,
		struct link **l_p);
};

/* plain.c: functions for tables of transports that need little. */
void link_no_end(const struct link *l, struct link_end *end_p);
int link_no_connect(struct link *l, const struct link_end *peer);
int link_no_marks(struct link *l, int max, link_mark_fn *fn, void *arg);
int link_no_stop(struct link *l);
void link_nothing(struct link *l);
void link_free(struct link *l);
/* A port without events, of unlimited registrations. -ENOMEM. */
int port_new(const char *kind, const char *name, struct port **p_p);
void port_free(struct port *p);

/* All of them, up to NULL. */
extern const struct transport *const transports[];

#endif
