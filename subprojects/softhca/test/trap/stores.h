/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TEST_STORES_H
#define SOFTHCA_TEST_STORES_H

/* Store instructions to execute, one of each form. The test sets the registers before. */

#include <stdint.h>

#define LOW_PAGE 0x10000000 /* reachable with an absolute 32-bit address */

enum isa { ISA_BASE, ISA_AVX, ISA_AVX512, ISA_MOVBE, ISA_MOVDIR };

struct store_form {
	const uint8_t *start, *end;
	const char *text;
	uint32_t isa;
	uint32_t known; /* whether the decoder is expected to decode it */
};

/* Made by the linker for the section "store_forms". */
extern const struct store_form __start_store_forms[], __stop_store_forms[];

/* State that store_run() loads: registers in the order of their encoding. */
extern struct store_state {
	uint64_t gpr[16];
	uint8_t vec[32][64];
	uint64_t vec_isa; /* ISA_BASE: XMM only; ISA_AVX; ISA_AVX512 */
	uint64_t vec_clear; /* whether to clear the upper halves, by VZEROUPPER */
} store_state;

extern uint8_t store_page[8192];

/* Loads store_state, executes one form (which may fault and be repeated), and returns. */
void store_run(const uint8_t *start);

#endif
