/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: packets of a hostile peer, after the check of the ICRC, which such a peer computes
 * correctly. The input consists of the number of posted messages, their kinds, and the packets,
 * each after its length. Each buffer is as large as the peer may access, so that the sanitizer
 * detects accesses beyond it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "packet/frame.h"
#include "wire/wire.h"

#define MESSAGES 8
#define LENGTH 3000u
#define REGION 8192u
#define RKEY 0x1234
#define PSN 0xfffffc /* wraps soon */
#define MTU 256
#define TIMEOUT 1000 /* ns; the clock advances by a third of this at each packet */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct side {
	struct wire_qp q;
	uint8_t kinds[MESSAGES];
	uint32_t posted, completed, received;
	uint8_t *region, *local, *receive; /* REGION, LENGTH, LENGTH bytes */
	bool refused;
};

static void must(bool so)
{
	if (!so)
		abort();
}

/* Checks that the PSN and the lengths of a packet survive its encoding and decoding. */
static void op_send(void *arg, const struct packet *p, const void *payload)
{
	static uint8_t bytes[PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX];
	size_t head = packet_encode(p, bytes);
	struct packet back;

	must(p->payload <= MTU);
	if (p->payload)
		memcpy(bytes + head, payload, p->payload);
	must(packet_decode(bytes, head + p->payload + packet_padding(p->payload), &back) ==
		(int)head);
	must(back.psn == p->psn && back.payload == p->payload);
}

static int op_message(void *arg, uint32_t n, struct wire_message *m)
{
	struct side *s = arg;

	if (n >= s->posted)
		return -EAGAIN;
	*m = (struct wire_message){
		.m = {.kind = s->kinds[n], .length = LENGTH, .raddr = 8 * n, .rkey = RKEY}};
	if (m->m.kind >= MSG_COMPARE_SWAP)
		m->m.length = m->m.kind == MSG_NOP ? 0 : 8;
	return 0;
}

static int op_gather(void *arg, uint32_t n, uint32_t offset, void *out, uint32_t len)
{
	struct side *s = arg;

	memcpy(out, s->local + offset, len);
	return 0;
}

static int op_scatter(void *arg, uint32_t n, uint32_t offset, const void *bytes, uint32_t len)
{
	struct side *s = arg;

	must(n == s->completed); /* only the oldest gets data */
	memcpy(s->local + offset, bytes, len);
	return 0;
}

static void op_commit(void *arg, const struct wire_step *step)
{
	must(step->n <= WIRE_STORES);
	for (uint32_t i = 0; i < step->n; i++)
		*step->stores[i].at = step->stores[i].value;
}

static int op_complete(void *arg, uint32_t n, enum wire_status status, const struct wire_step *step)
{
	struct side *s = arg;

	must(n == s->completed++ && n < s->posted);
	op_commit(arg, step);
	return 0;
}

static int op_access(void *arg, enum packet_operation op, uint64_t raddr, uint32_t rkey,
	uint32_t len)
{
	return rkey == RKEY && raddr <= REGION && len <= REGION - raddr ? 0 : -EACCES;
}

static int op_place(void *arg, uint64_t raddr, uint32_t rkey, const void *bytes, uint32_t len)
{
	struct side *s = arg;

	must(!s->refused && rkey == RKEY && raddr <= REGION && len <= REGION - raddr);
	memcpy(s->region + raddr, bytes, len);
	return 0;
}

static int op_fetch(void *arg, uint64_t raddr, uint32_t rkey, void *out, uint32_t len)
{
	struct side *s = arg;

	must(rkey == RKEY && raddr <= REGION && len <= REGION - raddr);
	memcpy(out, s->region + raddr, len);
	return 0;
}

static int op_recv_ready(void *arg)
{
	return ((struct side *)arg)->received < MESSAGES ? 0 : -EAGAIN;
}

static int op_recv_place(void *arg, uint32_t offset, const void *bytes, uint32_t len)
{
	struct side *s = arg;

	if (len > LENGTH - offset)
		return -EMSGSIZE;
	memcpy(s->receive + offset, bytes, len);
	return 0;
}

static void op_recv_complete(void *arg, const struct wire_arrival *a, const struct wire_step *step)
{
	struct side *s = arg;

	must(step->n <= WIRE_ARRIVAL_STORES && (a->write || a->length <= LENGTH));
	s->received++;
	op_commit(arg, step);
}

static int op_atomic(void *arg, const struct packet *p, uint64_t *original,
	const struct wire_step *step)
{
	struct side *s = arg;

	if (p->rkey != RKEY || p->raddr > REGION - 8)
		return -EACCES;
	memcpy(original, s->region + p->raddr, 8);
	memcpy(s->region + p->raddr, &p->swap_add, 8);
	op_commit(arg, step);
	return 0;
}

static void op_refused(void *arg, enum aeth_syndrome nak)
{
	((struct side *)arg)->refused = true;
}

static const struct wire_ops ops = {op_send, op_message, op_gather, op_scatter, op_complete,
	op_commit, op_access, op_place, op_fetch, op_recv_ready, op_recv_place, op_recv_complete,
	op_atomic, op_refused};

static void take(struct side *s, uint64_t now, const uint8_t *bytes, size_t len)
{
	const struct wire_requester *r = &s->q.rq;
	static const struct flow flows[] = {{.src = {[10] = 0xff, [11] = 0xff},
						    .dst = {[10] = 0xff, [11] = 0xff}},
		{.src = {0xfd}}};
	struct packet p;
	int head = packet_decode(bytes, len, &p);

	frame_check(&flows[0], bytes, len);
	frame_check(&flows[1], bytes, len);
	if (head < 0 || p.payload > PACKET_PAYLOAD_MAX)
		return;
	must((size_t)head + p.payload + packet_padding(p.payload) == len);
	wire_receive(&s->q, &ops, s, now, &p, bytes + head);
	wire_acknowledge(&s->q, &ops, s);
	must(psn_distance(r->una, r->next) >= 0 && psn_distance(r->next, r->top) >= 0);
	must((uint32_t)psn_distance(r->una, r->next) < r->window + WIRE_READ_PART);
	must(r->begun - r->done <= WIRE_MESSAGES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_attr attr = {.dest_qpn = 1,
		.mtu = MTU,
		.sq_psn = PSN,
		.rq_psn = PSN,
		.timeout_ns = TIMEOUT,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_reads = 4,
		.max_dest_reads = 4};
	struct side s = {.posted = size ? data[0] % (MESSAGES + 1) : 0};
	size_t at = 1 + MESSAGES;

	if (size < at)
		return 0;
	for (uint32_t i = 0; i < MESSAGES; i++)
		s.kinds[i] = data[1 + i] % (MSG_NOP + 1);
	s.region = calloc(1, REGION);
	s.local = calloc(1, LENGTH);
	s.receive = calloc(1, LENGTH);
	wire_init(&s.q, &attr);
	wire_send(&s.q, &ops, &s, 1);
	for (uint64_t now = 2; at + 2 <= size; now += TIMEOUT / 3) {
		size_t len = (data[at] | (size_t)data[at + 1] << 8) % 1024;
		uint8_t *copy;

		at += 2;
		len = len < size - at ? len : size - at;
		copy = malloc(len ? len : 1);
		memcpy(copy, data + at, len);
		take(&s, now, copy, len);
		free(copy);
		at += len;
		wire_tick(&s.q, &ops, &s, now);
	}
	free(s.region);
	free(s.local);
	free(s.receive);
	return 0;
}
