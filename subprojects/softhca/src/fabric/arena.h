/* SPDX-License-Identifier: MIT */
/*
 * The shared arena: all state of the emulated adapters of one fabric. A fabric is a set of
 * processes that share the same adapters.
 *
 * Every process of a fabric maps the same file, each at an address of its own, so the arena holds
 * indexes and never pointers. The fabric's mutex protects everything in the arena, unless
 * documented otherwise; fabric.h describes the mutex, the lanes and the latches. A process may be
 * killed, or stopped, at any instruction while it holds a lane or the mutex (claim.h). Therefore
 * fields that have to change together are changed through the journal (hca/journal.h). Every object
 * has the slot of its owner, so that the objects of a dead process can be found.
 *
 * Only processes of one uid write the arena (its directory has mode 0700). Values that come from
 * user memory, such as addresses and the counters in doorbell records, are checked before they are
 * used as an index.
 */
#ifndef SOFTHCA_FABRIC_ARENA_H
#define SOFTHCA_FABRIC_ARENA_H

#include <stdint.h>
#include <sys/uio.h>

#include "fabric/cm_ids.h"
#include "softhca.h"
#include "topo/topo.h"
#include "wire/wire.h"

#define ARENA_MAGIC 0x31616368746f73ULL /* "sothca1", little endian */
#define ARENA_VERSION 25

#define MAX_PROCS 512
#define NO_SLOT MAX_PROCS /* slot of a process that has not joined yet */
#define PROC_LANES 8 /* lanes of each process */
#define MAX_LANES ((MAX_PROCS + 1) * PROC_LANES) /* the last ones are for NO_SLOT */
#define LANE_BITS 13 /* bits of a lane's index */
#define MAX_CTXS 4096
#define MAX_PDS 4096
#define MAX_AHS 16384
#define MAX_MRS 131072
#define MAX_CQS 16384
#define MAX_SRQS 4096
#define QP_INDEX_BITS 14
#define MAX_QPS (1 << QP_INDEX_BITS)
#define FIRST_QP_INDEX 64 /* 0 and 1 are the management QPs of a real port */
#define FIRST_MR_INDEX 16 /* the provider uses key 0x100 for "no segment" */

#define ARENA_BLOCK 16384u /* unit of allocation; see reserve.h */
#define ARENA_BLOCKS 8192u
#define NO_INDEX UINT32_MAX
#define JOURNAL_STORES 8
#define JOURNAL_CQES 2
#define FAULT_RULES 64
#define MASK_WORDS 16 /* words of a set of CPUs */

#define CLAIM_PIECES 2

/* A lock that can be taken from an owner that is stopped; see claim.h. All zero: no owner. */
struct claim {
	uint64_t word;
	struct iovec to[CLAIM_PIECES]; /* memory of another process: the target of the owner's
					  system call */
};

/*
 * The lock of one object, which the holder of a lane takes; see latch.h. The word is `use` of the
 * holder's lane. All zero: free.
 */
struct latch {
	uint64_t word;
};

/* The last observation of a claim's owner by a thread that waits for the claim. Zero: none. */
struct claim_watch {
	uint64_t word; /* of the claim */
	uint64_t switches; /* the owner's context switches when it was first seen stopped */
	uint64_t since; /* when it was first seen stopped: CLOCK_MONOTONIC, ns */
};

