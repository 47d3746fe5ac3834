/* SPDX-License-Identifier: MIT */
/* The function that this library's function of the same name stands in front of. */
#ifndef SOFTHCA_SHIM_REAL_H
#define SOFTHCA_SHIM_REAL_H

#include <dlfcn.h>
#include <stdlib.h>

/*
 * Every thread finds the same address, so looking it up twice at once is harmless. A
 * libc without the symbol cannot have a program that calls it.
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
