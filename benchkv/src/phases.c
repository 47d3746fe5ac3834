/* SPDX-License-Identifier: MIT */
#include "phases.h"

#include "backend.h"
#include "calls.h"
#include "daemon.h"
#include "local.h"

static uint32_t phase_channels(struct daemon *d)
{
	uint32_t n = 0;

	if (d->ring)
		delegrpc_server_poll(d->ring);
	if (d->flux)
		n = network_take_answers(d) + daemon_serve_forwarded(d);
	if (d->relay)
		n += errands_exchange(d);
	return n;
}

static uint32_t phase_network(struct daemon *d)
{
	return d->node->o->backend->serve(d);
}

static uint32_t phase_retry(struct daemon *d)
{
	errands_retry(d);
	return 0;
}

static uint32_t phase_flush(struct daemon *d)
{
	if (d->net.ctx)
		network_flush(d);
	return 0;
}

static uint32_t phase_forward(struct daemon *d)
{
	if (d->net.ctx)
		network_forward(d);
	/* With held replies the loop is not idle: no event would end a sleep when they are due. */
	return d->errands.n_kept;
}

const struct phase phases[TRACE_PHASES] = {
	{TRACE_LOCAL, daemon_serve_local, true},
	{TRACE_CHANNELS, phase_channels, true},
	{TRACE_NETWORK, phase_network, false},
	{TRACE_CALLS, errands_take, false},
	{TRACE_RETRY, phase_retry, false},
	{TRACE_FLUSH, phase_flush, false},
	{TRACE_FORWARD, phase_forward, false},
};
