/* SPDX-License-Identifier: MIT */
/*
 * The shared arena: all state of the emulated adapters of one fabric.
 *
 * Every process of a fabric maps the same file, each at an address of its own, so
 * the arena holds indexes and never pointers. One robust mutex guards everything in
 * it but the event counters that say so. A holder may be killed at any instruction:
 * what has to change together changes through the journal (journal.h), and what
 * belongs to a process is found again by its owner's slot.
 *
 * The arena is written by processes of one uid only (its directory has mode 0700),
 * and what it holds about user memory (addresses, counters in doorbell records) is
 * never used to index the arena without a check.
 */
#ifndef SOFTHCA_FABRIC_ARENA_H
#define SOFTHCA_FABRIC_ARENA_H

#include <pthread.h>
#include <stdint.h>

#include "fault/fault.h"
#include "softhca.h"
#include "topo/topo.h"

#define ARENA_MAGIC 0x31616368746f73ULL /* "softhca1", little endian */
#define ARENA_VERSION 4

#define MAX_PROCS 512
#define NO_SLOT MAX_PROCS /* of a process that has not joined yet */
#define MAX_CTXS 4096
#define MAX_PDS 4096
#define MAX_AHS 16384
#define MAX_MRS 65536
#define MAX_CQS 16384
#define MAX_SRQS 4096
#define QP_INDEX_BITS 14
#define MAX_QPS (1 << QP_INDEX_BITS)
#define QPN_GEN_BITS (24 - QP_INDEX_BITS)
#define FIRST_QP_INDEX 64 /* 0 and 1 are the management QPs of a real port */
#define FIRST_MR_INDEX 16 /* key 0x100 is the provider's "no segment" */

#define ARENA_BLOCK 16384u /* what is allocated at once; see reserve.h */
#define ARENA_BLOCKS 4096u
#define NO_INDEX UINT32_MAX
#define JOURNAL_STORES 8
#define JOURNAL_CQES 2

/* One attached process. Alive as long as it holds the byte lock of its slot. */
struct proc {
	uint32_t used;
	int32_t pid; /* 0 once it is known to be dead: the number may be another's */
	uint32_t life; /* counts the owners of the slot */
	uint32_t bell; /* its thread sleeps on it; see sched.h */
	uint32_t failed; /* QPs of it are to be flushed by itself */
	uint32_t reserved;
	struct softhca_counters counters;
};

/* What every object of the tables below begins with. */
struct obj {
	uint32_t used; /* stored last when it is made, first when it goes */
	uint32_t owner; /* slot of the process */
	uint32_t ctx;
	uint32_t refs; /* objects of the same context that name this one */
};

enum obj_kind { OBJ_CTX, OBJ_PD, OBJ_AH, OBJ_MR, OBJ_CQ, OBJ_SRQ, OBJ_QP, OBJ_KINDS };

/* One open of a device. */
struct ctx {
	struct obj obj;
	uint32_t rail;
	uint32_t reserved;
	uint64_t fifo; /* async events are written here */
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
	uint32_t reserved;
	uint64_t start; /* in the owner's address space */
	uint64_t length;
	uint64_t hca_va; /* what work requests name */
};

struct cq {
	struct obj obj;
	uint64_t buf;
	uint64_t dbrec;
	uint32_t log_size;
	uint32_t cqe_size;
	uint32_t producer; /* counts CQEs, wraps at 2^32 */
	uint32_t consumer; /* last value seen in the doorbell record, widened */
	uint32_t overrun; /* fatal: nothing more is written */
	uint32_t comp_en;
	uint32_t armed; /* enum cq_armed */
	uint32_t arm_word; /* polling: the last one seen in the doorbell record */
	uint32_t solicited; /* producer after the last solicited or failed completion */
	uint64_t fifo; /* completion channel, 0 without one */
	uint64_t user_handle; /* what the event names */
	uint32_t comp_events; /* written to the channel since creation */
	uint32_t async_events;
	uint32_t trace; /* 1 + ring, 0 without one */
};

enum cq_armed { CQ_UNARMED, CQ_ARMED_SOLICITED, CQ_ARMED_NEXT };

#define SRQ_AHEAD 16

struct srq {
	struct obj obj;
	/*
	 * What is known of entries that are posted and not taken: entry number
	 * ahead_from + i is followed by the entry with index ahead[i].
	 */
	uint32_t ahead_from;
	uint32_t ahead_n;
	uint16_t ahead[SRQ_AHEAD];
	uint32_t pd;
	uint32_t stride;
	uint32_t count; /* entries in the buffer, a power of two */
	uint32_t head; /* index of the next entry that a message takes */
	uint32_t taken; /* entries taken since creation; its low 16 bits face the doorbell record */
	uint32_t limit;
	uint64_t buf;
	uint64_t dbrec;
	uint64_t user_handle;
	uint32_t async_events;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t copy_from; /* 1 + the QP whose message is copied into the next entry, 0: none */
};

/* The attributes of a QP that modify sets and query returns. */
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

#define STRICT_COMPLETIONS 64
#define LINK_AHEAD 64

