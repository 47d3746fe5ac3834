/* SPDX-License-Identifier: MIT */
/*
 * The protocol of an RC QP whose peer is reached by packets: requester and responder as a state
 * machine without sockets, clocks and access to memory. wire_receive() passes packets in, the
 * argument @now passes the time (ns), and all effects are calls of functions in struct wire_ops.
 * There are no locks: the caller must serialise the calls.
 *
 * Requester. Messages are numbered from 0. `una` is the oldest PSN that is not acknowledged, `next`
 * the next one to be sent, `top` the one after the highest that was ever sent; una <= next <= top.
 * After a loss, the requester goes back: next = una. A READ is split into requests for at most
 * WIRE_READ_PART packets each, and a repeated request ends at the same packet as the first one.
 *
 * Responder. `expected` is the next PSN. A packet with an earlier PSN is a duplicate: a SEND or
 * WRITE is acknowledged again, a READ is executed again, an atomic is answered from the ring of
 * replays. The first packet with a later PSN causes a NAK, further ones do not (`nak_sent`). At most
 * WIRE_READ_BURST responses are sent to one READ request, because the caller holds a lock meanwhile.
 * For the peer, the rest is lost, so the peer repeats the request from there on.
 *
 * A process may be killed at any instruction. So payloads are placed first: placing them twice does
 * no harm. The words of the state that belong to a completion are passed to the operation that
 * makes the completion (struct wire_step), and the operation stores all of them in one step.
 */
#ifndef SOFTHCA_WIRE_WIRE_H
#define SOFTHCA_WIRE_WIRE_H

#include "packet/message.h"

#define WIRE_MESSAGES 64 /* in flight */
#define WIRE_WINDOW_MIN 4u /* packets */
#define WIRE_WINDOW_START 16u
#define WIRE_WINDOW_MAX 64u
#define WIRE_READ_PART 32u /* packets per READ request */
#define WIRE_READ_BURST 32768u /* responses to one READ request */
#define WIRE_REPLAYS 16 /* atomics that can be answered again */
#define WIRE_ACK_EVERY 16u /* an acknowledgement is requested at least once in this many packets */
#define WIRE_RNR_FOR_EVER 7
#define WIRE_IDLE_RETRY_NS 10000000u /* retry period with timeout 0; such a QP never gives up */

enum wire_status {
	WIRE_OK,
	WIRE_RETRY_EXCEEDED,
	WIRE_RNR_EXCEEDED,
	WIRE_REMOTE_INVALID, /* this status and the next two are reported by a NAK */
	WIRE_REMOTE_ACCESS,
	WIRE_REMOTE_OPERATIONAL,
	WIRE_LOCAL_PROTECTION, /* the requester's own memory cannot be reached */
	WIRE_BAD_RESPONSE,
};

struct wire_message {
	struct message m; /* the state machine fills in transport, mtu, dest_qpn and psn */
	bool fence; /* not sent before all earlier READs and atomics are answered */
};

/* A store: the word at @at becomes @value. */
struct wire_store {
	uint32_t *at;
	uint32_t value;
};

#define WIRE_STORES 6
#define WIRE_ARRIVAL_STORES 3 /* number of stores in a step with recv_complete() */

/* Stores that belong together. */
struct wire_step {
	struct wire_store stores[WIRE_STORES];
	uint32_t n;
};

/* A message that consumes a receive WQE. */
struct wire_arrival {
	bool write; /* WRITE with immediate */
	bool has_imm;
	bool solicited;
	uint32_t imm;
	uint32_t length;
};

/*
 * Functions that the state machine calls. Unless documented otherwise, they return 0 or
 * -errno:
 * - -EFAULT: memory that cannot be accessed;
 * - -EACCES: a wrong key, bounds or permission;
 * - -ESRCH: the owner is dead;
 * - -EBUSY: the owner may accept the same packet later.
 */
struct wire_ops {
	/* The function must fill in the P_Key. */
	void (*send)(void *arg, const struct packet *p, const void *payload);

	/* Requester. Gets message number @n. Returns -EAGAIN if it is not posted yet. */
	int (*message)(void *arg, uint32_t n, struct wire_message *m);
	int (*gather)(void *arg, uint32_t n, uint32_t offset, void *out, uint32_t len);
	int (*scatter)(void *arg, uint32_t n, uint32_t offset, const void *bytes, uint32_t len);
	/*
	 * Ends message @n, the oldest. If it returns an error, nothing was stored, and no other
	 * message ends.
	 */
	int (*complete)(void *arg, uint32_t n, enum wire_status status, const struct wire_step *s);

	/* Makes the stores of a step that has no completion. */
	void (*commit)(void *arg, const struct wire_step *s);

