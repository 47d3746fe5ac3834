/* SPDX-License-Identifier: MIT */
/*
 * Statistics of many files. Each file is checked, counted once, and merged; unusable files are
 * reported and skipped.
 */
#ifndef RDMABENCH_GATHER_H
#define RDMABENCH_GATHER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "latrec.h"
#include "stats.h"

struct gather_attr {
	bool compat; /* text files, merged by the compatible rule; otherwise JSON lines */
	const char *run; /* only files of this run; NULL: any */
	uint64_t max_age_s; /* older files are skipped; 0: no limit */
};

struct gather;

/* @attr must live as long as the object. Returns NULL if out of memory. */
struct gather *gather_create(const struct gather_attr *attr);
void gather_destroy(struct gather *g);

/*
 * Adds the content of a file whose name is @source. With attr.compat the caller must check the age.
 */
void gather_add(struct gather *g, const char *source, const char *text, size_t len);
/* Adds a file, or all .jsonl files (with attr.compat .txt files) below a directory. */
void gather_path(struct gather *g, const char *path);
/* Records a file that could not be read, or a host that did not answer. */
void gather_skip(struct gather *g, const char *source, const char *why);

/* Merges all files. Returns false if they have no samples. gather_hist() and gather_merged() may
 * only be called afterwards. */
bool gather_merge(struct gather *g);

/* Returns the merged histogram; only without attr.compat. */
const struct latrec_hist *gather_hist(const struct gather *g);
/* Returns the merged figures. */
const struct stats_merged *gather_merged(const struct gather *g);

/*
 * Number of comparisons made to find duplicates. Tests check that it grows as n log n with the
 * input.
 */
uint64_t gather_looks(const struct gather *g);

/* Return borrowed arrays of names, and of objects with source and why. */
json_t *gather_sources(const struct gather *g);
json_t *gather_skipped(const struct gather *g);

#endif
