/* SPDX-License-Identifier: MIT */
/* A line on standard error that tells how far rank 0 is, when that is a terminal. */
#ifndef BENCHKV_PROGRESS_H
#define BENCHKV_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct node;

struct progress {
	const struct node *node;
	bool wanted;
	uint32_t run; /* the present one; as many as there are: the audit */
	uint64_t start_ns, shown_ns; /* of the run; when the line was written */
	uint64_t shown_done;
};

void progress_init(struct progress *p, const struct node *n);
void progress_begin(struct progress *p, uint32_t run);
/* Now and then, while the clients work; arg is the progress. */
void progress_tick(void *arg);
/* Before anything else is printed: the line is gone. */
void progress_end(struct progress *p);

#endif
