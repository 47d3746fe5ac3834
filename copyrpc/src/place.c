/* SPDX-License-Identifier: MIT */
/* The entries of calls and requests, and the positions of batches, for chan.c and grow.c. */
#include "grow.h"

#include <stdlib.h>

static uint32_t payload_of(const struct chan *ch, uint32_t blocks)
{
	return wire_payload(
		ch->nested ? credit_nested_message_max(blocks) : credit_message_max(blocks));
}

void chan_set_limits(struct chan *ch)
{
	uint32_t recv = ch->recv_mask + 1;

	ch->payload_max = payload_of(ch, ch->most);
	ch->len_max = payload_of(ch, ch->cr.c);
	ch->resp_max = payload_of(ch, recv);
	ch->reserve = ch->nested ? credit_reserve(recv) : 0;
	ch->spendable = ch->cr.kmax - ch->reserve;
}

/* Each request or call takes at least two blocks of credit. */
static uint32_t most_messages(uint32_t blocks)
{
	return credit_rmax(blocks) / 2;
}

int chan_add_reqs(struct chan *ch, uint32_t blocks)
{
	uint32_t n = most_messages(blocks) - ch->n_reqs;
	struct req_block *b = calloc(1, sizeof(*b) + n * sizeof(b->reqs[0]));

	if (!b)
		return -ENOMEM;
	*b = (struct req_block){.next = ch->reqs, .n = n};
	ch->reqs = b;
	ch->n_reqs += n;
	/* Free lists are LIFO, so that few entries are used and stay in the cache. */
	while (n--) {
		b->reqs[n].ch = ch;
		chan_put_req(ch, &b->reqs[n]);
	}
	return 0;
}

int chan_add_calls(struct chan *ch, uint32_t blocks)
{
	uint32_t n = most_messages(blocks);
	struct call *calls;
	uint64_t *deadlines = NULL;

	if (n > ch->max_pending)
		n = ch->max_pending;
	if (n <= ch->max_calls)
		return 0;
	calls = realloc(ch->calls, n * sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	ch->calls = calls;
	if (ch->deadlines) {
		deadlines = realloc(ch->deadlines, n * sizeof(*deadlines));
		if (!deadlines)
			return -ENOMEM;
		memset(deadlines + ch->max_calls, 0, (n - ch->max_calls) * sizeof(*deadlines));
		ch->deadlines = deadlines;
	}
	for (uint32_t i = n; i-- > ch->max_calls; ch->call_free = i)
		calls[i] = (struct call){.next_free = ch->call_free, .resp_max = CALL_FREE};
	ch->max_calls = n;
	return 0;
}

/* ------------------------------------------------------------------- batches */

static void close_batch(struct chan *ch, struct batch b)
{
	assert(ch->nclosed < ARRAY_SIZE(ch->closed));
	ch->closed[ch->nclosed++] = b;
}

NOINLINE void chan_advance(struct chan *ch)
{
	uint64_t end = credit_call_end(&ch->cr);

	ch->end = ch->cr.edge ? ch->cr.edge : (ch->cr.p | ch->mask) + 1;
	ch->call_end = end < ch->end ? end : ch->end;
}

void chan_new_batch(struct chan *ch, uint32_t wrap)
{
	uint64_t p = ch->cr.p;

	if (ch->cr.edge) {
		ch->open.end = p;
		close_batch(ch, ch->open);
	}
	chan_count_lap(ch, p + wrap);
	if (wrap)
		close_batch(ch, (struct batch){.start = p,
					.end = p + wrap,
					.count = WIRE_WRAP,
					.bytes = WIRE_BLOCK});
	chan_open(ch, wrap);
	chan_advance(ch);
}
