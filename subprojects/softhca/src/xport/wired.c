/* SPDX-License-Identifier: MIT */
#include "xport/wired.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "fabric/reserve.h"
#include "hca/config.h"
#include "hca/timer.h"
#include "sys/sys.h"
#include "xport/counts.h"
#include "xport/fault_hit.h"
#include "xport/link.h"
#include "xport/qp.h"
#include "xport/tap.h"
#include "xport/udp.h"
#include "xport/wired_ops.h"
#include "xport/xport.h"

#define MTU_BYTES(code) (128u << (code))
#define LOOK_NS 10000000u /* timers that other processes set are noticed within this time */
#define LOOK_MIN_NS 250000u
#define LATE_NS 10000000u /* how long packet_late keeps a packet if no other is sent */

static const struct softhca_rail *rail_of(const struct qp *qp)
{
	return &arena()->topo.rails[qp_rail(qp)];
}

static bool is_rail_gid(const uint8_t *gid)
{
	const struct softhca_topology *t = &arena()->topo;

	for (uint32_t i = 0; i < t->nrails; i++)
		if (softhca_rail_has_gid(&t->rails[i], gid))
			return true;
	return false;
}

bool wired_leads_out(const struct qp *qp, const struct qp_attr *path)
{
	return rail_of(qp)->udp && path->is_global && !is_rail_gid(path->dgid);
}

/* Returns the addresses and the hop limit for packets that go to the QP's peer. */
static struct flow flow_of(const struct qp *qp)
{
	struct flow f = {.hop_limit = FRAME_HOP_LIMIT};

	memcpy(f.src, rail_of(qp)->gids[qp->attr.sgid_index], sizeof(f.src));
	memcpy(f.dst, qp->attr.dgid, sizeof(f.dst));
	return f;
}

/* ----------------------------------------------------------------- packets out */

#define FRAME_MAX (FRAME_HEAD_MAX + PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX + ICRC_BYTES)

/*
 * A packet that a fault rule keeps until this process sends the next packet, or until `due`. The
 * mutex protects it.
 */
static struct {
	size_t len; /* 0: there is none */
	uint64_t due;
	uint32_t rail;
	struct flow f;
	uint8_t packet[FRAME_MAX];
} kept;

static void release_kept(void)
{
	if (kept.len)
		udp_send(kept.rail, &kept.f, kept.packet, kept.len);
	kept.len = 0;
}

static void keep(uint32_t rail, const struct flow *f, const uint8_t *packet, size_t len)
{
	/*
	 * The length is 0 during the other stores: if this thread loses the mutex there, half of a
	 * packet is not sent.
	 */
	release_kept();
	atomic_signal_fence(memory_order_seq_cst);
	kept.rail = rail;
	kept.f = *f;
	memcpy(kept.packet, packet, len);
	kept.due = timer_now() + LATE_NS;
	atomic_signal_fence(memory_order_seq_cst);
	kept.len = len;
	timer_ring(fabric_self.slot); /* the thread looks when the packet is due */
}

uint64_t wired_serve_late(uint64_t now)
{
	if (kept.len && kept.due <= now)
		release_kept();
	return kept.len ? kept.due : 0;
}

void wired_forget(void)
{
	kept.len = 0;
	udp_forget();
}

/* Applies the fault rules to the packet of @len bytes, and sends it. */
static void transmit(const struct udp_end *from, const struct flow *f, const uint8_t *packet,
	size_t len)
{
	enum fault_action fault =
		arena()->attention & ATTEND_FAULTS ? fault_packet(from) : FAULT_NONE;

	switch (fault) {
	case FAULT_PACKET_LOST:
		return;
	case FAULT_PACKET_LATE:
		keep(from->rail, f, packet, len);
		return;
	case FAULT_PACKET_TWICE:
		udp_send(from->rail, f, packet, len);
		break;
	default:
		break;
	}
	udp_send(from->rail, f, packet, len);
	release_kept();
}

void wired_emit_from(const struct udp_end *from, struct flow *f, const struct packet *p,
	const void *payload)
{
	static uint8_t frame[FRAME_MAX];
	size_t head = frame_head_bytes(f), n = packet_encode(p, frame + head);
	uint32_t rail = from->rail;

	f->src_port = udp_source_port(rail, f);
	if (arena()->rails[rail].link_down || !f->src_port)
		return;
	if (p->payload)
		memcpy(frame + head + n, payload, p->payload);
	n += p->payload;
	memset(frame + head + n, 0, packet_padding(p->payload));
	n += packet_padding(p->payload);
	arena()->rails[rail].counts.tx_packets++;
	arena()->rails[rail].counts.tx_bytes += p->payload;
	if (arena()->attention & ATTEND_CAPTURE)
		tap_packet(from, f, frame, n);
	transmit(from, f, frame + head, frame_seal(f, frame, n) - head);
}

