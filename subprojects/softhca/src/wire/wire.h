/* SPDX-License-Identifier: MIT */
/*
 * The protocol of an RC QP whose peer is reached by packets: requester and responder as a state
 * machine without sockets, clocks and memory. Packets come in by wire_receive(), time by the
 * argument @now (ns), and all effects go through struct wire_ops. Not locked: the caller serialises.
 *
 * Requester. Messages are numbered from 0. `una` is the oldest PSN that is not acknowledged, `next`
 * the next one to be sent, `top` the one after the highest that was ever sent; una <= next <= top.
 * Losses are repaired by going back: next = una. A READ is asked for in parts of WIRE_READ_PART
 * packets, each a request of its own, and a repeated request ends where the first one did.
 *
 * Responder. `expected` is the next PSN. A packet before it is a duplicate: a SEND or WRITE is
 * acknowledged again, a READ is read again, an atomic is answered from the replay ring. A packet
 * after it causes one NAK (`nak_sent`).
 *
 * A process may be killed at any instruction. So payloads are placed first, which may be repeated,
 * and the words of the state that a completion belongs to are handed to the operation that
 * makes it (struct wire_store), which stores all in one step.
 */
#ifndef SOFTHCA_WIRE_WIRE_H
#define SOFTHCA_WIRE_WIRE_H

#include "packet/message.h"

#define WIRE_MESSAGES 64 /* in flight */
#define WIRE_WINDOW_MIN 4u /* packets */
#define WIRE_WINDOW_START 16u
#define WIRE_WINDOW_MAX 64u
#define WIRE_READ_PART 32u /* packets that one READ request asks for */
#define WIRE_REPLAYS 16 /* atomics that can be answered again */
#define WIRE_ACK_EVERY 16u /* packets, at most, between requests for acknowledgement */
#define WIRE_RNR_FOR_EVER 7
#define WIRE_IDLE_RETRY_NS 10000000u /* period of retries with timeout 0, which never ends */

enum wire_status {
	WIRE_OK,
	WIRE_RETRY_EXCEEDED,
	WIRE_RNR_EXCEEDED,
	WIRE_REMOTE_INVALID, /* this and the next two: by a NAK */
	WIRE_REMOTE_ACCESS,
	WIRE_REMOTE_OPERATIONAL,
	WIRE_LOCAL_PROTECTION, /* the requester's own memory cannot be reached */
	WIRE_BAD_RESPONSE,
};

struct wire_message {
	struct message m; /* transport, mtu, dest_qpn and psn are filled by the machine */
	bool fence; /* not before all earlier READs and atomics are answered */
};

/* The word @at becomes @value. */
struct wire_store {
	uint32_t *at;
	uint32_t value;
};

#define WIRE_STORES 6
#define WIRE_ARRIVAL_STORES 3 /* of these in a step with recv_complete() */

/* Stores that belong together. */
struct wire_step {
	struct wire_store stores[WIRE_STORES];
	uint32_t n;
};

/* A message that takes a receive. */
struct wire_arrival {
	bool write; /* WRITE with immediate */
	bool has_imm;
	bool solicited;
	uint32_t imm;
	uint32_t length;
};

/*
 * Functions of the machine's surroundings. Unless said otherwise the functions return 0 or
 * -errno: -EFAULT is memory that cannot be reached, -EACCES a key, bounds or permission, -ESRCH
 * an owner that is dead, -EBUSY one that may take the same packet later.
 */
struct wire_ops {
	/* The P_Key is the sender's to fill. */
	void (*send)(void *arg, const struct packet *p, const void *payload);

	/* Requester. Message number @n: -EAGAIN if it is not posted yet. */
	int (*message)(void *arg, uint32_t n, struct wire_message *m);
	int (*gather)(void *arg, uint32_t n, uint32_t offset, void *out, uint32_t len);
	int (*scatter)(void *arg, uint32_t n, uint32_t offset, const void *bytes, uint32_t len);
	/* Message @n, the oldest, has ended. An error: nothing was stored, and no other one will end. */
	int (*complete)(void *arg, uint32_t n, enum wire_status status, const struct wire_step *s);

	/* Makes the stores of a step that has no completion. */
	void (*commit)(void *arg, const struct wire_step *s);