/* One attached process. It is alive as long as it holds the byte lock of its slot. */
struct proc {
	uint32_t used;
	int32_t pid; /* 0 once the process is known to be dead: the number may be reused */
	uint32_t life; /* number of owners that the slot has had */
	uint32_t bell; /* futex on which its thread sleeps; see hca/timer.h */
	uint32_t failed; /* not 0: it has QPs that it must flush itself */
	uint32_t pumping; /* chaos mode: its thread has been notified of pending work */
	uint32_t has_thread; /* it has a thread that serves timers */
	/*
	 * The execution mode of its doorbells, and the latest findings of mode auto
	 * (sched/choose.h). The process's thread stores these fields without the mutex.
	 */
	uint32_t mode; /* enum engine_mode */
	uint32_t why; /* enum mode_why */
	uint32_t polls; /* mode auto: its thread polls while doorbells are rung */
	uint32_t awake; /* its thread spins */
	uint32_t cores, quota, needs; /* as in struct load, and by choose_needs() */
	uint32_t slow; /* cores are free, but trapping is faster, or is being measured */
	uint64_t cpus[MASK_WORDS]; /* on which the thread may run */
	/*
	 * When a message of one of its rdma_cm ids next arrives or is repeated, or an earlier time;
	 * 0: never.
	 */
	uint64_t cm_due;
	uint32_t cm_full; /* not 0: its ids may have events that wait for room in a channel */
	uint32_t async_late; /* not 0: its objects have events that are still to be written */
	/*
	 * The earliest event_due of its CQs, the time at which late async events are tried again,
	 * or an earlier time; 0: none.
	 */
	uint64_t cq_due;
	uint64_t locked; /* bytes in the pages of its memory regions */
	/* Its pool of shared pages (dma/pool.h): a memfd that others open. Inode number 0: none. */
	uint64_t pool_ino;
	int32_t pool_fd;
	uint32_t pool_pages; /* pages from this number on have never been used */
	struct softhca_counters counters;
};

/* The head of every object in the tables below. */
struct obj {
	uint32_t used; /* set last on creation, cleared first on destruction */
	uint32_t owner; /* slot of the process that created it */
	uint32_t ctx;
	uint32_t refs; /* number of objects of the same context that refer to this one */
};

enum obj_kind { OBJ_CTX, OBJ_PD, OBJ_AH, OBJ_MR, OBJ_CQ, OBJ_SRQ, OBJ_QP, OBJ_KINDS };

/* Words of `taken` in struct arena: one bit for each entry, of all kinds in this order. */
#define TAKEN_WORDS ((MAX_CTXS + MAX_PDS + MAX_AHS + MAX_MRS + MAX_CQS + MAX_SRQS + MAX_QPS) / 64)

/* One open of a device. */
struct ctx {
	struct obj obj;
	uint32_t rail;
	uint64_t fifo; /* receives the async events */
	/*
	 * Link model: the times until which the context is busy with messages that it sends, and
	 * with messages that it receives.
	 */
	uint64_t sends_until, receives_until;
};

struct pd {
	struct obj obj;
};

struct ah {
	struct obj obj;
	uint32_t pd;
};

struct mr {
	struct obj obj;
	uint32_t key;
	uint32_t pd;
	uint32_t access;
	uint32_t mapped; /* the HCA has mapped the memory, because it belongs to a dma-buf */
	uint64_t start; /* in the owner's address space */
	uint64_t length;
	uint64_t hca_va; /* start address as work requests use it */
	/* Used for windows of other processes (dma/window.h). */
	uint64_t serial; /* unique among all regions ever made; 0: no windows are made of it */
	uint64_t file_ino, file_offset;
	int32_t file_fd;
};

