/* SPDX-License-Identifier: MIT */
#include "audit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define KEY_MADE "benchkv.made"

static int exchange(struct node *n, const struct history_made *own, char *why, int size)
{
	size_t of_rank = n->o->clients * sizeof(*own);
	int err = launch_put(n->launch, KEY_MADE, own, of_rank);

	if (!err)
		err = launch_meet(n->launch, n->o->timeout_ns, why, size);
	else
		snprintf(why, (size_t)size, "the launcher failed");
	for (uint32_t i = 0; !err && i < n->ranks; i++) {
		if (i == n->rank)
			continue;
		err = launch_get_struct(n->launch, i, KEY_MADE, n->o->timeout_ns,
			&n->made[(size_t)i * n->o->clients], of_rank);
		if (err)
			snprintf(why, (size_t)size,
				"rank %u did not publish its operation counts: %s", i,
				strerror(-err));
	}
	return err;
}

int audit_prepare(struct node *n, char *why, int size)
{
	struct history_made *own;

	n->made = calloc((size_t)n->ranks * n->o->clients, sizeof(*n->made));
	if (!n->made)
		return -ENOMEM;
	own = &n->made[(size_t)n->rank * n->o->clients];
	for (uint32_t i = 0; i < n->o->clients; i++)
		own[i] = n->clients[i].made;
	return exchange(n, own, why, size);
}
