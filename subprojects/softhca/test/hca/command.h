/* SPDX-License-Identifier: MIT */
/* Writes commands to a device as libibverbs does, but without the checks of libibverbs. */
#ifndef SOFTHCA_TEST_COMMAND_H
#define SOFTHCA_TEST_COMMAND_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <string.h>
#include <sys/ioctl.h>

union command {
	struct ib_uverbs_ioctl_hdr h;
	char bytes[sizeof(struct ib_uverbs_ioctl_hdr) + 8 * sizeof(struct ib_uverbs_attr)];
};

/* Adds an attribute. @data: an input of at most 8 bytes, or the address of the input or output. */
static inline void command_add(union command *c, uint16_t id, uint16_t len, uint64_t data)
{
	c->h.attrs[c->h.num_attrs++] =
		(struct ib_uverbs_attr){.attr_id = id, .len = len, .data = data};
}

/* Returns 0 or -errno. */
static inline int command_execute(union command *c, struct ibv_context *ctx, uint16_t object,
	uint16_t method)
{
	c->h.length = (uint16_t)(sizeof(c->h) + c->h.num_attrs * sizeof(c->h.attrs[0]));
	c->h.object_id = object;
	c->h.method_id = method;
	return ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, c) ? -errno : 0;
}

static inline void command_add_input(union command *c, uint16_t id, const void *in, uint16_t len)
{
	uint64_t data = (uintptr_t)in;

	if (len && len <= sizeof(data)) {
		data = 0;
		memcpy(&data, in, len);
	}
	if (len)
		command_add(c, id, len, data);
}

/*
 * Executes the command with a @number of IB_USER_VERBS_CMD_*. @driver: the driver's part of its
 * input. @in, @driver or @out is omitted if its length is 0. Returns 0 or -errno.
 */
static inline int command_write(struct ibv_context *ctx, uint64_t number, const void *in,
	uint16_t in_len, const void *driver, uint16_t driver_len, void *out, uint16_t out_len)
{
	union command c = {0};

	command_add(&c, UVERBS_ATTR_WRITE_CMD, sizeof(number), number);
	command_add_input(&c, UVERBS_ATTR_CORE_IN, in, in_len);
	command_add_input(&c, UVERBS_ATTR_UHW_IN, driver, driver_len);
	if (out_len)
		command_add(&c, UVERBS_ATTR_CORE_OUT, out_len, (uintptr_t)out);
	return command_execute(&c, ctx, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
}

#endif
