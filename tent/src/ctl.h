/* SPDX-License-Identifier: MIT */
/*
 * Control connections: TCP, messages of one size. The initiator, which has imported a segment,
 * sends requests (left). The target replies, and sends messages of its own (right). An arrow points
 * from a message to its reply. The words after a message name the fields that it uses. The version
 * of the memory is the tent_version() of the target, see grow.c.
 *
 *	HELLO key, number of pairs      -> WELCOME epoch: number of registrations that have ended,
 *	                                           rail: the version of the memory
 *	MORE epoch: the version of the  -> MEMORY bytes of a text, see grow.c
 *	            memory that is known
 *	                                   GREW rail: the version of the memory
 *	CONNECT pair, rail, epoch, end  -> CONNECTED pair, epoch, end, status
 *	FENCE pair, epoch               -> FENCED pair, epoch: the pair can receive nothing more
 *	NOTICE mark, bytes: sent for a notice that has bytes, or if links carry no marks (notice.h)
 *	                                   TAKEN mark: the program can take the notice
 *	SKIP mark: the request of the notice has failed
 *	UNREGISTERED registration       <- UNREGISTER registration
 *	STAGE op, chunk, ...            -> STAGED chunk, status, see stage.c; none after STAGE_FREE
 *	                                   RAIL_DOWN rail, RAIL_UP rail
 */
#ifndef TENT_CTL_H
#define TENT_CTL_H

#include "transport.h"

#define CTL_MAGIC 0x36746e74u /* "tnt6"; the 6 is the version of the protocol */
#define CTL_LEN 128
#define CTL_TEXT 108 /* bytes in MEMORY */

enum ctl_type {
	CTL_HELLO = 1,
	CTL_WELCOME,
	CTL_CONNECT,
	CTL_CONNECTED,
	CTL_FENCE,
	CTL_FENCED,
	CTL_NOTICE,
	CTL_TAKEN,
	CTL_RAIL_DOWN,
	CTL_RAIL_UP,
	CTL_MORE,
	CTL_MEMORY,
	CTL_UNREGISTER,
	CTL_UNREGISTERED,
	CTL_STAGE,
	CTL_STAGED,
	CTL_GREW,
	CTL_SKIP,
};

/*
 * The status of MEMORY. 0: the text is complete; CTL_PART: more bytes follow; CTL_PART_ASK: more
 * bytes follow after another MORE.
 */
enum { CTL_PART = 1, CTL_PART_ASK };

enum stage_op {
	STAGE_TAKE = 1, /* reserves a slot, into which rails then write */
	STAGE_FETCH, /* reserves a slot, and copies bytes of the memory to it */
	STAGE_LAND, /* copies the bytes of the slot to the memory, and frees the slot */
	STAGE_FREE, /* frees the slot */
};

struct stage_msg {
	uint32_t addr_low, addr_high; /* of the target's memory; in FETCH and LAND */
	uint32_t len;
	uint32_t chunk; /* number of the initiator's chunk */
	uint32_t
		slot; /* number of the target's slot; in LAND, FREE, and replies to TAKE and FETCH */
	uint32_t op;
};

/* Little-endian on the wire, like both supported processors. */
struct ctl_msg {
	uint32_t magic;
	uint16_t type;
	uint16_t status; /* positive errno; 0: success */
	uint32_t pair;
	/*
	 * HELLO: number of pairs; WELCOME, GREW: version of the memory; MEMORY: number of bytes;
	 * UNREGISTER(ED): registration.
	 */
	uint32_t rail;
	uint32_t epoch;
	union {
		struct link_end end; /* CONNECT, CONNECTED */
		uint8_t text[CTL_TEXT]; /* MEMORY */
		struct {
			uint8_t zero[12];
			union {
				uint8_t key[16]; /* HELLO */
				struct {
					struct notice_mark mark; /* NOTICE, TAKEN, SKIP */
					uint8_t note[NOTICE_BYTES]; /* NOTICE */
				};
				struct stage_msg stage; /* STAGE, STAGED */
			};
		};
	};
};

struct ctl {
	int fd; /* -1: closed */
	uint8_t buf[CTL_LEN];
	size_t got;
};

/* Listens at @host and @port, and writes the port in use. 0 or -errno. */
int ctl_listen(const char *host, uint16_t port, int *fd_p, uint16_t *port_p, struct tent_why *why);
/* Connects; waits at most @timeout_ms. 0 or -errno. */
int ctl_connect(const char *host, uint16_t port, int timeout_ms, struct ctl *c_p,
	struct tent_why *why);
/* Accepts the next connection. 0; -EAGAIN: there is none; -EMFILE or others of tcp_take(). */
int ctl_accept(int fd, struct ctl *c_p);
void ctl_close(struct ctl *c);
/* Closes the sending direction. The peer's last messages can still be received. */
void ctl_end(struct ctl *c);

/*
 * 0, or an error: the connection cannot be used any more. -ENOBUFS: the socket is full, so the peer
 * has stopped reading; -ECONNRESET: the connection is closed.
 */
int ctl_send(struct ctl *c, struct ctl_msg *msg);
/* Sends @n messages. Returns the same as ctl_send(). */
int ctl_send_all(struct ctl *c, struct ctl_msg *msgs, uint32_t n);
/*
 * Reads the next message without waiting. 0; -EAGAIN: no message yet; -ECONNRESET: the connection
 * is closed; -EPROTO: invalid data.
 */
int ctl_receive(struct ctl *c, struct ctl_msg *msg_p);
/* Waits for the next message. Returns the same as ctl_receive(), or -ETIMEDOUT. */
int ctl_await(struct ctl *c, int timeout_ms, struct ctl_msg *msg_p);

#endif
