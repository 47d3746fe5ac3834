/* SPDX-License-Identifier: MIT */
#include "trap/decode_x86.h"

#include <cpuid.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define INSN_MAX 15

/* Encodings, one bit each: a form may allow several. */
enum { LEGACY = 1, VEX = 2, EVEX = 4, VECTOR = VEX | EVEX, ANY = LEGACY | VECTOR };

/* Mandatory prefixes as VEX.pp numbers them; a form allows a set of these bits. */
enum { NP = 1 << 0, P66 = 1 << 1, PF3 = 1 << 2, PF2 = 1 << 3 };

enum source {
	GPR8, /* low byte of a general register, or AH..BH */
	GPR, /* 2, 4 or 8 bytes by operand size */
	GPR_SWAP, /* as GPR, with the bytes reversed (MOVBE) */
	IMM8,
	IMM, /* 2 or 4 bytes; 4 bytes are sign-extended for a store of 8 */
	VEC_FULL, /* the whole vector */
	VEC_FIXED, /* the low bytes of the vector; their number is `size` */
	VEC_DQ, /* the low 4 or 8 bytes of the vector, by W */
	VEC_HIGH, /* bytes 8 to 15 of the vector */
};

static const struct form {
	uint8_t map; /* 0: one byte, 1: 0F, 2: 0F38 */
	uint8_t opcode;
	uint8_t prefixes;
	uint8_t encodings;
	uint8_t source;
	uint8_t size; /* of a store whose source is VEC_FIXED or VEC_HIGH */
} forms[] = {
	{0, 0x88, NP, LEGACY, GPR8, 0}, {0, 0x89, NP | P66, LEGACY, GPR, 0},
	{0, 0xc6, NP, LEGACY, IMM8, 0}, {0, 0xc7, NP | P66, LEGACY, IMM, 0},
	{1, 0xc3, NP, LEGACY, GPR, 0}, /* movnti */
	{2, 0xf1, NP | P66, LEGACY, GPR_SWAP, 0}, /* movbe */
	{2, 0xf9, NP, LEGACY, GPR, 0}, /* movdiri */
	{1, 0x11, NP | P66, ANY, VEC_FULL, 0}, /* movups, movupd */
	{1, 0x11, PF3, ANY, VEC_FIXED, 4}, /* movss */
	{1, 0x11, PF2, ANY, VEC_FIXED, 8}, /* movsd */
	{1, 0x13, NP | P66, ANY, VEC_FIXED, 8}, /* movlps, movlpd */
	{1, 0x17, NP | P66, ANY, VEC_HIGH, 8}, /* movhps, movhpd */
	{1, 0x29, NP | P66, ANY, VEC_FULL, 0}, /* movaps, movapd */
	{1, 0x2b, NP | P66, ANY, VEC_FULL, 0}, /* movntps, movntpd */
	{1, 0x7e, P66, ANY, VEC_DQ, 0}, /* movd, movq */
	{1, 0x7f, P66 | PF3, ANY, VEC_FULL, 0}, /* movdqa, movdqu */
	{1, 0x7f, PF2, EVEX, VEC_FULL, 0}, /* vmovdqu8, vmovdqu16 */
	{1, 0xd6, P66, ANY, VEC_FIXED, 8}, /* movq */
	{1, 0xe7, P66, ANY, VEC_FULL, 0}, /* movntdq */
};

struct insn {
	const uint8_t *start, *p; /* p: next byte */
	uint8_t encoding;
	uint8_t prefix; /* one of NP, P66, PF3, PF2 */
	uint8_t map, opcode;
	uint8_t vector; /* 16, 32 or 64 bytes */
	bool has_rex, w, opsize16;
	uint8_t reg_hi, index_hi, base_hi; /* added to register numbers: 0 or 8; reg_hi: up to 24 */
	uint8_t mod, reg, rm;
	const struct form *form;
	uint8_t size; /* of the store */
};

