/* SPDX-License-Identifier: MIT */
/*
 * The small TCP connection over which a server and a client agree. Each message has a header
 * of 12 bytes (magic, version, kind, length of what follows), numbers are little-endian:
 *
 *	client				server
 *	HELLO traffic
 *					WELCOME run, QPs, memory
 *	JOIN QPs, memory
 *					GO
 *	DONE what was sent		DONE		when a side has sent all
 *	RESULT what came		RESULT		after the other's DONE
 *
 * ALIVE comes each second from a side that is busy; REFUSE, a line of text, instead of any other.
 *
 * A peer is not trusted: what it sends is bounded, read once and checked; one that is silent, or
 * takes longer for a message than the time limit, is given up.
 */
#ifndef RDMABENCH_WIRE_H
#define RDMABENCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx5dvl.h"
#include "traffic.h"

#define WIRE_MAGIC 0x424d4452u /* "RDMB" */
#define WIRE_VERSION 2
#define WIRE_HEADER 12
#define WIRE_BODY_MAX 65536
#define WIRE_TEXT_MAX 200
#define WIRE_RUN_MAX 64

enum wire_kind {
	WIRE_HELLO = 1,
	WIRE_WELCOME,
	WIRE_JOIN,
	WIRE_GO,
	WIRE_DONE,
	WIRE_RESULT,
	WIRE_REFUSE,
	WIRE_ALIVE,
};

/*
 * A message that is being written or read; ok becomes false at the first field that does not fit.
 */
struct wire_buf {
	uint8_t *at, *end;
	bool ok;
};

void wire_put(struct wire_buf *b, uint64_t value, int bytes);
uint64_t wire_get(struct wire_buf *b, int bytes);
void wire_put_bytes(struct wire_buf *b, const void *from, size_t n);
void wire_get_bytes(struct wire_buf *b, void *to, size_t n);

struct wire_conn {
	int fd;
	char peer[64]; /* its address, for messages */
	uint64_t heard_ns; /* when the last whole message came, by clock_ns() */
	uint64_t alive_ns; /* when the last was sent */
	size_t have;
	uint8_t in[WIRE_HEADER + WIRE_BODY_MAX];
};

/* Takes over fd. */
void wire_open(struct wire_conn *c, int fd, const char *peer);
void wire_close(struct wire_conn *c);

/* Sends one message. 0; -ETIMEDOUT the peer does not take it; -EPIPE, -ECONNRESET, ... */
int wire_send(struct wire_conn *c, enum wire_kind kind, const void *body, size_t len,
	uint64_t timeout_ns);

/*
 * Takes a message if a whole one is there; the body stays valid until the next call.
 * The kind; 0 nothing yet; -ECONNRESET the peer has closed; -ETIMEDOUT silent for too long;
 * -EBADMSG not this protocol; -EPROTONOSUPPORT of another version; -EMSGSIZE too long.
 */
int wire_poll(struct wire_conn *c, uint64_t timeout_ns, struct wire_buf *body_p);

/*
 * Waits for a message of that kind. An ALIVE renews the time limit, except before HELLO.
 * 0; errors as wire_poll(); -EBADMSG another kind; -ECONNREFUSED a REFUSE: its text, without
 * control characters, is in why.
 */
int wire_expect(struct wire_conn *c, enum wire_kind kind, uint64_t timeout_ns,
	struct wire_buf *body_p, char why[WIRE_TEXT_MAX]);

/* Says that this side is alive, if a second has passed since the last time. */
int wire_alive(struct wire_conn *c, uint64_t now_ns, uint64_t timeout_ns);

int wire_refuse(struct wire_conn *c, const char *why, uint64_t timeout_ns);

/* Replaces characters of a peer's text that a terminal cannot print by question marks. */
void wire_one_line(char *text);

/* Returns the text for an error of these functions. */
const char *wire_error(int err);

/* ---- bodies; the readers check every field ---- */

/* The objects that one side offers to the other. */
struct wire_side {
	char run[WIRE_RUN_MAX]; /* name of the run, in WELCOME; "" in JOIN */
	uint64_t addr; /* address of its memory, which has one layout per QP */
	uint32_t qps;
	struct mlx5dvl_qp_info qp[TRAFFIC_QPS_MAX];
	uint32_t rkey[TRAFFIC_QPS_MAX]; /* rkey of each QP's part of the memory */
};

/* The body of DONE and RESULT. */
struct wire_tally {
	uint64_t messages, bytes, elapsed_ns; /* sent (DONE), received (RESULT) */
	uint64_t mismatches; /* payloads that were wrong */
	uint64_t errors; /* completions with error, without flushed requests */
	int32_t first_error; /* -errno, or 0 */
	uint32_t qps; /* only in DONE; 0 in RESULT */
	uint64_t posted[TRAFFIC_QPS_MAX]; /* requests that have completed, per QP */
};

size_t wire_put_traffic(uint8_t *to, size_t size, const struct traffic *t);
/* 0; -EBADMSG; -EINVAL with why, in one line: the traffic itself is not possible. */
int wire_get_traffic(struct wire_buf *b, struct traffic *t_p, char why[WIRE_TEXT_MAX]);
size_t wire_put_side(uint8_t *to, size_t size, const struct wire_side *s);
/* 0; -EBADMSG, e.g. if the number of QPs differs. */
int wire_get_side(struct wire_buf *b, uint32_t qps, struct wire_side *s_p);
size_t wire_put_tally(uint8_t *to, size_t size, const struct wire_tally *t);
int wire_get_tally(struct wire_buf *b, uint32_t qps, struct wire_tally *t_p);

#endif
