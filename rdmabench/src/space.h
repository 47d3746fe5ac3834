/* SPDX-License-Identifier: MIT */
/*
 * The space of the search. A point describes two traffic flows and their endpoints. Each parameter
 * is a dimension with a list of values, and a point has an index into this list per dimension. The
 * second flow runs in the other direction, or within the first machine, or not at all. The built-in
 * lists are those of the comments below; spacefile.h changes them.
 */
#ifndef RDMABENCH_SPACE_H
#define RDMABENCH_SPACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "traffic.h"

enum dimension_kind {
	/* Parameters of a traffic flow. */
	DIM_PROCESSES, /* pairs of processes, 1 to 6 */
	DIM_QPS, /* of a pair, 1 to 1024, powers of four */
	DIM_MTU, /* 256 to 4096 */
	DIM_TYPE, /* RC, UC, UD */
	DIM_BIDIRECTIONAL,
	DIM_BURST, /* a pause after 1, 4, 16 or 64 batches; 0: never */
	DIM_BUFFERS, /* buffers of a QP, 1 to 4 */
	DIM_REGIONS, /* memory regions, 1 to 4, at most one per QP */
	DIM_REQUESTS, /* 1 to 8 */
	DIM_CONTROL, /* operations during the traffic: none, mr, qp, modify, rkey, lkey */
	DIM_INJECT, /* none, drop, rnr, delay */
	DIM_INJECT_AT, /* at message 1, 16, 256 or 4096 */
	DIM_EVENTS, /* both sides sleep until a completion event */
	DIM_INLINE, /* payloads of up to 0, 55, 110 or 220 bytes are in the request */
	/* Rare parameters: every second draw is the engine's default, the others are any value. */
	DIM_RATE, /* requests per second: 0 (no limit), 1024, 32768, 1048576 */
	DIM_BURST_PAUSE, /* 25, 100, 400 microseconds */
	DIM_CONTROL_EVERY, /* 250, 1000, 4000 microseconds */
	DIM_CQ_MOD, /* 1, 4, 16, 64 */
	DIM_OUTS, /* READs and atomics outstanding: 1, 4, 16 */
	DIM_QP_TIMEOUT, /* 14, 15, 16 */
	DIM_RETRIES, /* 5, 6, 7 */
	DIM_SL, /* 0, 3 */
	DIM_TCLASS, /* 0, 104 (DSCP 26) */
	/* Parameters of the flow's client and server. */
	DIM_TX_DEPTH, /* 1 to 1024, powers of two, as all below */
	DIM_SEND_BATCH, /* 1 to 64 */
	DIM_RX_DEPTH, /* 16 to 1024 */
	DIM_RECV_BATCH, /* 1 to 64 */
	/* Parameters of each request. */
	DIM_OP, /* w, s, r, wi, si, a, c */
	DIM_SIZE, /* 32 bytes to 128 KiB; of an atomic 8 */
	DIM_PLACES, /* 1 to 4 */
	DIM_KINDS,
	/* Parameter of the second traffic alone. */
	DIM_DIRECTION = DIM_KINDS, /* none, reverse, loopback */
};

#define SPACE_PROCESSES 6 /* pairs of processes, at most */
#define SPACE_PER_TRAFFIC (DIM_OP + 3 * PATTERN_REQUESTS)
#define SPACE_DIRECTION (2 * SPACE_PER_TRAFFIC)
#define SPACE_DIMS (SPACE_DIRECTION + 1)
#define SPACE_NAME 32
#define SPACE_VALUES 16 /* of a dimension, at most */

enum direction { DIRECTION_NONE, DIRECTION_REVERSE, DIRECTION_LOOPBACK };

/* The values of each dimension, in ascending order. A word is represented by its number. */
struct space {
	uint8_t n[SPACE_DIMS];
	bool given[SPACE_DIMS]; /* the user has chosen the values */
	uint32_t value[SPACE_DIMS][SPACE_VALUES];
};

struct point {
	uint8_t at[SPACE_DIMS]; /* the index of the value */
};

/* Sets the built-in values. */
void space_init(struct space *s);
/* Returns the dimension of a parameter of a traffic flow (0 or 1); @request is used for a request's
 * parameter only. */
unsigned space_dim(unsigned traffic, enum dimension_kind kind, unsigned request);
/* Returns the number of values. */
unsigned space_values(const struct space *s, unsigned dim);
/* Writes a name like "0.qp_num", "1.request3.size" or "1.direction". */
void space_name(unsigned dim, char name[SPACE_NAME]);

/* Writes the value of an index as text, like "4", "RC" or "reverse". */
void space_value(const struct space *s, unsigned dim, unsigned at, char value[SPACE_NAME]);
/*
 * Reads a value of the parameter. It may be any that the engine accepts, even if the dimension's
 * list does not have it. Returns 0, or -EINVAL with one line in @why: the mistake and the valid
 * values.
 */
int space_parse(unsigned dim, const char *text, uint32_t *value_p, char *why, size_t size);
/*
 * Returns true if this kind of QP (enum mlx5dvl_qp_type) supports the operation, a value of DIM_OP.
 */
bool space_op_fits(uint32_t type, uint32_t op);

/*
 * Makes a point canonical and valid. Parameters without an effect (for example of a flow that does
 * not run) get the index 0. Values are changed so that no batch is larger than the depth, the depth
 * is possible with the number of QPs, there are at most as many regions as QPs, UC has no READs and
 * atomics, and UD has only SENDs of one packet.
 */
void point_settle(const struct space *s, struct point *p);
/*
 * Marks in @taken the parameters on which the validity of parameter @dim's value depends. Returns
 * true if one of these parameters was not marked yet.
 */
bool space_take_parents(unsigned dim, bool taken[SPACE_DIMS]);
/* Returns true if the values are numbers. */
bool space_is_ordered(unsigned dim);
/* Draws every dimension independently, and settles the point. */
void point_random(const struct space *s, struct point *p, uint64_t *rand);
/* Changes the value of one dimension that has an effect and more than one value: with probability
 * 1/2 to a neighbouring value, otherwise to any other value. */
void point_mutate(const struct space *s, struct point *p, uint64_t *rand);
bool point_equal(const struct point *a, const struct point *b);

/*
 * Writes the traffic of a process pair. Returns the number of process pairs; 0: this flow does not
 * run.
 */
uint32_t point_traffic(const struct space *s, const struct point *p, unsigned traffic,
	struct traffic *t_p);
/* Returns the direction of the second flow. */
enum direction point_direction(const struct space *s, const struct point *p);
/* Returns the position of the value among the built-in ones, from 0 (the first) to 1 (the last). */
double point_place(const struct space *s, const struct point *p, unsigned dim);

/* Returns {"Traffics": [...]}, the beginning of result files; see rdmabench(1). */
json_t *point_json(const struct space *s, const struct point *p);

#endif
