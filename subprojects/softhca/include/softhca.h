/* SPDX-License-Identifier: MIT */
/*
 * softhca: functions by which a test queries and controls the software HCA.
 *
 * A program under the software HCA runs unmodified and needs nothing of this header. A test that
 * needs to find out what the adapter did (how many doorbells, which work requests) links with
 * libsofthca, named before libibverbs, or finds these functions with dlsym(RTLD_DEFAULT, ...) if
 * softhca-run(1) has preloaded the library:
 *
 *	struct softhca_counters before, after;
 *
 *	softhca_counters_self(&before);
 *	ibv_post_send(...);
 *	softhca_counters_self(&after);
 *	printf("%llu doorbells\n",
 *		(unsigned long long)(after.doorbells - before.doorbells));
 *
 * Threads: every function may be called from any thread at any time.
 *
 * Errors: every function but softhca_step() may also return -EIO: the process was stopped while
 * other processes waited for it, and its QPs have failed.
 */
#ifndef SOFTHCA_H
#define SOFTHCA_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Length of the arrays `wqes` and `bytes`. Their index is the opcode in a mlx5 work queue entry. */
#define SOFTHCA_OPCODES 64

/*
 * The counts of one process. They count its own requests, unless the comment of a field says
 * otherwise. They never decrease. `doorbells` and `arms` count every store only in mode trap: while
 * doorbells do not trap, stores that the adapter finds at the same time count as one.
 */
struct softhca_counters {
	uint64_t doorbells; /* stores to a doorbell register that started a send queue */
	uint64_t bf_copies; /* of these, BlueFlame copies that trapped */
	uint64_t traps; /* trapped stores of any kind */
	uint64_t single_steps; /* of these, stores that were single-stepped because the library does
				  not decode them */
	uint64_t arms; /* stores to the doorbell of a completion queue */
	uint64_t cqes; /* completions written for this process's QPs, of sends and receives */
	uint64_t recvs; /* receives consumed by messages to this process's QPs */
	uint64_t rnr_naks; /* attempts that found no receive */
	uint64_t retries; /* attempts that got no answer */
	uint64_t errors; /* work requests that ended in error (flushes not counted) */
	uint64_t flushes; /* work requests flushed */
	uint64_t violations; /* of strict mode's rules */
	uint64_t late_held; /* WRITEs that a fault rule with action=late held back */
	uint64_t late_placed; /* of late_held: placed after the sender had reported an error */
	uint64_t late_lost; /* of late_held: not placed, because the receiver did not accept them */
	uint64_t wqes[SOFTHCA_OPCODES]; /* work requests that ended with success, by opcode */
	uint64_t bytes[SOFTHCA_OPCODES]; /* their payload bytes */
};

/* Writes the counts of the calling process. Returns 0. -ENODEV: the process has not opened a
 * device. */
int softhca_counters_self(struct softhca_counters *out);

/* The fabric of which the process is a member. */
struct softhca_fabric_info {
	uint32_t processes; /* living members of the fabric */
	uint32_t qps; /* existing QPs */
	uint32_t recoveries; /* how often a process continued the work of a dead or stopped one */
	uint32_t replays; /* half-done steps that were completed in these recoveries */
	uint64_t virtual_ns; /* with SOFTHCA_LINK=virtual: the time of the fabric's clock */
};

/* Writes the state of the fabric. Returns 0. -ENODEV: the process has not opened a device. */
int softhca_fabric_info(struct softhca_fabric_info *out);

/*
 * Serves the due timers of this process and executes all requests that the process has posted. In
 * chaos mode, executes a random part of the pending work instead, or nothing. With
 * SOFTHCA_MODE=step, only this function and sched_yield(), which calls this function, execute
 * requests. Returns how often a queue had work; in chaos mode, the number of steps. There, a turn in
 * which a QP with work is kept waiting counts as a step, too, so 0 means that no work is pending.
 * -ENODEV: the process has not opened a device. -EPERM: the mode is not step.
 */
int softhca_step(void);

/*
 * Adds a fault rule to the fabric: for example "action=no_answer qpn=0x41 nth=100". softhca(7)
 * describes the rules. The rule applies to later messages. Returns the number of the rule, from 1.
 * -EINVAL: @rule is not a rule, or names an adapter that does not exist. -ENOSPC: there is no room
 * for another rule. -ENODEV: the process has not opened a device.
 */
