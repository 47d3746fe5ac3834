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
	uint32_t rate; /* calls per second; 0: as fast as they end */
	double duration; /* s */
	bool both;
	bool events; /* sleep instead of polling */
	bool ucx; /* UCX active messages, too */
	FILE *json; /* NULL: none */
};

/* Both sides use the same values. Both ends are machines of one type. */
struct plan {
	uint32_t size, allowance, endpoints, ring_size, max_depth, events;
};

/* Sums of both sides. cpu_ns and wakes are the server's. */
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
 * One way to make calls, of which copyrpc is one. A slot is a call that may be under way,
 * and belongs to the endpoint slot / depth.
 */
struct client;
struct impl {
	const char *name;
	void *(*open)(const struct options *o, const struct plan *p, int fd, bool server);
	/* The endpoint's request with this slot's number: 1, or 0: not now. */
	int (*call)(void *self, uint32_t ep, uint32_t slot);
	/* Answers are told by slot_ended(c, slot); 0: there was nothing to do. */
	int (*poll)(void *self, struct client *c);
	/* Sleeps until poll has something to do, fd (-1: none) is readable, or ms are over (-1:
	 * no limit); NULL: it cannot. */
	void (*sleep)(void *self, int fd, int ms);
	struct counts (*counts)(void *self);
	void (*close)(void *self);
};
extern const struct impl copyrpc_impl;
extern const struct impl ucx_impl; /* where UCX is there */

void slot_ended(struct client *c, uint32_t slot);

/* Requests and answers come from here; nobody looks at them. */
#define PAYLOAD_MAX (COPYRPC_PAYLOAD_MAX(COPYRPC_RING_MAX) / 64)
extern uint8_t payload[PAYLOAD_MAX];

_Noreturn void fail(const char *what, int err);
void put(int fd, const void *data, size_t len);
void get(int fd, void *data, size_t len);

/* Ends the program with one line that says what to give, and status 2. */
_Noreturn __attribute__((format(printf, 1, 2))) void refuse(const char *format, ...);

/* Ends the program if there is no such mlx5 device, without opening any. If there is none at all,
 * and none is named, executes the program again under the software HCA. */
void hca_check(const char *device, char **argv);

/* Reads the counts of the software HCA for this process. False, with *c unchanged: there is none. */
bool hca_counts(struct counts *c);

/* True if the rings of so many endpoints, two each, of one end or two, fit into the memory. */
bool rings_fit(uint64_t endpoints, uint64_t ring_size, uint32_t ends);

/* Ends the program when there is nothing to run: 0 after --help, else 2. */
void options_parse(struct options *o, int argc, char **argv);

void report_begin(const struct options *o);
void report(const struct options *o, const struct result *r);
void report_end(const struct options *o);

#endif
