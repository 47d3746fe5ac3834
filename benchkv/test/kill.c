/* SPDX-License-Identifier: MIT */
/*
 * benchkv that is killed in the middle of its start: these functions stand before those of
 * the libraries. BENCHKV_KILL_AT=N ends the rank BENCHKV_KILL_RANK by SIGKILL instead of
 * the N-th call of any of them, counted from 1; with fewer calls it lives. With BENCHKV_STOP_NAMED
 * a rank stops itself, until SIGCONT, where its first region is about to lose its name.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pmix.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* BENCHKV_HOLD_FENCE=N: that rank stops itself instead of its N-th fence, until SIGCONT. */
static void hold(void)
{
	static int fences;
	const char *at = getenv("BENCHKV_HOLD_FENCE"), *victim = getenv("BENCHKV_KILL_RANK");
	const char *rank = getenv("PMIX_RANK");

	if (at && rank && victim && !strcmp(rank, victim) && ++fences == atoi(at))
		raise(SIGSTOP);
}

static void point(void)
{
	static atomic_int calls;
	const char *at = getenv("BENCHKV_KILL_AT"), *victim = getenv("BENCHKV_KILL_RANK");
	const char *rank = getenv("PMIX_RANK");

	if (!at || strcmp(rank ? rank : "0", victim ? victim : "0"))
		return;
	/* Relaxed: only the number counts. */
	if (atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1 == atoi(at))
		kill(getpid(), SIGKILL);
}

/* The library's function of that name. */
static void *next(const char *name)
{
	point();
	return dlsym(RTLD_NEXT, name);
}

int shm_open(const char *name, int flags, mode_t mode)
{
	int (*real)(const char *, int, mode_t) =
		(int (*)(const char *, int, mode_t))next("shm_open");

	return real(name, flags, mode);
}

int shm_unlink(const char *name)
{
	int (*real)(const char *) = (int (*)(const char *))next("shm_unlink");
	static atomic_flag stopped = ATOMIC_FLAG_INIT;

	if (getenv("BENCHKV_STOP_NAMED") && !atomic_flag_test_and_set(&stopped))
		kill(getpid(), SIGSTOP);
	return real(name);
}

int posix_fallocate(int fd, off_t from, off_t len)
{
	int (*real)(int, off_t, off_t) = (int (*)(int, off_t, off_t))next("posix_fallocate");

	return real(fd, from, len);
}

pmix_status_t PMIx_Commit(void)
{
	pmix_status_t (*real)(void) = (pmix_status_t(*)(void))next("PMIx_Commit");

	return real();
}

pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t n, const pmix_info_t info[],
	size_t n_info, pmix_op_cbfunc_t fn, void *arg)
{
	pmix_status_t (*real)(const pmix_proc_t[], size_t, const pmix_info_t[], size_t,
		pmix_op_cbfunc_t, void *) = (pmix_status_t(*)(const pmix_proc_t[], size_t,
		const pmix_info_t[], size_t, pmix_op_cbfunc_t, void *))next("PMIx_Fence_nb");

	hold();
	return real(procs, n, info, n_info, fn, arg);
}