	/* Responder. Checks access to all of a range, for PO_WRITE_ONLY or PO_READ_REQUEST. */
	int (*access)(void *arg, enum packet_operation op, uint64_t raddr, uint32_t rkey,
		uint32_t len);
	int (*place)(void *arg, uint64_t raddr, uint32_t rkey, const void *bytes, uint32_t len);
	int (*fetch)(void *arg, uint64_t raddr, uint32_t rkey, void *out, uint32_t len);
	/* Finds the next receive WQE, which stays posted. Returns -EAGAIN if none is posted. */
	int (*recv_ready)(void *arg);
	/* Places bytes in the next receive. Returns -EMSGSIZE if the receive is too short. */
	int (*recv_place)(void *arg, uint32_t offset, const void *bytes, uint32_t len);
	void (*recv_complete)(void *arg, const struct wire_arrival *a, const struct wire_step *s);
	/*
	 * Executes @request, a compare and swap or a fetch and add: in one step with @s, stores the
	 * new value into memory and the original value into *original, a field of struct wire_qp.
	 * After an error, @s may have been stored.
	 */
	int (*atomic)(void *arg, const struct packet *request, uint64_t *original,
		const struct wire_step *s);
	/*
	 * Called when the responder has refused a request with this NAK. The responder accepts no
	 * further requests.
	 */
	void (*refused)(void *arg, enum aeth_syndrome nak);
};

struct wire_attr {
	uint32_t dest_qpn;
	uint32_t mtu;
	uint32_t sq_psn, rq_psn;
	uint64_t timeout_ns; /* 0: never give up, like timeout 0 of a QP */
	uint32_t retry_cnt;
	uint32_t rnr_retry;
	uint32_t rnr_timer; /* delay code in this side's RNR NAKs */
	uint32_t max_reads; /* READ requests and atomics in flight; at least 1 to send any */
	uint32_t max_dest_reads; /* 0: READs and atomics are refused */
};

/* A message in flight: its PSNs and its kind. */
struct wire_flight {
	uint32_t psn, count;
	uint32_t kind; /* enum message_kind */
};

struct wire_requester {
	uint32_t una, next, top; /* PSNs */
	uint32_t done; /* messages that have ended */
	uint32_t begun; /* messages to which PSNs were assigned */
	uint32_t window; /* packets */
	uint32_t grown; /* packets acknowledged since the last growth of the window */
	uint32_t retries, rnr_retries; /* since the last progress */
	uint32_t gap; /* 1 + una when a missing answer was last noticed, or 0 */
	uint32_t failed; /* a message has failed, or is failing */
	uint64_t due; /* when the timer expires; 0: no timer */
	uint64_t rnr_until; /* nothing is sent before that time; 0: not waiting */
	struct wire_flight flights[WIRE_MESSAGES];
};

struct wire_replay {
	uint32_t psn; /* 1 + PSN of the request; 0: free */
	uint32_t reserved;
	uint64_t original;
};

struct wire_responder {
	uint32_t expected; /* PSN */
	uint32_t msn;
	uint32_t operation; /* 1 + kind of the arriving message, MSG_SEND or MSG_WRITE; 0: none */
	uint32_t offset; /* bytes of that message that have arrived */
	uint32_t nak_sent;
	uint32_t ack_due; /* 1 + PSN to acknowledge, or 0 */
	uint32_t refused; /* the NAK of the request that was refused, or 0 */
	uint32_t rkey, length; /* of the WRITE */
	uint32_t atomics; /* executed atomics; determines the entry of the next one */
	uint64_t raddr;
	struct wire_replay replays[WIRE_REPLAYS];
};

/*
 * Numbers of events. The state machine only increases them. The caller adds them to its counters
 * and sets them to 0.
 */
struct wire_counts {
	uint32_t writes, reads, atomics; /* the peer's requests that were executed */
	uint32_t no_receives; /* attempts of the peer that found no receive */
	uint32_t rnr_naks, rnr_retries; /* own attempts that found none; of these, repeated ones */
	uint32_t timeouts, timeout_retries; /* own attempts without an answer; repeated ones */
};

struct wire_qp {
	struct wire_attr attr;
	struct wire_requester rq;
	struct wire_responder rs;
	struct wire_counts counts;
};

void wire_init(struct wire_qp *q, const struct wire_attr *attr);

/* Sends posted messages as far as the window and waiting times allow. */
void wire_send(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now);

/*
 * Handles a packet from the peer with @p->payload bytes at @payload. The caller must have checked
 * ICRC, addresses and QPN.
 */
void wire_receive(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now,
	const struct packet *p, const void *payload);

/* Must be called after one or several packets: sends the acknowledgements that they requested. */
void wire_acknowledge(struct wire_qp *q, const struct wire_ops *ops, void *arg);

/* Returns the time at which wire_tick() must be called; 0: never. */
uint64_t wire_deadline(const struct wire_qp *q);

/*
 * Continues messages whose waiting time has ended, and repeats messages that got no answer in time.
 */
void wire_tick(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now);

/*
 * To be called after wire_tick(), when sending has ended, at @now: the timeout for the peer's
 * answer begins at that time.
 */
void wire_sent(struct wire_qp *q, uint64_t now);

/* Returns the delay that an RNR NAK with this code demands. */
uint64_t wire_rnr_ns(uint32_t code);

/* The two halves of wire_receive(). */
void wire_request(struct wire_qp *q, const struct wire_ops *ops, void *arg, const struct packet *p,
	const void *payload);
void wire_response(struct wire_qp *q, const struct wire_ops *ops, void *arg, uint64_t now,
	const struct packet *p, const void *payload);

static inline void wire_add(struct wire_step *s, uint32_t *at, uint32_t value)
{
	s->stores[s->n++] = (struct wire_store){at, value};
}

#endif