static const uint8_t greg_of[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI,
	REG_RDI, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

static uint64_t greg(const ucontext_t *uc, unsigned int n)
{
	return (uint64_t)uc->uc_mcontext.gregs[greg_of[n]];
}

/* Segment, lock and address-size prefixes are not decoded. */
static bool legacy_prefixes(struct insn *in)
{
	bool f3 = false, f2 = false;

	for (; in->p - in->start < INSN_MAX; in->p++) {
		if (*in->p == 0x66)
			in->opsize16 = true;
		else if (*in->p == 0xf3)
			f3 = true;
		else if (*in->p == 0xf2)
			f2 = true;
		else
			break;
	}
	if (f2 && f3)
		return false;
	in->prefix = f2 ? PF2 : f3 ? PF3 : in->opsize16 ? P66 : NP;
	return true;
}

static void legacy_opcode(struct insn *in)
{
	in->encoding = LEGACY;
	in->vector = 16;
	if ((*in->p & 0xf0) == 0x40) {
		in->has_rex = true;
		in->w = *in->p & 8;
		in->reg_hi = (*in->p & 4) << 1;
		in->index_hi = (*in->p & 2) << 2;
		in->base_hi = (*in->p & 1) << 3;
		in->p++;
	}
	if (*in->p == 0x0f) {
		in->p++;
		in->map = 1;
		if (*in->p == 0x38) {
			in->p++;
			in->map = 2;
		}
	}
	in->opcode = *in->p++;
}

static bool vex_opcode(struct insn *in, bool three_bytes)
{
	uint8_t first = *in->p++, last = three_bytes ? *in->p++ : first;

	in->encoding = VEX;
	in->map = three_bytes ? first & 0x1f : 1;
	in->reg_hi = first & 0x80 ? 0 : 8;
	if (three_bytes) {
		in->index_hi = first & 0x40 ? 0 : 8;
		in->base_hi = first & 0x20 ? 0 : 8;
		in->w = last & 0x80;
	}
	in->vector = last & 4 ? 32 : 16;
	in->prefix = (uint8_t)(1 << (last & 3));
	in->opcode = *in->p++;
	return (last & 0x78) == 0x78; /* stores have no second source */
}

static bool evex_opcode(struct insn *in)
{
	uint8_t p0 = in->p[0], p1 = in->p[1], p2 = in->p[2];
	unsigned int length = p2 >> 5 & 3;

	in->encoding = EVEX;
	in->map = p0 & 7;
	in->reg_hi = (uint8_t)((p0 & 0x80 ? 0 : 8) | (p0 & 0x10 ? 0 : 16));
	in->index_hi = p0 & 0x40 ? 0 : 8;
	in->base_hi = p0 & 0x20 ? 0 : 8;
	in->w = p1 & 0x80;
	in->prefix = (uint8_t)(1 << (p1 & 3));
	in->vector = (uint8_t)(16 << length);
	in->opcode = in->p[3];
	in->p += 4;
	/* Checks the fixed bits, and that there is no second source, mask, zeroing or broadcast. */
	return !(p0 & 8) && (p1 & 0x7c) == 0x7c && (p2 & 0x9f) == 0x08 && length < 3;
}

static bool decode_opcode(struct insn *in)
{
	if (!legacy_prefixes(in))
		return false;
	switch (*in->p) {
	case 0xc4:
	case 0xc5:
	case 0x62:
		if (in->p != in->start)
			return false; /* no other prefix may precede these */
		break;
	default:
		legacy_opcode(in);
		return true;
	}
	switch (*in->p++) {
	case 0xc4:
		return vex_opcode(in, true);
	case 0xc5:
		return vex_opcode(in, false);
	default:
		return evex_opcode(in);
	}
}

static bool find_form(struct insn *in)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const struct form *f = &forms[i];

		if (f->map != in->map || f->opcode != in->opcode || !(f->prefixes & in->prefix) ||
			!(f->encodings & in->encoding))
			continue;
		in->form = f;
		return true;
	}
	return false;
}

