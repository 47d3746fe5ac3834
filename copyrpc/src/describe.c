/* SPDX-License-Identifier: MIT */
/* Describes an endpoint in a line of text. */
#include <arpa/inet.h>
#include <stdio.h>

#include "internal.h"

static const char *opcode_name(const struct mlx5dvl_error *e)
{
	static const char *const names[] = {[MLX5DVL_NOP] = "NOP",
		[MLX5DVL_WRITE] = "WRITE",
		[MLX5DVL_WRITE_IMM] = "WRITE_IMM",
		[MLX5DVL_READ] = "READ"};

	return e->is_recv ? "receive" : names[e->opcode];
}

/* Writes the peer's queue pair and address, or an empty text if they are not known yet. */
static void peer_text(const struct mlx5dvl_qp_info *peer, char *text, size_t size)
{
	static const uint8_t none[sizeof(peer->gid)];
	char gid[INET6_ADDRSTRLEN] = "";

	text[0] = 0;
	if (!peer->qpn)
		return;
	if (!memcmp(peer->gid, none, sizeof(none)))
		snprintf(text, size, " to QP 0x%x of LID %u", peer->qpn, peer->lid);
	else
		snprintf(text, size, " to QP 0x%x of GID %s", peer->qpn,
			inet_ntop(AF_INET6, peer->gid, gid, sizeof(gid)));
}

int copyrpc_ep_describe(const struct copyrpc_ep *ep, char *buf, size_t size)
{
	const struct mlx5dvl_error *e = &ep->error;
	const char *open = ep->name[0] ? " (" : "", *close = ep->name[0] ? ")" : "";
	const char *state = ep->ch.status ? strerror(-ep->ch.status) :
			    ep->ch.away   ? "being connected again" :
					    "connected";
	char peer[96], why[96] = "", last[64] = "";

	peer_text(&ep->peer, peer, sizeof(peer));
	if (e->syndrome)
		snprintf(why, sizeof(why), ": %s (%s, syndrome 0x%02x, vendor 0x%02x)",
			mlx5dvl_syndrome_text(e->syndrome), opcode_name(e), e->syndrome,
			e->vendor_syndrome);
	if (ep->again_error)
		snprintf(last, sizeof(last), ": last attempt: %s", strerror(-ep->again_error));
	return snprintf(buf, size, "%s QP 0x%x%s%s%s%s: %s%s%s", mlx5dvl_ctx_device(ep->ctx->dev),
		ep->qpn, peer, open, ep->name, close, state, why, last);
}
