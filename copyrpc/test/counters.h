/* SPDX-License-Identifier: MIT */
/* The counters of the software HCA. */
#ifndef COPYRPC_TEST_COUNTERS_H
#define COPYRPC_TEST_COUNTERS_H

#include <dlfcn.h>

#include "support/test.h"
#include "softhca.h"

/* The HCA's counters for this process. */
static inline struct softhca_counters hca_counters(void)
{
	int (*self)(struct softhca_counters *);
	struct softhca_counters c;

	*(void **)&self = dlsym(RTLD_DEFAULT, "softhca_counters_self");
	CHECK(self);
	CHECK_EQ(self(&c), 0);
	return c;
}

static inline uint64_t hca_wqes(const struct softhca_counters *c)
{
	uint64_t n = 0;

	for (int i = 0; i < SOFTHCA_OPCODES; i++)
		n += c->wqes[i];
	return n;
}

#endif