static struct udp_end end_of(const struct qp *qp)
{
	return (struct udp_end){qp_rail(qp), qp->obj.owner, qp->qpn, qp->attr.dest_qpn};
}

void wired_emit(const struct qp *qp, struct flow *f, const struct packet *p, const void *payload)
{
	struct udp_end from = end_of(qp);
	struct packet out = *p;

	out.pkey = qp_pkey(qp);
	wired_emit_from(&from, f, &out, payload);
}

static void send_packet(void *arg, const struct packet *p, const void *payload)
{
	struct call *c = arg;
	struct flow f = flow_of(c->qp);

	wired_emit(c->qp, &f, p, payload);
}

static const struct wire_ops ops = {
	.send = send_packet,
	.message = wired_message,
	.gather = wired_gather,
	.scatter = wired_scatter,
	.complete = wired_complete,
	.commit = wired_commit,
	.access = wired_access,
	.place = wired_place,
	.fetch = wired_fetch,
	.recv_ready = wired_recv_ready,
	.recv_place = wired_recv_place,
	.recv_complete = wired_recv_complete,
	.atomic = wired_atomic,
	.refused = wired_refused,
};

/* ------------------------------------------- can packets reach the peer? */

int wired_refuse(const struct qp *qp, int r, const char *why)
{
	static char last[160];
	static uint32_t last_rail;
	char line[256];

	if (last_rail == qp_rail(qp) && !strncmp(last, why, sizeof(last) - 1))
		return r; /* a program that retries would cause the same line each time */
	last_rail = qp_rail(qp);
	snprintf(last, sizeof(last), "%s", why);
	snprintf(line, sizeof(line), "softhca: QP 0x%06x of %s: the peer is on another host: %s\n",
		qp->qpn, rail_of(qp)->name, why);
	sys_write(STDERR_FILENO, line, strlen(line));
	return r;
}

bool wired_same_family(const struct qp *qp, const uint8_t *sgid, const uint8_t *dgid)
{
	if (gid_is_ipv4(sgid) == gid_is_ipv4(dgid))
		return true;
	wired_refuse(qp, 0,
		"one GID is an IPv4 address and the other one an IPv6 address: set sgid_index to a "
		"GID of the same address family as the peer's");
	return false;
}

uint32_t wired_packet_bytes(const struct flow *f, uint32_t mtu)
{
	return (uint32_t)frame_head_bytes(f) + PACKET_HEADERS_MAX + MTU_BYTES(mtu) + ICRC_BYTES;
}

static int check_path(const struct qp *qp)
{
	struct flow f = flow_of(qp);
	uint32_t need = wired_packet_bytes(&f, qp->attr.path_mtu);
	int mtu = udp_path_mtu(qp_rail(qp), &f);
	char why[160];

	if (mtu == -EMFILE || mtu == -ENFILE)
		return wired_refuse(qp, mtu, "no file descriptor is free for its UDP socket");
	if (mtu < 0) {
		snprintf(why, sizeof(why), "no route to the peer from the adapter's address: %s",
			strerrordesc_np(-mtu));
		return wired_refuse(qp, mtu, why);
	}
	if ((uint32_t)mtu >= need)
		return 0;
	snprintf(why, sizeof(why),
		"path MTU %u needs packets of up to %u bytes, but the network's MTU is %d: set a "
		"smaller mtu in the topology",
		MTU_BYTES(qp->attr.path_mtu), need, mtu);
	return wired_refuse(qp, -EMSGSIZE, why);
}

/* Returns 0 if packets can reach the QP's peer, else prints the reason and returns -errno. */
static int check(const struct qp *qp)
{
	const struct qp_attr *a = &qp->attr;

	if (qp->type != QPT_RC)
		return wired_refuse(qp, -EOPNOTSUPP, "only RC and UD QPs can reach another host");
	if (!wired_same_family(qp, rail_of(qp)->gids[a->sgid_index], a->dgid))
		return -EOPNOTSUPP;
	if (arena()->link_mode == LINK_VIRTUAL)
		return wired_refuse(qp, -EOPNOTSUPP,
			"another host cannot be reached with SOFTHCA_LINK=virtual");
	if (config_get()->mode == ENGINE_STEP)
		return wired_refuse(qp, -EOPNOTSUPP,
			"another host cannot be reached in step mode, which has no threads");
	return check_path(qp);
}

