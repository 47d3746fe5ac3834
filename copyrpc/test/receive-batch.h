/* SPDX-License-Identifier: MIT */
/* Receives a batch of n blocks in the same way as poll.c. */
#ifndef COPYRPC_TEST_RECEIVE_BATCH_H
#define COPYRPC_TEST_RECEIVE_BATCH_H

#include "receive.h"

/* Returns the number of messages, without large requests, or -EPROTO. */
static inline int receive(struct chan *ch, uint32_t n, struct listener *to)
{
	struct incoming in;
	bool expected;
	int rc;

	if (!chan_expects(ch, n))
		chan_look_ahead(ch);
	expected = chan_expects(ch, n);
	rc = expected ? chan_accept(ch, n, &in) : chan_accept_block(ch, n, &in);
	if (!rc)
		rc = expected && in.count == 1 ? chan_handle_one(ch, in, to) :
						 chan_handle(ch, in, to);
	if (rc == TAKE_ODD)
		rc = chan_handle(ch, in, to);
	return rc ? rc : to->handled;
}

#endif
