/* SPDX-License-Identifier: MIT */
/* Default functions for the tables of simple transports: see transport.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport.h"

void link_no_end(const struct link *l, struct link_end *end_p)
{
	*end_p = (struct link_end){0};
}

int link_no_connect(struct link *l, const struct link_end *peer)
{
	return 0;
}

int link_no_marks(struct link *l, int max, link_mark_fn *fn, void *arg)
{
	return 0;
}

int link_no_stop(struct link *l)
{
	return 0;
}

void link_nothing(struct link *l)
{
}

void link_free(struct link *l)
{
	free(l);
}

int port_new(const char *kind, const char *name, struct port **p_p)
{
	struct port *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct port){.id.kind = kind, .max_region = UINT64_MAX, .fd = -1};
	strcpy(p->id.name, name);
	*p_p = p;
	return 0;
}

void port_free(struct port *p)
{
	free(p);
}