int wired_refuse_drain(const struct qp *qp)
{
	return wired_refuse(qp, -EOPNOTSUPP, "the QP's send queue cannot be drained by state SQD");
}

static struct wire_attr attributes(const struct qp *qp)
{
	const struct qp_attr *a = &qp->attr;

	return (struct wire_attr){
		.dest_qpn = a->dest_qpn,
		.mtu = MTU_BYTES(a->path_mtu),
		.sq_psn = a->sq_psn,
		.rq_psn = a->rq_psn,
		.timeout_ns = a->timeout ? UINT64_C(4096) << a->timeout : 0,
		.retry_cnt = a->retry_cnt,
		.rnr_retry = a->rnr_retry,
		.rnr_timer = a->min_rnr_timer,
		.max_reads = a->max_rd_atomic,
		.max_dest_reads = a->max_dest_rd_atomic,
	};
}

int wired_receive_from(struct qp *qp)
{
	struct wired *wd = wired_of(qp);
	struct wire_attr attr = attributes(qp);
	uint32_t i = qp_index(qp);
	int r;

	if (!wired_leads_out(qp, &qp->attr))
		return 0;
	r = check(qp);
	if (!r)
		r = reserve_object(wd, sizeof(*wd));
	if (r)
		return r;
	memset(wd, 0, sizeof(*wd));
	wire_init(&wd->q, &attr);
	qp->wired = 1;
	arena()->on_wire[i / 64] |= UINT64_C(1) << i % 64;
	return 0;
}

void wired_send_from(struct qp *qp)
{
	struct wire_qp *q = &wired_of(qp)->q;

	q->attr = attributes(qp);
	q->rq.una = q->rq.next = q->rq.top = qp->attr.sq_psn & PSN_MASK;
}

void wired_stop(struct qp *qp)
{
	uint32_t i = qp_index(qp);

	qp->wired = 0;
	arena()->on_wire[i / 64] &= ~(UINT64_C(1) << i % 64);
}

void wired_set_rnr_timer(struct qp *qp)
{
	wired_of(qp)->q.attr.rnr_timer = qp->attr.min_rnr_timer;
}

/* ------------------------------------------------------------------------ a QP */

static void begin(struct call *c, struct qp *qp)
{
	c->qp = qp;
	c->wd = wired_of(qp);
	c->has = false;
}

/* When all earlier messages have completed, fails a message that cannot be sent. Then counts. */
static void end(struct call *c)
{
	const struct wire_requester *r = &c->wd->q.rq;

	if (c->qp->state == QPS_RTS && c->wd->bad && r->done == r->begun)
		wired_fail_bad(c);
	counts_wired(c->qp, &c->wd->q.counts);
}

void wired_send(struct qp *qp)
{
	struct call c;
	uint32_t pi;

	if (qp->state != QPS_RTS || !xport_producer(qp, &pi))
		return;
	begin(&c, qp);
	c.wd->seen = pi;
	wire_send(&c.wd->q, &ops, &c, timer_now());
	end(&c);
}

bool wired_behind(const struct qp *qp, uint32_t pi)
{
	return __atomic_load_n(&wired_of(qp)->seen, __ATOMIC_RELAXED) != pi;
}

bool wired_needs_receiver(const struct qp *qp)
{
	return qp->wired || (qp->type == QPT_UD && rail_of(qp)->udp && qp_receives(qp) &&
				    config_get()->mode != ENGINE_STEP);
}

/*
 * Returns the QP with the packet's QP number. Returns NULL unless the QP can receive, its memory is
 * accessible, and the packet is from the QP's peer (RC) or is addressed to the QP's adapter (UD).
 */
static struct qp *receiver(const struct flow *f, const struct packet *p)
{
	struct qp *qp = qp_by_number(p->dest_qpn);
	struct flow back;

	if (!qp || !qp_receives(qp) || arena()->rails[qp_rail(qp)].link_down)
		return NULL;
	if (qp->type == QPT_UD)
		return rail_of(qp)->udp && softhca_rail_has_gid(rail_of(qp), f->dst) &&
				       fabric_reachable(qp->obj.owner) ?
			       qp :
			       NULL;
	if (!qp->wired)
		return NULL;
	back = flow_of(qp);
	if (memcmp(back.src, f->dst, sizeof(back.src)) ||
		memcmp(back.dst, f->src, sizeof(back.dst)))
		return NULL;
	return fabric_reachable(qp->obj.owner) ? qp : NULL;
}

