/* SPDX-License-Identifier: MIT */
/*
 * Describes the traffic between a server and a client. The client chooses it; the server checks the
 * description and follows it.
 */
#ifndef RDMABENCH_TRAFFIC_H
#define RDMABENCH_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pattern.h"

#define TRAFFIC_QPS_MAX 1024
#define TRAFFIC_DEPTH_MAX 4096
#define TRAFFIC_BUFFERS_MAX 64
#define TRAFFIC_MEMORY_MAX (2ull << 30) /* bytes that one side registers for one peer */

/* Verbs of the control path that are called periodically beside the traffic. */
enum control_kind {
	CONTROL_NONE,
	CONTROL_MR, /* a memory region is registered and deregistered */
	CONTROL_QP, /* a QP is created and destroyed */
	CONTROL_MODIFY, /* a QP is created, connected, moved to its error state and destroyed */
	CONTROL_RKEY, /* a WRITE with a remote key that does not exist fails */
	CONTROL_LKEY, /* a WRITE with a local key that does not exist fails */
	CONTROL_KINDS,
};

extern const char *const control_names[]; /* by kind, NULL at the end */

/* Events that one message of the first QP meets. */
enum inject_kind {
	INJECT_NONE,
	INJECT_DROP, /* the message is lost: RC repeats it after the time-out */
	INJECT_RNR, /* the responder answers as if it had no receive */
	INJECT_DELAY, /* it is late by INJECT_DELAY_NS, as are all later messages of the QP */
	INJECT_KINDS,
};

extern const char *const inject_names[]; /* by kind, NULL at the end */

struct traffic {
	uint8_t type; /* enum mlx5dvl_qp_type */
	bool bidirectional; /* the server sends the same to the client */
	bool check; /* every payload is generated and compared */
	uint8_t mtu; /* 1 to 5; 0: that of the port */
	uint8_t qp_timeout; /* 4.096 us * 2^n */
	uint8_t retries; /* repetitions after which a QP fails */
	uint8_t reads; /* READs and atomics outstanding; 0: as mlx5dv-lite has it */
	uint8_t sl; /* service level */
	uint8_t traffic_class;
	uint32_t qps;
	uint32_t depth; /* requests outstanding per QP */
	uint32_t send_batch; /* requests per doorbell; the last is signaled */
	uint32_t recv_batch; /* receives taken per poll */
	uint32_t rx_depth; /* receives; 0: as many as fit into 64 MiB, at most 1024 */
	uint32_t buffers; /* used in turn: to send from, and as targets of the peer */
	uint32_t regions; /* memory regions that the QPs share out among them, at most qps */
	uint32_t inline_max; /* up to so many bytes are copied into the request */
	uint32_t burst; /* batches between two pauses; 0: no pauses */
	uint32_t burst_pause_us;
	uint32_t moderation; /* about so many requests per completion; 1: each batch has one */
	bool sleeps; /* sleeps on events of completion queues, instead of polling */
	bool again; /* another run follows on the same server */
	uint8_t control; /* enum control_kind */
	uint32_t control_us; /* time between two of them */
	uint8_t inject; /* enum inject_kind */
	uint64_t inject_at; /* the number of the message, from 1 */
	uint64_t iterations; /* per QP; 0: by duration */
	uint64_t duration_ns;
	uint64_t rate; /* messages per second of a side; 0: as fast as it goes */
	char pattern_text[PATTERN_TEXT_MAX];
	struct pattern pattern; /* made from pattern_text by traffic_check() */
};

/* Sets the default: 64 KiB WRITEs on one RC QP, for one second. */
void traffic_init(struct traffic *t);

/*
 * Checks everything and parses the pattern. 0; -EINVAL: why says what is wrong and what to
 * give, in one line.
 */
int traffic_check(struct traffic *t, char *why, size_t size);

/* Returns the blocks of a send queue for t->depth requests. */
uint32_t traffic_sq_depth(const struct traffic *t);
/* Return the number of receives, and the bytes of one (0: none needs memory). */
uint32_t traffic_rx_depth(const struct traffic *t);
uint32_t traffic_recv_size(const struct traffic *t);

/*
 * The memory that a side has for each of its QPs: a part that it sends from, and READs to, and
 * a part that its peer works on. With checks each request that can be outstanding has a slot
 * of its own in both.
 */
struct layout {
	uint32_t slots;
	uint64_t stride; /* bytes of a slot */
	uint64_t write_at, read_at, atomic_at; /* the peer's part; it sends from 0 */
	uint64_t size; /* bytes of both parts */
};

void traffic_layout(const struct traffic *t, struct layout *l_p);

extern const char *const traffic_type_names[]; /* by type, NULL at the end */

#endif
