/* SPDX-License-Identifier: MIT */
/* One side of the traffic: its device objects, its sending and its receiving part. */
#ifndef RDMABENCH_SIDE_H
#define RDMABENCH_SIDE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "hwclock.h"
#include "latrec.h"
#include "mlx5dvl.h"
#include "statsfile.h"
#include "traffic.h"
#include "wire.h"

#define SIDE_PEERS_MAX 64
#define SIDE_QKEY 0x11111

struct side;
struct peer;

/* Requests that are announced with one doorbell and share the completion of the last one. */
struct batch {
	uint64_t due_ns, posted_ns;
	uint64_t first; /* number of its first request */
	uint32_t count;
	bool signaled; /* false: it completes with a later batch */
};

/* One queue pair. */
struct flow {
	struct mlx5dvl_qp *qp;
	struct mlx5dvl_ah *ah; /* UD */
	struct peer *peer;
	uint32_t index; /* index among the peer's QPs */
	uint8_t *mem; /* laid out by side.layout */
	const struct mlx5dvl_mr *mr; /* registration of that memory */
	uint32_t rkey; /* rkey of the peer's memory */
	uint64_t remote; /* address of the peer's memory, which has the same layout */
	uint32_t remote_qpn;
	bool failed;
	/* The sending part. */
	struct batch *batches; /* a ring of side.t.depth */
	uint64_t head, tail; /* numbers of batches; modulo the depth they are indices */
	uint64_t posted, completed; /* in requests */
	uint64_t numbered; /* posted requests that consume a receive of the peer */
	uint64_t atomics[2]; /* number of fetch-and-adds and of compare-and-swaps posted */
	uint64_t checked[2]; /* the same, for atomics whose results were compared */
	uint64_t resume_ns; /* end of the pause after a burst */
	uint32_t burst; /* batches since the last pause */
	uint32_t quiet; /* requests since the last signaled one */
	/* The receiving part. */
	uint64_t received, received_bytes, next_number;
};

struct peer {
	struct side *side;
	struct wire_conn conn;
	struct wire_side remote;
	struct mlx5dvl_mr *regions; /* side.t.regions entries */
	uint8_t *mem;
	struct flow *flows; /* side.t.qps entries */
	struct wire_tally theirs; /* requests that the peer sent, from its DONE */
	struct wire_tally result; /* requests that the peer received, from its RESULT */
	bool sent_done, got_done, sent_result, got_result;
	bool gone;
	int inject; /* event that was planted for its first QP; 0: none */
	uint64_t messages, bytes; /* sent to it and completed */
	uint64_t last_ns; /* time of the last completion; 0: none */
	uint64_t mismatches; /* wrong payloads of its requests */
	uint64_t wrong_results; /* of our READs and atomics at it */
	uint64_t errors; /* of its QPs on this side */
	int first_error;
	uint64_t done_ns; /* time of the arrival of its DONE */
	uint64_t last_recv_ns; /* time of the last arrival after DONE */
	uint64_t recv_seen; /* receives at last_recv_ns */
};

struct cm_side;

struct side {
	const char *program; /* for messages */
	struct traffic t;
	struct layout layout;
	bool sends; /* set for the client; with t.bidirectional or t.pingpong for both sides */
	bool is_server;
	uint64_t timeout_ns; /* time limit of the TCP connection */

	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_srq *srq;
	struct mlx5dvl_cq *rcq, *scq;
	struct mlx5dvl_mr recv_mr;
	uint8_t *recv_mem;
	struct peer *peers[SIDE_PEERS_MAX];
	uint32_t n_peers;
	struct {
		struct cm_side *state; /* NULL: rdma_cm is not used */
		uint16_t port;
	} cm; /* cm.c */