static void tap_received(const struct udp_end *to, const struct flow *f, const struct packet *p,
	const uint8_t *payload)
{
	static uint8_t frame[FRAME_MAX];
	size_t head = frame_head_bytes(f), n = packet_encode(p, frame + head);

	memcpy(frame + head + n, payload, p->payload);
	n += p->payload;
	memset(frame + head + n, 0, packet_padding(p->payload));
	tap_packet(to, f, frame, n + packet_padding(p->payload));
}

void wired_received(const struct udp_end *to, const struct flow *f, const struct packet *p,
	const uint8_t *payload)
{
	arena()->rails[to->rail].counts.rx_packets++;
	arena()->rails[to->rail].counts.rx_bytes += p->payload;
	if (arena()->attention & ATTEND_CAPTURE)
		tap_received(to, f, p, payload);
}

struct qp *wired_packet(const struct flow *f, const struct packet *p, const uint8_t *payload)
{
	struct qp *qp = receiver(f, p);
	struct udp_end to;
	struct call c;

	if (!qp)
		return NULL;
	if (!packet_pkeys_match(p->pkey, qp_pkey(qp))) {
		counts_bad_pkeys(qp, 1);
		return NULL;
	}
	to = end_of(qp);
	wired_received(&to, f, p, payload);
	if (qp->type == QPT_UD) {
		wired_datagram(qp, f, p, payload);
		return qp;
	}
	begin(&c, qp);
	wire_receive(&c.wd->q, &ops, &c, timer_now(), p, payload);
	end(&c);
	return qp;
}

uint64_t wired_acknowledge(struct qp *qp)
{
	struct call c = {.qp = qp, .wd = wired_of(qp)};

	if (!qp->wired || !qp_receives(qp))
		return 0;
	wire_acknowledge(&c.wd->q, &ops, &c);
	return qp->state == QPS_RTS ? wire_deadline(&c.wd->q) : 0;
}

/*
 * Serves a QP. Returns the time at which to serve it again. This time is at most LOOK_NS away even
 * without a timer, because another process may set the QP's timer at any time.
 */
static uint64_t serve(struct qp *qp, uint64_t now)
{
	struct wire_qp *q = &wired_of(qp)->q;
	uint64_t look = q->attr.timeout_ns / 2, due = wire_deadline(q);
	struct call c;

	begin(&c, qp);
	wire_tick(q, &ops, &c, now);
	if (due && due <= now)
		wire_sent(q, timer_now());
	end(&c);
	due = qp->state == QPS_RTS ? wire_deadline(q) : 0;
	if (!look || look > LOOK_NS)
		look = LOOK_NS;
	look = now + (look < LOOK_MIN_NS ? LOOK_MIN_NS : look);
	return due && due < look ? due : look;
}

uint64_t wired_tick(uint64_t now)
{
	uint64_t next = now + LOOK_NS;

	for (uint32_t w = 0; w < MAX_QPS / 64; w++)
		for (uint64_t bits = arena()->on_wire[w]; bits; bits &= bits - 1) {
			struct qp *qp = &arena()->qps[w * 64 + (uint32_t)__builtin_ctzll(bits)];
			uint64_t t = 0;

			if (qp->obj.used && qp->wired && qp->state == QPS_RTS &&
				fabric_reachable(qp->obj.owner))
				t = serve(qp, now);
			if (t && t < next)
				next = t;
		}
	return next;
}

/*
 * Ends what the former holder of the mutex has begun for @qp. If it was failing a message, the
 * message is flushed.
 */
static void recover(struct qp *qp)
{
	struct call c;

	begin(&c, qp);
	wired_finish_atomic(c.wd);
	if (!qp->obj.used || !qp_receives(qp))
		return;
	if (c.wd->q.rs.refused)
		wired_refused(&c, c.wd->q.rs.refused);
	else if (c.wd->q.rq.failed || c.wd->bad)
		qp_to_error(qp);
}

void wired_recover(void)
{
	for (uint32_t w = 0; w < MAX_QPS / 64; w++)
		for (uint64_t bits = arena()->on_wire[w]; bits; bits &= bits - 1)
			recover(&arena()->qps[w * 64 + (uint32_t)__builtin_ctzll(bits)]);
}
