/* SPDX-License-Identifier: MIT */
/*
 * Shared by the verbs tests: an end (device, PD, CQs, memory, one QP with or without
 * an SRQ) and the posting of single work requests. Every failure ends the test.
 */
#ifndef SOFTHCA_TEST_RIG_H
#define SOFTHCA_TEST_RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "check.h"

#define RIG_BUF (64 * 1024)
#define RIG_DEPTH 64

struct rig_attr {
	unsigned rail;
	bool srq;
	bool events; /* one completion channel for both CQs */
	int cqe; /* of each CQ; 0: 256 */
	uint32_t depth; /* of the send queue; 0: RIG_DEPTH */
	enum ibv_qp_type type; /* 0: RC */
	bool ignore_overrun; /* of each CQ */
	uint32_t cqe_size; /* 64 or 128; 0: the provider's choice */
	int access; /* of the memory region; 0: all rights */
	uint16_t pkey_index;
};

struct rig {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
	struct ibv_port_attr port;
	union ibv_gid gid;
};

/* The data that the other end needs. */
struct rig_addr {
	uint32_t qpn;
	uint16_t lid;
	union ibv_gid gid;
	uint32_t rkey;
	uint64_t addr;
};

/* Sets the environment of the test: a fabric of its own. Must be called before anything else. */
void rig_fabric(const char *name);

/*
 * Runs @fn in a child. Returns its exit status, or 128 plus the number of the signal that ended it.
 * @says: NULL, or part of the one line that the child must write to standard error.
 */
int rig_child(void (*fn)(void), const char *says);

void rig_open(struct rig *r, const struct rig_attr *attr);
void rig_close(struct rig *r);
struct rig_addr rig_addr(const struct rig *r);

/* Timers of a QP; all zero: timeout 10 (4 ms), retry 3, rnr_retry 7, min_rnr_timer 1. */
struct rig_timers {
	uint8_t timeout, retry, rnr_retry, min_rnr;
	bool set;
};

void rig_connect(struct rig *r, const struct rig_addr *to, struct rig_timers t);
void rig_connect_pair(struct rig *a, struct rig *b);
enum ibv_qp_state rig_state(const struct rig *r);

/* Posts a receive of @len bytes at @offset of the buffer. */
void rig_recv(struct rig *r, uint64_t id, uint32_t offset, uint32_t len);

/* A work request with one segment of the buffer (none if @len is 0). */
struct rig_wr {
	uint64_t id;
	enum ibv_wr_opcode op;
	unsigned flags; /* IBV_SEND_* */
	uint32_t imm;
	uint32_t offset, len;
	uint64_t raddr;
	uint32_t rkey;
	uint64_t compare_add, swap;
	uint32_t lkey; /* 0: of the buffer */
};

void rig_post(struct rig *r, const struct rig_wr *w);

/* Waits for the next completion of @cq, and yields meanwhile. */
struct ibv_wc rig_wait(struct ibv_cq *cq);
struct ibv_wc rig_wait_ok(struct ibv_cq *cq);

/* Checks that @cq has no completion. */
void rig_idle(struct ibv_cq *cq);

void rig_fill(uint8_t *p, size_t len, uint32_t seed);
bool rig_same(const uint8_t *p, size_t len, uint32_t seed);

#endif
