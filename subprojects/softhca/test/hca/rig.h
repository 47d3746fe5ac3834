/* SPDX-License-Identifier: MIT */
/*
 * Shared by the verbs tests: an end (device, PD, CQs, memory, one QP with or without
 * an SRQ) and the posting of single work requests. Every failure ends the test.
 */
#ifndef SOFTHCA_TEST_RIG_H
#define SOFTHCA_TEST_RIG_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "softhca.h"

#define RIG_BUF (64 * 1024)
#define RIG_DEPTH 64
#define RIG_QKEY 0x1234
#define RIG_LIST_MAX 64
#define RIG_PLACES_MAX 4

struct rig_attr {
	unsigned rail;
	bool srq;
	bool events; /* one completion channel for both CQs */
	int cqe; /* entries of each CQ; 0: 256 */
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
	struct rig *next; /* the next open rig */
};

/* Declares a rig that is closed at the end of its block. */
#define RIG AT_END(rig_close) struct rig

/* The data that the other end needs. */
struct rig_addr {
	uint32_t qpn;
	uint16_t lid;
	union ibv_gid gid;
	uint32_t rkey;
	uint64_t addr;
};

/*
 * Runs @fn in a child. Returns the result of test_reap().
 * @says: NULL, or part of the one line that the child must write to standard error.
 */
int rig_child(void (*fn)(void), const char *says);

/* Returns true if SOFTHCA_MODE is @mode. */
bool rig_mode(const char *mode);

/*
 * A rig is closed at the end of the case at the latest. If it is open already, it is closed before
 * it is opened again. @attr: NULL for the defaults.
 */
void rig_open(struct rig *r, const struct rig_attr *attr);
/* Does nothing if the rig is not open. */
void rig_close(struct rig *r);
struct rig_addr rig_addr(const struct rig *r);

/*
 * Timers of a QP. Defaults, for fields that are 0: timeout 10 (4 ms), retry 3, rnr_retry 7,
 * min_rnr_timer 1.
 */
struct rig_timers {
	uint8_t timeout, retry, rnr_retry, min_rnr;
};

void rig_connect(struct rig *r, struct rig_addr to, struct rig_timers t);
void rig_connect_pair(struct rig *a, struct rig *b);
void rig_open_pair(struct rig *a, const struct rig_attr *attr_a, struct rig *b,
	const struct rig_attr *attr_b);
void rig_close_pair(struct rig *a, struct rig *b);
/*
 * Opens @a, and @b with an SRQ, and connects @n more QPs of both: from[i] is @a with another QP,
 * to[i] is @b with its peer. The caller destroys these QPs.
 */
void rig_open_fan(struct rig *a, struct rig *b, struct rig *from, struct rig *to, uint32_t n);

/*
 * Exchanges addresses over a socket with another process, which calls this function too, and
 * connects to the QP of that process. Returns when both are connected. @mr: the region whose
 * address is sent; NULL: the rig's.
 */
struct rig_addr rig_meet(struct rig *r, int fd, const struct ibv_mr *mr, struct rig_timers t);

/* Makes an RC QP in the state INIT, with the PD, the CQs and the SRQ of @r. */
struct ibv_qp *rig_qp(const struct rig *r);

/* Returns a copy of @r that has this QP instead. */
struct rig rig_with(const struct rig *r, struct ibv_qp *qp);

void rig_modify(struct rig *r, enum ibv_qp_state state);
enum ibv_qp_state rig_state(const struct rig *r);
struct mlx5dv_qp rig_dv_qp(struct ibv_qp *qp);
struct mlx5dv_cq rig_dv_cq(struct ibv_cq *cq);

/*
 * Returns a counter of the first port of adapter @rail. @name: its path in the port's directory of
 * sysfs.
 */
uint64_t rig_counter(unsigned rail, const char *name);

struct softhca_counters rig_counters(void);
struct softhca_fabric_info rig_info(void);

/* Posts a receive of @len bytes at @offset of the buffer. */
void rig_recv(struct rig *r, uint64_t id, uint32_t offset, uint32_t len);

/* A work request with one segment of the buffer (none if @len is 0). */
struct rig_wr {
	uint64_t id;
	enum ibv_wr_opcode op;
	unsigned flags; /* IBV_SEND_* */
	uint32_t imm;
	uint32_t offset, len;
	uint64_t laddr; /* 0: at @offset of the buffer */
	uint64_t raddr;
	uint32_t rkey;
	uint64_t compare_add, swap;
	uint32_t lkey; /* 0: of the buffer */
};

