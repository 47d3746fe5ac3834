/* SPDX-License-Identifier: MIT */
/* The common part of the examples. */
#ifndef ECHO_H
#define ECHO_H

#include <copyrpc_tcp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void check(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(-rc));
		exit(1);
	}
}

/* Returns the reason why no connection was made. */
static inline const char *reason(const struct copyrpc_ctx *ctx, int rc)
{
	static char line[128];

	if (rc == -EPROTONOSUPPORT)
		copyrpc_ctx_versions(ctx, line, sizeof(line));
	return rc == -EPROTONOSUPPORT ? line : strerror(-rc);
}

static inline void check_connect(const struct copyrpc_ctx *ctx, int rc)
{
	if (rc < 0) {
		fprintf(stderr, "connect: %s\n", reason(ctx, rc));
		exit(1);
	}
}

/* Without a device, the program is executed again under the software HCA. */
static inline struct copyrpc_ctx *open_device(char **argv)
{
	struct copyrpc_ctx *ctx;
	int rc = copyrpc_ctx_create(NULL, &ctx);

	if (rc == -ENODEV && !getenv("ECHO_UNDER_SOFTHCA")) {
		fprintf(stderr, "no mlx5 device: running under the software HCA (softhca-run)\n");
		setenv("ECHO_UNDER_SOFTHCA", "1", 1);
		execlp("softhca-run", "softhca-run", argv[0], argv[1], argv[1] ? argv[2] : NULL,
			(char *)NULL);
		perror("softhca-run");
	}
	check(rc, "context");
	return ctx;
}

#endif
