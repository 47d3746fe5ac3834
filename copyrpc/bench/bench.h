/* SPDX-License-Identifier: MIT */
/* Options and results of copyrpc-bench. */
#ifndef COPYRPC_BENCH_H
#define COPYRPC_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "copyrpc.h"

#define ENDPOINTS_MAX 16384

struct options {
	const char *host; /* NULL: server */
	const char *device;
	uint32_t port, size, allowance, endpoints, ring_size;
	struct arg_list depths;
	uint32_t max_depth;
	uint32_t rate; /* calls per second; 0: no limit */
	double duration; /* s */
	bool both;
	bool events; /* sleep instead of polling */
	bool ucx; /* UCX active messages, too */
	FILE *json; /* NULL: none */
};

/* Both sides use the same values. The struct is sent without conversion: both machines must be of
 * the same type. */
struct plan {
	uint32_t size, allowance, endpoints, ring_size, max_depth, events;
};

/* The sums of both sides; cpu_ns and wakes are of the server only. */
struct counts {
	uint64_t wqes, doorbells, batches, messages;
	uint64_t cpu_ns, wakes;
};

struct result {
	const char *impl;
	struct plan plan;
	uint32_t depth;
	uint64_t calls, ns, p50, p99;
	struct counts counts;
};

/*
 * An implementation of calls: copyrpc or UCX. A slot has room for one pending call, which is
 * made on endpoint number slot / depth.
 */
struct client;
struct impl {
	const char *name;
	void *(*open)(const struct options *o, const struct plan *p, int fd, bool server);
	/* Makes the call of this slot on the endpoint. Returns 1, or 0 if it is not possible
	 * now. */
	int (*call)(void *self, uint32_t ep, uint32_t slot);
	/* Polls, and calls slot_ended(c, slot) for each answer. Returns 0 if there was nothing to
	 * do. */
	int (*poll)(void *self, struct client *c);
	/* Sleeps until poll has work, @fd (-1: none) is readable, or @ms milliseconds have passed
	 * (-1: no limit). NULL: this implementation cannot sleep. */
	void (*sleep)(void *self, int fd, int ms);
	struct counts (*counts)(void *self);
	void (*close)(void *self);
};
extern const struct impl copyrpc_impl;
extern const struct impl ucx_impl; /* only if UCX is installed */

void slot_ended(struct client *c, uint32_t slot);

/* The payload of all requests and answers; its content is not used. */
#define PAYLOAD_MAX (COPYRPC_PAYLOAD_MAX(COPYRPC_RING_MAX) / 64)
extern uint8_t payload[PAYLOAD_MAX];

_Noreturn void fail(const char *what, int err);
void put(int fd, const void *data, size_t len);
void get(int fd, void *data, size_t len);

/* Ends the program with one line about the wrong option, and status 2. */
_Noreturn __attribute__((format(printf, 1, 2))) void refuse(const char *format, ...);

/* Ends the program if there is no such mlx5 device; opens no device. If @device is NULL and there
 * is no mlx5 device at all, executes the program again under the software HCA. */
void hca_check(const char *device, char **argv);

/* Reads the counts of the software HCA for this process. Returns false, with *c unchanged, if there
 * is no software HCA. */
bool hca_counts(struct counts *c);

/*
 * True if the rings fit into the host's memory: two per endpoint, @ends endpoints per connection.
 */
bool rings_fit(uint64_t endpoints, uint64_t ring_size, uint32_t ends);

/* Ends the program after --help, with status 0, and after a wrong option, with status 2. */
void options_parse(struct options *o, int argc, char **argv);

void report_begin(const struct options *o);
void report(const struct options *o, const struct result *r);
void report_end(const struct options *o);

#endif
