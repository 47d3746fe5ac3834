/* SPDX-License-Identifier: MIT */
#include "audit.h"

#include <stdio.h>
#include <string.h>

#include "client.h"

#define KEY_MADE "made"

int audit_prepare(struct node *n, char *why, int size)
{
	uint32_t clients = n->o->clients;
	size_t of_rank = clients * sizeof(*n->made);
	int err = launch_put(n->launch, KEY_MADE, 0, &n->made[(size_t)n->rank * clients], of_rank);

	if (!err)
		err = launch_meet(n->launch, n->o->timeout_ns, why, size);
	else
		snprintf(why, (size_t)size, "the launcher failed");
	for (uint32_t i = 0; !err && i < n->ranks; i++) {
		if (i == n->rank)
			continue;
		err = launch_get_struct(n->launch, i, KEY_MADE, 0, n->o->timeout_ns,
			&n->made[(size_t)i * clients], of_rank);
		if (err)
			snprintf(why, (size_t)size,
				"rank %u did not publish its operation counts: %s", i,
				strerror(-err));
	}
	return err;
}
