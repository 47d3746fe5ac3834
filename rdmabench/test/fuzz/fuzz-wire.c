/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: the messages of a peer of rdmabench. The first byte selects the message that is
 * awaited, and whether a valid header is put before the rest; the next two bytes are the number of
 * QPs. A body that is accepted is written again, with the same bytes.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire.h"
#include "support/fuzz.h"

#define BYTES_MAX 65536

/* A text from the peer is one line that a terminal can print. */
static void check_text(const char *why)
{
	must(strnlen(why, WIRE_TEXT_MAX) < WIRE_TEXT_MAX);
	for (; *why; why++)
		must(isprint((unsigned char)*why));
}

static void check_traffic(const struct traffic *t)
{
	struct layout l;

	traffic_layout(t, &l);
	must(t->send_batch >= 1 && t->send_batch <= t->depth && t->regions <= t->qps);
	must(l.size >= l.atomic_at && t->qps * l.size <= TRAFFIC_MEMORY_MAX);
	must((uint64_t)traffic_rx_depth(t, 1) * traffic_recv_size(t) <= TRAFFIC_MEMORY_MAX);
	must(t->pattern.n >= 1 && t->pattern.n <= PATTERN_REQUESTS);
	for (uint32_t i = 0; i < t->pattern.n; i++)
		must(t->pattern.request[i].total <= t->pattern.largest);
}

/* Reads a body of this kind and writes it to @again. Returns its length, or 0. */
static size_t read_body(enum wire_kind kind, uint32_t qps, struct wire_buf *b, uint8_t *again)
{
	static struct wire_side side;
	static struct wire_tally tally;
	char why[WIRE_TEXT_MAX] = "";
	struct traffic t;
	int err;

	switch (kind) {
	case WIRE_HELLO:
		err = wire_get_traffic(b, &t, why);
		check_text(why);
		must(!err || err == -EBADMSG || (err == -EINVAL && *why));
		if (err)
			return 0;
		check_traffic(&t);
		return wire_put_traffic(again, BYTES_MAX, &t);
	case WIRE_WELCOME:
	case WIRE_JOIN:
		if (wire_get_side(b, qps, &side))
			return 0;
		must(side.qps == qps && memchr(side.run, 0, sizeof(side.run)));
		return wire_put_side(again, BYTES_MAX, &side);
	case WIRE_DONE:
	case WIRE_RESULT:
		return wire_get_tally(b, qps, &tally) ? 0 :
							wire_put_tally(again, BYTES_MAX, &tally);
	default:
		return 0;
	}
}

/* Copies the body to memory of its size, so that the sanitizer detects overruns. */
static void take_body(enum wire_kind kind, uint32_t qps, const struct wire_buf *body)
{
	static uint8_t again[BYTES_MAX];
	size_t len = (size_t)(body->end - body->at), n;
	uint8_t *copy = malloc(len ? len : 1);
	struct wire_buf b = {copy, copy + len, true};

	must(copy && len <= WIRE_BODY_MAX);
	memcpy(copy, body->at, len);
	n = read_body(kind, qps, &b, again);
	must(!n || (n == len && !memcmp(again, copy, n)));
	free(copy);
}

/* The peer sends, and closes the connection. */
static void send_all(int fd, enum wire_kind kind, bool header, const uint8_t *data, size_t size)
{
	static struct wire_conn peer;
	int room = 4 * BYTES_MAX;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	wire_open(&peer, fd, "us");
	if (header)
		must(!wire_send(&peer, kind, data, size, NSEC_PER_SEC));
	else
		must(send(fd, data, size, MSG_DONTWAIT) == (ssize_t)size);
	wire_close(&peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct wire_conn us;
	char why[WIRE_TEXT_MAX] = "";
	enum wire_kind kind;
	struct wire_buf body;
	uint32_t qps;
	int fd[2], err;

	if (size < 3 || size > BYTES_MAX)
		return 0;
	kind = WIRE_HELLO + data[0] % WIRE_ALIVE;
	qps = (data[1] | (uint32_t)data[2] << 8) % (TRAFFIC_QPS_MAX + 2);
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
	send_all(fd[1], kind, data[0] & 0x80, data + 3, size - 3);
	wire_open(&us, fd[0], "peer");
	for (int i = 0; i < 4; i++) { /* the same kind again, until the peer has gone */
		err = wire_expect(&us, kind, NSEC_PER_SEC, &body, why);
		check_text(why);
		if (err)
			break;
		take_body(kind, qps, &body);
	}
	must(*wire_error(err));
	must(err != -EPROTONOSUPPORT || wire_version(&us) != WIRE_VERSION);
	wire_close(&us);
	return 0;
}