int softhca_fault_add(const char *rule);

/*
 * Removes the rule @number, which softhca_fault_add() returned or softhcactl fault list shows.
 * Returns how many messages the rule has affected. -ENOENT: there is no such rule. -ENODEV: the
 * process has not opened a device.
 */
long long softhca_fault_remove(int number);

/*
 * Replaces a GID of an adapter, as if an IP address of its interface were deleted and another one
 * added. Messages to the old GID get no answer from now on, and every context that is open on the
 * adapter gets the event IBV_EVENT_GID_CHANGE. @device is the name of the adapter, @index the index
 * of an entry of its GID table, and @address an IPv6 or IPv4 address, or NULL to empty the entry.
 *
 * Returns 0. -EINVAL: there is no such adapter or entry, or @address is not an address. -EEXIST: an
 * adapter of the fabric already has the address. -EOPNOTSUPP: the adapter reaches other hosts
 * (udp=on). -ENODEV: the process has not opened a device.
 */
int softhca_gid_set(const char *device, unsigned index, const char *address);

/*
 * Plugs in or pulls the cable of the adapter @device, as softhcactl link does. @up: whether the
 * cable is plugged in afterwards. If that is a change, every context that is open on the adapter
 * gets the event IBV_EVENT_PORT_ERR or IBV_EVENT_PORT_ACTIVE. Returns 0. -EINVAL: there is no such
 * adapter. -ENODEV: the process has not opened a device.
 */
int softhca_link_set(const char *device, bool up);

/*
 * Records: with SOFTHCA_TRACE=1 in the environment each QP and CQ that the process creates
 * gets a ring for its last SOFTHCA_TRACE_DEPTH records. A fabric has SOFTHCA_TRACE_RINGS rings. QPs
 * and CQs that find no free ring are not recorded.
 */
#define SOFTHCA_TRACE_DEPTH 4096
#define SOFTHCA_TRACE_RINGS 64

/* A work request that the adapter has executed; flushed ones are not recorded. */
struct softhca_wqe_record {
	uint64_t seq; /* number of the record in this QP, from 0 */
	uint64_t raddr; /* the remote address; rkey is the key of its memory */
	uint32_t rkey;
	uint32_t imm; /* in network byte order */
	uint32_t length; /* payload bytes */
	uint32_t inline_len; /* of these, bytes in the work queue entry itself */
	uint16_t index; /* block of the send queue where the adapter found the entry */
	uint16_t wqe_index; /* index in the entry's control segment */
	uint8_t opcode;
	uint8_t units; /* length of the entry in units of 16 bytes */
	uint8_t segments; /* number of data segments, inline ones included */
	uint8_t flags; /* the control segment's fm_ce_se */
	uint8_t syndrome; /* 0: success */
	uint8_t reserved[7];
};

/* A completion as it was before compression. */
struct softhca_cqe_record {
	uint64_t seq; /* number in this CQ, from 0: the producer index */
	uint32_t qpn;
	uint32_t byte_cnt;
	uint32_t imm; /* in network byte order */
	uint16_t wqe_counter;
	uint8_t opcode; /* of the completion: 0 requester, 1..4 responder, 13, 14 errors */
	uint8_t wqe_opcode; /* requester only: opcode of the work request */
	uint8_t syndrome; /* errors only */
	uint8_t reserved[7];
};

/*
 * Copy records of the QP @qpn, or of the CQ @cqn, of this process to @out, which has room for @n
 * records. The first one copied is record number @from. Return the number of copied records, which
 * is 0 if the record @from does not exist yet. -ENODEV: the process has not opened a device.
 * -ENOENT: there is no such object, or it is not recorded. -ENODATA: the record @from has been
 * overwritten.
 */
int softhca_trace_wqes(uint32_t qpn, uint64_t from, struct softhca_wqe_record *out, unsigned n);
int softhca_trace_cqes(uint32_t cqn, uint64_t from, struct softhca_cqe_record *out, unsigned n);

#ifdef __cplusplus
}
#endif

#endif
