/* SPDX-License-Identifier: MIT */
/* The two places where a reply leaves a daemon for a client. */
#include <errno.h>

#include "daemon.h"

void answer_local(struct daemon *d, uint32_t client, uint32_t id, const struct kv_resp *resp)
{
	if (shmipc_server_reply(d->ipc, client, id, resp, sizeof(*resp)))
		d->stats.bad_replies++;
}

void answer_delegated(struct daemon *d, uint32_t client, uint32_t id, const struct kv_resp *resp)
{
	if (delegrpc_server_reply(d->ring, client, id, resp, sizeof(*resp)))
		d->stats.bad_replies++;
}