struct cq {
	struct obj obj;
	struct latch latch;
	uint64_t cqes; /* written since creation; part of the counters of its process */
	uint64_t buf;
	uint64_t dbrec;
	/*
	 * Difference between offsets in the owner's pool (dma/pool.h) and addresses in the owner;
	 * 0: the memory is not in the pool.
	 */
	uint64_t buf_shift, dbrec_shift;
	uint32_t log_size;
	uint32_t cqe_size;
	uint32_t producer; /* counts CQEs, wraps at 2^32 */
	uint32_t consumer; /* last value seen in the doorbell record, widened to 32 bits */
	uint32_t overrun; /* fatal: no more CQEs are written */
	uint32_t ignore_overrun; /* CQEs overwrite older ones; the consumer index is ignored */
	uint32_t comp_en;
	uint32_t armed; /* enum cq_armed */
	uint32_t arm_sn; /* sequence number of the latest arm */
	uint32_t fired; /* 1 + sequence number of the last arm that caused an event, or 0 */
	uint32_t arm_word; /* polling mode: last arm word seen in the doorbell record */
	uint32_t solicited; /* value of producer after the last solicited or error CQE */
	uint32_t arm_ci; /* consumer index of the latest arm */
	/*
	 * Moderation: an event waits until this number of CQEs has been written since the arm, or
	 * this time in us has passed. If either is 0, events do not wait.
	 */
	uint32_t event_count, event_period;
	uint64_t event_due; /* CLOCK_MONOTONIC ns at which a waiting event is sent; 0: no event */
	uint64_t fifo; /* completion channel, 0 without one */
	uint64_t user_handle; /* reported in the CQ's events */
	uint32_t comp_events; /* written to the channel since creation */
	/*
	 * Events whose writing has begun, and has ended. If they differ, a process was killed
	 * meanwhile, and comp_events may lack an event that it had written.
	 */
	uint32_t events_begun, events_ended;
	uint32_t async_events;
	uint32_t async_late; /* set of 1 << enum async_event: events that are still to be written */
	uint32_t trace; /* 1 + index of its trace ring, 0 without one */
	uint32_t uar; /* number of its doorbell page in the device file */
};

enum cq_armed { CQ_UNARMED, CQ_ARMED_SOLICITED, CQ_ARMED_NEXT };

#define SRQ_AHEAD 16

struct srq {
	struct obj obj;
	struct latch latch;
	uint64_t recvs; /* as in struct qp */
	/*
	 * Cache of the linked list after the head: ahead[i] is the index of the entry that follows
	 * the one with the number ahead_from + i, counted as in `taken`. The cache covers entries
	 * that are posted but not taken.
	 */
	uint32_t ahead_from;
	uint32_t ahead_n;
	uint16_t ahead[SRQ_AHEAD];
	uint32_t pd;
	uint32_t stride;
	uint32_t count; /* entries in the buffer, a power of two */
	uint32_t head; /* index of the next entry that a message takes */
	uint32_t taken; /* entries taken since creation; the doorbell record has 16 bits */
	uint32_t limit;
	uint32_t limit_from; /* `taken` when the limit was set */
	uint64_t buf;
	uint64_t dbrec;
	uint64_t buf_shift, dbrec_shift; /* as in struct cq */
	uint64_t user_handle;
	uint32_t async_events;
	uint32_t async_late; /* as in struct cq */
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t copy_from; /* 1 + QP whose message is being copied into the next entry, or 0 */
	uint32_t strict_told; /* strict mode has reported this SRQ */
};

/* The attributes of a QP that MODIFY_QP sets and QUERY_QP returns. */
struct qp_attr {
	uint8_t dgid[16];
	uint32_t flow_label;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qpn;
	uint32_t access;
	uint16_t dlid;
	uint16_t pkey_index;
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t sl;
	uint8_t is_global;
	uint8_t path_bits;
	uint8_t static_rate;
	uint8_t port_num;
	uint8_t path_mtu;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t path_mig_state;
};

#define BFREG_ANY UINT32_MAX

#define STRICT_COMPLETIONS 64
#define LINK_AHEAD 64

