/* SPDX-License-Identifier: MIT */
/*
 * The TCP connection over which a server and a client agree on the traffic. Each message has a
 * header of 12 bytes (magic, version, kind, length of the body). Numbers are little-endian:
 *
 *	client				server
 *	HELLO traffic
 *					WELCOME run, QPs, memory
 *	JOIN QPs, memory
 *					GO
 *	DONE counts sent		DONE		after a side has sent all
 *	RESULT counts received		RESULT		after the peer's DONE
 *
 * During the traffic both sides send ALIVE every 250 ms, and a server does so while it waits for
 * further clients. In place of WELCOME or GO the server may send REFUSE, a line of text.
 *
 * A peer is not trusted: its messages are bounded, read once and checked. If no whole message
 * arrives within the time limit, the connection is closed. A server does not apply the limit between
 * HELLO and WELCOME, while a client waits for others.
 */
#ifndef RDMABENCH_WIRE_H
#define RDMABENCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx5dvl.h"
#include "traffic.h"

#define WIRE_MAGIC 0x424d4452u /* "RDMB" */
#define WIRE_VERSION 4
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

/* A message that is written or read; ok becomes false at the first field that does not fit. */
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
	uint64_t heard_ns; /* clock_ns() when the time limit began: at a message, or set later */
	uint64_t alive_ns; /* clock_ns() when the last ALIVE was sent */
	size_t have;
	uint8_t in[WIRE_HEADER + WIRE_BODY_MAX];
};

/* Initialises *c. wire_close() closes @fd. */
void wire_open(struct wire_conn *c, int fd, const char *peer);
void wire_close(struct wire_conn *c);

/* Sends one message. Returns 0. -ETIMEDOUT: the peer does not read it. -EPIPE, -ECONNRESET, ... */
int wire_send(struct wire_conn *c, enum wire_kind kind, const void *body, size_t len,
	uint64_t timeout_ns);

/*
 * Reads a message if it has arrived as a whole; the body is valid until the next call. Returns the
 * kind, or 0 if there is no whole message yet. -ECONNRESET: the peer has closed the connection.
 * -ETIMEDOUT: no whole message has arrived for longer than @timeout_ns. -EBADMSG: another protocol.
 * -EPROTONOSUPPORT: another version. -EMSGSIZE: the message is too long.
 */
int wire_poll(struct wire_conn *c, uint64_t timeout_ns, struct wire_buf *body_p);

/*
 * Waits for a message of this kind. An ALIVE renews the time limit, but is an error if @kind is
 * WIRE_HELLO or WIRE_JOIN. Returns 0, or an error of wire_poll(). -EBADMSG: a message of another
 * kind. -ECONNREFUSED: a REFUSE; its text is in @why, as changed by wire_one_line().
 */
int wire_expect(struct wire_conn *c, enum wire_kind kind, uint64_t timeout_ns,
	struct wire_buf *body_p, char why[WIRE_TEXT_MAX]);

/* The peer's version, after -EPROTONOSUPPORT. */
unsigned wire_version(const struct wire_conn *c);

/* Sends ALIVE if 250 ms have passed since the last ALIVE. Returns 0 or an error of wire_send(). */
int wire_alive(struct wire_conn *c, uint64_t now_ns, uint64_t timeout_ns);

int wire_refuse(struct wire_conn *c, const char *why, uint64_t timeout_ns);

/* Replaces characters of a peer's text that a terminal cannot print by question marks. */
void wire_one_line(char *text);

/* Returns the text for an error of these functions. */
const char *wire_error(int err);

/*
 * ---- bodies ----
 *
 * The functions that read a body check lengths and ranges, except the fields of struct
 * mlx5dvl_qp_info: mlx5dvl_qp_connect() and mlx5dvl_ah_create() check those.
 */

/* The objects that one side offers to the other. */
struct wire_side {
	char run[WIRE_RUN_MAX]; /* name of the run, in WELCOME; "" in JOIN */
	uint16_t cm_port; /* port of rdma_cm at which the server listens; 0: none */
	uint64_t addr; /* of its memory: one part per QP, as struct layout (traffic.h) says */
	uint32_t qps;
	struct mlx5dvl_qp_info qp[TRAFFIC_QPS_MAX];
	uint32_t rkey[TRAFFIC_QPS_MAX]; /* rkey of each QP's part of the memory */
};

/* The body of DONE and RESULT. */
struct wire_tally {
	uint64_t messages, bytes; /* of requests: sent and completed (DONE), received (RESULT) */
	uint64_t elapsed_ns; /* DONE: from the start to the last completion; RESULT: 0 */
	uint64_t mismatches; /* wrong payloads */
	uint64_t errors; /* completions with error, but not of flushed requests; lost answers */
	int32_t first_error; /* -errno, or 0 */
	uint32_t qps; /* only in DONE; 0 in RESULT */
	uint64_t posted[TRAFFIC_QPS_MAX]; /* requests of each QP that have completed */
};

size_t wire_put_traffic(uint8_t *to, size_t size, const struct traffic *t);
/* Returns 0, -EBADMSG, or -EINVAL with one line in @why if the traffic itself is not possible. */
int wire_get_traffic(struct wire_buf *b, struct traffic *t_p, char why[WIRE_TEXT_MAX]);
size_t wire_put_side(uint8_t *to, size_t size, const struct wire_side *s);
/* Returns 0, or -EBADMSG, for example if the number of QPs differs. */
int wire_get_side(struct wire_buf *b, uint32_t qps, struct wire_side *s_p);
size_t wire_put_tally(uint8_t *to, size_t size, const struct wire_tally *t);
int wire_get_tally(struct wire_buf *b, uint32_t qps, struct wire_tally *t_p);

#endif
