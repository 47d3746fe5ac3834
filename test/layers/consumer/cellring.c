/* SPDX-License-Identifier: MIT */
/* A user of cellring and of nothing else: one message through a ring. */
#include <cellring.h>

static __attribute__((aligned(64))) unsigned char ring[4096];

int main(void)
{
	struct cellring_plan plan = cellring_plan_for(8, 4, 0);
	struct cellring_cursor out, in;
	uint64_t n = 41, head;

	if (cellring_bytes(&plan) > sizeof(ring))
		return 1;
	cellring_cursor_init(&out, ring, &plan);
	cellring_cursor_init(&in, ring, &plan);
	cellring_put(&out, 7, &n, sizeof(n));
	head = cellring_look(&in);
	if (!head || cellring_arrive(&in, head) != 1 || CELLRING_ID(cellring_head(in.slot)) != 7)
		return 1;
	cellring_copy(&n, cellring_payload(in.slot), sizeof(n));
	cellring_next(&in);
	return n == 41 && !cellring_ready(&in) ? 0 : 1;
}
