/* SPDX-License-Identifier: MIT */
#include "xport/as_message.h"

static enum message_kind kind_of(const struct wqe *w)
{
	switch (w->opcode) {
	case OP_NOP:
		return MSG_NOP;
	case OP_WRITE:
	case OP_WRITE_IMM:
		return MSG_WRITE;
	case OP_READ:
		return MSG_READ;
	case OP_ATOMIC_CS:
		return MSG_COMPARE_SWAP;
	case OP_ATOMIC_FA:
		return MSG_FETCH_ADD;
	default:
		return MSG_SEND;
	}
}

struct message as_message(const struct wqe *w)
{
	return (struct message){
		.kind = kind_of(w),
		.has_imm = w->opcode == OP_WRITE_IMM || w->opcode == OP_SEND_IMM,
		.solicited = w->solicited,
		.imm = w->imm,
		.length = (uint32_t)w->length,
		.raddr = w->raddr,
		.rkey = w->rkey,
		.swap_add = w->swap_add,
		.compare = w->compare,
	};
}
