/* SPDX-License-Identifier: MIT */
#include "cm/mad.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "cm/cm.h"

#define HEAD 24u /* bytes of the MAD's header */
#define VERSION 1
#define CLASS_CM 7
#define CLASS_VERSION 2
#define METHOD_SEND 3
#define HOP_LIMIT 64
#define RATE_200G 15
#define ADDRESS_BYTES 36u /* the RDMA CM's header, which precedes the program's private data */
#define CM_TIMEOUT 16 /* the other end's time to answer: 0.27 s */
#define CM_RETRIES 15

/*
 * A message that is being encoded or decoded. Each function below writes or reads one field, so
 * that the same code encodes and decodes.
 */
struct io {
	uint8_t *at;
	bool out;
};

/* Writes the number @v, or reads a number and returns it. */
static uint64_t number(const struct io *io, uint32_t at, uint32_t bytes, uint64_t v)
{
	uint64_t read = 0;

	for (uint32_t i = 0; i < bytes; i++) {
		uint8_t *b = io->at + at + i;

		if (io->out)
			*b = (uint8_t)(v >> 8 * (bytes - 1 - i));
		read = read << 8 | *b;
	}
	return read;
}

/* Does the same as number() for the @width bits of a byte above its @shift lowest bits. */
static uint8_t bits(const struct io *io, uint32_t at, uint32_t shift, uint32_t width, uint32_t v)
{
	uint8_t *b = io->at + at;
	uint32_t mask = (1u << width) - 1;

	if (io->out)
		*b |= (uint8_t)((v & mask) << shift);
	return (uint8_t)(*b >> shift & mask);
}

static void bytes(const struct io *io, uint32_t at, void *p, size_t len)
{
	if (io->out)
		memcpy(io->at + at, p, len);
	else
		memcpy(p, io->at + at, len);
}

#define NUMBER(at, bytes, field) ((field) = (__typeof__(field))number(io, at, bytes, field))
#define BITS(at, shift, width, field) ((field) = bits(io, at, shift, width, field))

static void data(const struct io *io, struct mad *m, uint32_t at, uint8_t len)
{
	m->param.data_len = len;
	bytes(io, at, m->param.data, len);
}

/* An IPv4 address is in the last four bytes; the bytes before it are zeros. */
static void address(const struct io *io, uint32_t at, struct cm_addr *a, bool v4)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	bytes(io, at + (v4 ? 12 : 0), a->ip + (v4 ? 12 : 0), v4 ? 4 : 16);
	if (io->out)
		return;
	a->family = v4 ? AF_INET : AF_INET6;
	if (v4)
		memcpy(a->ip, mapped, sizeof(mapped));
}

/* Writes or reads the RDMA CM's header in the private data. Returns 0 or -EINVAL. */
static int addresses(const struct io *io, struct mad *m, uint32_t at)
{
	uint8_t version = 0, kind = m->src.family == AF_INET ? 4 : 6;

	NUMBER(at, 1, version);
	BITS(at + 1, 4, 4, kind);
	if (version || (kind != 4 && kind != 6))
		return -EINVAL;
	NUMBER(at + 2, 2, m->src.port);
	address(io, at + 4, &m->src, kind == 4);
	address(io, at + 20, &m->dst, kind == 4);
	m->dst.port = (uint16_t)m->service;
	return 0;
}

/* Writes the fields that mad_decode() does not read. */
static void constants(const struct io *io)
{
	bits(io, 43, 3, 5, CM_TIMEOUT);
	bits(io, 47, 3, 5, CM_TIMEOUT);
	bits(io, 51, 4, 4, CM_RETRIES);
	number(io, 52, 2, 0xffff); /* LIDs, which RoCE does not have */
	number(io, 54, 2, 0xffff);
	bits(io, 91, 0, 6, RATE_200G);
	number(io, 93, 1, HOP_LIMIT);
	bits(io, 94, 3, 1, 1); /* same subnet */
}

static int request(const struct io *io, struct mad *m)
{
	struct cm_param *p = &m->param;

	NUMBER(0, 4, m->local);
	NUMBER(5, 3, p->ece_vendor);
	NUMBER(8, 8, m->service);
	NUMBER(16, 8, m->guid);
	NUMBER(32, 3, p->qpn);
	NUMBER(35, 1, p->responder_resources);
	NUMBER(39, 1, p->initiator_depth);
	BITS(43, 1, 2, m->transport);
	BITS(43, 0, 1, p->flow_control);
	NUMBER(44, 3, p->psn);
	BITS(47, 0, 3, p->retry_count);
	NUMBER(48, 2, m->pkey);
	BITS(50, 4, 4, m->mtu);
	BITS(50, 0, 3, p->rnr_retry_count);
	BITS(51, 3, 1, p->srq);
	bytes(io, 56, m->src_gid, sizeof(m->src_gid));
	bytes(io, 72, m->dst_gid, sizeof(m->dst_gid));
	NUMBER(92, 1, m->traffic_class);
	BITS(95, 3, 5, m->ack_timeout);
	if (io->out)
		constants(io);
	data(io, m, 140 + ADDRESS_BYTES, CM_REQ_DATA);
	return addresses(io, m, 140);
}

