/* SPDX-License-Identifier: MIT */
/* One row of the client's table: threads that move batches for a while. */
#ifndef TENTBENCH_ROW_H
#define TENTBENCH_ROW_H

#include "latrec.h"
#include "move_options.h"
#include "place.h"
#include "tent.h"

/* Memory of both sides; each thread has its own part of it. */
struct row_memory {
	uint8_t *source, *back; /* local memory; back: the buffer into which --check reads */
	uint64_t remote;
	struct place place; /* of the local memory */
};

struct row {
	uint64_t size, batch;
	uint32_t threads;
	uint8_t priority;
	uint64_t requests, bytes; /* completed; without the requests of --check */
	uint64_t failed, wrong; /* requests of failed batches, and requests with wrong bytes */
	int err; /* the first error */
	double seconds;
	struct latrec_hist *latency; /* ns, of a batch from submit to its end */
};

/* Creates n rows. Returns NULL if there is no memory. */
struct row *row_new(uint32_t n);
/* rows may be NULL. */
void row_free(struct row *rows, uint32_t n);

/*
 * Runs threads of all priorities. rows[i] receives the results of the threads with priority
 * o->priorities.at[i]. The caller must have set the same size and batch in all rows. 0, or -errno
 * if the threads could not run.
 */
int row_run(struct tent *t, struct tent_segment *s, const struct move_options *o,
	const struct row_memory *m, struct row *rows);

void row_header(FILE *out);
void row_print(const struct row *row, const struct move_options *o, FILE *out);
void row_json(const struct row *row, const struct move_options *o, FILE *out);

#endif