struct qp {
	struct obj obj;
	/*
	 * Protects the QP's send queue, and the peer's receive queue, because no other QP sends to
	 * it. Datagrams, which several QPs can send to one, are executed with the mutex.
	 */
	struct latch latch;
	uint64_t recvs; /* consumed since creation; part of the counters of its process */
	uint32_t qpn;
	uint32_t rail; /* of its context */
	uint32_t pd;
	uint32_t send_cq;
	uint32_t recv_cq;
	uint32_t srq; /* NO_INDEX without one */
	uint32_t uidx;
	uint8_t type; /* enum ib_uverbs_qp_type: RC 2, UC 3, UD 4 */
	uint8_t state; /* enum qp_state */
	uint8_t sig_all;
	uint8_t last_wqe_reported;
	uint8_t wired; /* its peer is in another fabric, reached by packets */
	uint8_t peer_ended; /* its peer's process has ended, and the peer is freed */
	uint32_t uar; /* number of its doorbell page in the device file */
	uint32_t bfreg; /* its register on that page, BFREG_ANY if the program chooses one */
	uint64_t dbrec;
	uint64_t rq_buf;
	uint64_t sq_buf;
	uint64_t rq_buf_shift, dbrec_shift; /* as in struct cq */
	uint32_t rq_count; /* entries, 0 with an SRQ */
	uint32_t rq_shift;
	uint32_t rq_taken; /* entries taken since creation */
	uint32_t sq_count; /* blocks of 64 bytes (WQEBBs) */
	uint32_t sq_done; /* blocks executed; the low 16 bits are the index of the next WQE */
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	uint32_t retries; /* transport retries of the WQE at sq_done */
	uint32_t rnr_retries; /* RNR retries of the same WQE */
	uint32_t async_events;
	uint32_t async_late; /* as in struct cq */
	uint32_t trace; /* 1 + index of its trace ring, 0 without one */
	uint32_t flushing; /* it is or will be in ERR, and its queues are not flushed yet */
	uint32_t recv_held; /* it has begun to receive a message that is not complete */
	uint32_t recv_begun; /* 1 + index of the receive that such a message has taken, or 0 */
	uint64_t turn_of; /* qp_message() of the WQE that has `turn` */
	uint64_t held; /* qp_message() of the WQE to which the fault rules have been applied */
	uint64_t placed; /* qp_message() of the WQE whose payload has been placed */
	uint64_t tapped; /* qp_message() of the WQE whose request has been captured */
	uint32_t psns; /* PSNs that captured messages have taken since the QP left RESET */
	uint32_t answered; /* captured messages that its peer has executed */
	/* Copies that run without the mutex; see xport/copy.h. */
	struct claim copy; /* of the thread that copies */
	struct claim_watch copy_watch; /* used by threads that wait for the end of the copy */
	uint32_t copy_to; /* 1 + QP that it is copying to, or 0 */
	uint32_t copy_from; /* 1 + QP that it is receiving a copy from, or 0 */
	uint32_t copy_srq; /* with copy_to: 1 + SRQ whose entry the copy fills, or 0 */
	uint32_t copy_peer; /* with copy_to: slot of the receiver */
	uint64_t copy_ticket; /* number of its last copy, counted in the whole fabric */
	uint64_t wait_until; /* CLOCK_MONOTONIC ns, 0: not waiting */
	uint64_t turn; /* the WQE at sq_done waits behind WQEs of lower number; see hca/timer.h */
	uint64_t user_handle;
	struct qp_attr attr;
	/*
	 * Link model: the entries of link_due from link_first to link_last are the completion times
	 * of the WQEs from sq_done to link_next.
	 */
	uint32_t link_first, link_last, link_next;
	uint64_t link_due[LINK_AHEAD];
	uint32_t trapped; /* its owner's doorbells trap */
	uint32_t rung; /* producer index at the latest doorbell that trapped */
	/* Chaos mode: the message whose pieces are being placed. */
	uint64_t piece_of; /* qp_message() of the message */
	uint32_t pieces_done;
	uint64_t piece_seed; /* determines the sizes and the order of the pieces */
	/* Link model. */
	uint32_t link_announced; /* producer index of the last doorbell, 16 bits */
	uint32_t link_taken; /* link_due of the WQE at sq_done includes the peer's service time */
	uint32_t link_batch; /* blocks that the last doorbell announced */
	/* Strict mode: completions that the program may not have polled yet. */
	uint32_t strict_first, strict_last;
	uint32_t strict_met; /* the two ends of the connection have been compared */
	uint32_t strict_free; /* the program may reuse the blocks before this one */
	uint32_t strict_cqe[STRICT_COMPLETIONS];
	uint32_t strict_end[STRICT_COMPLETIONS];
};

