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
 *	post_and_poll();
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
	uint64_t doorbells;	/* stores to a doorbell register that started a send queue */
	uint64_t bf_copies;	/* of these, followed by the rest of a BlueFlame copy */
	uint64_t traps;		/* trapped stores of any kind */
	uint64_t single_steps;	/* of these, not decoded but single-stepped */
	uint64_t arms;		/* completion queue doorbells */
	uint64_t cqes;		/* completions written for this process's QPs, either side */
	uint64_t recvs;		/* receives consumed by messages to this process's QPs */
	uint64_t rnr_naks;	/* attempts that met no receive */
	uint64_t retries;	/* attempts that met no answer */
	uint64_t errors;	/* work requests that ended in error (flushes not counted) */
	uint64_t flushes;	/* work requests flushed */
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
	uint32_t processes;  /* attached and alive */
	uint32_t qps;	     /* that exist */
	uint32_t recoveries; /* times that a process died while it held the fabric's lock */
	uint32_t replays;    /* of these, in the middle of a step, which was then completed */
};

/*
 * softhca_fabric_info() - the state of the fabric.
 * @out: written on success
 *
 * Return: 0, or -ENODEV when the process has not opened a device.
 */
int softhca_fabric_info(struct softhca_fabric_info *out);

#ifdef __cplusplus
}
#endif

#endif
