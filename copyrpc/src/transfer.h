/* SPDX-License-Identifier: MIT */
/* Transfers: any number of bytes between memory of both sides, in parts, over an endpoint's queue
 * pair. */
#ifndef COPYRPC_TRANSFER_H
#define COPYRPC_TRANSFER_H

#include "internal.h"

/* The length of a part, and the bytes of an endpoint that are posted at a time: enough that the
 * link does not idle between a completion and the next poll, and little enough that the messages of
 * one large call overlap with the data of another one. While small calls are made, one part is
 * posted at a time. */
#define TRANSFER_PART (1u << 20)
#define TRANSFER_POSTED_MAX (2 * TRANSFER_PART)

struct transfer {
	/* Set by the caller. With each completed part the addresses advance and `len` decreases. */
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
	uint64_t posted; /* bytes from laddr on that are posted */
	uint32_t parts; /* posted and not completed */
	bool lost; /* a part has failed */
};

/*
 * Starts a transfer of at least one byte; @t belongs to the caller and is used until t->end() is
 * called, once, inside a poll. Returns 0, -ENOMEM or the status of the endpoint.
 *
 * If parts of other transfers of the endpoint are in progress, the first parts of this one are
 * posted at once, up to TRANSFER_POSTED_MAX, so that the link does not idle. Otherwise the next
 * poll posts them, after the messages that have been collected until then and with the same
 * doorbell: the peer gets a response before the link is busy with the next transfer, not after it.
 */
int transfer_start(struct transfer *t);

#endif
