/* SPDX-License-Identifier: MIT */
/* Describes an endpoint in a line of text. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

/* A text in a buffer that may be too short. */
struct text {
	char *buf;
	size_t size;
	size_t len; /* of the whole text */
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
	size_t at = t->len < t->size ? t->len : t->size;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->buf ? t->buf + at : NULL, t->size - at, format, args);
	va_end(args);
	t->len += n > 0 ? (size_t)n : 0;
}

static const char *opcode_name(const struct mlx5dvl_error *e)
{
	if (e->is_recv)
		return "receive";
	switch (e->opcode) {
	case MLX5DVL_WRITE_IMM:
		return "WRITE_IMM";
	case MLX5DVL_WRITE:
		return "WRITE";
	case MLX5DVL_READ:
		return "READ";
	default:
		return "NOP";
	}
}

static void add_peer(struct text *t, const struct copyrpc_ep *ep)
{
	static const uint8_t none[sizeof(ep->peer.gid)];
	char gid[INET6_ADDRSTRLEN];

	if (ep->peer.qpn)
		add(t, " to QP 0x%x of", ep->peer.qpn);
	if (ep->peer.qpn && !memcmp(ep->peer.gid, none, sizeof(none)))
		add(t, " LID %u", ep->peer.lid);
	else if (ep->peer.qpn && inet_ntop(AF_INET6, ep->peer.gid, gid, sizeof(gid)))
		add(t, " GID %s", gid);
	if (ep->name[0])
		add(t, " (%s)", ep->name);
}

int copyrpc_ep_describe(const struct copyrpc_ep *ep, char *buf, size_t size)
{
	const struct mlx5dvl_error *e = &ep->error;
	struct text t = {buf, size, 0};
	int status = ep->ch.status;

	add(&t, "%s QP 0x%x", mlx5dvl_ctx_device(ep->ctx->dev), ep->qpn);
	add_peer(&t, ep);
	add(&t, ": %s", status ? strerror(-status) : "connected");
	if (e->syndrome)
		add(&t, ": %s (%s, syndrome 0x%02x, vendor 0x%02x)",
			mlx5dvl_syndrome_text(e->syndrome), opcode_name(e), e->syndrome,
			e->vendor_syndrome);
	return (int)t.len;
}