/* The state of a QP whose peer is reached by packets. It has the same index as the QP. */
struct wired {
	struct wire_qp q;
	uint32_t after[WIRE_MESSAGES]; /* of each message in flight: the block after its WQE */
	uint32_t bad; /* syndrome of the oldest message, if it cannot be sent */
	uint32_t seen; /* producer index when the send queue was last read */
	/* The new value of an atomic, until it is stored. */
	uint32_t store_slot;
	uint32_t storing;
	uint64_t store_at, store_value;
};

enum qp_state { QPS_RESET, QPS_INIT, QPS_RTR, QPS_RTS, QPS_SQD, QPS_SQE, QPS_ERR };
enum qp_type { QPT_RC = 2, QPT_UC = 3, QPT_UD = 4 };

#define OWED 8

enum owed_side { OWED_SEND, OWED_RECV, OWED_SIDES };

/* Chaos mode: completions of one work queue that are still to be written, oldest first. */
struct owed_ring {
	uint32_t first, last;
	uint32_t end[OWED]; /* send queue: block after the WQE */
	uint8_t cqes[OWED][64];
};

/* A CQE to be written: its queue, its index and its bytes. */
struct journal_cqe {
	uint32_t cq;
	uint32_t index; /* producer index of the CQE */
	uint8_t bytes[64] __attribute__((aligned(8))); /* is read as a struct cqe64 */
};

/*
 * Redo record of the step that is being applied. All values are absolute, so applying
 * the record twice has the same effect as applying it once.
 */
struct journal {
	uint32_t active;
	uint32_t nstores;
	uint32_t ncqes;
	uint32_t reserved;
	struct {
		uint32_t offset; /* of a 32-bit word in the arena */
		uint32_t value;
	} stores[JOURNAL_STORES];
	struct journal_cqe cqes[JOURNAL_CQES];
};

#define COMP_QUEUES 16

/* A lane: the claim of a thread that executes messages, and the step that the thread has begun. */
struct lane {
	struct claim claim;
	/*
	 * The word of the latches that the lane's owner has taken: the lane's index, and above
	 * LANE_BITS the number of times that owners may have lost latches, plus 1.
	 */
	uint64_t use;
	uint64_t lost; /* word of an owner that lost the lane and whose work is not repaired yet */
	uint32_t open; /* its owner may execute messages; see fabric.h */
	uint32_t idle; /* how often the mutex was taken since the epoch of the claim changed */
	uint32_t epoch; /* of the claim when the mutex was last taken */
	struct journal journal;
	uint32_t comp_queues[COMP_QUEUES]; /* CQs with a comp_run; 0 ends the list */
} __attribute__((aligned(64)));

#define COMP_MAX 64

/* Completions that are being collected for a compressed CQE. */
struct comp_run {
	uint32_t n;
	uint32_t index; /* producer index of the first completion */
	uint8_t title[64]; /* the first completion, unchanged */
	uint64_t mini[COMP_MAX];
};

/* The record of one QP (wqes) or one CQ (cqes): its latest entries. */
struct trace_ring {
	uint32_t used;
	uint32_t reserved;
	uint64_t next; /* sequence number */
	union {
		struct softhca_wqe_record wqes[SOFTHCA_TRACE_DEPTH];
		struct softhca_cqe_record cqes[SOFTHCA_TRACE_DEPTH];
	};
};

enum fault_action {
	FAULT_NONE, /* the entry is free */
	FAULT_ERROR, /* error completion with the rule's syndrome */
	FAULT_RNR, /* the message ends as if no receive were posted */
	FAULT_NO_ANSWER, /* the message ends as if the peer did not answer */
	FAULT_DELAY, /* executed delay_ns later, and so are later messages of the QP */
	FAULT_PARTIAL, /* the first bytes are placed, then an error completion */
	FAULT_KILL, /* SIGKILL to the sender, after the first bytes are placed */
	FAULT_KILL_PEER, /* SIGKILL to the receiver, before anything is placed */
	FAULT_LINK_DOWN, /* the link of the sender's adapter goes down */
	FAULT_LINK_UP,
	FAULT_HOLD_RECEIVE, /* the first packet of a SEND has arrived, the others never do */
	FAULT_DEVICE_FATAL, /* event of the sender's adapter; the message never ends */
	FAULT_LATE, /* the WRITE arrives delay_ns later, whatever its sender does meanwhile */
	FAULT_PACKET_LOST, /* this action and the next ones act on packets to other hosts */
	FAULT_PACKET_TWICE,
	FAULT_PACKET_LATE, /* sent after the next packet */
};

