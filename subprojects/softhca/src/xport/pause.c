/* SPDX-License-Identifier: MIT */
#include "xport/pause.h"

#include "hca/objects.h"
#include "xport/counts.h"

#define WHOLE 1000u /* shares are counted in parts of 1/WHOLE */
#define UPPER 700u
#define LENGTH_FIRST 5 /* log2 */
#define LENGTH_STEPS 12
#define PLACES_STEPS 3
#define BATCH_STEPS 6
#define OUTSTANDING_STEPS 10
#define QPS_STEPS 3
#define PROPERTIES 5
#define IDLE_MAX_NS 1000000u /* longer idle times count as this one */

static uint32_t log2_of(uint64_t v)
{
	return v ? 63u - (uint32_t)__builtin_clzll(v) : 0;
}

/* Returns the position of @at between 0 and @steps, in parts of 1/WHOLE. */
static uint32_t part(uint64_t at, uint32_t steps)
{
	return (uint32_t)(at < steps ? at : steps) * WHOLE / steps;
}

static uint32_t busy_qps(uint32_t rail)
{
	uint32_t n = 0;

	for (uint32_t i = FIRST_QP_INDEX; i < arena()->high[OBJ_QP]; i++) {
		const struct qp *qp = &arena()->qps[i];

		n += qp->obj.used && qp->link_first != qp->link_last && qp_rail(qp) == rail;
	}
	return n;
}

void pause_announced(struct qp *qp, uint32_t pi)
{
	uint16_t more = (uint16_t)(pi - qp->link_announced);

	if (more)
		qp->link_batch = more;
	qp->link_announced = pi;
}

/*
 * Returns the share of the link's time that is lost to pauses, in parts of 1/WHOLE. busy_qps() does
 * not count the QP of @w yet if @w is its first message.
 */
static uint64_t share_of(const struct qp *qp, const struct wqe *w, uint32_t pauses)
{
	uint32_t blocks = wqe_blocks(w), length = log2_of(w->length);
	uint16_t outstanding = (uint16_t)(qp->link_announced - qp->sq_done);
	uint32_t qps = busy_qps(qp_rail(qp)) + (qp->link_first == qp->link_last);
	const uint32_t parts[PROPERTIES] = {
		part(length > LENGTH_FIRST ? length - LENGTH_FIRST : 0, LENGTH_STEPS),
		part(w->nsegs ? w->nsegs - 1 : 0, PLACES_STEPS),
		part(log2_of(qp->link_batch / blocks), BATCH_STEPS),
		part(log2_of(outstanding / blocks), OUTSTANDING_STEPS),
		part(qps - 1, QPS_STEPS),
	};
	uint32_t sum = 0, upper = 0;

	for (int i = 0; i < PROPERTIES; i++) {
		sum += parts[i];
		upper += parts[i] >= UPPER;
	}
	return (sum / PROPERTIES + (upper == PROPERTIES ? WHOLE : 0)) * pauses / 200;
}

uint64_t pause_for(const struct qp *qp, const struct wqe *w, uint64_t busy_ns, uint64_t idle_ns)
{
	uint32_t pauses = arena()->topo.rails[qp_rail(qp)].pauses;
	uint64_t share, ns;

	if (!pauses)
		return 0;
	share = share_of(qp, w, pauses);
	idle_ns = idle_ns < IDLE_MAX_NS ? idle_ns : IDLE_MAX_NS;
	ns = (busy_ns + idle_ns) * share / (WHOLE - share);
	counts_pause(qp, w, ns);
	return ns;
}
