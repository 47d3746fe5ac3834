/* SPDX-License-Identifier: MIT */
/*
 * Statistics of many files: each is checked, counted once, and merged. What cannot be used is
 * named and skipped.
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
	bool compat; /* text files, by the compatible rule; else JSON lines with histograms */
	const char *run; /* only of this run; NULL: any */
	uint64_t max_age_s; /* older ones are skipped; 0: none is too old */
};

struct gather;

/* attr must live as long. NULL: out of memory. */
struct gather *gather_create(const struct gather_attr *attr);
void gather_destroy(struct gather *g);

/* The content of a file; source names it. With attr.compat its age is the caller's to tell. */
void gather_add(struct gather *g, const char *source, const char *text, size_t len);
/* A file, or all below a directory whose names end as they should. */
void gather_path(struct gather *g, const char *path);
/* Names what could not be read, or a host that did not answer. */
void gather_skip(struct gather *g, const char *source, const char *why);

/* Merges all. False: there was nothing. Afterwards the functions below may be called. */
bool gather_merge(struct gather *g);

/* Without attr.compat. */
const struct latrec_hist *gather_hist(const struct gather *g);
/* With attr.compat. */
const struct stats_merged *gather_merged(const struct gather *g);

/* Looks at lines and files for the same one: for tests, that they stay in proportion. */
uint64_t gather_looks(const struct gather *g);

/* Borrowed: arrays of names, and of objects with source and why. */
json_t *gather_sources(const struct gather *g);
json_t *gather_skipped(const struct gather *g);

#endif
