/* SPDX-License-Identifier: MIT */
/* Calls that end in another way than with their response: by their time limit, by cancellation, or
 * with their endpoint. */
#include <stdlib.h>

#include "chan.h"

int chan_call_timed(struct chan *ch, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token, uint64_t deadline)
{
	uint32_t id = ch->call_free; /* of the next call */
	int rc;

	if (!ch->deadlines) {
		ch->deadlines = calloc(ch->max_calls, sizeof(*ch->deadlines));
		if (!ch->deadlines)
			return -ENOMEM;
	}
	rc = chan_call(ch, data, len, resp_max, token, false);
	if (rc)
		return rc;
	ch->calls[id].resp_max |= CALL_TIMED;
	ch->deadlines[id] = deadline;
	if (id >= ch->timed_end)
		ch->timed_end = id + 1;
	return 0;
}

/* Reports the end of a call that keeps its entry, because its response may still arrive. @bit:
 * CALL_TIMED or CALL_CANCELED. */
static void end_early(struct chan *ch, struct call *call, uint64_t bit, int status,
	const struct listener *to)
{
	call->resp_max ^= bit | CALL_LATE;
	ch->late++;
	ch->stats.failed_calls++;
	to->fn(to->arg, ch->ep, call->token, status, NULL, 0);
}

/* Callbacks may make calls with time limits, and may stop the endpoint. */
int chan_expire(struct chan *ch, uint64_t now, const struct listener *to, uint64_t *next_p)
{
	int ended = 0;

	for (uint32_t id = 0; id < ch->timed_end && !ch->status; id++) {
		uint64_t at = ch->deadlines[id];

		if (at > now && at < *next_p)
			*next_p = at;
		if (!at || at > now)
			continue;
		ch->deadlines[id] = 0;
		ch->stats.timeouts++;
		ended++;
		end_early(ch, &ch->calls[id], CALL_TIMED, -ETIMEDOUT, to);
	}
	return ended;
}

int chan_cancel(struct chan *ch, uint64_t token)
{
	if (ch->status)
		return ch->status;
	for (uint32_t id = 0; id < ch->max_calls; id++) {
		struct call *call = &ch->calls[id];

		if (call->resp_max == CALL_FREE || call->token != token ||
			(call->resp_max & (CALL_LATE | CALL_CANCELED)))
			continue;
		if (call->resp_max & CALL_TIMED) {
			ch->deadlines[id] = 0;
			call->resp_max &= ~CALL_TIMED;
		}
		call->resp_max |= CALL_CANCELED;
		return 0;
	}
	return -ENOENT;
}

/* Callbacks may cancel calls, make calls, and stop the endpoint. */
static int end_canceled(struct chan *ch, const struct listener *to)
{
	int ended = 0;

	for (uint32_t id = 0; id < ch->max_calls && !ch->status; id++) {
		struct call *call = &ch->calls[id];

		if (call->resp_max == CALL_FREE || !(call->resp_max & CALL_CANCELED))
			continue;
		ended++;
		end_early(ch, call, CALL_CANCELED, -ECANCELED, to);
	}
	return ended;
}

COLD int chan_odd_response(struct chan *ch, uint32_t limit, uint32_t id, struct listener *to)
{
	struct call *call = &ch->calls[id];
	uint64_t state = call->resp_max, token = call->token;

	if (state == CALL_FREE || (uint32_t)state != limit ||
		!(state & (CALL_TIMED | CALL_LATE | CALL_CANCELED)))
		return -EPROTO;
	if (state & CALL_TIMED) {
		ch->deadlines[id] = 0;
		return 0;
	}
	chan_put_call(ch, call, id);
	if (state & CALL_LATE) {
		ch->late--;
		return 1;
	}
	ch->stats.failed_calls++;
	to->fn(to->arg, ch->ep, token, -ECANCELED, NULL, 0);
	return 1;
}

int chan_end_calls(struct chan *ch, const struct listener *to)
{
	int ended = 0;

	if (!ch->status)
		return end_canceled(ch, to);
	for (uint32_t id = 0; ch->ncalls && id < ch->max_calls; id++) {
		struct call *call = &ch->calls[id];
		uint64_t token = call->token, resp_max = call->resp_max;

		if (resp_max == CALL_FREE)
			continue;
		chan_put_call(ch, call, id);
		if (resp_max & CALL_TIMED)
			ch->deadlines[id] = 0;
		if (resp_max & CALL_LATE) {
			ch->late--;
			continue;
		}
		ch->stats.failed_calls++;
		ended++;
		to->fn(to->arg, ch->ep, token, resp_max & CALL_CANCELED ? -ECANCELED : ch->status,
			NULL, 0);
	}
	return ended;
}
