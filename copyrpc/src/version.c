/* SPDX-License-Identifier: MIT */
/* Records peers that have another version, and describes the last one in a line of text. */
#include <endian.h>
#include <stdio.h>

#include "blob.h"
#include "internal.h"

void ctx_note_version(struct copyrpc_ctx *ctx, const char *of, const void *bytes, uint16_t ours)
{
	uint16_t theirs;

	memcpy(&theirs, (const char *)bytes + 8, sizeof(theirs));
	ctx->other = (struct other_version){of, le16toh(theirs), ours};
}

int copyrpc_ctx_versions(const struct copyrpc_ctx *ctx, char *buf, size_t size)
{
	const struct other_version *v = &ctx->other;

	if (!v->of)
		return snprintf(buf, size, "%s", "");
	return snprintf(buf, size, "the peer has version %u of the %s, this library has version %u",
		v->theirs, v->of, v->ours);
}

int ctx_read_blob(struct copyrpc_ctx *ctx, struct blob *b, const void *bytes, size_t len)
{
	int rc = blob_decode(b, bytes, len);

	if (rc == -EPROTONOSUPPORT)
		ctx_note_version(ctx, "connection blob", bytes, BLOB_VERSION);
	return rc;
}
