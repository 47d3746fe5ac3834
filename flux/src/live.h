/* SPDX-License-Identifier: MIT */
/* Describes a node for other processes, see base/live.h. */
#ifndef FLUX_LIVE_H
#define FLUX_LIVE_H

#include "base/live.h"

/*
 * Sums over the rings of all peers: messages published or arrived. Posts count as calls and
 * requests.
 */
#define LIVE_RINGS(array, element, counter)                                                        \
	LIVE_AT(struct element, counter), LIVE_SUM(struct flux_node, array, nodes, struct element)

static const struct live_type live_node = {LIVE_MAGIC, "flux", "node",
	"running waiting asleep armed",
	.field = {
		{"nodes", LIVE_AT(struct flux_node, nodes)},
		{"calls", LIVE_RINGS(out, flux_out, req.count)},
		{"responses", LIVE_RINGS(out, flux_out, responses)},
		{"requests", LIVE_RINGS(in, flux_in, requests)},
		{"replies", LIVE_RINGS(in, flux_in, resp.count)},
		{"aborted", LIVE_AT(struct flux_node, aborted)},
		{"state", .form = LIVE_WORD, LIVE_VIA(struct flux_node, self),
			LIVE_AT(struct flux_shared, state)},
		{"sleeps", LIVE_AT(struct flux_node, sleeps)},
		{"wakes", LIVE_AT(struct flux_node, wakes)},
	}};

#endif
