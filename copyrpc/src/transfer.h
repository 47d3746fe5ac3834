/* SPDX-License-Identifier: MIT */
/* Transfers: any number of bytes between memory of both sides, in parts, over an endpoint's queue
 * pair. */
#ifndef COPYRPC_TRANSFER_H
#define COPYRPC_TRANSFER_H

#include "internal.h"

struct transfer {
	/* Set by the caller. The addresses and the length advance with the completions. */
	struct copyrpc_ep *ep;
	bool is_read;
	uint8_t *laddr;
	uint64_t raddr, len;
	uint32_t lkey, rkey;
	void (*end)(struct transfer *t, int status);

	struct raw_owner owner; /* of the parts */
	struct transfer *next, **link_p; /* in the list of the endpoint */
	struct transfer *work_next; /* in the list of those that the next poll handles */
	bool queued;
	uint64_t posted; /* bytes from laddr on */
	uint32_t parts; /* posted and not completed */
	bool lost; /* a part has failed */
};

/* Starts a transfer of at least one byte; @t belongs to the caller and is used until t->end() was
 * called, once, inside a poll. Returns 0, -ENOMEM or the status of the endpoint. */
int transfer_start(struct transfer *t);

#endif
