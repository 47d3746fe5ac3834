/* SPDX-License-Identifier: MIT */
/* Large calls, on the side of the caller. */
#include <stdlib.h>

#include "bulk.h"

struct large_call {
	struct call_hook hook;
	struct reg *from, *to; /* NULL: the bytes are copied */
	void *resp;
	uint32_t resp_max;
};

static void free_call(struct large_call *c)
{
	reg_put(c->from);
	reg_put(c->to);
	free(c);
}

static int status_of(uint32_t error)
{
	switch (error) {
	case WIRE_OK:
		return 0;
	case WIRE_TOO_LARGE:
		return -EMSGSIZE;
	case WIRE_NO_MEMORY:
		return -ENOMEM;
	default:
		return -EPROTO;
	}
}

/* A message occupies at least a block, so take_response() can always read the fields of struct
 * wire_large_response. If the message is shorter than these fields, the subtraction in
 * take_response() wraps around, and the result is larger than any valid length. */
static_assert(sizeof(struct wire_header) + sizeof(struct wire_large_response) <= WIRE_BLOCK, "");

/* Sets *len_p to the length of the response, whose bytes are in the message, or already in the
 * caller's memory. Returns the status of the call. */
static int take_response(struct large_call *c, const void *data, uint32_t len, uint32_t *len_p)
{
	struct wire_large_response r;
	int status;

	memcpy(&r, data, sizeof(r)); /* the peer may change it meanwhile */
	status = status_of(le32toh(r.error));
	r.len = le32toh(r.len);
	len -= (uint32_t)sizeof(r);
	if (status)
		return len || r.len ? -EPROTO : status;
	if (r.len > c->resp_max || (len != r.len && (len || !c->to)))
		return -EPROTO;
	if (len)
		memcpy(c->resp, (const uint8_t *)data + sizeof(r), len);
	*len_p = r.len;
	return 0;
}

static int end_large(struct call_hook *hook, struct copyrpc_ep *ep, const struct listener *to,
	int status, const void *data, uint32_t len)
{
	struct large_call *c = container_of(hook, struct large_call, hook);
	uint64_t token = hook->token;
	const void *resp = c->resp;
	uint32_t resp_len = 0;
	int rc;

	if (!status) {
		ep->large++;
		status = take_response(c, data, len, &resp_len);
	}
	rc = status == -EPROTO ? status : 0;
	if (hook->canceled)
		status = -ECANCELED;
	free_call(c);
	if (to)
		to->fn(to->arg, ep, token, status, status ? NULL : resp, status ? 0 : resp_len);
	return rc;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Writes the payload of the message, and returns its length. */
static uint32_t put_request(const struct large_call *c, const void *data, uint32_t len, void *to)
{
	struct wire_large w = {
		.from = c->from ? htole64((uintptr_t)data) : 0,
		.from_rkey = c->from ? htole32(c->from->mr.rkey) : 0,
		.to = c->to ? htole64((uintptr_t)c->resp) : 0,
		.to_rkey = c->to ? htole32(c->to->mr.rkey) : 0,
		.len = htole32(len),
		.resp_max = htole32(c->resp_max),
	};

	memcpy(to, &w, sizeof(w));
	if (c->from || !len)
		return sizeof(w);
	memcpy((uint8_t *)to + sizeof(w), data, len);
	return (uint32_t)sizeof(w) + len;
}

/* Registers the buffers that are longer than @most bytes. Shorter ones are copied into the
 * messages. */
static int register_both(struct copyrpc_ctx *ctx, struct large_call *c, const void *data,
	uint32_t len, uint32_t most)
{
	int rc = 0;

	if (len > most)
		rc = reg_get(ctx, data, len, MLX5DVL_REMOTE_READ, &c->from);
	if (!rc && c->resp_max > most)
		rc = reg_get(ctx, c->resp, c->resp_max, MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_WRITE,
			&c->to);
	return rc;
}

int copyrpc_call_large(struct copyrpc_ep *ep, const void *data, uint32_t len, void *resp,
	uint32_t resp_max, uint64_t token)
{
	uint32_t most =
		least(WIRE_COPIED_MAX, ep->ch.payload_max - (uint32_t)sizeof(struct wire_large));
	uint8_t payload[sizeof(struct wire_large) + WIRE_COPIED_MAX];
	struct large_call *c;
	int rc;

	if (ep->ch.status)
		return ep->ch.status;
	if (len > COPYRPC_LARGE_MAX || resp_max > COPYRPC_LARGE_MAX)
		return -EMSGSIZE;
	c = malloc(sizeof(*c));
	if (!c)
		return -ENOMEM;
	*c = (struct large_call){{token, false, end_large}, NULL, NULL, resp, resp_max};
	rc = register_both(ep->ctx, c, data, len, most);
	if (!rc) {
		ep_dirty(ep);
		rc = chan_call_large(&ep->ch, payload, put_request(c, data, len, payload),
			(uint32_t)sizeof(struct wire_large_response) + least(resp_max, most),
			&c->hook);
	}
	if (rc)
		free_call(c);
	return rc;
}
