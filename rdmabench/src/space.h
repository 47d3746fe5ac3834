/* SPDX-License-Identifier: MIT */
/*
 * What the search tries: a point is two traffics with their ends. Each parameter is a
 * dimension with a list of values, and a point holds the index of one of them per dimension.
 * The second traffic runs the other way, or within the first machine, or not at all.
 */
#ifndef RDMABENCH_SPACE_H
#define RDMABENCH_SPACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "traffic.h"

enum dimension_kind {
	/* Of a traffic. */
	DIM_PROCESSES, /* pairs of processes, 1 to 6 */
	DIM_QPS, /* 1 to 4 */
	DIM_MTU, /* 1024, 2048, 4096 */
	DIM_TYPE, /* RC, UC, UD */
	DIM_BIDIRECTIONAL,
	DIM_BURST, /* 0 (never a pause), 1, 4, 16, 64 batches */
	DIM_BUFFERS, /* of a QP, 1 to 4 */
	DIM_REGIONS, /* memory regions, 1 to 4, at most one per QP */
	DIM_REQUESTS, /* 1 to 8 */
	DIM_CONTROL, /* what is done beside: none, mr, qp, modify, rkey, lkey */
	DIM_INJECT, /* none, drop, rnr, delay */
	DIM_INJECT_AT, /* of message 1, 16, 256 or 4096 */
	/* Of its client and its server. */
	DIM_TX_DEPTH, /* 1 to 1024, powers of two, as all below */
	DIM_SEND_BATCH, /* 1 to 64 */
	DIM_RX_DEPTH, /* 16 to 1024 */
	DIM_RECV_BATCH, /* 1 to 64 */
	/* Of each request. */
	DIM_OP, /* w, s, r */
	DIM_SIZE, /* 32 bytes to 128 KiB */
	DIM_PLACES, /* 1 to 4 */
	DIM_KINDS,
	/* Of the second traffic alone. */
	DIM_DIRECTION = DIM_KINDS, /* none, reverse, loopback */
};

#define SPACE_PER_TRAFFIC (DIM_OP + 3 * PATTERN_REQUESTS)
#define SPACE_DIRECTION (2 * SPACE_PER_TRAFFIC)
#define SPACE_DIMS (SPACE_DIRECTION + 1)
#define SPACE_NAME 32

enum direction { DIRECTION_NONE, DIRECTION_REVERSE, DIRECTION_LOOPBACK };

struct point {
	uint8_t at[SPACE_DIMS]; /* the index of the value */
};

/* The dimension of a traffic (0 or 1); of a request's kinds, of the request. */
unsigned space_dim(unsigned traffic, enum dimension_kind kind, unsigned request);
/* How many values it has. */
unsigned space_values(unsigned dim);
/* "0.qp_num", "1.request3.size", "1.direction". */
void space_name(unsigned dim, char name[SPACE_NAME]);

/* The value of an index as text: "4", "RC", "reverse". */
void space_value(unsigned dim, unsigned at, char value[SPACE_NAME]);

/* Parameters that keep one value. */
struct fixed {
	bool on[SPACE_DIMS];
	struct point point;
};

/*
 * Adds "NAME=VALUE", as space_name() and space_value() write them. 0; -EINVAL: why says what is
 * wrong and what to give, in one line.
 */
int fixed_add(struct fixed *f, const char *text, char *why, size_t size);

/*
 * Gives the parameters of a point their fixed values, and settles it. Of values that cannot be
 * together, point_settle() decides.
 */
void fixed_apply(const struct fixed *f, struct point *p);

/*
 * What has no effect gets the index 0 (requests that are not sent, all of a traffic that does
 * not run), and what cannot be together is made possible: a batch is no larger than the depth,
 * a region has a QP, UC has no READ, UD has SENDs of one packet.
 */
void point_settle(struct point *p);
/* Whether the dimension has an effect. */
bool point_uses(const struct point *p, unsigned dim);
/* Every dimension drawn anew. */
void point_random(struct point *p, uint64_t *rand);
/* One dimension that has an effect gets another value: half of the time the next one. */
void point_mutate(struct point *p, uint64_t *rand);
bool point_equal(const struct point *a, const struct point *b);

/* How many pairs of processes, and what each sends. 0 processes: that traffic does not run. */
uint32_t point_traffic(const struct point *p, unsigned traffic, struct traffic *t_p);

/* {"Traffics": [...]}, as result files begin; see rdmabench(1). */
json_t *point_json(const struct point *p);
/* False: it is no point. */
bool point_from_json(const json_t *o, struct point *p_p);

#endif
