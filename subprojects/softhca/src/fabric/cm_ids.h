/* SPDX-License-Identifier: MIT */
/*
 * The connection manager's part of the arena: the ids (rdma_cm ids) of all processes of the fabric.
 */
#ifndef SOFTHCA_FABRIC_CM_IDS_H
#define SOFTHCA_FABRIC_CM_IDS_H

#include <stdint.h>

#define MAX_CM_IDS 8192 /* at most 65536, because librdmacm accepts no larger ids */
#define FIRST_CM_ID 1
#define CM_DATA_MAX 256
#define MAX_CM_REFUSED 64

/* An IP address with a port. */
struct cm_addr {
	uint8_t ip[16]; /* IPv4: ::ffff:a.b.c.d */
	uint32_t scope; /* IPv6 */
	uint16_t port; /* host order */
	uint16_t family; /* AF_INET, AF_INET6; 0: none */
};

/*
 * Names an id. After the id is destroyed, its entry may contain an id with another serial
 * number.
 */
struct cm_link {
	uint32_t index;
	uint32_t serial; /* 0: none */
};

enum cm_state {
	CM_IDLE,
	CM_BOUND,
	CM_LISTEN,
	CM_ADDR_RESOLVED,
	CM_ROUTE_RESOLVED,
	CM_REQ_SENT,
	CM_REQ_RCVD,
	CM_REP_SENT,
	CM_REP_RCVD,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RCVD,
	CM_SIDR_SENT, /* datagrams: the request for a QP number */
	CM_SIDR_RCVD,
	CM_SIDR_DONE,
	CM_ENDED, /* rejected, or disconnected by both */
};

/* The contents of a request, a reply or a rejection. */
struct cm_param {
	uint32_t qpn;
	uint32_t qkey;
	uint32_t psn;
	uint32_t ece_vendor, ece_options;
	uint8_t srq;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t data_len;
	uint8_t reserved;
	uint8_t data[CM_DATA_MAX];
};

#define CM_COMING 8

/* The other end of an id, if it is in another fabric. */
struct cm_away {
	uint32_t here; /* this id's communication id; 0: the other end is in this fabric */
	uint32_t there; /* the other end's; 0: not known yet */
	uint8_t gid[16];
	uint32_t mtu; /* enum ibv_mtu of the path */
	uint32_t gone; /* the program has destroyed the id, which waits for the answer to DREQ */
	uint32_t message; /* enum mad_type of the message that waits for an answer; 0: none */
	uint32_t repeats; /* number of repetitions left */
	uint64_t due; /* time of the next repetition, CLOCK_MONOTONIC ns */
};

/* A request of another fabric that was refused: if it is repeated, so is the refusal. */
struct cm_refused {
	uint8_t gid[16];
	uint32_t there;
	uint32_t ud;
	uint32_t status;
	struct cm_param param;
};

/* An event that is not posted yet. */
struct cm_coming {
	uint64_t due; /* time at which cm_deliver() is called next, CLOCK_MONOTONIC ns; 0: the
			 channel is full (cm_refill() in cm/ids.h) */
	/*
	 * Only if the event is the end of a connection: the latest time at which it is posted
	 * (CM_PATIENCE_NS in cm/ids.h). 0: the peer's message that ends the connection has not
	 * arrived.
	 */
	uint64_t patience;
	uint32_t sends, receives; /* producer indexes of the QP's CQs when that message arrived */
	uint16_t type; /* this and the next two: as in struct cm_event (cm/ids.h) */
	uint16_t has_param;
	int32_t status;
};

struct cm_id {
	uint32_t used; /* not 0: the entry is in use */
	uint32_t owner; /* slot of the process */
	uint32_t serial; /* unique in the fabric */
	uint32_t state; /* enum cm_state */
	uint64_t fifo; /* of the event channel */
	uint64_t uid; /* the program's number for it; 0: a request that was not accepted yet */
	uint32_t ps; /* port space */
	uint32_t qp_type;
	uint32_t rail; /* NO_INDEX: not bound to an adapter */
	uint32_t gid; /* index of its GID */
	uint32_t dst_rail, dst_gid; /* of the other end, once it is known */
	struct cm_addr src, dst;
	uint32_t has_port; /* it holds the port of `src`, see cm_take_port() */
	uint32_t backlog; /* LISTEN: maximum number of unread requests */
	uint32_t events; /* number of events that the program has read for this id */
	struct cm_link peer;
	struct cm_away away; /* used instead of `peer` if the other end is in another fabric */
	struct cm_link listener; /* of a request: the id that it was sent to */
	uint32_t unread; /* this is a request, and the program has not read it yet */
	/* Options. */
	uint32_t reuse_addr, v6_only;
	uint32_t ack_timeout; /* exponent as in QP attributes; 0: the default */
	uint32_t tos;
	struct cm_param local; /* last sent */
	struct cm_param remote; /* last received */
	/*
	 * Events that are not posted yet. Event number n is in coming[n % CM_COMING].
	 * first_coming is the number of the oldest one, last_coming 1 + that of the newest.
	 */
	uint32_t first_coming, last_coming;
	struct cm_coming coming[CM_COMING];
};

#endif