	struct latrec_clock clock; /* clock of posts, and of completions without hw_ts */
	bool hw_ts; /* completions are timed by the device's stamps */
	struct hwclock hw;
	bool hw_failed; /* the device's clock could not be read during the run */
	struct control control;
	uint32_t injected; /* planted events that have happened */
	bool by_event; /* this side waits for the event of each send's completion */
	bool overslept; /* the last sleep has ended without an event */
	uint64_t wakeups; /* sleeps that were ended by an event of a completion queue */
	struct armed {
		bool armed; /* armed, and its event has not been read */
		bool fired; /* the descriptor of its event is readable */
	} armed[2]; /* send and receive CQ */
	struct latrec *rec;
	struct statsfile *stats; /* NULL: none */
	int stats_error; /* the first error */

	uint64_t start_ns, last_ns; /* start of the traffic; time of the last completion */
	uint64_t messages, bytes; /* sent to all peers and completed */
	uint64_t recv_messages, recv_bytes;
	uint64_t mismatches, lost;
	uint64_t overdue; /* batches that were due within the duration and were not posted */
	uint64_t interval_ns, interval_bytes; /* start and bytes of the present interval */
	double peak; /* bytes per nanosecond */
	uint64_t errors;
	json_t *events; /* an array of strings: errors and asynchronous events */
};

/* Selects the device. */
struct side_device {
	const char *name; /* NULL: the first device */
	uint8_t port;
	int gid_index; /* -1: as mlx5dvl_ctx_open() chooses */
	const char *cpus, *nodes; /* see place_bind() */
};

/*
 * Opens the device and creates the objects that n_peers peers share. side->t must have been
 * checked. Returns 0, or -errno with a line in why.
 */
int side_open(struct side *s, const struct side_device *d, uint32_t n_peers,
	char why[WIRE_TEXT_MAX]);
/* Creates QPs and memory for a peer whose connection is open. */
int side_add_peer(struct side *s, struct peer *p, char why[WIRE_TEXT_MAX]);
/* Writes the addresses that the peer needs. */
void side_describe(const struct side *s, const struct peer *p, const char *run,
	struct wire_side *d_p);
/*
 * Copies the addresses in p->remote to the flows and connects their QPs; with t.cm, cm.c connects
 * them. Plants the event of --inject. Returns 0, or -errno with a line in @why.
 */
int side_connect(struct peer *p, char why[WIRE_TEXT_MAX]);
/* Connects one QP; for UD also creates the address handle. Returns 0 or -errno. */
int flow_connect(struct flow *f, const struct mlx5dvl_qp_info *theirs);
/* Removes the planted events, and counts those that have happened. */
void side_take_injected(struct side *s);
/* Destroys all objects, closes the connections and frees the peers. */
void side_close(struct side *s);

/* Describes the clock of the latencies. */
const char *side_clock_name(const struct side *s);

/* Counts an error (-errno) of a QP. */
void side_count_error(struct peer *p, int err);
/* Prints an event to standard error and keeps it for the report. */
void side_event(struct side *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- sending (send.c) ---- */

/* Posts a batch if the traffic allows one now. @now_ns is a time of side.clock. Returns true if a
 * request was posted. */
bool flow_send(struct flow *f, uint64_t now_ns);
/* Returns true if nothing is outstanding, nothing more will be posted, and no answer is missing. */
bool flow_is_done(const struct flow *f, uint64_t now_ns);
/*
 * Returns the number of batches that were due by the rate within the duration and were not posted.
 */
uint64_t flow_overdue(const struct flow *f);
void flow_on_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent);

/* ---- receiving (receive.c) ---- */

/* Returns the last byte of a WRITE of a ping-pong, by which the peer recognises its arrival. */
static inline uint8_t flow_mark(uint64_t number)
{
	return (uint8_t)(number + 1);
}

/* Returns true if this WRITE of the peer has arrived. */
bool flow_has_write(const struct flow *f, uint64_t number);
void flow_on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv);
/* Returns how many of the first @requests requests consume a receive. */
uint64_t pattern_receives(const struct pattern *p, uint64_t requests);
/* Compares the memory with its expected content after @requests requests of the peer. Returns the
 * number of mismatches. */
uint64_t flow_verify(const struct flow *f, uint64_t requests);

/* ---- the run (run.c) ---- */

/* Runs from GO until all peers have sent their results or are lost. */
void side_run(struct side *s);

#endif
