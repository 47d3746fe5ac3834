/* SPDX-License-Identifier: MIT */
/*
 * The functions of launch.h for ranks that are tasks of one process: published data is in a list.
 */
#include "meeting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "tasks.h"

#define LOOK_NS 1000

struct said {
	struct said *next;
	uint32_t rank;
	size_t len;
	char key[64];
	uint32_t number;
	unsigned char data[];
};

static struct {
	uint32_t ranks, arrived, fences;
	struct said *said;
} meeting;

void meeting_begin(struct launch *ranks, uint32_t n)
{
	meeting.ranks = n;
	for (uint32_t r = 0; r < n; r++) {
		ranks[r] = (struct launch){.rank = r};
		snprintf(ranks[r].job, sizeof(ranks[r].job), "timed-%d", (int)getpid());
	}
}

void meeting_end(void)
{
	while (meeting.said) {
		struct said *next = meeting.said->next;

		free(meeting.said);
		meeting.said = next;
	}
}

int launch_put(struct launch *l, const char *key, uint32_t number, const void *data, size_t len)
{
	struct said *s = malloc(sizeof(*s) + len);

	CHECK(s);
	*s = (struct said){.next = meeting.said, .number = number, .rank = l->rank, .len = len};
	snprintf(s->key, sizeof(s->key), "%s", key);
	memcpy(s->data, data, len);
	meeting.said = s;
	return 0;
}

int launch_fence(struct launch *l, uint64_t timeout_ns)
{
	uint32_t mine = meeting.fences;

	if (++meeting.arrived == meeting.ranks) {
		meeting.arrived = 0;
		meeting.fences++;
	}
	while (meeting.fences == mine)
		task_spend(LOOK_NS);
	return 0;
}

int launch_meet(struct launch *l, uint64_t timeout_ns, char *why, int size)
{
	return launch_fence(l, timeout_ns);
}

int launch_get(struct launch *l, uint32_t rank, const char *key, uint32_t number,
	uint64_t timeout_ns, void **data_p, size_t *len_p)
{
	for (struct said *s = meeting.said; s; s = s->next) {
		if (s->rank != rank || s->number != number || strcmp(s->key, key) != 0)
			continue;
		*data_p = malloc(s->len);
		CHECK(*data_p);
		memcpy(*data_p, s->data, s->len);
		*len_p = s->len;
		return 0;
	}
	return -ENOENT;
}
