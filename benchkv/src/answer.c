/* SPDX-License-Identifier: MIT */
#include "answer.h"

#include "daemon.h"

void daemon_answer(struct daemon *d, const struct asker *who, const struct kv_resp *resp)
{
	int err = 0;

	switch (who->way) {
	case BY_RING:
		err = delegrpc_server_reply(d->ring, who->client, who->id, resp, sizeof(*resp));
		break;
	case BY_IPC:
		err = shmipc_server_reply(d->ipc, who->client, who->id, resp, sizeof(*resp));
		break;
	case BY_RELAY:
		err = flux_reply(d->relay, who->call, resp, sizeof(*resp));
		break;
	}
	if (err)
		d->stats.bad_replies++;
}
