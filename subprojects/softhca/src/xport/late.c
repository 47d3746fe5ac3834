/* SPDX-License-Identifier: MIT */
#include "xport/late.h"

#include <rdma/ib_user_ioctl_verbs.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "abi/wire.h"
#include "dma/dma.h"
#include "hca/objects.h"
#include "sys/sys.h"
#include "xport/qp.h"
#include "xport/responder.h"

#define LATE_MAX 64

static struct late {
	/*
	 * 0: free, or being filled. If the thread that fills it loses the mutex, its payload stays
	 * mapped.
	 */
	uint64_t due;
	struct qp_attr path;
	uint32_t rail, qpn; /* of the sender */
	uint32_t rkey;
	uint64_t raddr, length;
	void *payload; /* NULL if the length is 0 */
} packets[LATE_MAX];

static uint64_t next_due; /* no packet is due earlier; 0: there are no packets */

/* Maps memory, because a signal handler must not allocate. Returns NULL if there is none. */
static void *map(uint64_t length)
{
	long at = SYS(SYS_mmap, NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);

	return at < 0 && at > -4096 ? NULL : (void *)at;
}

static void drop(struct late *l)
{
	const struct late old = *l;

	/*
	 * Forgotten first: a slot that is still known after the munmap() would lead to memory of
	 * the program. If this thread loses the mutex before it, the memory stays mapped.
	 */
	*l = (struct late){0};
	atomic_signal_fence(memory_order_seq_cst);
	if (old.payload)
		SYS(SYS_munmap, old.payload, old.length);
}

static bool copy_out(struct late *l, const struct wqe *w)
{
	struct dma_seg to = {.slot = fabric_self.slot, .len = w->length};
	bool at_dest;

	if (!w->length)
		return true;
	l->payload = map(w->length);
	to.addr = (uintptr_t)l->payload;
	return l->payload && !dma_copy(NULL, &to, 1, w->segs, w->nsegs, &at_dest);
}

void late_keep(const struct qp *qp, const struct wqe *w, uint64_t due)
{
	struct late *l = packets;

	if (w->opcode != OP_WRITE || qp->type != QPT_RC)
		return;
	while (l < packets + LATE_MAX && l->due)
		l++;
	if (l == packets + LATE_MAX)
		return;
	*l = (struct late){
		.path = qp->attr,
		.rail = qp_rail(qp),
		.qpn = qp->qpn,
		.rkey = w->rkey,
		.raddr = w->raddr,
		.length = w->length,
	};
	if (!copy_out(l, w)) {
		drop(l);
		return;
	}
	/*
	 * `due` is set last: this thread may lose the mutex during the copy, and then half of a
	 * payload must not arrive. next_due is set before it, so that late_serve() finds the packet.
	 */
	if (!next_due || due < next_due)
		next_due = due;
	atomic_signal_fence(memory_order_seq_cst);
	l->due = due;
	counters_of(fabric_self.slot)->late_held++;
}

/*
 * Returns true if the sender still waits. Then it will execute the message itself, so the packet
 * must not be placed.
 */
static bool sender_waits(const struct late *l)
{
	const struct qp *qp = qp_by_number(l->qpn);

	return qp && (qp->state == QPS_RTS || qp->state == QPS_SQD);
}

static bool arrives(const struct late *l, const struct qp *dest)
{
	return dest && dest->type == QPT_RC && path_leads_to(&l->path, l->rail, dest) &&
	       fabric_reachable(dest->obj.owner) && qp_receives(dest) &&
	       dest->attr.dest_qpn == l->qpn;
}

static bool place(const struct late *l)
{
	const uint32_t access = IB_UVERBS_ACCESS_REMOTE_WRITE;
	const struct qp *dest = qp_by_number(l->path.dest_qpn);
	struct dma_seg seg;

	if (!arrives(l, dest))
		return false;
	if (!l->length)
		return true;
	return (dest->attr.access & access) &&
	       mr_translate(l->rkey, dest->pd, access, l->raddr, l->length, &seg) &&
	       !dma_write(seg.slot, seg.addr, l->payload, l->length);
}

static void deliver(struct late *l)
{
	struct softhca_counters *c = counters_of(fabric_self.slot);

	if (!sender_waits(l)) {
		if (place(l))
			c->late_placed++;
		else
			c->late_lost++;
	}
	drop(l);
}

uint64_t late_serve(uint64_t now)
{
	uint64_t next = 0;

	if (!next_due || now < next_due)
		return next_due;
	for (struct late *l = packets; l < packets + LATE_MAX; l++) {
		if (!l->due)
			continue;
		if (l->due <= now)
			deliver(l);
		else if (!next || l->due < next)
			next = l->due;
	}
	next_due = next;
	return next;
}

void late_forget(void)
{
	for (struct late *l = packets; l < packets + LATE_MAX; l++)
		drop(l);
	next_due = 0;
}
