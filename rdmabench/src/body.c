/* SPDX-License-Identifier: MIT */
/* Writes and reads the bodies of messages (wire.h) field by field, and checks what it reads. */
#include <errno.h>

#include "base/compiler.h"
#include "base/field.h"
#include "text.h"
#include "wire.h"

enum {
	FLAG_BIDIRECTIONAL = 1,
	FLAG_CHECK = 2,
	FLAG_SLEEPS = 4,
	FLAG_AGAIN = 8,
	FLAG_PINGPONG = 16,
	FLAG_CM = 32,
	FLAGS = 63
};

static size_t length_of(const struct wire_buf *b, const uint8_t *from)
{
	return b->ok ? (size_t)(b->at - from) : 0;
}

/* Returns true if the body had all fields, and no bytes after them. */
static bool is_whole(const struct wire_buf *b)
{
	return b->ok && b->at == b->end;
}

static void put_number(struct wire_buf *b, const void *object, struct field f)
{
	wire_put(b, field_get(object, f), (int)f.size);
}

static void get_number(struct wire_buf *b, void *object, struct field f)
{
	field_set(object, f, wire_get(b, (int)f.size));
}

static unsigned flags_of(const struct traffic *t)
{
	return (t->bidirectional ? FLAG_BIDIRECTIONAL : 0u) | (t->check ? FLAG_CHECK : 0u) |
	       (t->sleeps ? FLAG_SLEEPS : 0u) | (t->again ? FLAG_AGAIN : 0u) |
	       (t->pingpong ? FLAG_PINGPONG : 0u) | (t->cm ? FLAG_CM : 0u);
}

size_t wire_put_traffic(uint8_t *to, size_t size, const struct traffic *t)
{
	struct wire_buf b = {to, to + size, true};

	wire_put(&b, t->type, 1);
	wire_put(&b, flags_of(t), 1);
	for (int i = 0; i < TRAFFIC_NUMBERS; i++)
		put_number(&b, t, traffic_numbers[i].field);
	wire_put_bytes(&b, t->pattern_text, sizeof(t->pattern_text));
	return length_of(&b, to);
}

int wire_get_traffic(struct wire_buf *b, struct traffic *t_p, char why[WIRE_TEXT_MAX])
{
	struct traffic t = {.type = (uint8_t)wire_get(b, 1)};
	uint64_t flags = wire_get(b, 1);
	int err;

	t.bidirectional = flags & FLAG_BIDIRECTIONAL;
	t.check = flags & FLAG_CHECK;
	t.sleeps = flags & FLAG_SLEEPS;
	t.again = flags & FLAG_AGAIN;
	t.pingpong = flags & FLAG_PINGPONG;
	t.cm = flags & FLAG_CM;
	for (int i = 0; i < TRAFFIC_NUMBERS; i++)
		get_number(b, &t, traffic_numbers[i].field);
	wire_get_bytes(b, t.pattern_text, sizeof(t.pattern_text));
	if (!is_whole(b) || flags > FLAGS)
		return -EBADMSG;
	err = traffic_check(&t, why, WIRE_TEXT_MAX);
	if (err)
		wire_one_line(why); /* it may have the pattern's text */
	else
		*t_p = t;
	return err;
}

static const struct field qp_numbers[] = {
#define QP(name) FIELD(struct mlx5dvl_qp_info, name)
	QP(qpn),
	QP(psn),
	QP(qkey),
	QP(lid),
	QP(mtu),
	QP(rd_atomic),
};

static void put_qp(struct wire_buf *b, const struct mlx5dvl_qp_info *qp)
{
	for (size_t i = 0; i < ARRAY_SIZE(qp_numbers); i++)
		put_number(b, qp, qp_numbers[i]);
	wire_put_bytes(b, qp->gid, sizeof(qp->gid));
}

static void get_qp(struct wire_buf *b, struct mlx5dvl_qp_info *qp)
{
	*qp = (struct mlx5dvl_qp_info){.qpn = 0};
	for (size_t i = 0; i < ARRAY_SIZE(qp_numbers); i++)
		get_number(b, qp, qp_numbers[i]);
	wire_get_bytes(b, qp->gid, sizeof(qp->gid));
}

size_t wire_put_side(uint8_t *to, size_t size, const struct wire_side *s)
{
	struct wire_buf b = {to, to + size, true};

	wire_put_bytes(&b, s->run, sizeof(s->run));
	wire_put(&b, s->cm_port, 2);
	wire_put(&b, s->addr, 8);
	wire_put(&b, s->qps, 4);
	for (uint32_t i = 0; i < s->qps; i++) {
		put_qp(&b, &s->qp[i]);
		wire_put(&b, s->rkey[i], 4);
	}
	return length_of(&b, to);
}

/* The numbers of a QP are checked by mlx5dvl_qp_connect() and mlx5dvl_ah_create(). */
int wire_get_side(struct wire_buf *b, uint32_t qps, struct wire_side *s_p)
{
	wire_get_bytes(b, s_p->run, sizeof(s_p->run));
	s_p->cm_port = (uint16_t)wire_get(b, 2);
	s_p->addr = wire_get(b, 8);
	s_p->qps = (uint32_t)wire_get(b, 4);
	if (!b->ok || s_p->qps != qps || qps > TRAFFIC_QPS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < qps; i++) {
		get_qp(b, &s_p->qp[i]);
		s_p->rkey[i] = (uint32_t)wire_get(b, 4);
	}
	if (!is_whole(b) || (s_p->run[0] && !name_is_safe(s_p->run)))
		return -EBADMSG;
	return 0;
}

static const struct field tally_numbers[] = {
#define TALLY(name) FIELD(struct wire_tally, name)
	TALLY(messages),
	TALLY(bytes),
	TALLY(elapsed_ns),
	TALLY(mismatches),
	TALLY(errors),
	TALLY(first_error),
	TALLY(qps),
};

size_t wire_put_tally(uint8_t *to, size_t size, const struct wire_tally *t)
{
	struct wire_buf b = {to, to + size, true};

	for (size_t i = 0; i < ARRAY_SIZE(tally_numbers); i++)
		put_number(&b, t, tally_numbers[i]);
	for (uint32_t i = 0; i < t->qps; i++)
		wire_put(&b, t->posted[i], 8);
	return length_of(&b, to);
}

int wire_get_tally(struct wire_buf *b, uint32_t qps, struct wire_tally *t_p)
{
	for (size_t i = 0; i < ARRAY_SIZE(tally_numbers); i++)
		get_number(b, t_p, tally_numbers[i]);
	if (!b->ok || t_p->qps != qps || qps > TRAFFIC_QPS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < qps; i++)
		t_p->posted[i] = wire_get(b, 8);
	return is_whole(b) ? 0 : -EBADMSG;
}
