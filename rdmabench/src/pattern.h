/* SPDX-License-Identifier: MIT */
/*
 * The pattern that a queue pair sends repeatedly: requests separated by commas. A request is
 * OP_N_LENGTH[_LENGTH]... with N lengths of 1 to 8388608 bytes. Each is the length of a place
 * (scatter/gather element) of the payload:
 *
 *	w_1_65536,s_2_4096_512		a WRITE of 64 KiB, then a SEND of 4608 bytes in two places
 *
 * OP is w (WRITE), wi (WRITE with immediate), r (READ), s (SEND), si (SEND with immediate),
 * a (fetch-and-add) or c (compare-and-swap); the last two have one place of 8 bytes.
 */
#ifndef RDMABENCH_PATTERN_H
#define RDMABENCH_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATTERN_TEXT_MAX 256 /* with the terminating 0 */
#define PATTERN_REQUESTS 8
#define PATTERN_PLACES 4
#define PATTERN_LENGTH_MAX (8u << 20)

enum pattern_kind { PATTERN_WRITE, PATTERN_READ, PATTERN_SEND, PATTERN_ATOMIC };

struct pattern_request {
	uint8_t opcode; /* enum mlx5dvl_opcode */
	uint8_t kind; /* enum pattern_kind */
	bool receives; /* consumes a receive of the peer */
	uint8_t n;
	uint32_t len[PATTERN_PLACES];
	uint32_t total;
};

struct pattern {
	uint32_t n;
	struct pattern_request request[PATTERN_REQUESTS];
	uint32_t largest; /* total of a request */
	uint32_t largest_send; /* 0: no SEND */
	uint32_t receives; /* number of requests that consume a receive of the peer */
	uint32_t kinds; /* 1 << enum pattern_kind, of all requests */
};

/* Returns 0, or -EINVAL with one line in @why: the mistake and the valid values. */
int pattern_parse(const char *text, struct pattern *p_p, char *why, size_t size);

/* Returns the name OP of an opcode. */
const char *pattern_op_name(uint8_t opcode);

#endif
