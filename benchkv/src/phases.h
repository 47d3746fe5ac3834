/* SPDX-License-Identifier: MIT */
/*
 * The phases of a daemon's loop. No phase waits. A message that cannot be sent or passed on now is
 * queued.
 *
 *	A local		serve requests of this rank's clients for this shard; in meta, call or relay
 *			their requests for other ranks
 *	B channels	poll the delegation ring; handle other daemons' answers and the requests
 *			that they pass on
 *	C network	poll the network, once or as often as the control (the batching policy,
 *			control.h) decides; pass responses to their clients and requests to their
 *			shards; the control may hold responses back for a moment
 *	D calls		append requests for other ranks to the batches of the endpoints to those
 *			ranks
 *	E retry		do the same with requests for which there was no room or credit
 *	F flush		send the batches of the endpoints that the control selects
 *	G forward	pass on requests for which another daemon had no room
 */
#ifndef BENCHKV_PHASES_H
#define BENCHKV_PHASES_H

#include <stdbool.h>
#include <stdint.h>

#include "trace.h"

struct daemon;

struct phase {
	enum trace_phase name;
	uint32_t (*run)(struct daemon *d); /* returns the number of messages that it handled */
	bool alone; /* runs even in daemons without sees_ranks, see daemon.h */
};

/* In the order of the loop. */
extern const struct phase phases[TRACE_PHASES];

#endif
