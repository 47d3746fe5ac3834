/* SPDX-License-Identifier: MIT */
#include "xport/fault_hit.h"

#include <signal.h>
#include <string.h>

#include "abi/wire.h"
#include "fabric/fabric.h"
#include "hca/event.h"
#include "hca/objects.h"
#include "hca/port.h"
#include "hca/random.h"
#include "hca/timer.h"
#include "xport/late.h"
#include "xport/link.h"
#include "xport/responder.h"
#include "xport/tap.h"

#define FOR_EVER_NS (24 * 3600 * 1000000000ull)

static bool goes_to(const struct qp *qp, const struct wqe *w, const char *name)
{
	const struct qp *dest = message_receiver(qp, w);

	return dest && !strcmp(name, arena()->topo.rails[qp_rail(dest)].name);
}

static bool is_from(const struct fault_rule *r, uint32_t rail, uint32_t qpn, uint32_t owner)
{
	const struct arena *a = arena();

	return (!r->device[0] || !strcmp(r->device, a->topo.rails[rail].name)) &&
	       (!r->qpn || r->qpn == qpn) && (!r->pid || (int32_t)r->pid == a->procs[owner].pid);
}

static bool matches(const struct fault_rule *r, const struct qp *qp, const struct wqe *w)
{
	return r->action < FAULT_PACKET_LOST && is_from(r, qp_rail(qp), qp->qpn, qp->obj.owner) &&
	       (!r->peer[0] || goes_to(qp, w, r->peer)) &&
	       (!r->opcodes || (w->opcode < 64 && r->opcodes >> w->opcode & 1));
}

/* Counts a message that matches the rule. Returns true if the rule applies to this message. */
static bool due(struct fault_rule *r)
{
	r->seen++;
	if (r->seen < r->nth || (r->count && r->hits >= r->count))
		return false;
	if (r->percent < 100 && random_next(&r->random) % 100 >= r->percent)
		return false;
	r->hits++;
	return true;
}

/*
 * Places the first bytes of a WRITE or READ. Does nothing for other operations: half of a SEND
 * would have to consume a receive, and a receive cannot be posted again.
 */
static struct answer place_part(struct qp *qp, const struct wqe *w, uint64_t bytes)
{
	struct wqe part = *w;
	uint64_t left = bytes < w->length ? bytes : w->length;
	struct answer a;

	if (w->opcode == OP_WRITE_IMM)
		part.opcode = OP_WRITE; /* the partial message has no completion */
	if ((part.opcode != OP_WRITE && part.opcode != OP_READ) || !left || qp->type == QPT_UD)
		return (struct answer){.verdict = V_DONE};
	tap_request(qp, w, left);
	part.length = left;
	for (part.nsegs = 0; left; part.nsegs++) {
		struct dma_seg *seg = &part.segs[part.nsegs];

		if (seg->len > left)
			seg->len = left;
		left -= seg->len;
	}
	do
		a = respond(qp, &part);
	while (a.verdict == V_LATER); /* chaos mode has placed one piece, and has more */
	return a;
}

static void kill_slot(uint32_t slot)
{
	int32_t pid = arena()->procs[slot].pid;

	if (pid > 0 && fabric_alive(slot))
		kill(pid, SIGKILL);
}

static void kill_peer(const struct qp *qp, const struct wqe *w)
{
	const struct qp *dest = message_receiver(qp, w);

	if (dest)
		kill_slot(dest->obj.owner);
}

static uint32_t rnr_timer(const struct qp *qp)
{
	const struct qp *dest = qp_by_number(qp->attr.dest_qpn);

	return dest ? dest->attr.min_rnr_timer : 0;
}

/* Makes the receiver hold a receive of its SRQ; see qp_end_receive(). */
static void hold_receive(const struct qp *qp, const struct wqe *w)
{
	struct qp *dest = message_receiver(qp, w);

	if (dest && dest->srq != NO_INDEX)
		dest->recv_held = 1;
}

/* Delays the message until @when. The rules are not applied to it again. */
static struct answer wait_until(struct qp *qp, uint64_t when)
{
	qp->held = qp_message(qp);
	timer_wait(qp, when);
	return (struct answer){.verdict = V_LATER};
}

/* If the rule has a syndrome, the sender gets an error completion immediately, else it waits. */
static struct answer send_late(const struct fault_rule *r, struct qp *qp, const struct wqe *w)
{
	uint64_t due = timer_now() + r->delay_ns;

	late_keep(qp, w, due);
	timer_ring(fabric_self.slot);
	if (r->syndrome)
		return (struct answer){.verdict = V_ERROR, .syndrome = r->syndrome};
	return wait_until(qp, due);
}

/* Returns true if the rule has decided the outcome of the message. */
static bool apply(const struct fault_rule *r, struct qp *qp, const struct wqe *w, struct answer *a)
{
	enum syndrome s = r->syndrome;

	switch (r->action) {
	case FAULT_PARTIAL:
		*a = place_part(qp, w, r->bytes);
		if (a->verdict == V_STOPPED)
			return true;
		*a = (struct answer){.verdict = V_ERROR, .syndrome = s};
		return true;
	case FAULT_ERROR:
		*a = (struct answer){.verdict = V_ERROR, .syndrome = s};
		return true;
	case FAULT_RNR:
		*a = (struct answer){.verdict = V_RNR, .rnr_timer = rnr_timer(qp)};
		return true;
	case FAULT_NO_ANSWER:
		*a = (struct answer){.verdict = V_NO_ANSWER};
		return true;
	case FAULT_DELAY:
		if (link_delay(qp, r->delay_ns))
			return false;
		*a = wait_until(qp, timer_now() + r->delay_ns);
		return true;
	case FAULT_LATE:
		*a = send_late(r, qp, w);
		return true;
	case FAULT_KILL:
		place_part(qp, w, r->bytes);
		kill_slot(qp->obj.owner);
		return false;
	case FAULT_KILL_PEER:
		kill_peer(qp, w);
		return false;
	case FAULT_LINK_DOWN:
	case FAULT_LINK_UP:
		port_set_link(qp_rail(qp), r->action == FAULT_LINK_UP);
		return false;
	case FAULT_HOLD_RECEIVE:
		hold_receive(qp, w);
		timer_wait(qp, timer_now() + FOR_EVER_NS);
		*a = (struct answer){.verdict = V_LATER};
		return true;
	case FAULT_DEVICE_FATAL:
		async_rail(qp_rail(qp), EV_DEVICE_FATAL, 0);
		timer_wait(qp, timer_now() + FOR_EVER_NS);
		*a = (struct answer){.verdict = V_LATER};
		return true;
	default:
		return false;
	}
}

bool fault_hit(struct qp *qp, struct wqe *w, struct answer *answer_p)
{
	struct fault_rule *rules = arena()->faults;

	if (qp->held == qp_message(qp)) {
		qp->held = 0; /* the rules were applied before the delay */
		return false;
	}
	for (size_t i = 0; i < FAULT_RULES; i++)
		if (rules[i].action && matches(&rules[i], qp, w) && due(&rules[i]) &&
			apply(&rules[i], qp, w, answer_p))
			return true;
	return false;
}

enum fault_action fault_packet(const struct udp_end *from)
{
	struct fault_rule *rules = arena()->faults;

	for (size_t i = 0; i < FAULT_RULES; i++)
		if (rules[i].action >= FAULT_PACKET_LOST &&
			is_from(&rules[i], from->rail, from->qpn, from->owner) && due(&rules[i]))
			return rules[i].action;
	return FAULT_NONE;
}
