/* SPDX-License-Identifier: MIT */
/*
 * A stub transport for tests, between engines of one process: posting a slice copies the bytes with
 * memcpy().
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched.h"
#include "transport.h"

struct stub_link {
	struct link link;
	uint64_t ended[LINK_DEPTH + LINK_EXTRA]; /* tokens */
};

static int stub_probe(struct link *l, uint64_t token)
{
	((struct stub_link *)l)->ended[l->posted++] = token;
	return 0;
}

static int stub_post(struct link *l, const struct link_move *m)
{
	void *remote = (void *)(uintptr_t)m->remote;

	memcpy(m->write ? remote : m->local, m->write ? m->local : remote, m->len);
	return l->posted == LINK_DEPTH ? -EAGAIN : stub_probe(l, m->token);
}

static int stub_poll(struct link *l, link_done_fn *fn, void *arg)
{
	uint32_t n = l->posted;

	for (l->posted = 0; l->posted < n; l->posted++)
		fn(arg, ((struct stub_link *)l)->ended[l->posted], 0);
	l->posted = 0;
	return (int)n;
}

static int stub_new(struct port *p, const struct desc *peer, struct link **l_p)
{
	static const struct link_ops ops = {.post = stub_post,
		.post_probe = stub_probe,
		.poll = stub_poll,
		.destroy = link_free};

	*l_p = calloc(1, sizeof(struct stub_link));
	**l_p = (struct link){.ops = &ops, .fds = {-1, -1}};
	return 0;
}

static int stub_find(const struct tent_attr *attr, char names[TENT_MAX_RAILS][TENT_NAME_LEN],
	struct tent_why *why)
{
	strcpy(names[0], "stub0");
	strcpy(names[1], "stub1");
	return 2;
}

static int stub_open(const struct tent_attr *attr, const char *name, bool named, struct port **p_p,
	struct tent_why *why)
{
	return port_new("stub", name, p_p);
}

static const char *const kinds[] = {"stub", NULL};

extern const struct transport stub_transport;
const struct transport stub_transport = {.rails = "stubs",
	.kinds = kinds,
	.bars = true,
	.stall_ns = SCHED_NEVER,
	.find = stub_find,
	.open = stub_open,
	.close = port_free,
	.link = stub_new};