struct fault_rule {
	uint32_t action; /* enum fault_action */
	uint32_t syndrome; /* ERROR, PARTIAL, LATE */
	char device[16]; /* the sender's; "": any; names are as in the topology */
	char peer[16]; /* the receiver's; "": any */
	uint32_t qpn; /* the sender's; 0: any */
	uint32_t pid; /* the sender's; 0: any */
	uint64_t opcodes; /* a bit per opcode of a work request; 0: any */
	uint64_t nth; /* the first match that is affected, from 1 */
	uint64_t count; /* matches that are affected; 0: all that follow */
	uint32_t percent; /* share of these that is affected, at random */
	uint32_t reserved;
	uint64_t random; /* state of the generator; the key "seed" sets it */
	uint64_t bytes; /* PARTIAL, KILL */
	uint64_t delay_ns; /* DELAY, LATE */
	uint64_t seen; /* matches so far */
	uint64_t hits;
};

/* The traffic of a port since the fabric was made. */
struct port_counts {
	uint64_t tx_bytes, rx_bytes; /* payload */
	uint64_t tx_packets, rx_packets;
	uint64_t tx_pause_ns, rx_pause_ns; /* requested by the port; requested by its peer */
	uint64_t no_receives; /* attempts of peers that found no receive posted */
	uint64_t rnr_retries, timeout_retries; /* of its own requests */
	uint64_t writes, reads, atomics; /* requests of peers that were executed */
	uint64_t bad_pkeys; /* packets dropped because they are of another partition */
	/*
	 * bad_packets: all packets of other hosts that were dropped, because they were malformed,
	 * were for no QP that is connected to the sender, or are counted in bad_pkeys. bad_icrcs:
	 * those of them that had a wrong ICRC. Relaxed atomics: the receiver counts them without
	 * the mutex.
	 */
	uint64_t bad_packets;
	uint64_t bad_icrcs;
} __attribute__((aligned(64)));

/* The counts of one lane; see tally.h. */
struct tally {
	struct softhca_counters process;
	struct port_counts ports[SOFTHCA_RAILS_MAX];
} __attribute__((aligned(64)));

#define CAPTURE_PATH 512

/* A file with the packets that the messages would be on a network; see fabric/capture_file.h. */
struct capture {
	uint32_t on;
	uint32_t owner; /* the capture ends with this slot's process; NO_SLOT: with the fabric */
	uint32_t qpn; /* the only QP whose packets are written, on either side; 0: all */
	int32_t error; /* -errno that ended the capture, or 0 */
	int32_t failed_pid; /* with error: the process that got it */
	uint32_t reserved;
	uint64_t device, inode; /* of the file */
	uint64_t end; /* valid bytes of the file; changes in one step with the counts */
	uint64_t packets; /* in the file */
	uint64_t messages, bytes; /* executed without an error, and their payload */
	char path[CAPTURE_PATH];
};

enum link_mode { LINK_OFF, LINK_REAL, LINK_VIRTUAL };

/* Reasons why messages need more than plain execution. */
enum attention { ATTEND_FAULTS = 1, ATTEND_CAPTURE = 2 };

struct rail_state {
	uint32_t link_down;
	uint32_t gids_changed; /* since the fabric was made */
	uint64_t link_free[2]; /* time in ns from which the link is idle: outbound, inbound */
	struct port_counts counts;
};

