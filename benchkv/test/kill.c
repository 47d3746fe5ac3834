/* SPDX-License-Identifier: MIT */
/*
 * benchkv that is killed in the middle of its start. These functions are called instead of those of
 * the libraries. With BENCHKV_KILL_AT=N, the rank BENCHKV_KILL_RANK is ended by SIGKILL at the N-th
 * call of any of them, counted from 1; if there are fewer calls, it is not killed. With
 * BENCHKV_STOP_NAMED a rank stops itself, until SIGCONT, just before it removes the name of its
 * first region.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pmix.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns true if this is the chosen rank, and the variable has the number `count`. */
static bool chosen(const char *variable, int count)
{
	const char *at = getenv(variable), *victim = getenv("BENCHKV_KILL_RANK");
	const char *rank = getenv("PMIX_RANK");

	return at && !strcmp(rank ? rank : "0", victim ? victim : "0") && count == atoi(at);
}

/* Counts a call of a replaced function. Kills the process if it is the chosen call. */
static void point(void)
{
	static atomic_int calls;

	/* Relaxed: no other data depends on it. */
	if (chosen("BENCHKV_KILL_AT",
		    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1))
		kill(getpid(), SIGKILL);
}

/* Counts a call, and returns the library's function with this name. */
static void *next(const char *name)
{
	point();
	return dlsym(RTLD_NEXT, name);
}

int shm_open(const char *name, int flags, mode_t mode)
{
	__typeof__(shm_open) *real = (__typeof__(real))next("shm_open");

	return real(name, flags, mode);
}

int shm_unlink(const char *name)
{
	__typeof__(shm_unlink) *real = (__typeof__(real))next("shm_unlink");
	static atomic_flag stopped = ATOMIC_FLAG_INIT;

	if (getenv("BENCHKV_STOP_NAMED") && !atomic_flag_test_and_set(&stopped))
		kill(getpid(), SIGSTOP);
	return real(name);
}

int fallocate(int fd, int mode, off_t from, off_t len)
{
	__typeof__(fallocate) *real = (__typeof__(real))next("fallocate");

	return real(fd, mode, from, len);
}

pmix_status_t PMIx_Commit(void)
{
	__typeof__(PMIx_Commit) *real = (__typeof__(real))next("PMIx_Commit");

	return real();
}

pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t n, const pmix_info_t info[],
	size_t n_info, pmix_op_cbfunc_t fn, void *arg)
{
	__typeof__(PMIx_Fence_nb) *real = (__typeof__(real))next("PMIx_Fence_nb");
	static int fences;

	/*
	 * BENCHKV_HOLD_FENCE=N: the chosen rank stops itself before its N-th fence, until SIGCONT.
	 */
	if (chosen("BENCHKV_HOLD_FENCE", ++fences))
		raise(SIGSTOP);
	return real(procs, n, info, n_info, fn, arg);
}
