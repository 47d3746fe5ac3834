/* SPDX-License-Identifier: MIT */
/*
 * softhca - what a test can ask the software HCA about itself.
 *
 * A program under the software HCA runs unmodified and needs nothing from here. A
 * test that wants to know what the adapter did (how many doorbells, which work
 * requests) links with libsofthca before libibverbs, or looks these functions up with
 * dlsym(RTLD_DEFAULT, ...) when the library is preloaded:
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
 */
#ifndef SOFTHCA_H
#define SOFTHCA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Slots of the per-opcode counters; the values are the adapter's own opcodes. */
#define SOFTHCA_OPCODES 64

/*
 * Monotone counts of what the adapters did for one process as requester, unless said
 * otherwise. Bytes are payload bytes.
 */
struct softhca_counters {
	uint64_t doorbells; /* stores to a doorbell register that started a send queue */
	uint64_t bf_copies; /* of these, followed by the rest of a BlueFlame copy */
	uint64_t traps; /* trapped stores of any kind */
	uint64_t single_steps; /* of these, not decoded but single-stepped */
	uint64_t arms; /* completion queue doorbells */
	uint64_t cqes; /* completions written for this process's QPs, either side */
	uint64_t recvs; /* receives consumed by messages to this process's QPs */
	uint64_t rnr_naks; /* attempts that met no receive */
	uint64_t retries; /* attempts that met no answer */
	uint64_t errors; /* work requests that ended in error (flushes not counted) */
	uint64_t flushes; /* work requests flushed */
	uint64_t violations; /* of strict mode's rules */
	uint64_t late_held; /* WRITEs that the network held back */
	uint64_t late_placed; /* of these, that arrived after their sender had given them up */
	uint64_t late_lost; /* the same, but their receiver did not receive any more */
	uint64_t wqes[SOFTHCA_OPCODES];
	uint64_t bytes[SOFTHCA_OPCODES];
};

/*
 * softhca_counters_self() - the counts of the calling process.
 * @out: written on success
 *
 * Return: 0, or -ENODEV when the process has not opened a device.
 */
int softhca_counters_self(struct softhca_counters *out);

/* The fabric that the process is a member of. */
struct softhca_fabric_info {
	uint32_t processes; /* attached and alive */
	uint32_t qps; /* that exist */
	uint32_t
		recoveries; /* times that others went on for a process that died, or was stopped, within
				a message */
	uint32_t replays; /* of these, in the middle of a step, which was then completed */
	uint64_t virtual_ns; /* with SOFTHCA_LINK=virtual: the time that the links have taken */
};

/*
 * softhca_fabric_info() - the state of the fabric.
 * @out: written on success
 *
 * Return: 0, or -ENODEV when the process has not opened a device.
 */
int softhca_fabric_info(struct softhca_fabric_info *out);

/*
 * softhca_step() - with SOFTHCA_MODE=step, executes all that this process has posted and
 * serves its timers that are due. Nothing is executed otherwise. In chaos mode it makes some steps
 * of what is pending, at random, and at least one if there is any. sched_yield() does the same.
 *
 * Return: the number of queues, or steps, that had something to do; -ENODEV without a device;
 * -EPERM in another mode.
 */
int softhca_step(void);

/*
 * softhca_fault_add() - adds a fault rule to the fabric, for messages to come.
 * @rule: "action=no_answer qpn=0x41 nth=100", one rule as softhca(7) describes them
 *
 * Return: its number, from 1; -EINVAL it is no rule, or of an adapter that there is not; -ENOSPC
 * there is no room for more; -ENODEV when the process has not opened a device.
 */
int softhca_fault_add(const char *rule);

/*
 * softhca_fault_remove() - removes a rule.
 * @number: of softhca_fault_add(), or of softhcactl fault list
 *
 * Return: how many messages it has hit; -ENOENT there is no such rule; -ENODEV as above.
 */
long long softhca_fault_remove(int number);

/*
 * The record: with SOFTHCA_TRACE=1 in the environment each QP and CQ that the process
 * creates gets a ring of its last SOFTHCA_TRACE_DEPTH entries, as long as there are
 * rings left in the fabric (SOFTHCA_TRACE_RINGS).
 */
#define SOFTHCA_TRACE_DEPTH 4096
#define SOFTHCA_TRACE_RINGS 64

/* A work request that the adapter finished; flushed ones are not recorded. */
struct softhca_wqe_record {
	uint64_t seq; /* of this QP, from 0 */
	uint64_t raddr;
	uint32_t rkey;
	uint32_t imm; /* as it stands in the entry */
	uint32_t length; /* payload bytes */
	uint32_t inline_len; /* of these, in the entry itself */
	uint16_t index; /* block at which the adapter found it */
	uint16_t wqe_index; /* index that the entry itself names */
	uint8_t opcode;
	uint8_t units; /* of 16 bytes, the control segment included */
	uint8_t segments; /* of payload, inline ones included */
	uint8_t flags; /* the control segment's fm_ce_se */
	uint8_t syndrome; /* 0: success */
	uint8_t reserved[7];
};

/* A completion as it was before compression. */
struct softhca_cqe_record {
	uint64_t seq; /* of this CQ, from 0: the producer's index */
	uint32_t qpn;
	uint32_t byte_cnt;
	uint32_t imm; /* as it stands in the completion */
	uint16_t wqe_counter;
	uint8_t opcode; /* of the completion: 0 requester, 1..4 responder, 13, 14 errors */
	uint8_t wqe_opcode; /* requester: of the work request */
	uint8_t syndrome; /* errors only */
	uint8_t reserved[7];
};

/*
 * softhca_trace_wqes(), softhca_trace_cqes() - read the record of a QP, or CQ, of this
 * process.
 * @qpn, @cqn: its number
 * @from: sequence number of the first record to read
 * @out: room for @n records
 *
 * Return: the number of records written, 0 when there is none at @from yet; -ENODEV
 * without a device; -ENOENT when there is no such object or it is not recorded;
 * -ENODATA when the record at @from is already overwritten.
 */
int softhca_trace_wqes(uint32_t qpn, uint64_t from, struct softhca_wqe_record *out, unsigned n);
int softhca_trace_cqes(uint32_t cqn, uint64_t from, struct softhca_cqe_record *out, unsigned n);

#ifdef __cplusplus
}
#endif

#endif
