/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_DECODE_X86_H
#define SOFTHCA_DECODE_X86_H

/*
 * decode_x86.h - decodes the store instruction that has faulted
 *
 * For the SIGSEGV handler of a page that represents device memory. Finds the length of the
 * instruction, and the size and bytes of its store, from the signal frame, so that the
 * handler can execute the store on the device and skip the instruction.
 *
 *	struct softhca_store st;
 *	if (softhca_store_decode(uc, (uintptr_t)si->si_addr, &st) == 0) {
 *		device_store(si->si_addr, st.bytes, st.size);
 *		uc->uc_mcontext.gregs[REG_RIP] += st.length;
 *	} else {
 *		... let the processor execute it (single step) ...
 *	}
 *
 * Decoded: MOV from general registers and immediates, MOVNTI, MOVBE, MOVDIRI, and
 * the full-register and scalar SSE, AVX and AVX-512 stores, registers 0-31.
 * Not decoded: string instructions (REP MOVS, STOS), masked stores, segment
 * overrides, read-modify-write, MOVDIR64B, x87 and MMX.
 *
 * Threads and signals: pure function, async-signal-safe; reads only *uc, the state
 * that *uc points to, and the instruction's bytes.
 */

#include <stdint.h>
#include <ucontext.h>

struct softhca_store {
	uint8_t length; /* of the instruction, bytes */
	uint8_t size; /* of the store, 1 .. 64 bytes */
	uint8_t bytes[64]; /* the first `size` of them are used, in memory order */
};

/*
 * Returns 0 with *out_p written, or -ENOTSUP if the instruction is not decoded or does not store to
 * fault_addr.
 */
int softhca_store_decode(const ucontext_t *uc, uint64_t fault_addr, struct softhca_store *out_p);

#endif
