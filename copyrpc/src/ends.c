/* SPDX-License-Identifier: MIT */
/* Ends calls before their responses arrive: because of their time limits, when they are canceled,
 * and when their endpoint fails. Also makes and ends hooked calls (struct call_hook), whose end the
 * library handles instead of the program's callback. */
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

int chan_call_large(struct chan *ch, const void *data, uint32_t len, uint32_t resp_max,
	struct call_hook *hook)
{
	uint32_t id = ch->call_free;
	int rc = chan_call(ch, data, len, resp_max, (uintptr_t)hook, false);

	if (rc)
		return rc;
	ch->calls[id].resp_max |= CALL_HOOKED;
	wire_set_large(chan_at(ch->send_ring, ch, ch->cr.p - wire_blocks(len)));
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

static bool may_cancel(const struct call *call, uint64_t token)
{
	if (call->resp_max == CALL_FREE)
		return false;
	if (call->resp_max & CALL_HOOKED)
		return call->hook->token == token && !call->hook->canceled;
	return call->token == token && !(call->resp_max & (CALL_LATE | CALL_CANCELED));
}

int chan_cancel(struct chan *ch, uint64_t token)
{
	uint32_t id = 0;
	struct call *call;

	if (ch->status)
		return ch->status;
	while (id < ch->max_calls && !may_cancel(&ch->calls[id], token))
		id++;
	if (id == ch->max_calls)
		return -ENOENT;
	call = &ch->calls[id];
	if (call->resp_max & CALL_HOOKED) {
		call->hook->canceled = true;
		return 0;
	}
	if (call->resp_max & CALL_TIMED) {
		ch->deadlines[id] = 0;
		call->resp_max &= ~CALL_TIMED;
	}
	call->resp_max |= CALL_CANCELED;
	return 0;
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

/* Handles the response to a call that has ended early or is canceled, or whose end the library
 * handles. */
static int end_odd(struct chan *ch, struct call old, const void *payload, uint32_t len,
	const struct listener *to)
{
	if (old.resp_max & CALL_LATE) {
		ch->late--;
		return 0;
	}
	if (old.resp_max & CALL_HOOKED) {
		ch->stats.responses++;
		return old.hook->end(old.hook, ch->ep, to, 0, payload, len);
	}
	ch->stats.failed_calls++;
	to->fn(to->arg, ch->ep, old.token, -ECANCELED, NULL, 0);
	return 0;
}

COLD int chan_odd_response(struct chan *ch, uint32_t id, uint32_t limit, const void *payload,
	uint32_t len, const struct listener *to)
{
	struct call *call = &ch->calls[id], old = *call;

	if (old.resp_max == CALL_FREE || (uint32_t)old.resp_max != limit ||
		!(old.resp_max & (CALL_TIMED | CALL_LATE | CALL_CANCELED | CALL_HOOKED)))
		return -EPROTO;
	if (old.resp_max & CALL_TIMED) {
		ch->deadlines[id] = 0;
		return 0;
	}
	chan_put_call(ch, call, id);
	return end_odd(ch, old, payload, len, to) ? -EPROTO : 1;
}

/* Reports the end of a call of a failed endpoint. The caller has freed the call's entry. */
static void end_failed(struct chan *ch, struct call old, const struct listener *to)
{
	int status = old.resp_max & CALL_CANCELED ? -ECANCELED : ch->status;

	ch->stats.failed_calls++;
	if (old.resp_max & CALL_HOOKED)
		old.hook->end(old.hook, ch->ep, to, status, NULL, 0);
	else
		to->fn(to->arg, ch->ep, old.token, status, NULL, 0);
}

int chan_end_calls(struct chan *ch, const struct listener *to)
{
	int ended = 0;

	if (!ch->status)
		return end_canceled(ch, to);
	for (uint32_t id = 0; ch->ncalls && id < ch->max_calls; id++) {
		struct call *call = &ch->calls[id], old = *call;
		bool late = old.resp_max & CALL_LATE;

		if (old.resp_max == CALL_FREE)
			continue;
		chan_put_call(ch, call, id);
		if (old.resp_max & CALL_TIMED)
			ch->deadlines[id] = 0;
		ch->late -= late;
		if (late)
			continue;
		ended++;
		end_failed(ch, old, to);
	}
	return ended;
}

void chan_drop_calls(struct chan *ch)
{
	for (uint32_t id = 0; id < ch->max_calls; id++) {
		struct call *call = &ch->calls[id];

		if (call->resp_max == CALL_FREE || !(call->resp_max & CALL_HOOKED))
			continue;
		call->resp_max &= ~CALL_HOOKED;
		call->hook->end(call->hook, ch->ep, NULL, -ECANCELED, NULL, 0);
	}
}
