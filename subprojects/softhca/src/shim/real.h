/* SPDX-License-Identifier: MIT */
/* Finds the function that a function of this library replaces. */
#ifndef SOFTHCA_SHIM_REAL_H
#define SOFTHCA_SHIM_REAL_H

#include <dlfcn.h>
#include <stdlib.h>

/*
 * Every thread finds the same address, so concurrent look-ups are harmless. The symbol always
 * exists, because a program has called it.
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
