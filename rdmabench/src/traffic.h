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

#include "base/field.h"
#include "pattern.h"

#define TRAFFIC_QPS_MAX 1024
#define TRAFFIC_DEPTH_MAX 4096
#define TRAFFIC_RX_DEPTH_MAX 32767
#define TRAFFIC_BUFFERS_MAX 64
/* For one peer, a side registers at most this many bytes for its QPs, and as many for receives. */
#define TRAFFIC_MEMORY_MAX (2ull << 30)

/* Operations of the control path that run periodically during the traffic. */
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

/* Events that can be injected at one message of the first QP. */
enum inject_kind {
	INJECT_NONE,
	INJECT_DROP, /* the message is lost: RC repeats it after the time-out */
	INJECT_RNR, /* the responder answers as if it had no receive */
	INJECT_DELAY, /* the message is late by INJECT_DELAY_NS, as are all later messages of the
			 QP */
	INJECT_KINDS,
};

extern const char *const inject_names[]; /* by kind, NULL at the end */

struct traffic {
	uint8_t type; /* enum mlx5dvl_qp_type */
	bool bidirectional; /* the server sends the same traffic to the client */
	bool check; /* every payload is generated and compared */
	bool pingpong; /* the server answers each WRITE or SEND by the same request */
	uint8_t mtu; /* enum ibv_mtu, 1 to 5; 0: that of the port */
	uint8_t qp_timeout; /* 4.096 us * 2^n */
	uint8_t retries; /* repetitions after which a QP fails */
	uint8_t reads; /* READs and atomics outstanding; 0: the default of mlx5dv-lite */
	uint8_t sl; /* service level */
	uint8_t traffic_class;
	uint32_t qps;
	uint32_t depth; /* requests outstanding per QP */
	uint32_t send_batch; /* requests per doorbell; only the last can be signaled */
	uint32_t recv_batch; /* maximum number of receives that one poll returns */
	uint32_t rx_depth; /* receives; 0: see traffic_rx_depth() */
	uint32_t buffers; /* used in turn, as sources of sends and as targets of the peer */
	uint32_t regions; /* memory regions, over which the QPs are distributed; at most qps */
	uint32_t inline_max; /* payloads of up to this many bytes in one place are copied into the
				request, except those of UD */
	uint32_t burst; /* batches between two pauses; 0: no pauses */
	uint32_t burst_pause_us;
	uint32_t moderation; /* about this many requests per completion; 1: one per batch */
	bool sleeps; /* sleeps on events of completion queues, instead of polling */
	bool cm; /* QPs are connected by rdma_cm */
	bool again; /* another run follows on the same server */
	uint8_t control; /* enum control_kind */
	uint32_t control_us; /* time between two control operations */
	uint8_t inject; /* enum inject_kind */
	uint64_t inject_at; /* the number of the message, from 1 */
	uint64_t iterations; /* requests per QP, including the warm-up; 0: until duration_ns */
	uint32_t warm_up; /* first requests of each QP, whose latency is not recorded */
	uint64_t duration_ns;
	uint64_t rate; /* messages per second of a side; 0: as fast as possible */
	char pattern_text[PATTERN_TEXT_MAX];
	struct pattern pattern; /* made from pattern_text by traffic_check() */
};

/* The numeric fields of struct traffic except type, in the order of the message HELLO (wire.h). */
struct traffic_number {
	const char *what; /* for error texts */
	struct field field;
	uint64_t min, max, usual; /* range and default */
};

#define TRAFFIC_NUMBERS 25
extern const struct traffic_number traffic_numbers[TRAFFIC_NUMBERS];

/* Sets the default: 64 KiB WRITEs on one RC QP, for one second. */
void traffic_init(struct traffic *t);

/*
 * Checks all values and parses the pattern. Returns 0, or -EINVAL with one line in @why: the
 * mistake and the valid values.
 */
int traffic_check(struct traffic *t, char *why, size_t size);

/*
 * Returns the largest depth that each of so many QPs can have. All of them use one completion queue
 * for their sends, whose size is limited.
 */
uint32_t traffic_depth_max(uint32_t qps);
/* Returns the number of 64-byte blocks in a send queue for t->depth requests. */
uint32_t traffic_sq_depth(const struct traffic *t);
/*
 * traffic_rx_depth() returns the number of receives of a side with so many peers;
 * traffic_recv_size() returns the bytes of each (0: receives need no memory). By default there are
 * as many receives as fit into 64 MiB, but 16 to 1024; in a ping-pong, as few as are sufficient.
 */
uint32_t traffic_rx_depth(const struct traffic *t, uint32_t n_peers);
uint32_t traffic_recv_size(const struct traffic *t);

/*
 * The memory that a side has for each of its QPs. There are two parts: one from which the side
 * sends and to which its READs go, and one that its peer accesses. If payloads are checked, each
 * request that can be outstanding has its own slot in both parts.
 */
struct layout {
	uint32_t slots;
	uint64_t stride; /* bytes of a slot */
	uint64_t write_at, read_at, atomic_at; /* in the part that the peer accesses; the other part
						  begins at 0 */
	uint64_t size; /* bytes of both parts */
};

void traffic_layout(const struct traffic *t, struct layout *l_p);

extern const char *const traffic_type_names[]; /* by type, NULL at the end */

#endif
