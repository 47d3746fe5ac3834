/* SPDX-License-Identifier: MIT */
/* A daemon replies to a client, or to another daemon, of its rank. */
#ifndef BENCHKV_ANSWER_H
#define BENCHKV_ANSWER_H

#include <stdint.h>

#include "msg.h"

struct daemon;

enum asker_way {
	BY_RING, /* a client, through delegrpc */
	BY_IPC, /* a client, through shmipc */
	BY_RELAY, /* another daemon, through flux */
};

/* The receiver of a reply. */
struct asker {
	enum asker_way way;
	uint64_t client, id; /* of delegrpc or shmipc */
	uint64_t call; /* of flux */
};

/* Sends a reply on the path by which the request came. Counts a reply that cannot be sent. */
void daemon_answer(struct daemon *d, const struct asker *who, const struct kv_resp *resp);

#endif
