/* SPDX-License-Identifier: MIT */
/*
 * The protocol of the transport over TCP, and the connections of its links. A link is STREAMS
 * connections from the initiator to the target. The initiator sends frames, and the target's engine
 * copies between the connections and its memory. The target replies to the frames of a connection
 * in their order, to each when its bytes are in place:
 *
 *	PROBE					-> reply
 *	WRITE key, addr, len; then len bytes	-> reply
 *	READ key, addr, len			-> reply; if its status is 0: len bytes, and another reply
 *	MARK mark				-> reply
 *
 * If the memory of an operation is not mapped, or not registered any more, only this operation
 * fails: zeros are sent in place of its remaining bytes, or the remaining bytes are received and
 * discarded, and the next reply contains the status.
 *
 * A connection begins with the token of its link, a random number that the target has sent over the
 * control connection.
 */
#ifndef TENT_TCPLINK_H
#define TENT_TCPLINK_H

#include <assert.h>
#include <netinet/tcp.h>

#include "transport.h"

#define STREAMS 4 /* connections of a link */
#define TCP_MAGIC 0x32706374u /* "tcp2"; the 2 is the version of the protocol */
#define TOKEN_LEN 16

enum frame_type {
	FRAME_PROBE = 1,
	FRAME_WRITE,
	FRAME_READ,
	FRAME_MARK,
};

/* Little-endian on the wire, like both supported processors. */
struct frame {
	uint32_t type, key;
	uint64_t token; /* of the move, probe or mark; repeated in the reply */
	union {
		struct {
			uint64_t addr, len;
		};
		struct notice_mark mark;
	};
};

struct reply {
	uint32_t magic;
	uint32_t status; /* 0, EACCES or EFAULT */
	uint64_t token;
};

struct greeting {
	uint32_t magic, zero;
	uint8_t token[TOKEN_LEN];
};

/* The target's end of a link in control messages. */
struct tcp_end {
	uint16_t port;
	uint8_t token[TOKEN_LEN];
};

static_assert(sizeof(struct frame) == 32 && sizeof(struct reply) == 16, "as on the wire");
static_assert(sizeof(struct greeting) == 24, "as on the wire");
static_assert(sizeof(struct tcp_end) <= LINK_END_LEN, "a message has room for it");

/* A connection. */
struct wire {
	int fd; /* -1: closed */
	uint64_t moved; /* bytes in this turn, which ends after TURN bytes, see tcplink.c */
};

#define SILENT_TIMES 4 /* retransmissions without a reply; they take 3 seconds or more */
#define SILENT_PROBES 3 /* probes of a closed window without a reply */

/*
 * True: the host of the peer does not reply to TCP any more. A process that is stopped closes its
 * window, and its host replies to the probes of the window. TCP_USER_TIMEOUT would end the
 * connection to a stopped process, too.
 */
static inline bool wire_silent(const struct tcp_info *i)
{
	return i->tcpi_retransmits >= SILENT_TIMES || i->tcpi_probes >= SILENT_PROBES;
}

/* A head, and the bytes and the tail that follow it. */
struct item {
	void *head;
	size_t head_len;
	void *bytes; /* NULL: there is no memory; zeros are sent, and what is received is discarded */
	uint64_t len;
	void *tail;
	size_t tail_len;
};

/*
 * Sends (@out) or receives more of an item, of which *done bytes are done. 0: all of it is done;
 * -EAGAIN: the socket is not ready, or the turn is over; -EFAULT: memory is not mapped, and the
 * caller may continue without it; or another -errno: the connection has failed.
 */
int wire_move(struct wire *w, bool out, const struct item *i, uint64_t *done);
/*
 * Makes the link's descriptor readable at an event of the connection, edge-triggered. This is
 * sufficient: a link moves bytes until its sockets are not ready, and a link that stops earlier is
 * polled again. 0 or -errno.
 */
int wire_watch(const struct wire *w, const struct link *l);
void wire_close(struct wire *w);

/* Makes the descriptor of a link. 0 or -errno. */
int tcp_link_init(struct link *l, const struct link_ops *ops);
/* For link_ops.disarm. */
void tcp_link_disarm(struct link *l);

/* For transport.link: makes the initiator's end. */
int tcp_link_new(struct port *p, const struct desc *peer, struct link **l_p);

#endif
