/* SPDX-License-Identifier: MIT */
/* Functions that begin and end a command. */
#include "cm/ids.h"
#include "dma/dma.h"
#include "ucma/commands.h"

int ucma_find(const struct ucma_cmd *c, uint32_t index, const sigset_t *saved, struct cm_id **id_p)
{
	int r = cm_find(index, c->fifo, id_p);

	if (r)
		fabric_leave(saved);
	return r;
}

int ucma_leave(const sigset_t *saved, int r)
{
	fabric_leave(saved);
	return r;
}

int ucma_answer(const struct ucma_cmd *c, uint64_t to, const void *from, size_t len)
{
	return dma_write(fabric_self.slot, to, from, len < c->out_len ? len : c->out_len);
}
