/* SPDX-License-Identifier: MIT */
/* A user of copyrpc and of nothing else; a device that does not exist is refused. */
#include <errno.h>
#include <stdio.h>

#include <copyrpc.h>

int main(void)
{
	struct copyrpc_ctx_attr attr = {};
	struct copyrpc_ctx *ctx = NULL;
	int err;

	attr.device = "no_such_device";
	err = copyrpc_ctx_create(&attr, &ctx);
	printf("%d\n", err);
	copyrpc_ctx_destroy(ctx);
	return err == -ENODEV ? 0 : 1;
}
