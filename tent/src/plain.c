/* SPDX-License-Identifier: MIT */
/* Links and ports of simple transports: see transport.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport.h"

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
