/* SPDX-License-Identifier: MIT */
/* A region accessed as bytes, for tests of clients that break the protocol. */
#ifndef DELEGRPC_TEST_RAW_H
#define DELEGRPC_TEST_RAW_H

#include "base/shm.h"
#include "delegrpc.h"

struct raw {
	struct shm_region region;
	struct delegrpc_header *header;
	struct delegrpc_control *control;
	struct delegrpc_line *lines;
	unsigned char *requests;
	unsigned char *responses;
	uint32_t req_stride;
};

/* Maps the region of a living server, without locking a client's byte. Failure ends the test. */
struct raw *raw_open(const char *name);
void raw_close(struct raw *raw);
void raw_end(struct raw **raw);

/* RAW *raw = raw_open(name); the region is unmapped at the end of the variable's block. */
#define RAW __attribute__((cleanup(raw_end))) struct raw

/*
 * Acts as this client: locks its byte of the file, claims and reserves n slots (see delegrpc(7)),
 * and fills none of them. Returns the position of the first one.
 */
uint64_t raw_reserve(struct raw *raw, uint32_t client, uint32_t n);

/* The id of a request, as a client with that generation makes it. */
#define RAW_ID(generation, index) ((uint64_t)(generation) << DELEGRPC_ID_SHIFT | (index))

/*
 * Fills one slot with a 4 B payload. The bits of @client above the lowest 12 are the burst field.
 */
void raw_fill(struct raw *raw, uint64_t pos, uint32_t client, uint64_t id, uint32_t value);

/* Like raw_fill(), with a length that may differ from that of the payload. */
void raw_fill_length(struct raw *raw, uint64_t pos, uint32_t client, uint64_t id, uint32_t value,
	uint32_t len);

#endif
