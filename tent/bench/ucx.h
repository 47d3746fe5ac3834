/* SPDX-License-Identifier: MIT */
/* UCX as a peer of tent: the server lends memory, and the client puts bytes into it. */
#ifndef TENTBENCH_UCX_H
#define TENTBENCH_UCX_H

#include <stdint.h>

struct ucx;

#ifdef HAVE_UCX

/*
 * The server's side: UCX allocates @len bytes, which the client maps and writes over UCX's
 * transport posix. With @len 0, the client writes other memory of the server, over UCX's transport
 * cma. Stores in *line_p the line that the client passes to ucx_open(), without a newline; the
 * caller must free it. All functions that return an int return 0, or 1 after they have printed why.
 */
int ucx_lend(uint64_t len, struct ucx **u_p, char **line_p);
/* Serves until a byte arrives at @fd. The client sends the byte after its first put. */
void ucx_serve(struct ucx *u, int fd);

/* @remote: address of the server's memory, for puts over cma. */
int ucx_open(const char *line, uint64_t remote, struct ucx **u_p);
/* Puts bytes at the beginning of the server's memory, and waits until they are in place. */
int ucx_put(void *u, const uint8_t *from, uint64_t len);

/* NULL is allowed. */
void ucx_close(struct ucx *u);

#else /* never called: without UCX no option requests it */

static inline int ucx_lend(uint64_t len, struct ucx **u_p, char **line_p)
{
	return 1;
}

static inline void ucx_serve(struct ucx *u, int fd)
{
}

static inline int ucx_open(const char *line, uint64_t remote, struct ucx **u_p)
{
	return 1;
}

static inline int ucx_put(void *u, const uint8_t *from, uint64_t len)
{
	return 1;
}

static inline void ucx_close(struct ucx *u)
{
}

#endif

#endif
