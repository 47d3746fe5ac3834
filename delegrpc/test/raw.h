/* SPDX-License-Identifier: MIT */
/* A region seen as bytes: for tests that break the rules a client keeps. */
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

/* Maps the region of a living server, holding no client's byte; ends the test if it cannot. */
void raw_open(const char *name, struct raw *raw);
void raw_close(struct raw *raw);

/* Is a client: takes the byte, and reserves n slots under a claim, filling none. */
uint64_t raw_reserve(struct raw *raw, uint32_t client, uint32_t n);

/* Fills one slot with a 4 B payload; client may have more than its 16 bits. */
void raw_fill(struct raw *raw, uint64_t pos, uint32_t client, uint32_t id, uint32_t value);

#endif
