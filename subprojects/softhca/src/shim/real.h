/* SPDX-License-Identifier: MIT */
/* The function that a function of this library interposes. */
#ifndef SOFTHCA_SHIM_REAL_H
#define SOFTHCA_SHIM_REAL_H

#include <dlfcn.h>
#include <stdlib.h>

/*
 * Every thread finds the same address, so concurrent look-ups are harmless. The symbol exists:
 * otherwise no program could call the interposed function.
 */
#define REAL(name)                                                                                 \
	({                                                                                         \
		static __typeof__(&name) real_;                                                    \
		__typeof__(&name) f_ = __atomic_load_n(&real_, __ATOMIC_RELAXED);                  \
		if (!f_) {                                                                         \
			f_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                           \
			if (!f_)                                                                   \
				abort();                                                           \
			__atomic_store_n(&real_, f_, __ATOMIC_RELAXED);                            \
		}                                                                                  \
		f_;                                                                                \
	})

#define EXPORT __attribute__((visibility("default")))

#endif