static uint8_t store_size(const struct insn *in)
{
	switch (in->form->source) {
	case GPR8:
	case IMM8:
		return 1;
	case VEC_FULL:
		return in->vector;
	case VEC_DQ:
		return in->w ? 8 : 4;
	case VEC_FIXED:
	case VEC_HIGH:
		return in->form->size;
	default:
		return in->w ? 8 : in->opsize16 ? 2 : 4;
	}
}

static int32_t read_disp32(struct insn *in)
{
	int32_t d;

	memcpy(&d, in->p, sizeof(d));
	in->p += sizeof(d);
	return d;
}

static unsigned int imm_length(const struct insn *in)
{
	if (in->form->source == IMM8)
		return 1;
	if (in->form->source == IMM)
		return in->opsize16 && !in->w ? 2 : 4;
	return 0;
}

/*
 * Decodes base and index of a SIB byte, and returns their sum. Sets *base_p if the sum includes a
 * base register.
 */
static uint64_t decode_sib(struct insn *in, const ucontext_t *uc, bool *base_p)
{
	uint8_t sib = *in->p++;
	unsigned int index = (sib >> 3 & 7u) | in->index_hi, base = sib & 7;
	uint64_t ea = 0;

	if (index != 4) /* RSP cannot be an index: its number means none */
		ea = greg(uc, index) << (sib >> 6);
	*base_p = base != 5 || in->mod;
	if (*base_p)
		ea += greg(uc, base | in->base_hi);
	return ea;
}

/*
 * Decodes SIB and displacement, and returns the address of the store. in->p is then the address of
 * the immediate, or of the end.
 */
static uint64_t decode_address(struct insn *in, const ucontext_t *uc)
{
	bool base = true;
	uint64_t ea;

	if (in->rm == 4) {
		ea = decode_sib(in, uc, &base);
	} else if (in->rm == 5 && !in->mod) {
		ea = (uint64_t)(int64_t)read_disp32(in);
		/* Relative to the end of the instruction. */
		return ea + (uintptr_t)in->p + imm_length(in);
	} else {
		ea = greg(uc, in->rm | in->base_hi);
	}
	if (in->mod == 1) /* EVEX counts 8-bit displacements in units of the store's size */
		ea += (uint64_t)((int64_t)(int8_t)*in->p++ * (in->encoding == EVEX ? in->size : 1));
	else if (in->mod == 2 || !base)
		ea += (uint64_t)(int64_t)read_disp32(in);
	return ea;
}

/* Offsets in the signal frame's XSAVE area (Intel SDM volume 1, chapter 13). */
enum {
	FRAME_XMM = 160, /* 16 bytes a register */
	FRAME_SW = 464, /* Linux: magic, size, mask of the saved parts */
	FRAME_HEADER = 512, /* a mask of the parts that are not in their initial, all-zero state */
	FRAME_YMM_HIGH = 576, /* upper halves of the YMM registers, in the standard format */
	FRAME_MAGIC = 0x46505853,
};
enum { XSTATE_SSE = 1, XSTATE_AVX = 2, XSTATE_ZMM_HIGH = 6, XSTATE_ZMM16_31 = 7 };

/* CPUID takes long in a virtual machine, so it is executed once per part. */
static uint32_t xstate_offset(unsigned int part)
{
	static _Atomic uint32_t known[8];
	/* Relaxed: every thread stores the same value, and no other data depends on it. */
	uint32_t offset = atomic_load_explicit(&known[part], memory_order_relaxed);
	uint32_t eax, ecx, edx;

	if (!offset) {
		__cpuid_count(0xd, part, eax, offset, ecx, edx);
		atomic_store_explicit(&known[part], offset, memory_order_relaxed);
	}
	return offset;
}

/*
 * Copies @n bytes of part number @part of the frame, from byte @at on. If a part is in its initial
 * state, which is all zeros, the kernel need not have written it to the frame.
 */
