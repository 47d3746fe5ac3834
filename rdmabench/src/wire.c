/* SPDX-License-Identifier: MIT */
#include "wire.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/tcp.h"

/* A peer's --timeout, which may differ from ours, is at least a second. */
#define ALIVE_NS (250 * NSEC_PER_MSEC)

void wire_put(struct wire_buf *b, uint64_t value, int bytes)
{
	b->ok = b->ok && b->end - b->at >= bytes;
	for (int i = 0; b->ok && i < bytes; i++)
		*b->at++ = (uint8_t)(value >> 8 * i);
}

uint64_t wire_get(struct wire_buf *b, int bytes)
{
	uint64_t value = 0;

	b->ok = b->ok && b->end - b->at >= bytes;
	for (int i = 0; b->ok && i < bytes; i++)
		value |= (uint64_t)*b->at++ << 8 * i;
	return value;
}

void wire_put_bytes(struct wire_buf *b, const void *from, size_t n)
{
	b->ok = b->ok && (size_t)(b->end - b->at) >= n;
	if (b->ok) {
		memcpy(b->at, from, n);
		b->at += n;
	}
}

void wire_get_bytes(struct wire_buf *b, void *to, size_t n)
{
	b->ok = b->ok && (size_t)(b->end - b->at) >= n;
	if (b->ok) {
		memcpy(to, b->at, n);
		b->at += n;
	}
}

void wire_open(struct wire_conn *c, int fd, const char *peer)
{
	c->fd = fd;
	snprintf(c->peer, sizeof(c->peer), "%s", peer);
	c->heard_ns = c->alive_ns = clock_ns();
	c->have = 0;
}

void wire_close(struct wire_conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

int wire_send(struct wire_conn *c, enum wire_kind kind, const void *body, size_t len,
	uint64_t timeout_ns)
{
	uint64_t deadline = clock_ns() + timeout_ns;
	uint8_t header[WIRE_HEADER];
	struct wire_buf b = {header, header + sizeof(header), true};
	int err;

	wire_put(&b, WIRE_MAGIC, 4);
	wire_put(&b, WIRE_VERSION, 2);
	wire_put(&b, kind, 2);
	wire_put(&b, len, 4);
	err = tcp_put(c->fd, header, sizeof(header), deadline);
	return err ? err : tcp_put(c->fd, body, len, deadline);
}

int wire_alive(struct wire_conn *c, uint64_t now_ns, uint64_t timeout_ns)
{
	if (now_ns - c->alive_ns < ALIVE_NS)
		return 0;
	c->alive_ns = now_ns;
	return wire_send(c, WIRE_ALIVE, NULL, 0, timeout_ns);
}

int wire_refuse(struct wire_conn *c, const char *why, uint64_t timeout_ns)
{
	return wire_send(c, WIRE_REFUSE, why, strnlen(why, WIRE_TEXT_MAX - 1), timeout_ns);
}

/* Returns the length of the body of the message that begins in c->in; -EAGAIN if its header is
 * incomplete; or another error of wire_poll(). */
static int message_length(const struct wire_conn *c, int *kind_p)
{
	struct wire_buf b = {(uint8_t *)c->in, (uint8_t *)c->in + c->have, true};
	uint64_t magic, version, kind, len;

	if (c->have < WIRE_HEADER)
		return -EAGAIN;
	magic = wire_get(&b, 4);
	version = wire_get(&b, 2);
	kind = wire_get(&b, 2);
	len = wire_get(&b, 4);
	if (magic != WIRE_MAGIC)
		return -EBADMSG;
	if (version != WIRE_VERSION)
		return -EPROTONOSUPPORT;
	if (kind < WIRE_HELLO || kind > WIRE_ALIVE)
		return -EBADMSG;
	if (len > WIRE_BODY_MAX)
		return -EMSGSIZE;
	*kind_p = (int)kind;
	return (int)len;
}

unsigned wire_version(const struct wire_conn *c)
{
	struct wire_buf b = {(uint8_t *)c->in + 4, (uint8_t *)c->in + 6, true};

	return (unsigned)wire_get(&b, 2);
}

/* Returns the kind of a whole message, -EAGAIN, or an error. */
static int read_message(struct wire_conn *c, struct wire_buf *body_p)
{
	for (;;) {
		int kind = 0, len = message_length(c, &kind), err;
		size_t want = WIRE_HEADER + (len > 0 ? (size_t)len : 0);

		if (len < 0 && len != -EAGAIN)
			return len;
		if (len >= 0 && c->have == want) {
			*body_p = (struct wire_buf){c->in + WIRE_HEADER, c->in + want, true};
			c->have = 0;
			c->heard_ns = clock_ns();
			return kind;
		}
		/* Reads only this message; later bytes stay in the socket. */
		err = tcp_read(c->fd, c->in, want, &c->have);
		if (err)
			return err;
	}
}

int wire_poll(struct wire_conn *c, uint64_t timeout_ns, struct wire_buf *body_p)
{
	int kind = read_message(c, body_p);

	if (kind == -EAGAIN)
		return clock_ns() - c->heard_ns > timeout_ns ? -ETIMEDOUT : 0;
	return kind;
}

void wire_one_line(char *text)
{
	for (; *text; text++)
		if (!isprint((unsigned char)*text))
			*text = '?';
}

static void copy_text(struct wire_buf *b, char why[WIRE_TEXT_MAX])
{
	size_t n = (size_t)(b->end - b->at);

	snprintf(why, WIRE_TEXT_MAX, "%.*s", (int)n, (const char *)b->at);
	wire_one_line(why);
}

/* A client sends no ALIVE before the traffic. By accepting one, a server would wait for ever. */
static bool is_of_client(enum wire_kind kind)
{
	return kind == WIRE_HELLO || kind == WIRE_JOIN;
}

int wire_expect(struct wire_conn *c, enum wire_kind kind, uint64_t timeout_ns,
	struct wire_buf *body_p, char why[WIRE_TEXT_MAX])
{
	int got, err;

	for (;;) {
		got = wire_poll(c, timeout_ns, body_p);
		if (got != 0 && (got != WIRE_ALIVE || is_of_client(kind)))
			break;
		err = got ? 0 : tcp_wait(c->fd, POLLIN, c->heard_ns + timeout_ns);
		if (err)
			return err;
	}
	if (got == WIRE_REFUSE) {
		copy_text(body_p, why);
		return -ECONNREFUSED;
	}
	if (got < 0)
		return got;
	return got == (int)kind ? 0 : -EBADMSG;
}

const char *wire_error(int err)
{
	switch (err) {
	case -ECONNRESET:
	case -EPIPE:
		return "it has gone";
	case -ETIMEDOUT:
		return "it does not answer";
	case -EPROTONOSUPPORT:
		return "it is of another version";
	case -EBADMSG:
	case -EMSGSIZE:
		return "it does not speak rdmabench's protocol";
	default:
		return strerror(-err);
	}
}