struct qp {
	struct obj obj;
	uint32_t qpn;
	uint32_t rail;
	uint32_t pd;
	uint32_t send_cq;
	uint32_t recv_cq;
	uint32_t srq; /* NO_INDEX without one */
	uint32_t uidx;
	uint8_t type; /* enum ib_uverbs_qp_type: RC 2, UC 3, UD 4 */
	uint8_t state; /* enum qp_state */
	uint8_t sig_all;
	uint8_t last_wqe_reported;
	uint32_t bfreg; /* offset of its doorbell register from the first UAR page */
	uint64_t dbrec;
	uint64_t rq_buf;
	uint64_t sq_buf;
	uint32_t rq_count; /* entries, 0 with an SRQ */
	uint32_t rq_shift;
	uint32_t rq_taken; /* entries taken since creation */
	uint32_t sq_count; /* 64-byte blocks */
	uint32_t sq_done; /* blocks executed, monotone; low 16 bits are the index */
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	uint32_t retries; /* transport retries of the WQE at sq_done */
	uint32_t rnr_retries; /* RNR retries of it */
	uint32_t async_events;
	uint32_t trace; /* 1 + ring, 0 without one */
	uint32_t flushing; /* in ERR, and its queues may hold entries not yet flushed */
	uint32_t recv_held; /* it has begun to receive a message that is not over */
	uint32_t held; /* sq_done + 1 of the entry that is not asked for faults again */
	uint32_t placed; /* sq_done + 1 of the entry whose payload is at its place */
	/* Copies without the mutex; see hca/copy.h. */
	uint32_t copy_to; /* 1 + the QP that it sends to, 0: none goes on */
	uint32_t copy_from; /* 1 + the QP that it receives from, 0: none goes on */
	uint32_t copy_srq; /* with copy_to: 1 + the SRQ of the receiver, 0: no matter */
	uint32_t copy_peer; /* with copy_to: slot of the receiver */
	uint64_t copy_ticket; /* of its last copy: they count up in the fabric */
	uint64_t wait_until; /* CLOCK_MONOTONIC ns, 0: not waiting */
	uint64_t user_handle;
	struct qp_attr attr;
	/* Link model: when each entry from sq_done on is through, as far as link_next. */
	uint32_t link_first, link_last, link_next;
	uint64_t link_due[LINK_AHEAD];
	/* Strict mode: completions that the program may not have polled yet. */
	uint32_t strict_first, strict_last;
	uint32_t strict_free; /* blocks before this one are the program's again */
	uint32_t strict_cqe[STRICT_COMPLETIONS];
	uint32_t strict_end[STRICT_COMPLETIONS];
};

enum qp_state { QPS_RESET, QPS_INIT, QPS_RTR, QPS_RTS, QPS_SQD, QPS_SQE, QPS_ERR };
enum qp_type { QPT_RC = 2, QPT_UC = 3, QPT_UD = 4 };

/* A CQE on its way: where it goes and its bytes. */
struct journal_cqe {
	uint32_t cq;
	uint32_t index; /* value of the producer that it takes */
	uint8_t bytes[64];
};

/*
 * Redo record of the one step that is being applied. All values are absolute, so
 * applying it twice is the same as once.
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

#define COMP_MAX 64
#define COMP_QUEUES 16

/* A compressed run of completions that is being collected for a CQ. */
struct comp_run {
	uint32_t n;
	uint32_t index; /* producer index of the first */
	uint8_t title[64]; /* the first as it came */
	uint64_t mini[COMP_MAX];
};

/* The last entries of one QP or CQ, in one of the two forms. */
struct trace_ring {
	uint32_t used;
	uint32_t reserved;
	uint64_t next; /* sequence number */
	union {
		struct softhca_wqe_record wqes[SOFTHCA_TRACE_DEPTH];
		struct softhca_cqe_record cqes[SOFTHCA_TRACE_DEPTH];
	};
};

struct rail_state {
	uint32_t link_down;
	uint32_t reserved;
	uint64_t link_free[2]; /* ns at which it is idle again: outbound, inbound */
};

struct arena {
	uint64_t magic; /* written last */
	uint32_t version;
	uint32_t size;
	pthread_mutex_t lock __attribute__((aligned(64)));
	uint64_t pid_ns, user_ns; /* of all members: inodes of /proc/self/ns/ */
	uint64_t blocks[ARENA_BLOCKS / 64]; /* that are allocated, a bit each */
	uint64_t next_fifo;
	uint64_t virtual_ns; /* the clock of the link model in virtual time */
	uint32_t link_mode; /* enum link_mode */
	uint32_t recoveries; /* of the mutex from a dead holder */
	uint32_t replays; /* of these, of an active journal */
	uint32_t high[OBJ_KINDS]; /* entries at and above were never used */
	struct softhca_topology topo;
	struct rail_state rails[SOFTHCA_RAILS_MAX];
	struct fault_rule faults[FAULT_RULES];
	struct journal journal __attribute__((aligned(64)));
	uint32_t comp_queues[COMP_QUEUES]; /* CQs with a run, 0: none */
	uint64_t next_copy;
	uint64_t copying[MAX_QPS / 64]; /* QPs with copy_to, a bit each */
	struct proc procs[MAX_PROCS + 1]; /* the last is nobody's */
	struct ctx ctxs[MAX_CTXS];
	struct pd pds[MAX_PDS];
	struct ah ahs[MAX_AHS];
	struct srq srqs[MAX_SRQS];
	uint16_t qp_gen[MAX_QPS]; /* generation of the QPN in an index's next use */
	uint8_t mr_gen[MAX_MRS];
	struct cq cqs[MAX_CQS];
	struct comp_run comp_runs[MAX_CQS];
	struct qp qps[MAX_QPS];
	struct mr mrs[MAX_MRS];
	struct trace_ring traces[SOFTHCA_TRACE_RINGS];
};

#endif
