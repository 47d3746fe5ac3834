/* SPDX-License-Identifier: MIT */
/* Layout of store_state: 16 * 8 bytes, 32 * 64 bytes, two times 8 bytes; see stores.h. */
	.set	VEC, 128
	.set	VEC_ISA, VEC + 32 * 64
	.set	VEC_CLEAR, VEC_ISA + 8

	.section .note.GNU-stack, "", @progbits
	.section .bss
	.balign	64
	.globl	store_state
store_state:
	.zero	VEC_CLEAR + 8
saved_rsp:
	.zero	8
target:
	.zero	8
	.balign	4096
	.globl	store_page
store_page:
	.zero	8192

	/* Loads the first 16 vector registers from the state at RAX. */
	.macro	LOAD insn, reg
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	\insn	VEC + \n * 64(%rax), %\reg\n
	.endr
	.endm

	.text
	.globl	store_run
	.type	store_run, @function
store_run:
	.irp	reg, rbx, rbp, r12, r13, r14, r15
	push	%\reg
	.endr
	mov	%rsp, saved_rsp(%rip)
	mov	%rdi, target(%rip)
	lea	store_state(%rip), %rax
	cmpq	$1, VEC_ISA(%rax)
	je	1f
	ja	2f
	LOAD	movups, xmm
	jmp	4f
1:
	LOAD	vmovups, ymm
	jmp	3f
2:
	LOAD	vmovups, zmm
	.irp	n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	vmovups	VEC + \n * 64(%rax), %zmm\n
	.endr
	mov	$0x5555, %ecx
	kmovw	%ecx, %k1
3:
	cmpq	$0, VEC_CLEAR(%rax)
	je	4f
	vzeroupper
4:
	.set	n, 1
	.irp	reg, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
	mov	n * 8(%rax), %\reg
	.set	n, n + 1
	.endr
	mov	(%rax), %rax
	jmp	*target(%rip)
form_done:
	mov	saved_rsp(%rip), %rsp
	cmpq	$0, store_state + VEC_ISA(%rip)
	je	1f
	vzeroupper
1:
	.irp	reg, r15, r14, r13, r12, rbp, rbx
	pop	%\reg
	.endr
	ret
	.size	store_run, . - store_run

	.macro	FORM isa, known, text:vararg
	.text
7:	\text
8:	jmp	form_done
	.section .rodata
9:	.asciz	"\text"
	.section store_forms, "aw"
	.quad	7b, 8b, 9b
	.long	\isa, \known
	.text
	.endm
	.macro	BASE text:vararg
	FORM	0, 1, \text
	.endm
	.macro	AVX text:vararg
	FORM	1, 1, \text
	.endm
	.macro	A512 text:vararg
	FORM	2, 1, \text
	.endm

