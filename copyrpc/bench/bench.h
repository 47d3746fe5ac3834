/* SPDX-License-Identifier: MIT */
/* What copyrpc-bench is asked for, and what it says. */
#ifndef COPYRPC_BENCH_H
#define COPYRPC_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copyrpc.h"

#define DEPTHS 16
#define ENDPOINTS_MAX 16384

struct options {
	const char *host; /* NULL: server */
	const char *device;
	uint32_t port, size, allowance, endpoints, ring_size;
	uint32_t depths[DEPTHS], ndepths, max_depth;
	double duration; /* s */
	bool both;
	FILE *json; /* NULL: none */
};

/* What both sides have to agree on; the same machine type at both ends. */
struct plan {
	uint32_t size, allowance, endpoints, ring_size;
};

/* Of both sides together. */
struct counts {
	uint64_t wqes, doorbells, batches, messages;
};

struct result {
	const char *impl;
	struct plan plan;
	uint32_t depth;
	uint64_t calls, ns, p50, p99;
	struct counts counts;
};

/* Ends the program when there is nothing to run: 0 after --help, else 2. */
void options_parse(struct options *o, int argc, char **argv);

void report_begin(const struct options *o);
void report(const struct options *o, const struct result *r);
void report_end(const struct options *o);

#endif
