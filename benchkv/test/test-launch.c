/* SPDX-License-Identifier: MIT */
/*
 * Tests launch_get() and launch_fence(): here PMIx_Get_nb() answers at once, with the value of a
 * case, and PMIx_Fence_nb() returns the status of a case.
 */
#include <errno.h>
#include <pmix.h>
#include <stdlib.h>

#include "base/clock.h"
#include "support/test.h"
#include "launch.h"

static pmix_value_t *answer;

pmix_status_t __wrap_PMIx_Get_nb(const pmix_proc_t *proc, const char *key, const pmix_info_t *info,
	size_t n_info, pmix_value_cbfunc_t fn, void *arg);

pmix_status_t __wrap_PMIx_Get_nb(const pmix_proc_t *proc, const char *key, const pmix_info_t *info,
	size_t n_info, pmix_value_cbfunc_t fn, void *arg)
{
	CHECK(proc->rank == 3 && strstr(key, "key"));
	fn(PMIX_SUCCESS, answer, arg);
	return PMIX_SUCCESS;
}

static pmix_status_t fence;

pmix_status_t __wrap_PMIx_Fence_nb(const pmix_proc_t *procs, size_t n, const pmix_info_t *info,
	size_t n_info, pmix_op_cbfunc_t fn, void *arg);
pmix_status_t __wrap_PMIx_Put(pmix_scope_t scope, const char *key, pmix_value_t *value);
pmix_status_t __wrap_PMIx_Commit(void);

pmix_status_t __wrap_PMIx_Fence_nb(const pmix_proc_t *procs, size_t n, const pmix_info_t *info,
	size_t n_info, pmix_op_cbfunc_t fn, void *arg)
{
	if (fence == PMIX_SUCCESS)
		fn(PMIX_SUCCESS, arg);
	return fence;
}

pmix_status_t __wrap_PMIx_Put(pmix_scope_t scope, const char *key, pmix_value_t *value)
{
	return PMIX_SUCCESS;
}

pmix_status_t __wrap_PMIx_Commit(void)
{
	return PMIX_SUCCESS;
}

static int get(void **data_p, size_t *len_p)
{
	struct launch l = {.size = 4};

	return launch_get(&l, 3, "key", 0, NSEC_PER_SEC, data_p, len_p);
}

TEST(bytes)
{
	char bytes[] = "bytes";
	pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = {bytes, 5}};
	void *data = NULL;
	size_t len = 0;

	answer = &value;
	CHECK_EQ(get(&data, &len), 0);
	CHECK(len == 5 && !memcmp(data, bytes, 5));
	free(data);
}

/* The error is not that of a lack of memory. */
TEST(no_bytes)
{
	pmix_value_t value = {.type = PMIX_UINT64, .data.uint64 = 5};
	void *data;
	size_t len;

	answer = &value;
	CHECK_EQ(get(&data, &len), -EPROTO);
	answer = NULL;
	CHECK_EQ(get(&data, &len), -EPROTO);
}

/* PMIx may make a fence at once, and then does not call the function. */
TEST(fences)
{
	static const struct {
		pmix_status_t status;
		int err;
	} cases[] = {{PMIX_SUCCESS, 0}, {PMIX_OPERATION_SUCCEEDED, 0}, {PMIX_ERROR, -EPROTO}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct launch l = {.size = 4};

		fence = cases[i].status;
		CHECK_EQ(launch_fence(&l, NSEC_PER_SEC), cases[i].err);
		CHECK(cases[i].err ? !l.met_ns : l.met_ns > 0);
	}
}