/* RDI, RBX, RBP, RSP, R12, R13 hold addresses in the page; RCX and R9 small indices. */

	/* Every way to write an address. */
	BASE	movl %eax, (%rdi)
	BASE	movl %eax, 0x7f(%rdi)
	BASE	movl %eax, -0x80(%rdi)
	BASE	movl %eax, 0x180(%rdi)
	BASE	movl %eax, (%rbp)
	BASE	movl %eax, 8(%rbp)
	BASE	movl %eax, (%rsp)
	BASE	movl %eax, -8(%rsp)
	BASE	movl %eax, 0x100(%rsp)
	BASE	movl %eax, (%r12)
	BASE	movl %eax, 4(%r12)
	BASE	movl %eax, (%r13)
	BASE	movl %eax, -0x200(%r13)
	BASE	movl %eax, (%rdi, %rcx)
	BASE	movl %eax, (%rdi, %rcx, 8)
	BASE	movl %eax, 0x11(%rbx, %r9, 4)
	BASE	movl %eax, -0x111(%r12, %r9, 2)
	BASE	movl %eax, (%r13, %rcx, 1)
	BASE	movl %eax, (%rbp, %rcx, 2)
	BASE	movl %eax, (%rsp, %rcx, 2)
	BASE	movl %eax, 0x10000000 + 1024
	BASE	movl %eax, 0x10000000 + 1024(, %rcx, 8)
	BASE	movl %eax, store_page + 1023(%rip)
	BASE	movq $-7, store_page + 1023(%rip)
	BASE	movw $0x1234, store_page + 1023(%rip)
	BASE	movb $0x77, store_page + 1023(%rip)
	BASE	movups %xmm9, store_page + 1040(%rip)

	/* General registers. */
	BASE	movb %al, (%rdi)
	BASE	movb %dl, 3(%rdi)
	BASE	movb %ah, (%rdi)
	BASE	movb %ch, (%rdi)
	BASE	movb %dh, (%rdi)
	BASE	movb %bh, (%rdi)
	BASE	movb %sil, (%rdi)
	BASE	movb %dil, (%rdi)
	BASE	movb %spl, (%rdi)
	BASE	movb %bpl, (%rdi)
	BASE	movb %r8b, (%rdi)
	BASE	movb %r15b, (%r12)
	BASE	movw %ax, (%rdi)
	BASE	movw %r10w, (%rdi, %rcx, 4)
	BASE	movl %edx, (%rdi)
	BASE	movl %r11d, (%rdi)
	BASE	movq %rax, (%rdi)
	BASE	movq %rdx, 0x38(%rdi)
	BASE	movq %rsp, (%rdi)
	BASE	movq %rdi, (%rdi)
	BASE	movq %r15, (%r13, %r9, 8)
	BASE	movnti %eax, (%rdi)
	BASE	movnti %r14, 0x40(%rdi)

	/* Immediates. */
	BASE	movb $0x80, (%rdi)
	BASE	movb $-1, 0x21(%rdi, %rcx)
	BASE	movw $0x8001, (%rdi)
	BASE	movl $0x89abcdef, (%rdi)
	BASE	movq $0x7fffffff, (%rdi)
	BASE	movq $-0x80000000, 0x100(%r12)

	FORM	3, 1, movbe %ax, (%rdi)
	FORM	3, 1, movbe %r10d, (%rdi)
	FORM	3, 1, movbe %rdx, 8(%rdi)
	FORM	4, 1, movdiri %eax, (%rdi)
	FORM	4, 1, movdiri %r11, 8(%rdi)

	/* SSE. */
	BASE	movups %xmm0, (%rdi)
	BASE	movups %xmm15, 3(%rdi, %rcx)
	BASE	movupd %xmm1, (%rdi)
	BASE	movss %xmm2, (%rdi)
	BASE	movsd %xmm3, (%rdi)
	BASE	movlps %xmm4, (%rdi)
	BASE	movlpd %xmm5, (%rdi)
	BASE	movhps %xmm6, (%rdi)
	BASE	movhpd %xmm7, (%rdi)
	BASE	movaps %xmm8, 0x10(%rdi)
	BASE	movapd %xmm9, -0x10(%rdi)
	BASE	movntps %xmm10, (%rdi)
	BASE	movntpd %xmm11, (%r12)
	BASE	movd %xmm12, (%rdi)
	BASE	movd %xmm1, (%rdi)
	.macro	MOVQ_7E
	/* The form with opcode 7E; an assembler would choose D6. */
	FORM	0, 1, .byte 0x66, 0x48, 0x0f, 0x7e, 0x2f
	.endm
	MOVQ_7E
	BASE	movq %xmm13, (%rdi)
	BASE	movdqa %xmm14, (%rdi)
	BASE	movdqu %xmm15, 5(%rdi)
	BASE	movntdq %xmm0, (%rdi)

	/* AVX, two- and three-byte prefixes. */
	AVX	vmovups %xmm0, (%rdi)
	AVX	vmovups %ymm15, 1(%rdi)
	AVX	vmovups %ymm1, (%r12, %r9, 4)
	AVX	vmovupd %ymm2, (%rdi)
	AVX	vmovss %xmm3, (%rdi)
	AVX	vmovsd %xmm4, (%r13)
	AVX	vmovlps %xmm5, (%rdi)
	AVX	vmovlpd %xmm6, (%rdi)
	AVX	vmovhps %xmm7, (%rdi)
	AVX	vmovhpd %xmm8, (%r12)
	AVX	vmovaps %ymm9, 0x20(%rdi)
	AVX	vmovapd %xmm10, (%rdi)
	AVX	vmovntps %ymm11, (%rdi)
	AVX	vmovntpd %ymm12, (%rdi)
	AVX	vmovd %xmm13, (%rdi)
	AVX	vmovq %xmm14, (%rdi)
	FORM	1, 1, .byte 0xc4, 0xe1, 0xf9, 0x7e, 0x1f /* vmovq %xmm3, (%rdi), 7E form */
	AVX	vmovdqa %ymm15, (%rdi)
	AVX	vmovdqu %ymm0, 9(%rdi)
	AVX	vmovdqu %xmm9, (%rdi, %rcx)
	AVX	vmovntdq %ymm1, (%rdi)

	/* AVX-512, with and without the scaled displacement. */
	A512	vmovups %zmm0, (%rdi)
	A512	vmovups %zmm31, 0x40(%rdi)
	A512	vmovups %zmm15, -0x40(%rdi)
	A512	vmovups %zmm16, 0x41(%rdi)
	A512	vmovups %xmm17, 0x10(%rdi)
	A512	vmovups %ymm18, 0x20(%r12)
	A512	vmovups %ymm19, 0x21(%r12, %r9, 4)
	A512	vmovupd %zmm20, 0x80(%r13, %rcx, 8)
	A512	vmovss %xmm21, 4(%rdi)
	A512	vmovsd %xmm22, 8(%rdi)
	A512	vmovlps %xmm23, 8(%rdi)
	A512	vmovlpd %xmm24, -8(%rdi)
	A512	vmovhps %xmm25, 16(%rdi)
	A512	vmovhpd %xmm26, 24(%rdi)
	A512	vmovaps %zmm27, 0x40(%rdi)
	A512	vmovapd %ymm28, (%rdi)
	A512	vmovntps %zmm29, (%rdi)
	A512	vmovntpd %zmm30, -0x80(%rdi)
	A512	vmovd %xmm31, 4(%rdi)
	A512	vmovq %xmm16, 8(%rdi)
	A512	vmovdqa32 %zmm1, (%rdi)
	A512	vmovdqa64 %ymm17, 0x20(%rdi)
	A512	vmovdqu8 %zmm2, 0x40(%rdi)
	A512	vmovdqu8 %xmm18, 1(%rdi)
	A512	vmovdqu16 %ymm19, 0x20(%rdi)
	A512	vmovdqu32 %zmm20, (%rdi)
	A512	vmovdqu64 %zmm21, store_page + 1100(%rip)
	A512	vmovntdq %zmm22, 0xc0(%rdi)
	A512	vmovntdq %ymm23, (%rdi)

	/* Not decoded, but left to the processor. */
	FORM	0, 0, stosb
	FORM	0, 0, stosq
	FORM	0, 0, rep stosb
	FORM	0, 0, movsb (%rsi), (%rdi)
	FORM	0, 0, rep movsb
	FORM	0, 0, rep movsq
	FORM	0, 0, addl %eax, (%rdi)
	FORM	0, 0, addb $1, (%rdi)
	FORM	0, 0, xchgl %eax, (%rdi)
	FORM	0, 0, lock xaddl %eax, (%rdi)
	FORM	0, 0, incl (%rdi)
	FORM	0, 0, pushq (%rdi)
	FORM	0, 0, movl (%rdi), %eax
	FORM	0, 0, addr32 movl %eax, 0x10000000 + 1024
	FORM	0, 0, movups (%rdi), %xmm0
	FORM	0, 0, sete (%rdi)
	FORM	0, 0, fstpl (%rdi)
	FORM	1, 0, vextractf128 $1, %ymm0, (%rdi)
	FORM	2, 0, vmovups %zmm0, (%rdi){%k1}
	FORM	2, 0, vmovdqu8 %zmm3, 0x40(%rdi){%k1}
	FORM	4, 0, movdir64b (%rsi), %rdi