void rig_post(struct rig *r, const struct rig_wr *w);

/* Posts a signaled request for @len bytes from the start of the buffer. A SEND does not use @to. */
void rig_request(struct rig *r, enum ibv_wr_opcode op, uint32_t len, struct rig_addr to);
void rig_write(struct rig *from, const struct rig *to, uint32_t len);
void rig_send(struct rig *r, uint32_t len);

/* Posts a signaled WRITE of @len bytes at @offset of the buffer. Its id and its immediate data are @n. */
void rig_write_imm(struct rig *r, uint32_t n, uint32_t offset, uint32_t len, struct rig_addr to);

/*
 * Posts @n WRITEs of @len bytes under one doorbell, and signals the last. Each has @places
 * segments, which all begin at the start of the buffer.
 */
void rig_write_list(struct rig *from, const struct rig *to, uint32_t n, uint32_t len, int places);

/*
 * Posts @n WRITEs of the first @len bytes of the buffer under one doorbell, to consecutive
 * addresses from @to on. The last is signaled and has the immediate data @imm.
 */
void rig_write_row(const struct rig *r, struct rig_addr to, uint32_t n, uint32_t len, uint32_t imm);

/*
 * Writes a NOP with WQE index @index into 64-byte block @block of the send queue, without posting
 * it, and returns its address. @block wraps at the end of the queue.
 */
uint8_t *rig_nop(struct ibv_qp *qp, uint16_t block, uint16_t index, bool signaled);

/* Stores the producer index in the doorbell record of the send queue. */
void rig_record(struct ibv_qp *qp, uint16_t index);

/* Stores the first 8 bytes of a WQE to a doorbell register. */
void rig_ring(void *reg, const void *wqe);

/* Copies a WQE of 64 bytes to a BlueFlame register. */
void rig_blueflame(void *reg, const uint8_t *wqe);

/* Makes a UD QP ready to send. */
void rig_datagrams(struct rig *r);

/* Posts @len bytes at @offset of the buffer as a datagram. */
void rig_post_datagram(struct rig *r, struct ibv_ah *ah, uint32_t qpn, uint32_t offset,
	uint32_t len, enum ibv_wr_opcode op);

/* Does the same, and returns the datagram's status. */
enum ibv_wc_status rig_send_datagram(struct rig *r, struct ibv_ah *ah, uint32_t qpn,
	uint32_t offset, uint32_t len, enum ibv_wr_opcode op);

/* Sends @len bytes from the start of the buffer to @to by its LID. Returns the status. */
enum ibv_wc_status rig_datagram(struct rig *r, const struct rig *to, uint32_t len);

/* Takes a completion of @cq, and checks that it is a success. Returns false if @cq is empty. */
bool rig_poll(struct ibv_cq *cq, struct ibv_wc *wc_p);

/* Waits for the next completion of @cq, and yields meanwhile. */
struct ibv_wc rig_wait(struct ibv_cq *cq);
struct ibv_wc rig_wait_ok(struct ibv_cq *cq);

/* Checks that @cq has no completion. */
void rig_idle(struct ibv_cq *cq);

/* Takes the next event of the rig's completion channel, which must be of @cq. */
void rig_take_event(const struct rig *r, const struct ibv_cq *cq);

/* Takes and returns the next asynchronous event. */
struct ibv_async_event rig_take_async(const struct rig *r);

/* Takes the next asynchronous event, which must be of this type and of the port. */
void rig_hears_port(const struct rig *r, enum ibv_event_type type);

/* Returns the only thread of a process besides its main thread: the HCA's polling thread. */
pid_t rig_thread(pid_t pid);

/* Returns the number of a process's mappings with @text in their lines of /proc/PID/maps. */
int rig_mappings(pid_t pid, const char *text);

/* Makes the system call @number fail with EPERM in all threads of this process, until it ends. */
void rig_forbid_call(int number);

/*
 * Makes the system calls that access the memory of other processes fail, in all threads of this
 * process, until it ends.
 */
void rig_forbid_calls(void);

void rig_fill(uint8_t *p, size_t len, uint32_t seed);
bool rig_same(const uint8_t *p, size_t len, uint32_t seed);

#endif
