/* SPDX-License-Identifier: MIT */
#include "uverbs/cmd.h"

#include <string.h>

#include "dma/pool.h"

void cmd_get(struct span from, void *to, size_t len)
{
	size_t n = from.len < len ? from.len : len;

	memset(to, 0, len);
	memcpy(to, from.p, n);
}

void cmd_put(struct span to, const void *from, size_t len)
{
	size_t n = to.len < len ? to.len : len;

	memcpy(to.p, from, n);
	memset((char *)to.p + n, 0, to.len - n);
}

struct ib_uverbs_attr *cmd_attr(struct ib_uverbs_ioctl_hdr *h, uint16_t id, uint16_t len)
{
	for (unsigned i = 0; i < h->num_attrs; i++)
		if (h->attrs[i].attr_id == id)
			return h->attrs[i].len == len ? &h->attrs[i] : NULL;
	return NULL;
}

uint64_t uverbs_channel_fifo(int fd)
{
	struct fd_entry e = fds_get(fd);

	return e.kind == FD_CHANNEL ? e.value : 0;
}

int uverbs_channel_add(int fd, uint64_t fifo)
{
	return fds_set(fd, FD_CHANNEL, fifo);
}

void cmd_enter_pool(struct cmd *c, uint64_t buf, uint64_t len, uint64_t dbrec)
{
	c->buf = (struct pooled){buf, pool_enter(buf, len, c->u)};
	c->dbrec = (struct pooled){dbrec, pool_enter_record(dbrec, c->u)};
}

/*
 * The queue owns the memory from now on: if this thread loses the mutex and the command fails, the
 * memory must not be released.
 */
void cmd_give_pooled(struct cmd *c, uint64_t *buf_shift_p, uint64_t *dbrec_shift_p)
{
	*buf_shift_p = c->buf.shift;
	*dbrec_shift_p = c->dbrec.shift;
	c->buf.shift = c->dbrec.shift = 0;
}