struct arena {
	uint64_t magic; /* written last */
	uint32_t version;
	uint32_t size;
	struct lane whole; /* its claim is the mutex */
	uint64_t pid_ns, user_ns; /* namespaces of all members: inodes of /proc/self/ns/ */
	uint64_t blocks[ARENA_BLOCKS / 64]; /* bitmap of the allocated blocks */
	/*
	 * Bitmap of the open lanes, and bitmap of the words of open_lanes that are not 0. Every bit
	 * that must be set is set. Other bits may be set too, because a process may be killed
	 * before it clears them.
	 */
	uint64_t open_lanes[MAX_PROCS * PROC_LANES / 64];
	uint64_t open_words;
	uint32_t procs_high; /* slots from this one on have never been taken, except NO_SLOT */
	uint32_t lanes_high; /* lanes from this index on have no memory */
	uint64_t next_fifo;
	uint32_t next_cm_serial;
	uint32_t cm_high; /* ids from this index on have never been used */
	uint64_t virtual_ns; /* the clock of the link model in virtual time */
	uint64_t chaos_seed;
	uint32_t chaos; /* not 0: chaos mode */
	uint32_t link_mode; /* enum link_mode */
	uint32_t attention; /* set of enum attention; 0: messages are just executed */
	uint32_t recoveries; /* how often another process continued the work of a claim's owner */
	uint32_t replays; /* of these, with an active journal */
	uint32_t changes; /* how often a process has joined or left; a relaxed atomic */
	uint32_t takeovers; /* recoveries for an owner that was stopped, not dead */
	uint32_t high[OBJ_KINDS]; /* entries from this index on have never been used */
	/*
	 * Bitmap of the used entries, and bitmap of the full words of `taken`. A set bit is always
	 * right. Bits may be missing, because a process may be killed before it sets them.
	 */
	uint64_t taken[TAKEN_WORDS];
	uint64_t taken_full[(TAKEN_WORDS + 63) / 64];
	struct softhca_topology topo;
	struct rail_state rails[SOFTHCA_RAILS_MAX];
	struct fault_rule faults[FAULT_RULES];
	struct capture capture;
	/* The settings when the fabric was made. GIDs, rules and capture may have changed since. */
	struct softhca_topology made_topo;
	struct fault_rule made_faults[FAULT_RULES];
	char made_capture[CAPTURE_PATH]; /* "": none */
	uint64_t next_copy;
	uint64_t next_region; /* serial of the next memory region */
	uint64_t copying[MAX_QPS / 64]; /* bitmap of the QPs whose copy_to is set */
	uint64_t on_wire[MAX_QPS / 64]; /* bitmap of the QPs whose `wired` is set */
	uint64_t owed_qps[MAX_QPS / 64]; /* bitmap: every QP with owed completions, maybe others */
	struct cm_refused cm_refused[MAX_CM_REFUSED];
	uint32_t next_cm_refused;
	struct proc procs[MAX_PROCS + 1]; /* the last one is for NO_SLOT */
	/* The tables that follow have no memory until they are used: see reserve.h. */
	struct ctx ctxs[MAX_CTXS];
	struct lane lanes[MAX_LANES];
	struct tally tallies[MAX_LANES];
	struct pd pds[MAX_PDS];
	struct ah ahs[MAX_AHS];
	struct qp qps[MAX_QPS]; /* QPs, SRQs, CQs: the order of their latches */
	struct srq srqs[MAX_SRQS];
	uint16_t qp_gen[MAX_QPS]; /* generation in the QPN of the next QP at this index */
	uint8_t mr_gen[MAX_MRS];
	struct cq cqs[MAX_CQS];
	struct comp_run comp_runs[MAX_CQS];
	struct wired wired[MAX_QPS];
	struct mr mrs[MAX_MRS];
	struct cm_id cm_ids[MAX_CM_IDS];
	struct trace_ring traces[SOFTHCA_TRACE_RINGS];
	struct owed_ring owed[MAX_QPS][OWED_SIDES]; /* allocated in chaos mode only */
};

#endif