static void reply(const struct io *io, struct mad *m)
{
	struct cm_param *p = &m->param;
	uint8_t high = (uint8_t)(p->ece_vendor >> 16), middle = (uint8_t)(p->ece_vendor >> 8),
		low = (uint8_t)p->ece_vendor;

	NUMBER(12, 3, p->qpn);
	NUMBER(15, 1, high);
	NUMBER(19, 1, middle);
	NUMBER(20, 3, p->psn);
	NUMBER(23, 1, low);
	NUMBER(24, 1, p->responder_resources);
	NUMBER(25, 1, p->initiator_depth);
	BITS(26, 0, 1, p->flow_control);
	BITS(27, 5, 3, p->rnr_retry_count);
	BITS(27, 4, 1, p->srq);
	NUMBER(28, 8, m->guid);
	data(io, m, 36, CM_REP_DATA);
	p->ece_vendor = (uint32_t)high << 16 | (uint32_t)middle << 8 | low;
}

static void rejection(const struct io *io, struct mad *m)
{
	BITS(8, 6, 2, m->rejected);
	NUMBER(10, 2, m->status);
	data(io, m, 84, CM_REJ_DATA);
}

static void datagram_reply(const struct io *io, struct mad *m)
{
	NUMBER(0, 4, m->remote);
	NUMBER(4, 1, m->status);
	NUMBER(8, 3, m->param.qpn);
	NUMBER(12, 8, m->service);
	NUMBER(20, 4, m->param.qkey);
	data(io, m, 96, CM_SIDR_REP_DATA);
}

static int datagram_request(const struct io *io, struct mad *m)
{
	NUMBER(0, 4, m->local);
	NUMBER(4, 2, m->pkey);
	NUMBER(8, 8, m->service);
	data(io, m, 16 + ADDRESS_BYTES, CM_SIDR_REQ_DATA);
	return addresses(io, m, 16);
}

static int body(const struct io *io, struct mad *m)
{
	switch (m->type) {
	case MAD_REQ:
		return request(io, m);
	case MAD_SIDR_REQ:
		return datagram_request(io, m);
	case MAD_SIDR_REP:
		datagram_reply(io, m);
		return 0;
	case MAD_REP:
	case MAD_REJ:
	case MAD_RTU:
	case MAD_DREQ:
	case MAD_DREP:
		break;
	default:
		return -EINVAL;
	}
	NUMBER(0, 4, m->local);
	NUMBER(4, 4, m->remote);
	if (m->type == MAD_REP)
		reply(io, m);
	else if (m->type == MAD_REJ)
		rejection(io, m);
	else if (m->type == MAD_DREQ)
		NUMBER(8, 3, m->remote_qpn);
	return 0;
}

/* Writes or reads the header. Returns true if its constant fields are those of a CM message. */
static bool head(const struct io *io, struct mad *m)
{
	bool ok = number(io, 0, 1, VERSION) == VERSION && number(io, 1, 1, CLASS_CM) == CLASS_CM &&
		  number(io, 2, 1, CLASS_VERSION) == CLASS_VERSION &&
		  number(io, 3, 1, METHOD_SEND) == METHOD_SEND;

	NUMBER(8, 8, m->tid);
	NUMBER(16, 2, m->type);
	NUMBER(20, 4, m->param.ece_options);
	return ok;
}

void mad_encode(const struct mad *m, uint8_t out[MAD_BYTES])
{
	struct mad copy = *m;

	memset(out, 0, MAD_BYTES);
	head(&(struct io){out, true}, &copy);
	body(&(struct io){out + HEAD, true}, &copy);
}

int mad_decode(const uint8_t *bytes, size_t len, struct mad *m_p)
{
	uint8_t copy[MAD_BYTES];
	struct mad m = {0};

	if (len != MAD_BYTES)
		return -EINVAL;
	memcpy(copy, bytes, sizeof(copy));
	if (!head(&(struct io){copy, false}, &m) || body(&(struct io){copy + HEAD, false}, &m))
		return -EINVAL;
	*m_p = m;
	return 0;
}
