/* SPDX-License-Identifier: MIT */
/* The bodies of messages are written and read field by field, and checked when read. */
#include <errno.h>
#include <string.h>

#include "text.h"
#include "wire.h"

enum { FLAG_BIDIRECTIONAL = 1, FLAG_CHECK = 2, FLAG_SLEEPS = 4, FLAG_AGAIN = 8, FLAGS = 15 };

static size_t length_of(const struct wire_buf *b, const uint8_t *from)
{
	return b->ok ? (size_t)(b->at - from) : 0;
}

/* True if the body had all fields, and no bytes after them. */
static bool is_whole(const struct wire_buf *b)
{
	return b->ok && b->at == b->end;
}

static unsigned flags_of(const struct traffic *t)
{
	return (t->bidirectional ? FLAG_BIDIRECTIONAL : 0u) | (t->check ? FLAG_CHECK : 0u) |
	       (t->sleeps ? FLAG_SLEEPS : 0u) | (t->again ? FLAG_AGAIN : 0u);
}

size_t wire_put_traffic(uint8_t *to, size_t size, const struct traffic *t)
{
	struct wire_buf b = {to, to + size, true};

	wire_put(&b, t->type, 1);
	wire_put(&b, flags_of(t), 1);
	wire_put(&b, t->mtu, 1);
	wire_put(&b, t->qp_timeout, 1);
	wire_put(&b, t->retries, 1);
	wire_put(&b, t->reads, 1);
	wire_put(&b, t->sl, 1);
	wire_put(&b, t->traffic_class, 1);
	wire_put(&b, t->qps, 4);
	wire_put(&b, t->depth, 4);
	wire_put(&b, t->send_batch, 4);
	wire_put(&b, t->recv_batch, 4);
	wire_put(&b, t->rx_depth, 4);
	wire_put(&b, t->buffers, 4);
	wire_put(&b, t->regions, 4);
	wire_put(&b, t->inline_max, 4);
	wire_put(&b, t->burst, 4);
	wire_put(&b, t->burst_pause_us, 4);
	wire_put(&b, t->moderation, 4);
	wire_put(&b, t->control, 1);
	wire_put(&b, t->control_us, 4);
	wire_put(&b, t->inject, 1);
	wire_put(&b, t->inject_at, 8);
	wire_put(&b, t->iterations, 8);
	wire_put(&b, t->duration_ns, 8);
	wire_put(&b, t->rate, 8);
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
	t.mtu = (uint8_t)wire_get(b, 1);
	t.qp_timeout = (uint8_t)wire_get(b, 1);
	t.retries = (uint8_t)wire_get(b, 1);
	t.reads = (uint8_t)wire_get(b, 1);
	t.sl = (uint8_t)wire_get(b, 1);
	t.traffic_class = (uint8_t)wire_get(b, 1);
	t.qps = (uint32_t)wire_get(b, 4);
	t.depth = (uint32_t)wire_get(b, 4);
	t.send_batch = (uint32_t)wire_get(b, 4);
	t.recv_batch = (uint32_t)wire_get(b, 4);
	t.rx_depth = (uint32_t)wire_get(b, 4);
	t.buffers = (uint32_t)wire_get(b, 4);
	t.regions = (uint32_t)wire_get(b, 4);
	t.inline_max = (uint32_t)wire_get(b, 4);
	t.burst = (uint32_t)wire_get(b, 4);
	t.burst_pause_us = (uint32_t)wire_get(b, 4);
	t.moderation = (uint32_t)wire_get(b, 4);
	t.control = (uint8_t)wire_get(b, 1);
	t.control_us = (uint32_t)wire_get(b, 4);
	t.inject = (uint8_t)wire_get(b, 1);
	t.inject_at = wire_get(b, 8);
	t.iterations = wire_get(b, 8);
	t.duration_ns = wire_get(b, 8);
	t.rate = wire_get(b, 8);
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

static void put_qp(struct wire_buf *b, const struct mlx5dvl_qp_info *qp)
{
	wire_put(b, qp->qpn, 4);
	wire_put(b, qp->psn, 4);
	wire_put(b, qp->qkey, 4);
	wire_put(b, qp->lid, 2);
	wire_put(b, qp->mtu, 1);
	wire_put(b, qp->rd_atomic, 1);
	wire_put_bytes(b, qp->gid, sizeof(qp->gid));
}

static void get_qp(struct wire_buf *b, struct mlx5dvl_qp_info *qp)
{
	*qp = (struct mlx5dvl_qp_info){.qpn = (uint32_t)wire_get(b, 4)};
	qp->psn = (uint32_t)wire_get(b, 4);
	qp->qkey = (uint32_t)wire_get(b, 4);
	qp->lid = (uint16_t)wire_get(b, 2);
	qp->mtu = (uint8_t)wire_get(b, 1);
	qp->rd_atomic = (uint8_t)wire_get(b, 1);
	wire_get_bytes(b, qp->gid, sizeof(qp->gid));
}

size_t wire_put_side(uint8_t *to, size_t size, const struct wire_side *s)
{
	struct wire_buf b = {to, to + size, true};

	wire_put_bytes(&b, s->run, sizeof(s->run));
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

size_t wire_put_tally(uint8_t *to, size_t size, const struct wire_tally *t)
{
	struct wire_buf b = {to, to + size, true};

	wire_put(&b, t->messages, 8);
	wire_put(&b, t->bytes, 8);
	wire_put(&b, t->elapsed_ns, 8);
	wire_put(&b, t->mismatches, 8);
	wire_put(&b, t->errors, 8);
	wire_put(&b, (uint32_t)t->first_error, 4);
	wire_put(&b, t->qps, 4);
	for (uint32_t i = 0; i < t->qps; i++)
		wire_put(&b, t->posted[i], 8);
	return length_of(&b, to);
}

int wire_get_tally(struct wire_buf *b, uint32_t qps, struct wire_tally *t_p)
{
	t_p->messages = wire_get(b, 8);
	t_p->bytes = wire_get(b, 8);
	t_p->elapsed_ns = wire_get(b, 8);
	t_p->mismatches = wire_get(b, 8);
	t_p->errors = wire_get(b, 8);
	t_p->first_error = (int32_t)(uint32_t)wire_get(b, 4);
	t_p->qps = (uint32_t)wire_get(b, 4);
	if (!b->ok || t_p->qps != qps || qps > TRAFFIC_QPS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < qps; i++)
		t_p->posted[i] = wire_get(b, 8);
	return is_whole(b) ? 0 : -EBADMSG;
}