	/* Responder. Checks that all of a range may be accessed: PO_WRITE_ONLY, or PO_READ_REQUEST. */
	int (*access)(void *arg, enum packet_operation op, uint64_t raddr, uint32_t rkey,
		uint32_t len);
	int (*place)(void *arg, uint64_t raddr, uint32_t rkey, const void *bytes, uint32_t len);
	int (*fetch)(void *arg, uint64_t raddr, uint32_t rkey, void *out, uint32_t len);
	/* The next receive: -EAGAIN if none is posted. It stays posted. */
	int (*recv_ready)(void *arg);
	/* Into it; -EMSGSIZE: it is too short. */
	int (*recv_place)(void *arg, uint32_t offset, const void *bytes, uint32_t len);
	void (*recv_complete)(void *arg, const struct wire_arrival *a, const struct wire_step *s);
	/*
	 * @request is a compare and swap or a fetch and add: stores the new value, and the
	 * original into *original, which is a place of the machine, in one step with @s.
	 */
	int (*atomic)(void *arg, const struct packet *request, uint64_t *original,
		const struct wire_step *s);
	/* The responder has refused a request with this NAK, and takes no more. */
	void (*refused)(void *arg, enum aeth_syndrome nak);
};

struct wire_attr {
	uint32_t dest_qpn;
	uint32_t mtu;
	uint32_t sq_psn, rq_psn;
	uint64_t timeout_ns; /* 0: as the attribute, for ever */
	uint32_t retry_cnt;
	uint32_t rnr_retry;
	uint32_t rnr_timer; /* code, of this side's NAKs */
	uint32_t max_reads; /* READ requests and atomics in flight; at least 1 to send any */
	uint32_t max_dest_reads; /* 0: refused */
};

/* A message in flight, as far as its PSNs tell. */
struct wire_flight {
	uint32_t psn, count;
	uint32_t kind; /* enum message_kind */
};

struct wire_requester {
	uint32_t una, next, top; /* PSNs */
	uint32_t done; /* messages that have ended */
	uint32_t begun; /* messages of which something was sent */
	uint32_t window; /* packets */
	uint32_t grown; /* packets acknowledged since the window has grown */
	uint32_t retries, rnr_retries; /* since the last progress */
	uint32_t gap; /* 1 + una when the last gap was noticed, or 0 */
	uint32_t failed;
	uint64_t due; /* the timer, 0: none */
	uint64_t rnr_until; /* nothing is sent before, 0: not waiting */
	struct wire_flight flights[WIRE_MESSAGES];
};

struct wire_replay {
	uint32_t psn; /* 1 + PSN, 0: free */
	uint32_t reserved;
	uint64_t original;
};

struct wire_responder {
	uint32_t expected; /* PSN */
	uint32_t msn;
	uint32_t
		operation; /* 1 + of the message that is arriving: MSG_SEND or MSG_WRITE; 0: none */
	uint32_t offset; /* bytes of it that have arrived */
	uint32_t nak_sent;
	uint32_t ack_due; /* 1 + PSN, or 0 */
	uint32_t refused;
	uint32_t rkey, length; /* of the WRITE */
	uint32_t atomics; /* executed; the next one's place in the ring */
	uint64_t raddr;
	struct wire_replay replays[WIRE_REPLAYS];
};

struct wire_qp {
	struct wire_attr attr;
	struct wire_requester rq;
	struct wire_responder rs;
};

void wire_init(struct wire_qp *q, const struct wire_attr *attr);

/* Sends what is posted, as far as the window and waiting times allow. */
void wire_send(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now);

/*
 * A packet from the peer: checked (ICRC, addresses, QPN), @p->payload bytes at @payload.
 * Anything that does not fit the state is dropped.
 */
void wire_receive(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now,
	const struct packet *p, const void *payload);

/* After one or several packets: acknowledges those that asked for it. */
void wire_acknowledge(struct wire_qp *q, const struct wire_ops *ops, void *arg);

/* When wire_tick() has something to do; 0: never. */
uint64_t wire_deadline(const struct wire_qp *q);

/* Time has passed. Goes on with waiting messages, and sends again what has had no answer. */
void wire_tick(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now);

/* Sending took until @now: the peer's time to answer begins here. */
void wire_sent(struct wire_qp *q, uint64_t now);

/* The halves of wire_receive(). */
void wire_request(struct wire_qp *q, const struct wire_ops *ops, void *arg, const struct packet *p,
	const void *payload);
void wire_response(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now,
	const struct packet *p, const void *payload);

static inline void wire_add(struct wire_step *s, uint32_t *at, uint32_t value)
{
	s->stores[s->n++] = (struct wire_store){at, value};
}

#endif
