/* SPDX-License-Identifier: MIT */
/* Calls of functions of the software HCA (softhca.h), which is preloaded, not linked. */
#ifndef SUPPORT_HCACALL_H
#define SUPPORT_HCACALL_H

#include <dlfcn.h>

#include "softhca.h"
#include "support/test.h"

static inline void *hca_function(const char *name)
{
	void *fn = dlsym(RTLD_DEFAULT, name);

	CHECK(fn);
	return fn;
}

/* For example: HCA(softhca_link_set)("mlx5_0", true) */
#define HCA(name) ((__typeof__(name) *)hca_function(#name))

/* The HCA's counters for this process. */
static inline struct softhca_counters hca_counters(void)
{
	struct softhca_counters c;

	CHECK_EQ(HCA(softhca_counters_self)(&c), 0);
	return c;
}

/* Adds a fault rule, and returns its number. */
static inline int hca_fault(const char *rule)
{
	int number = HCA(softhca_fault_add)(rule);

	if (number <= 0)
		printf("%s\n", rule);
	CHECK(number > 0);
	return number;
}

#endif
