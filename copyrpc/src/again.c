/* SPDX-License-Identifier: MIT */
/* The batches that a channel sends again after a lost connection. */
#include "grow.h"

int chan_resume(struct chan *ch, uint64_t pos)
{
	if (pos < ch->cr.rc || pos > ch->sent)
		return -EPROTO;
	ch->resend = pos;
	ch->again = pos != ch->sent;
	return 0;
}

/* Returns the length of the metadata and the @count messages after it, without the padding of the
 * last message. @left: blocks that follow the metadata. Returns 0 if the messages need more. */
static uint32_t measure(const uint8_t *at, uint32_t count, uint32_t left)
{
	uint32_t bytes = WIRE_BLOCK;

	while (count--) {
		struct wire_header h;
		uint64_t size;

		if (!left)
			return 0;
		h = wire_get_header(at);
		size = wire_blocks64(h.len);
		if (size > left)
			return 0;
		left -= (uint32_t)size;
		at += size * WIRE_BLOCK;
		bytes = wire_append(bytes, h.len);
	}
	return bytes;
}

uint32_t chan_seal_again(struct chan *ch, uint64_t consumer, uint64_t *pos_p, uint32_t *len_p)
{
	struct sent_ring r = chan_ring_of(ch, ch->resend);
	uint32_t off = (uint32_t)ch->resend & r.mask, to_end = r.mask + 1 - off, blocks = to_end;
	uint64_t left = ch->sent - ch->resend;
	uint8_t *at = r.at + (size_t)off * WIRE_BLOCK;
	struct wire_meta m = wire_get_meta(at);

	*len_p = WIRE_BLOCK;
	if (m.count != WIRE_WRAP) {
		if (left > to_end)
			left = to_end;
		*len_p = measure(at + WIRE_BLOCK, m.count & ~WIRE_FLAGS, (uint32_t)left - 1);
		blocks = (*len_p + WIRE_BLOCK - 1) / WIRE_BLOCK;
	}
	if (!blocks || blocks > left)
		return 0;
	wire_put_word(at, 0, consumer);
	*pos_p = ch->resend;
	ch->resend += blocks;
	ch->again = ch->resend != ch->sent;
	ch->stats.resent++;
	ch->stats.bytes += *len_p;
	return blocks;
}
