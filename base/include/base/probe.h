/* SPDX-License-Identifier: MIT */
/*
 * Static trace points (USDT), which perf, bpftrace, SystemTap and gdb find in the ELF notes of a
 * program or library. docs/observability.md lists them.
 *
 *	PROBE(copyrpc, batch_posted, ep->qpn, count, bytes);
 *
 * A trace point is one nop instruction and an ELF note that describes where its arguments are. An
 * argument should be a constant, a field, or a value that the code has computed anyway; then it
 * adds no instruction. Without <sys/sdt.h>, or with the option usdt=disabled, a trace point
 * compiles to nothing.
 */
#ifndef BASE_PROBE_H
#define BASE_PROBE_H

#ifdef WITH_USDT
#include <sys/sdt.h>
#define PROBE_SIXTH(a, b, c, d, e, n, ...) n
/*
 * Like DTRACE_PROBE1() to DTRACE_PROBE5(), but with `__inline__`. Without that keyword the compiler
 * counts one instruction for each line of the asm statement, about seventy, and then does not
 * inline the function around it.
 */
#define PROBE_N(layer, name, n, args)                                                              \
	do {                                                                                       \
		__asm__ __volatile__ __inline__(_SDT_ASM_BODY(layer, name, _SDT_ASM_ARGS,          \
			(n))::_SDT_ASM_OPERANDS_##n args);                                         \
		__asm__ __volatile__ __inline__(_SDT_ASM_BASE);                                    \
	} while (0)
#define PROBE_EXPAND(layer, name, n, args) PROBE_N(layer, name, n, args)
/* Defines a trace point with one to five arguments. */
#define PROBE(layer, name, ...)                                                                    \
	PROBE_EXPAND(layer, name, PROBE_SIXTH(__VA_ARGS__, 5, 4, 3, 2, 1, ), (__VA_ARGS__))
#else
/* The arguments are compiled and not evaluated. */
static inline void probe_nothing(int dummy, ...)
{
}
#define PROBE(layer, name, ...) ((void)sizeof(probe_nothing(0, __VA_ARGS__), 0))
#endif

#endif
