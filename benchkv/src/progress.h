/* SPDX-License-Identifier: MIT */
/* If standard error is a terminal, a line there shows the progress of rank 0. */
#ifndef BENCHKV_PROGRESS_H
#define BENCHKV_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct node;

struct progress {
	const struct node *node;
	bool wanted;
	uint32_t run; /* index of the current run; during the audit, the number of runs */
	uint64_t start_ns, shown_ns; /* start of the run; time of the last output */
	uint64_t shown_done;
};

void progress_init(struct progress *p, const struct node *n);
void progress_begin(struct progress *p, uint32_t run);
/* Must be called repeatedly while the clients work; arg is the struct progress. */
void progress_tick(void *arg);
/* Removes the line. Must be called before anything else is printed. */
void progress_end(struct progress *p);

#endif