static bool read_part(const uint8_t *frame, unsigned int part, size_t at, size_t n, uint8_t *out)
{
	uint64_t saved, in_use;
	uint32_t magic, offset;

	memcpy(&magic, frame + FRAME_SW, sizeof(magic));
	memcpy(&saved, frame + FRAME_SW + 8, sizeof(saved));
	memcpy(&in_use, frame + FRAME_HEADER, sizeof(in_use));
	if (magic != FRAME_MAGIC || !(saved >> part & 1))
		return false;
	if (part == XSTATE_SSE)
		offset = FRAME_XMM;
	else
		offset = part == XSTATE_AVX ? FRAME_YMM_HIGH : xstate_offset(part);
	if (in_use >> part & 1)
		memcpy(out, frame + offset + at, n);
	else
		memset(out, 0, n);
	return true;
}

static bool read_vector(const ucontext_t *uc, unsigned int reg, unsigned int length,
	uint8_t out[64])
{
	const uint8_t *frame = (const uint8_t *)uc->uc_mcontext.fpregs;

	if (!frame)
		return false;
	if (reg >= 16)
		return read_part(frame, XSTATE_ZMM16_31, (reg - 16) * 64, 64, out);
	if (!read_part(frame, XSTATE_SSE, reg * 16, 16, out))
		return false;
	if (length > 16 && !read_part(frame, XSTATE_AVX, reg * 16, 16, out + 16))
		return false;
	return length <= 32 || read_part(frame, XSTATE_ZMM_HIGH, reg * 32, 32, out + 32);
}

static void read_gpr(const struct insn *in, const ucontext_t *uc, uint8_t out[64])
{
	unsigned int reg = in->reg | in->reg_hi;
	uint64_t value;

	if (in->form->source == GPR8 && !in->has_rex && reg >= 4)
		value = greg(uc, reg - 4) >> 8; /* AH, CH, DH, BH */
	else
		value = greg(uc, reg);
	if (in->form->source == GPR_SWAP)
		value = __builtin_bswap64(value) >> (64 - 8 * in->size);
	memcpy(out, &value, sizeof(value));
}

/* The immediate is the last part of the instruction. */
static void read_imm(struct insn *in, uint8_t out[64])
{
	unsigned int n = imm_length(in);
	int64_t value;

	memcpy(out, in->p, n);
	in->p += n;
	if (in->size == 8) {
		value = (int64_t)(int32_t)(out[0] | out[1] << 8 | out[2] << 16 |
					   (uint32_t)out[3] << 24);
		memcpy(out, &value, sizeof(value));
	}
}

static bool read_source(struct insn *in, const ucontext_t *uc, uint8_t out[64])
{
	switch (in->form->source) {
	case GPR8:
	case GPR:
	case GPR_SWAP:
		read_gpr(in, uc, out);
		return true;
	case IMM8:
	case IMM:
		read_imm(in, out);
		return in->reg == 0; /* an opcode extension: 0 is MOV */
	case VEC_HIGH:
		if (!read_vector(uc, in->reg | in->reg_hi, 16, out))
			return false;
		memmove(out, out + 8, 8);
		return true;
	default:
		return read_vector(uc, in->reg | in->reg_hi, in->vector, out);
	}
}

int softhca_store_decode(const ucontext_t *uc, uint64_t fault_addr, struct softhca_store *out_p)
{
	struct insn in = {.start = (const uint8_t *)uc->uc_mcontext.gregs[REG_RIP]};
	struct softhca_store st = {0};
	uint8_t modrm;

	in.p = in.start;
	if (!decode_opcode(&in) || !find_form(&in))
		return -ENOTSUP;
	modrm = *in.p++;
	in.mod = modrm >> 6;
	in.reg = modrm >> 3 & 7;
	in.rm = modrm & 7;
	in.size = store_size(&in);
	if (in.mod == 3 || decode_address(&in, uc) != fault_addr)
		return -ENOTSUP;
	if (!read_source(&in, uc, st.bytes))
		return -ENOTSUP;
	st.length = (uint8_t)(in.p - in.start);
	st.size = in.size;
	*out_p = st;
	return 0;
}
